//! The undo of past calls: files, slices and tables go back to what they were, in one transaction like any other.
//!
//! What a call changed in the session is in the store's records; what it changed in the workspace is in the journals that
//! were committed with it. Both are looked at here, and put into the forks of a new transaction, which checks once more
//! that nobody came between, and is kept or forgotten as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{AccessError, NoTurn, Transaction, TransactionError, report};
use crate::filesystem::{self, Filesystem, FsError, FsPath, LeftAlone, Reverted, UndoForce};
use crate::ledger::{REQUEST_KEY, ToolEffect};
use crate::resource::ResourceContext;
use crate::session::{
    Action, Closing, CommitError, Conflict, Ending, InvocationId, Item, KeptEffect, PastCalls, PastError,
    Session, SliceBack, TablesBack, ToolInvoked, UndoReach, Undone,
};
use crate::store::{LedgerState, Rows, StoreError, StoreErrorKind};
use crate::support::background::MustFinish;

/// What to undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UndoRequest {
    /// A call, or an earlier undo.
    pub call: InvocationId,
    /// How far to go.
    pub reach: UndoReach,
    /// What becomes of what something later changed.
    pub force: UndoForce,
}

/// Why nothing was undone.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// The session has no such call.
    #[error("this session has no call {call}")]
    Unknown {
        /// What was asked for.
        call: InvocationId,
    },
    /// The call changed nothing, since it did not succeed.
    #[error("call {call} did not succeed ({ending:?}), so there is nothing of it to undo")]
    NotSucceeded {
        /// The call.
        call: InvocationId,
        /// How it ended.
        ending: Ending,
    },
    /// What the call changed is not remembered any more.
    #[error("call {call} can no longer be undone: {why}")]
    Forgotten {
        /// The call.
        call: InvocationId,
        /// What is missing.
        why: &'static str,
    },
    /// Something later changed what the call changed.
    #[error(
        "changed since by something else: {}; nothing was undone, since that would overwrite it",
        named(.files, .slices)
    )]
    Changed {
        /// The paths that are not as the call left them, sorted.
        files: Vec<FsPath>,
        /// The slices that are not as the call left them, by name, sorted.
        slices: Vec<String>,
    },
    /// The call changed slices that this program cannot read.
    #[error("what it changed in the session cannot be read here, and nothing was undone: {}", reasons(.slices))]
    Slices {
        /// The slices, and why.
        slices: BTreeMap<String, String>,
    },
    /// The store keeps no history.
    #[error("the session's store does not remember what calls changed, so nothing can be undone")]
    NoHistory,
    /// The files could not be brought back.
    #[error("the files that it changed cannot be brought back, and nothing was undone: {0}")]
    Files(#[from] FsError),
    /// The workspace or the session could not be had.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The store failed.
    #[error(transparent)]
    Store(StoreError),
    /// The transaction did not go through.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
}

/// Makes the files and slices that a past call changed what they were before it, and says so in the log ([`Undone`]).
///
/// Whatever is not as the call left it, a later call, another session or a person having changed it, is named and nothing
/// is undone, unless it is to be overwritten. With [`UndoReach::ToBefore`] all that the session and its calls did since
/// goes back too; what others did to other files stays. LOG slices stay, and so do the entries of the ledger: what
/// happened outside is not undone. Resources other than the workspace remember nothing, and stay as they are.
///
/// An undo has an id like a call's, by which it can be undone in turn.
///
/// # Errors
/// Whatever is the reason, everything is as it was before.
pub async fn undo(
    session: &Session,
    resources: &ResourceContext,
    request: UndoRequest,
) -> Result<Undone, UndoError> {
    if !session.is_durable() {
        return Err(UndoError::NoHistory);
    }
    let time = session.clock().now();
    let id = session.fresh_id(time);
    let tx = Transaction::begin_call(session, resources, ("undo".into(), id)).await;
    if let Some(why) = tx.work().refusal() {
        return Err(match why {
            NoTurn::Inside(inside) => TransactionError::Inside(inside).into(),
            NoTurn::Store(error) => UndoError::Store(error),
        });
    }
    let undone = Undone {
        id,
        call: request.call,
        reach: request.reach,
        force: request.force,
        calls: Vec::new(),
        files: Vec::new(),
        slices: Vec::new(),
        overwritten_files: Vec::new(),
        overwritten_slices: Vec::new(),
        left: Vec::new(),
        effects: Vec::new(),
        time,
    };
    match prepare(session, &tx, undone).await {
        Ok(undone) => {
            let item = Arc::new(undone.clone());
            MustFinish::new(commit(tx, item, id)).await?;
            Ok(undone)
        }
        Err(error) => {
            tx.rollback().await?;
            Err(error)
        }
    }
}

