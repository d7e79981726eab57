//! Reading, on a connection and a thread of its own: nobody who reads waits for the disk of whoever writes.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use tokio::sync::oneshot;
use wink::BoxFuture;
use wink::session::{InvocationId, SessionId};
use wink::store::{
    CallMark, History, HistoryQuery, JournalId, NumberedJournal, NumberedRecord, Opening, PageOrder,
    PageQuery, Record, StoreError, StoredSession, Summary,
};

use crate::chain::{self, Broken};
use crate::records::{self, MOST, call_bytes, call_of, number_of, row_of};
use crate::schema::failed;

/// Says at once whether a journal's changes became true.
pub type Verdict = Arc<dyn Fn(&JournalId) -> Result<bool, StoreError> + Send + Sync>;

type Read = Box<dyn FnOnce(&Connection) + Send>;

/// Hands questions to the thread that reads.
pub(crate) struct Reader {
    queue: Option<Sender<Read>>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    pub(crate) fn start(conn: Connection) -> std::io::Result<Self> {
        let (queue, reads) = channel::<Read>();
        let body = move || reads.iter().for_each(|read| read(&conn));
        let thread = std::thread::Builder::new().name("wink-store-read".into()).spawn(body)?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    pub(crate) fn ask<T: Send + 'static>(
        &self,
        doing: &'static str,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let (reply, answer) = oneshot::channel();
        if let Some(queue) = &self.queue {
            let _ = queue.send(Box::new(move |conn| drop(reply.send(read(conn)))));
        }
        let gone = move |_| StoreError::failed(doing, "the thread that reads has ended");
        Box::pin(async move { answer.await.map_err(gone)? })
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A session's records after `since`, and its calls whose process died.
pub(crate) fn load(conn: &Connection, session: &SessionId, since: u64) -> Result<StoredSession, StoreError> {
    let read = || -> rusqlite::Result<_> {
        let _one_moment = conn.unchecked_transaction()?;
        let Some(id) = records::find(conn, session)? else {
            return Ok((StoredSession::default(), Vec::new()));
        };
        let records = conn
            .prepare_cached("SELECT stream, bytes, call FROM records WHERE id > ?1 AND id <= ?2 ORDER BY id")?
            .query_map([row_of(id, since), row_of(id, MOST)], |row| {
                let call: Option<Vec<u8>> = row.get(2)?;
                let call = call.as_deref().and_then(call_of);
                Ok(Record { stream: row.get(0)?, bytes: row.get(1)?, call })
            })?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        let sequence = records::sequence(conn, id)?;
        Ok((StoredSession { records, unfinished: Vec::new(), sequence }, marks(conn, id)?))
    };
    let (mut stored, marks) = read().map_err(failed("load"))?;
    stored.unfinished = unfinished(&marks)?;
    Ok(stored)
}

/// A session's summary, and its calls whose process died.
pub(crate) fn opening(
    conn: &Connection,
    session: &SessionId,
) -> Result<(Opening, Option<Broken>), StoreError> {
    let mut broken = None;
    let mut read = || -> rusqlite::Result<_> {
        let _one_moment = conn.unchecked_transaction()?;
        let Some(id) = records::find(conn, session)? else { return Ok((Opening::default(), Vec::new())) };
        broken = chain::check_tail(conn, id)?;
        let (summed, compactions) = records::summed(conn, id)?;
        let records = conn
            .prepare_cached("SELECT stream, bytes FROM summaries WHERE id BETWEEN ?1 AND ?2 ORDER BY id")?
            .query_map([row_of(id, 0), row_of(id, MOST)], |row| {
                Ok(Record { stream: row.get(0)?, bytes: row.get(1)?, call: None })
            })?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        // Without one, or with one that is damaged, the session is read from its first record.
        let is_there = summed > 0 && records::summary_is_whole(conn, id)?;
        let summary = is_there.then_some(Summary { sequence: summed, compactions, records });
        let sequence = records::sequence(conn, id)?;
        Ok((Opening { summary, unfinished: Vec::new(), sequence, compactions }, marks(conn, id)?))
    };
    let (mut opening, marks) = read().map_err(failed("open a session"))?;
    opening.unfinished = unfinished(&marks)?;
    Ok((opening, broken))
}

/// A page of a session's records.
pub(crate) fn page(
    conn: &Connection,
    session: &SessionId,
    query: &PageQuery,
) -> rusqlite::Result<Vec<NumberedRecord>> {
    let _one_moment = conn.unchecked_transaction()?;
    let Some(id) = records::find(conn, session)? else { return Ok(Vec::new()) };
    let (which, mut values) = matching(id, query);
    let mut sql = format!("SELECT id, at, call, stream, bytes FROM records {which}");
    sql.push_str(match query.order {
        PageOrder::OldestFirst => " ORDER BY id LIMIT ? OFFSET ?",
        PageOrder::NewestFirst => " ORDER BY id DESC LIMIT ? OFFSET ?",
    });
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    values.push(count(query.most as u64).into());
    values.push(count(query.skip).into());
    let mut select = conn.prepare_cached(&sql)?;
    let mut rows = select.query(params_from_iter(values))?;
    let (mut page, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        // What does not fit is not even copied.
        bytes += row.get_ref(4)?.as_blob()?.len();
        if bytes > query.bytes && !page.is_empty() {
            break;
        }
        page.push(numbered(row)?);
    }
    Ok(page)
}

/// How many records there are of which a page is asked for.
pub(crate) fn count(conn: &Connection, session: &SessionId, query: &PageQuery) -> rusqlite::Result<u64> {
    let _one_moment = conn.unchecked_transaction()?;
    let Some(id) = records::find(conn, session)? else { return Ok(0) };
    let (which, values) = matching(id, query);
    let sql = format!("SELECT count(*) FROM records {which}");
    let count: i64 = conn.prepare_cached(&sql)?.query_row(params_from_iter(values), |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or_default().saturating_sub(query.skip))
}

/// The condition by which records belong to a page, with its values.
fn matching(session: i64, query: &PageQuery) -> (String, Vec<rusqlite::types::Value>) {
    let mut sql = "WHERE id > ? AND id <= ?".to_owned();
    let mut values = vec![row_of(session, query.after).into(), row_of(session, query.upto).into()];
    if !query.streams.is_empty() {
        let places = vec!["?"; query.streams.len()].join(", ");
        sql.push_str(&format!(" AND stream IN ({places})"));
        values.extend(query.streams.iter().map(|stream| stream.clone().into()));
    }
    (sql, values)
}

fn numbered(row: &rusqlite::Row<'_>) -> rusqlite::Result<NumberedRecord> {
    let at: i64 = row.get(1)?;
    let call: Option<Vec<u8>> = row.get(2)?;
    let call = call.as_deref().and_then(call_of);
    Ok(NumberedRecord {
        sequence: number_of(row.get(0)?),
        at: Timestamp::from_nanosecond(at.into()).ok(),
        record: Record { stream: row.get(3)?, bytes: row.get(4)?, call },
    })
}

fn marks(conn: &Connection, session: i64) -> rusqlite::Result<Vec<String>> {
    conn.prepare_cached("SELECT mark FROM calls WHERE session = ?1 ORDER BY id")?
        .query_map([session], |row| row.get(0))?
        .collect()
}

fn unfinished(marks: &[String]) -> Result<Vec<CallMark>, StoreError> {
    let broken = |error: serde_json::Error| StoreError::failed("read the mark of a call", error.to_string());
    marks.iter().map(|mark| serde_json::from_str(mark)).collect::<Result<_, _>>().map_err(broken)
}

/// Whether a session is as it was after `since`, and has no call whose process died.
pub(crate) fn has_nothing_new(conn: &Connection, session: &SessionId, since: u64) -> rusqlite::Result<bool> {
    let Some(id) = records::find(conn, session)? else { return Ok(since == 0) };
    let left: bool = conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM calls WHERE session = ?1)")?
        .query_row([id], |row| row.get(0))?;
    Ok(!left && records::sequence(conn, id)? == since)
}

pub(crate) fn history(
    conn: &Connection,
    session: &SessionId,
    query: &HistoryQuery,
) -> rusqlite::Result<History> {
    let _one_moment = conn.unchecked_transaction()?;
    let Some(id) = records::find(conn, session)? else { return Ok(History::default()) };
    let sql = "SELECT compacted, forgotten FROM sessions WHERE id = ?1";
    let [compacted, forgotten]: [i64; 2] =
        conn.query_row(sql, params![id], |row| Ok([row.get(0)?, row.get(1)?]))?;
    let (after, upto) = (query.after.unwrap_or(0), query.upto.unwrap_or(MOST));
    let mut sql = "SELECT id, at, call, stream, bytes FROM records WHERE id > ? AND id <= ?".to_owned();
    let mut values: Vec<rusqlite::types::Value> = vec![row_of(id, after).into(), row_of(id, upto).into()];
    if let Some(stream) = &query.stream {
        sql.push_str(" AND stream = ?");
        values.push(stream.clone().into());
    }
    if let Some(call) = query.call.and_then(call_bytes) {
        sql.push_str(" AND call = ?");
        values.push(call.into());
    }
    sql.push_str(" ORDER BY id");
    let records = conn
        .prepare_cached(&sql)?
        .query_map(params_from_iter(values), numbered)?
        .collect::<rusqlite::Result<Vec<_>>>()?;
    let journals = if query.stream.is_none() { journals(conn, id, query)? } else { Vec::new() };
    let [compacted, forgotten] =
        [compacted, forgotten].map(|number| u64::try_from(number).unwrap_or_default());
    Ok(History { records, journals, compacted, forgotten })
}

fn journals(conn: &Connection, session: i64, query: &HistoryQuery) -> rusqlite::Result<Vec<NumberedJournal>> {
    let (after, upto) =
        (query.after.map_or(-1, |after| row_of(0, after)), row_of(0, query.upto.unwrap_or(MOST)));
    let mut select = conn.prepare_cached(
        "SELECT id, invocation, sequence FROM journals
         WHERE session = ?1 AND sequence > ?2 AND sequence <= ?3 ORDER BY sequence",
    )?;
    let mut rows = select.query([session, after, upto])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (id, call): (String, Option<String>) = (row.get(0)?, row.get(1)?);
        // What is no id was not written by a store, and is nobody's journal.
        let Ok(id) = id.parse() else { continue };
        let call = call.as_deref().and_then(InvocationId::parse);
        let journal = NumberedJournal { sequence: number_of(row.get(2)?), id, call };
        found.extend(query.matches_journal(&journal).then_some(journal));
    }
    Ok(found)
}

/// Answers on a connection of its own.
pub(crate) fn verdict_by(conn: Connection) -> Verdict {
    let conn = Mutex::new(conn);
    Arc::new(move |journal| knows_journal(&conn.lock().unwrap_or_else(PoisonError::into_inner), journal))
}

/// Whether a journal was committed.
pub(crate) fn knows_journal(conn: &Connection, journal: &JournalId) -> Result<bool, StoreError> {
    let find = || -> rusqlite::Result<Option<i64>> {
        conn.prepare_cached("SELECT 1 FROM journals WHERE id = ?1")?
            .query_row([journal.to_string()], |row| row.get(0))
            .optional()
    };
    Ok(find().map_err(failed("look up a journal"))?.is_some())
}

/// The names of all sessions, sorted.
pub(crate) fn session_names(conn: &Connection) -> Result<Vec<SessionId>, StoreError> {
    let names = || -> rusqlite::Result<Vec<String>> {
        conn.prepare_cached("SELECT name FROM sessions ORDER BY name")?
            .query_map([], |row| row.get(0))?
            .collect()
    };
    Ok(names().map_err(failed("list sessions"))?.into_iter().map(SessionId::from).collect())
}
