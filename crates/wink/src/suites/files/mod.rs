//! File tools over a workspace, whatever it is kept in.
//!
//! The tools reach the workspace only through the call's context, so what they do is undone with a call that fails,
//! and nothing outside the workspace can be named. Which file may be written is for policies to say; the suite brings
//! the one that wants a file read before it is overwritten.

mod change;
mod error;
mod found;
mod look;
mod mount;

use std::path::PathBuf;
use std::sync::Arc;

use crate::filesystem::{Filesystem, FsLimits};
use crate::policy::ReadBeforeWritePolicy;
use crate::prompt::Section;
use crate::resource::Binding;
use crate::tool::Annotations;

pub use change::{DeleteFile, EditFile, FileDeleted, FileEdited, FileWritten, WriteFile};
pub use found::{FileWindow, GrepFound, GrepLine, Listed, Listing};
pub use look::{Glob, Grep, ListDirectory, ReadFile};
pub use mount::{HostMount, MountError, MountReport, Mounted, SkipReason, Skipped};

/// What the workspace starts with, and what the tools are held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VfsConfig {
    /// A host directory that the workspace starts as a copy of: a mount at the root. Naming it allows it, and what is
    /// below it, to be mounted.
    pub root: Option<PathBuf>,
    /// Host directories and files that are copied into the workspace.
    pub mounts: Vec<HostMount>,
    /// The host directories below which there may be mounts. Nothing else is ever read.
    pub allowed_roots: Vec<PathBuf>,
    /// The limits of the in-memory filesystem that is used unless another is given.
    pub limits: FsLimits,
    /// How many bytes of lines one `read_file` returns at most; it goes on where it stopped when asked to.
    pub max_read_bytes: usize,
    /// How many entries `list_directory` and `glob` return at most.
    pub max_entries: usize,
    /// How many characters of a matching line `grep` returns at most.
    pub max_match_chars: usize,
    /// Whether a file that is there must be read before it is written, edited or deleted.
    pub read_before_write: bool,
}

impl Default for VfsConfig {
    fn default() -> Self {
        Self {
            root: None,
            mounts: Vec::new(),
            allowed_roots: Vec::new(),
            limits: FsLimits::DEFAULT,
            max_read_bytes: 48 * 1024,
            max_entries: 1000,
            max_match_chars: 500,
            read_before_write: true,
        }
    }
}

/// The file suite: seven tools, the workspace as a resource, and read-before-write.
///
/// ```
/// use std::sync::Arc;
/// use wink::filesystem::MemoryFilesystem;
/// use wink::prelude::*;
/// use wink::suites::VfsToolsSection;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let files = Arc::new(MemoryFilesystem::new());
/// let template = PromptTemplate::builder("examples", "files")
///     .section(VfsToolsSection::new().over(files).section())
///     .build()?;
/// # let _ = template;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use = "a suite does nothing until its section is in a prompt"]
pub struct VfsToolsSection {
    config: VfsConfig,
    files: Option<Arc<dyn Filesystem>>,
}

impl VfsToolsSection {
    /// The suite over an empty workspace in memory. It belongs to the section: every executor of the prompt works in
    /// it. For one workspace per session, give each session's prompt its own with [`VfsToolsSection::over`].
    pub fn new() -> Self {
        Self::default()
    }

    /// What the tools are held to.
    pub fn config(mut self, config: VfsConfig) -> Self {
        self.config = config;
        self
    }

    /// The workspace that the tools work in. It keeps its own limits.
    pub fn over(mut self, files: Arc<dyn Filesystem>) -> Self {
        self.files = Some(files);
        self
    }

    /// The section, under key `files`. Root and mounts of the config are read here and now; if that fails, so does the
    /// building of the prompt, with the [`MountError`] as its reason ([`VfsConfig::mount`] returns it as it is).
    pub fn section(self) -> Section {
        let mounting = self.config.root.is_some() || !self.config.mounts.is_empty();
        let (files, mounts): (Arc<dyn Filesystem>, _) = match self.files {
            Some(_) if mounting => return invalid(&MountError::OtherWorkspace),
            Some(files) => (files, Vec::new()),
            None => match self.config.mount() {
                Ok(mounted) => (Arc::new(mounted.files), mounted.mounts),
                Err(error) => return invalid(&error),
            },
        };
        let read_before_write = self.config.read_before_write;
        let config = Arc::new(self.config);
        let mut body = BODY.to_owned();
        if read_before_write {
            body.push_str("\n\n");
            body.push_str(READ_FIRST);
        }
        for mount in mounts {
            body.push_str("\n\n");
            // A dollar sign in a name is just that.
            body.push_str(&mount.preview().replace('$', "$$"));
        }
        let section = section()
            .body(body)
            .resource(Binding::filesystem(files))
            .tool(look::read_file(&config))
            .tool(change::write_file())
            .tool(change::edit_file())
            .tool(look::list_directory(&config))
            .tool(change::delete_file())
            .tool(look::glob(&config))
            .tool(look::grep(&config));
        if read_before_write { section.policy(ReadBeforeWritePolicy::new()) } else { section }
    }
}

impl From<VfsToolsSection> for Section {
    fn from(suite: VfsToolsSection) -> Self {
        suite.section()
    }
}

impl std::fmt::Debug for VfsToolsSection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VfsToolsSection").field("config", &self.config).finish_non_exhaustive()
    }
}

fn section() -> Section {
    Section::markdown("files", "Files")
}

/// A section that no prompt can be built with.
fn invalid(error: &MountError) -> Section {
    section().invalid(error.to_string())
}

/// Nothing leaves the workspace.
fn annotations(destructive: bool, idempotent: bool) -> Annotations {
    Annotations { read_only: false, destructive, idempotent, open_world: false }
}

fn looking() -> Annotations {
    Annotations { read_only: true, ..annotations(false, true) }
}

const BODY: &str = "\
You work in a workspace of files. Paths are relative to its root, with `/` between the parts; nothing outside it can \
be reached.

- Find your way with `list_directory`, `glob` (`*` stays within one directory, `**` crosses them) and `grep` (regular \
expressions).
- `read_file` numbers the lines from 1. The numbers and the `|` after them are not part of the file. Long files come \
in parts: go on with `offset`.
- Change part of a file with `edit_file`: `old_string` must be the exact text, and occur only once unless you set \
`replace_all`. `write_file` makes a file, or replaces all of it.
- A call that fails has changed nothing.";

const READ_FIRST: &str = "\
Read a file before you write, edit or delete it, and again when it was changed since. New files need no reading.";
