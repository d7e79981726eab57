//! Promise: several calls in one response look as if run in order, and overlap where nobody can tell.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

#[path = "serial/model.rs"]
mod model;
#[path = "serial/program.rs"]
mod program;
#[path = "serial/world.rs"]
mod world;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::{Made, Model};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use wink::prelude::Prompt;
use world::{NAMES, World};

/// What is said to arguments that are no JSON.
const BROKEN: &str =
    "The arguments are not valid JSON: expected a key in double quotes, got `oops` at line 1 column 2.";

static PROMPT: LazyLock<Prompt> = LazyLock::new(world::prompt);

const CASES: u32 = 1_000;
const BATCHES: usize = 10;

fn made() -> impl Strategy<Value = Made> {
    let program = prop_oneof![30 => program::program().prop_map(Some), 1 => Just(None)];
    // Ids repeat within a batch now and then.
    (0..24_u32, 0..NAMES.len(), program).prop_map(|(id, tool, program)| Made {
        id: format!("call-{id}"),
        tool: NAMES[tool],
        program,
    })
}

// cases 50, 51
#[test]
fn batches_come_to_what_calls_in_order_come_to() {
    let batches = proptest::collection::vec(proptest::collection::vec(made(), 1..8), BATCHES);
    let at_once = prop_oneof![Just(64_usize), 1..5_usize];
    let config =
        Config { cases: CASES, max_shrink_iters: 2_000, failure_persistence: None, ..Config::default() };
    let met = AtomicUsize::new(0);
    TestRunner::new(config)
        .run(&(batches, at_once), |(batches, at_once)| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let mut model = Model::default();
                let world = World::new(&PROMPT, at_once).await;
                for calls in &batches {
                    let expected = model.batch(calls);
                    prop_assert_eq!(world.batch(calls).await, expected, "answers");
                    prop_assert_eq!(world.state().await, model.state.clone(), "slices and files");
                    prop_assert_eq!(world.trail(), model.trail.clone(), "LOG events");
                    prop_assert_eq!(&*world.outside.effects.lock().unwrap(), &model.outside, "outside");
                }
                prop_assert_eq!(world.log(), model.log, "the log");
                met.fetch_add(world.outside.met.load(Ordering::Relaxed), Ordering::Relaxed);
                Ok(())
            })
        })
        .unwrap();
    let met = met.into_inner();
    assert!(met > 10_000, "handlers that hardly ever overlap ({met} times) prove little");
}
