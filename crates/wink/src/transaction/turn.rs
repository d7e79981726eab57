//! Turns: one caller at a time has a session, and nobody waits for himself.

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use super::TransactionError;
use crate::session::{CommitError, Session};
use crate::store::{StoreError, StoreTurn};
use crate::support::holding;

/// The right to run calls on a session. Calls that overlap share one.
pub(crate) enum Turn {
    Own {
        _guard: OwnedMutexGuard<()>,
    },
    /// Among processes too. What others wait for is given back first.
    Everywhere {
        _both: Box<(StoreTurn, OwnedMutexGuard<()>)>,
    },
    Shared {
        _guard: Arc<Turn>,
    },
}

/// The turn of a session was wanted by code that runs inside a call which has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this runs inside a call of the same session and would wait for itself: use the call's own context, \
     or a session of its own (Session::fork makes a child)"
)]
pub struct InsideCall;

/// Why there is no turn to be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoTurn {
    #[error(transparent)]
    Inside(#[from] InsideCall),
    /// Other processes may use the session, and the store could not say what they did.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<NoTurn> for TransactionError {
    fn from(why: NoTurn) -> Self {
        match why {
            NoTurn::Inside(inside) => inside.into(),
            NoTurn::Store(error) => CommitError::from(error).into(),
        }
    }
}

/// Waits until nobody else runs a call on this session.
pub(crate) async fn take_turn(session: &Session) -> Result<Turn, NoTurn> {
    match holding::depth(session.turn_key()) {
        0 => Ok(take_turn_unchecked(session).await?),
        _ => Err(InsideCall.into()),
    }
}

/// The same for a call, which is marked as one of the session's already.
pub(crate) async fn take_turn_of_call(session: &Session) -> Result<Turn, NoTurn> {
    match holding::depth(session.turn_key()) {
        0 | 1 => Ok(take_turn_unchecked(session).await?),
        _ => Err(InsideCall.into()),
    }
}

/// The turn for a call, if nobody has it.
pub(crate) fn try_turn_of_call(session: &Session) -> Option<Turn> {
    match holding::depth(session.turn_key()) {
        0 | 1 => try_turn(session),
        _ => None,
    }
}

async fn take_turn_unchecked(session: &Session) -> Result<Turn, StoreError> {
    if let Some(turn) = try_turn(session) {
        return Ok(turn);
    }
    let guard = Arc::clone(&session.core.turn).lock_owned().await;
    Ok(match session.is_shared() {
        true => Turn::Everywhere { _both: Box::new((session.store_turn().await?, guard)) },
        false => Turn::Own { _guard: guard },
    })
}

fn try_turn(session: &Session) -> Option<Turn> {
    // Other processes have to be waited for, and heard.
    if session.is_shared() {
        return None;
    }
    let guard = Arc::clone(&session.core.turn).try_lock_owned().ok()?;
    Some(Turn::Own { _guard: guard })
}
