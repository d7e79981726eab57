//! Who is connected. Whoever has not shown a token yet has a small share, and of these the oldest goes first: nobody keeps
//! those out who have one, and nobody takes the files that calls need.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The connections that there are.
#[derive(Debug)]
pub(super) struct Connections {
    now: Mutex<Now>,
    most_known: usize,
    most_strangers: usize,
}

#[derive(Debug, Default)]
struct Now {
    next: u64,
    /// Those that have shown no token, oldest first.
    strangers: BTreeMap<u64, Arc<Notify>>,
    known: usize,
}

/// There is no room for one more that has a token.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are too many connections")]
pub(super) struct TooMany;

impl Connections {
    /// Room for this many, a quarter of it for strangers.
    pub(super) fn new(most: usize) -> Self {
        let strangers = (most / 4).clamp(1, MOST_STRANGERS);
        Self {
            now: Mutex::default(),
            most_known: most.saturating_sub(strangers).max(1),
            most_strangers: strangers,
        }
    }

    /// A connection begins, of which nothing is known. If there are too many such, the oldest is let go.
    pub(super) fn begin(self: &Arc<Self>) -> Place {
        let let_go = Arc::new(Notify::new());
        let mut now = self.now();
        if now.strangers.len() >= self.most_strangers {
            now.drop_oldest();
        }
        let number = now.next;
        now.next = now.next.wrapping_add(1);
        now.strangers.insert(number, Arc::clone(&let_go));
        drop(now);
        Place { connections: Arc::clone(self), number, let_go, is_known: Mutex::new(false) }
    }

    /// Lets the oldest stranger go, for want of files.
    pub(super) fn drop_oldest(&self) {
        self.now().drop_oldest();
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// However many there may be in all.
const MOST_STRANGERS: usize = 512;

impl Now {
    fn drop_oldest(&mut self) {
        if let Some((_, oldest)) = self.strangers.pop_first() {
            oldest.notify_one();
        }
    }
}

/// A connection's place among the others.
#[derive(Debug)]
pub(super) struct Place {
    connections: Arc<Connections>,
    number: u64,
    let_go: Arc<Notify>,
    is_known: Mutex<bool>,
}

impl Place {
    /// It has shown a token, and stays, also if it was to be let go.
    pub(super) fn is_known(&self) -> Result<(), TooMany> {
        let mut is_known = self.is_known.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_known {
            return Ok(());
        }
        let mut now = self.connections.now();
        if now.known >= self.connections.most_known {
            return Err(TooMany);
        }
        now.strangers.remove(&self.number);
        now.known = now.known.saturating_add(1);
        *is_known = true;
        Ok(())
    }

    /// Waits until another needs its place. Never, once it is known.
    pub(super) async fn let_go(&self) {
        self.let_go.notified().await;
        let is_known = *self.is_known.lock().unwrap_or_else(PoisonError::into_inner);
        if is_known {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let is_known = *self.is_known.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut now = self.connections.now();
        match is_known {
            true => now.known = now.known.saturating_sub(1),
            false => drop(now.strangers.remove(&self.number)),
        }
    }
}

/// How many connections there may be, so that calls have files left: half of the limit, and all of a high one but for a
/// reserve.
#[cfg(unix)]
pub(super) fn within_files(most: usize) -> usize {
    use rustix::process::{Resource, getrlimit};
    let Some(files) = getrlimit(Resource::Nofile).current else { return most };
    most.min(for_connections(usize::try_from(files).unwrap_or(usize::MAX)))
}

#[cfg(not(unix))]
pub(super) fn within_files(most: usize) -> usize {
    most
}

fn for_connections(files: usize) -> usize {
    files.saturating_sub((files / 2).min(super::FILES_FOR_CALLS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many are known, and how many are not.
    fn count(connections: &Connections) -> (usize, usize) {
        let now = connections.now();
        (now.known, now.strangers.len())
    }

    fn is_let_go(place: &Place) -> bool {
        let mut let_go = std::pin::pin!(place.let_go());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let_go.as_mut().poll(&mut cx).is_ready()
    }

    #[test]
    fn the_oldest_stranger_goes_first_and_the_known_stay() {
        let connections = Arc::new(Connections::new(8));
        let known = connections.begin();
        assert_eq!(known.is_known(), Ok(()));
        assert_eq!(known.is_known(), Ok(()));
        let strangers: Vec<Place> = (0..5).map(|_| connections.begin()).collect();
        assert_eq!(strangers.iter().map(is_let_go).collect::<Vec<_>>(), [true, true, true, false, false]);
        assert!(!is_let_go(&known));
        assert_eq!(strangers[4].is_known(), Ok(()));
        // Whoever shows a token before it has gone stays.
        let late = connections.begin();
        let others = [connections.begin(), connections.begin()];
        assert_eq!(late.is_known(), Ok(()));
        assert!(!is_let_go(&late));
        assert_eq!(count(&connections), (3, 2));
        drop((strangers, others, late));
        assert_eq!(count(&connections), (1, 0));
    }

    #[test]
    fn the_known_are_bounded_too() {
        let connections = Arc::new(Connections::new(4));
        let places: Vec<Place> = (0..4)
            .map(|_| {
                let place = connections.begin();
                let _ = place.is_known();
                place
            })
            .collect();
        assert_eq!(places[2].is_known(), Ok(()));
        assert_eq!(places[3].is_known(), Err(TooMany));
        drop(places);
        assert_eq!(count(&connections), (0, 0));
        connections.drop_oldest();
    }

    #[test]
    fn calls_have_files_left() {
        let files = [0, 1, 64, 256, 1024, 4608, 1 << 20];
        assert_eq!(files.map(for_connections), [0, 1, 32, 128, 512, 4096, (1 << 20) - 512]);
    }
}
