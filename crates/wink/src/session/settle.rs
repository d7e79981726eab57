//! What becomes of LOG items in memory once the store has them.
//!
//! Of a session whose store keeps the log, memory holds the items that are still to be stored, and a mark of where the others
//! are. Whatever is given to the store first notes what memory holds; when the store has taken it, that goes.

use std::collections::HashMap;
use std::sync::Arc;

use super::core::Inner;
use super::log_part::LogAppend;
use super::paged::{LogMark, LogSource};
use super::record::{self, Shape};
use super::reducer::{Registry, Slot};
use super::slice::{Change, Item, SliceDef, SliceKind};
use crate::store::{PageOrder, PageQuery, Record, StoreError};

/// What a record weighs beside its bytes, when it is asked how much there is to read.
const RECORD: u64 = 512;
/// How much is committed, at least, until a session is summarised again. Little where the session is tested from inside.
const DUE: u64 = if cfg!(test) { 2 << 10 } else { 128 << 10 };

/// How a session leaves its log to the store.
#[derive(Default)]
pub(super) struct Paging {
    /// From where it is read. None: it is all in memory.
    pub(super) source: Option<Arc<LogSource>>,
    /// LOG slices without a mark have nothing up to this number: what there is of them was emptied since.
    pub(super) floor: u64,
    /// How often all slices were emptied.
    epoch: u64,
    /// Whether the records that say so are still to be stored.
    emptied: bool,
    /// How often the session had been compacted when the marks were made.
    pub(super) compactions: u64,
    /// How much was committed since the session was summarised, and how large the summary is.
    since: u64,
    summary: u64,
}

/// What was in memory when the store was given something.
#[derive(Default)]
pub(super) struct Held {
    slices: Vec<(Slot, usize)>,
    epoch: u64,
    emptied: bool,
}

/// What the store has taken.
#[derive(Default)]
pub(super) struct Sent {
    held: Held,
    upto: u64,
    floor: Option<u64>,
}

impl Paging {
    /// Every LOG slice was emptied, in memory.
    pub(super) fn empty(&mut self) {
        self.epoch += 1;
        self.emptied = true;
    }

    /// One more LOG slice has to be emptied in the store.
    pub(super) fn empty_more(&mut self) {
        self.emptied = true;
    }

    pub(super) fn put_back(&mut self, held: &Held) {
        self.emptied |= held.emptied;
    }

    /// So much was committed, here or elsewhere.
    pub(super) fn grew(&mut self, weight: u64) {
        self.since = self.since.saturating_add(weight);
    }

    /// Whether as much was committed since the last summary that another one is worth it. It is amortised: a large one is
    /// written when at least as much was committed, twice over.
    pub(super) fn is_due(&self) -> bool {
        self.source.is_some() && self.since >= DUE.max(self.summary.saturating_mul(2))
    }

    /// A summary of this size was made, or tried.
    pub(super) fn summarised(&mut self, size: Option<u64>) {
        self.since = 0;
        self.summary = size.unwrap_or(self.summary);
    }
}

/// How much there is to read.
pub(super) fn weight<'a>(records: impl IntoIterator<Item = &'a Record>) -> u64 {
    records.into_iter().fold(0, |sum: u64, one| sum.saturating_add(RECORD + one.bytes.len() as u64))
}

impl LogMark {
    /// What a record with this number does to the slice.
    pub(super) fn take(&mut self, shape: Shape, number: u64) {
        match shape {
            Shape::Adds(more) => self.count = self.count.saturating_add(more),
            Shape::Replaces(count) => {
                (self.after, self.count) = (number.saturating_sub(1), count);
            }
            // A LOG slice only grows.
            Shape::Other => {}
        }
        self.upto = self.upto.max(number);
    }
}

impl Held {
    /// Where in these records the log was emptied, if it was.
    pub(super) fn emptied_at(&self, records: &[Record]) -> Option<u64> {
        let empties =
            |one: &Record| matches!(record::shape_of(one), Some((SliceKind::Log, Shape::Replaces(_))));
        let at = self.emptied.then(|| records.iter().rposition(empties))??;
        Some(at as u64)
    }
}

