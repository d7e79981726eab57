//! A small world for the tests of promises: slices, files and resources, tools that change all of them, and a dump of
//! everything. It exists on a store in memory and on one that keeps nothing but bytes and is opened again between
//! calls; and with somebody who watches every step, or without, as calls usually are.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "every test uses its own part"
)]

mod dump;
mod policies;
mod trap;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use wink::executor::{Executor, ExecutorBuilder, ToolCall};
use wink::filesystem::{
    DeleteMode, Edit, Filesystem, FilesystemExt, MemoryFilesystem, MkdirOptions, WriteMode, WriteOptions,
};
use wink::ledger::{EffectLedger, ToolEffect};
use wink::limits::Deadline;
use wink::prelude::*;
use wink::resource::{Binding, BoxError, Resolver, ResourceContext, ResourceRegistry, Scope, Shared};
use wink::session::{SliceKey, ToolInvoked, upsert_by_key};
use wink::store::{MemoryStore, SharedStore};
use wink::testing::{ByteStore, FakeClock, Faults, FaultyStore};
use wink::tool::PromptEvaluationError;

pub use dump::{Dump, Entry, Stored};
pub use policies::{Denies, Remembers};
pub use trap::{Part, Snare, Trap};

/// Where sessions are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Memory,
    Bytes,
}

pub const KINDS: [Kind; 2] = [Kind::Memory, Kind::Bytes];

/// How calls go in a world. Calls that nobody watches take several steps at once, and go another way through the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Step by step, with a hook that can make any of them fail.
    Watched,
    /// Without a hook.
    Unwatched,
    /// Without a hook, and without the policy that remembers: a call waits for nobody on its way.
    Bare,
}

pub const FORMS: [Form; 3] = [Form::Watched, Form::Unwatched, Form::Bare];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    pub text: String,
}
impl SliceType for Note {
    const NAME: &'static str = "note";
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stock {
    pub item: String,
    pub count: i64,
}
impl SliceType for Stock {
    const NAME: &'static str = "stock";
    const KEYED: bool = true;

