//! Owners of claims: which calls of this process hold a key right now, so that others can wait for them.
//!
//! What counts is the owner in the store's row, not through which handle of the store it was read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use jiff::Timestamp;
use tokio::sync::watch;

use crate::support::lock::lock;

/// This process, in the owners of its claims.
static PROCESS: LazyLock<String> = LazyLock::new(|| {
    // The random part alone makes it unique; no clock is asked.
    format!("{}:{}:", std::process::id(), crate::session::fresh_uuid(Timestamp::UNIX_EPOCH))
});

static LIVE: LazyLock<Mutex<HashMap<Arc<str>, watch::Receiver<()>>>> = LazyLock::new(Mutex::default);

/// The owner of one claim, for as long as its call goes on. Whoever waits for the call waits until this is dropped.
pub(super) struct Owner {
    name: Arc<str>,
    _ended: watch::Sender<()>,
}

impl Owner {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name: Arc<str> = format!("{}{}", *PROCESS, NEXT.fetch_add(1, Ordering::Relaxed)).into();
        let (ended, waiting) = watch::channel(());
        lock(&LIVE).insert(Arc::clone(&name), waiting);
        Self { name, _ended: ended }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        lock(&LIVE).remove(&self.name);
    }
}

/// Where the owner of a claim is.
pub(super) enum Whereabouts {
    /// A call of this process that goes on.
    Here(Going),
    /// A call of this process that has ended.
    Ended,
    /// Another process, of which the store says that it lives.
    Elsewhere,
}

/// A call that goes on.
pub(super) struct Going(watch::Receiver<()>);

impl Going {
    /// Waits for its end.
    pub(super) async fn ended(mut self) {
        // Nothing is ever sent: the wait is over when the other side is dropped.
        while self.0.changed().await.is_ok() {}
    }
}

pub(super) fn whereabouts(owner: &str) -> Whereabouts {
    match lock(&LIVE).get(owner) {
        Some(going) => Whereabouts::Here(Going(going.clone())),
        None if owner.starts_with(PROCESS.as_str()) => Whereabouts::Ended,
        None => Whereabouts::Elsewhere,
    }
}
