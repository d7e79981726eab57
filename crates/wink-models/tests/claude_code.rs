//! The real program `claude`, with a server of the Messages API on loopback: `./test clients` gets the program, and says with
//! `CLAUDE_PROGRAM` where it is.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

#[path = "support/claude_subject.rs"]
mod claude_subject;
#[path = "support/messages.rs"]
mod messages;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use claude_subject::DIFFERS;
use messages::{Answer, Messages, Reply};
use serde_json::{Value, json};
use wink::limits::{CancelToken, TokenUsage};
use wink::policy::{Decision, policy_fn};
use wink::prelude::*;
use wink::prompt::Output;
use wink::resource::{Binding, ResourceRegistry};
use wink::session::{Ending, ToolInvoked};
use wink::transaction::{UndoForce, UndoReach, UndoRequest};
use wink_models::claude::{ClaudeAdapter, Native, native_tools};
use wink_models::conversation::RetriesExhausted;
use wink_models::testing::{Arguments, Differs, Line, Running, Script, Setup, Subject, adapter_contract};
use wink_models::{
    Adapter, Evaluation, ModelErrorKind, PromptResponse, RetryPolicy, Secret, Stop, StopReason, Stopped,
    Terms,
};
use wink_store::Workspace;

const KEY: &str = "sk-a-key-that-nobody-sees";

#[data]
struct Name {
    name: String,
}

async fn greet(params: Name, _: &mut ToolContext) -> ToolResult<String> {
    ToolResult::value(format!("Hello, {}!", params.name))
}

fn prompt(workspace: &Workspace, natives: &[Native]) -> Prompt {
    let own = Section::markdown("own", "Own")
        .body("Greet with the tool.")
        .tool(Tool::new("greet", "Greets somebody.", greet))
        .tool(Tool::new("shout", "Is denied.", greet));
    let closed = Section::markdown("closed", "Closed")
        .body("Whisper, too.")
        .summary("More.")
        .visibility(Visibility::Summary)
        .tool(Tool::new("whisper", "Whispers.", greet));
    let rules = policy_fn("rules", |call, _| match &**call.tool.name() {
        "shout" => Decision::deny("not so loud"),
        "claude_write" => Decision::deny("write nothing new"),
        _ => Decision::Allow,
    });
    let natives = native_tools(natives.iter().copied()).resources(workspace.resources());
    let builder = PromptTemplate::builder("tests", "claude").section(own).section(closed).section(natives);
    builder.policy(rules).build().unwrap().prompt()
}

fn adapter(messages: &Messages) -> ClaudeAdapter {
    ClaudeAdapter::new("scripted")
        .program(
            std::env::var_os("CLAUDE_PROGRAM")
                .unwrap_or_else(|| panic!("CLAUDE_PROGRAM says where the program is")),
        )
        .env("ANTHROPIC_BASE_URL", &messages.url)
        .secret("ANTHROPIC_API_KEY", Secret::new(KEY.to_owned()))
        .unwrap()
        .terms(Terms {
            max_turns: 20,
            retry: RetryPolicy { max_attempts: 2, ..RetryPolicy::default() },
            ..Terms::default()
        })
}

fn call(id: &str, name: &str, input: Value) -> Value {
    json!({ "type": "tool_use", "id": id, "name": name, "input": input })
}

fn says(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// A workspace with one file, in a directory of its own.
fn workspace() -> (tempfile::TempDir, Workspace) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "one\ntwo\n").unwrap();
    let workspace = Workspace::open(dir.path()).unwrap();
    (dir, workspace)
}

struct World {
    dir: tempfile::TempDir,
    workspace: Workspace,
    session: Session,
    messages: Messages,
}

impl World {
    async fn new(script: impl Fn(&Path, &Value, usize) -> Answer + Send + Sync + 'static) -> Self {
        let (dir, workspace) = workspace();
        let session = workspace.session("run").open().await.unwrap();
        let root = dir.path().canonicalize().unwrap();
        let messages = Messages::start(move |request, turn| script(&root, request, turn));
        Self { dir, workspace, session, messages }
    }

    async fn run(&self, natives: &[Native], evaluation: Evaluation) -> Result<PromptResponse, Stopped> {
        self.run_by(adapter(&self.messages), natives, evaluation).await
    }

