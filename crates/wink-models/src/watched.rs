//! Whoever watches a run, kept from taking part in it: a panic of theirs goes no further, and is told at the next step.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wink::catch_panic;
use wink::executor::{Outcome, ToolCall};

use crate::conversation::{RunStats, StopReason};
use crate::driver::Watch;
use crate::model::{ModelError, Piece, Stream};

/// Somebody who watches.
#[derive(Clone)]
pub(crate) struct Watched<'a> {
    watch: &'a dyn Watch,
    panicked: Arc<AtomicBool>,
}

impl<'a> Watched<'a> {
    pub(crate) fn new(watch: &'a dyn Watch) -> Self {
        Self { watch, panicked: Arc::default() }
    }

    /// Whether it still watches.
    pub(crate) fn check(&self) -> Result<(), StopReason> {
        match self.panicked.load(Ordering::SeqCst) {
            false => Ok(()),
            true => Err(StopReason::Runtime("who watched the run panicked".to_owned())),
        }
    }

    /// One that has panicked is told nothing more.
    fn tell(&self, tell: impl FnOnce(&dyn Watch)) {
        if self.panicked.load(Ordering::SeqCst) {
            return;
        }
        if let Err(panic) = catch_panic(|| tell(self.watch)) {
            tracing::error!(panic, "who watches a run panicked");
            self.panicked.store(true, Ordering::SeqCst);
        }
    }
}

impl Stream for Watched<'_> {
    fn piece(&self, piece: Piece<'_>) {
        self.tell(|watch| watch.piece(piece));
    }
}

impl Watch for Watched<'_> {
    fn stats(&self, stats: RunStats) {
        self.tell(|watch| watch.stats(stats));
    }

    fn calls(&self, calls: &[ToolCall]) {
        self.tell(|watch| watch.calls(calls));
    }

    fn outcomes(&self, outcomes: &[Outcome]) {
        self.tell(|watch| watch.outcomes(outcomes));
    }

    fn failed(&self, error: &ModelError) {
        self.tell(|watch| watch.failed(error));
    }

    fn waiting(&self, wait: Duration) {
        self.tell(|watch| watch.waiting(wait));
    }
}
