//! LOG slices that a store keeps: read when somebody looks at them, a page at a time.
//!
//! Memory holds of such a slice what the store has not been given yet, and where in the store the rest is ([`LogMark`]): a
//! session takes no more room for its log being long. Records do not change once they are stored, so a mark says for good what
//! a view of the slice has.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::items::Items;
use super::open::SliceProblem;
use super::slice::{Cell, Change, Item, SliceDef};
use super::{SessionId, record};
use crate::store::{NumberedRecord, PageOrder, PageQuery, SharedStore, StoreError};
use crate::support::future::catch;
use crate::support::lock::lock;

/// The most records of a page. The first is smaller, since mostly little is looked at.
const MOST: usize = 256;

/// From where the log of a session is read.
pub(crate) struct LogSource {
    store: SharedStore,
    session: SessionId,
    unread: Arc<Unread>,
}

/// What of the log could not be read when somebody looked.
#[derive(Default)]
pub(crate) struct Unread {
    count: AtomicU64,
    problems: Mutex<Vec<SliceProblem>>,
}

/// Where a LOG slice is in the store: its records after one number, up to another, and how many items those have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogMark {
    pub(super) after: u64,
    pub(super) upto: u64,
    pub(super) count: u64,
}

impl LogMark {
    /// A slice that has nothing up to this number.
    pub(super) fn empty(upto: u64) -> Self {
        Self { after: upto, upto, count: 0 }
    }
}

/// The part of a LOG slice that is in the store.
#[derive(Clone)]
pub(crate) struct Older {
    source: Arc<LogSource>,
    def: Arc<SliceDef>,
    pub(super) mark: LogMark,
}

/// Goes through the items of a slice, page by page.
struct Pages {
    older: Older,
    order: PageOrder,
    most: usize,
    ready: VecDeque<Item>,
    ended: bool,
}

impl LogSource {
    pub(super) fn new(store: SharedStore, session: SessionId, unread: Arc<Unread>) -> Self {
        Self { store, session, unread }
    }

    /// A page. A store that panics has failed, like any other.
    pub(super) fn page(&self, query: &PageQuery) -> Result<Vec<NumberedRecord>, StoreError> {
        catch(|| self.store.page(&self.session, query))
            .unwrap_or_else(|panic| Err(StoreError::failed("read a page", format!("it panicked: {panic}"))))
    }

    /// Every record of a stream after one number, up to another, handed out one by one.
    pub(super) fn each(
        &self,
        stream: &str,
        LogMark { mut after, upto, .. }: LogMark,
        mut take: impl FnMut(NumberedRecord),
    ) -> Result<(), StoreError> {
        while after < upto {
            let query = PageQuery { streams: vec![stream.to_owned()], after, upto, ..PageQuery::default() };
            let page = self.page(&query)?;
            let Some(last) = page.last() else { return Ok(()) };
            after = last.sequence;
            page.into_iter().for_each(&mut take);
        }
        Ok(())
    }
}

impl Unread {
    /// How often there was something.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    pub(super) fn problems(&self) -> Vec<SliceProblem> {
        lock(&self.problems).clone()
    }

    fn note(&self, slice: &str, reason: String) {
        tracing::error!(slice, reason, "a part of the log cannot be read");
        let problem = SliceProblem { slice: slice.to_owned(), reason };
        let mut problems = lock(&self.problems);
        if !problems.contains(&problem) {
            problems.push(problem);
        }
        self.count.fetch_add(1, Ordering::AcqRel);
    }
}

impl Older {
    pub(super) fn new(source: Arc<LogSource>, def: Arc<SliceDef>, mark: LogMark) -> Self {
        Self { source, def, mark }
    }

    pub(super) fn len(&self) -> usize {
        usize::try_from(self.mark.count).unwrap_or(usize::MAX)
    }

    pub(super) fn oldest(&self) -> impl Iterator<Item = Item> + use<> {
        self.pages(PageOrder::OldestFirst)
    }

