//! Sessions as they are written: batches, marks of calls, and what replaces old records.

use rusqlite::{Connection, OptionalExtension, Row, params};
use wink::filesystem::host::Owners;
use wink::session::{InvocationId, SessionId};
use wink::store::{Batch, Record, StoreError, Summary};

use crate::chain;
use crate::ledger;
use crate::schema::failed;
use crate::tail::{Sum, WriteTx, sum_of};

/// How many bits of a row's number are the record's own.
const NUMBER_BITS: u32 = 40;
/// More records than any session has.
pub(crate) const MOST: u64 = (1 << NUMBER_BITS) - 1;

/// The row of a session's record.
pub(crate) fn row_of(session: i64, number: u64) -> i64 {
    (session << NUMBER_BITS) | i64::try_from(number.min(MOST)).unwrap_or(i64::MAX)
}

/// The number of the record in a row.
pub(crate) fn number_of(row: i64) -> u64 {
    u64::try_from(row).unwrap_or_default() & MOST
}

pub(crate) fn find(conn: &Connection, session: &SessionId) -> rusqlite::Result<Option<i64>> {
    conn.prepare_cached("SELECT id FROM sessions WHERE name = ?1")?
        .query_row([session.as_str()], |row| row.get(0))
        .optional()
}

/// The number of a session's last record.
pub(crate) fn sequence(conn: &Connection, session: i64) -> rusqlite::Result<u64> {
    let last: Option<i64> = conn
        .prepare_cached("SELECT max(id) FROM records WHERE id BETWEEN ?1 AND ?2")?
        .query_row([row_of(session, 0), row_of(session, MOST)], |row| row.get(0))?;
    Ok(last.map_or(0, number_of))
}

pub(crate) fn find_or_make(conn: &Connection, session: &SessionId) -> rusqlite::Result<i64> {
    if let Some(id) = find(conn, session)? {
        return Ok(id);
    }
    conn.prepare_cached("INSERT INTO sessions (name) VALUES (?1)")?.execute([session.as_str()])?;
    Ok(conn.last_insert_rowid())
}

/// A call's id as it is kept with its records.
pub(crate) fn call_bytes(call: InvocationId) -> Option<Vec<u8>> {
    uuid::Uuid::parse_str(&call.to_string()).ok().map(|id| id.as_bytes().to_vec())
}

/// Reads what [`call_bytes`] made.
pub(crate) fn call_of(bytes: &[u8]) -> Option<InvocationId> {
    InvocationId::parse(&uuid::Uuid::from_slice(bytes).ok()?.to_string())
}

