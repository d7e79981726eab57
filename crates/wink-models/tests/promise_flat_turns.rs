//! Flat cost: of a scripted run of two thousand turns, the last cost what the tenth did.
//!
//! Cost is counted in instructions, so that a busy machine changes nothing: the test runs itself under callgrind, which writes a count
//! down whenever [`reached`] is called, of everything since the time before. A request shares the history, and a scripted model does
//! not look at it; what a provider writes on its wire grows with it, as it must.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "../../wink/tests/support/discards.rs"]
mod discards;
mod support;

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::{env, fs, process};

use discards::Discards;
use support::{calls, prompt, resources, says};
use wink::prelude::*;
use wink::store::{MemoryStore, SharedStore};
use wink_models::{Adapter, Evaluation, ModelAdapter, Piece, RunStats, ScriptedModel, Stream, Terms, Watch};

const TURNS: u32 = 2_000;
/// The tenth turn and those after it, and the last. Of a hundred each: every now and then a node of a tree is full.
const REACHED: [u32; 4] = [9, 109, TURNS - 101, TURNS - 1];
const MEASURED_TURNS: f64 = 100.0;
/// Nothing should be dearer, but for an odd node more of what was said and of the log.
const MOST_GROWTH: f64 = 1.1;

const TEST: &str = "the_last_of_two_thousand_turns_costs_what_the_tenth_did";
const COUNTED: &str = "WINK_FLAT_TURNS_COUNTED";

/// What is counted, in this order: in memory, and with a store that is told everything.
const SITUATIONS: [&str; 2] = ["in memory", "stored"];

/// Callgrind writes a count down before this, so no other function may have this name in its own.
#[inline(never)]
fn reached(turn: u32) {
    std::hint::black_box(turn);
}

/// Tells once when a turn is reached.
struct Turns(Mutex<u32>);

impl Stream for Turns {
    fn piece(&self, _: Piece<'_>) {}
}

impl Watch for Turns {
    fn stats(&self, stats: RunStats) {
        let mut last = self.0.lock().unwrap();
        if *last != stats.turns && REACHED.contains(&stats.turns) {
            reached(stats.turns);
        }
        *last = stats.turns;
    }
}

/// What the process under callgrind does.
fn make_measured_turns() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stores: [SharedStore; 2] = [Arc::new(MemoryStore::new()), Arc::new(Discards::default())];
    for store in stores {
        let lines = (1..TURNS).map(|_| calls(&[("note", "again")])).chain([says("done")]);
        let terms = Terms { max_turns: TURNS, ..Terms::default() };
        let adapter = ModelAdapter::new(Arc::new(ScriptedModel::new(lines))).terms(terms);
        let evaluation = Evaluation::new()
            .task("Do it.")
            .watch(Arc::new(Turns(Mutex::default())))
            .resources(resources().0);
        let response = runtime.block_on(async {
            let session = Session::builder().store(store).open().await.unwrap();
            adapter.evaluate(&prompt(), &session, evaluation).await.unwrap()
        });
        assert_eq!((response.stats.turns, response.stats.calls), (TURNS, u64::from(TURNS) - 1));
    }
}

/// Instructions of each turn, early and late, by situation.
fn count() -> BTreeMap<&'static str, (f64, f64)> {
    let counts = env::temp_dir().join(format!("wink-flat-turns-{}", process::id()));
    fs::create_dir_all(&counts).unwrap();
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-before=*::reached"])
        .arg(format!("--callgrind-out-file={}", counts.join("count").display()))
        .arg(env::current_exe().unwrap())
        .args([TEST, "--exact", "--test-threads=1", "--include-ignored"])
        .env(COUNTED, "1")
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| {
            panic!(
                "valgrind cannot be run ({error}); install it, for example with `apt-get install valgrind`"
            )
        });
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", said(&output.stdout), said(&output.stderr));
    let total = |number: usize| {
        let text = fs::read_to_string(counts.join(format!("count.{number}"))).unwrap();
        let total = text.lines().find_map(|line| line.strip_prefix("totals:")).unwrap();
        total.trim().parse::<f64>().unwrap() / MEASURED_TURNS
    };
    // Between the first and the second count are the early turns, between the third and the fourth the late ones.
    let of = |at: usize| (total(at * REACHED.len() + 2), total(at * REACHED.len() + 4));
    let counted = SITUATIONS.iter().enumerate().map(|(at, situation)| (*situation, of(at))).collect();
    fs::remove_dir_all(&counts).unwrap();
    counted
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "counts an optimised build: cargo test --release --test promise_flat_turns"
)]
fn the_last_of_two_thousand_turns_costs_what_the_tenth_did() {
    if env::var_os(COUNTED).is_some() {
        return make_measured_turns();
    }
    for (situation, (early, late)) in count() {
        let growth = late / early;
        println!(
            "a turn {situation}: {early:.0} instructions at first, {late:.0} at last: {growth:.2} times"
        );
        assert!(early > 1_000.0, "the turns were not met: {early}");
        assert!(growth <= MOST_GROWTH, "a late turn {situation} costs {growth:.2} times as much");
    }
}
