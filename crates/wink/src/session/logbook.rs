//! The log as the store has it: calls and undos by number, and what each changed. No session is opened for it.

use std::sync::Arc;

use super::slice::{Change, Item, SliceDef, SliceKind, SliceType};
use super::{InvocationId, SessionId, ToolInvoked, Undone, record};
use crate::store::{HistoryQuery, JournalId, SharedStore, StoreError};

/// The log of one session, read from its store.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use wink::prelude::*;
/// use wink::session::Logbook;
/// use wink::testing::ByteStore;
///
/// let store = Arc::new(ByteStore::new());
/// let session = Session::builder().store(store.clone()).id("work").open().await?;
/// let prompt = PromptTemplate::builder("examples", "log").build()?.prompt();
/// let executor = Executor::open(&prompt, &session).await?;
/// let outcome = executor.call(ToolCall::new("1", "no_such_tool", "{}")).await;
///
/// let log = Logbook::of(store, "work").entries().await?;
/// assert_eq!((log.len(), log[0].seq, log[0].event.id()), (1, 1, outcome.event.id));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Logbook {
    store: SharedStore,
    session: SessionId,
}

/// One entry of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogEntry {
    /// Its place among the calls and undos of the session, from 1, in the order in which they ended.
    pub seq: u64,
    /// What happened.
    pub event: LogEvent,
}

/// What can be in the log under a number.
#[derive(Debug, Clone, PartialEq)]
pub enum LogEvent {
    /// A call.
    Call(Arc<ToolInvoked>),
    /// The undo of calls, which can be undone like a call.
    Undone(Arc<Undone>),
}

/// What a call, or an undo, changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallChanges {
    /// The changes to files that were committed with it, by the names of their journals.
    pub journals: Vec<JournalId>,
    /// The STATE slices that it changed, by name, sorted.
    pub slices: Vec<String>,
    /// Whether something of it may be missing here, since the store does not keep it any more.
    pub forgotten: bool,
}

impl LogEvent {
    /// The call's id, or the undo's.
    pub fn id(&self) -> InvocationId {
        match self {
            Self::Call(call) => call.id,
            Self::Undone(undone) => undone.id,
        }
    }
}

impl Logbook {
    /// The log of this session. Calls that were in flight when their process died are in it as soon as somebody has
    /// opened the session since.
    pub fn of(store: SharedStore, session: impl Into<SessionId>) -> Self {
        Self { store, session: session.into() }
    }

    /// All entries, oldest first.
    ///
    /// # Errors
    /// When the store keeps no history, or what it holds cannot be read.
    pub async fn entries(&self) -> Result<Vec<LogEntry>, StoreError> {
        let mut found: Vec<(u64, LogEvent)> = Vec::new();
        found.extend(self.events(LogEvent::Call).await?);
        found.extend(self.events(LogEvent::Undone).await?);
        found.sort_by_key(|(number, _)| *number);
        Ok((1..).zip(found).map(|(seq, (_, event))| LogEntry { seq, event }).collect())
    }

    /// What a call, or an undo, changed; nothing, for one that did not succeed.
    ///
    /// # Errors
    /// When the store keeps no history, or cannot be read.
    pub async fn changes(&self, call: InvocationId) -> Result<CallChanges, StoreError> {
        let query = HistoryQuery { call: Some(call), ..HistoryQuery::default() };
        let history = self.store.history(&self.session, query).await?;
        let first = history.records.first().map(|one| one.sequence);
        let is_state = |record| record::kind_of(record) == Some(SliceKind::State);
        let mut slices: Vec<String> = Vec::new();
        for one in history.records.iter().filter(|one| !record::is_own(&one.record.stream)) {
            if is_state(&one.record) {
                slices.push(one.record.stream.clone());
            }
        }
        slices.sort_unstable();
        slices.dedup();
        Ok(CallChanges {
            journals: history.journals.iter().map(|journal| journal.id).collect(),
            slices,
            forgotten: first.is_none_or(|first| first <= history.compacted.max(history.forgotten)),
        })
    }

    /// The events of one type, with the numbers of their records.
    async fn events<E: SliceType>(
        &self,
        entry: fn(Arc<E>) -> LogEvent,
    ) -> Result<Vec<(u64, LogEvent)>, StoreError> {
        let def = SliceDef::of::<E>();
        let query = HistoryQuery { stream: Some(def.name.to_owned()), ..HistoryQuery::default() };
        let mut found = Vec::new();
        for one in self.store.history(&self.session, query).await?.records {
            let unreadable = |reason: String| StoreError::failed("read the log", reason);
            let added: Vec<Item> = match record::change_in(&def, &one.record).map_err(unreadable)? {
                // What an older log came to.
                Change::Replace(items) => {
                    found.clear();
                    items
                }
                change => change.into_added(),
            };
            let events = added.into_iter().filter_map(|item| item.downcast::<E>().ok());
            found.extend(events.map(|event| (one.sequence, entry(event))));
        }
        Ok(found)
    }
}

impl std::fmt::Debug for Logbook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logbook").field("session", &self.session).finish_non_exhaustive()
    }
}
