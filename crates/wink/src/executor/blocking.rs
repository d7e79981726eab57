//! Blocking handlers: a thread each. One that does not stop is abandoned, counted, and writes into nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::Shared;
use crate::support::future::catch;
use crate::support::holding;
use crate::tool::ToolError;
use crate::tool::context::CallContext;
use crate::tool::erased::{AnyTool, ErasedResult, Params};

/// Threads whose callers have gone.
#[derive(Debug, Default)]
pub(super) struct Abandoned(AtomicUsize);

impl Abandoned {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

/// One thread, seen from both sides. Whoever is second to leave settles the count.
struct Thread {
    left: AtomicBool,
    abandoned: Arc<Abandoned>,
}

impl Thread {
    fn caller_leaves(&self) {
        self.abandoned.0.fetch_add(1, Ordering::AcqRel);
        if self.left.swap(true, Ordering::AcqRel) {
            self.abandoned.0.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn thread_ends(&self) {
        if self.left.swap(true, Ordering::AcqRel) {
            self.abandoned.0.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// The caller, until it has what it waits for. Going before that abandons the thread.
struct Waiting(Option<Arc<Thread>>);

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(thread) = &self.0 {
            thread.caller_leaves();
        }
    }
}

/// Runs the handler on a thread of its own. Dropping the future abandons the thread.
pub(super) async fn run(
    shared: Arc<Shared>,
    tool: AnyTool,
    params: Params,
    cx: CallContext,
) -> Result<ErasedResult, ToolError> {
    let most = shared.limits.max_abandoned_threads;
    if shared.abandoned.count() >= most {
        return Err(ToolError::new(format!(
            "{most} earlier calls of blocking tools still run although they were stopped; no further one is started"
        )));
    }
    let thread = Arc::new(Thread { left: AtomicBool::new(false), abandoned: Arc::clone(&shared.abandoned) });
    let (send, receive) = tokio::sync::oneshot::channel();
    let runtime = tokio::runtime::Handle::try_current().ok();
    let (own, inside) = (Arc::clone(&thread), holding::all());
    let spawned = std::thread::Builder::new().name(format!("wink-{}", tool.name())).spawn(move || {
        holding::carry(inside);
        let _entered = runtime.as_ref().map(tokio::runtime::Handle::enter);
        let returned = catch(|| tool.inner.run_blocking(params, cx));
        // A receiver that has gone is the caller's business.
        let _ = send.send(returned);
        own.thread_ends();
    });
    if let Err(error) = spawned {
        return Err(ToolError::from(error).tell("no thread could be started for this tool"));
    }
    let mut waiting = Waiting(Some(thread));
    let returned = receive.await;
    waiting.0 = None;
    match returned {
        Ok(Ok(returned)) => returned,
        // The panic goes on where the handler was called, like one of an asynchronous handler.
        Ok(Err(panic)) => std::panic::resume_unwind(Box::new(panic)),
        Err(_) => Err(ToolError::new("the handler's thread ended without a result")),
    }
}