    fn key(&self) -> Option<SliceKey> {
        Some(self.item.as_str().into())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    pub on: bool,
}
impl SliceType for Setting {
    const NAME: &'static str = "setting";
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scratch {
    pub line: u32,
}
impl SliceType for Scratch {
    const NAME: &'static str = "scratch";
}

/// A slice that nobody names before a call does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fresh {
    pub word: String,
}
impl SliceType for Fresh {
    const NAME: &'static str = "fresh";
}

/// What the world's big tool returns; published to its slice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    pub effects: usize,
}
impl SliceType for Receipt {
    const NAME: &'static str = "receipt";
}

/// A singleton that is first built inside a call, and counts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally(pub u32);

/// The tools whose calls are counted; the last two are those of `promise_atomic_parts.rs`.
pub const TOOLS: [&str; 15] = [
    "effects_once",
    "effects",
    "note",
    "fail",
    "refuse",
    "invalid",
    "boom",
    "slow",
    "escalate",
    "denied",
    "pay",
    "left",
    "right",
    "everything",
    "once",
];

/// How the `effects` tool ends, and after which effect.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Well,
    Refuse,
    Fail,
    Invalid,
    Panic,
    Hang,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Effects {
    /// After how many effects it ends.
    pub after: usize,
    pub end: End,
}

/// How many effects there are.
pub const EFFECTS: usize = 14;

async fn effects(params: Effects, cx: &mut ToolContext) -> Result<ToolResult<Receipt>, ToolError> {
    for at in 0..params.after.min(EFFECTS) {
        effect(at, cx).await?;
    }
    match params.end {
        End::Well => Ok(ToolResult::ok(Receipt { effects: params.after }, "all done")),
        End::Refuse => Ok(ToolResult::failed(Receipt { effects: params.after }, "refused")),
        End::Fail => Err(ToolError::new("failed")),
        End::Invalid => Err(wink::tool::ToolValidationError("invalid query".to_owned()).into()),
        End::Panic => panic!("oops"),
        End::Hang => std::future::pending().await,
    }
}

pub async fn effect(at: usize, cx: &mut ToolContext) -> Result<(), ToolError> {
    let session = cx.session();
    match at {
        0 => drop(session.dispatch(Note { text: "appended".into() })?),
        1 => drop(session.dispatch(Stock { item: "bolt".into(), count: 99 })?),
        2 => session.seed([Setting { on: true }])?,
        3 => session.clear_where::<Scratch>(|_| true)?,
        4 => drop(session.dispatch(Fresh { word: "first".into() })?),
        5 => drop(
            cx.filesystem()
                .await?
                .write("new/file.txt", b"created", WriteOptions::new(WriteMode::Create))
                .await?,
        ),
        6 => drop(cx.filesystem().await?.write_text("old.txt", "overwritten").await?),
        7 => drop(cx.filesystem().await?.edit("edit.txt", &Edit::once("two", "2")).await?),
        8 => cx.filesystem().await?.delete("gone.txt", DeleteMode::Single).await?,
        9 => {
            cx.filesystem().await?.mkdir("made/dir", MkdirOptions { parents: true, exist_ok: false }).await?
        }
        10 => cx.filesystem().await?.rename("move.txt", "moved.txt").await?,
        11 => cx.resource::<Shared<u32>>().await?.update(|n| *n += 1),
        12 => cx.resource::<Shared<Tally>>().await?.update(|tally| tally.0 += 1),
        _ => drop(session.dispatch(Stock { item: "nut".into(), count: 1 })?),
    }
    Ok(())
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Text {
    pub text: String,
}

async fn note(params: Text, cx: &mut ToolContext) -> Result<ToolResult<Note>, ToolError> {
    let _ = cx.session().dispatch(Note { text: params.text.clone() })?;
    Ok(ToolResult::ok(Note { text: params.text }, "noted"))
}

async fn left(params: Text, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Note { text: params.text.clone() })?;
    add_line("left.txt", &params.text, cx).await
}

async fn right(params: Text, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    add_line("right.txt", &params.text, cx).await
}

async fn add_line(path: &str, line: &str, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let files = cx.filesystem().await?;
    let before = if files.exists(path).await? { files.read_text(path).await? } else { String::new() };
    // Somebody else may run meanwhile.
    tokio::task::yield_now().await;
    files.write_text(path, &format!("{before}{line}\n")).await?;
    Ok(ToolResult::done("added"))
}

async fn fail(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    spoil(cx).await?;
    Err(ToolError::new("boom"))
}

async fn refuse(_: (), cx: &mut ToolContext) -> Result<ToolResult<Receipt>, ToolError> {
    spoil(cx).await?;
    Ok(ToolResult::failed(Receipt { effects: 1 }, "not today"))
}

async fn invalid(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    spoil(cx).await?;
    Err(wink::tool::ToolValidationError("invalid query".to_owned()).into())
}

async fn boom(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    spoil(cx).await?;
    panic!("oops")
}

async fn slow(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    spoil(cx).await?;
    std::future::pending().await
}

async fn escalate(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    spoil(cx).await?;
    let message = "enough".to_owned();
    Err(PromptEvaluationError { phase: wink::tool::Phase::Tool, message, deadline: None }.into())
}

async fn spoil(cx: &mut ToolContext) -> Result<(), ToolError> {
    let _ = cx.session().dispatch(Note { text: "spoilt".into() })?;
    cx.filesystem().await?.write_text("old.txt", "spoilt").await?;
    cx.resource::<Shared<u32>>().await?.set(1000);
    Ok(())
}

/// How often each payment really happened: the outside world.
pub type Bank = Arc<Mutex<BTreeMap<String, usize>>>;

async fn pay(params: Text, cx: &mut ToolContext) -> Result<ToolResult<Note>, ToolError> {
    let bank = cx.resource::<Mutex<BTreeMap<String, usize>>>().await?;
    *bank.lock().unwrap().entry(params.text.clone()).or_default() += 1;
    let _ = cx.session().dispatch(Note { text: "paid".into() })?;
    Ok(ToolResult::ok(Note { text: params.text }, "paid"))
}

pub struct World {
    pub kind: Kind,
    pub form: Form,
    pub clock: FakeClock,
    pub faults: Faults,
    pub files: Arc<dyn Filesystem>,
    pub counter: Arc<Shared<u32>>,
    pub bank: Bank,
    pub prompt: Prompt,
    pub session: Session,
    pub executor: Executor,
    pub resources: ResourceContext,
    pub store: Arc<FaultyStore>,
    bytes: Option<Arc<ByteStore>>,
    next: AtomicUsize,
}

pub const DEADLINE: Duration = Duration::from_secs(600);
pub const TIMEOUT: Duration = Duration::from_secs(30);

pub fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

impl World {
    pub async fn new(kind: Kind) -> Self {
        Self::with(kind, |section| section, |builder| builder).await
    }

