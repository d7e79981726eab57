//! The typed call that every contender makes: the same arguments, the same handler, the same number of tools.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tool that is called.
pub(super) const TOOL: &str = "write_file";
/// What its description says.
pub(super) const DESCRIPTION: &str = "Write a file.";
/// How many tools are registered, the called one among them.
const TOOLS: usize = 20;

/// Five fields, 170 bytes as JSON.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    pub(super) path: String,
    pub(super) content: String,
    pub(super) start_line: u32,
    pub(super) overwrite: bool,
    pub(super) tags: Vec<String>,
}

/// What the model sends. The content has quotes and line ends in it, so that decoding meets escapes as it does
/// with real code.
pub(super) const ARGUMENTS: &str = concat!(
    r#"{"path":"src/runtime/session/mod.rs","#,
    r#""content":"    let value_0 = compute(\"alpha\", 0);\n    let value_1 = com","#,
    r#""start_line":117,"overwrite":true,"tags":["edit","rust"]}"#
);
const _: () = assert!(ARGUMENTS.len() == 170);

/// The handler: all that it does is to say what it was asked.
pub(super) fn answer(args: &Args) -> String {
    format!(
        "Wrote {} bytes to {} at line {} (overwrite={}, {} tags).",
        args.content.len(),
        args.path,
        args.start_line,
        args.overwrite,
        args.tags.len()
    )
}

/// What [`answer`] says to [`ARGUMENTS`]; a contender that answers otherwise did other work.
pub(super) const ANSWER: &str =
    "Wrote 60 bytes to src/runtime/session/mod.rs at line 117 (overwrite=true, 2 tags).";

/// The names under which the other tools are registered.
pub(super) fn other_tools() -> impl Iterator<Item = String> {
    (1..TOOLS).map(|number| format!("other_tool_{number}"))
}

/// Drives a future that never has to wait, at no cost of its own.
pub(super) fn poll_now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a measured call works in memory and is ready at the first poll"),
    }
}
