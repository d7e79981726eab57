//! A small agent with one tool for each thing that a call can do, and clients that say exactly what they are told to.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "every test uses its own part"
)]

mod http;
mod lines;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;
use wink::BoxFuture;
use wink::executor::Executor;
use wink::filesystem::{FilesystemExt, MemoryFilesystem};
use wink::ledger::IdempotencyConfig;
use wink::policy::{ApprovalPolicy, SequentialDependencyPolicy};
use wink::prelude::*;
use wink::resource::Binding;
use wink::session::{SessionId, ToolInvoked};
use wink::testing::{ByteStore, FakeClock};
use wink_mcp::{OpenError, ServedSession, Server, ServerOptions, Sessions};

pub use http::{Http, Reply, read_reply};
pub use lines::Client;

/// What the agent's tools share with the test.
#[derive(Default)]
pub struct Shared {
    /// How often something outside was done.
    pub effects: AtomicUsize,
    /// That a handler has begun to wait.
    pub waiting: Notify,
    /// Lets a handler that waits go on.
    pub go: Notify,
}

/// An agent on a session in memory.
pub struct Agent {
    pub session: Arc<ServedSession>,
    pub files: Arc<MemoryFilesystem>,
    pub shared: Arc<Shared>,
    pub clock: FakeClock,
}

#[data]
struct Note {
    file: String,
    text: String,
}

#[data]
#[derive(Debug, Clone)]
struct Saved {
    file: String,
    bytes: u64,
}

#[data]
struct Sum {
    a: i64,
    b: i64,
}

#[data]
struct Deploy {
    environment: String,
}

#[data]
struct Nothing {}

async fn save(note: Note, cx: &mut ToolContext) -> Result<ToolResult<Saved>, ToolError> {
    cx.filesystem().await?.write_text(&note.file, &note.text).await?;
    let bytes = note.text.len() as u64;
    Ok(ToolResult::ok(Saved { file: note.file, bytes }, "saved"))
}

async fn save_and_fail(note: Note, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    cx.filesystem().await?.write_text(&note.file, &note.text).await?;
    Ok(ToolResult::error("the disk is tired"))
}

async fn add(sum: Sum, _: &mut ReadContext) -> Result<ToolResult<i64>, ToolError> {
    Ok(ToolResult::value(sum.a + sum.b))
}

async fn peek(_: Nothing, _: &mut ReadContext) -> Result<ToolResult<Saved>, ToolError> {
    let value = Saved { file: "a long one".to_owned(), bytes: 1 };
    Ok(ToolResult::ok(value, "looked at it").exclude_value_from_context())
}

async fn nothing(_: Nothing, _: &mut ReadContext) -> Result<ToolResult<Saved>, ToolError> {
    Ok(ToolResult::done("there was nothing to save"))
}

async fn effect(deploy: Deploy, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    let done = cx.resource::<Shared>().await?.effects.fetch_add(1, Ordering::SeqCst) + 1;
    Ok(ToolResult::value(format!("{} {done}", deploy.environment)))
}

async fn wait(_: Nothing, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let shared = cx.resource::<Shared>().await?;
    cx.filesystem().await?.write_text("waited.txt", "it did").await?;
    cx.progress(1.0, Some(3.0), "waiting");
    shared.waiting.notify_one();
    shared.go.notified().await;
    cx.progress(2.0, Some(3.0), "going on");
    Ok(ToolResult::done("waited"))
}

