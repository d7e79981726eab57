//! The write turn of a workspace: the workspace lock, held by a fork from before its call begins until it is merged or forgotten.
//!
//! A fork that has the turn never meets another writer: no other process or session changes the workspace meanwhile. What the
//! fork itself does with the lock (a command that works in the workspace, its merge) borrows it from the turn.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::fork::lock_path;
use super::layer::Layer;
use super::lock::{LockedWork, WorkspaceLock};
use super::{Fork, HostFilesystem, Shared};
use crate::BoxFuture;
use crate::filesystem::{FsError, FsPath, FsResult, WriteTurn};
use crate::limits::CancelToken;
use crate::support::lock::lock;

/// Where the forks of one call keep the turn.
#[derive(Default)]
pub(super) struct TurnSlot(Mutex<SlotState>);

#[derive(Default)]
struct SlotState {
    /// Whether a [`WriteTurn`] lives.
    is_held: bool,
    /// The lock, unless something borrows it.
    lock: Option<WorkspaceLock>,
}

/// The workspace lock while something needs it. It goes back to the turn it was borrowed from, if that still lives.
pub(super) struct TurnLock {
    lock: Option<WorkspaceLock>,
    from: Option<Arc<TurnSlot>>,
}

/// Ends the turn when it is dropped, whatever still works on the forks.
struct HeldTurn(Arc<TurnSlot>);

impl Drop for HeldTurn {
    fn drop(&mut self) {
        let mut state = lock(&self.0.0);
        state.is_held = false;
        state.lock = None;
    }
}

impl TurnSlot {
    /// The lock, if this has the turn and nothing else of its call uses it.
    fn take(&self) -> Option<WorkspaceLock> {
        lock(&self.0).lock.take()
    }
}

impl TurnLock {
    /// As [`WorkspaceLock::note`].
    pub(super) fn note(&mut self, work: Option<LockedWork>) {
        if let Some(lock) = &mut self.lock {
            lock.note(work);
        }
    }
}

impl Drop for TurnLock {
    fn drop(&mut self) {
        let (Some(mut held), Some(slot)) = (self.lock.take(), &self.from) else { return };
        let mut state = lock(&slot.0);
        if state.is_held {
            held.note(Some(LockedWork::Turn));
            state.lock = Some(held);
        }
    }
}

impl Shared {
    /// The workspace lock: that of the fork's turn, or once no other process has it. What a dead process left is settled.
    pub(super) fn locked(&self, cancel: &CancelToken) -> FsResult<TurnLock> {
        let writing = self.base.writing()?;
        let slot = self.turn_slot();
        let (mut held, from) = match slot.as_ref().and_then(|slot| slot.take()) {
            Some(held) => (held, slot),
            None => (writing.lock_unless(&self.base.disk, writing.lock_timeout, cancel)?, None),
        };
        let recovered = writing.recover(&mut held);
        let lock = TurnLock { lock: Some(held), from };
        recovered.map(|()| lock)
    }

    /// The workspace lock: that of the fork's turn, or nothing if another process has it. Nothing is settled.
    pub(super) fn try_locked(&self) -> io::Result<Option<TurnLock>> {
        let slot = self.turn_slot();
        if let Some(held) = slot.as_ref().and_then(|slot| slot.take()) {
            return Ok(Some(TurnLock { lock: Some(held), from: slot }));
        }
        let Ok(writing) = self.base.writing() else { return Ok(None) };
        let held = WorkspaceLock::try_acquire(&self.base.disk, &lock_path(), &*writing.clock)?;
        Ok(held.map(|held| TurnLock { lock: Some(held), from: None }))
    }

    /// Looks at the workspace through a layer. Where the mode of an entry that this user owns refuses that, looks again under the
    /// workspace lock, with such modes lifted.
    pub(super) fn look_through<T>(
        &self,
        layer: &mut Layer,
        look: impl Fn(&Layer) -> FsResult<T>,
    ) -> FsResult<T> {
        match look(layer) {
            Err(FsError::Io { kind: io::ErrorKind::PermissionDenied, .. }) => {}
            looked => return looked,
        }
        let _lock = self.locked(&CancelToken::new())?;
        let writing = self.base.writing()?;
        let lifting = writing.lifting()?;
        let looked = look(layer);
        writing.end_lifting(lifting, layer)?;
        looked
    }

    pub(super) fn turn_slot(&self) -> Option<Arc<TurnSlot>> {
        self.fork.as_ref().map(|fork| Arc::clone(&lock(&fork.turn)))
    }

    /// Waits for the turn, on a thread that may block.
    fn take_turn(&self, patience: Option<Duration>, cancel: &CancelToken) -> FsResult<Option<WriteTurn>> {
        let Some(writing) = &self.base.writing else { return Ok(None) };
        let slot = self.turn_slot().unwrap_or_default();
        if lock(&slot.0).is_held {
            return Ok(None);
        }
        let patience = patience.unwrap_or(writing.lock_timeout);
        let mut held = writing.lock_unless(&self.base.disk, patience, cancel)?;
        writing.recover(&mut held)?;
        let mut state = lock(&slot.0);
        if state.is_held {
            return Ok(None);
        }
        held.note(Some(LockedWork::Turn));
        (state.is_held, state.lock) = (true, Some(held));
        drop(state);
        Ok(Some(WriteTurn::new(HeldTurn(slot))))
    }

    pub(super) fn enter(&self, turn: &WriteTurn) {
        if let (Some(fork), Some(HeldTurn(slot))) = (&self.fork, turn.held()) {
            *lock(&fork.turn) = Arc::clone(slot);
        }
    }
}

impl Fork {
    /// The lock, if this has the turn.
    pub(super) fn take_turn(&self) -> Option<WorkspaceLock> {
        let slot = Arc::clone(&lock(&self.turn));
        slot.take()
    }
}

impl HostFilesystem {
    /// The turn, when no other has it. When the caller stops waiting, the wait ends.
    pub(super) fn wait_for_turn(
        &self,
        patience: Option<Duration>,
    ) -> BoxFuture<'_, FsResult<Option<WriteTurn>>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let waiting = Waiting(CancelToken::new());
            let cancel = waiting.0.clone();
            let (done, wait) = tokio::sync::oneshot::channel();
            let spawned = std::thread::Builder::new().name("wink-turn".to_owned()).spawn(move || {
                // A turn that the caller does not wait for any more is dropped, and so given back.
                let _ = done.send(shared.take_turn(patience, &cancel));
            });
            let failed = |error: &io::Error| super::io_error(&FsPath::root(), "waited for", error);
            spawned.map_err(|error| failed(&error))?;
            let taken = wait.await.unwrap_or_else(|_| {
                Err(FsError::Io {
                    path: FsPath::root(),
                    kind: io::ErrorKind::Interrupted,
                    message: "the wait for the write turn of the workspace ended without it".to_owned(),
                })
            });
            drop(waiting);
            taken
        })
    }
}

/// The caller that waits. When it does so no longer, neither does the thread.
struct Waiting(CancelToken);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
