//! The adapter, with a peer in place of the program that says what a test wants said.

mod calls;
mod limits;
mod natives;
mod property;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use wink::filesystem::host::{HostFilesystem, HostOptions};
use wink::policy::{Decision, policy_fn};
use wink::prelude::*;
use wink::prompt::PromptTemplateBuilder;
use wink::resource::Binding;
use wink::session::{Ending, ToolInvoked};
use wink::tool::AdapterInfo;

use super::native::{Native, Pending, native_tools};
use super::pipes::{Lines, Writer};
use super::serve::{Server, Setup};
use crate::Secret;
use crate::adapter::Evaluation;
use crate::base::Base;
use crate::conversation::{Completed, ConversationStep, RunStats, Said, StopReason, Terms};
use crate::recording::Scrubber;

/// Is in what the program says, and must be nowhere else.
const SECRET: &str = "hush-hush-123";

#[data]
#[derive(Debug, Clone, PartialEq)]
struct Note {
    text: String,
}
impl SliceType for Note {
    const NAME: &'static str = "note";
}

async fn note(params: Note, _: &mut ToolContext) -> ToolResult<Note> {
    ToolResult::ok(params, "noted")
}

async fn fail(params: Note, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(params)?;
    Ok(ToolResult::error("no"))
}

async fn hang(_: Note, _: &mut ToolContext) -> ToolResult<()> {
    std::future::pending().await
}

/// A workspace on disk, a prompt with tools of both kinds, and a session.
struct World {
    dir: tempfile::TempDir,
    prompt: Prompt,
    session: Session,
    terms: Terms,
}

impl World {
    fn new() -> Self {
        Self::with(|template| template.build().unwrap().prompt())
    }

    fn with(prompt: impl FnOnce(PromptTemplateBuilder) -> Prompt) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.txt"), "one\n").unwrap();
        let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
        let tools = Section::markdown("tools", "Tools")
            .body("Use them.")
            .tool(Tool::new("note", "Notes.", note).publishes().example(
                "A note.",
                Note { text: "a".into() },
                Note { text: "a".into() },
            ))
            .tool(Tool::new("fail", "Fails.", fail))
            .tool(Tool::new("hang", "Never ends.", hang))
            .tool(Tool::new("shout", "Is denied.", note));
        let closed = Section::markdown("closed", "Closed")
            .body("There is more.")
            .summary("More.")
            .visibility(Visibility::Summary)
            .tool(Tool::new("more", "Notes more.", note).publishes());
        let rules = policy_fn("rules", |call, _| match &**call.tool.name() {
            "shout" => Decision::deny("not so loud"),
            "claude_write" => Decision::deny("write nothing new"),
            _ => Decision::Allow,
        });
        let natives = native_tools(Native::ALL).resource(Binding::filesystem(Arc::new(files)));
        let builder =
            PromptTemplate::builder("tests", "claude").section(tools).section(closed).section(natives);
        let prompt = prompt(builder.policy(rules));
        Self { dir, prompt, session: Session::new(), terms: Terms::default() }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    fn path(&self, name: &str) -> String {
        self.root().join(name).to_str().unwrap().to_owned()
    }

    fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.dir.path().join(name)).ok()
    }

    /// Runs with a peer in place of the program.
    async fn run<T>(
        &self,
        mut evaluation: Evaluation,
        script: impl AsyncFnOnce(Peer) -> T,
    ) -> (Result<Completed, StopReason>, RunStats, T) {
        let base = Base { terms: self.terms.clone(), ..Base::default() };
        let known = base.conversation(&self.session, &mut evaluation).await;
        let (conversation, began, _held) = known.unwrap();
        let pending = Pending::new(Arc::default());
        let adapter = AdapterInfo::new("claude").utility(Arc::clone(&pending.0));
        let executor = base.open(adapter, &self.prompt, &self.session, &mut evaluation).await.unwrap();
        pending.0.track(&executor);
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(ours);
        let ground = evaluation.ground(&self.prompt, &executor);
        ground.keep(&conversation, began.unwrap(), None).await.unwrap();
        let setup = Setup {
            talk: None,
            ground,
            conversation,
            terms: self.terms.clone(),
            task: evaluation.task.clone(),
            workspace: Some(self.root()),
            scrubber: Scrubber::new().knowing(&Secret::new(SECRET.to_owned())).unwrap(),
            pending,
        };
        let server = Server::new(setup, Lines::new(read), Writer::new(write, None), None);
        let ((ended, stats), said) = tokio::join!(server.run(), script(Peer::new(theirs)));
        (ended, stats, said)
    }

    /// Of each call: its id, and how it ended.
    fn log(&self) -> Vec<(String, Ending)> {
        let events = self.session.slice::<ToolInvoked>();
        events.iter().map(|event| (event.call_id.to_string(), event.ending)).collect()
    }

    /// The calls of each response that is kept.
    fn steps(&self) -> Vec<Vec<String>> {
        let steps = self.session.slice::<ConversationStep>();
        let calls = |step: &ConversationStep| match &step.said {
            Said::Responded(response) => {
                Some(response.calls.iter().map(|call| call.id.to_string()).collect())
            }
            _ => None,
        };
        steps.iter().filter_map(|step| calls(&step)).collect()
    }

    fn notes(&self) -> Vec<String> {
        self.session.slice::<Note>().iter().map(|note| note.text.clone()).collect()
    }
}