    /// With a hook, so that any step can be made to fail.
    pub async fn watched(kind: Kind) -> Self {
        Self::formed(Form::Watched, kind).await
    }

    pub async fn formed(form: Form, kind: Kind) -> Self {
        Self::formed_with(form, kind, |section| section, |builder| builder).await
    }

    /// With more in the section, and more said of the executor.
    pub async fn with(
        kind: Kind,
        section: impl FnOnce(Section) -> Section,
        more: impl FnOnce(ExecutorBuilder) -> ExecutorBuilder,
    ) -> Self {
        Self::formed_with(Form::Unwatched, kind, section, more).await
    }

    pub async fn formed_with(
        form: Form,
        kind: Kind,
        section: impl FnOnce(Section) -> Section,
        more: impl FnOnce(ExecutorBuilder) -> ExecutorBuilder,
    ) -> Self {
        Self::trapped(form, kind, &Trap::none(), section, more).await
    }

    /// With a resource that may go wrong.
    pub async fn trapped(
        form: Form,
        kind: Kind,
        trap: &Trap,
        section: impl FnOnce(Section) -> Section,
        more: impl FnOnce(ExecutorBuilder) -> ExecutorBuilder,
    ) -> Self {
        let clock = FakeClock::new(start());
        let faults = Faults::with_clock(clock.clone());
        let files: Arc<dyn Filesystem> = Arc::new(MemoryFilesystem::new());
        for (path, text) in
            [("old.txt", "old"), ("edit.txt", "one two three"), ("gone.txt", "x"), ("move.txt", "m")]
        {
            files.write_text(path, text).await.unwrap();
        }
        files.mkdir_all("empty/dir").await.unwrap();
        let counter = Arc::new(Shared::new(7));
        let bank = Bank::default();
        let registry = ResourceRegistry::of((
            Binding::filesystem(Arc::clone(&files)),
            Binding::instance(Arc::clone(&counter)).named("counter").snapshotable(),
            Binding::new(|_| Ok(Shared::new(Tally::default()))).named("tally").snapshotable(),
            Binding::instance(Arc::clone(&bank)),
            Binding::instance(Arc::new(trap.clone())),
            Binding::with_async(snare(trap)).scope(Scope::ToolCall),
        ))
        .unwrap();
        let resources = registry.open().await.unwrap();
        let auto = || wink::ledger::IdempotencyConfig::auto();
        let tools = Section::tools("tools", "Tools")
            .tool(Tool::new("effects", "Change everything.", effects).publishes().timeout(TIMEOUT))
            .tool(
                Tool::new("effects_once", "Change everything once.", effects)
                    .publishes()
                    .timeout(TIMEOUT)
                    .idempotency(auto()),
            )
            .tool(Tool::new("note", "Take a note.", note))
            .tool(
                Tool::new("left", "Add a line on the left.", left)
                    .footprint(|_| Footprint::nothing().write_path("left.txt").write_slice::<Note>()),
            )
            .tool(
                Tool::new("right", "Add a line on the right.", right)
                    .footprint(|_| Footprint::nothing().write_path("right.txt")),
            )
            .tool(Tool::new("fail", "Fail.", fail))
            .tool(Tool::new("refuse", "Refuse.", refuse))
            .tool(Tool::new("invalid", "Find it invalid.", invalid))
            .tool(Tool::new("boom", "Panic.", boom))
            .tool(Tool::new("slow", "Never end.", slow).timeout(TIMEOUT))
            .tool(Tool::new("escalate", "Escalate.", escalate))
            .tool(Tool::new("denied", "Never run.", fail))
            .tool(Tool::new("pay", "Pay once.", pay).idempotency(auto()))
            .policy(Denies("denied"))
            .install(|session| session.register::<Stock, Stock>(upsert_by_key()));
        let tools = match form {
            Form::Watched | Form::Unwatched => tools.policy(Remembers),
            Form::Bare => tools,
        };
        let prompt =
            PromptTemplate::builder("tests", "world").section(section(tools)).build().unwrap().prompt();
        let (store, bytes) = match kind {
            Kind::Memory => (Arc::new(FaultyStore::new(Arc::new(MemoryStore::new()))), None),
            Kind::Bytes => {
                let bytes = Arc::new(ByteStore::new());
                (Arc::new(FaultyStore::new(Arc::clone(&bytes) as SharedStore)), Some(bytes))
            }
        };
        let session = session_on(&store, &clock).await;
        session.seed([Note { text: "before".into() }]).unwrap();
        session.seed([Stock { item: "bolt".into(), count: 1 }]).unwrap();
        session.seed([Setting { on: false }, Setting { on: false }]).unwrap();
        session.seed([Scratch { line: 1 }, Scratch { line: 2 }]).unwrap();
        session.flush().await.unwrap();
        EffectLedger::new(Arc::clone(&store) as SharedStore, Arc::new(clock.clone()))
            .record(effect_of_old(start()))
            .await
            .unwrap();
        let deadline = Deadline::after(DEADLINE, &clock).unwrap();
        let builder = Executor::builder(&prompt, &session).opened(resources.clone()).deadline(deadline);
        let executor = more(hooked(form, &faults, builder)).open().await.unwrap();
        let next = AtomicUsize::new(1);
        Self {
            kind,
            form,
            clock,
            faults,
            files,
            counter,
            bank,
            prompt,
            session,
            executor,
            resources,
            store,
            bytes,
            next,
        }
    }

