//! Something that goes wrong in a chosen part of a call, without anybody watching the call's steps.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wink::limits::CancelToken;
use wink::testing::Fault;

/// Whoever takes part in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    PolicyCheck,
    Approver,
    Handler,
    Resource,
    Reducer,
    PolicyResult,
    Subscriber,
}

/// Goes off once, when its part is reached.
#[derive(Clone)]
pub struct Trap {
    inner: Arc<Inner>,
}

struct Inner {
    set: Option<(Part, Fault)>,
    sprung: AtomicBool,
    cancel: CancelToken,
}

/// A resource of one call, whose making may go wrong.
pub struct Snare;

impl Trap {
    /// One that never goes off.
    pub fn none() -> Self {
        Self::of(None)
    }

    pub fn set(part: Part, fault: Fault) -> Self {
        Self::of(Some((part, fault)))
    }

    /// One that has gone off already.
    pub fn sprung(part: Part) -> Self {
        let trap = Self::set(part, Fault::Error);
        trap.inner.sprung.store(true, Ordering::Relaxed);
        trap
    }

    fn of(set: Option<(Part, Fault)>) -> Self {
        let inner = Inner { set, sprung: AtomicBool::new(false), cancel: CancelToken::new() };
        Self { inner: Arc::new(inner) }
    }

    pub fn is_in(&self, part: Part) -> bool {
        self.inner.set.is_some_and(|(set, _)| set == part)
    }

    pub fn has_sprung(&self) -> bool {
        self.inner.sprung.load(Ordering::Relaxed)
    }

    /// What a call has to be given to be cancelled by this.
    pub fn cancel(&self) -> CancelToken {
        self.inner.cancel.clone()
    }

    /// What goes wrong here, if it has not yet.
    fn spring(&self, part: Part) -> Option<Fault> {
        let (_, fault) = self.inner.set.filter(|(set, _)| *set == part)?;
        let first = !self.inner.sprung.swap(true, Ordering::Relaxed);
        first.then_some(fault)
    }

    /// For parts that can wait.
    pub async fn reach(&self, part: Part) -> Result<(), String> {
        match self.spring(part) {
            None => Ok(()),
            Some(Fault::Error) => Err(format!("{part:?} fails")),
            Some(Fault::Panic) => panic!("{part:?} panics"),
            Some(Fault::Cancel) => {
                self.inner.cancel.cancel();
                tokio::task::yield_now().await;
                Ok(())
            }
            Some(Fault::Hang | Fault::Drop) => pending().await,
        }
    }

    /// For parts that cannot.
    pub fn reach_now(&self, part: Part) -> Result<(), String> {
        match self.spring(part) {
            None => Ok(()),
            Some(Fault::Error) => Err(format!("{part:?} fails")),
            Some(Fault::Panic) => panic!("{part:?} panics"),
            Some(Fault::Cancel) => {
                self.inner.cancel.cancel();
                Ok(())
            }
            Some(fault) => panic!("{part:?} cannot wait, so there is no {fault:?}"),
        }
    }
}
