use proptest::prelude::*;

use super::*;

fn shown_bytes(bytes: &[u8]) -> String {
    shown(OsStr::from_bytes(bytes)).into_owned()
}

#[test]
fn only_what_is_not_text_is_escaped() {
    for (bytes, text) in [
        (&b"plain"[..], "plain"),
        ("日本é".as_bytes(), "日本é"),
        (b"caf\xe9", "caf\\xE9"),
        (b"\xff\xfe", "\\xFF\\xFE"),
        (b"back\\slash", "back\\slash"),
        (b"\\x41", "\\x41"),
        (b"\\xe9", "\\xe9"),
        (b"\\xE9", "\\x5CxE9"),
        (b"\\x5C", "\\x5Cx5C"),
        (b"\\\xe9", "\\\\xE9"),
        (b"\\x5\xe9", "\\x5\\xE9"),
    ] {
        assert_eq!(shown_bytes(bytes), text);
        assert_eq!(parse(text).unwrap().as_bytes(), bytes, "{text}");
    }
    for text in ["\\xC3\\xA9", "a\\x5C", "\\x5Cy"] {
        assert_eq!(parse(text), None, "{text} is another spelling of a name");
    }
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"\\".to_vec()),
        Just(b"x".to_vec()),
        Just(b"\\x".to_vec()),
        Just(b"5C".to_vec()),
        Just(b"E9".to_vec()),
        Just("é".as_bytes().to_vec()),
        prop::collection::vec(1u8..=255, 0..3),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn every_name_has_one_text(one in names(), two in names()) {
        let text = shown_bytes(&one);
        prop_assert_eq!(parse(&text).map(|name| name.as_bytes().to_vec()), Some(one.clone()));
        prop_assert_eq!(text == shown_bytes(&two), one == two);
    }

    #[test]
    fn every_text_has_at_most_one_name(text in "[\\\\xX5CcE9é日a]{0,12}") {
        if let Some(name) = parse(&text) {
            prop_assert_eq!(shown(&name), text.as_str());
        }
    }
}
