//! What can go wrong, in words that say what to do next.

use super::path::FsPath;
use super::quote::{named, quoted};
use super::revert::LeftAlone;

/// Why a filesystem operation was refused. Nothing was changed when one is returned, unless it says so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    /// There is nothing at the path.
    #[error("{} does not exist", named(.path))]
    NotFound {
        /// What was looked for; a missing parent directory is named itself.
        path: FsPath,
    },
    /// There is something at the path already.
    #[error("{} already exists", named(.path))]
    Exists {
        /// The path.
        path: FsPath,
    },
    /// A directory is where a file was expected.
    #[error("{} is a directory; a file was expected", named(.path))]
    IsDirectory {
        /// The directory.
        path: FsPath,
    },
    /// A file is where a directory was expected.
    #[error("{} is a file; a directory was expected", named(.path))]
    NotDirectory {
        /// The file.
        path: FsPath,
    },
    /// A directory with entries was to be deleted without its contents.
    #[error("directory {} is not empty; delete it recursively to remove everything in it", named(.path))]
    NotEmpty {
        /// The directory.
        path: FsPath,
    },
    /// The filesystem takes no changes.
    #[error("the filesystem is read-only; nothing can be changed")]
    ReadOnly,
    /// The path leads out of the root.
    #[error("{} leads outside the workspace; paths are relative to its root", named(.path))]
    Outside {
        /// The path as given.
        path: String,
    },
    /// The path can name nothing.
    #[error("{} is not a path: it contains a NUL character", named(.path))]
    InvalidPath {
        /// The path as given.
        path: String,
    },
    /// Too many segments.
    #[error("{} has {depth} segments; at most {max} are allowed", named(.path))]
    TooDeep {
        /// The path.
        path: String,
        /// Its segments.
        depth: usize,
        /// The limit.
        max: usize,
    },
    /// A segment has too many characters.
    #[error("path segment {} has {chars} characters; at most {max} are allowed", named(.segment))]
    SegmentTooLong {
        /// The segment.
        segment: String,
        /// Its characters.
        chars: usize,
        /// The limit.
        max: usize,
    },
    /// More bytes than one write may have.
    #[error("writing {bytes} bytes to {} exceeds the limit of {max}; split the content", named(.path))]
    TooLarge {
        /// The file.
        path: FsPath,
        /// What would have been written.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// More bytes than a file may have that is read.
    #[error(
        "{} has {bytes} bytes; files of more than {max} are not read, edited or searched (max_read_bytes). Look at parts of it with a command, or split it",
        named(.path)
    )]
    TooLargeToRead {
        /// The file.
        path: FsPath,
        /// Its size.
        bytes: u64,
        /// The limit.
        max: usize,
    },
    /// A file that is not text was read or edited as text.
    #[error("{} is a binary file, not UTF-8 text; read it as bytes", named(.path))]
    Binary {
        /// The file.
        path: FsPath,
    },
    /// A glob or regular expression that cannot be used.
    #[error("invalid pattern '{pattern}': {reason}")]
    InvalidPattern {
        /// The pattern as given.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The text to be replaced does not occur.
    #[error("the text to replace does not occur in {}; {hint}", named(.path))]
    NoMatch {
        /// The file.
        path: FsPath,
        /// What to look at.
        hint: &'static str,
    },
    /// The text to be replaced occurs more than once.
    #[error(
        "the text to replace occurs {count} times in {}; give more of its surroundings, or replace all",
        named(.path)
    )]
    AmbiguousMatch {
        /// The file.
        path: FsPath,
        /// How often it occurs.
        count: usize,
    },
    /// The text to be replaced is empty.
    #[error("the text to replace in {} is empty; give the exact text to be replaced", named(.path))]
    EmptyOld {
        /// The file.
        path: FsPath,
    },
    /// The root cannot be deleted or moved.
    #[error("the root of the workspace cannot be deleted or moved")]
    RootProtected,
    /// What is there is not for tools to change.
    #[error(
        "{} is guarded and stays as it was ({rule}); tell the user what should be in it, or that `guard` in the agent file opens it",
        named(.path)
    )]
    Guarded {
        /// The path itself, wherever the change came from.
        path: FsPath,
        /// The rule that guards it, and why.
        rule: String,
    },
    /// A directory was to be moved below itself.
    #[error("{} cannot be moved to {}, which is inside it", named(.from), named(.to))]
    IntoItself {
        /// What was to be moved.
        from: FsPath,
        /// Where to.
        to: FsPath,
    },
    /// Both sides of a merge changed the same paths.
    #[error("changed by somebody else meanwhile: {}; nothing was applied, look again and retry", listed(.paths))]
    Conflict {
        /// The paths, sorted.
        paths: Vec<FsPath>,
    },
    /// The filesystem was changed after the merge that was to be undone.
    #[error("the filesystem was changed after this merge, so the merge can no longer be taken back")]
    Moved,
    /// A merge was taken back, but for what somebody else had changed after it.
    #[error("taken back, but for {}", left_alone(.left))]
    LeftAlone {
        /// What was left as it is, and why.
        left: Vec<LeftAlone>,
    },
    /// A change was to be taken back, and that failed: what it did is there, or a part of it.
    #[error("{reason}")]
    NotUndone {
        /// What could be seen to be not as it was before.
        left: Vec<FsPath>,
        /// Why, in a sentence that names them.
        reason: String,
    },
    /// A fork, receipt or snapshot of another filesystem.
    #[error("this {what} comes from another filesystem")]
    Foreign {
        /// What was handed in.
        what: &'static str,
    },
    /// A serialised snapshot of a format that is not known here.
    #[error("snapshot format {found} is not supported; {supported} is")]
    SnapshotVersion {
        /// The format found.
        found: String,
        /// The format that can be read.
        supported: u32,
    },
    /// A serialised snapshot that cannot be read.
    #[error("malformed filesystem snapshot: {reason}")]
    SnapshotMalformed {
        /// What is wrong, and where.
        reason: String,
    },
    /// The implementation cannot do this.
    #[error("{operation} is not supported by this filesystem")]
    Unsupported {
        /// What was asked for.
        operation: &'static str,
    },
    /// The operating system refused.
    #[error("{}: {message}", named(.path))]
    Io {
        /// The path.
        path: FsPath,
        /// The kind of failure.
        kind: std::io::ErrorKind,
        /// The system's words.
        message: String,
    },
}

