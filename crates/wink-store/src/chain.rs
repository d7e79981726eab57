//! The chain of a session: each record has a checksum, and a value that covers it and the value before.
//!
//! The chain has checkpoints. A summary keeps the value of its last record, so that opening a session checks what was committed since, and
//! no more. Compacting replaces and removes records; up to there (the *base*) a digest of all checksums takes the place of the chain,
//! and the chain goes on from the value that the last record had. What was stored before there were chains has no checksums.

use rusqlite::{Connection, Row, params};

use crate::records::{MOST, number_of, row_of};
use crate::tail::{Sum, sum_of};

/// A record that is not as it was committed, or that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) number: u64,
    pub(crate) why: &'static str,
}

/// The checksum of a record.
pub(crate) fn record_sum(id: i64, at: i64, call: Option<&[u8]>, stream: &str, bytes: &[u8]) -> Sum {
    let call_is_there = [u8::from(call.is_some())];
    let parts: [&[u8]; 6] = [
        &id.to_le_bytes(),
        &at.to_le_bytes(),
        &call_is_there,
        call.unwrap_or_default(),
        stream.as_bytes(),
        bytes,
    ];
    sum_of(&parts)
}

/// The next value of a chain.
pub(crate) fn link(before: &Sum, sum: &Sum) -> Sum {
    sum_of(&[before, sum])
}

/// Where the chain of a session begins, and what it was compacted to.
struct Checkpoints {
    /// Up to this number records have no checksums.
    unchained: u64,
    base: u64,
    base_digest: Option<Vec<u8>>,
    summed: u64,
    summed_chain: Option<Vec<u8>>,
}

fn checkpoints(conn: &Connection, session: i64) -> rusqlite::Result<Checkpoints> {
    let sql = "SELECT unchained, base, base_digest, summed, summed_chain FROM sessions WHERE id = ?1";
    // What is of another type was not written by a store: a number is that of no record, and bytes are equal to none.
    let number = |row: &Row<'_>, at| -> rusqlite::Result<u64> {
        Ok(u64::try_from(row.get_ref(at)?.as_i64().unwrap_or_default()).unwrap_or_default())
    };
    let bytes = |row: &Row<'_>, at| -> rusqlite::Result<Option<Vec<u8>>> {
        Ok(row.get_ref(at)?.as_blob_or_null().unwrap_or(Some(&[])).map(<[u8]>::to_vec))
    };
    conn.prepare_cached(sql)?.query_row([session], |row| {
        Ok(Checkpoints {
            unchained: number(row, 0)?,
            base: number(row, 1)?,
            base_digest: bytes(row, 2)?,
            summed: number(row, 3)?,
            summed_chain: bytes(row, 4)?,
        })
    })
}

/// The value of the chain at the last record up to a number.
pub(crate) fn value_at(conn: &Connection, session: i64, upto: u64) -> rusqlite::Result<Sum> {
    let sql = "SELECT chain FROM records WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT 1";
    let mut select = conn.prepare_cached(sql)?;
    let mut rows = select.query([row_of(session, 0), row_of(session, upto)])?;
    let Some(row) = rows.next()? else { return Ok(Sum::default()) };
    let chain = row.get_ref(0)?.as_blob().unwrap_or_default();
    Ok(chain.try_into().unwrap_or_default())
}

/// Checks what was committed to a session since its last checkpoint.
pub(crate) fn check_tail(conn: &Connection, session: i64) -> rusqlite::Result<Option<Broken>> {
    let points = checkpoints(conn, session)?;
    let after = points.summed.max(points.base);
    let before = match &points.summed_chain {
        Some(chain) if points.summed >= points.base => chain.as_slice().try_into().unwrap_or_default(),
        _ => value_at(conn, session, after)?,
    };
    let mut first = None;
    check_links(conn, session, after, before, |broken| {
        first = Some(broken);
        false
    })?;
    Ok(first)
}

