//! What a store says when it cannot.

/// A failure of the ground that the runtime stands on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the store failed to {doing}: {reason}")]
pub struct StoreError {
    /// What it was asked to do.
    pub doing: &'static str,
    /// Why it could not.
    pub reason: String,
    /// What that means to whoever asked.
    pub kind: StoreErrorKind,
}

/// What an error of the store means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// It could not be done.
    #[default]
    Failed,
    /// There is no space left for it. What is there can still be read.
    NoSpace,
    /// Somebody else has committed to the session meanwhile. Whoever catches up can try again.
    Moved,
    /// A call is running, in this process or another, and it is not done meanwhile.
    InUse,
    /// The store has no such operation.
    Unsupported,
    /// A newer version wrote what is there, or something else did, or it is not what belongs there. It was left as it is.
    Incompatible,
}

impl StoreError {
    /// It could not be done.
    pub fn failed(doing: &'static str, reason: impl Into<String>) -> Self {
        Self { doing, reason: reason.into(), kind: StoreErrorKind::Failed }
    }

    /// The error of a commit that expected another sequence than there is.
    pub fn moved(expected: u64, found: u64) -> Self {
        let reason = format!("somebody else has committed meanwhile: {found} records, not {expected}");
        Self { doing: "commit", reason, kind: StoreErrorKind::Moved }
    }

    /// The store has no such operation.
    pub fn unsupported(doing: &'static str) -> Self {
        Self { doing, reason: "it has no such operation".to_owned(), kind: StoreErrorKind::Unsupported }
    }

    /// Whether somebody else has committed meanwhile.
    pub fn is_moved(&self) -> bool {
        self.kind == StoreErrorKind::Moved
    }
}
