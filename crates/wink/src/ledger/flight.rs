//! Single flight: calls with one key in one store wait for each other within the process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::store::SharedStore;

/// A store (by address; whoever flies keeps it alive) and a key.
type Route = (usize, Arc<str>);

static FLIGHTS: Mutex<Option<HashMap<Route, watch::Receiver<()>>>> = Mutex::new(None);

/// The right to be the only call with this key.
pub(crate) struct Flight {
    route: Route,
    /// Keeps the address taken.
    _store: SharedStore,
    /// Dropping it wakes whoever waits.
    _landed: watch::Sender<()>,
}

/// Waits until no other call with this key is in flight, then takes off.
pub(crate) async fn take_off(store: &SharedStore, key: &Arc<str>) -> Flight {
    loop {
        let route = (Arc::as_ptr(store).cast::<()>() as usize, Arc::clone(key));
        let mut other = {
            let mut flights = FLIGHTS.lock().unwrap_or_else(PoisonError::into_inner);
            let flights = flights.get_or_insert_default();
            match flights.get(&route) {
                Some(other) => other.clone(),
                None => {
                    let (landed, waiting) = watch::channel(());
                    flights.insert(route.clone(), waiting);
                    return Flight { route, _store: Arc::clone(store), _landed: landed };
                }
            }
        };
        // Nothing is ever sent: the wait ends when the other side is dropped.
        while other.changed().await.is_ok() {}
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if let Some(flights) = FLIGHTS.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            flights.remove(&self.route);
        }
    }
}