impl Sent {
    /// The store has taken a batch, and has records up to number `upto`; those of slices that were emptied up to `floor`.
    pub(super) fn new(held: Held, upto: u64, floor: Option<u64>) -> Self {
        Self { held, upto, floor }
    }
}

impl Inner {
    pub(super) fn hold(&mut self) -> Held {
        match self.paging.source {
            Some(_) => Held {
                slices: self.log.held(),
                epoch: self.paging.epoch,
                emptied: std::mem::take(&mut self.paging.emptied),
            },
            None => Held::default(),
        }
    }

    /// What the store has taken goes from memory, and what a call added to the log is not even put there. Returns what is to
    /// be dropped outside of the lock.
    pub(super) fn settle(
        &mut self,
        registry: &Registry,
        sent: Sent,
        own: &[LogAppend],
    ) -> Vec<imbl::Vector<Item>> {
        let Some(source) = self.paging.source.clone() else { return Vec::new() };
        let Sent { held, upto, floor } = sent;
        self.paging.floor = self.paging.floor.max(floor.unwrap_or_default());
        let (floor, version) = (self.paging.floor, self.version());
        let mut gone = Vec::new();
        if held.epoch == self.paging.epoch {
            for (slot, count) in held.slices {
                let Some(def) = registry.def(slot) else { continue };
                if let Some(cell) = self.log.cell_mut(slot, def) {
                    gone.push(cell.stored(&source, def, floor, (count, 0), upto));
                }
            }
        }
        for LogAppend { slot, def, change } in own {
            if let Some(cell) = self.log.cell_mut(*slot, def) {
                gone.push(cell.stored(&source, def, floor, (0, change.added()), upto));
                cell.version = version;
            }
            self.log.tally_change(*slot, def, change);
        }
        gone
    }

    /// Others have added to a LOG slice, or emptied it with the record numbered `start`.
    pub(super) fn settle_foreign(
        &mut self,
        (slot, def): (Slot, &Arc<SliceDef>),
        shapes: &[Shape],
        counted: &[Change],
        (start, upto): (Option<u64>, u64),
        version: u64,
    ) {
        let Some(source) = self.paging.source.clone() else { return };
        let floor = self.paging.floor;
        if let Some(cell) = self.log.cell_mut(slot, def) {
            let mut mark = cell.mark().unwrap_or(LogMark::empty(floor));
            mark.take_foreign(shapes, start, upto);
            cell.set_mark(&source, def, mark);
            cell.version = version;
        }
        counted.iter().for_each(|change| self.log.tally_change(slot, def, change));
    }
}

impl LogMark {
    pub(super) fn take_foreign(&mut self, shapes: &[Shape], start: Option<u64>, upto: u64) {
        for shape in shapes {
            self.take(*shape, start.unwrap_or(self.after.saturating_add(1)));
        }
        self.upto = self.upto.max(upto);
    }
}

/// The numbers of the records after `known` that emptied LOG slices, the last of each.
pub(super) fn starts(
    source: &LogSource,
    records: &[Record],
    known: u64,
    upto: u64,
) -> Result<HashMap<String, u64>, StoreError> {
    let mut starts = HashMap::new();
    let empties = |one: &Record| matches!(record::shape_of(one), Some((SliceKind::Log, Shape::Replaces(_))));
    for emptied in records.iter().filter(|one| empties(one)) {
        if starts.contains_key(&emptied.stream) {
            continue;
        }
        let mut last = upto;
        'pages: loop {
            let query = PageQuery {
                streams: vec![emptied.stream.clone()],
                after: known,
                upto: last,
                order: PageOrder::NewestFirst,
                ..PageQuery::default()
            };
            let page = source.page(&query)?;
            for one in &page {
                if empties(&one.record) {
                    starts.insert(emptied.stream.clone(), one.sequence);
                    break 'pages;
                }
            }
            match page.last() {
                Some(oldest) => last = oldest.sequence.saturating_sub(1),
                None => break,
            }
        }
    }
    Ok(starts)
}
