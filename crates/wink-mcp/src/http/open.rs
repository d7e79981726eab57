//! The sessions that are open, and who uses them. One that nobody uses is let go after a while, and earlier when another
//! needs its place.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::OnceCell;
use wink::limits::Clock;
use wink::session::SessionId;

/// What is open for a session.
pub(super) trait Kept {
    /// Whether somebody relies on it, though no request is on its way.
    fn stay(&self) -> Stay;
}

/// Whether what is open may be let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// Somebody relies on it.
    Needed,
    /// Nobody does.
    Free,
}

/// The sessions that are open.
pub(super) struct OpenSessions<T> {
    slots: Mutex<HashMap<SessionId, Arc<Slot<T>>>>,
    most: usize,
    idle: Duration,
    clock: Arc<dyn Clock>,
}

/// A session, once it is open.
struct Slot<T> {
    cell: OnceCell<T>,
    users: Arc<Users>,
}

/// The requests that are on their way, the streams of their answers included.
struct Users {
    count: AtomicUsize,
    /// When there was one last.
    last: Mutex<Duration>,
    clock: Arc<dyn Clock>,
}

/// There is no room, and every session that is open is used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are too many open sessions")]
pub(super) struct TooMany;

impl<T: Kept> OpenSessions<T> {
    pub(super) fn new(most: usize, idle: Duration, clock: Arc<dyn Clock>) -> Self {
        Self { slots: Mutex::default(), most, idle, clock }
    }

    /// A use of the session, and what was let go to make room for it.
    pub(super) fn enter(&self, session: &SessionId) -> Result<(Use<T>, Option<T>), TooMany> {
        let mut slots = self.slots();
        if let Some(slot) = slots.get(session) {
            return Ok((Use::of(slot), None));
        }
        let mut gone = None;
        if slots.len() >= self.most {
            let free = slots.iter().filter_map(|(name, slot)| Some((slot.free_since()?, name)));
            let longest = free.min().map(|(_, name)| name.clone()).ok_or(TooMany)?;
            gone = slots.remove(&longest).and_then(Slot::into_kept);
        }
        let users =
            Users { count: AtomicUsize::new(0), last: Mutex::default(), clock: Arc::clone(&self.clock) };
        let slot = Arc::new(Slot { cell: OnceCell::new(), users: Arc::new(users) });
        let entered = Use::of(&slot);
        slots.insert(session.clone(), slot);
        Ok((entered, gone))
    }

    /// Takes out a session that could not be opened, unless somebody else still tries.
    pub(super) fn forget(&self, session: &SessionId, entered: Use<T>) {
        let mut slots = self.slots();
        let is_it = slots.get(session).is_some_and(|slot| Arc::ptr_eq(slot, &entered.slot));
        drop(entered);
        if is_it && slots.get(session).is_some_and(|slot| slot.users.none() && !slot.cell.initialized()) {
            slots.remove(session);
        }
    }

    /// Takes out those that nobody has used for a while.
    pub(super) fn sweep(&self) -> Vec<T> {
        let now = self.clock.monotonic();
        let is_over =
            |slot: &Slot<T>| slot.free_since().is_some_and(|since| since.saturating_add(self.idle) <= now);
        let gone: Vec<_> = self.slots().extract_if(|_, slot| is_over(slot)).map(|(_, slot)| slot).collect();
        gone.into_iter().filter_map(Slot::into_kept).collect()
    }

