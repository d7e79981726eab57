//! The ledger's rows. Whoever claims is named by the owner of its store, so that the dead are recognised.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use wink::filesystem::host::Owners;
use wink::store::{Claimed, LedgerChange, LedgerRow, LedgerState, Rows, StoreError};

use crate::declared::lossy;
use crate::marks::Marks;
use crate::schema::failed;
use crate::tail::{Sum, WriteTx, sum_of};

/// A moment as a number to search by: nanoseconds, as far as they go.
pub(crate) fn moment(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond()).unwrap_or(if at < Timestamp::UNIX_EPOCH { i64::MIN } else { i64::MAX })
}

struct Found {
    row: LedgerRow,
    owner: Option<String>,
    is_whole: bool,
}

/// The columns that [`found`] reads.
const COLUMNS: &str = "key, tool, owner, expires, row, sum";

/// A row as it was written; one without its checksum is in doubt, since it is not known what it said.
fn found(row: &Row<'_>) -> rusqlite::Result<Found> {
    let sum = row.get_ref(5)?.as_blob().ok();
    // What cannot be read, a text that is not UTF-8 for one, has no checksum that is right.
    let whole = readable(row).ok().filter(|read| sum == Some(read.sum().as_slice())).and_then(|read| {
        let row = serde_json::from_str(read.text).ok()?;
        Some(Found { row, owner: read.owner.map(str::to_owned), is_whole: true })
    });
    Ok(match whole {
        Some(found) => found,
        None => {
            let row = doubt(lossy(row.get_ref(0)?), lossy(row.get_ref(1)?));
            Found { row, owner: None, is_whole: false }
        }
    })
}

/// The row of an effect of which it is not known what was recorded.
fn doubt(key: String, tool: String) -> LedgerRow {
    let reason = "its entry in the ledger is damaged: `wink doctor --deep` says what else is".to_owned();
    let state = LedgerState::InDoubt { reason, since: Timestamp::UNIX_EPOCH };
    LedgerRow { key, tool, params_hash: String::new(), ttl: None, state }
}

/// What a row's checksum covers.
struct Readable<'r> {
    key: &'r str,
    tool: &'r str,
    owner: Option<&'r str>,
    expires: Option<i64>,
    text: &'r str,
}

impl Readable<'_> {
    fn sum(&self) -> Sum {
        row_sum(self.key, self.tool, self.owner, self.expires, self.text)
    }
}

/// The first of the [`COLUMNS`], if all of them are of their types.
fn readable<'r>(row: &'r Row<'_>) -> rusqlite::Result<Readable<'r>> {
    Ok(Readable {
        key: row.get_ref(0)?.as_str()?,
        tool: row.get_ref(1)?.as_str()?,
        owner: row.get_ref(2)?.as_str_or_null()?,
        expires: row.get_ref(3)?.as_i64_or_null()?,
        text: row.get_ref(4)?.as_str()?,
    })
}

/// The checksum of a row.
fn row_sum(key: &str, tool: &str, owner: Option<&str>, expires: Option<i64>, text: &str) -> Sum {
    let there = [u8::from(owner.is_some()), u8::from(expires.is_some())];
    let expires = expires.unwrap_or_default().to_le_bytes();
    sum_of(&[
        key.as_bytes(),
        tool.as_bytes(),
        &there,
        owner.unwrap_or_default().as_bytes(),
        &expires,
        text.as_bytes(),
    ])
}

/// Gives every row its checksum, once: those of older versions have none. One that cannot be read stays without, and so is in doubt.
pub(crate) fn sum_all(conn: &Connection) -> rusqlite::Result<()> {
    let mut select = conn.prepare("SELECT key, tool, owner, expires, row FROM ledger")?;
    let mut rows = select.query([])?;
    let mut sums: Vec<(String, Sum)> = Vec::new();
    while let Some(row) = rows.next()? {
        if let Ok(read) = readable(row) {
            sums.push((read.key.to_owned(), read.sum()));
        }
    }
    let mut update = conn.prepare("UPDATE ledger SET sum = ?2 WHERE key = ?1")?;
    sums.into_iter().try_for_each(|(key, sum)| update.execute(params![key, sum]).map(drop))
}

