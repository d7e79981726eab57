//! Why a transaction did not go through, and what is then true.

use super::InsideCall;
use crate::resource::ResourceError;
use crate::session::CommitError;

/// A transaction did not go through. Nothing of it remains, unless it says so.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum TransactionError {
    /// The session or the store refused.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A resource could not be merged.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// An operation of the transaction was still going on, or panicked half-way, so that there was no whole to keep.
    #[error(
        "an operation of the transaction had not finished when it was to be kept; it was rolled back: end every operation first"
    )]
    Unfinished,
    /// It looked at the log, and something of that could not be read.
    #[error(
        "a part of the log that it looked at could not be read; it was rolled back: try again, and see `Session::problems`"
    )]
    LogUnread,
    /// Something panicked on the way: a value that was dropped, or code between.
    #[error("committing panicked: {0}")]
    Panicked(String),
    /// It was begun from inside a call of the same session.
    #[error(transparent)]
    Inside(#[from] InsideCall),
    /// Taking back what was merged failed.
    #[error(transparent)]
    Restore(#[from] RestoreFailedError),
    /// The transaction was rolled back, and the store did not take its LOG events.
    #[error("rolled back ({cause}), but its log could not be stored: {error}")]
    NotRecorded {
        /// Why it was rolled back.
        cause: String,
        /// What the store said.
        error: CommitError,
    },
}

/// Something could not be put back as it was. Never swallowed: what is on the ground is not what the log says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("restoring the earlier state failed: {reason}")]
pub struct RestoreFailedError {
    /// What failed, and why.
    pub reason: String,
}