/// Puts everything into the forks of `tx`.
async fn prepare(session: &Session, tx: &Transaction, mut undone: Undone) -> Result<Undone, UndoError> {
    let (call, force) = (undone.call, undone.force);
    let past_error = |error| UndoError::of_past(call, error);
    // What the store does not have yet is not in its history.
    session.flush().await.map_err(UndoError::Store)?;
    let seen = session.last_known();
    let past = session.past_calls(call, undone.reach).await.map_err(past_error)?;
    match (&past.named, undone.reach) {
        (Some(event), UndoReach::Call) if !event.success => {
            return Err(UndoError::NotSucceeded { call, ending: event.ending });
        }
        (None, UndoReach::Call) if past.ids.is_empty() => return Err(past_error(PastError::Forgotten)),
        _ => {}
    }
    undone.calls.clone_from(&past.ids);
    let slices = session.slices_before(&past).await.map_err(past_error)?;
    let tables = session.tables_before(&past).await.map_err(past_error)?;
    let changed: Vec<String> =
        slices.iter().filter(|slice| slice.changed).map(|slice| slice.name.to_owned()).collect();
    let reverted = revert(tx, &past, force).await?;
    if !reverted.forgotten.is_empty() {
        return Err(UndoError::Forgotten { call, why: "what its files were before is not kept any more" });
    }
    if force == UndoForce::Refuse && !(changed.is_empty() && reverted.changed.is_empty()) {
        return Err(UndoError::Changed { files: reverted.changed, slices: changed });
    }
    undone.slices = slices.iter().map(|slice| slice.name.to_owned()).collect();
    undone.overwritten_slices = changed;
    undone.files = reverted.files;
    undone.overwritten_files = reverted.changed;
    undone.left = reverted.left;
    put_back(session, tx, slices, seen).await?;
    undone.left.extend(put_tables_back(tx, tables)?);
    undone.effects = effects(session, &past.calls).await.map_err(UndoError::Store)?;
    Ok(undone)
}

async fn revert(tx: &Transaction, past: &PastCalls, force: UndoForce) -> Result<Reverted, UndoError> {
    if !past.journals.is_empty() {
        let files = tx.resource::<dyn Filesystem>().await?;
        return Ok(files.revert(&past.journals, force).await?);
    }
    // Without journals nothing says whether files were changed, unless this is a workspace that has journals.
    let mut left = Vec::new();
    if let Some(files) = tx.resource_optional::<dyn Filesystem>().await?
        && let Err(FsError::Unsupported { .. }) = files.revert(&[], force).await
    {
        let why = "this workspace does not remember what calls changed in it".to_owned();
        left.push(LeftAlone { what: "files".to_owned(), why });
    }
    Ok(Reverted { left, ..Reverted::default() })
}

/// Slices become what they were. Whoever changes one from here on is in conflict with this.
async fn put_back(
    session: &Session,
    tx: &Transaction,
    slices: Vec<SliceBack>,
    seen: u64,
) -> Result<(), UndoError> {
    for slice in &slices {
        tx.work().replace(slice.slot, slice.items.clone())?;
    }
    // Whoever changed one before is in the store by now.
    match session.changed_since(&slices, seen).await.map_err(UndoError::Store)? {
        None => Ok(()),
        Some(slice) => Err(TransactionError::from(CommitError::from(Conflict::Slice { slice })).into()),
    }
}