/// An effect, as an index of the ledger names it.
pub(crate) struct Indexed {
    key: String,
    tool: String,
}

/// The effects that an index names, as far as it can be read. It has pages of its own, and may be whole where the ledger is not.
pub(crate) fn indexed(conn: &Connection) -> Vec<Indexed> {
    let mut named = Vec::new();
    let mut read = || -> rusqlite::Result<()> {
        let mut select = conn.prepare("SELECT key, tool FROM ledger INDEXED BY ledger_by_tool")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            named.push(Indexed { key: lossy(row.get_ref(0)?), tool: lossy(row.get_ref(1)?) });
        }
        Ok(())
    };
    // That an index is damaged is said of its pages.
    let _ = read();
    named
}

/// Writes every row that does not have its checksum as one in doubt, and every effect that is named and has no row. Says which have none.
pub(crate) fn doubt_damaged(
    conn: &WriteTx<'_>,
    owners: &Owners,
    named: Vec<Indexed>,
) -> Result<Vec<String>, StoreError> {
    let found = select(conn, &Rows::All).map_err(failed("read the ledger"))?;
    found.iter().filter(|found| !found.is_whole).try_for_each(|found| put(conn, owners, &found.row))?;
    let mut missing = Vec::new();
    for Indexed { key, tool } in named {
        if get(conn, &key)?.is_none() {
            missing.push(format!("effect {key}: its entry is missing"));
            put(conn, owners, &doubt(key, tool))?;
        }
    }
    Ok(missing)
}

/// Names every row that does not have its checksum.
pub(crate) fn check(conn: &Connection, mut broken: impl FnMut(String)) -> rusqlite::Result<()> {
    let mut select = conn.prepare(&format!("SELECT {COLUMNS} FROM ledger ORDER BY key"))?;
    for one in select.query_map([], found)? {
        let one = one?;
        if !one.is_whole {
            broken(format!("effect {}: it does not have the bytes that were committed", one.row.key));
        }
    }
    Ok(())
}

fn get(conn: &Connection, key: &str) -> Result<Option<Found>, StoreError> {
    let read = || -> rusqlite::Result<_> {
        conn.prepare_cached(&format!("SELECT {COLUMNS} FROM ledger WHERE key = ?1"))?
            .query_row([key], found)
            .optional()
    };
    read().map_err(failed("read the ledger"))
}

fn put(conn: &WriteTx<'_>, owners: &Owners, row: &LedgerRow) -> Result<(), StoreError> {
    let text = serde_json::to_string(row)
        .map_err(|error| StoreError::failed("write the ledger", error.to_string()))?;
    let (owner, expires) = match &row.state {
        LedgerState::Claimed { .. } => (Some(owners.me()), None),
        LedgerState::Recorded { expires_at, .. } => (None, expires_at.map(moment)),
        LedgerState::InDoubt { .. } => (None, None),
    };
    let sum = row_sum(&row.key, &row.tool, owner, expires, &text);
    let what = match &row.state {
        LedgerState::Claimed { .. } => "claimed",
        LedgerState::Recorded { .. } => "recorded",
        LedgerState::InDoubt { .. } => "in doubt",
    };
    conn.tell(format!("effect {} is {what}", row.key), sum);
    let write = || -> rusqlite::Result<_> {
        conn.prepare_cached(
            "INSERT INTO ledger (key, tool, owner, expires, row, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
             ON CONFLICT (key) DO UPDATE SET tool = ?2, owner = ?3, expires = ?4, row = ?5, sum = ?6",
        )?
        .execute(params![row.key, row.tool, owner, expires, text, sum])
    };
    write().map_err(failed("write the ledger")).map(drop)
}

