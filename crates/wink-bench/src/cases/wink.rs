//! Wink itself: the whole call, with an allowing policy, a subscriber, its transaction and its event.

use std::hint::black_box;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use wink::executor::{Executor, ToolCall};
use wink::filesystem::{Filesystem, MemoryFilesystem};
use wink::policy::{Decision, policy_fn};
use wink::prelude::*;
use wink::resource::Binding;
use wink::session::ToolInvoked;

use super::typed_call::{ANSWER, ARGUMENTS, Args, DESCRIPTION, TOOL, answer, other_tools, poll_now};
use super::{Case, Row};

/// How much there is around a call in `call/large`.
const STATE_ITEMS: usize = 100_000;
const EVENTS: usize = 1_000_000;
const FILES: usize = 100_000;

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
    Err(ToolError::new("no"))
}

pub(super) fn make(row: Row) -> Option<Case> {
    match row {
        Row::CallEmpty => Some(call(Tool::new(TOOL, DESCRIPTION, say), Around::Nothing, Some(ANSWER))),
        Row::CallWrite => Some(call(Tool::new(TOOL, DESCRIPTION, write), Around::Nothing, Some(ANSWER))),
        Row::CallLarge => Some(call(Tool::new(TOOL, DESCRIPTION, write), Around::Much, Some(ANSWER))),
        Row::CallFail => Some(call(Tool::new(TOOL, DESCRIPTION, fail), Around::Nothing, None)),
        Row::PolicyHistory => Some(history()),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Around {
    Nothing,
    Much,
}

fn call(tool: Tool<Args, String>, around: Around, expected: Option<&'static str>) -> Case {
    let executor = open(tool, around);
    let call = ToolCall::new("call_1", TOOL, ARGUMENTS);
    let outcome = poll_now(executor.call(call.clone()));
    assert_eq!(outcome.is_success().then(|| outcome.text().to_owned()), expected.map(str::to_owned));
    Box::new(move || {
        // A model's call arrives as text; taking it over is part of the work.
        let call = ToolCall::new(call.id.clone(), call.tool.clone(), black_box(ARGUMENTS));
        let _ = black_box(poll_now(executor.call(call)));
    })
}

fn history() -> Case {
    let executor = open(Tool::new(TOOL, DESCRIPTION, say), Around::Much);
    for _ in 0..1_000 {
        let outcome = poll_now(executor.call(ToolCall::new("call_1", TOOL, ARGUMENTS)));
        assert!(outcome.is_success());
    }
    let session = executor.session().clone();
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
    let template = PromptTemplate::builder("bench", "call").section(section).build();
    let prompt = template.unwrap_or_else(|error| unreachable!("{error}")).prompt();
    let session = Session::new();
    session.dispatcher().subscribe::<ToolInvoked>(|event, _| {
        black_box(event);
        Ok(())
    });
    let executor =
        poll_now(Executor::open(&prompt, &session)).unwrap_or_else(|error| unreachable!("{error}"));
    if around == Around::Much {
        fill(&executor);
    }
    executor
}

fn fill(executor: &Executor) {
    let session = executor.session();
    let first = poll_now(executor.call(ToolCall::new("call_0", TOOL, ARGUMENTS)));
    let event = ToolInvoked::clone(&first.event);
    // The log only grows, so it is filled by dispatching; the call above is its first event.
    for _ in 1..EVENTS {
        let dispatched = session.dispatch(event.clone());
        debug_assert!(dispatched.is_ok());
    }
    let items = (0..STATE_ITEMS).map(|line| Written { line: u32::try_from(line).unwrap_or(u32::MAX) });
    session.seed(items).unwrap_or_else(|error| unreachable!("{error}"));
    assert_eq!(session.slice::<ToolInvoked>().len(), EVENTS);
}

fn files(around: Around) -> Arc<dyn Filesystem> {
    let count = if around == Around::Much { FILES } else { 0 };
    let files =
        (0..count).map(|file| (format!("src/part_{}/file_{}.rs", file / 100, file % 100), "// text\n"));
    Arc::new(MemoryFilesystem::from_files(files).unwrap_or_else(|error| unreachable!("{error}")))
}