    /// The next call of this tool.
    pub fn call(&self, tool: &str, arguments: Value) -> ToolCall {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        ToolCall::new(format!("call-{id}"), tool, arguments.to_string())
    }

    pub fn effects(&self, after: usize, end: End) -> ToolCall {
        self.effects_of("effects", after, end)
    }

    /// As [`World::effects`], of the tool with a key or of the one without.
    pub fn effects_of(&self, tool: &str, after: usize, end: End) -> ToolCall {
        self.call(tool, serde_json::to_value(Effects { after, end }).unwrap())
    }

    /// What a new process would find. On the store in memory nothing is opened again.
    pub async fn reopen(&mut self) {
        self.reopen_with(|builder| builder).await;
    }

    /// As [`World::reopen`]; the next process says this of its executor.
    pub async fn reopen_with(&mut self, more: impl FnOnce(ExecutorBuilder) -> ExecutorBuilder) {
        let Some(bytes) = &self.bytes else { return };
        let bytes = Arc::new(bytes.reopen().unwrap());
        self.store = Arc::new(FaultyStore::new(Arc::clone(&bytes) as SharedStore));
        self.bytes = Some(bytes);
        self.session = session_on(&self.store, &self.clock).await;
        self.executor = self.another_executor(more).await;
    }

    /// Another executor for the same session.
    pub async fn another_executor(&self, more: impl FnOnce(ExecutorBuilder) -> ExecutorBuilder) -> Executor {
        let builder = Executor::builder(&self.prompt, &self.session).opened(self.resources.clone());
        more(hooked(self.form, &self.faults, builder)).open().await.unwrap()
    }

    pub fn log(&self) -> Vec<Arc<ToolInvoked>> {
        self.session.slice::<ToolInvoked>().all()
    }
}

fn snare(trap: &Trap) -> impl Fn(Resolver) -> wink::BoxFuture<'static, Result<Snare, BoxError>> + use<> {
    let trap = trap.clone();
    move |_| {
        let trap = trap.clone();
        Box::pin(async move {
            trap.reach(Part::Resource).await?;
            Ok(Snare)
        })
    }
}

fn hooked(form: Form, faults: &Faults, builder: ExecutorBuilder) -> ExecutorBuilder {
    match form {
        Form::Watched => builder.hook(Arc::new(faults.clone())),
        Form::Unwatched | Form::Bare => builder,
    }
}

/// What the ledger knows before the first call.
fn effect_of_old(at: Timestamp) -> ToolEffect {
    ToolEffect {
        idempotency_key: "an old key".into(),
        tool_name: "pay".into(),
        params_hash: "an old hash".into(),
        message: "paid long ago".into(),
        value: None,
        success: true,
        exclude_value_from_context: false,
        created_at: at,
        expires_at: None,
        session: None,
        effect_id: "an old effect".into(),
    }
}

async fn session_on(store: &Arc<FaultyStore>, clock: &FakeClock) -> Session {
    let store = Arc::clone(store) as SharedStore;
    Session::builder().id("the-session").store(store).clock(Arc::new(clock.clone())).open().await.unwrap()
}
