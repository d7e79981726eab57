//! Flat cost: the two-thousandth turn of a run takes what the tenth did.
//!
//! The bytes of the whole process are counted, so this file has one test and nothing runs beside it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

mod support;

use std::alloc::System;
use std::sync::{Arc, Mutex};

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use support::{calls, prompt, resources, says};
use wink::BoxFuture;
use wink::limits::CancelToken;
use wink::prelude::*;
use wink::testing::ByteStore;
use wink_models::{
    Adapter, Evaluation, Model, ModelAdapter, ModelError, ModelRequest, ModelResponse, Piece, RunStats,
    Stream, Terms, Watch,
};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TURNS: usize = 2_000;

/// Calls a tool in every turn, until it is enough.
struct Busy(Mutex<usize>);

impl Model for Busy {
    fn name(&self) -> &str {
        "busy"
    }

    fn respond<'a>(
        &'a self,
        _: &'a ModelRequest,
        _: &'a dyn Stream,
        _: &'a CancelToken,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        let mut left = self.0.lock().unwrap();
        *left -= 1;
        let answer = if *left == 0 { says("done") } else { calls(&[("note", "again")]) };
        Box::pin(std::future::ready(Ok(answer)))
    }
}

/// Counts at every turn.
struct Counts(Mutex<Vec<(u32, usize)>>);

impl Stream for Counts {
    fn piece(&self, _: Piece<'_>) {}
}

impl Watch for Counts {
    fn stats(&self, stats: RunStats) {
        self.0.lock().unwrap().push((stats.turns, COUNTING.stats().bytes_allocated));
    }
}

/// What most turns take from one turn to another: the median, so that a buffer of the store which doubles in one of them does not
/// count.
fn per_turn(counts: &[(u32, usize)], from: u32, to: u32) -> usize {
    let at = |turn| counts.iter().find(|(of, _)| *of == turn).unwrap().1;
    let mut taken: Vec<usize> = (from..to).map(|turn| at(turn + 1) - at(turn)).collect();
    taken.sort_unstable();
    taken[taken.len() / 2]
}

#[tokio::test]
async fn a_turn_costs_the_same_however_many_there_were() {
    for stored in [false, true] {
        let session = match stored {
            true => Session::builder().store(Arc::new(ByteStore::new())).build(),
            false => Session::new(),
        };
        let counts = Arc::new(Counts(Mutex::new(Vec::with_capacity(3 * TURNS))));
        let terms = Terms { max_turns: u32::MAX, ..Terms::default() };
        let adapter = ModelAdapter::new(Arc::new(Busy(Mutex::new(TURNS)))).terms(terms);
        let evaluation = Evaluation::new().watch(counts.clone()).resources(resources().0);
        let response = adapter.evaluate(&prompt(), &session, evaluation).await.unwrap();
        assert_eq!(response.stats.turns as usize, TURNS);
        let counts = counts.0.lock().unwrap();
        let (early, late) = (per_turn(&counts, 10, 110), per_turn(&counts, 1_890, 1_990));
        assert!(
            late <= early + early / 10,
            "stored {stored}: {early} bytes a turn, and {late} after two thousand"
        );
    }
}
