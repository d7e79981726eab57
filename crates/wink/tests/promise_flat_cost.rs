//! Flat cost: a call costs the same in a session with a million events, a hundred thousand state items and as many
//! files as in an empty one, and the ten-thousandth the same as the first.
//!
//! Cost is counted in instructions, so that a busy machine changes nothing. The test runs itself under callgrind,
//! which counts inside [`measured_region`] only and writes one count for each time that it is left.

#![allow(clippy::unwrap_used, clippy::panic, reason = "the lints exempt tests, not their helpers")]

use std::collections::BTreeMap;
use std::future::Future;
use std::hint::black_box;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::{env, fs, process};

use wink::executor::{Executor, ToolCall};
use wink::feedback::{Feedback, StaticFeedback, Trigger};
use wink::filesystem::{Filesystem, MemoryFilesystem};
use wink::policy::{Decision, SequentialDependencyPolicy, policy_fn};
use wink::prelude::*;
use wink::resource::Binding;
use wink::session::ToolInvoked;

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
const SITUATIONS: [Situation; 3] = [Situation::Empty, Situation::Old, Situation::Much];
/// The last is the first call of an executor with feedback, which counts the calls before it.
const TOOLS: [&str; 4] = ["look", "write", "fail", "told"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Situation {
    Empty,
    /// After many calls.
    Old,
    /// Among many items, events and files.
    Much,
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
        _ => ready(executor.call(ToolCall::new("call_1", tool, black_box(arguments)))),
    };
    assert_eq!(outcome.is_success(), tool != "fail", "{}", outcome.text());
}

/// An executor with what a call usually has around it: policies, one of them asking history, and a subscriber.
fn open(files: u32) -> Flat {
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
    let session = Session::new();
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
    for _ in 0..MEASURED_CALLS {
        call(executor, tool);
    }
}

/// What the process under callgrind does.
fn make_measured_calls() {
    let executor = open(0);
    warm_up(&executor);
    TOOLS.iter().for_each(|tool| measured_region(&executor, tool));

    (0..HISTORY).for_each(|_| call(&executor, "write"));
    TOOLS.iter().for_each(|tool| measured_region(&executor, tool));

    let executor = open(FILES);
    warm_up(&executor);
    fill(&executor);
    warm_up(&executor);
    TOOLS.iter().for_each(|tool| measured_region(&executor, tool));
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
        for (situation, most) in [(Situation::Old, MOST_GROWTH_WITH_HISTORY), (Situation::Much, MOST_GROWTH)]
        {
            let cost = counted[&(situation, tool)];
            let growth = cost / empty;
            println!(
                "{tool}: {empty:.0} instructions when empty, {cost:.0} when {situation:?}: {growth:.2} times"
            );
            assert!(
                growth <= most,
                "`{tool}` costs {growth:.2} times as much when {situation:?}; {most} is allowed"
            );
        }
    }
}
