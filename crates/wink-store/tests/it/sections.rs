//! Sections that one process opens are open for all that have the session.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test says what is broken by panicking")]

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use wink::executor::{CallOptions, Executor, ToolCall};
use wink::prelude::*;
use wink::session::Ending;
use wink_store::{SqliteStore, StoreOptions};

async fn nothing(_: (), _: &mut ToolContext) -> ToolResult<()> {
    ToolResult::done("done")
}

fn closed(key: &str) -> Section {
    Section::markdown(key, key)
        .body("All of it.")
        .summary("In short.")
        .visibility(Visibility::Summary)
        .tool(Tool::new(format!("use_{key}"), "Does nothing.", nothing))
}

/// What one process has.
async fn process(place: &Path) -> Executor {
    let store = Arc::new(SqliteStore::open(place, StoreOptions::default()).unwrap());
    let session = Session::builder().id("s").store(store).open().await.unwrap();
    let template = PromptTemplate::builder("tests", "disclosure")
        .section(Section::markdown("always", "Always").tool(Tool::new("act", "Does nothing.", nothing)))
        .section(closed("manual"))
        .section(closed("ops"))
        .section(closed("never"))
        .build()
        .unwrap();
    Executor::open(&template.prompt(), &session).await.unwrap()
}

async fn open_section(executor: &Executor, key: &str) {
    let arguments = json!({ "section_keys": [key], "reason": "to use it" }).to_string();
    let opened = executor.drive(ToolCall::new("open", "open_sections", arguments), CallOptions::new()).await;
    assert_eq!(opened.event.ending, Ending::Expanded, "{}", opened.text());
}

#[tokio::test]
async fn a_section_that_another_process_opens_is_open_here_too() {
    let place = TempDir::new().unwrap();
    let (here, there) = (process(place.path()).await, process(place.path()).await);
    let early = here.call(ToolCall::new("1", "use_manual", "{}")).await;
    assert_eq!(early.event.ending, Ending::Unavailable);
    assert!(early.text().contains("section manual is closed"), "{}", early.text());

    open_section(&there, "manual").await;
    // Looking at what a call would do is up to date, too, and changes nothing.
    assert!(here.dry_run(ToolCall::new("2", "use_manual", "{}")).await.would_run());
    let one = here.call(ToolCall::new("3", "use_manual", "{}")).await;
    assert!(one.is_success(), "{}", one.text());
    assert!(here.rendered().unwrap().text().contains("All of it."));

    open_section(&there, "ops").await;
    let tools = ["act", "use_ops", "use_never", "act"];
    let calls = tools.iter().enumerate().map(|(at, tool)| ToolCall::new(format!("b{at}"), *tool, "{}"));
    let outcomes = here.batch(calls.collect()).await;
    let endings: Vec<Ending> = outcomes.iter().map(|outcome| outcome.event.ending).collect();
    assert_eq!(endings, [Ending::Succeeded, Ending::Succeeded, Ending::Unavailable, Ending::Succeeded]);

    open_section(&there, "never").await;
    let caught_up = here.catch_up().await.unwrap();
    assert!(caught_up.closed_sections().is_empty(), "{:?}", caught_up.closed_sections());
    // Nothing is closed any more, there as here.
    let useless = here.call(ToolCall::new("4", "open_sections", "{}")).await;
    assert!(useless.text().contains("no section is closed"), "{}", useless.text());
}