pub fn template() -> PromptTemplate {
    let section = Section::markdown("work", "Work")
        .body("Do the work.")
        .tool(Tool::new("save", "Saves a note.", save))
        .tool(Tool::new("save_and_fail", "Saves a note, and fails.", save_and_fail))
        .tool(Tool::new("add", "Adds two numbers.", add))
        .tool(Tool::new("pay", "Pays once.", effect).idempotency(IdempotencyConfig::auto()))
        .tool(Tool::new("send", "Sends, as often as it is called.", effect))
        .tool(Tool::new("wait", "Waits for the test.", wait))
        .tool(Tool::new("hurry", "Has no time.", wait).timeout(Duration::from_secs(1)))
        .tool(Tool::new("deploy", "Deploys, when somebody says so.", effect))
        .tool(Tool::new("release", "Releases what was added.", effect))
        .tool(Tool::new("peek", "Has a value that the model is not shown.", peek))
        .tool(Tool::new("save_nothing", "Has no value.", nothing))
        .policy(ApprovalPolicy::new(["deploy"]))
        .policy(SequentialDependencyPolicy::new().require("release", ["add"]));
    let closed = Section::markdown("manual", "Manual")
        .body("All of it.")
        .summary("What to know.")
        .visibility(Visibility::Summary)
        .tool(Tool::new("look_up", "Looks something up.", add));
    PromptTemplate::builder("tests", "agent").section(section).section(closed).build().unwrap()
}

impl Agent {
    pub async fn new() -> Self {
        Self::with(|options| options).await
    }

    pub async fn with(change: impl Fn(ServerOptions) -> ServerOptions) -> Self {
        Self::named("main", change).await
    }

    pub async fn named(name: &str, change: impl Fn(ServerOptions) -> ServerOptions) -> Self {
        let clock = FakeClock::new("2026-11-01T00:00:00Z".parse().unwrap());
        let session = Session::builder().id(name).clock(Arc::new(clock.clone())).build();
        Self::of(session, clock, change).await
    }

    /// On a session that is stored.
    pub async fn stored(store: &Arc<ByteStore>) -> Self {
        let clock = FakeClock::new("2026-11-01T00:00:00Z".parse().unwrap());
        let builder = Session::builder().id("main").clock(Arc::new(clock.clone()));
        let session = builder.store(Arc::clone(store) as _).open().await.unwrap();
        Self::of(session, clock, |options| options).await
    }

    /// Another server of the same session.
    pub fn beside(&self) -> Self {
        let executor = self.session.executor().clone();
        let session = Arc::new(ServedSession::new(template().prompt(), executor, self.options()));
        let (files, shared) = (Arc::clone(&self.files), Arc::clone(&self.shared));
        Self { session, files, shared, clock: self.clock.clone() }
    }

    async fn of(session: Session, clock: FakeClock, change: impl Fn(ServerOptions) -> ServerOptions) -> Self {
        let files = Arc::new(MemoryFilesystem::new());
        let shared = Arc::new(Shared::default());
        let prompt = template().prompt();
        let resources = wink::resource::ResourceRegistry::of((
            Binding::filesystem(files.clone()),
            Binding::instance(Arc::clone(&shared)),
        ))
        .unwrap();
        let executor = Executor::builder(&prompt, &session).resources(resources).open().await.unwrap();
        let mut options = ServerOptions::default();
        options.clock = Arc::new(clock.clone());
        let session = Arc::new(ServedSession::new(prompt, executor, change(options)));
        Self { session, files, shared, clock }
    }

    pub fn options(&self) -> ServerOptions {
        self.session.options().clone()
    }

    pub fn server(&self) -> Server {
        Server::new(Arc::clone(&self.session))
    }

    /// The events so far.
    pub fn events(&self) -> Vec<Arc<ToolInvoked>> {
        self.session.executor().session().slice::<ToolInvoked>().all()
    }

    pub async fn file(&self, path: &str) -> Option<String> {
        self.files.read_text(path).await.ok()
    }
}

/// Opens what it was given.
pub struct These(pub Vec<Arc<ServedSession>>);

impl Sessions for These {
    fn open<'a>(&'a self, name: &'a SessionId) -> BoxFuture<'a, Result<Arc<ServedSession>, OpenError>> {
        let found = self.0.iter().find(|session| session.name() == name).cloned();
        Box::pin(std::future::ready(found.ok_or_else(|| OpenError::Unknown(name.clone()))))
    }
}

/// `_meta` of a client of the stateless revision.
pub fn stateless(capabilities: Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "tester", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    })
}

/// The params of a call by such a client.
pub fn call_params(tool: &str, arguments: Value, capabilities: Value) -> Value {
    json!({ "name": tool, "arguments": arguments, "_meta": stateless(capabilities) })
}

pub fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}
