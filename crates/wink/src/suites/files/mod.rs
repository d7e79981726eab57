//! File tools over a workspace, whatever it is kept in.
//!
//! The tools reach the workspace only through the call's context, so what they do is undone with a call that fails,
//! and nothing outside the workspace can be named. Which file may be written is for policies to say; the suite brings
//! the one that wants a file read before it is overwritten.

mod change;
mod error;
mod found;
mod look;

use std::sync::Arc;

use crate::filesystem::{Filesystem, FsLimits, MemoryFilesystem};
use crate::policy::ReadBeforeWritePolicy;
use crate::prompt::Section;
use crate::resource::Binding;
use crate::tool::Annotations;

pub use change::{DeleteFile, EditFile, FileDeleted, FileEdited, FileWritten, WriteFile};
pub use found::{FileWindow, GrepFound, GrepLine, Listed, Listing};
pub use look::{Glob, Grep, ListDirectory, ReadFile};

/// What the tools are held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VfsConfig {
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

    /// The section, under key `files`.
    pub fn section(self) -> Section {
        let files =
            self.files.unwrap_or_else(|| Arc::new(MemoryFilesystem::new().with_limits(self.config.limits)));
        let read_before_write = self.config.read_before_write;
        let config = Arc::new(self.config);
        let body = if read_before_write { format!("{BODY}\n\n{READ_FIRST}") } else { BODY.to_owned() };
        let section = Section::markdown("files", "Files")
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
