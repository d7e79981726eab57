//! Flat cost: a call costs the same in a session with a million events, a hundred thousand state items and as many
//! files as in an empty one, and the ten-thousandth the same as the first.
//!
//! What a store does with what it is given is its own affair, and one that keeps bytes may need longer for more of
//! them; so beside the calls in memory those are counted whose store turns everything into bytes and keeps none.
//!
//! Cost is counted in instructions, so that a busy machine changes nothing. The test runs itself under callgrind,
//! which counts inside [`measured_region`] only and writes one count for each time that it is left.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints exempt tests, not their helpers")]

#[path = "support/discards.rs"]
mod discards;

use std::collections::BTreeMap;
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::{env, fs, process};

use discards::Discards;
use wink::executor::{Executor, ToolCall};
use wink::feedback::{Feedback, StaticFeedback, Trigger};
use wink::filesystem::{Filesystem, MemoryFilesystem};
use wink::policy::{Decision, SequentialDependencyPolicy, policy_fn};
use wink::prelude::*;
use wink::resource::Binding;
use wink::session::ToolInvoked;
use wink::store::{MemoryStore, SharedStore};

const STATE_ITEMS: u32 = 100_000;
const EVENTS: usize = 1_000_000;
const FILES: u32 = 100_000;
const HISTORY: u32 = 10_000;
const MEASURED_CALLS: u32 = 200;

/// What may be dearer where there is much: the paths through persistent trees are a few nodes longer.
const MOST_GROWTH: f64 = 1.75;
/// What may be dearer after many calls. Nothing should be, but for an odd node more of the log.
const MOST_GROWTH_WITH_HISTORY: f64 = 1.1;

const TEST: &str = "a_call_costs_the_same_however_much_there_is";
const COUNTED: &str = "WINK_FLAT_COST_COUNTED";

/// What is counted, in this order: each situation with each tool.
const SITUATIONS: [Situation; 5] =
    [Situation::Empty, Situation::Old, Situation::Much, Situation::Stored, Situation::StoredOld];
/// The third from the end is the first call of an executor with feedback, which counts the calls before it; the last
/// two are calls in one response, few and many of them.
const TOOLS: [&str; 6] = ["look", "write", "fail", "told", "few", "many"];
const FEW_AT_ONCE: u32 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Situation {
    Empty,
    /// After many calls.
    Old,
    /// Among many items, events and files.
    Much,
    /// With a store that is told everything.
    Stored,
    /// With one that has been told of many calls.
    StoredOld,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Written {
    line: u32,
}

impl SliceType for Written {
    const NAME: &'static str = "written";
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Place {
    path: String,
    line: u32,
}

async fn look(place: Place, cx: &mut ToolContext) -> Result<ToolResult<bool>, ToolError> {
    let written = cx.session().slice::<Written>()?.latest().is_some();
    Ok(ToolResult::value(written && cx.filesystem().await?.exists(&place.path).await?))
}

async fn write(place: Place, cx: &mut ToolContext) -> Result<ToolResult<usize>, ToolError> {
    let dispatched = cx.session().dispatch(Written { line: place.line })?;
    assert!(dispatched.is_ok());
    cx.filesystem().await?.write_text(&place.path, "text\n").await?;
    Ok(ToolResult::value(5))
}

async fn fail(place: Place, cx: &mut ToolContext) -> Result<ToolResult<usize>, ToolError> {
    let _undone = write(place, cx).await?;
    Err(ToolError::new("no"))
}

/// Drives a future that never has to wait.
fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a call in memory is ready at the first poll"),
    }
}

fn call(Flat { executor, prompt }: &Flat, tool: &str) {
    let arguments = r#"{"path":"src/part_7/file_7.rs","line":117}"#;
    let outcome = match tool {
        "told" => {
            let fresh =
                Executor::builder(prompt, executor.session()).opened(executor.resources().clone()).feedback(
                    Trigger::every_calls(u64::MAX),
                    StaticFeedback::new("silent", Feedback::info("never")),
                );
            let fresh = ready(fresh.open()).unwrap();
            ready(fresh.call(ToolCall::new("call_1", "look", black_box(arguments))))
        }
        "few" => return batch(executor, FEW_AT_ONCE, arguments),
        "many" => return batch(executor, MEASURED_CALLS, arguments),
        _ => ready(executor.call(ToolCall::new("call_1", tool, black_box(arguments)))),
    };
    assert_eq!(outcome.is_success(), tool != "fail", "{}", outcome.text());
}

/// Calls that are taken one after the other, since none says what it touches.
fn batch(executor: &Executor, calls: u32, arguments: &str) {
    let calls =
        (0..calls).map(|call| ToolCall::new(call.to_string(), "write", black_box(arguments))).collect();
    let outcomes = ready(executor.batch(calls));
    assert!(outcomes.iter().all(wink::executor::Outcome::is_success));
}

/// How many calls one of [`call`] makes.
fn calls_of(tool: &str) -> u32 {
    match tool {
        "few" => FEW_AT_ONCE,
        "many" => MEASURED_CALLS,
        _ => 1,
    }
}

/// An executor with what a call usually has around it: policies, one of them asking history, and a subscriber.
fn open(files: u32, store: SharedStore) -> Flat {
    let files =
        (0..files).map(|file| (format!("src/part_{}/file_{}.rs", file / 100, file % 100), "// text\n"));
    let files: Arc<dyn Filesystem> = Arc::new(MemoryFilesystem::from_files(files).unwrap());
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("look", "Looks.", look))
        .tool(Tool::new("write", "Writes.", write))
        .tool(Tool::new("fail", "Writes, and fails.", fail))
        .policy(policy_fn("allow", |_, _| Decision::Allow))
        .policy(SequentialDependencyPolicy::new().require("fail", ["look", "write"]))
        .resource(Binding::filesystem(files));
    let prompt = PromptTemplate::builder("tests", "flat").section(section).build().unwrap().prompt();
    let session = ready(Session::builder().store(store).open()).unwrap();
    session.dispatcher().subscribe::<ToolInvoked>(|event, _| {
        black_box(event);
        Ok(())
    });
    Flat { executor: ready(Executor::open(&prompt, &session)).unwrap(), prompt }
}

