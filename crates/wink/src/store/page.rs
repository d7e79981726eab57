//! Reading a session in parts: pages of its records, and the summary from which it is opened.

use super::{CallMark, NumberedRecord, Record};

/// Which records of a session make a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageQuery {
    /// Of these streams; of all, if none is named.
    pub streams: Vec<String>,
    /// Numbered higher than this.
    pub after: u64,
    /// Numbered no higher than this.
    pub upto: u64,
    /// From which end.
    pub order: PageOrder,
    /// So many of those that match are left out first.
    pub skip: u64,
    /// No more records than this.
    pub most: usize,
    /// No more bytes than this, unless the first record alone has more.
    pub bytes: usize,
}

/// From which end records are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageOrder {
    /// The lowest number first.
    #[default]
    OldestFirst,
    /// The highest number first.
    NewestFirst,
}

/// What a session is opened from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Opening {
    /// What it came to at some number.
    pub summary: Option<Summary>,
    /// Its calls whose process died before they ended, as [`StoredSession::unfinished`](super::StoredSession::unfinished).
    pub unfinished: Vec<CallMark>,
    /// The number of its last record.
    pub sequence: u64,
    /// How often it was [compacted](super::Store::compact).
    pub compactions: u64,
}

/// What a session comes to at some number, without its LOG.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// The number of the last record that is part of it.
    pub sequence: u64,
    /// How often the session had been compacted when this was found.
    pub compactions: u64,
    /// What is to be applied in the place of all records up to there.
    pub records: Vec<Record>,
}

impl Default for PageQuery {
    /// The first page of everything.
    fn default() -> Self {
        Self {
            streams: Vec::new(),
            after: 0,
            upto: u64::MAX,
            order: PageOrder::OldestFirst,
            skip: 0,
            most: 256,
            bytes: 1 << 20,
        }
    }
}

impl PageQuery {
    /// Whether this record is asked for.
    pub fn matches(&self, NumberedRecord { sequence, record, .. }: &NumberedRecord) -> bool {
        *sequence > self.after
            && *sequence <= self.upto
            && (self.streams.is_empty() || self.streams.contains(&record.stream))
    }

    /// The page of these records, which are in order.
    pub fn page_of<'a>(
        &self,
        records: impl DoubleEndedIterator<Item = &'a NumberedRecord>,
    ) -> Vec<NumberedRecord> {
        let matching = records.filter(|one| self.matches(one));
        let matching: Box<dyn Iterator<Item = &NumberedRecord>> = match self.order {
            PageOrder::OldestFirst => Box::new(matching),
            PageOrder::NewestFirst => Box::new(matching.rev()),
        };
        let mut bytes = 0;
        let skip = usize::try_from(self.skip).unwrap_or(usize::MAX);
        let fitting = matching.skip(skip).take(self.most).enumerate().take_while(|(at, one)| {
            bytes += one.record.bytes.len();
            *at == 0 || bytes <= self.bytes
        });
        fitting.map(|(_, one)| one.clone()).collect()
    }
}
