//! A whole tree as JSON: the form of snapshots that outlive their filesystem, the same for every implementation.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{EntryKind, FileVersion, FsError, FsPath, FsResult};

/// The form that is written and read.
const FORMAT: u32 = 1;

/// One file, directory or link.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredEntry {
    pub(super) path: String,
    pub(super) kind: EntryKind,
    pub(super) mode: u32,
    pub(super) modified: Timestamp,
    pub(super) version: FileVersion,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

/// What an entry holds.
pub(super) enum Held {
    Directory,
    File(Vec<u8>),
    /// A link, and where it points, as it is shown.
    #[cfg_attr(not(unix), expect(dead_code, reason = "only host directories have links"))]
    Link(String),
}

impl StoredEntry {
    pub(super) fn new(
        path: &FsPath,
        held: Held,
        mode: u32,
        modified: Timestamp,
        version: FileVersion,
    ) -> Self {
        let kind = match held {
            Held::Directory => EntryKind::Directory,
            Held::File(_) => EntryKind::File,
            Held::Link(_) => EntryKind::Symlink,
        };
        let (mut text, mut hex, mut target) = (None, None, None);
        match held {
            Held::Directory => {}
            Held::Link(to) => target = Some(to),
            Held::File(content) => match String::from_utf8(content) {
                Ok(content) => text = Some(content),
                Err(error) => hex = Some(to_hex(error.as_bytes())),
            },
        }
        Self { path: path.as_str().to_owned(), kind, mode, modified, version, text, hex, target }
    }

    pub(super) fn held(&mut self) -> Result<Held, &'static str> {
        match (self.kind, self.text.take(), self.hex.take(), self.target.take()) {
            (EntryKind::Directory, None, None, None) => Ok(Held::Directory),
            (EntryKind::File, Some(text), None, None) => Ok(Held::File(text.into_bytes())),
            (EntryKind::File, None, Some(hex), None) => {
                from_hex(&hex).map(Held::File).ok_or("'hex' is not hexadecimal")
            }
            (EntryKind::Symlink, None, None, Some(target)) => Ok(Held::Link(target)),
            _ => Err(
                "a file has 'text' or 'hex', a link 'target', a directory neither, and there is nothing else",
            ),
        }
    }
}

/// The tree as JSON: the root first, every directory before what is in it.
pub(super) fn encode(entries: &[StoredEntry]) -> Value {
    json!({ "format": FORMAT, "entries": entries })
}

/// Reads what [`encode`] wrote, handing `add` one entry after the other.
pub(super) fn decode(json: &Value, mut add: impl FnMut(StoredEntry) -> Result<(), String>) -> FsResult<()> {
    let malformed = |reason: String| FsError::SnapshotMalformed { reason };
    match json.get("format") {
        None => return Err(malformed("an object with 'format' and 'entries' is expected".to_owned())),
        Some(format) if *format == json!(FORMAT) => {}
        Some(format) => {
            return Err(FsError::SnapshotVersion { found: format.to_string(), supported: FORMAT });
        }
    }
    let Some(Value::Array(entries)) = json.get("entries") else {
        return Err(malformed("'entries' is not a list".to_owned()));
    };
    for (index, value) in entries.iter().enumerate() {
        let entry = StoredEntry::deserialize(value).map_err(|error| error.to_string());
        entry.and_then(&mut add).map_err(|reason| malformed(format!("entry {index}: {reason}")))?;
    }
    Ok(())
}

fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}