struct Flat {
    executor: Executor,
    prompt: Prompt,
}

fn fill(Flat { executor, .. }: &Flat) {
    let session = executor.session();
    session.seed((0..STATE_ITEMS).map(|line| Written { line })).unwrap();
    // A log only grows, so it is filled by dispatching.
    let event = session.slice::<ToolInvoked>().latest().unwrap();
    for _ in 0..EVENTS {
        assert!(session.dispatch(ToolInvoked::clone(&event)).is_ok());
    }
    assert!(session.slice::<ToolInvoked>().len() > EVENTS);
    assert_eq!(session.slice::<Written>().len(), STATE_ITEMS as usize);
}

/// Callgrind counts in here and nowhere else, so no other function may have this name in its own.
#[inline(never)]
fn measured_region(executor: &Flat, tool: &str) {
    for _ in 0..MEASURED_CALLS / calls_of(tool) {
        call(executor, tool);
    }
}

/// What the process under callgrind does.
fn make_measured_calls() {
    let executor = open(0, Arc::new(MemoryStore::new()));
    warm_up(&executor);
    TOOLS.iter().for_each(|tool| measured_region(&executor, tool));

    (0..HISTORY).for_each(|_| call(&executor, "write"));
    TOOLS.iter().for_each(|tool| measured_region(&executor, tool));

    let executor = open(FILES, Arc::new(MemoryStore::new()));
    warm_up(&executor);
    fill(&executor);
    warm_up(&executor);
    TOOLS.iter().for_each(|tool| measured_region(&executor, tool));

    let store = Arc::new(Discards::default());
    let executor = open(0, Arc::clone(&store) as SharedStore);
    warm_up(&executor);
    TOOLS.iter().for_each(|tool| measured_region(&executor, tool));
    let first = written(&executor, &store);
    (0..HISTORY).for_each(|_| call(&executor, "write"));
    let later = written(&executor, &store);
    assert!(later.abs_diff(first) < 64, "what the store is given of a call stays the same: {first}, {later}");
    TOOLS.iter().for_each(|tool| measured_region(&executor, tool));
}

/// How many bytes a call gives its store. The digits of ids and times make a difference of a few.
fn written(executor: &Flat, store: &Discards) -> usize {
    let before = store.written();
    call(executor, "write");
    store.written() - before
}

/// First calls fill tables and caches.
fn warm_up(executor: &Flat) {
    for _ in 0..20 {
        TOOLS.iter().for_each(|tool| call(executor, tool));
    }
}

/// Instructions per call, by situation and tool.
fn count() -> BTreeMap<(Situation, &'static str), f64> {
    let counts = env::temp_dir().join(format!("wink-flat-cost-{}", process::id()));
    fs::create_dir_all(&counts).unwrap();
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        // Two patterns: of two settings for one pattern, callgrind keeps only the last.
        .args(["--toggle-collect=*::measured_region", "--dump-after=*measured_region*"])
        .arg(format!("--callgrind-out-file={}", counts.join("count").display()))
        .arg(env::current_exe().unwrap())
        .args([TEST, "--exact", "--test-threads=1"])
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

    let mut counted = BTreeMap::new();
    let cases = SITUATIONS.iter().flat_map(|situation| TOOLS.map(|tool| (*situation, tool)));
    for (number, case) in (1..).zip(cases) {
        let text = fs::read_to_string(counts.join(format!("count.{number}"))).unwrap();
        let total = text.lines().find_map(|line| line.strip_prefix("totals:")).unwrap();
        let total: u32 = total.trim().parse().unwrap();
        assert!(total > 0, "the measured function was not met");
        counted.insert(case, f64::from(total) / f64::from(MEASURED_CALLS));
    }
    fs::remove_dir_all(&counts).unwrap();
    counted
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "counts an optimised build: cargo test --release --test promise_flat_cost"
)]
fn a_call_costs_the_same_however_much_there_is() {
    if env::var_os(COUNTED).is_some() {
        return make_measured_calls();
    }
    let counted = count();
    for tool in TOOLS {
        let empty = counted[&(Situation::Empty, tool)];
        let stored = counted[&(Situation::Stored, tool)];
        for (situation, from, most) in [
            (Situation::Old, empty, MOST_GROWTH_WITH_HISTORY),
            (Situation::Much, empty, MOST_GROWTH),
            (Situation::StoredOld, stored, MOST_GROWTH_WITH_HISTORY),
        ] {
            let cost = counted[&(situation, tool)];
            let growth = cost / from;
            println!(
                "{tool}: {from:.0} instructions at first, {cost:.0} when {situation:?}: {growth:.2} times"
            );
            assert!(
                growth <= most,
                "`{tool}` costs {growth:.2} times as much when {situation:?}; {most} is allowed"
            );
        }
    }
    for situation in SITUATIONS {
        let [few, many] = ["few", "many"].map(|tool| counted[&(situation, tool)]);
        let growth = many / few;
        println!(
            "{situation:?}: {few:.0} instructions for one of few, {many:.0} for one of many: {growth:.2} times"
        );
        assert!(
            growth <= MOST_GROWTH_WITH_HISTORY,
            "one of many calls in a response costs {growth:.2} times as much"
        );
    }
}