    async fn run_by(
        &self,
        adapter: ClaudeAdapter,
        natives: &[Native],
        evaluation: Evaluation,
    ) -> Result<PromptResponse, Stopped> {
        let prompt = prompt(&self.workspace, natives);
        let came = adapter.evaluate(&prompt, &self.session, evaluation).await;
        self.session.flush().await.unwrap();
        self.nothing_is_left();
        came
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.dir.path().join(name)).ok()
    }

    /// Of each call: tool, whether it succeeded, and how it ended.
    fn log(&self) -> Vec<(String, Ending)> {
        let events = self.session.slice::<ToolInvoked>();
        events.iter().map(|event| (event.tool.to_string(), event.ending)).collect()
    }

    /// No process of the program's, and no secret.
    fn nothing_is_left(&self) {
        let root = self.dir.path().canonicalize().unwrap();
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            assert_ne!(
                std::fs::read_link(process.path().join("cwd")).ok(),
                Some(root.clone()),
                "{process:?}"
            );
        }
        let events: Vec<_> =
            self.session.slice::<ToolInvoked>().iter().map(|event| format!("{event:?}")).collect();
        assert!(!events.join("\n").contains(KEY));
    }

    /// What the model was told of calls, in the last request.
    fn told(&self) -> Vec<(String, bool)> {
        let last = self.messages.last();
        let blocks =
            last["messages"].as_array().unwrap().iter().filter_map(|message| message["content"].as_array());
        let results = blocks.flatten().filter(|block| block["type"] == "tool_result");
        let text = |content: &Value| match content {
            Value::String(text) => text.clone(),
            blocks => {
                blocks.as_array().unwrap().iter().map(|block| block["text"].as_str().unwrap()).collect()
            }
        };
        results.map(|block| (text(&block["content"]), block["is_error"] == json!(true))).collect()
    }
}

// cases 207, 211
#[tokio::test(flavor = "multi_thread")]
async fn tools_of_both_kinds_are_one_log_and_one_workspace() {
    let world = World::new(|root, _, turn| {
        let a = root.join("a.txt");
        let edit =
            |id, old, new| call(id, "Edit", json!({ "file_path": a, "old_string": old, "new_string": new }));
        Ok(vec![match turn {
            0 => call("t0", "mcp__wink__greet", json!({ "name": "Ada" })),
            1 => call("t1", "mcp__wink__shout", json!({ "name": "Ada" })),
            2 => call("t2", "Read", json!({ "file_path": a })),
            3 => edit("t3", "one", "ONE"),
            // The program sees the file as it left it.
            4 => edit("t4", "two", "TWO"),
            5 => call("t5", "Write", json!({ "file_path": root.join("b.txt"), "content": "b" })),
            6 => {
                call("t6", "Bash", json!({ "command": "echo broken > a.txt; echo new > c.txt; env; exit 3" }))
            }
            7 => call("t7", "Bash", json!({ "command": "mkdir d && echo made > d/e.txt; rm -f nothing" })),
            _ => says("Done."),
        }])
    })
    .await;
    let natives = [Native::Read, Native::Edit, Native::Write, Native::Bash];
    let response = world.run(&natives, Evaluation::new().task("Go.")).await.unwrap();
    assert_eq!(&*response.text, "Done.");
    let stats = response.stats;
    assert_eq!((stats.turns, stats.calls, stats.rolled_back, stats.denied), (9, 8, 1, 2));
    assert_eq!(stats.usage, TokenUsage::new(90, 45));
    assert_eq!(
        world.log(),
        [
            ("greet", Ending::Succeeded),
            ("shout", Ending::Denied),
            ("claude_read", Ending::Succeeded),
            ("claude_edit", Ending::Succeeded),
            ("claude_edit", Ending::Succeeded),
            ("claude_write", Ending::Denied),
            ("claude_bash", Ending::Failed),
            ("claude_bash", Ending::Succeeded),
        ]
        .map(|(tool, ending)| (tool.to_owned(), ending))
    );
    assert_eq!(world.read("a.txt").as_deref(), Some("ONE\nTWO\n"));
    assert_eq!((world.read("b.txt"), world.read("c.txt")), (None, None));
    assert_eq!(world.read("d/e.txt").as_deref(), Some("made\n"));
    let told = world.told();
    assert_eq!(told[0], ("Hello, Ada!".to_owned(), false));
    assert_eq!(told[1], ("not so loud".to_owned(), true));
    assert!(told[5].1 && told[5].0.contains("write nothing new"), "{told:?}");
    assert!(world.messages.last().to_string().contains("What this call changed in the workspace is undone."));

    // What a tool of the program's did is undone like anything else.
    let edit = world.session.slice::<ToolInvoked>().iter().find(|event| &*event.call_id == "t4").unwrap().id;
    let request = UndoRequest { call: edit, reach: UndoReach::Call, force: UndoForce::Refuse };
    world.workspace.undo(&world.session, request).await.unwrap();
    assert_eq!(world.read("a.txt").as_deref(), Some("ONE\ntwo\n"));
}

