//! Host directories that a workspace in memory starts as a copy of.
//!
//! A mount is read once, when the workspace is made: what is done in the workspace never reaches the directory, and
//! what happens to the directory later never reaches the workspace. Only what is below an allowed root is read, and
//! never by way of a symbolic link, whenever it appeared.

#[cfg(unix)]
mod copy;
mod preview;

use std::path::{Path, PathBuf};

use super::VfsConfig;
use crate::filesystem::{FsError, FsPath, MemoryFilesystem};

/// A host directory, or a single file, to be copied into a workspace in memory.
///
/// Symbolic links are not followed and not copied; neither is what is no file (pipes, devices, sockets), what Wink
/// itself keeps (`.wink`), nor an empty directory.
///
/// ```
/// use wink::suites::HostMount;
///
/// let mount = HostMount::new("/srv/project")
///     .at("project")
///     .include("**/*.rs")
///     .include("**/*.md")
///     .exclude("target/**")
///     .max_bytes(1024 * 1024);
/// # let _ = mount;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a mount does nothing until a config has it"]
pub struct HostMount {
    /// What to copy. A relative path is looked for in the allowed roots, in their order.
    pub host: PathBuf,
    /// Where in the workspace it goes; the root unless another place is given.
    pub at: String,
    /// Only files whose path below `host` matches one of these globs; all if there is none.
    pub include: Vec<String>,
    /// Of those, no file whose path, or the path of a directory above it, matches one of these.
    pub exclude: Vec<String>,
    /// How many bytes the files may have together. More is an error, not a part of them.
    pub max_bytes: u64,
}

impl HostMount {
    /// The bytes that a mount may have unless it says otherwise.
    pub const MAX_BYTES: u64 = 32 * 1024 * 1024;

    /// All of a directory, at the root of the workspace.
    pub fn new(host: impl Into<PathBuf>) -> Self {
        Self {
            host: host.into(),
            at: String::new(),
            include: Vec::new(),
            exclude: Vec::new(),
            max_bytes: Self::MAX_BYTES,
        }
    }

    /// Puts it elsewhere.
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.at = path.into();
        self
    }

    /// Copies files that match, and no others but those that match another such glob.
    pub fn include(mut self, glob: impl Into<String>) -> Self {
        self.include.push(glob.into());
        self
    }

    /// Leaves files out that match, also if they are included.
    pub fn exclude(mut self, glob: impl Into<String>) -> Self {
        self.exclude.push(glob.into());
        self
    }

    /// How many bytes the files may have together.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }
}

/// A workspace with everything that was mounted.
#[derive(Debug)]
pub struct Mounted {
    /// The workspace.
    pub files: MemoryFilesystem,
    /// What came of each mount, in order; the config's root first.
    pub mounts: Vec<MountReport>,
}

/// What came of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountReport {
    /// What was copied, all links on the way to it resolved.
    pub host: PathBuf,
    /// Where it is.
    pub at: FsPath,
    /// Files copied.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What is at its top, sorted; directories end in `/`.
    pub top: Vec<String>,
    /// What was not copied although the globs did not say so; at most [`MountReport::MAX_SKIPPED`].
    pub skipped: Vec<Skipped>,
    /// How many more.
    pub more_skipped: u64,
}

impl MountReport {
    /// How much of what was skipped is named.
    pub const MAX_SKIPPED: usize = 100;
}

/// Something that was not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its path below the mount's host path, with `\u{fffd}` where it is not text.
    pub path: String,
    /// Why.
    pub why: SkipReason,
}

/// Why something was not copied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SkipReason {
    /// A symbolic link, or something that became one while it was read.
    #[error("a symbolic link")]
    Link,
    /// A pipe, device or socket.
    #[error("neither file nor directory")]
    Special,
    /// A name that is not UTF-8.
    #[error("its name is not UTF-8")]
    NotUtf8,
    /// A path that the workspace does not take.
    #[error("{0}")]
    Path(FsError),
}

/// A workspace could not be made of its mounts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// Nothing may be mounted.
    #[error(
        "mount '{host}' is refused: no host roots are allowed; name the directories that may be mounted from in `allowed_roots`"
    )]
    NoRoots {
        /// What was to be mounted.
        host: String,
    },
    /// An allowed root that is not there.
    #[error("allowed root '{root}' cannot be opened: {reason}")]
    Root {
        /// The root.
        root: String,
        /// The system's words.
        reason: String,
    },
    /// Nothing is there.
    #[error("mount '{host}' does not exist, or cannot be reached: {reason}")]
    Missing {
        /// What was to be mounted.
        host: String,
        /// The system's words.
        reason: String,
    },
    /// It is elsewhere, maybe by way of a link.
    #[error(
        "mount '{host}' is outside the allowed roots ({roots}); mount something below them, or allow its root"
    )]
    Outside {
        /// What was to be mounted.
        host: String,
        /// Where it may be.
        roots: String,
    },
    /// Neither a file nor a directory.
    #[error("mount '{host}' is neither a file nor a directory")]
    NotFiles {
        /// What was to be mounted.
        host: String,
    },
    /// Too many bytes.
    #[error(
        "mount '{host}' has more than {max_bytes} bytes, at '{path}'; narrow `include`, widen `exclude`, or raise `max_bytes`"
    )]
    TooLarge {
        /// What was to be mounted.
        host: String,
        /// The file that no longer fits.
        path: String,
        /// The budget.
        max_bytes: u64,
    },
    /// Too many entries.
    #[error("mount '{host}' has more than {max} entries; mount a smaller directory, or exclude some")]
    TooMany {
        /// What was to be mounted.
        host: String,
        /// The limit.
        max: usize,
    },
    /// Something is there and cannot be read.
    #[error("'{path}' of mount '{host}' cannot be read: {reason}; exclude it, or make it readable")]
    Unreadable {
        /// What was to be mounted.
        host: String,
        /// What cannot be read.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// A place or glob that cannot be used, or two files in one place.
    #[error("mount '{host}': {reason}")]
    Place {
        /// What was to be mounted.
        host: String,
        /// What the filesystem says.
        reason: FsError,
    },
    /// There is a workspace already.
    #[error(
        "mounts are copied into a workspace in memory, but another workspace was given; leave out one of them"
    )]
    OtherWorkspace,
    /// Not on this system.
    #[error("host directories can be mounted on Unix only")]
    Unsupported,
}

impl VfsConfig {
    /// Makes the workspace that root and mounts describe: the files are read here and now.
    #[cfg(unix)]
    pub fn mount(&self) -> Result<Mounted, MountError> {
        copy::all(self)
    }

    /// Makes the workspace that root and mounts describe: the files are read here and now.
    #[cfg(not(unix))]
    pub fn mount(&self) -> Result<Mounted, MountError> {
        if self.root.is_some() || !self.mounts.is_empty() {
            return Err(MountError::Unsupported);
        }
        Ok(Mounted { files: MemoryFilesystem::new().with_limits(self.limits), mounts: Vec::new() })
    }
}

/// A host path in a message.
#[cfg_attr(not(unix), expect(dead_code, reason = "nothing is mounted there"))]
fn shown(path: &Path) -> String {
    super::super::plain::plain(&path.to_string_lossy(), 300)
}