fn delete(conn: &WriteTx<'_>, key: &str) -> Result<(), StoreError> {
    conn.tell(format!("effect {key} is removed"), [0; 16]);
    let write = || -> rusqlite::Result<_> {
        conn.prepare_cached("DELETE FROM ledger WHERE key = ?1")?.execute([key])
    };
    write().map_err(failed("write the ledger")).map(drop)
}

/// The row as it is now that its owner is known to be dead; nothing if the claim is released. No other process writes
/// meanwhile, so what the owner wrote before it died is there.
fn settled(
    conn: &WriteTx<'_>,
    owners: &Owners,
    marks: &Marks,
    found: Found,
) -> Result<Option<LedgerRow>, StoreError> {
    let Found { row, owner: Some(owner), .. } = found else { return Ok(Some(found.row)) };
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
    conn: &WriteTx<'_>,
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
pub(crate) fn replace(
    conn: &WriteTx<'_>,
    owners: &Owners,
    change: &LedgerChange,
) -> Result<bool, StoreError> {
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
    for Found { row, owner, .. } in select(conn, which).map_err(failed("list rows"))? {
        dead |= owner.is_some_and(|owner| owners.is_dead(&owner));
        if which.matches(&row) {
            rows.push(row);
        }
    }
    Ok((rows, dead))
}

/// The rows that match, by key, whether the owners of claims are dead or not.
pub(crate) fn stored(conn: &Connection, which: &Rows) -> Result<Vec<LedgerRow>, StoreError> {
    let found = select(conn, which).map_err(failed("list rows"))?;
    Ok(found.into_iter().map(|found| found.row).filter(|row| which.matches(row)).collect())
}

fn select(conn: &Connection, which: &Rows) -> rusqlite::Result<Vec<Found>> {
    let read = |sql: &str, params: &[&dyn rusqlite::ToSql]| -> rusqlite::Result<Vec<_>> {
        conn.prepare_cached(&format!("SELECT {COLUMNS} FROM ledger {sql} ORDER BY key"))?
            .query_map(params, found)?
            .collect()
    };
    match which {
        Rows::Key(key) => read("WHERE key = ?1", &[key]),
        Rows::Tool(tool) => read("WHERE tool = ?1", &[tool]),
        Rows::ExpiredAt(now) => read("WHERE expires <= ?1", &[&moment(*now)]),
        Rows::All => read("", &[]),
    }
}

pub(crate) fn remove(
    conn: &WriteTx<'_>,
    owners: &Owners,
    which: &Rows,
) -> Result<Vec<LedgerRow>, StoreError> {
    let (mut rows, _) = rows(conn, owners, which)?;
    rows.retain(|row| !row.is_claimed());
    for row in &rows {
        delete(conn, &row.key)?;
    }
    Ok(rows)
}

/// Puts every claim of a dead owner in doubt, or releases it. This has to be true before the owner's marks are removed.
pub(crate) fn bury(conn: &WriteTx<'_>, owners: &Owners, marks: &Marks) -> Result<(), StoreError> {
    let read = || -> rusqlite::Result<Vec<Found>> {
        conn.prepare_cached(&format!("SELECT {COLUMNS} FROM ledger WHERE owner IS NOT NULL"))?
            .query_map([], found)?
            .collect()
    };
    for found in read().map_err(failed("read the ledger"))? {
        settled(conn, owners, marks, found)?;
    }
    Ok(())
}

/// What a person types to settle an entry that is in doubt.
pub(crate) fn settling(key: &str) -> String {
    format!("wink ledger resolve {} --happened, or --did-not-happen", as_word(key))
}

/// A text as one word of a shell.
fn as_word(text: &str) -> String {
    let plain = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, ':' | '_' | '-' | '.' | '/' | '@' | '%' | '+' | '=' | ',')
    };
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