    /// Takes out all of them, used or not.
    pub(super) fn take_all(&self) -> Vec<Use<T>> {
        std::mem::take(&mut *self.slots()).values().map(Use::of).collect()
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<Slot<T>>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Kept> Slot<T> {
    /// Since when nobody uses it. None if somebody does.
    ///
    /// Asked with the sessions locked: nobody enters meanwhile.
    fn free_since(&self) -> Option<Duration> {
        if !self.users.none() {
            return None;
        }
        let last = *self.users.last.lock().unwrap_or_else(PoisonError::into_inner);
        match self.cell.get().map_or(Stay::Free, Kept::stay) {
            Stay::Needed => None,
            Stay::Free => Some(last),
        }
    }

    /// What was open. None if it never was: there is no other use of a slot that was taken out because nobody uses it.
    fn into_kept(slot: Arc<Self>) -> Option<T> {
        Arc::into_inner(slot)?.cell.into_inner()
    }
}

impl Users {
    fn none(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }
}

/// A request of a session. As long as there is one, the session stays open.
pub(super) struct Use<T> {
    // Before the mark: whoever sees no mark finds nobody else who has the slot.
    slot: Arc<Slot<T>>,
    mark: Mark,
}

impl<T> Use<T> {
    fn of(slot: &Arc<Slot<T>>) -> Self {
        slot.users.count.fetch_add(1, Ordering::SeqCst);
        Self { slot: Arc::clone(slot), mark: Mark(Arc::clone(&slot.users)) }
    }

    /// Where the session is, once it is open.
    pub(super) fn cell(&self) -> &OnceCell<T> {
        &self.slot.cell
    }

    /// For whoever still has to do with the session when the request itself was dealt with.
    pub(super) fn mark(&self) -> Mark {
        self.mark.0.count.fetch_add(1, Ordering::SeqCst);
        Mark(Arc::clone(&self.mark.0))
    }
}

/// Says that somebody uses a session.
pub(super) struct Mark(Arc<Users>);

impl Drop for Mark {
    fn drop(&mut self) {
        *self.0.last.lock().unwrap_or_else(PoisonError::into_inner) = self.0.clock.monotonic();
        self.0.count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// An answer, during which its session is used.
pub(super) struct Marked<B> {
    pub(super) body: B,
    pub(super) _mark: Mark,
}

impl<B: Body + Unpin> Body for Marked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use wink::testing::FakeClock;

    use super::*;

    #[derive(Debug, PartialEq)]
    struct Thing(&'static str, Stay);

    impl Kept for Thing {
        fn stay(&self) -> Stay {
            self.1
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn sessions(most: usize) -> (OpenSessions<Thing>, FakeClock) {
        let clock = FakeClock::new(jiff::Timestamp::UNIX_EPOCH);
        (OpenSessions::new(most, SECOND * 60, Arc::new(clock.clone())), clock)
    }

    /// A request, after which a second passes; what was let go for it.
    fn request(
        (sessions, clock): &(OpenSessions<Thing>, FakeClock),
        name: &'static str,
        stay: Stay,
    ) -> Result<Option<&'static str>, TooMany> {
        let (entered, gone) = sessions.enter(&name.into())?;
        let _ = entered.cell().set(Thing(name, stay));
        drop(entered);
        clock.advance(SECOND);
        Ok(gone.map(|thing| thing.0))
    }

    fn swept((sessions, _): &(OpenSessions<Thing>, FakeClock)) -> Vec<&'static str> {
        let mut names: Vec<_> = sessions.sweep().iter().map(|thing| thing.0).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn the_one_that_was_idle_longest_makes_room() {
        let world = sessions(2);
        assert_eq!(request(&world, "a", Stay::Free), Ok(None));
        assert_eq!(request(&world, "b", Stay::Free), Ok(None));
        assert_eq!(request(&world, "a", Stay::Free), Ok(None));
        assert_eq!(request(&world, "c", Stay::Free), Ok(Some("b")));
        assert_eq!(request(&world, "b", Stay::Free), Ok(Some("a")));
    }

    #[test]
    fn what_is_used_or_needed_stays() {
        let world = sessions(2);
        assert_eq!(request(&world, "needed", Stay::Needed), Ok(None));
        let (used, _) = world.0.enter(&"used".into()).unwrap();
        assert_eq!(request(&world, "c", Stay::Free), Err(TooMany));
        let mark = used.mark();
        drop(used);
        assert_eq!(request(&world, "c", Stay::Free), Err(TooMany));
        world.1.advance(SECOND * 100);
        assert_eq!(swept(&world), Vec::<&str>::new());
        drop(mark);
        assert_eq!(request(&world, "c", Stay::Free), Ok(None));
        assert_eq!(request(&world, "d", Stay::Free), Ok(Some("c")));
    }

    #[test]
    fn time_lets_go_of_what_nobody_uses() {
        let world = sessions(8);
        for (name, stay) in [("a", Stay::Free), ("b", Stay::Free), ("c", Stay::Needed)] {
            assert_eq!(request(&world, name, stay), Ok(None));
        }
        world.1.advance(SECOND * 56);
        assert_eq!(swept(&world), Vec::<&str>::new());
        assert_eq!(request(&world, "b", Stay::Free), Ok(None));
        world.1.advance(SECOND * 10);
        assert_eq!(swept(&world), ["a"]);
        world.1.advance(SECOND * 60);
        assert_eq!(swept(&world), ["b"]);
        assert_eq!(world.0.take_all().len(), 1);
    }

    #[test]
    fn one_that_could_not_be_opened_takes_no_room() {
        let (sessions, _) = sessions(1);
        let (one, _) = sessions.enter(&"a".into()).unwrap();
        let (other, _) = sessions.enter(&"a".into()).unwrap();
        sessions.forget(&"a".into(), one);
        assert_eq!(sessions.enter(&"b".into()).map(drop), Err(TooMany));
        sessions.forget(&"a".into(), other);
        assert_eq!(sessions.enter(&"b".into()).map(drop), Ok(()));
    }
}
