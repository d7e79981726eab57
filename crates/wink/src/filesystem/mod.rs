//! The workspace: one object-safe asynchronous trait, the types it speaks in, and its implementations: in memory, and
//! over a directory ([`host`]).
//!
//! A path is an [`FsPath`] and nothing else: it is normalised once, in [`FsPath::parse`], so no
//! implementation ever sees `..`, and two spellings of one path are one value. A call works on a
//! [`fork`](Filesystem::fork); commit [merges](Filesystem::merge) it, rollback forgets it.
//!
//! Nothing here decides who may write what (policies do) or when a fork is merged (transactions do).

mod error;
mod ext;
#[cfg(unix)]
pub mod host;
mod limits;
mod looking;
mod memory;
mod path;
mod quote;
mod resolutions;
mod revert;
mod search;
mod snapshot;
mod stored;
mod text;
mod types;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::BoxFuture;

/// The name of the runtime's own directory, at the root of a workspace on disk. Tools never see it.
pub const STATE: &str = ".wink";

pub(crate) use error::shown;
pub use error::{FsError, FsErrorKind};
pub use ext::FilesystemExt;
pub use limits::FsLimits;
pub(crate) use looking::Looking;
pub use memory::MemoryFilesystem;
pub(crate) use path::meanings;
pub use path::{FsPath, SHOWN_AT};
pub(crate) use quote::named;
pub use quote::{quoted, turns_text};
pub use resolutions::Resolutions;
pub use revert::{LeftAlone, MergedBy, Revert, Reverted, UndoForce};
pub(crate) use search::GlobPattern;
pub(crate) use snapshot::Ground;
pub use snapshot::{FsSnapshot, MergeReceipt, SnapshotData};
pub use types::{
    BytesRead, DeleteMode, DirEntry, Edit, EditReceipt, EntryKind, FileVersion, GrepMatch, GrepOutcome,
    GrepQuery, InvalidFileVersion, Metadata, MkdirOptions, ReadWindow, TextRead, WriteMode, WriteOptions,
    WriteReceipt,
};

/// The write turn of a workspace ([`Filesystem::write_turn`]). Dropping it ends the turn.
#[must_use = "the turn ends when this is dropped"]
pub struct WriteTurn {
    held: Box<dyn Any + Send + Sync>,
}

impl WriteTurn {
    /// A turn that lasts until `held` is dropped.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self { held: Box::new(held) }
    }

    /// What it was made of, if that is an `H`.
    pub fn held<H: Any>(&self) -> Option<&H> {
        self.held.downcast_ref()
    }
}

impl std::fmt::Debug for WriteTurn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("WriteTurn(..)")
    }
}

/// What a filesystem operation gives back.
pub type FsResult<T> = Result<T, FsError>;

