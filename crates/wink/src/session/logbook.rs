//! The log as the store has it: calls and undos by number, and what each changed. No session is opened for it.

use std::sync::Arc;

use super::slice::{Change, Item, SliceDef, SliceKind, SliceType};
use super::summary::marks_of;
use super::{InvocationId, SessionId, ToolInvoked, Undone, record};
use crate::store::{
    HistoryQuery, JournalId, NumberedRecord, PageOrder, PageQuery, Record, SharedStore, StoreError,
};

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

/// Entries of the log, and those that cannot be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogPage {
    /// Those that were asked for, oldest first.
    pub entries: Vec<LogEntry>,
    /// Those that cannot be read, oldest first.
    pub unreadable: Vec<UnreadableEntry>,
}

/// An entry of the log that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableEntry {
    /// Its place, as that of a [`LogEntry`].
    pub seq: u64,
    /// Why.
    pub reason: String,
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

impl LogPage {
    fn add(&mut self, seq: u64, event: Result<LogEvent, String>) {
        match event {
            Ok(event) => self.entries.push(LogEntry { seq, event }),
            Err(reason) => self.unreadable.push(UnreadableEntry { seq, reason }),
        }
    }

    /// All entries, if every one can be read.
    fn whole(self) -> Result<Vec<LogEntry>, StoreError> {
        match self.unreadable.into_iter().next() {
            Some(UnreadableEntry { seq, reason }) => Err(unreadable(format!("entry {seq}: {reason}"))),
            None => Ok(self.entries),
        }
    }
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
        self.all().await?.whole()
    }

    async fn all(&self) -> Result<LogPage, StoreError> {
        let mut found: Vec<(u64, Result<LogEvent, String>)> = Vec::new();
        found.extend(self.events(LogEvent::Call).await?);
        found.extend(self.events(LogEvent::Undone).await?);
        found.sort_by_key(|(number, _)| *number);
        let mut page = LogPage::default();
        for (seq, (_, event)) in (1..).zip(found) {
            page.add(seq, event);
        }
        Ok(page)
    }

    /// The newest entries that `takes` takes, no more than `most`, of those after entry number `after`; oldest first. No more of
    /// the log is read than it takes to find them, and no more of it is in memory at a time than a page.
    ///
    /// # Errors
    /// When the store keeps no history, or what it holds cannot be read.
    pub async fn newest(
        &self,
        after: u64,
        most: usize,
        takes: impl FnMut(&LogEvent) -> bool,
    ) -> Result<Vec<LogEntry>, StoreError> {
        self.readable(after, most, takes).await?.whole()
    }

    /// The same, where entries that cannot be read are named, and the others are there.
    ///
    /// # Errors
    /// When the store keeps no history, or cannot be read.
    pub async fn readable(
        &self,
        after: u64,
        most: usize,
        mut takes: impl FnMut(&LogEvent) -> bool,
    ) -> Result<LogPage, StoreError> {
        let Some(Plain { total, mut upto }) = self.plain().await? else {
            let LogPage { mut entries, mut unreadable } = self.all().await?;
            entries.retain(|entry| entry.seq > after && takes(&entry.event));
            unreadable.retain(|entry| entry.seq > after);
            let entries = entries.split_off(entries.len().saturating_sub(most));
            return Ok(LogPage { entries, unreadable });
        };
        let (mut seq, mut size) = (total, 1);
        let mut found = LogPage::default();
        while seq > after && found.entries.len() < most {
            let page = self.page(PageQuery { upto, most: size, ..newest_first() })?;
            let Some(last) = page.last() else { break };
            upto = last.sequence.saturating_sub(1);
            size = (size * 2).min(MOST_AT_ONCE);
            for one in &page {
                if seq <= after || found.entries.len() == most {
                    break;
                }
                match event_in(&one.record) {
                    Ok(event) if !takes(&event) => {}
                    read => found.add(seq, read),
                }
                seq = seq.saturating_sub(1);
            }
        }
        found.entries.reverse();
        found.unreadable.reverse();
        Ok(found)
    }

    /// The entry with this number.
    ///
    /// # Errors
    /// When the store keeps no history, or what it holds cannot be read.
    pub async fn entry(&self, seq: u64) -> Result<Option<LogEntry>, StoreError> {
        let Some(Plain { total, upto }) = self.plain().await? else {
            return Ok(self.entries().await?.into_iter().find(|entry| entry.seq == seq));
        };
        let Some(skip) = total.checked_sub(seq).filter(|_| seq > 0) else { return Ok(None) };
        let page = self.page(PageQuery { upto, skip, most: 1, ..newest_first() })?;
        let read = |one: &NumberedRecord| event_in(&one.record).map(|event| LogEntry { seq, event });
        page.first().map(|one| read(one).map_err(unreadable)).transpose()
    }

    /// The entry of this call, or this undo.
    ///
    /// # Errors
    /// When the store keeps no history, or what it holds cannot be read.
    pub async fn find(&self, id: InvocationId) -> Result<Option<LogEntry>, StoreError> {
        let Some(Plain { total, upto }) = self.plain().await? else {
            return Ok(self.entries().await?.into_iter().find(|entry| entry.event.id() == id));
        };
        for stream in STREAMS {
            let stream = Some(stream.to_owned());
            let query = HistoryQuery { call: Some(id), stream, upto: Some(upto), ..HistoryQuery::default() };
            for one in self.store.history(&self.session, query).await?.records {
                let event = event_in(&one.record).map_err(unreadable)?;
                if event.id() == id {
                    let later = PageQuery { after: one.sequence, upto, ..newest_first() };
                    let later = self.store.count(&self.session, &later)?;
                    return Ok(Some(LogEntry { seq: total.saturating_sub(later), event }));
                }
            }
        }
        Ok(None)
    }

    /// How many entries there are, and up to which number, if the store has pages and each entry is one record there: nothing
    /// of the log was left out since.
    async fn plain(&self) -> Result<Option<Plain>, StoreError> {
        if !self.store.has_pages() {
            return Ok(None);
        }
        let marks = marks_of(&self.store, &self.session, &STREAMS).await?;
        let is_plain = marks.iter().all(|mark| mark.after == 0);
        let total = marks.iter().fold(0, |sum: u64, mark| sum.saturating_add(mark.count));
        let upto = marks.iter().map(|mark| mark.upto).max().unwrap_or_default();
        Ok(is_plain.then_some(Plain { total, upto }))
    }

    fn page(&self, query: PageQuery) -> Result<Vec<NumberedRecord>, StoreError> {
        self.store.page(&self.session, &query)
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
    ) -> Result<Vec<(u64, Result<LogEvent, String>)>, StoreError> {
        let def = SliceDef::of::<E>();
        let query = HistoryQuery { stream: Some(def.name.to_owned()), ..HistoryQuery::default() };
        let mut found = Vec::new();
        for one in self.store.history(&self.session, query).await?.records {
            let added: Vec<Item> = match record::change_in(&def, &one.record) {
                // What an older log came to.
                Ok(Change::Replace(items)) => {
                    found.clear();
                    items
                }
                Ok(change) => change.into_added(),
                Err(reason) => {
                    found.push((one.sequence, Err(reason)));
                    continue;
                }
            };
            let events = added.into_iter().filter_map(|item| item.downcast::<E>().ok());
            found.extend(events.map(|event| (one.sequence, Ok(entry(event)))));
        }
        Ok(found)
    }
}