/// Checks every record of a session.
pub(crate) fn check_all(
    conn: &Connection,
    session: i64,
    mut found: impl FnMut(Broken),
) -> rusqlite::Result<()> {
    let points = checkpoints(conn, session)?;
    let mut digest = blake3::Hasher::new();
    each(conn, session, 0, points.base, |one| {
        match one.stored {
            Some(stored) if stored != one.sum => found(Broken { number: one.number, why: CHANGED }),
            None if one.number > points.unchained => found(Broken { number: one.number, why: UNSUMMED }),
            Some(_) | None => {}
        }
        digest.update(&one.sum);
        true
    })?;
    if points.base_digest.is_some_and(|kept| kept != digest.finalize().as_bytes()) {
        found(Broken {
            number: points.base,
            why: "the records up to here are not those that compacting left",
        });
    }
    let before = value_at(conn, session, points.base)?;
    check_links(conn, session, points.base, before, |broken| {
        found(broken);
        true
    })?;
    if points.summed > points.base
        && let Some(chain) = points.summed_chain
        && chain != value_at(conn, session, points.summed)?
    {
        found(Broken {
            number: points.summed,
            why: "the chain has another value than when it was summarised",
        });
    }
    Ok(())
}

/// A new checkpoint, when records up to `upto` were replaced and removed.
pub(crate) fn compacted(conn: &Connection, session: i64, upto: u64) -> rusqlite::Result<()> {
    let mut digest = blake3::Hasher::new();
    each(conn, session, 0, upto, |one| {
        digest.update(&one.sum);
        true
    })?;
    conn.prepare_cached("UPDATE sessions SET base = ?2, base_digest = ?3 WHERE id = ?1")?
        .execute(params![session, row_of(0, upto), digest.finalize().as_bytes()])
        .map(drop)
}

const CHANGED: &str = "it does not have the bytes that were committed";
const UNSUMMED: &str = "it has no checksum";

impl Broken {
    /// Whether the record is there, and its bytes are not those of its checksum.
    pub(crate) fn is_damaged(&self) -> bool {
        [CHANGED, UNSUMMED].contains(&self.why)
    }
}

/// Checks the chain after a record, where it has the value `before`. `found` says whether to go on behind what is broken.
fn check_links(
    conn: &Connection,
    session: i64,
    after: u64,
    before: Sum,
    mut found: impl FnMut(Broken) -> bool,
) -> rusqlite::Result<()> {
    // The value that the last record should have, and the one that it has: behind one that is broken they differ, and either may be right.
    let (mut expected, mut chain, mut kept) = (after.saturating_add(1), before, before);
    each(conn, session, after, MOST, |one| {
        let is_missing = one.number != expected;
        let missing = is_missing.then_some(Broken { number: expected, why: "it is missing" });
        let follows = [chain, kept].iter().any(|before| one.chain == Some(link(before, &one.sum)));
        let why = match one.stored {
            None => Some(UNSUMMED),
            Some(stored) if stored != one.sum => Some(CHANGED),
            // What it follows is missing.
            Some(_) if is_missing || follows => None,
            Some(_) => Some("it does not follow the record before it"),
        };
        kept = one.chain.unwrap_or_default();
        chain = if is_missing || follows { kept } else { link(&chain, &one.sum) };
        expected = one.number.saturating_add(1);
        let broken = why.map(|why| Broken { number: one.number, why });
        missing.into_iter().chain(broken).all(&mut found)
    })
}

/// A record as it is, with what is kept of it.
struct Summed {
    number: u64,
    sum: Sum,
    stored: Option<Sum>,
    chain: Option<Sum>,
}

/// Reads records in order until `take` has enough.
fn each(
    conn: &Connection,
    session: i64,
    after: u64,
    upto: u64,
    mut take: impl FnMut(Summed) -> bool,
) -> rusqlite::Result<()> {
    let sql =
        "SELECT id, at, call, stream, bytes, sum, chain FROM records WHERE id > ?1 AND id <= ?2 ORDER BY id";
    let mut select = conn.prepare_cached(sql)?;
    let mut rows = select.query([row_of(session, after), row_of(session, upto)])?;
    while let Some(row) = rows.next()? {
        let id: i64 = row.get(0)?;
        // What is of another type was not written by a store; it has no checksum that is right.
        let at = row.get_ref(1)?.as_i64().unwrap_or_default();
        let call = row.get_ref(2)?.as_blob_or_null().unwrap_or_default();
        let stream = row.get_ref(3)?.as_str().unwrap_or_default();
        let bytes = row.get_ref(4)?.as_blob().unwrap_or_default();
        let kept = |at: usize| -> rusqlite::Result<Option<Sum>> {
            let blob = row.get_ref(at)?.as_blob_or_null().unwrap_or_default();
            Ok(blob.map(|blob| blob.try_into().unwrap_or_default()))
        };
        let (stored, chain) = (kept(5)?, kept(6)?);
        let sum = record_sum(id, at, call, stream, bytes);
        if !take(Summed { number: number_of(id), sum, stored, chain }) {
            break;
        }
    }
    Ok(())
}
