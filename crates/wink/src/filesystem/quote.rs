//! Names as people and patches get to see them: one with a line end in it must not look like two.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::Write;

/// The name, as it is if that can be mistaken for nothing else; else in double quotes, with escapes as C has them and
/// git reads them: `"two\nlines"`. So it is on one line, and has in it no commands to a terminal, nothing that turns
/// text around, and no byte that is not part of a character.
///
/// ```
/// use wink::filesystem::quoted;
///
/// assert_eq!(quoted("src/über uns.txt"), "src/über uns.txt");
/// assert_eq!(quoted("two\nlines"), r#""two\nlines""#);
/// assert_eq!(quoted(&b"caf\xe9"[..]), r#""caf\351""#);
/// ```
pub fn quoted<N: AsRef<[u8]> + ?Sized>(name: &N) -> Cow<'_, str> {
    let bytes = name.as_ref();
    match str::from_utf8(bytes) {
        Ok(text) if !text.contains(is_odd) => Cow::Borrowed(text),
        _ => Cow::Owned(escaped(bytes)),
    }
}

/// A path in the middle of a sentence: `'plain'`, `"two\nlines"`.
pub(crate) fn named(path: &impl ToString) -> String {
    match quoted(&path.to_string()) {
        Cow::Borrowed(plain) => format!("'{plain}'"),
        Cow::Owned(quoted) => quoted,
    }
}

fn is_odd(letter: char) -> bool {
    matches!(letter, '"' | '\\') || letter.is_control() || turns_text(letter)
}

/// Whether a letter is not seen and changes what is: ends of lines and paragraphs, and marks of direction.
pub fn turns_text(letter: char) -> bool {
    matches!(
        letter,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
    )
}

fn escaped(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 8);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\u{7}' => out.push_str("\\a"),
                '\u{8}' => out.push_str("\\b"),
                '\t' => out.push_str("\\t"),
                '\n' => out.push_str("\\n"),
                '\u{b}' => out.push_str("\\v"),
                '\u{c}' => out.push_str("\\f"),
                '\r' => out.push_str("\\r"),
                odd if is_odd(odd) => octal(&mut out, odd.encode_utf8(&mut [0; 4]).as_bytes()),
                plain => out.push(plain),
            }
        }
        octal(&mut out, chunk.invalid());
    }
    out.push('"');
    out
}

fn octal(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(out, "\\{byte:03o}");
    }
}
