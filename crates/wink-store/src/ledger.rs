//! The ledger's rows. Whoever claims is named by the owner of its store, so that the dead are recognised.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use wink::filesystem::host::Owners;
use wink::store::{Claimed, LedgerChange, LedgerRow, LedgerState, Rows, StoreError};

use crate::marks::Marks;
use crate::schema::failed;

/// A moment as a number to search by: nanoseconds, as far as they go.
pub(crate) fn moment(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond()).unwrap_or(if at < Timestamp::UNIX_EPOCH { i64::MIN } else { i64::MAX })
}

struct Found {
    row: LedgerRow,
    owner: Option<String>,
}

fn decode((text, owner): (String, Option<String>)) -> Result<Found, StoreError> {
    let broken = |error: serde_json::Error| StoreError::failed("read the ledger", error.to_string());
    Ok(Found { row: serde_json::from_str(&text).map_err(broken)?, owner })
}

fn get(conn: &Connection, key: &str) -> Result<Option<Found>, StoreError> {
    let read = || -> rusqlite::Result<_> {
        conn.prepare_cached("SELECT row, owner FROM ledger WHERE key = ?1")?
            .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
    };
    read().map_err(failed("read the ledger"))?.map(decode).transpose()
}

fn put(conn: &Connection, owners: &Owners, row: &LedgerRow) -> Result<(), StoreError> {
    let text = serde_json::to_string(row)
        .map_err(|error| StoreError::failed("write the ledger", error.to_string()))?;
    let (owner, expires) = match &row.state {
        LedgerState::Claimed { .. } => (Some(owners.me()), None),
        LedgerState::Recorded { expires_at, .. } => (None, expires_at.map(moment)),
        LedgerState::InDoubt { .. } => (None, None),
    };
    let write = || -> rusqlite::Result<_> {
        conn.prepare_cached(
            "INSERT INTO ledger (key, tool, owner, expires, row) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (key) DO UPDATE SET tool = ?2, owner = ?3, expires = ?4, row = ?5",
        )?
        .execute(params![row.key, row.tool, owner, expires, text])
    };
    write().map_err(failed("write the ledger")).map(drop)
}

fn delete(conn: &Connection, key: &str) -> Result<(), StoreError> {
    let write = || -> rusqlite::Result<_> {
        conn.prepare_cached("DELETE FROM ledger WHERE key = ?1")?.execute([key])
    };
    write().map_err(failed("write the ledger")).map(drop)
}

/// The row as it is now that its owner is known to be dead; nothing if the claim is released. No other process writes
/// meanwhile, so what the owner wrote before it died is there.
fn settled(
    conn: &Connection,
    owners: &Owners,
    marks: &Marks,
    found: Found,
) -> Result<Option<LedgerRow>, StoreError> {
    let Found { row, owner: Some(owner) } = found else { return Ok(Some(found.row)) };
    let LedgerState::Claimed { since, .. } = &row.state else { return Ok(Some(row)) };
    if !owners.is_dead(&owner) {
        return Ok(Some(row));
    }
    if row.is_released_with_owner(|call| marks.never_started(&owner, call)) {
        delete(conn, &row.key)?;
        tracing::info!(
            key = row.key,
            tool = row.tool,
            "a call was interrupted and had no effect; its claim is released"
        );
        return Ok(None);
    }
    let reason = "an earlier call was interrupted: its process ended while it ran".to_owned();
    let doubt = LedgerRow { state: LedgerState::InDoubt { reason, since: *since }, ..row };
    put(conn, owners, &doubt)?;
    tracing::warn!(key = doubt.key, tool = doubt.tool, "a call was interrupted; its effect is in doubt");
    Ok(Some(doubt))
}

pub(crate) fn claim(
    conn: &Connection,
    owners: &Owners,
    marks: &Marks,
    row: &LedgerRow,
    now: Timestamp,
) -> Result<Claimed, StoreError> {
    let there = match get(conn, &row.key)? {
        Some(found) if !found.row.is_expired(now) => settled(conn, owners, marks, found)?,
        Some(_) | None => None,
    };
    match there {
        Some(there) => Ok(Claimed::No(there)),
        None => {
            put(conn, owners, row)?;
            Ok(Claimed::Yes)
        }
    }
}

/// Whether the row was as expected; then it is changed.
pub(crate) fn replace(conn: &Connection, owners: &Owners, change: &LedgerChange) -> Result<bool, StoreError> {
    let found = get(conn, &change.from.key)?.map(|found| found.row);
    if !change.expects(found.as_ref()) {
        return Ok(false);
    }
    match &change.to {
        Some(row) => put(conn, owners, row)?,
        None => delete(conn, &change.from.key)?,
    }
    Ok(true)
}

/// The rows that match, by key, and whether one of them is the claim of a dead owner.
pub(crate) fn rows(
    conn: &Connection,
    owners: &Owners,
    which: &Rows,
) -> Result<(Vec<LedgerRow>, bool), StoreError> {
    let mut dead = false;
    let mut rows = Vec::new();
    for found in select(conn, which).map_err(failed("list rows"))? {
        let Found { row, owner } = decode(found)?;
        dead |= owner.is_some_and(|owner| owners.is_dead(&owner));
        if which.matches(&row) {
            rows.push(row);
        }
    }
    Ok((rows, dead))
}

fn select(conn: &Connection, which: &Rows) -> rusqlite::Result<Vec<(String, Option<String>)>> {
    let all = "SELECT row, owner FROM ledger";
    let read = |sql: &str, params: &[&dyn rusqlite::ToSql]| -> rusqlite::Result<Vec<_>> {
        conn.prepare_cached(&format!("{all} {sql} ORDER BY key"))?
            .query_map(params, |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    };
    match which {
        Rows::Key(key) => read("WHERE key = ?1", &[key]),
        Rows::Tool(tool) => read("WHERE tool = ?1", &[tool]),
        Rows::ExpiredAt(now) => read("WHERE expires <= ?1", &[&moment(*now)]),
        Rows::All => read("", &[]),
    }
}

pub(crate) fn remove(conn: &Connection, owners: &Owners, which: &Rows) -> Result<Vec<LedgerRow>, StoreError> {
    let (mut rows, _) = rows(conn, owners, which)?;
    rows.retain(|row| !row.is_claimed());
    for row in &rows {
        delete(conn, &row.key)?;
    }
    Ok(rows)
}

/// Puts every claim of a dead owner in doubt, or releases it. This has to be true before the owner's marks are removed.
pub(crate) fn bury(conn: &Connection, owners: &Owners, marks: &Marks) -> Result<(), StoreError> {
    let read = || -> rusqlite::Result<Vec<(String, Option<String>)>> {
        conn.prepare_cached("SELECT row, owner FROM ledger WHERE owner IS NOT NULL")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    };
    for found in read().map_err(failed("read the ledger"))? {
        settled(conn, owners, marks, decode(found)?)?;
    }
    Ok(())
}
