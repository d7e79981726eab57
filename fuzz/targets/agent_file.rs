//! Agent files as somebody may write them: reading one ends, everything that is wrong has its place in the text and says
//! something, and one that is accepted is the same agent when it is written anew and read again.

use serde_json::{Value, json};
use wink_agent::Agent;
use wink_mcp::Listing;

/// One input of the fuzzer, or of its corpus.
pub fn run(text: &str) {
    let agent = match Agent::parse(text, "wink.toml") {
        Ok(agent) => agent,
        Err(error) => {
            let lines: Vec<&str> = text.split('\n').collect();
            assert!(!error.problems().is_empty(), "nothing is wrong");
            let mut last = (1, 1);
            for problem in error.problems() {
                let line = lines.get(problem.line.wrapping_sub(1)).expect("a line of the text");
                assert!(problem.column >= 1 && problem.column <= line.chars().count() + 1, "{problem:?}");
                assert!((problem.line, problem.column) >= last, "out of order: {problem:?}");
                assert!(!problem.message.is_empty() && !problem.hint.is_empty(), "{problem:?}");
                last = (problem.line, problem.column);
            }
            return;
        }
    };
    let table: toml::Table = text.parse().expect("it was accepted");
    let written = toml::to_string(&table).expect("it was read");
    let again = match Agent::parse(&written, "wink.toml") {
        Ok(again) => again,
        Err(error) => panic!("written anew it is refused: {error}\n{written}"),
    };
    assert_eq!(seen(&again), seen(&agent));
}

/// What can be seen of an agent: its tools and the text of its prompt.
fn seen(agent: &Agent) -> Value {
    let session = wink::session::Session::new();
    let rendered = agent.prompt().render(&session).map(|rendered| rendered.text().to_owned());
    json!({
        "name": agent.name(),
        "tools": Listing::of(agent.prompt()).tools().collect::<Vec<_>>(),
        "prompt": rendered.map_err(|error| error.to_string()),
    })
}
