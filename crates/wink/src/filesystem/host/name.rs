//! Names as they are on disk (bytes) and as they are shown (text).
//!
//! A name that is UTF-8 is shown as it is. A byte that is not part of any character is shown as `\xNN`, and so that this
//! can be told from a name that really has these four characters in it, the backslash of such a sequence is itself
//! shown as `\x5C`. So every name has exactly one text, and a text that no name has is refused.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::filesystem::{FsError, FsPath, FsResult, quoted};

/// The name as it is shown.
pub(super) fn shown(name: &OsStr) -> Cow<'_, str> {
    match name.to_str() {
        Some(text) if !text.contains("\\x") => Cow::Borrowed(text),
        _ => Cow::Owned(escaped(name.as_bytes())),
    }
}

/// The name that is shown as `text`; none if no name is.
pub(super) fn parse(text: &str) -> Option<Cow<'_, OsStr>> {
    if !text.contains("\\x") {
        return Some(Cow::Borrowed(OsStr::new(text)));
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        match escape(rest) {
            Some((decoded, tail)) => {
                bytes.push(decoded);
                rest = tail;
            }
            None => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    // Bytes that make up a character are not shown as escapes, so a text that has them so is nobody's.
    (escaped(&bytes) == text).then(|| Cow::Owned(OsString::from_vec(bytes)))
}

/// Where a path leads on disk, relative to the root.
pub(super) fn to_disk(path: &FsPath) -> FsResult<PathBuf> {
    let mut raw = PathBuf::with_capacity(path.as_str().len());
    for segment in path.segments() {
        raw.push(parse(segment).ok_or_else(|| FsError::Io {
            path: path.clone(),
            kind: std::io::ErrorKind::InvalidInput,
            message: format!(
                "no file is named '{segment}': '\\xNN' stands for a byte that is not UTF-8, and '\\x5CxNN' for these very characters"
            ),
        })?);
    }
    Ok(raw)
}

/// How a path on disk is shown.
pub(super) fn to_shown(raw: &Path) -> FsPath {
    raw.iter().fold(FsPath::root(), |path, name| path.child(&shown(name)))
}

/// A path of a workspace on disk as people and patches get to see it: [`quoted`], from the bytes that it has there. The text of
/// the path itself is what tools are called with.
///
/// ```
/// use wink::filesystem::host::quoted_path;
/// use wink::filesystem::{FsLimits, FsPath};
///
/// let path = FsPath::parse(r"caf\xE9", &FsLimits::default())?;
/// assert_eq!(quoted_path(&path), r#""caf\351""#);
/// # Ok::<(), wink::filesystem::FsError>(())
/// ```
pub fn quoted_path(path: &FsPath) -> String {
    match to_disk(path) {
        Ok(raw) if !path.is_root() => quoted(raw.as_os_str().as_bytes()).into_owned(),
        // What no file is called, and the root, are what their texts are.
        _ => quoted(&path.to_string()).into_owned(),
    }
}

/// The same in the middle of a sentence: `'plain'`, `"two\nlines"`.
pub(crate) fn named_path(path: &FsPath) -> String {
    let name = quoted_path(path);
    if name.starts_with('"') { name } else { format!("'{name}'") }
}

/// Paths as they are on disk, in the middle of a sentence: the first ten, and how many more.
pub(super) fn listed(paths: &[PathBuf]) -> String {
    const MOST: usize = 10;
    let named: Vec<String> = paths.iter().take(MOST).map(|path| named_path(&to_shown(path))).collect();
    match paths.len().saturating_sub(MOST) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

/// What an escape at the start of `bytes` stands for, and what follows it.
fn escape(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let [b'\\', b'x', high, low, tail @ ..] = bytes else { return None };
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    let byte = digit(*high)? << 4 | digit(*low)?;
    (byte >= 0x80 || byte == b'\\').then_some((byte, tail))
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        for (at, character) in valid.char_indices() {
            // Looking only at this chunk is enough: an escape is made of characters.
            if character == '\\' && escape(valid.as_bytes().get(at..).unwrap_or_default()).is_some() {
                text.push_str("\\x5C");
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02X}");
        }
    }
    text
}
