//! What is said to `tracing` while one test runs, in a program in which others say something too.

use std::sync::LazyLock;

use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default};
use tracing::{Dispatch, Subscriber};

/// Has `subscriber` told of what this thread says, until the guard is dropped.
///
/// A place in the code that is reached for the first time asks whether anybody wants to hear of it, and keeps the answer. While there is
/// one subscriber alone, `tracing` asks the thread that came there, which may be another test's, without any; so there is never one alone.
pub(crate) fn hear(subscriber: impl Subscriber + Send + Sync + 'static) -> DefaultGuard {
    static DEAF: LazyLock<[Dispatch; 2]> =
        LazyLock::new(|| [(); 2].map(|()| Dispatch::new(NoSubscriber::new())));
    LazyLock::force(&DEAF);
    set_default(subscriber)
}