/// What policies remember becomes what it was, unless it is something else by now: then it is about something later.
fn put_tables_back(tx: &Transaction, tables: TablesBack) -> Result<Vec<LeftAlone>, UndoError> {
    let mut left = Vec::new();
    for back in tables.policies {
        if tx.work().policy_get(&back.policy, &back.item)? == back.after {
            tx.work().policy_set(&back.policy, back.item, back.before)?;
        } else {
            let what = format!("what policy {} remembers of {}", back.policy, back.item);
            left.push(LeftAlone { what, why: "it was changed since".to_owned() });
        }
    }
    if !tables.calls.is_empty() {
        let recount = Action::Recount(Arc::new(tables.calls));
        tx.work().with(|fork, _| fork.record(recount, false))?;
    }
    Ok(left)
}

/// The entries of the ledger that these calls made.
async fn effects(session: &Session, calls: &[Arc<ToolInvoked>]) -> Result<Vec<KeptEffect>, StoreError> {
    let mut by_tool: BTreeMap<&str, Vec<&ToolInvoked>> = BTreeMap::new();
    for event in calls.iter().filter(|event| !event.replayed) {
        by_tool.entry(&event.tool).or_default().push(event);
    }
    let mut kept = Vec::new();
    for (tool, calls) in by_tool {
        for row in session.store().rows(Rows::Tool(tool.to_owned())).await? {
            let LedgerState::Recorded { effect, .. } = row.state else { continue };
            let Ok(effect) = serde_json::from_value::<ToolEffect>(effect) else { continue };
            // An entry by which a request is known again says nothing of an effect outside.
            if row.key.contains(&format!(":{tool}:{REQUEST_KEY}")) {
                continue;
            }
            let is_of = |event: &&ToolInvoked| event.ended_at() == effect.created_at;
            if effect.session.as_ref() == Some(session.id()) && calls.iter().any(is_of) {
                let (key, effect_id) = (row.key, effect.effect_id);
                kept.push(KeptEffect { tool: tool.to_owned(), key, effect_id });
            }
        }
    }
    kept.sort();
    Ok(kept)
}

/// Keeps everything, with the event.
async fn commit(tx: Transaction, event: Arc<Undone>, id: InvocationId) -> Result<(), UndoError> {
    let work = Arc::clone(tx.work());
    let item: Item = event;
    let closing = Closing { event: Some(Arc::clone(&item)), ends: Some(id), ..Closing::default() };
    match tx.commit_with(closing).await {
        Ok(()) => {
            report(work.session.deliver(&item, Some(work.source())));
            Ok(())
        }
        Err((error, aborted)) => {
            if let Err(log) = aborted.close(Closing::default()).await {
                tracing::error!(error = %log, "the end of an undo that failed was not stored");
            }
            Err(error.into())
        }
    }
}

impl UndoError {
    fn of_past(call: InvocationId, error: PastError) -> Self {
        match error {
            PastError::Unknown => Self::Unknown { call },
            PastError::Forgotten => {
                Self::Forgotten { call, why: "the store does not keep all that it changed any more" }
            }
            PastError::Slices(slices) => Self::Slices { slices },
            PastError::Store(error) if error.kind == StoreErrorKind::Unsupported => Self::NoHistory,
            PastError::Store(error) => Self::Store(error),
        }
    }
}

/// The first of them, in words.
fn named(files: &[FsPath], slices: &[String]) -> String {
    const MAX: usize = 20;
    // As they are on disk: only what is there can be undone.
    #[cfg(unix)]
    let name = filesystem::host::named_path;
    #[cfg(not(unix))]
    let name = |path: &FsPath| filesystem::named(path);
    let files = files.iter().map(|path| format!("file {}", name(path)));
    let slices = slices.iter().map(|slice| format!("the session's {slice}"));
    let all: Vec<String> = files.chain(slices).collect();
    let more = all.len().saturating_sub(MAX);
    let mut text = all.into_iter().take(MAX).collect::<Vec<_>>().join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

fn reasons(slices: &BTreeMap<String, String>) -> String {
    let all: Vec<String> = slices.iter().map(|(slice, reason)| format!("{slice}: {reason}")).collect();
    all.join("; ")
}
