use std::borrow::Cow;

use proptest::prelude::*;

use super::{named, quoted};

#[test]
fn what_can_be_mistaken_is_escaped() {
    let cases: [(&[u8], &str); 12] = [
        (b"", ""),
        (b"a b'c$d", "a b'c$d"),
        ("größe".as_bytes(), "größe"),
        (b"a\nb", r#""a\nb""#),
        (b"a\\b", r#""a\\b""#),
        (b"a\"b", r#""a\"b""#),
        (b"\x07\x08\t\x0b\x0c\r", r#""\a\b\t\v\f\r""#),
        (b"\x1b[2J\x7f", r#""\033[2J\177""#),
        (b"caf\xe9", r#""caf\351""#),
        ("\u{9b}31m".as_bytes(), r#""\302\23331m""#),
        ("a\u{202e}txt.exe".as_bytes(), r#""a\342\200\256txt.exe""#),
        ("a\u{2028}b".as_bytes(), r#""a\342\200\250b""#),
    ];
    for (name, expected) in cases {
        assert_eq!(quoted(name), expected);
    }
    assert!(matches!(quoted("plain"), Cow::Borrowed(_)));
    assert_eq!((named(&"a b"), named(&"a\nb")), ("'a b'".to_owned(), r#""a\nb""#.to_owned()));
}

/// As a reader of C strings takes it.
fn read(text: &str) -> Vec<u8> {
    let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return text.as_bytes().to_vec();
    };
    let mut bytes = inner.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next().unwrap() {
            b'a' => 7,
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 11,
            b'f' => 12,
            b'r' => b'\r',
            high @ b'0'..=b'3' => {
                let digits = [high, bytes.next().unwrap(), bytes.next().unwrap()];
                digits.iter().fold(0, |value, digit| value * 8 + (digit - b'0'))
            }
            other => other,
        });
    }
    out
}

proptest! {
    #[test]
    fn every_name_can_be_read_back_from_one_line(name in prop::collection::vec(any::<u8>(), 0..40)) {
        let shown = quoted(&name);
        prop_assert_eq!(read(&shown), name.clone());
        prop_assert!(!shown.contains(char::is_control));
    }

    #[test]
    fn texts_too(name in "\\PC*") {
        prop_assert_eq!(read(&quoted(&name)), name.as_bytes());
    }
}
