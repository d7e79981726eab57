//! Turns: one caller at a time has a session, and nobody waits for himself.

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use crate::session::Session;
use crate::support::holding;

/// The right to run calls on a session. Calls that overlap share one.
pub(crate) enum Turn {
    Own { _guard: OwnedMutexGuard<()> },
    Shared { _guard: Arc<Turn> },
}

/// The turn of a session was wanted by code that runs inside a call which has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "this runs inside a call of the same session and would wait for itself: use the call's own context, \
     or a session of its own (Session::fork makes a child)"
)]
pub struct InsideCall;

/// Waits until nobody else runs a call on this session.
pub(crate) async fn take_turn(session: &Session) -> Result<Turn, InsideCall> {
    match holding::depth(session.turn_key()) {
        0 => Ok(take_turn_unchecked(session).await),
        _ => Err(InsideCall),
    }
}

/// The same for a call, which is marked as one of the session's already.
pub(crate) async fn take_turn_of_call(session: &Session) -> Result<Turn, InsideCall> {
    match holding::depth(session.turn_key()) {
        0 | 1 => Ok(take_turn_unchecked(session).await),
        _ => Err(InsideCall),
    }
}

/// The turn for a call, if nobody has it.
pub(crate) fn try_turn_of_call(session: &Session) -> Option<Turn> {
    match holding::depth(session.turn_key()) {
        0 | 1 => try_turn(session),
        _ => None,
    }
}

async fn take_turn_unchecked(session: &Session) -> Turn {
    match try_turn(session) {
        Some(turn) => turn,
        None => Turn::Own { _guard: Arc::clone(&session.core.turn).lock_owned().await },
    }
}

fn try_turn(session: &Session) -> Option<Turn> {
    let guard = Arc::clone(&session.core.turn).try_lock_owned().ok()?;
    Some(Turn::Own { _guard: guard })
}
