//! Looking after the database: whether it is sound, and what need not be kept.

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, params};
use wink::filesystem::host::{AllSettled, Owners};
use wink::store::{CallMark, JournalId, Rows, StoreError};

use crate::chain::{self, Broken};
use crate::declared::{self, lossy};
use crate::ledger::{self, moment};
use crate::loss;
use crate::options::StoreRetention;
use crate::records;
use crate::schema::{self, failed};
use crate::tail::WriteTx;

/// What a look through the database found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// What is wrong, in words; nothing, if it is sound.
    pub problems: Vec<String>,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Marks of journals.
    pub journals: usize,
    /// Recorded effects that no longer count.
    pub effects: usize,
}

/// Looks through everything.
pub(crate) fn check(conn: &Connection) -> CheckReport {
    let mut problems = damage(conn);
    match loss::open(conn) {
        Ok(losses) => problems.extend(
            losses
                .iter()
                .map(|loss| format!("{}; noticed at {}, and not acknowledged", loss.what, loss.noticed)),
        ),
        Err(error) => problems.push(format!("losses cannot be read: {error}")),
    }
    CheckReport { problems }
}

/// What is damaged. What cannot be read is a problem like any other.
pub(crate) fn damage(conn: &Connection) -> Vec<String> {
    let mut problems = Vec::new();
    type Look = fn(&Connection, &mut Vec<String>) -> rusqlite::Result<()>;
    let looks: [(&str, Look); 6] = [
        ("pages", all_pages),
        ("tables", types),
        ("calls", calls),
        ("records", strays),
        ("sums", sums),
        ("effects", effects),
    ];
    for (what, look) in looks {
        if let Err(error) = look(conn, &mut problems) {
            problems.push(format!("{what} cannot be read: {error}"));
        }
    }
    problems
}

fn all_pages(conn: &Connection, problems: &mut Vec<String>) -> rusqlite::Result<()> {
    problems.extend(pages(conn, "integrity_check")?);
    Ok(())
}

/// Names tables that have other columns than a store makes, and what its column does not take where there are no checksums.
fn types(conn: &Connection, problems: &mut Vec<String>) -> rusqlite::Result<()> {
    let made = schema::empty()?;
    for table in declared::TABLES {
        let mut look = || -> rusqlite::Result<()> {
            let columns = declared::columns(&made, table)?;
            if declared::columns(conn, table)? != columns {
                problems.push(format!("table {table}: its columns are not those that a store makes"));
                return Ok(());
            }
            if ["records", "summaries", "ledger"].contains(&table) {
                return Ok(());
            }
            let mut select = conn.prepare(&format!("SELECT * FROM {table}"))?;
            let mut rows = select.query([])?;
            let mut number = 0;
            while let Some(row) = rows.next()? {
                number += 1;
                for (at, column) in columns.iter().enumerate() {
                    if !column.takes(row.get_ref(at)?) {
                        let name = &column.name;
                        problems.push(format!("table {table}, row {number}: its {name} is of another type"));
                    }
                }
            }
            Ok(())
        };
        if let Err(error) = look() {
            problems.push(format!("table {table} cannot be read: {error}"));
        }
    }
    Ok(())
}

fn calls(conn: &Connection, problems: &mut Vec<String>) -> rusqlite::Result<()> {
    let mut select = conn.prepare("SELECT invocation, mark FROM calls")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (call, mark) = (lossy(row.get_ref(0)?), lossy(row.get_ref(1)?));
        if let Err(error) = serde_json::from_str::<CallMark>(&mark) {
            problems.push(format!("call {call}: {error}"));
        }
    }
    Ok(())
}

fn strays(conn: &Connection, problems: &mut Vec<String>) -> rusqlite::Result<()> {
    let mut select =
        conn.prepare("SELECT id FROM records WHERE (id >> 40) NOT IN (SELECT id FROM sessions)")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        problems.push(format!("record {}: it belongs to no session", row.get::<_, i64>(0)?));
    }
    Ok(())
}

/// How many broken records of a session are named; the others are counted.
const MOST_NAMED: usize = 20;

/// Names records and summaries that are not as they were committed.
fn sums(conn: &Connection, problems: &mut Vec<String>) -> rusqlite::Result<()> {
    let sessions: Vec<(i64, String)> = conn
        .prepare("SELECT id, name FROM sessions ORDER BY name")?
        .query_map([], |row| Ok((row.get(0)?, lossy(row.get_ref(1)?))))?
        .collect::<Result<_, _>>()?;
    for (id, name) in sessions {
        let mut broken = 0;
        chain::check_all(conn, id, |Broken { number, why }| {
            broken += 1;
            if broken <= MOST_NAMED {
                problems.push(format!("record {number} of session '{name}': {why}"));
            }
        })?;
        if broken > MOST_NAMED {
            problems.push(format!("{} more records of session '{name}' are broken", broken - MOST_NAMED));
        }
        if !records::summary_is_whole(conn, id)? {
            problems.push(format!(
                "the summary of session '{name}': it does not have the bytes that were written"
            ));
        }
    }
    Ok(())
}

fn effects(conn: &Connection, problems: &mut Vec<String>) -> rusqlite::Result<()> {
    ledger::check(conn, |problem| problems.push(problem))
}

/// What SQLite finds wrong with its pages.
pub(crate) fn pages(conn: &Connection, pragma: &str) -> rusqlite::Result<Vec<String>> {
    let found: Vec<String> = conn
        .prepare(&format!("PRAGMA {pragma}"))?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(found.into_iter().filter(|line| line != "ok").collect())
}

/// What becomes of the marks of journals.
pub(crate) enum JournalMarks {
    /// Somebody may still need them to decide about a journal.
    Stay,
    /// Nobody does, as long as this is held: old ones go.
    Go(AllSettled),
}

pub(crate) fn prune(
    conn: &WriteTx<'_>,
    owners: &Owners,
    keep: StoreRetention,
    marks: &JournalMarks,
    now: Timestamp,
) -> Result<Pruned, StoreError> {
    let before = |age| {
        let age = SignedDuration::try_from(age).unwrap_or(SignedDuration::MAX);
        now.checked_sub(age).unwrap_or(Timestamp::MIN)
    };
    let old = moment(before(keep.journals));
    let forget = |but: Option<JournalId>| -> rusqlite::Result<usize> {
        let but = but.map_or_else(String::new, |but| but.to_string());
        conn.execute(
            "UPDATE sessions SET forgotten = max(forgotten, coalesce(
                 (SELECT max(sequence) FROM journals WHERE session = sessions.id AND at < ?1 AND id != ?2), 0))",
            params![old, but],
        )?;
        let gone = conn.execute("DELETE FROM journals WHERE at < ?1 AND id != ?2", params![old, but])?;
        if gone > 0 {
            conn.tell(format!("{gone} changes are forgotten"), [0; 16]);
        }
        Ok(gone)
    };
    let journals = match marks {
        JournalMarks::Stay => 0,
        JournalMarks::Go(settled) => forget(settled.last_stored()).map_err(failed("prune"))?,
    };
    let effects = ledger::remove(conn, owners, &Rows::ExpiredAt(before(keep.expired)))?.len();
    Ok(Pruned { journals, effects })
}
