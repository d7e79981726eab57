//! The one thread that writes. What is asked of it at the same time shares one commit, each in a savepoint of its own.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use rusqlite::{Connection, ErrorCode};
use tokio::sync::oneshot;
use wink::BoxFuture;
use wink::store::StoreError;
use wink::testing::steps::reach;

use crate::mark::Mark;
use crate::schema::failed;
use crate::tail::WriteTx;

/// How many requests share a commit at most.
const MOST_AT_ONCE: usize = 256;
/// How often it is tried to make sure that a commit which failed stays away.
const FENCES: usize = 3;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Claim,
    Commit,
    Other,
}

impl Kind {
    fn doing(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Commit => "commit",
            Self::Other => "write",
        }
    }

    fn written(self) -> Option<&'static str> {
        match self {
            Self::Claim => Some("store.claim-written"),
            Self::Commit => Some("store.committed"),
            Self::Other => None,
        }
    }
}

/// Hands requests to the thread that writes.
pub(crate) struct Writer {
    queue: Option<Sender<Box<dyn Request>>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(crate) fn start(conn: Connection, mark: Mark) -> std::io::Result<Self> {
        let (queue, requests) = channel();
        let body = move || run(Writing { conn, mark, unfenced: None }, &requests);
        let thread = std::thread::Builder::new().name("wink-store".into()).spawn(body)?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Has `work` done in a transaction, from now on whoever stops waiting. It may be done again from the start, when a
    /// transaction that it shared with others is lost.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        kind: Kind,
        work: impl FnMut(&WriteTx<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        self.ask_then(kind, work, || ())
    }

    /// The same; `then` is done when the work is true, whoever waits for it.
    pub(crate) fn ask_then<T: Send + 'static>(
        &self,
        kind: Kind,
        work: impl FnMut(&WriteTx<'_>) -> Result<T, StoreError> + Send + 'static,
        then: impl FnOnce() + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let (reply, answer) = oneshot::channel();
        let task = Task { kind, work, then, value: None, reply };
        if let Some(queue) = &self.queue {
            // Without a thread nobody has the other end of the answer, which says so below.
            let _ = queue.send(Box::new(task));
        }
        let gone = move |_| StoreError::failed(kind.doing(), "the thread that writes has ended");
        Box::pin(async move { answer.await.map_err(gone)? })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // What was asked for is written before the store is gone.
            let _ = thread.join();
        }
    }
}

