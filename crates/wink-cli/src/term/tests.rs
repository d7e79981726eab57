use std::sync::{Arc, Mutex};

use super::*;

#[test]
fn text_is_wrapped_between_words() {
    assert_eq!(wrapped("", 5, 0), [""]);
    assert_eq!(wrapped("one two", 7, 0), ["one two"]);
    assert_eq!(wrapped("one two", 6, 0), ["one", "two"]);
    assert_eq!(wrapped("a bb ccc dddd", 4, 0), ["a bb", "ccc", "dddd"]);
    assert_eq!(wrapped("größer als alle", 6, 0), ["größer", "als", "alle"]);
}

#[test]
fn the_first_line_has_less_room_beside_a_label() {
    assert_eq!(wrapped("one two three", 9, 3), ["one", "two three"]);
    assert_eq!(wrapped("three", 5, 2), ["", "three"]);
}

#[test]
fn a_word_longer_than_a_line_is_broken() {
    assert_eq!(wrapped("ab cdefghijk l", 4, 0), ["ab", "cdef", "ghij", "k l"]);
}

#[test]
fn what_does_not_fit_is_cut_with_a_mark() {
    assert_eq!(cut("whole", 5), "whole");
    assert_eq!(cut("whole thing", 7), "whole…");
    assert_eq!(cut("one\ntwo", 9), "one…");
}

/// What a screen shows, without colours.
fn shown(show: impl FnOnce(&mut Screen) -> io::Result<()>) -> String {
    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);
    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let page = Page::default();
    show(&mut Screen::over(page.clone())).unwrap();
    String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
}

#[test]
fn a_text_hangs_beside_the_first_part_of_its_label() {
    let label = [span("> ", PLAIN), span("word: ", PLAIN)];
    assert_eq!(shown(|screen| screen.labelled(&label, span("", PLAIN))), "   > word: \n");
    assert_eq!(
        shown(|screen| screen.labelled(&label, span("a\n\nb", PLAIN))),
        "   > word: a\n\n     b\n",
        "an empty line has no spaces"
    );
    let long = ["word"; 20].join(" ");
    let (first, second) = (["word"; 14].join(" "), ["word"; 6].join(" "));
    let expected = format!("   > word: {first}\n     {second}\n");
    assert_eq!(shown(|screen| screen.labelled(&label, span(long, PLAIN))), expected);
}

#[test]
fn columns_are_aligned_and_the_last_is_cut() {
    let row = |cells: [&str; 3]| cells.map(|cell| span(cell, PLAIN)).to_vec();
    let long = "x".repeat(90);
    let table = shown(|screen| screen.table(&[row(["a", "bb", "c"]), row(["aaa", "b", &long])]));
    assert_eq!(table, format!("   a    bb  c\n   aaa  b   {}…\n", "x".repeat(67)));
}
