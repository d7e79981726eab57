//! One executor: the same calls through the library, the command line and both forms of the server come to the same
//! answers, the same events and the same state.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use wink::executor::{CallOptions, ToolCall};
use wink_agent::Agent;
use wink_store::Workspace;

use crate::serve::{Client, Http, Pipes};
use crate::support::{Place, has_commands};

const AGENT: &str = r#"
[agent]
ns = "tests"
key = "one"

[[section]]
key = "work"
title = "Work"
body = "Work."
suites = ["files"]

[[section.tool]]
name = "greet"
description = "Greet somebody."
command = ["./greet"]
params = { type = "object", required = ["name"], properties = { name = { type = "string" } } }

[[section.tool]]
name = "wreck"
description = "Change much, and fail."
command = ["./wreck"]

[[section.tool]]
name = "slow"
description = "Take long."
command = ["./slow"]
timeout = "200ms"

[[section.tool]]
name = "pay"
description = "Pay an order."
command = ["./pay"]
params = { type = "object", required = ["order"], properties = { order = { type = "integer" } } }
idempotency = { strategy = "params", fields = ["order"] }

[[section.tool]]
name = "deploy"
description = "Deploy."
command = ["./greet"]

[[section.policy]]
sequential = { deploy = ["wreck"] }

[[section]]
key = "plan"
title = "Plan"
body = "Plan."
summary = "How to plan."
visibility = "summary"
suites = ["planning"]
"#;

fn place() -> Place {
    let place = Place::with_agent(AGENT);
    place.put("theirs.txt", "by hand\n");
    place.put_script("greet", "echo hello > greeting\necho \"Hello, $WINK_ARG_NAME!\"");
    place.put_script("wreck", "rm theirs.txt\nmkdir deep\necho x > deep/x\necho 'it broke'\nexit 3");
    place.put_script("slow", "echo x > half\nexec sleep 1000");
    place.put_script("pay", "echo \"$WINK_ARG_ORDER\" >> paid\necho \"paid $WINK_ARG_ORDER\"");
    place
}

fn calls() -> Vec<(&'static str, Value)> {
    vec![
        ("write_file", json!({ "path": "notes/a.txt", "content": "one\n" })),
        ("edit_file", json!({ "path": "notes/a.txt", "old_string": "one", "new_string": "two" })),
        ("greet", json!({ "name": "Ada" })),
        ("wreck", json!({})),
        ("deploy", json!({})),
        ("write_file", json!({ "path": "theirs.txt", "content": "x" })),
        ("no_such_tool", json!({})),
        ("greet", json!({ "nmae": 1 })),
        ("slow", json!({})),
        ("pay", json!({ "order": 7 })),
        ("pay", json!({ "order": 7 })),
        ("planning_read_plan", json!({})),
        ("open_sections", json!({ "section_keys": ["plan"], "reason": "to plan" })),
        ("planning_setup_plan", json!({ "objective": "tidy up", "initial_steps": ["look", "sweep"] })),
        ("planning_update_step", json!({ "step_id": 1, "status": "done" })),
        ("planning_read_plan", json!({})),
    ]
}

/// What came of it all.
#[derive(Debug, PartialEq)]
struct Came {
    answers: Vec<String>,
    events: Vec<Value>,
    files: BTreeMap<String, String>,
    tools: String,
}

fn came(place: &Place, answers: Vec<String>) -> Came {
    let mut events = place.rows(&["log"]);
    for event in &mut events {
        // What is another thing each time, or the caller's own.
        for name in ["call_id", "invocation_id", "time", "duration_ms"] {
            event.as_object_mut().unwrap().remove(name).unwrap();
        }
    }
    let mut files = BTreeMap::new();
    let mut todo = vec![place.root()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true if path.ends_with(".wink") => {}
                true => todo.push(path),
                false => {
                    let name = path.strip_prefix(place.root()).unwrap().to_str().unwrap().to_owned();
                    files.insert(name, std::fs::read_to_string(path).unwrap());
                }
            }
        }
    }
    Came { answers, events, files, tools: place.wink(&["tools", "--json"]).ok() }
}

fn by_library() -> Came {
    let place = place();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let answers = runtime.block_on(async {
        let agent = Agent::find(&place.root(), None).unwrap();
        let workspace = Arc::new(Workspace::open(place.root()).unwrap());
        let opened = agent.open(&workspace, "main").await.unwrap();
        let mut answers = Vec::new();
        for (number, (tool, arguments)) in calls().into_iter().enumerate() {
            let call = ToolCall::new(number.to_string(), tool, arguments.to_string());
            let outcome = opened.executor().drive(call, CallOptions::new()).await;
            answers.push(outcome.text().to_owned());
        }
        answers
    });
    came(&place, answers)
}

fn by_command_line() -> Came {
    let place = place();
    let answer = |(tool, arguments): (&str, Value)| {
        let said = place.wink(&["call", tool, &arguments.to_string()]);
        assert_eq!(said.err, "");
        said.out.strip_suffix('\n').unwrap().to_owned()
    };
    let answers = calls().into_iter().map(answer).collect();
    came(&place, answers)
}

fn by_stdio() -> Came {
    let place = place();
    let mut client = Pipes::start(&place);
    let answers = calls().iter().map(|(tool, arguments)| client.call(tool, arguments)).collect();
    assert_eq!(client.leave(), Some(0));
    came(&place, answers)
}

fn by_http() -> Came {
    let place = place();
    let mut client = Http::start(&place);
    client.shake_hands();
    let answers = calls().iter().map(|(tool, arguments)| client.call(tool, arguments)).collect();
    assert_eq!(client.end(), Some(0));
    came(&place, answers)
}

#[test]
fn every_surface_comes_to_the_same() {
    if !has_commands() {
        return;
    }
    let library = by_library();
    insta::assert_snapshot!("one_executor", library.answers.join("\n---\n"));
    let kinds: Vec<&str> =
        library.events.iter().map(|event| event["error"]["kind"].as_str().unwrap_or("succeeded")).collect();
    let expected = [
        "succeeded",
        "succeeded",
        "succeeded",
        "failed",
        "denied",
        "denied",
        "unavailable",
        "rejected",
        "timed_out",
        "succeeded",
        "succeeded",
        "unavailable",
        "expanded",
        "succeeded",
        "succeeded",
        "succeeded",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(library.files["theirs.txt"], "by hand\n");
    assert_eq!(library.files["paid"], "7\n");
    assert!(!library.files.contains_key("deep/x") && !library.files.contains_key("half"));
    for (surface, came) in [("command line", by_command_line()), ("stdio", by_stdio()), ("HTTP", by_http())] {
        assert_eq!(came.answers, library.answers, "{surface}");
        assert_eq!(came.events, library.events, "{surface}");
        assert_eq!(came.files, library.files, "{surface}");
        assert_eq!(came.tools, library.tools, "{surface}");
    }
}