/// Everything of a batch, inside the savepoint of its request: an error takes back all of it.
pub(crate) fn commit(
    conn: &WriteTx<'_>,
    owners: &Owners,
    session: &SessionId,
    batch: &Batch,
    at: i64,
) -> Result<(), StoreError> {
    let failed = failed("commit");
    let id = find_or_make(conn, session).map_err(&failed)?;
    let found = sequence(conn, id).map_err(&failed)?;
    if let Some(expected) = batch.expects.filter(|expected| *expected != found) {
        return Err(StoreError::moved(expected, found));
    }
    if let Some(change) = &batch.ledger
        && !ledger::replace(conn, owners, change)?
    {
        return Err(change.refused());
    }
    for journal in &batch.journals {
        conn.tell(format!("change {journal}"), [0; 16]);
    }
    let end = found + batch.records.len() as u64;
    if end > MOST {
        return Err(StoreError::failed(
            "commit",
            format!("the session has {found} records, and takes no more"),
        ));
    }
    let write = || -> rusqlite::Result<()> {
        let mut insert = conn.prepare_cached(
            "INSERT INTO records (id, at, call, stream, bytes, sum, chain) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        let mut chain = chain::value_at(conn, id, found)?;
        for (number, record) in (found + 1..).zip(&batch.records) {
            let (row, call) = (row_of(id, number), record.call.and_then(call_bytes));
            let sum = chain::record_sum(row, at, call.as_deref(), &record.stream, &record.bytes);
            chain = chain::link(&chain, &sum);
            insert.execute(params![row, at, call, record.stream, record.bytes, sum, chain])?;
        }
        if end > found {
            conn.tell(format!("session '{session}', records {} to {end}", found + 1), chain);
        }
        let invocation = batch.ends.map(|call| call.to_string());
        if let Some(ends) = &invocation {
            conn.prepare_cached("DELETE FROM calls WHERE session = ?1 AND invocation = ?2")?
                .execute(params![id, ends])?;
        }
        for journal in &batch.journals {
            conn.prepare_cached(
                "INSERT INTO journals (id, session, invocation, sequence, at) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![journal.to_string(), id, invocation, row_of(0, end), at])?;
        }
        Ok(())
    };
    write().map_err(failed)
}

/// Puts one record in the place of all that a stream has up to some point.
pub(crate) fn compact(
    conn: &WriteTx<'_>,
    session: &SessionId,
    upto: u64,
    whole: &[Record],
) -> rusqlite::Result<u64> {
    let Some(id) = find(conn, session)? else { return Ok(0) };
    let (first, last) = (row_of(id, 0), row_of(id, upto));
    // Whatever is replaced, calls up to there are not known as a whole any more.
    let (mut gone, mut compacted) = (0, 0);
    for record in whole {
        let place: Option<i64> = conn
            .prepare_cached("SELECT max(id) FROM records WHERE id BETWEEN ?1 AND ?2 AND stream = ?3")?
            .query_row(params![first, last, record.stream], |row| row.get(0))?;
        let Some(place) = place else { continue };
        let call = record.call.and_then(call_bytes);
        let at: i64 = conn
            .prepare_cached("SELECT at FROM records WHERE id = ?1")?
            .query_row([place], |row| row.get(0))?;
        let sum = chain::record_sum(place, at, call.as_deref(), &record.stream, &record.bytes);
        conn.prepare_cached("UPDATE records SET bytes = ?2, call = ?3, sum = ?4 WHERE id = ?1")?
            .execute(params![place, record.bytes, call, sum])?;
        let removed = conn
            .prepare_cached("DELETE FROM records WHERE id >= ?1 AND id < ?2 AND stream = ?3")?
            .execute(params![first, place, record.stream])?;
        gone += removed as u64;
        compacted = upto.min(sequence(conn, id)?);
    }
    conn.prepare_cached("UPDATE sessions SET compacted = max(compacted, ?2) WHERE id = ?1")?
        .execute(params![id, i64::try_from(compacted).unwrap_or(i64::MAX)])?;
    if compacted > 0 {
        conn.prepare_cached("UPDATE sessions SET compactions = compactions + 1 WHERE id = ?1")?
            .execute([id])?;
        // What it says of the log may not be so any more.
        set_summary(conn, id, 0, &[])?;
        chain::compacted(conn, id, compacted)?;
        conn.tell(format!("session '{session}' is compacted up to record {compacted}"), [0; 16]);
    }
    Ok(gone)
}

/// Keeps what a session comes to, unless a newer summary is there or it was compacted since.
pub(crate) fn summarise(conn: &WriteTx<'_>, session: &SessionId, summary: &Summary) -> rusqlite::Result<()> {
    let Some(id) = find(conn, session)? else { return Ok(()) };
    let (summed, compactions) = summed(conn, id)?;
    let is_newer = summed < summary.sequence && summary.sequence <= sequence(conn, id)?;
    match is_newer && compactions == summary.compactions {
        true => {
            conn.tell(format!("session '{session}' is summarised at record {}", summary.sequence), [0; 16]);
            set_summary(conn, id, summary.sequence, &summary.records)
        }
        false => Ok(()),
    }
}

/// The number of the last record that is part of the session's summary, 0 if it has none, and how often it was compacted.
pub(crate) fn summed(conn: &Connection, session: i64) -> rusqlite::Result<(u64, u64)> {
    let number = |row: &Row<'_>, at| row.get(at).map(|one: i64| u64::try_from(one).unwrap_or_default());
    conn.prepare_cached("SELECT summed, compactions FROM sessions WHERE id = ?1")?
        .query_row([session], |row| Ok((number(row, 0)?, number(row, 1)?)))
}

/// Removes the summary of a session, which is read from its first record then.
pub(crate) fn drop_summary(conn: &Connection, session: i64) -> rusqlite::Result<()> {
    set_summary(conn, session, 0, &[])
}

/// The checksum of a part of a summary.
pub(crate) fn summary_sum(row: i64, stream: &str, bytes: &[u8]) -> Sum {
    sum_of(&[&row.to_le_bytes(), stream.as_bytes(), bytes])
}

fn set_summary(conn: &Connection, session: i64, sequence: u64, records: &[Record]) -> rusqlite::Result<()> {
    conn.prepare_cached("DELETE FROM summaries WHERE id BETWEEN ?1 AND ?2")?
        .execute([row_of(session, 0), row_of(session, MOST)])?;
    let mut insert =
        conn.prepare_cached("INSERT INTO summaries (id, stream, bytes, sum) VALUES (?1, ?2, ?3, ?4)")?;
    for (place, record) in (1..).zip(records) {
        let row = row_of(session, place);
        insert.execute(params![
            row,
            record.stream,
            record.bytes,
            summary_sum(row, &record.stream, &record.bytes)
        ])?;
    }
    let chain = chain::value_at(conn, session, sequence)?;
    conn.prepare_cached("UPDATE sessions SET summed = ?2, summed_chain = ?3 WHERE id = ?1")?
        .execute(params![session, row_of(0, sequence), chain])?;
    Ok(())
}

/// Whether every part of a session's summary is as it was written.
pub(crate) fn summary_is_whole(conn: &Connection, session: i64) -> rusqlite::Result<bool> {
    let mut select =
        conn.prepare_cached("SELECT id, stream, bytes, sum FROM summaries WHERE id BETWEEN ?1 AND ?2")?;
    let mut rows = select.query([row_of(session, 0), row_of(session, MOST)])?;
    while let Some(row) = rows.next()? {
        let stream = row.get_ref(1)?.as_str().unwrap_or_default();
        let bytes = row.get_ref(2)?.as_blob().unwrap_or_default();
        // One of an older version has none.
        let Some(sum) = row.get_ref(3)?.as_blob_or_null().unwrap_or_default() else { continue };
        if sum != summary_sum(row.get(0)?, stream, bytes) {
            return Ok(false);
        }
    }
    Ok(true)
}
