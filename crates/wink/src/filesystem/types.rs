//! What filesystem operations take and give back.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::path::FsPath;

/// Which state of a file was seen. Equal versions of one path mean equal contents; anything else about them
/// is the implementation's affair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileVersion([u64; 5]);

impl FileVersion {
    /// A version from the numbers that an implementation tells states apart by.
    pub const fn new(parts: [u64; 5]) -> Self {
        Self(parts)
    }

    /// The numbers.
    #[cfg(unix)]
    pub(crate) const fn parts(&self) -> &[u64; 5] {
        &self.0
    }
}

impl fmt::Display for FileVersion {
    /// The numbers in hexadecimal, joined by `-`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, rest @ ..] = &self.0;
        write!(f, "{first:x}")?;
        rest.iter().try_for_each(|part| write!(f, "-{part:x}"))
    }
}

/// A text that is not a [`FileVersion`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a file version: five hexadecimal numbers joined by '-' are expected")]
pub struct InvalidFileVersion;

impl FromStr for FileVersion {
    type Err = InvalidFileVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts: Result<Vec<u64>, _> = text.split('-').map(|part| u64::from_str_radix(part, 16)).collect();
        let parts = parts.map_err(|_| InvalidFileVersion)?;
        parts.try_into().map(Self).map_err(|_| InvalidFileVersion)
    }
}

impl Serialize for FileVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FileVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// What there is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link whose target is not followed.
    Symlink,
    /// Anything else a host directory may hold.
    Other,
}

/// What [`Filesystem::stat`](super::Filesystem::stat) knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Metadata {
    /// File or directory.
    pub kind: EntryKind,
    /// Bytes of a file, 0 for a directory.
    pub len: u64,
    /// Which state this is.
    pub version: FileVersion,
    /// The permission bits.
    pub mode: u32,
    /// When it was last changed.
    pub modified: Timestamp,
}

/// One entry of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DirEntry {
    /// The whole path.
    pub path: FsPath,
    /// File or directory.
    pub kind: EntryKind,
    /// Bytes of a file, 0 for a directory.
    pub len: u64,
}

impl DirEntry {
    /// The last segment of the path.
    pub fn name(&self) -> &str {
        self.path.name().unwrap_or_default()
    }
}

/// Which lines to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReadWindow {
    /// From the start, as many lines as [`FsLimits::default_window`](super::FsLimits::default_window) says.
    #[default]
    Default,
    /// All of them.
    Entire,
    /// Some of them.
    Lines {
        /// Lines to skip.
        offset: usize,
        /// Lines to return at most.
        limit: usize,
    },
}

/// Lines of a text file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TextRead {
    /// The lines of the window exactly as they are in the file, line endings included.
    pub text: String,
    /// Lines before the window: as asked for, or all there are if that is less.
    pub offset: usize,
    /// Lines in the window.
    pub count: usize,
    /// Lines in the file.
    pub total_lines: usize,
    /// Whether lines follow the window.
    pub truncated: bool,
    /// The state that was read.
    pub version: FileVersion,
}

impl TextRead {
    /// The lines of the window with their 1-based numbers and without their line endings.
    pub fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (self.offset + index + 1, line))
    }
}

/// A whole file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BytesRead {
    /// Its contents, shared where the implementation holds them in memory.
    pub bytes: Arc<[u8]>,
    /// The state that was read.
    pub version: FileVersion,
}

/// What a write does about what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// Only a new file: an existing one is an error.
    Create,
    /// A new file, or in place of the old contents.
    #[default]
    Overwrite,
    /// A new file, or after the old contents.
    Append,
}

/// How to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// What to do about what is there.
    pub mode: WriteMode,
    /// Whether missing parent directories are made.
    pub create_parents: bool,
}

impl WriteOptions {
    /// In this mode, making missing parents.
    pub const fn new(mode: WriteMode) -> Self {
        Self { mode, create_parents: true }
    }

    /// Refuses to make missing parents.
    pub const fn without_parents(self) -> Self {
        Self { create_parents: false, ..self }
    }
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self::new(WriteMode::default())
    }
}

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WriteReceipt {
    /// Bytes of this write, not of the file.
    pub bytes_written: usize,
    /// Whether the file is new.
    pub created: bool,
    /// The state after the write.
    pub version: FileVersion,
}

/// An exact replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// What to replace, byte for byte. It must occur exactly once, unless all are replaced.
    pub old: String,
    /// What to put there.
    pub new: String,
    /// Whether every occurrence is replaced.
    pub replace_all: bool,
}

impl Edit {
    /// Replaces the one occurrence of `old`.
    pub fn once(old: impl Into<String>, new: impl Into<String>) -> Self {
        Self { old: old.into(), new: new.into(), replace_all: false }
    }

    /// Replaces every occurrence of `old`.
    pub fn all(old: impl Into<String>, new: impl Into<String>) -> Self {
        Self { old: old.into(), new: new.into(), replace_all: true }
    }
}

/// What an edit did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EditReceipt {
    /// Occurrences replaced.
    pub replacements: usize,
    /// The state after the edit.
    pub version: FileVersion,
}

/// What may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeleteMode {
    /// A file or an empty directory.
    #[default]
    Single,
    /// A file, or a directory with everything in it.
    Recursive,
}

/// How to make a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MkdirOptions {
    /// Whether missing parents are made.
    pub parents: bool,
    /// Whether an existing directory will do.
    pub exist_ok: bool,
}

/// What to search for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrepQuery {
    /// The regular expression, matched against each line without its line ending.
    pub pattern: String,
    /// Only files whose path relative to the base (for a base that is a file: its name) matches this glob.
    pub glob: Option<String>,
    /// Matches to return at most; never more than
    /// [`FsLimits::max_grep_matches`](super::FsLimits::max_grep_matches).
    pub max: Option<usize>,
}

impl GrepQuery {
    /// Searches all files for `pattern`.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self { pattern: pattern.into(), glob: None, max: None }
    }
}

/// A matching line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GrepMatch {
    /// The file.
    pub path: FsPath,
    /// The 1-based number of the line.
    pub line: usize,
    /// The line without its line ending.
    pub text: String,
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct GrepOutcome {
    /// The matches, sorted by path, then line.
    pub matches: Vec<GrepMatch>,
    /// Whether there are more matches than were returned.
    pub truncated: bool,
    /// Files that were not searched, since they are larger than
    /// [`FsLimits::max_read_bytes`](super::FsLimits::max_read_bytes); the first ten of them.
    pub too_large: Vec<FsPath>,
}
