//! A small model in a real server calls a tool, held to a schema, streaming and not.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::Arc;

use wink::prelude::*;
use wink::session::ToolInvoked;
use wink_models::providers::{Endpoint, Streaming, openai};
use wink_models::{Adapter, Evaluation, ModelAdapter, Settings, Terms};

/// Adds two numbers.
#[tool]
async fn add(a: i64, b: i64) -> ToolResult<i64> {
    ToolResult::value(a + b)
}

#[tokio::test]
#[ignore = "needs a server with a model; scripts/local-model runs it"]
async fn a_small_model_calls_a_tool() {
    let server = std::env::var("WINK_LOCAL_SERVER").unwrap();
    let section = Section::markdown("sums", "Sums").body("Add numbers with the tool.").tool(add_tool());
    let prompt = PromptTemplate::builder("tests", "local").section(section).build().unwrap().prompt();
    for streaming in [Streaming::On, Streaming::Off] {
        let endpoint = Endpoint::new(format!("{server}/v1")).streaming(streaming);
        let model = openai::Chat::new("local")
            .tools(openai::ToolMode::Constrained)
            .length_field(openai::LengthField::MaxTokens)
            .at(endpoint)
            .unwrap();
        let settings =
            Settings { temperature: Some(0.0), max_output_tokens: Some(200), ..Settings::default() };
        // Whether it is done after the call, it does not always know.
        let terms = Terms { max_turns: 3, ..Terms::default() };
        let adapter = ModelAdapter::new(Arc::new(model)).settings(settings).terms(terms);
        let session = Session::new();
        let came =
            adapter.evaluate(&prompt, &session, Evaluation::new().task("What is 2 + 40? Call add.")).await;
        let calls = session.slice::<ToolInvoked>();
        let first =
            calls.iter().next().map(|call| (call.tool.to_string(), call.success, call.rendered.to_string()));
        assert_eq!(first, Some(("add".to_owned(), true, "42".to_owned())), "{came:?}");
        let end = came.as_ref().map_or_else(ToString::to_string, |response| response.text.to_string());
        println!("    {streaming:?}: it called add {} times and got 42; then: {end}", calls.len());
    }
}
