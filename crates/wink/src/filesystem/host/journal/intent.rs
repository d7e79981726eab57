//! The intent: all that is needed to take a plan back, on disk before the first step is made.
//!
//! A line with the version of the format and the hash of the rest, then JSON. A file whose hash does not fit was never
//! finished; since nothing is changed before it is, there is nothing to take back.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::super::disk::{Entry, Meta, OwnedBy};
use super::SettledBy;
use crate::filesystem::EntryKind;
use crate::store::JournalId;

/// A larger one is not written, and therefore not read.
pub(super) const MAX_BYTES: usize = 1 << 29;

const MAGIC: &[u8] = b"wink-journal ";
const VERSION: &[u8] = b"1";

/// What a plan was to do and what it found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Intent {
    pub(super) id: JournalId,
    pub(super) time: Timestamp,
    /// Who knows what becomes of it when its owner dies.
    #[serde(default)]
    pub(super) settled_by: SettledBy,
    pub(super) steps: Vec<Record>,
    /// Directories that entries come into or leave, where they were before, and what they were like.
    pub(super) parents: Vec<Parent>,
    /// What was gone already, and cannot be brought back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) lost: Vec<Lost>,
}

/// Something that cannot be brought back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Lost {
    #[serde(with = "bytes")]
    pub(super) path: PathBuf,
}

/// One step. `path` is as in the plan; `origin` is the same place as it was called before the plan moved directories.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Record {
    Take {
        #[serde(with = "bytes")]
        path: PathBuf,
        #[serde(with = "bytes")]
        origin: PathBuf,
        slot: u32,
        before: Stamp,
    },
    Put {
        #[serde(with = "bytes")]
        path: PathBuf,
        #[serde(with = "bytes")]
        origin: PathBuf,
        from: From,
        /// What comes into place.
        ours: Stamp,
        /// What it replaces, and under which number that is saved.
        replaced: Option<(Stamp, u32)>,
    },
    Meta {
        #[serde(with = "bytes")]
        path: PathBuf,
        #[serde(with = "bytes")]
        origin: PathBuf,
        before: Stamp,
        after: MetaRecord,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum From {
    Staged(#[serde(with = "bytes")] PathBuf),
    Taken(u32),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Parent {
    #[serde(with = "bytes")]
    pub(super) path: PathBuf,
    pub(super) before: Stamp,
}

/// What an entry is known by, as long as nobody changes it. Renaming it and giving it more names does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// File, directory, link or something else.
    pub kind: EntryKind,
    /// The device.
    pub dev: u64,
    /// The inode.
    pub ino: u64,
    /// Bytes.
    pub len: u64,
    /// The permission bits.
    pub mode: u32,
    /// When the contents last changed, in nanoseconds since the epoch.
    #[serde(with = "number")]
    pub modified: i128,
    /// Who owned it; journals of before that was kept do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnedBy>,
}

impl Stamp {
    /// Of what is there now.
    pub fn of(entry: &Entry) -> Self {
        let Entry { kind, dev, ino, len, meta, .. } = *entry;
        Self { kind, dev, ino, len, mode: meta.mode, modified: meta.modified, owner: meta.owner }
    }

    /// What can be set about it.
    pub fn meta(&self) -> Meta {
        Meta { mode: self.mode, modified: self.modified, owner: self.owner }
    }

    /// Whether it is the same inode, whatever became of it.
    pub fn is_same(&self, entry: &Entry) -> bool {
        (self.kind, self.dev, self.ino) == (entry.kind, entry.dev, entry.ino)
    }

    /// Whether it is the same inode with the same contents. What is in a directory is not its contents.
    pub fn is_unchanged(&self, entry: &Entry) -> bool {
        self.is_same(entry)
            && (self.kind == EntryKind::Directory
                || (self.len, self.modified) == (entry.len, entry.meta.modified))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MetaRecord {
    pub(super) mode: u32,
    #[serde(with = "number")]
    pub(super) modified: i128,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<OwnedBy>,
}

impl std::convert::From<Meta> for MetaRecord {
    fn from(Meta { mode, modified, owner }: Meta) -> Self {
        Self { mode, modified, owner }
    }
}

impl std::convert::From<MetaRecord> for Meta {
    fn from(MetaRecord { mode, modified, owner }: MetaRecord) -> Self {
        Self { mode, modified, owner }
    }
}

impl Intent {
    pub(super) fn encode(&self) -> Result<Vec<u8>, serde_json::Error> {
        let body = serde_json::to_vec(self)?;
        let hash = blake3::hash(&body).to_hex();
        Ok([MAGIC, VERSION, b" ", hash.as_bytes(), b"\n", &body].concat())
    }

    /// Nothing, if the file was never finished. One that was, but cannot be understood, is an error: it may be the
    /// work of a later version.
    pub(super) fn decode(text: &[u8]) -> Result<Option<Self>, String> {
        let Some((version, body)) = sealed(text) else { return Ok(None) };
        if version != VERSION {
            return Err(format!("it is of version {}", String::from_utf8_lossy(version)));
        }
        serde_json::from_slice(body).map(Some).map_err(|error| error.to_string())
    }
}

/// Version and body of a file that is whole.
fn sealed(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = text.strip_prefix(MAGIC)?;
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let (version, rest) = rest.split_at_checked(space)?;
    let (hash, rest) = rest.strip_prefix(b" ")?.split_at_checked(blake3::OUT_LEN * 2)?;
    let body = rest.strip_prefix(b"\n")?;
    (blake3::hash(body).to_hex().as_bytes() == hash).then_some((version, body))
}

impl Record {
    pub(super) fn origin(&self) -> &Path {
        match self {
            Self::Take { origin, .. } | Self::Put { origin, .. } | Self::Meta { origin, .. } => origin,
        }
    }
}

/// Paths as text: bytes that are no UTF-8 as `\xNN`, and a backslash as two.
pub(in crate::filesystem::host) mod bytes {
    use super::*;

    pub(in crate::filesystem::host) fn serialize<S: Serializer>(
        path: &Path,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&escape(path.as_os_str()))
    }

    pub(in crate::filesystem::host) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PathBuf, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        unescape(&text).map(PathBuf::from).ok_or_else(|| serde::de::Error::custom("not an escaped path"))
    }
}

fn escape(name: &OsStr) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.as_bytes().utf8_chunks() {
        text.push_str(&chunk.valid().replace('\\', "\\\\"));
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

fn unescape(text: &str) -> Option<OsString> {
    let mut name = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        let (plain, escaped) = rest.split_at_checked(at)?;
        name.extend_from_slice(plain.as_bytes());
        rest = if let Some(rest) = escaped.strip_prefix("\\\\") {
            name.push(b'\\');
            rest
        } else {
            let (digits, rest) = escaped.strip_prefix("\\x")?.split_at_checked(2)?;
            name.push(u8::from_str_radix(digits, 16).ok()?);
            rest
        };
    }
    name.extend_from_slice(rest.as_bytes());
    Some(OsString::from_vec(name))
}

/// Nanoseconds as text: JSON readers do not agree about numbers of this size.
pub(in crate::filesystem::host) mod number {
    use super::*;

    pub(in crate::filesystem::host) fn serialize<S: Serializer>(
        number: &i128,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(number)
    }

    pub(in crate::filesystem::host) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<i128, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