/// Plays the program.
struct Peer {
    heard: Lines<ReadHalf<DuplexStream>>,
    said: WriteHalf<DuplexStream>,
    asks: usize,
}

impl Peer {
    fn new(pipe: DuplexStream) -> Self {
        let (read, said) = tokio::io::split(pipe);
        Self { heard: Lines::new(read), said, asks: 0 }
    }

    /// The next frame; nothing at the end.
    async fn hear(&mut self) -> Option<Value> {
        let line = self.heard.next().await.unwrap()?;
        Some(serde_json::from_slice(&line).unwrap())
    }

    async fn say(&mut self, frame: &Value) {
        self.line(&frame.to_string()).await;
    }

    async fn line(&mut self, line: &str) {
        // Nobody may listen any more.
        let _ = self.said.write_all(format!("{line}\n").as_bytes()).await;
    }

    /// Asks, and gives the number of it.
    async fn ask(&mut self, request: Value) -> String {
        self.asks += 1;
        let id = format!("p{}", self.asks);
        self.say(&json!({ "type": "control_request", "request_id": id, "request": request })).await;
        id
    }

    /// Asks, and waits for the answer.
    async fn asked(&mut self, request: Value) -> Value {
        let id = self.ask(request).await;
        let answer = self.hear().await.unwrap();
        assert_eq!(
            (&answer["type"], &answer["response"]["request_id"]),
            (&json!("control_response"), &json!(id))
        );
        answer["response"]["response"].clone()
    }

    /// Takes the first words, and gives the task.
    async fn begin(&mut self) -> String {
        let first = self.hear().await.unwrap();
        assert_eq!(first["request"]["subtype"], "initialize");
        let answer = json!({ "hooks_applied": true, "hook_on_failure_supported": true });
        self.reply(&first["request_id"], answer).await;
        let user = self.hear().await.unwrap();
        user["message"]["content"].as_str().unwrap().to_owned()
    }

    async fn reply(&mut self, id: &Value, answer: Value) {
        let response = json!({ "subtype": "success", "request_id": id, "response": answer });
        self.say(&json!({ "type": "control_response", "response": response })).await;
    }

    async fn mcp(&mut self, method: &str, params: Value) -> Value {
        let message = json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params });
        let answer =
            self.asked(json!({ "subtype": "mcp_message", "server_name": "wink", "message": message })).await;
        answer["mcp_response"].clone()
    }

    /// Calls one of our tools: what the model is told, and whether that is an error.
    async fn call(&mut self, id: &str, tool: &str, arguments: Value) -> (String, bool) {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "claudecode/toolUseId": id } });
        let result = self.mcp("tools/call", params).await["result"].take();
        (result["content"][0]["text"].as_str().unwrap().to_owned(), result["isError"].as_bool().unwrap())
    }

    /// Is about to run, or has run, one of its own tools.
    async fn hook(&mut self, event: &str, id: &str, tool: &str, more: Value) -> Value {
        self.asked(hook(event, id, tool, more)).await
    }

    /// The model said something: a text, and calls.
    async fn says(&mut self, message: &str, text: &str, calls: &[(&str, &str)]) {
        let usage = json!({ "input_tokens": 7, "cache_read_input_tokens": 3 });
        let start = json!({ "type": "message_start", "message": { "id": message, "usage": usage } });
        let mut events = vec![start];
        let mut blocks = Vec::new();
        if !text.is_empty() {
            blocks.push(json!({ "type": "text", "text": text }));
        }
        blocks.extend(calls.iter().map(
            |(id, name)| json!({ "type": "tool_use", "id": id, "name": name, "input": { "text": "x" } }),
        ));
        for event in events.drain(..) {
            self.say(&json!({ "type": "stream_event", "event": event, "parent_tool_use_id": null })).await;
        }
        for block in blocks {
            let content = json!({ "id": message, "model": "m", "content": [block], "usage": { "input_tokens": 7, "output_tokens": 1 } });
            self.say(&json!({ "type": "assistant", "message": content, "parent_tool_use_id": null })).await;
        }
        let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
        let delta = json!({ "type": "message_delta", "delta": { "stop_reason": stop }, "usage": { "output_tokens": 2 } });
        for event in [delta, json!({ "type": "message_stop" })] {
            self.say(&json!({ "type": "stream_event", "event": event, "parent_tool_use_id": null })).await;
        }
    }

    /// The model is told what came of a call.
    async fn told(&mut self, id: &str, text: &str, is_error: bool) {
        let block =
            json!({ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error });
        self.say(&json!({ "type": "user", "message": { "role": "user", "content": [block] }, "parent_tool_use_id": null })).await;
    }

    /// The turn is over.
    async fn done(&mut self, text: &str) {
        self.say(&json!({ "type": "result", "subtype": "success", "is_error": false, "result": text })).await;
    }
}

fn hook(event: &str, id: &str, tool: &str, more: Value) -> Value {
    let mut input = json!({ "hook_event_name": event, "tool_name": tool, "tool_use_id": id });
    for (name, value) in more.as_object().unwrap() {
        input[name] = value.clone();
    }
    json!({ "subtype": "hook_callback", "callback_id": event, "input": input })
}

fn decision(answer: &Value) -> (&str, &str) {
    let output = &answer["hookSpecificOutput"];
    (
        output["permissionDecision"].as_str().unwrap_or_default(),
        output["permissionDecisionReason"].as_str().unwrap_or_default(),
    )
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}
