//! The floor: the least that each row can cost, written as one would write it by hand.
//!
//! A call is a lookup among twenty tools, a typed decode, a boxed async call and a formatted answer. Nothing is
//! checked, isolated, recorded or bounded.

use std::collections::HashMap;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;

use super::typed_call::{ANSWER, ARGUMENTS, Args, TOOL, answer, other_tools, poll_now};
use super::{Case, Row};

pub(super) fn make(row: Row) -> Option<Case> {
    match row {
        Row::CallEmpty => Some(calls(Plain, Ok(ANSWER))),
        // More state does not make the hand-written call dearer, so the large row has the floor of the small one.
        Row::CallWrite | Row::CallLarge => Some(calls(Writing, Ok(ANSWER))),
        Row::CallFail => Some(calls(Failing, Err(FAILURE))),
        Row::PolicyHistory => Some(history()),
        _ => None,
    }
}

type Answer = Result<String, String>;

trait Tool: Send + Sync {
    fn call<'a>(
        &'a self,
        arguments: &'a str,
        state: &'a mut State,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;
}

/// What a writing call changes, in the plainest form that can hold it.
#[derive(Default)]
struct State {
    events: Vec<Written>,
    files: HashMap<String, String>,
}

/// The one event of a writing call.
struct Written {
    _path: String,
    _bytes: usize,
}

struct Plain;

impl Tool for Plain {
    fn call<'a>(
        &'a self,
        arguments: &'a str,
        _state: &'a mut State,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(async move { plain(decode(arguments)?).await })
    }
}

async fn plain(args: Args) -> Answer {
    Ok(answer(&args))
}

/// The plain call, and on top of it a push of one event onto a `Vec` and an insert of one small file into a
/// `HashMap`. The file is there from the second call on, so the insert replaces it, as an agent's edits do.
struct Writing;

impl Tool for Writing {
    fn call<'a>(
        &'a self,
        arguments: &'a str,
        state: &'a mut State,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(async move { writing(decode(arguments)?, state).await })
    }
}

async fn writing(args: Args, state: &mut State) -> Answer {
    let text = answer(&args);
    state.events.push(Written { _path: args.path.clone(), _bytes: args.content.len() });
    state.files.insert(args.path, args.content);
    Ok(text)
}

/// The writing call, which then fails and takes both writes back by hand.
struct Failing;

const FAILURE: &str = "Line 117 is past the end of src/runtime/session/mod.rs.";

impl Tool for Failing {
    fn call<'a>(
        &'a self,
        arguments: &'a str,
        state: &'a mut State,
    ) -> Pin<Box<dyn Future<Output = Answer> + Send + 'a>> {
        Box::pin(async move { failing(decode(arguments)?, state).await })
    }
}

async fn failing(args: Args, state: &mut State) -> Answer {
    let failure = format!("Line {} is past the end of {}.", args.start_line, args.path);
    state.events.push(Written { _path: args.path.clone(), _bytes: args.content.len() });
    let before = state.files.insert(args.path.clone(), args.content);

    state.events.pop();
    match before {
        Some(content) => state.files.insert(args.path, content),
        None => state.files.remove(&args.path),
    };
    Err(failure)
}

fn decode(arguments: &str) -> Result<Args, String> {
    serde_json::from_str(arguments).map_err(|error| error.to_string())
}

fn calls(tool: impl Tool + 'static, expected: Result<&str, &str>) -> Case {
    let tool: Arc<dyn Tool> = Arc::new(tool);
    let mut tools: HashMap<String, Arc<dyn Tool>> =
        other_tools().map(|name| (name, Arc::clone(&tool))).collect();
    tools.insert(TOOL.to_owned(), tool);

    let mut state = State::default();
    let mut call = move || {
        let tool = tools.get(black_box(TOOL))?;
        Some(poll_now(tool.call(black_box(ARGUMENTS), &mut state)))
    };
    let answered = call();
    assert_eq!(answered.as_ref().map(|answer| answer.as_deref().map_err(String::as_str)), Some(expected));
    Box::new(move || {
        black_box(call());
    })
}

/// A history question needs at least one lookup of a count that somebody kept.
fn history() -> Case {
    let mut calls: HashMap<String, u64> = other_tools().map(|name| (name, 1)).collect();
    calls.insert(TOOL.to_owned(), 1_000_000);
    Box::new(move || {
        black_box(calls.get(black_box(TOOL)));
    })
}