// cases 225, 240b
#[tokio::test(flavor = "multi_thread")]
async fn the_tools_of_a_section_that_was_opened_can_be_called() {
    let world = World::new(|_, _, turn| {
        Ok(vec![match turn {
            0 => call(
                "t0",
                "mcp__wink__open_sections",
                json!({ "section_keys": ["closed"], "reason": "to know" }),
            ),
            1 => call("t1", "mcp__wink__whisper", json!({ "name": "Ada" })),
            _ => says("Done."),
        }])
    })
    .await;
    world.run(&[], Evaluation::new()).await.unwrap();
    let told = world.told();
    assert!(told[0].0.contains("Whisper, too.") && !told[0].1, "{told:?}");
    assert_eq!(told[1], ("Hello, Ada!".to_owned(), false));
}

#[data]
#[derive(Debug, PartialEq)]
struct Verdict {
    guilty: bool,
}

// case 207
#[tokio::test(flavor = "multi_thread")]
async fn a_typed_result_is_of_its_type() {
    let messages = Messages::start(|_, turn| {
        let input = if turn == 0 { json!({ "guilty": "perhaps" }) } else { json!({ "guilty": false }) };
        Ok(vec![call(&format!("t{turn}"), "StructuredOutput", input)])
    });
    let section = Section::markdown("task", "Task").body("Decide.");
    let builder =
        PromptTemplate::builder("tests", "court").section(section).output(Output::object::<Verdict>());
    let prompt = builder.build().unwrap().prompt();
    let response = adapter(&messages).evaluate(&prompt, &Session::new(), Evaluation::new()).await.unwrap();
    assert_eq!(response.output::<Verdict>(), Some(Verdict { guilty: false }));
    assert_eq!((response.stats.turns, response.stats.calls), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn sub_agents_at_the_same_time_take_turns() {
    let world = World::new(|_, request, turn| {
        let first = request["messages"][0].to_string();
        let agent = |id, task| {
            call(
                id,
                "Agent",
                json!({ "description": task, "prompt": task, "subagent_type": "general-purpose" }),
            )
        };
        let work = |id: &str, file: &str| {
            call(id, "Bash", json!({ "command": format!("cat *.txt | wc -l; echo x > {file}") }))
        };
        Ok(match (first.contains("TASK A"), first.contains("TASK B"), turn) {
            (true, _, 0) => vec![work("a0", "b.txt"), work("a1", "c.txt")],
            (_, true, 0) => vec![work("b0", "d.txt"), work("b1", "e.txt")],
            (true, _, _) | (_, true, _) => vec![says("It is done.")],
            (_, _, 0) => vec![agent("s0", "TASK A"), agent("s1", "TASK B")],
            _ => vec![says("Done.")],
        })
    })
    .await;
    let response = world.run(&[Native::Agent, Native::Bash], Evaluation::new().task("Go.")).await.unwrap();
    assert_eq!(&*response.text, "Done.");
    let mut log = world.log();
    log.sort_by(|one, other| one.0.cmp(&other.0));
    let succeeded = |tool: &str| (tool.to_owned(), Ending::Succeeded);
    assert_eq!(log[..2], [succeeded("claude_agent"), succeeded("claude_agent")]);
    assert_eq!(
        log[2..],
        [
            succeeded("claude_bash"),
            succeeded("claude_bash"),
            succeeded("claude_bash"),
            succeeded("claude_bash")
        ]
    );
    for file in ["b.txt", "c.txt", "d.txt", "e.txt"] {
        assert_eq!(world.read(file).as_deref(), Some("x\n"));
    }
    assert_eq!((response.stats.turns, response.stats.calls), (2, 6));
}

// case 210
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_never_ends_is_stopped() {
    let world = World::new(|_, _, turn| {
        Ok(vec![call(&format!("t{turn}"), "mcp__wink__greet", json!({ "name": "Ada" }))])
    })
    .await;
    let stopped = world.run(&[], Evaluation::new().task("Go.")).await.unwrap_err();
    assert_eq!(stopped.reason, StopReason::TurnCap { max_turns: 20 });
    assert_eq!((stopped.stats.turns, stopped.stats.calls), (20, 20));
}

// case 205
#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_fails_is_told_by_kind() {
    for (status, error, kind) in [
        (401, "authentication_error", ModelErrorKind::Unauthorized),
        (400, "invalid_request_error", ModelErrorKind::Rejected),
        (429, "rate_limit_error", ModelErrorKind::Throttled),
        (529, "overloaded_error", ModelErrorKind::Unavailable),
    ] {
        let world = World::new(move |_, _, _| Err((status, error))).await;
        let found = match world.run(&[], Evaluation::new().task("Go.")).await.unwrap_err().reason {
            StopReason::Request(error) => error.kind,
            StopReason::Retries(RetriesExhausted::Attempts { attempts: 2, last }) => last.kind,
            other => panic!("{other:?}"),
        };
        assert_eq!(found, kind);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_dies_has_changed_nothing() {
    let world = World::new(|_, _, turn| {
        Ok(vec![match turn {
            0 => call("t0", "Bash", json!({ "command": "echo kept > kept.txt" })),
            _ => call(
                "t1",
                "Bash",
                json!({ "command": "echo broken > a.txt; kill -9 $PPID; sleep 5; echo late > late.txt" }),
            ),
        }])
    })
    .await;
    let stopped = world.run(&[Native::Bash], Evaluation::new().task("Go.")).await.unwrap_err();
    let StopReason::Request(error) = &stopped.reason else { panic!("{stopped:?}") };
    assert_eq!(error.kind, ModelErrorKind::Unavailable);
    assert!(!stopped.to_string().contains(KEY));
    let ended = [Ending::Succeeded, Ending::Errored].map(|ending| ("claude_bash".to_owned(), ending));
    assert_eq!(world.log(), ended);
    assert_eq!(world.read("a.txt").as_deref(), Some("one\ntwo\n"));
    assert_eq!((world.read("kept.txt").as_deref(), world.read("late.txt")), (Some("kept\n"), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_leaves_nothing_behind() {
    let world = World::new(|_, _, _| {
        let command = "echo broken > a.txt; (setsid sh -c 'sleep 300; echo late > late.txt' &); touch began; \
                       while true; do sleep 1; done";
        Ok(vec![call("t0", "Bash", json!({ "command": command, "timeout": 300_000 }))])
    })
    .await;
    let cancel = CancelToken::new();
    let evaluation = Evaluation::new().task("Go.").cancel(cancel.clone());
    let began = async {
        while world.read("began").is_none() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let natives = [Native::Bash];
    let (came, ()) = tokio::join!(world.run(&natives, evaluation), began);
    assert_eq!(came.unwrap_err().reason, StopReason::Cancelled);
    assert_eq!(world.log(), [("claude_bash".to_owned(), Ending::Cancelled)]);
    assert_eq!(world.read("a.txt").as_deref(), Some("one\ntwo\n"));
    assert_eq!((world.read("began"), world.read("late.txt")), (None, None));
}

/// The real program, and somebody who stands behind it: when it says that a tool has run, this is done before we hear of it.
fn watched(adapter: ClaudeAdapter, dir: &Path, what: &str) -> ClaudeAdapter {
    let real = std::env::var("CLAUDE_PROGRAM").unwrap();
    let program = dir.join("watched");
    let filter = format!(
        "while IFS= read -r line; do case $line in *'\"hook_event_name\":\"PostToolUse\"'*) {what} ;; esac; printf '%s\\n' \"$line\"; done"
    );
    std::fs::write(&program, format!("#!/bin/sh\n'{real}' \"$@\" | {filter}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    adapter.program(program)
}

/// Reads a file and edits it, and is done.
fn edits(root: &Path, turn: usize) -> Answer {
    let a = root.join("a.txt");
    Ok(vec![match turn {
        0 => call("t0", "Read", json!({ "file_path": a })),
        1 => call("t1", "Edit", json!({ "file_path": a, "old_string": "one", "new_string": "ONE" })),
        _ => says("Done."),
    }])
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_was_made_and_fails_then_is_rolled_back() {
    let (beside, world) = (tempfile::tempdir().unwrap(), World::new(|root, _, turn| edits(root, turn)).await);
    let seen = beside.path().join("seen");
    let adapter =
        watched(adapter(&world.messages), beside.path(), &format!("cat a.txt >> '{}'", seen.display()));
    // What it left there is not taken over.
    let files = world.workspace.files().guarding([PathBuf::from("a.txt")]).unwrap();
    let files = ResourceRegistry::of([Binding::filesystem(Arc::new(files))]).unwrap();
    let evaluation = Evaluation::new().task("Go.").resources(files);
    let response = world.run_by(adapter, &[Native::Read, Native::Edit], evaluation).await.unwrap();
    assert_eq!((&*response.text, response.stats.rolled_back), ("Done.", 1));
    // After it was read, and after it was edited.
    assert_eq!(std::fs::read_to_string(seen).unwrap(), "one\ntwo\nONE\ntwo\n");
    assert_eq!(world.read("a.txt").as_deref(), Some("one\ntwo\n"));
    let ended = [("claude_read", Ending::Succeeded), ("claude_edit", Ending::Errored)];
    assert_eq!(world.log(), ended.map(|(tool, ending)| (tool.to_owned(), ending)));
    assert!(world.messages.last().to_string().contains("What this call changed in the workspace is undone."));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edit_that_was_made_when_the_run_is_cancelled_is_rolled_back() {
    let (beside, world) = (tempfile::tempdir().unwrap(), World::new(|root, _, turn| edits(root, turn)).await);
    let (seen, never) = (beside.path().join("seen"), beside.path().join("never"));
    assert!(std::process::Command::new("mkfifo").arg(&never).status().unwrap().success());
    let what = format!(
        "case $line in *'\"tool_name\":\"Edit\"'*) cat a.txt > '{0}.part'; mv '{0}.part' '{0}'; read -r nothing < '{1}' ;; esac",
        seen.display(),
        never.display()
    );
    let adapter = watched(adapter(&world.messages), beside.path(), &what);
    let cancel = CancelToken::new();
    let evaluation = Evaluation::new().task("Go.").cancel(cancel.clone());
    let began = async {
        while !seen.exists() {
            tokio::task::yield_now().await;
        }
        assert_eq!(world.read("a.txt").as_deref(), Some("ONE\ntwo\n"));
        cancel.cancel();
    };
    let natives = [Native::Read, Native::Edit];
    let (came, ()) = tokio::join!(world.run_by(adapter, &natives, evaluation), began);
    assert_eq!(came.unwrap_err().reason, StopReason::Cancelled);
    assert_eq!(std::fs::read_to_string(seen).unwrap(), "ONE\ntwo\n");
    assert_eq!(world.read("a.txt").as_deref(), Some("one\ntwo\n"));
    let ended = [("claude_read", Ending::Succeeded), ("claude_edit", Ending::Cancelled)];
    assert_eq!(world.log(), ended.map(|(tool, ending)| (tool.to_owned(), ending)));
}

/// The real program, in front of a model that follows a script.
struct Real;

impl Subject for Real {
    fn name(&self) -> String {
        "claude, the real one".to_owned()
    }

    fn arguments(&self) -> Arguments {
        Arguments::Rewritten
    }

    fn differs(&self) -> &[Differs] {
        DIFFERS
    }

    fn start<'a>(&'a self, script: &'a Script, setup: Setup) -> wink::BoxFuture<'a, Box<dyn Running>> {
        let (lines, said) = (script.lines.clone(), AtomicUsize::new(0));
        let messages = Messages::start(move |request, _| {
            let at = said.load(Ordering::SeqCst);
            // Who is told that the key is wrong asks once more, and who is told that there is too much asks for less.
            if !matches!(lines.get(at), Some(Line::Unauthorized | Line::TooLong)) {
                said.store(at + 1, Ordering::SeqCst);
            }
            reply(request, lines.get(at), at)
        });
        let adapter = claude_subject::adapter(setup)
            .program(std::env::var_os("CLAUDE_PROGRAM").unwrap())
            .env("ANTHROPIC_BASE_URL", &messages.url)
            .secret("ANTHROPIC_API_KEY", Secret::new(KEY.to_owned()))
            .unwrap();
        Box::pin(std::future::ready(Box::new(Started(adapter)) as Box<dyn Running>))
    }
}

struct Started(ClaudeAdapter);

impl Running for Started {
    fn adapter(&self) -> &dyn Adapter {
        &self.0
    }
}

/// What the provider says to a line of a script. A typed result is handed over by a tool of the program's.
fn reply(request: &Value, line: Option<&Line>, at: usize) -> Reply {
    let response = match line {
        Some(Line::Says(response)) => response,
        Some(Line::Throttled { .. }) => return Reply::Error(429, "rate_limit_error", "slow"),
        Some(Line::Overloaded) => return Reply::Error(529, "overloaded_error", "full"),
        Some(Line::Gone) => return Reply::Gone,
        Some(Line::Unauthorized) => return Reply::Error(401, "authentication_error", "invalid x-api-key"),
        Some(Line::TooLong) => {
            let text = "prompt is too long: 300000 tokens > 200000 maximum";
            return Reply::Error(400, "invalid_request_error", text);
        }
        Some(Line::Silent) | None => return Reply::Silent,
    };
    let has_output = request["tools"]
        .as_array()
        .is_some_and(|tools| tools.iter().any(|tool| tool["name"] == "StructuredOutput"));
    let mut blocks = Vec::new();
    match serde_json::from_str::<Value>(&response.text) {
        Ok(output) if has_output && response.calls.is_empty() => {
            blocks.push(call(&format!("toolu_output_{at}"), "StructuredOutput", output));
        }
        _ if response.text.is_empty() => {}
        _ => blocks.push(says(&response.text)),
    }
    for made in &response.calls {
        let name = format!("mcp__wink__{}", made.name);
        blocks.push(call(&made.id, &name, made.arguments.to_string().into()));
    }
    let stop = match response.stop {
        Stop::Truncated => Some("max_tokens"),
        Stop::Refused => Some("refusal"),
        Stop::Complete | Stop::Paused | Stop::Formless => None,
    };
    let TokenUsage { input_tokens, output_tokens, cached_tokens } = response.usage;
    let usage = json!({
        "input_tokens": input_tokens - cached_tokens, "cache_read_input_tokens": cached_tokens, "output_tokens": output_tokens,
    });
    Reply::Message { blocks, stop, usage }
}

// case 211
#[tokio::test]
async fn every_scenario_comes_to_the_same_session() {
    adapter_contract(&Real).await;
}

#[tokio::test]
async fn what_it_refuses_by_itself_is_in_the_log_and_its_commands_have_no_key() {
    let world = World::new(|root, _, turn| {
        let file = root.join("a.txt");
        Ok(match turn {
            0 => vec![
                call("1", "Edit", json!({ "file_path": file, "old_string": "nowhere", "new_string": "x" })),
                call("2", "mcp__wink__nothing", json!({})),
            ],
            1 => vec![call("3", "Bash", json!({ "command": "echo key=${ANTHROPIC_API_KEY:-none}" }))],
            _ => vec![says("Done.")],
        })
    })
    .await;
    let response = world.run(&[Native::Edit, Native::Bash], Evaluation::new().task("Go.")).await.unwrap();
    assert_eq!(&*response.text, "Done.");
    let mut log = world.log();
    log.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(
        log,
        [
            ("claude_bash".to_owned(), Ending::Succeeded),
            ("claude_edit".to_owned(), Ending::Errored),
            ("nothing".to_owned(), Ending::Unavailable)
        ]
    );
    assert_eq!(world.read("a.txt").as_deref(), Some("one\ntwo\n"));
    let told = world.messages.last()["messages"].to_string();
    assert!(told.contains("key=none") && !told.contains(KEY), "{told}");
}
