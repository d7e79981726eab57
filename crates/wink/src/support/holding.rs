//! Who holds the turn of a session on this thread right now: so that code which runs inside a call and wants the turn of
//! the same session is told so, instead of waiting for itself.
//!
//! The mark is set while a call's work is polled, and travels to the thread of a blocking handler. It does not travel to
//! tasks that are spawned: those just wait for the turn, which is right unless the call waits for them.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

thread_local! {
    /// The session whose turn is held by what runs here.
    static INNERMOST: Cell<Option<Key>> = const { Cell::new(None) };
    /// Those that were held when that one was entered, outermost first. There are none as a rule.
    static OUTER: RefCell<Vec<Key>> = const { RefCell::new(Vec::new()) };
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
    match innermost() {
        None => 0,
        Some(inner) => {
            let outer = with(|outer| outer.iter().filter(|held| **held == key).count());
            usize::from(inner == key) + outer.unwrap_or_default()
        }
    }
}

/// Everything that this thread is inside of, to take along to another thread.
pub(crate) fn all() -> Vec<Key> {
    let mut all = with(|outer| outer.clone()).unwrap_or_default();
    all.extend(innermost());
    all
}

/// Takes over what the thread that started this one was inside of.
pub(crate) fn carry(mut held: Vec<Key>) {
    enter(held.pop());
    with(|outer| *outer = held);
}

/// Runs `work` inside a call of the session.
#[inline]
pub(crate) fn inside<T>(key: Key, work: impl FnOnce() -> T) -> T {
    let before = enter(Some(key));
    if let Some(before) = before {
        with(|outer| outer.push(before));
    }
    let _leaving = OnDrop(|| {
        enter(before);
        if before.is_some() {
            with(Vec::pop);
        }
    });
    work()
}

/// Runs `work` as if the innermost call had not the turn, which it has given back.
fn outside<T>(work: impl FnOnce() -> T) -> T {
    let innermost = enter(with(Vec::pop).flatten());
    let _back = OnDrop(|| {
        let outer = enter(innermost);
        with(|held| held.extend(outer));
    });
    work()
}

fn innermost() -> Option<Key> {
    INNERMOST.try_with(Cell::get).ok().flatten()
}

/// Says who is innermost now, and hands back who was. Nothing on a thread that is ending, whose marks are gone already.
fn enter(key: Option<Key>) -> Option<Key> {
    INNERMOST.try_with(|innermost| innermost.replace(key)).ok().flatten()
}

fn with<T>(work: impl FnOnce(&mut Vec<Key>) -> T) -> Option<T> {
    OUTER.try_with(|outer| outer.try_borrow_mut().ok().map(|mut outer| work(&mut outer))).ok().flatten()
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
