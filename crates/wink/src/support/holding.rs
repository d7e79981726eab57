//! Who holds the turn of a session on this thread right now: so that code which runs inside a call and wants the turn of
//! the same session is told so, instead of waiting for itself.
//!
//! The mark is set while a call's work is polled, and travels to the thread of a blocking handler. It does not travel to
//! tasks that are spawned: those just wait for the turn, which is right unless the call waits for them.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

thread_local! {
    /// The sessions whose turn is held by what runs here, outermost first.
    static HELD: RefCell<Vec<Key>> = const { RefCell::new(Vec::new()) };
}

/// A session, by its place in memory. It is only compared while the session lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key(usize);

impl Key {
    pub(crate) fn of<T>(place: *const T) -> Self {
        Self(place.addr())
    }
}

/// How often this thread is inside a call of the session.
pub(crate) fn depth(key: Key) -> usize {
    with(|held| held.iter().filter(|held| **held == key).count()).unwrap_or_default()
}

/// Everything that this thread is inside of, to take along to another thread.
pub(crate) fn all() -> Vec<Key> {
    with(|held| held.clone()).unwrap_or_default()
}

/// Takes over what the thread that started this one was inside of.
pub(crate) fn carry(held: Vec<Key>) {
    with(|own| *own = held);
}

/// Runs `work` inside a call of the session.
pub(crate) fn inside<T>(key: Key, work: impl FnOnce() -> T) -> T {
    with(|held| held.push(key));
    let _leaving = OnDrop(|| _ = with(Vec::pop));
    work()
}

/// Runs `work` as if the innermost call had not the turn, which it has given back.
fn outside<T>(work: impl FnOnce() -> T) -> T {
    let innermost = with(Vec::pop).flatten();
    let _back = OnDrop(|| _ = with(|held| held.extend(innermost)));
    work()
}

/// Nothing on a thread that is ending, whose marks are gone already.
fn with<T>(work: impl FnOnce(&mut Vec<Key>) -> T) -> Option<T> {
    HELD.try_with(|held| held.try_borrow_mut().ok().map(|mut held| work(&mut held))).ok().flatten()
}

/// Polls work inside a call of the session.
pub(crate) struct Inside<F>(pub(crate) Key, pub(crate) F);

impl<F: Future + Unpin> Future for Inside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        inside(self.0, || Pin::new(&mut self.1).poll(cx))
    }
}

/// Polls work outside the innermost call.
pub(crate) struct Outside<F>(pub(crate) F);

impl<F: Future + Unpin> Future for Outside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        outside(|| Pin::new(&mut self.0).poll(cx))
    }
}

/// Also when `work` panics.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