    pub(super) fn newest(&self) -> impl Iterator<Item = Item> + use<> {
        self.pages(PageOrder::NewestFirst)
    }

    fn pages(&self, order: PageOrder) -> Pages {
        let ended = self.mark.count == 0;
        Pages { older: self.clone(), order, most: 1, ready: VecDeque::new(), ended }
    }
}

impl Pages {
    fn read(&mut self) {
        let Older { source, def, mark } = &mut self.older;
        let query = PageQuery {
            streams: vec![def.name.to_owned()],
            after: mark.after,
            upto: mark.upto,
            order: self.order,
            most: self.most,
            ..PageQuery::default()
        };
        self.most = self.most.saturating_mul(2).min(MOST);
        let page = match source.page(&query) {
            Ok(page) => page,
            Err(error) => {
                source.unread.note(def.name, error.to_string());
                self.ended = true;
                return;
            }
        };
        let Some(last) = page.last() else {
            self.ended = true;
            return;
        };
        match self.order {
            PageOrder::OldestFirst => mark.after = last.sequence,
            PageOrder::NewestFirst => mark.upto = last.sequence.saturating_sub(1),
        }
        self.ended = mark.after >= mark.upto;
        for one in &page {
            let (mut items, whole) = match record::change_in(def, &one.record) {
                Ok(Change::Replace(items)) => (items, true),
                Ok(change) => (change.into_added(), false),
                Err(reason) => {
                    source.unread.note(def.name, reason);
                    continue;
                }
            };
            if self.order == PageOrder::NewestFirst {
                items.reverse();
            }
            self.ready.extend(items);
            // What came before the replacement of everything is no longer in the slice.
            if whole && self.order == PageOrder::NewestFirst {
                self.ended = true;
                return;
            }
        }
    }
}

impl Iterator for Pages {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            if self.ended {
                return None;
            }
            self.read();
        }
    }
}

impl Cell {
    /// The first `held` of the items in memory are in the store now, and `more` after them that never were in memory: all
    /// up to number `upto`. A slice that the store had nothing of begins after `floor`. Returns what is no longer held.
    pub(super) fn stored(
        &mut self,
        source: &Arc<LogSource>,
        def: &Arc<SliceDef>,
        floor: u64,
        (held, more): (usize, usize),
        upto: u64,
    ) -> imbl::Vector<Item> {
        let (older, mut tail) = match std::mem::replace(&mut self.items, Items::empty(false)) {
            Items::List(tail) => {
                (Older::new(Arc::clone(source), Arc::clone(def), LogMark::empty(floor)), tail)
            }
            Items::Stored { older, tail } => (older, tail),
            // LOG slices are never keyed.
            keyed @ Items::Keyed { .. } => {
                self.items = keyed;
                return imbl::Vector::new();
            }
        };
        let rest = tail.split_off(held.min(tail.len()));
        let mark = LogMark {
            after: older.mark.after,
            upto,
            count: older.mark.count.saturating_add(tail.len() as u64).saturating_add(more as u64),
        };
        self.items = Items::Stored { older: Older { mark, ..older }, tail: rest };
        tail
    }

    /// The part that is in the store is this.
    pub(super) fn set_mark(&mut self, source: &Arc<LogSource>, def: &Arc<SliceDef>, mark: LogMark) {
        let older = Older::new(Arc::clone(source), Arc::clone(def), mark);
        match &mut self.items {
            Items::Stored { older: was, .. } => *was = older,
            Items::List(list) => self.items = Items::Stored { older, tail: std::mem::take(list) },
            Items::Keyed { .. } => {}
        }
    }

    /// Where in the store the slice is, if it is there.
    pub(super) fn mark(&self) -> Option<LogMark> {
        match &self.items {
            Items::Stored { older, .. } => Some(older.mark),
            Items::List(_) | Items::Keyed { .. } => None,
        }
    }
}
