use super::Output;

fn output(pieces: &[&[u8]], most: usize) -> Output {
    let mut output = Output::default();
    for piece in pieces {
        output.take(piece, most);
    }
    output
}

#[test]
fn what_fits_is_whole() {
    assert_eq!(output(&[b"one ", b"two"], 7).text(7), ("one two".to_owned(), false));
    assert_eq!(output(&[], 7).text(7), (String::new(), false));
}

#[test]
fn what_does_not_fit_is_counted_and_marked() {
    let cut = output(&[b"one ", b"two", b"!"], 7);
    assert_eq!((cut.bytes(), cut.total()), (&b"one two"[..], 8));
    assert_eq!(cut.text(100), ("one two\n[cut: this is the beginning of 8 bytes]".to_owned(), true));
}

#[test]
fn characters_are_not_cut_in_two() {
    // Three bytes each; the bound is in the third.
    let cut = output(&["€€€".as_bytes()], 8);
    assert_eq!(cut.text(100), ("€€\n[cut: this is the beginning of 9 bytes]".to_owned(), true));
    // By characters as well.
    let whole = output(&["€€€".as_bytes()], 9);
    assert_eq!(whole.text(3), ("€€€".to_owned(), false));
    assert_eq!(whole.text(2), ("€€\n[cut: this is the beginning of 9 bytes]".to_owned(), true));
    // Also where something else is no text at all.
    let cut = output(&[b"\xff", "€€".as_bytes()], 5);
    assert_eq!(cut.text(100), ("\u{fffd}€\n[cut: this is the beginning of 7 bytes]".to_owned(), true));
}

#[test]
fn what_is_no_text_is_shown() {
    assert_eq!(output(&[b"a\xffb"], 9).text(9), ("a\u{fffd}b".to_owned(), false));
}