/// The files of a workspace.
///
/// Every operation applies fully or not at all, and is safe to use from several threads: concurrent edits of
/// one file lose nothing. Implementations prove themselves with
/// [`filesystem_contract`](crate::testing::filesystem_contract). For `&str` paths see [`FilesystemExt`].
pub trait Filesystem: Send + Sync + 'static {
    /// The limits that paths, writes and searches are held to.
    fn limits(&self) -> &FsLimits;

    /// Whether every mutation is refused.
    fn is_read_only(&self) -> bool;

    /// Whether calls of one turn that write files are run one at a time, however far apart their files are. On disk they are;
    /// what is in memory can be written at the same time.
    fn writers_take_turns(&self) -> bool {
        false
    }

    /// Whether commands see the root at [`SHOWN_AT`]: then a path that begins so is one from the root, for tools and policies.
    fn is_shown(&self) -> bool {
        false
    }

    /// Reads lines of a text file, byte for byte: line endings are part of the lines.
    fn read<'a>(&'a self, path: &'a FsPath, window: ReadWindow) -> BoxFuture<'a, FsResult<TextRead>>;

    /// Reads a whole file, whatever it contains.
    fn read_bytes<'a>(&'a self, path: &'a FsPath) -> BoxFuture<'a, FsResult<BytesRead>>;

    /// Writes a file.
    fn write<'a>(
        &'a self,
        path: &'a FsPath,
        content: &'a [u8],
        options: WriteOptions,
    ) -> BoxFuture<'a, FsResult<WriteReceipt>>;

    /// Replaces an exact text in a file, leaving every other byte as it is.
    fn edit<'a>(&'a self, path: &'a FsPath, edit: &'a Edit) -> BoxFuture<'a, FsResult<EditReceipt>>;

    /// Deletes a file or a directory. The root cannot be deleted.
    fn delete<'a>(&'a self, path: &'a FsPath, mode: DeleteMode) -> BoxFuture<'a, FsResult<()>>;

    /// Creates a directory.
    fn mkdir<'a>(&'a self, path: &'a FsPath, options: MkdirOptions) -> BoxFuture<'a, FsResult<()>>;

    /// Moves a file or directory. The target must not exist and its parent must.
    fn rename<'a>(&'a self, from: &'a FsPath, to: &'a FsPath) -> BoxFuture<'a, FsResult<()>>;

    /// What is known about a path.
    fn stat<'a>(&'a self, path: &'a FsPath) -> BoxFuture<'a, FsResult<Metadata>>;

    /// Whether there is something at a path. What cannot be reached does not exist.
    fn exists<'a>(&'a self, path: &'a FsPath) -> BoxFuture<'a, FsResult<bool>> {
        Box::pin(async move {
            match self.stat(path).await {
                Ok(_) => Ok(true),
                Err(error) if error.is_absence() => Ok(false),
                Err(error) => Err(error),
            }
        })
    }

    /// The places that an operation on `path` may reach, the path itself among them: with symbolic links, where those on the
    /// way lead, and where one at its end leads. What is not there yet is where it would be made.
    ///
    /// For policies that decide by paths. An implementation without links has nothing to add.
    fn places<'a>(&'a self, path: &'a FsPath) -> BoxFuture<'a, FsResult<Vec<FsPath>>> {
        Box::pin(std::future::ready(Ok(vec![path.clone()])))
    }

    /// The same files, for one call: its policies look at them through this, and its fork is made from this. Symbolic links
    /// that lead elsewhere in the fork than they led for the policies are a [`FsError::Conflict`], and so is changing a file
    /// of which a policy saw another version.
    ///
    /// None, as by default, where the files are used as they are: an implementation without links.
    fn held_to(&self, seen: &Arc<Resolutions>) -> Option<Arc<dyn Filesystem>> {
        let _ = seen;
        None
    }

    /// The entries of a directory, sorted by name.
    fn list<'a>(&'a self, dir: &'a FsPath) -> BoxFuture<'a, FsResult<Vec<DirEntry>>>;

    /// Files and directories below `base` whose path relative to it matches `pattern`, sorted by path.
    ///
    /// `*` does not cross `/`; `**` stands for zero or more directories.
    fn glob<'a>(&'a self, base: &'a FsPath, pattern: &'a str) -> BoxFuture<'a, FsResult<Vec<DirEntry>>>;

    /// Lines of text files at or below `base` that match a regular expression, sorted by path, then line.
    fn grep<'a>(&'a self, base: &'a FsPath, query: &'a GrepQuery) -> BoxFuture<'a, FsResult<GrepOutcome>>;

    /// A private copy to work on, at constant cost. What is done to it reaches this filesystem only through
    /// [`Filesystem::merge`].
    fn fork(&self) -> FsResult<Arc<dyn Filesystem>>;

    /// Takes over what `fork`, which must come from [`Filesystem::fork`] of this very filesystem, changed.
    ///
    /// A path that changed here as well since the fork was made is a [`FsError::Conflict`], and then nothing
    /// is taken over. Directories that both sides made are not a conflict.
    fn merge(&self, fork: &dyn Filesystem) -> FsResult<MergeReceipt>;

    /// Puts everything back as it was before a merge. An error, and no change, if this filesystem was changed
    /// after the merge. What was changed around it, where that is possible, is left as it is and named
    /// ([`FsError::LeftAlone`]); everything else is put back.
    fn unmerge(&self, receipt: MergeReceipt) -> FsResult<()>;

    /// Says that a merge stands: whatever it depended on went through. Nothing can take it back any more.
    fn keep(&self, receipt: MergeReceipt) {
        drop(receipt);
    }

    /// Whether merging this fork into what it is a fork of waits for a disk, so that it is better done where nobody
    /// else has to wait. Then it says in the receipt by which journal the merge is decided.
    fn blocks(&self) -> bool {
        false
    }

    /// Waits for the write turn of the workspace and takes it, for this fork or for the one that
    /// [enters](Filesystem::enter_turn) it: as long as it is held, no other fork, session or process changes the workspace, so
    /// that this one is merged without a conflict. Nothing where there are no turns, or where this fork has it already.
    ///
    /// A turn that is not had within `patience` (or what the workspace allows, if that says nothing) is an error that names
    /// its holder. Dropping the future gives the wait up.
    fn write_turn(&self, patience: Option<Duration>) -> BoxFuture<'_, FsResult<Option<WriteTurn>>> {
        let _ = patience;
        Box::pin(std::future::ready(Ok(None)))
    }

    /// This fork, and the forks made of it, change the workspace in a turn that was taken before it was made.
    fn enter_turn(&self, turn: &WriteTurn) {
        let _ = turn;
    }

    /// What a fork changed since it was made (created, removed or rewritten), sorted. Empty for a filesystem that
    /// is not a fork.
    fn changes(&self) -> Vec<FsPath>;

    /// Takes back, in this fork, what was merged by these journals and kept. What was changed since, by whoever, is
    /// named; `force` says whether it is overwritten or nothing is done.
    ///
    /// What others put into a directory that a journal made is never removed. For filesystems whose receipts name
    /// journals; others cannot do it.
    fn revert<'a>(&'a self, journals: &'a [Revert], force: UndoForce) -> BoxFuture<'a, FsResult<Reverted>> {
        let _ = (journals, force);
        Box::pin(std::future::ready(Err(FsError::Unsupported { operation: "undoing a past call" })))
    }

    /// Marks the present state, at constant cost.
    fn snapshot(&self) -> FsResult<FsSnapshot>;

    /// Goes to the state that `snapshot` marks. Any snapshot may be restored, in any order, any number of times.
    fn restore(&self, snapshot: &FsSnapshot) -> FsResult<()>;

    /// Reads back what [`FsSnapshot::to_json`] wrote. Changes nothing.
    fn decode_snapshot(&self, json: &Value) -> FsResult<FsSnapshot>;

    /// For downcasting, as [`Filesystem::merge`] must.
    fn as_any(&self) -> &dyn Any;
}
