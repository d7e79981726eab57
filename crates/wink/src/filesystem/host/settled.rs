//! A workspace in which nothing is undecided, for whoever has to be sure of that.

use super::HostFilesystem;
use super::fork::journal_error;
use super::lock::WorkspaceLock;
use crate::filesystem::FsResult;
use crate::store::JournalId;

/// As long as this lives, nobody changes the workspace, and no change of it is undecided: what the store knows of
/// committed changes is not needed to make it whole.
#[derive(Debug)]
#[must_use = "it holds as long as this lives"]
pub struct AllSettled {
    _lock: WorkspaceLock,
    last: Option<JournalId>,
}

impl AllSettled {
    /// The last change that the store knew to be committed. By this one it is told from an older store when the workspace is
    /// next opened, so it has to stay known.
    pub fn last_stored(&self) -> Option<JournalId> {
        self.last
    }
}

impl HostFilesystem {
    /// Waits until nobody changes the workspace, and settles what somebody who died left undecided.
    pub fn settle(&self) -> FsResult<AllSettled> {
        let base = &self.shared.base;
        let writing = base.writing()?;
        let lock = writing.settled(&base.disk)?;
        let last = writing.journal.last_stored().map_err(|error| journal_error(&error))?;
        Ok(AllSettled { _lock: lock, last })
    }
}
