//! Transactions by hand: the scoped form, and snapshots that are taken and restored explicitly.

use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;

use super::snapshot::{CompositeSnapshot, ResourcePart};
use super::views::Views;
use super::{Nested, RestoreFailedError, Transaction, TransactionError};
use crate::resource::{ResourceContext, ResourceError, ResourceSnapshot, RestoreReport};
use crate::session::{Session, SessionSnapshot};
use crate::support::holding::Inside;

/// Runs `body` in a transaction: what it did is kept if it returns `Ok`, and taken back if it returns an error,
/// panics or is dropped. The error is handed on, and so is the panic.
///
/// A transaction or call of the same session that is begun inside `body` would wait for this one to end, and fails
/// instead; use [`ScopedTransaction::nested`].
///
/// ```
/// # use wink::resource::ResourceRegistry;
/// # use wink::session::{Session, SliceType};
/// # use wink::transaction::transaction;
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Note(String);
/// # impl SliceType for Note { const NAME: &'static str = "note"; }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// # let session = Session::new();
/// # let resources = ResourceRegistry::default().open().await?;
/// let outcome = transaction(&session, &resources, "notes", async |tx| {
///     let _ = tx.session().dispatch(Note("taken back".into()))?;
///     Err::<(), Box<dyn std::error::Error>>("changed my mind".into())
/// })
/// .await;
/// assert!(outcome.is_err());
/// assert!(session.slice::<Note>().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// # Errors
/// The body's; or why the commit did not go through, which then took everything back.
pub async fn transaction<T, E>(
    session: &Session,
    resources: &ResourceContext,
    tag: impl Into<Arc<str>>,
    body: impl AsyncFnOnce(&mut ScopedTransaction) -> Result<T, E>,
) -> Result<T, E>
where
    E: From<TransactionError> + fmt::Display,
{
    let mut scoped = ScopedTransaction::begin(session, resources, tag.into()).await?;
    let done = Inside(session.turn_key(), pin!(body(&mut scoped))).await;
    match done {
        Ok(value) => match scoped.tx.commit_level(LEVEL).await {
            Ok(()) => Ok(scoped.tx.commit().await.map(|()| value)?),
            Err(error) => Err(scoped.give_up(error).await),
        },
        Err(error) => Err(scoped.give_up(error).await),
    }
}

/// The body of [`transaction`] works in a level of its own, so that it can be rolled back and gone on with.
const LEVEL: usize = OUTER + 1;

/// The level of the transaction itself.
const OUTER: usize = 0;

/// The transaction that the body of [`transaction`] works in.
pub struct ScopedTransaction {
    tx: Transaction,
    views: Views,
}

impl ScopedTransaction {
    async fn begin(
        session: &Session,
        resources: &ResourceContext,
        tag: Arc<str>,
    ) -> Result<Self, TransactionError> {
        let mut tx = Transaction::begin(session, resources, tag).await;
        if let Some(why) = tx.work().refusal() {
            return Err(why.into());
        }
        let views = tx.open_level(OUTER);
        Ok(Self { tx, views })
    }

    /// What the transaction is called, in diagnostics.
    pub fn tag(&self) -> &str {
        self.tx.tag()
    }

    /// Takes back everything so far, but for LOG events. The body goes on from the state at its begin.
    pub async fn rollback(&mut self) {
        self.tx.roll_back_level(LEVEL).await;
        self.views = self.tx.open_level(OUTER);
    }

    /// Begins a transaction inside this one.
    pub fn nested(&mut self, tag: impl Into<Arc<str>>) -> Nested<'_> {
        Nested::open(&mut self.tx, LEVEL, tag.into())
    }

    /// Takes everything back because of `error`, which is handed on unless something worse happens.
    async fn give_up<E, W>(self, error: W) -> E
    where
        E: From<TransactionError> + From<W>,
        W: fmt::Display,
    {
        match self.tx.rollback().await {
            Ok(()) => error.into(),
            Err(TransactionError::Commit(log)) => {
                TransactionError::NotRecorded { cause: error.to_string(), error: log }.into()
            }
            Err(worse) => worse.into(),
        }
    }
}

