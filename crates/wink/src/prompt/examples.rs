//! How the examples of a section's tools look in its text.

use std::fmt::Write;

use super::placed::PlacedTool;
use crate::tool::ToolExample;

/// The examples of those tools that have some; none if no tool does.
pub(crate) fn text(tools: &[PlacedTool]) -> Option<String> {
    let mut out = String::new();
    for placed in tools {
        let contract = placed.tool.contract();
        if contract.examples().is_empty() {
            continue;
        }
        if !out.is_empty() {
            out.push_str("\n\n");
        }
        // Writing to a string does not fail.
        let _ = writeln!(out, "Examples of `{}`:", contract.name());
        for example in contract.examples() {
            let _ = write!(out, "\n- {}", example.description);
            call(&mut out, example);
        }
    }
    (!out.is_empty()).then_some(out)
}

/// What was sent, and what came back.
pub(crate) fn call(out: &mut String, example: &ToolExample) {
    line(out, "call", &example.input.to_string());
    line(out, "result", &example.rendered);
}

/// One line if the text is one, else a fenced block that the text cannot end.
fn line(out: &mut String, what: &str, text: &str) {
    let _ = match text {
        "" => write!(out, "\n  {what}: (empty)"),
        one if !one.contains(['\n', '\r', '`']) => write!(out, "\n  {what}: `{one}`"),
        several => {
            let fence = "`".repeat(longest_run(several).max(2) + 1);
            let block = several.lines().fold(String::new(), |block, line| block + "\n  " + line);
            write!(out, "\n  {what}:\n  {fence}{block}\n  {fence}")
        }
    };
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}
