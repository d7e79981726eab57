//! What a call changed in files, as a recording has it: what was there, and what is there now.

use std::collections::BTreeMap;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use wink::filesystem::{EntryKind, FsPath};
use wink::session::InvocationId;

use super::scrub::Scrubber;

/// What a call changed in files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesChanged {
    /// The call.
    pub call: InvocationId,
    /// Every path that it changed, by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<FileChange>,
    /// Whether something of it may be missing here: nobody remembered it any more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forgotten: bool,
}

/// One path that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileChange {
    /// Where it is afterwards; where it was, if it is gone.
    pub path: FsPath,
    /// Where it was before, if it was moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<FsPath>,
    /// What was there before, if anything was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<FileImage>,
    /// What is there afterwards, if anything is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<FileImage>,
}

/// Something that was at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileImage {
    /// File, directory, link or something else.
    pub kind: EntryKind,
    /// The permission bits.
    pub mode: u32,
    /// Of what was in it, without secrets; none for a directory, nor where nothing is kept of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Bytes, where there is no digest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub len: Option<u64>,
    /// What was in it, where that is needed: what was there before is in the first change of a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
}

/// What was in a file, or where a link pointed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum Content {
    /// This, without secrets.
    Bytes(Vec<u8>),
    /// It would be needed, and is too large, or secrets cannot be taken out of it.
    NotKept,
}

/// Its form in a recording.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Written {
    Text(String),
    Base64(String),
    NotKept,
}

impl From<Content> for Written {
    fn from(content: Content) -> Self {
        match content {
            Content::Bytes(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Self::Text(text),
                Err(error) => Self::Base64(BASE64.encode(error.as_bytes())),
            },
            Content::NotKept => Self::NotKept,
        }
    }
}

impl TryFrom<Written> for Content {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        Ok(match written {
            Written::Text(text) => Self::Bytes(text.into_bytes()),
            Written::Base64(text) => {
                let bytes = BASE64.decode(text.as_bytes());
                Self::Bytes(bytes.map_err(|error| format!("what was in a file is no base64: {error}"))?)
            }
            Written::NotKept => Self::NotKept,
        })
    }
}

impl FileImage {
    /// Whether another is of the same kind and has the same in it. The modes may differ.
    pub(super) fn is_same_inside(&self, other: &Self) -> bool {
        (self.kind, &self.digest, self.len) == (other.kind, &other.digest, other.len)
    }

    /// Whether another is the same, as far as that is known of both.
    fn is_same(&self, other: &Self) -> bool {
        let is_same_inside = match (&self.digest, &other.digest) {
            (None, None) => self.len == other.len,
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        is_same_inside && (self.kind, self.mode) == (other.kind, other.mode)
    }

    fn is_kept(&self) -> bool {
        self.content != Some(Content::NotKept) && self.kind != EntryKind::Other
    }
}

impl FileChange {
    /// Whether nothing came to be another: what was written is what was there.
    pub(super) fn is_none(&self) -> bool {
        let is_same = |before: &FileImage, after: &FileImage| {
            // What is in a directory is told by itself.
            let is_known = before.digest.is_some() || before.kind == EntryKind::Directory;
            is_known && before.mode == after.mode && before.is_same_inside(after)
        };
        self.from.is_none()
            && self.before.as_ref().zip(self.after.as_ref()).is_some_and(|(one, two)| is_same(one, two))
    }

    /// Where a directory was and is that was moved, with all that is in it.
    fn moved(&self) -> Option<[&FsPath; 2]> {
        let is_directory = self.after.as_ref().is_some_and(|after| after.kind == EntryKind::Directory);
        self.from.as_ref().filter(|_| is_directory).map(|from| [from, &self.path])
    }
}

impl FilesChanged {
    /// Whether all that was there before is known, as far as the first change of a path has to know it.
    pub fn can_be_taken_back(&self) -> bool {
        let is_kept = |change: &FileChange| change.before.as_ref().is_none_or(FileImage::is_kept);
        !self.forgotten && self.changes.iter().all(is_kept)
    }

    /// The same, with what was there before from elsewhere where it is not kept here.
    #[must_use]
    pub fn or_before(mut self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        if self.forgotten {
            return other;
        }
        for change in &mut self.changes {
            let is_it = |other: &&FileChange| (&other.path, &other.from) == (&change.path, &change.from);
            if !change.before.as_ref().is_none_or(FileImage::is_kept)
                && let Some(other) = other.changes.iter().find(is_it)
            {
                change.before = other.before.clone();
            }
        }
        self
    }

    /// What takes the change back.
    #[must_use]
    pub fn taken_back(&self) -> Vec<FileChange> {
        let back = |change: &FileChange| FileChange {
            path: change.from.as_ref().unwrap_or(&change.path).clone(),
            from: change.from.as_ref().map(|_| change.path.clone()),
            before: change.after.clone(),
            after: change.before.clone(),
        };
        self.changes.iter().map(back).collect()
    }

    /// The first path at which a call that is repeated did not leave what this left, if there is one. Whether something was moved there or
    /// made there, and what became of what was in a directory that was moved, cannot always be seen, and does not count.
    pub(super) fn difference(&self, now: &Self) -> Option<FsPath> {
        let (then_left, now_left) = (self.left(), now.left());
        let moved: Vec<&FsPath> =
            self.changes.iter().chain(&now.changes).filter_map(FileChange::moved).flatten().collect();
        let is_moved = |path: &FsPath| {
            let is_above = |above: &&FsPath| {
                path.as_str().strip_prefix(above.as_str()).is_some_and(|rest| rest.starts_with('/'))
            };
            moved.iter().any(is_above)
        };
        let is_same = |path: &FsPath| match (then_left.get(path), now_left.get(path)) {
            (Some(Some(then)), Some(Some(now))) => then.is_same(now),
            (Some(None), Some(None)) => true,
            (Some(_), Some(_)) => false,
            (_, _) => is_moved(path),
        };
        then_left.keys().chain(now_left.keys()).find(|path| !is_same(path)).map(|path| FsPath::clone(path))
    }

    /// What is at each path afterwards, or nothing.
    fn left(&self) -> BTreeMap<&FsPath, Option<&FileImage>> {
        let gone = self.changes.iter().filter(|change| change.after.is_none()).map(|change| &change.path);
        let gone = gone.chain(self.changes.iter().filter_map(|change| change.from.as_ref()));
        let mut left: BTreeMap<&FsPath, Option<&FileImage>> = gone.map(|path| (path, None)).collect();
        let there = self.changes.iter().filter(|change| change.after.is_some());
        left.extend(there.map(|change| (&change.path, change.after.as_ref())));
        left
    }
}

/// Bytes without secrets; nothing if these cannot be taken out.
pub(super) fn scrubbed(bytes: Vec<u8>, scrubber: &Scrubber) -> Option<Vec<u8>> {
    match String::from_utf8(bytes) {
        Ok(text) => Some(scrubber.text(&text).into_bytes()),
        Err(error) => {
            let has_none = |text: &str| scrubber.text(text) == text;
            let (text, bytes) = (String::from_utf8_lossy(error.as_bytes()), error.as_bytes());
            (has_none(&text) && has_none(&BASE64.encode(bytes))).then(|| bytes.to_vec())
        }
    }
}

/// The digest of what is in a file.
pub(super) fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}