/// The kinds of [`FsError`], without what they carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is documented at the error of the same name")]
pub enum FsErrorKind {
    NotFound,
    Exists,
    IsDirectory,
    NotDirectory,
    NotEmpty,
    ReadOnly,
    Outside,
    InvalidPath,
    TooDeep,
    SegmentTooLong,
    TooLarge,
    TooLargeToRead,
    Binary,
    InvalidPattern,
    NoMatch,
    AmbiguousMatch,
    EmptyOld,
    RootProtected,
    Guarded,
    IntoItself,
    Conflict,
    Moved,
    LeftAlone,
    NotUndone,
    Foreign,
    SnapshotVersion,
    SnapshotMalformed,
    Unsupported,
    Io,
}

impl FsError {
    /// Whether it says that there is nothing at the path, or nothing that can be reached.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::NotDirectory { .. } | Self::Outside { .. })
    }

    /// Which kind of error this is.
    pub fn kind(&self) -> FsErrorKind {
        match self {
            Self::NotFound { .. } => FsErrorKind::NotFound,
            Self::Exists { .. } => FsErrorKind::Exists,
            Self::IsDirectory { .. } => FsErrorKind::IsDirectory,
            Self::NotDirectory { .. } => FsErrorKind::NotDirectory,
            Self::NotEmpty { .. } => FsErrorKind::NotEmpty,
            Self::ReadOnly => FsErrorKind::ReadOnly,
            Self::Outside { .. } => FsErrorKind::Outside,
            Self::InvalidPath { .. } => FsErrorKind::InvalidPath,
            Self::TooDeep { .. } => FsErrorKind::TooDeep,
            Self::SegmentTooLong { .. } => FsErrorKind::SegmentTooLong,
            Self::TooLarge { .. } => FsErrorKind::TooLarge,
            Self::TooLargeToRead { .. } => FsErrorKind::TooLargeToRead,
            Self::Binary { .. } => FsErrorKind::Binary,
            Self::InvalidPattern { .. } => FsErrorKind::InvalidPattern,
            Self::NoMatch { .. } => FsErrorKind::NoMatch,
            Self::AmbiguousMatch { .. } => FsErrorKind::AmbiguousMatch,
            Self::EmptyOld { .. } => FsErrorKind::EmptyOld,
            Self::RootProtected => FsErrorKind::RootProtected,
            Self::Guarded { .. } => FsErrorKind::Guarded,
            Self::IntoItself { .. } => FsErrorKind::IntoItself,
            Self::Conflict { .. } => FsErrorKind::Conflict,
            Self::Moved => FsErrorKind::Moved,
            Self::LeftAlone { .. } => FsErrorKind::LeftAlone,
            Self::NotUndone { .. } => FsErrorKind::NotUndone,
            Self::Foreign { .. } => FsErrorKind::Foreign,
            Self::SnapshotVersion { .. } => FsErrorKind::SnapshotVersion,
            Self::SnapshotMalformed { .. } => FsErrorKind::SnapshotMalformed,
            Self::Unsupported { .. } => FsErrorKind::Unsupported,
            Self::Io { .. } => FsErrorKind::Io,
        }
    }
}

/// What a caller sent, short enough to be shown to it again.
pub(crate) fn shown(text: &str) -> String {
    const MAX: usize = 200;
    match text.char_indices().nth(MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

fn left_alone(left: &[LeftAlone]) -> String {
    const MAX: usize = 10;
    let named = left.iter().take(MAX).map(|LeftAlone { what, why }| format!("{what} ({why})"));
    let mut text = named.collect::<Vec<_>>().join(", ");
    if left.len() > MAX {
        text.push_str(&format!(" and {} more", left.len() - MAX));
    }
    text
}

fn listed(paths: &[FsPath]) -> String {
    const MAX: usize = 10;
    let named = paths.iter().take(MAX).map(|path| quoted(&path.to_string()).into_owned());
    let mut text = named.collect::<Vec<_>>().join(", ");
    if paths.len() > MAX {
        text.push_str(&format!(" and {} more", paths.len() - MAX));
    }
    text
}