trait Request: Send {
    fn kind(&self) -> Kind;
    fn work(&mut self, tx: &WriteTx<'_>) -> Result<(), StoreError>;
    fn answer(self: Box<Self>, done: Result<(), StoreError>);
}

struct Task<T, F, D> {
    kind: Kind,
    work: F,
    then: D,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F, D> Request for Task<T, F, D>
where
    T: Send,
    F: FnMut(&WriteTx<'_>) -> Result<T, StoreError> + Send,
    D: FnOnce() + Send,
{
    fn kind(&self) -> Kind {
        self.kind
    }

    fn work(&mut self, tx: &WriteTx<'_>) -> Result<(), StoreError> {
        self.value = Some((self.work)(tx)?);
        Ok(())
    }

    fn answer(self: Box<Self>, done: Result<(), StoreError>) {
        let Self { kind, value, reply, then, .. } = *self;
        if done.is_ok() {
            then();
        }
        let lost = || StoreError::failed(kind.doing(), "the answer was lost");
        // Nobody may be waiting any more.
        let _ = reply.send(done.and_then(|()| value.ok_or_else(lost)));
    }
}

struct Writing {
    conn: Connection,
    /// Written after each commit.
    mark: Mark,
    /// Why it is not sure yet that a commit which failed stays away.
    unfenced: Option<String>,
}

/// Why a transaction came to nothing.
enum Lost {
    /// Nothing of it was written.
    Clean(StoreError),
    /// Something of it may come back when the machine starts again.
    Unclear(StoreError),
}

fn run(mut writing: Writing, requests: &Receiver<Box<dyn Request>>) {
    while let Ok(first) = requests.recv() {
        let mut group = vec![first];
        group.extend(requests.try_iter().take(MOST_AT_ONCE - 1));
        writing.serve(group);
    }
}

impl Writing {
    fn serve(&mut self, mut group: Vec<Box<dyn Request>>) {
        match self.together(&mut group) {
            Ok(done) => {
                for (request, done) in group.into_iter().zip(done) {
                    if let (Some(step), Ok(())) = (request.kind().written(), &done) {
                        reach(step);
                    }
                    request.answer(done);
                }
            }
            Err(error) if group.len() == 1 => {
                group.into_iter().for_each(|one| one.answer(Err(error.clone())))
            }
            // One that cannot be written must not take the others with it.
            Err(_) => group.into_iter().for_each(|one| self.serve(vec![one])),
        }
    }

    /// One transaction for all of them. The error is that of the transaction: then nothing of any is true.
    fn together(
        &mut self,
        group: &mut [Box<dyn Request>],
    ) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        self.fence()?;
        match self.transact(group) {
            Ok(done) => Ok(done),
            Err(Lost::Clean(error)) => Err(error),
            Err(Lost::Unclear(error)) => {
                self.unfenced = Some(error.to_string());
                // Retried with the next request, if need be: until then nothing else is written.
                for _ in 0..FENCES {
                    if self.fence().is_ok() {
                        break;
                    }
                }
                Err(error)
            }
        }
    }

    fn transact(&mut self, group: &mut [Box<dyn Request>]) -> Result<Vec<Result<(), StoreError>>, Lost> {
        let doing = group.first().map_or("write", |first| first.kind().doing());
        let clean = |error| Lost::Clean(failed(doing)(error));
        self.say("BEGIN IMMEDIATE").map_err(clean)?;
        let tx = WriteTx::new(&self.conn);
        let (mut done, mut changed) = (Vec::with_capacity(group.len()), false);
        for request in group.iter_mut() {
            let before = self.conn.total_changes();
            match self.one(request.as_mut(), &tx) {
                Ok(one) => {
                    changed |= one.is_ok() && self.conn.total_changes() > before;
                    done.push(one);
                }
                Err(error) => {
                    self.roll_back();
                    return Err(Lost::Clean(error));
                }
            }
        }
        let kinds = group.iter().map(|request| request.kind());
        if kinds.zip(&done).any(|(kind, done)| kind == Kind::Commit && done.is_ok()) {
            reach("store.before-commit");
        }
        // One that changes nothing is none, and does not wait for the disk.
        let counted = match changed.then(|| tx.count()).transpose() {
            Ok(counted) => counted,
            Err(error) => {
                self.roll_back();
                return Err(clean(error));
            }
        };
        match self.say("COMMIT") {
            Ok(()) => {
                if let Some((tail, what)) = counted {
                    self.mark.write(&tail, &what);
                }
                Ok(done)
            }
            Err(error) => {
                self.roll_back();
                // The log may have all of it, and only not have been brought to disk for certain.
                let unclear = error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure);
                let error = failed(doing)(error);
                Err(if unclear { Lost::Unclear(error) } else { Lost::Clean(error) })
            }
        }
    }

    /// One request in its own savepoint. The outer error says that the whole transaction is gone.
    fn one(&self, request: &mut dyn Request, tx: &WriteTx<'_>) -> Result<Result<(), StoreError>, StoreError> {
        let failed = failed(request.kind().doing());
        self.say("SAVEPOINT one").map_err(&failed)?;
        let told = tx.told();
        let done = request.work(tx);
        if done.is_err() {
            tx.back_to(told);
        }
        match &done {
            Ok(()) => self.say("RELEASE one").map_err(failed)?,
            // SQLite gives a transaction up by itself when the disk fails, and the savepoint with it.
            Err(error) if self.conn.is_autocommit() => return Err(error.clone()),
            Err(_) => self.conn.execute_batch("ROLLBACK TO one; RELEASE one").map_err(failed)?,
        }
        Ok(done)
    }

    /// One of the statements that are said again and again.
    fn say(&self, statement: &str) -> rusqlite::Result<()> {
        self.conn.prepare_cached(statement)?.execute([]).map(drop)
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = self.say("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    /// A commit that failed while it was brought to disk is in the log, where it would be found after a crash. The next one
    /// is written over it, and then it is gone for good.
    fn fence(&mut self) -> Result<(), StoreError> {
        let Some(reason) = self.unfenced.clone() else { return Ok(()) };
        let fence = || -> rusqlite::Result<_> {
            self.say("BEGIN IMMEDIATE")?;
            let tx = WriteTx::new(&self.conn);
            tx.tell("a commit that failed is cleared up", [0; 16]);
            let counted = tx.count()?;
            self.say("COMMIT")?;
            Ok(counted)
        };
        match fence() {
            Ok((tail, what)) => {
                self.mark.write(&tail, &what);
                self.unfenced = None;
                Ok(())
            }
            Err(error) => {
                self.roll_back();
                let text =
                    format!("{error}; nothing is written until an earlier failure is cleared up: {reason}");
                Err(StoreError::failed("write", text))
            }
        }
    }
}
