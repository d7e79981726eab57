//! What a write transaction says of itself: every one that changes something is counted, and has a digest that covers the one before.

use std::cell::RefCell;
use std::ops::Deref;

use rusqlite::{Connection, OptionalExtension, params};

pub(crate) const DIGEST: usize = 32;
/// How long checksums of rows and values of chains are.
const SUM: usize = 16;

/// A checksum, or a value of a session's chain.
pub(crate) type Sum = [u8; SUM];

/// How many commits a store has made, and the digest of the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) commits: u64,
    pub(crate) digest: [u8; DIGEST],
}

/// A write transaction, with what is told of it in its digest and in the mark.
pub(crate) struct WriteTx<'c> {
    conn: &'c Connection,
    told: RefCell<Vec<Told>>,
}

/// One thing that a transaction changes.
struct Told {
    what: String,
    sum: Sum,
}

impl<'c> WriteTx<'c> {
    pub(crate) fn new(conn: &'c Connection) -> Self {
        Self { conn, told: RefCell::default() }
    }

    /// Says what is changed. `sum` covers its bytes.
    pub(crate) fn tell(&self, what: impl Into<String>, sum: Sum) {
        self.told.borrow_mut().push(Told { what: what.into(), sum });
    }

    /// How much was told, to [go back](Self::back_to) to.
    pub(crate) fn told(&self) -> usize {
        self.told.borrow().len()
    }

    /// What was told since is rolled back.
    pub(crate) fn back_to(&self, told: usize) {
        self.told.borrow_mut().truncate(told);
    }

    /// Counts the transaction, right before it is committed. Returns what the mark is to say.
    pub(crate) fn count(&self) -> rusqlite::Result<(Tail, String)> {
        let before = of(self.conn)?.unwrap_or_default();
        let told = self.told.borrow();
        let mut hash = blake3::Hasher::new();
        let commits = before.commits.saturating_add(1);
        hash.update(&before.digest).update(&commits.to_le_bytes());
        for Told { what, sum } in &*told {
            hash.update(&(what.len() as u64).to_le_bytes()).update(what.as_bytes()).update(sum);
        }
        let tail = Tail { commits, digest: *hash.finalize().as_bytes() };
        set(self.conn, &tail)?;
        let what: Vec<&str> = told.iter().map(|told| told.what.as_str()).collect();
        Ok((tail, what.join("; ")))
    }
}

impl Deref for WriteTx<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.conn
    }
}

impl Default for Tail {
    fn default() -> Self {
        Self { commits: 0, digest: [0; DIGEST] }
    }
}

/// The tail of a database; none, if its tables are older than that.
pub(crate) fn of(conn: &Connection) -> rusqlite::Result<Option<Tail>> {
    let read = |row: &rusqlite::Row<'_>| -> rusqlite::Result<_> {
        // What is of another type was not written by a store: it counts nothing, and equals none.
        let commits = row.get_ref(0)?.as_i64().unwrap_or_default();
        Ok((commits, row.get_ref(1)?.as_blob().unwrap_or_default().try_into().unwrap_or([0; DIGEST])))
    };
    let found = conn.prepare_cached("SELECT commits, digest FROM tail")?.query_row([], read).optional()?;
    Ok(found.map(|(commits, digest)| Tail { commits: u64::try_from(commits).unwrap_or_default(), digest }))
}

/// Sets the tail of a database.
pub(crate) fn set(conn: &Connection, tail: &Tail) -> rusqlite::Result<()> {
    let commits = i64::try_from(tail.commits).unwrap_or(i64::MAX);
    // A repair may have found no row that is whole.
    conn.prepare_cached(
        "INSERT INTO tail (id, commits, digest) VALUES (1, ?1, ?2)
         ON CONFLICT (id) DO UPDATE SET commits = ?1, digest = ?2",
    )?
    .execute(params![commits, tail.digest])
    .map(drop)
}

/// A checksum of parts, each with its length, so that no two lists of parts have the same bytes.
pub(crate) fn sum_of(parts: &[&[u8]]) -> Sum {
    let mut hash = blake3::Hasher::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    let mut sum = [0; SUM];
    sum.iter_mut().zip(hash.finalize().as_bytes()).for_each(|(to, from)| *to = *from);
    sum
}