/// A log in which each entry is one record.
struct Plain {
    total: u64,
    upto: u64,
}

/// The streams whose records are entries.
const STREAMS: [&str; 2] = [ToolInvoked::NAME, Undone::NAME];
/// How many records are read at once, at most.
const MOST_AT_ONCE: usize = 64;

/// Pages of entries, from the end.
fn newest_first() -> PageQuery {
    let streams = STREAMS.map(str::to_owned).to_vec();
    PageQuery { streams, order: PageOrder::NewestFirst, ..PageQuery::default() }
}

/// The one event that a record adds.
fn event_in(one: &Record) -> Result<LogEvent, String> {
    let event = match one.stream == Undone::NAME {
        true => added(one)?.map(LogEvent::Undone),
        false => added(one)?.map(LogEvent::Call),
    };
    event.ok_or_else(|| "a record without an event".to_owned())
}

fn added<E: SliceType>(one: &Record) -> Result<Option<Arc<E>>, String> {
    let change = record::change_in(&SliceDef::of::<E>(), one)?;
    Ok(change.into_added().pop().and_then(|item| item.downcast::<E>().ok()))
}

fn unreadable(reason: String) -> StoreError {
    StoreError::failed("read the log", reason)
}

impl std::fmt::Debug for Logbook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logbook").field("session", &self.session).finish_non_exhaustive()
    }
}