/// What is done in it goes through its [`Views`].
impl Deref for ScopedTransaction {
    type Target = Views;

    fn deref(&self) -> &Views {
        &self.views
    }
}

/// What [`restore_snapshot`] did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoreOutcome {
    /// The resources of the snapshot that are not there any more.
    pub skipped: Vec<String>,
}

/// Marks the present state of the session and of every snapshotable resource that exists.
///
/// # Errors
/// When a resource cannot be snapshotted.
pub async fn create_snapshot(
    session: &Session,
    resources: &ResourceContext,
    tag: impl Into<String>,
) -> Result<CompositeSnapshot, ResourceError> {
    // Not between the two halves of somebody's commit, of this session or of another with the same resources.
    let _one_at_a_time = (session.committing().await, resources.merging().await);
    let parts = resources.snapshot_all()?;
    Ok(CompositeSnapshot::new(session.snapshot(), parts, session.clock().now(), tag.into()))
}

/// Goes back to `snapshot`: STATE slices and every resource that it has, or nothing at all. LOG stays, and so do
/// resources that are not snapshotable. A resource that is missing here is skipped, and reported.
///
/// # Errors
/// When something cannot be restored, or the store does not take it. What was restored before is put back; if that
/// fails as well, the error says so.
pub async fn restore_snapshot(
    session: &Session,
    resources: &ResourceContext,
    snapshot: &CompositeSnapshot,
) -> Result<RestoreOutcome, RestoreFailedError> {
    let one_at_a_time = (session.committing().await, resources.merging().await);
    let (parts, mut skipped) = readable_parts(resources, snapshot)?;
    let before = Before { session: session.snapshot(), resources: resources.snapshot_all().map_err(failed)? };
    let RestoreReport { missing, .. } = resources.restore_all(&parts).map_err(failed)?;
    skipped.extend(missing);
    if let Err(error) = session.restore(&snapshot.session) {
        return Err(before.put_resources_back(resources, error));
    }
    drop(one_at_a_time);
    if let Err(error) = session.flush().await {
        let _one_at_a_time = (session.committing().await, resources.merging().await);
        return Err(before.put_back(session, resources, error));
    }
    Ok(RestoreOutcome { skipped })
}

/// Snapshots by the names of their resources.
type Resources = Vec<(String, ResourceSnapshot)>;

/// The parts in the types of the resources here, and the names of those that are not here.
fn readable_parts(
    resources: &ResourceContext,
    snapshot: &CompositeSnapshot,
) -> Result<(Resources, Vec<String>), RestoreFailedError> {
    let (mut parts, mut missing) = (Vec::new(), Vec::new());
    for (name, part) in &snapshot.resources {
        let part = match part {
            ResourcePart::Ready(part) => Some(part.clone()),
            ResourcePart::Unread(json) => resources.decode_snapshot(name, json).map_err(failed)?,
        };
        match part {
            Some(part) => parts.push((name.clone(), part)),
            None => missing.push(name.clone()),
        }
    }
    Ok((parts, missing))
}

/// The state that a restore started from.
struct Before {
    session: SessionSnapshot,
    resources: Resources,
}

impl Before {
    fn put_back(
        self,
        session: &Session,
        resources: &ResourceContext,
        cause: impl fmt::Display,
    ) -> RestoreFailedError {
        match session.restore(&self.session) {
            Ok(()) => self.put_resources_back(resources, cause),
            Err(error) => {
                let cause = format!("{cause}; putting the session back failed as well: {error}");
                self.put_resources_back(resources, cause)
            }
        }
    }

    fn put_resources_back(self, resources: &ResourceContext, cause: impl fmt::Display) -> RestoreFailedError {
        let reason = match resources.restore_all(&self.resources) {
            Ok(_) => cause.to_string(),
            Err(error) => format!("{cause}; putting the resources back failed as well: {error}"),
        };
        RestoreFailedError { reason }
    }
}

fn failed(error: ResourceError) -> RestoreFailedError {
    RestoreFailedError { reason: error.to_string() }
}
