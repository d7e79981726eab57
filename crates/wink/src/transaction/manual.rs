//! Transactions by hand, in their scoped form.

use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;

use super::views::Views;
use super::{Nested, Transaction, TransactionError};
use crate::resource::ResourceContext;
use crate::session::Session;
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
        let tx = Transaction::begin(session, resources, tag).await;
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
        self.tx.close_levels_beyond(LEVEL);
        &self.views
    }
}
