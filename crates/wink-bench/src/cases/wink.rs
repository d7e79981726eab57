//! Wink itself: the whole call, with an allowing policy, a subscriber, its transaction and its event.

use std::hint::black_box;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use wink::executor::{Executor, ToolCall};
use wink::filesystem::{Filesystem, MemoryFilesystem};
use wink::policy::{Decision, policy_fn};
use wink::prelude::*;
use wink::resource::Binding;
use wink::session::ToolInvoked;

use super::typed_call::{ANSWER, ARGUMENTS, Args, DESCRIPTION, TOOL, answer, other_tools, poll_now};
use super::{Case, Row};

/// What a failing call says, and nothing else that goes wrong does.
const FAILURE: &str = "the disk is full";

/// How much there is around a call.
#[derive(Clone, Copy)]
pub(super) struct Around {
    pub(super) state_items: u32,
    pub(super) events: usize,
    pub(super) files: usize,
    pub(super) calls: u64,
}

impl Around {
    const NOTHING: Self = Self { state_items: 0, events: 0, files: 0, calls: 0 };
    /// In `call/large` and `policy/history`.
    pub(super) const MUCH: Self =
        Self { state_items: 100_000, events: 1_000_000, files: 100_000, calls: 1_000 };
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Written {
    line: u32,
}

impl SliceType for Written {
    const NAME: &'static str = "bench.written";
}

async fn say(args: Args, _: &mut ToolContext) -> ToolResult<String> {
    ToolResult::value(answer(&args))
}

async fn write(args: Args, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    let dispatched = cx.session().dispatch(Written { line: args.start_line })?;
    debug_assert!(dispatched.is_ok());
    cx.filesystem().await?.write_text(&args.path, &args.content).await?;
    Ok(ToolResult::value(answer(&args)))
}

async fn fail(args: Args, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    let _undone = write(args, cx).await?;
    Err(ToolError::new(FAILURE))
}

/// The case of a row; `much` is what the rows with much around them have there.
pub(super) fn make(row: Row, much: Around) -> Option<Case> {
    Some(match row {
        Row::CallEmpty => call(Tool::new(TOOL, DESCRIPTION, say), Around::NOTHING, Ok(ANSWER)),
        Row::CallWrite => call(Tool::new(TOOL, DESCRIPTION, write), Around::NOTHING, Ok(ANSWER)),
        Row::CallLarge => call(Tool::new(TOOL, DESCRIPTION, write), much, Ok(ANSWER)),
        Row::CallFail => call(Tool::new(TOOL, DESCRIPTION, fail), Around::NOTHING, Err(FAILURE)),
        Row::PolicyHistory => history(much),
        _ => return None,
    })
}

fn call(tool: Tool<Args, String>, around: Around, expected: Result<&str, &str>) -> Case {
    let executor = open(tool, around);
    let call = ToolCall::new("call_1", TOOL, ARGUMENTS);
    let outcome = poll_now(executor.call(call.clone()));
    let text = outcome.text();
    assert_eq!(if outcome.is_success() { Ok(text) } else { Err(text) }, expected);
    Box::new(move || {
        // A model's call arrives as text; taking it over is part of the work.
        let call = ToolCall::new(call.id.clone(), call.tool.clone(), black_box(ARGUMENTS));
        let _ = black_box(poll_now(executor.call(call)));
    })
}

/// What [`PolicyContext::calls`](wink::policy::PolicyContext::calls) asks; the case asks it of the session, since a
/// policy's context cannot be taken out of its call.
fn history(around: Around) -> Case {
    let executor = open(Tool::new(TOOL, DESCRIPTION, say), around);
    for _ in 0..around.calls {
        let outcome = poll_now(executor.call(ToolCall::new("call_1", TOOL, ARGUMENTS)));
        assert!(outcome.is_success());
    }
    let session = executor.session().clone();
    // A policy is told the same.
    let told = Arc::new(OnceLock::new());
    let telling = Arc::clone(&told);
    let asks = policy_fn("bench.asks", move |_, cx| {
        let _ = telling.set(cx.calls(TOOL));
        Decision::Allow
    });
    let section = Section::tools("tools", "Tools").tool(Tool::new(TOOL, DESCRIPTION, say)).policy(asks);
    let asking = opened(section, &session);
    assert!(poll_now(asking.dry_run(ToolCall::new("call_1", TOOL, ARGUMENTS))).would_run());
    let known = session.calls(TOOL);
    assert_eq!((told.get(), known.map(|stat| stat.count)), (Some(&known), Some(1 + around.calls)));
    Box::new(move || {
        black_box(session.calls(black_box(TOOL)));
    })
}

fn open(tool: Tool<Args, String>, around: Around) -> Executor {
    let mut section = Section::tools("tools", "Tools")
        .tool(tool)
        .policy(policy_fn("bench.allow", |_, _| Decision::Allow))
        .resource(Binding::filesystem(files(around)));
    for name in other_tools() {
        section = section.tool(Tool::new(name, DESCRIPTION, say));
    }
    let session = Session::new();
    session.dispatcher().subscribe::<ToolInvoked>(|event, _| {
        black_box(event);
        Ok(())
    });
    let executor = opened(section, &session);
    if around.events > 0 {
        fill(&executor, around);
    }
    executor
}

fn opened(section: Section, session: &Session) -> Executor {
    let template = PromptTemplate::builder("bench", "call").section(section).build();
    let prompt = template.unwrap_or_else(|error| unreachable!("{error}")).prompt();
    poll_now(Executor::open(&prompt, session)).unwrap_or_else(|error| unreachable!("{error}"))
}

fn fill(executor: &Executor, around: Around) {
    let session = executor.session();
    let first = poll_now(executor.call(ToolCall::new("call_0", TOOL, ARGUMENTS)));
    let event = ToolInvoked::clone(&first.event);
    // The log only grows, so it is filled by dispatching; the call above is its first event.
    for _ in 1..around.events {
        let dispatched = session.dispatch(event.clone());
        debug_assert!(dispatched.is_ok());
    }
    let items = (0..around.state_items).map(|line| Written { line });
    session.seed(items).unwrap_or_else(|error| unreachable!("{error}"));
    assert_eq!(session.slice::<ToolInvoked>().len(), around.events);
}

/// The file that a call writes is there from its second call on; a failing call finds it as a succeeding one does.
fn files(around: Around) -> Arc<dyn Filesystem> {
    let files = (0..around.files)
        .map(|file| (format!("src/part_{}/file_{}.rs", file / 100, file % 100), "// text\n"));
    let files = files.chain([("src/runtime/session/mod.rs".to_owned(), "// text\n")]);
    Arc::new(MemoryFilesystem::from_files(files).unwrap_or_else(|error| unreachable!("{error}")))
}
