//! What can go wrong with a journal, and what is then true of the tree.

use std::io;
use std::path::{Path, PathBuf};

use super::super::name::listed;
use crate::store::{JournalId, StoreError};

/// Why a journal did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// A path is not as it was expected to be. The tree is as it was before.
    #[error("'{}' was changed by somebody else meanwhile; look at it again. Nothing was changed{}", path.display(), told(aside))]
    Conflict {
        /// The path.
        path: PathBuf,
        /// What else somebody changed while the plan was carried out.
        aside: Vec<KeptAside>,
    },
    /// The plan contradicts itself. The tree was not touched.
    #[error("the plan cannot be carried out: {reason}")]
    Plan {
        /// Why.
        reason: String,
    },
    /// A plan failed on the way. The tree is as it was before.
    #[error("{source}; everything is as it was before{}", told(aside))]
    NotApplied {
        /// What failed.
        source: Box<JournalError>,
        /// What somebody else changed meanwhile.
        aside: Vec<KeptAside>,
    },
    /// A plan was to be taken back, and that failed. The journal is still there, and
    /// [`Journal::recover`](super::Journal::recover) takes it back.
    #[error(
        "{}{undoing}{}. Mend what stands in the way: it is taken back when the workspace is next opened or changed",
        first(source.as_deref()), still_there(left)
    )]
    NotUndone {
        /// The journal.
        id: JournalId,
        /// Why it was to be taken back, if it had failed on the way.
        source: Option<Box<JournalError>>,
        /// What failed then.
        undoing: Box<JournalError>,
        /// What of the plan could be seen in the tree afterwards.
        left: Vec<PathBuf>,
    },
    /// There is a journal that was neither kept nor rolled back.
    #[error("journal {id} is neither kept nor rolled back; recover it before anything else is changed")]
    Unsettled {
        /// The journal.
        id: JournalId,
    },
    /// A store decides about a journal whose owner died, and is not there to be asked.
    #[error(
        "journal {id} is not settled, and only the store of this workspace knows whether it was committed; open it as a Workspace, or with HostOptions::verdict. Nothing was changed"
    )]
    StoreDecides {
        /// The journal.
        id: JournalId,
    },
    /// The store does not know a journal that was committed to it.
    #[error(
        "change {id} was committed, and the store of this workspace does not know it: its database is older than the workspace, as one from a backup is, or one without the '-wal' file that belongs to it. Nothing was changed. Bring the right one back{}", or_else(*undecided)
    )]
    OlderStore {
        /// The journal.
        id: JournalId,
        /// How many others are undecided: only the right store knows what becomes of them.
        undecided: usize,
    },
    /// There is no such journal, or it is settled.
    #[error("there is no journal {id} to be settled")]
    Unknown {
        /// What was asked for.
        id: JournalId,
    },
    /// A journal that cannot be understood.
    #[error("the journal in '{}' cannot be read: {reason}; it is left alone. Was it written by a later version?", path.display())]
    Unreadable {
        /// Where it is.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It cannot be known whether a journal was committed.
    #[error("cannot ask whether journal {id} was committed: {source}")]
    Verdict {
        /// The journal.
        id: JournalId,
        /// Why.
        source: StoreError,
    },
    /// The disk refused.
    #[error("cannot {doing} '{}': {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the disk said.
        source: io::Error,
    },
}

/// A path that somebody else changed, so that rolling back left it as it is; or that belongs to somebody else, so that it could
/// not be given its mode and time back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAside {
    /// The path as it was called before the plan.
    pub path: PathBuf,
    /// Where that which was there before the plan is now; nothing, if nothing was there or it is gone.
    pub aside: Option<PathBuf>,
}

impl JournalError {
    /// What somebody else changed, so that it was left as it is when the plan was taken back.
    pub fn aside(&self) -> &[KeptAside] {
        match self {
            Self::Conflict { aside, .. } | Self::NotApplied { aside, .. } => aside,
            _ => &[],
        }
    }
}

/// What was kept aside, to be added to a sentence.
pub(in super::super) fn told(aside: &[KeptAside]) -> String {
    aside.iter().fold(String::new(), |text, KeptAside { path, aside }| match aside {
        Some(aside) => {
            format!(
                "{text}; '{}' is left as somebody changed it (before: '{}')",
                path.display(),
                aside.display()
            )
        }
        None => format!("{text}; '{}' is left as somebody changed it", path.display()),
    })
}

/// Why something was to be taken back, and that it could not be.
fn first(source: Option<&JournalError>) -> String {
    match source {
        Some(source) => format!("{source}; taking back what had been done failed as well: "),
        None => "what was left half-done cannot be taken back: ".to_owned(),
    }
}

/// What is not taken back, to be added to a sentence.
fn still_there(left: &[PathBuf]) -> String {
    match left.is_empty() {
        true => String::new(),
        false => format!(". Not as it was before: {}", listed(left)),
    }
}

/// Says what was being done to what.
pub(super) trait Doing<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, JournalError>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T, JournalError> {
        self.map_err(|source| JournalError::Io { doing, path: path.to_owned(), source })
    }
}

/// What can be done where the right store is gone for good.
fn or_else(undecided: usize) -> String {
    match undecided {
        0 => "; or type `wink ledger acknowledge-loss` to go on with this one".to_owned(),
        count => format!(
            "; or type `wink ledger acknowledge-loss` to go on with this one, which takes back {count} changes that are undecided"
        ),
    }
}
