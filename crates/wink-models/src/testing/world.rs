//! Where scenarios take place: a prompt with tools, a workspace, something outside, a clock that stands still, a store that lasts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use tokio::sync::watch;
use wink::BoxFuture;
use wink::feedback::{Completion, CompletionChecker, CompletionContext};
use wink::filesystem::{Filesystem, MemoryFilesystem};
use wink::prelude::*;
use wink::prompt::Output;
use wink::resource::{Binding, ResourceRegistry};
use wink::session::IdSource;
use wink::testing::{ByteStore, FakeClock};
use wink::tool::Annotations;

use crate::{Piece, Stream, Watch, lock};

/// What the tools leave in the session.
#[data]
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Note {
    /// The text.
    pub(super) text: String,
}

impl SliceType for Note {
    const NAME: &'static str = "contract.note";
}

#[data]
struct Params {
    /// What it is about.
    text: String,
    /// How often; once unless given.
    times: Option<u8>,
}

/// What was done outside, where nothing is rolled back.
#[derive(Default)]
pub(super) struct Outside(pub(super) Mutex<Vec<String>>);

/// Where a call waits, and who sees that it does.
pub(super) struct Gate {
    open: AtomicBool,
    entered: watch::Sender<bool>,
}

impl Gate {
    pub(super) fn open(&self) {
        self.open.store(true, Ordering::SeqCst);
    }

    pub(super) async fn until_entered(&self) {
        // The sender is here, so there is no other end.
        let _ = self.entered.subscribe().wait_for(|entered| *entered).await;
    }
}

async fn note(params: Params, _: &mut ToolContext) -> ToolResult<Note> {
    let text = params.text.repeat(params.times.unwrap_or(1).into());
    ToolResult::ok(Note { text }, "noted")
}

async fn write(params: Params, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    cx.filesystem().await?.write_text("file.txt", &params.text).await?;
    Ok(ToolResult::done("written"))
}

/// Changes what can be rolled back, and fails.
async fn fail(params: Params, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Note { text: "lost".into() })?;
    cx.filesystem().await?.write_text("lost.txt", "lost").await?;
    Ok(ToolResult::error(params.text))
}

async fn pay(params: Params, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    lock(&cx.resource::<Outside>().await?.0).push(params.text.clone());
    Ok(ToolResult::value(format!("paid {}", params.text)))
}

async fn wait(params: Params, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    cx.filesystem().await?.write_text("waited.txt", &params.text).await?;
    let gate = cx.resource::<Gate>().await?;
    gate.entered.send_replace(true);
    match gate.open.load(Ordering::SeqCst) {
        true => Ok(ToolResult::done("waited")),
        false => std::future::pending().await,
    }
}

/// The typed result.
#[data]
#[derive(Debug, Clone, PartialEq)]
struct Verdict {
    answer: i64,
    note: Option<String>,
}

impl SliceType for Verdict {
    const NAME: &'static str = "contract.verdict";
}

/// What the prompt wants beside calls and words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wants {
    Nothing,
    /// A typed result.
    Object,
    /// A list of them.
    List,
    /// That something was noted.
    Notes,
}

/// Whether something was noted.
struct Noted;

impl CompletionChecker for Noted {
    fn check<'a>(&'a self, cx: &'a CompletionContext<'a>) -> BoxFuture<'a, Completion> {
        let said = match cx.slice::<Note>().is_empty() {
            true => Completion::Missing("Nothing was noted yet.".into()),
            false => Completion::Complete,
        };
        Box::pin(std::future::ready(said))
    }
}

fn prompt(wants: Wants) -> Prompt {
    let inside = Annotations { open_world: false, ..Annotations::default() };
    let tools = Section::markdown("tools", "Tools")
        .body("Use them.")
        .tool(Tool::new("note", "Notes something.", note).publishes().annotations(inside))
        .tool(Tool::new("write", "Writes a file.", write).annotations(inside))
        .tool(Tool::new("fail", "Fails.", fail).annotations(inside))
        .tool(Tool::new("pay", "Pays.", pay))
        .tool(Tool::new("wait", "Waits.", wait).annotations(inside))
        .tool(Tool::new("deploy", "Deploys.", note).annotations(inside))
        .policy(wink::policy::policy_fn("nobody", |call, _| match &**call.tool.name() {
            "deploy" => wink::policy::Decision::Deny("not on a Friday".into()),
            _ => wink::policy::Decision::Allow,
        }));
    let manual = Section::markdown("manual", "Manual")
        .body("Turn the handle.")
        .summary("How it works.")
        .visibility(Visibility::Summary)
        .tool(Tool::new("turn", "Turns the handle.", note).publishes().annotations(inside));
    let template = PromptTemplate::builder("contract", "adapters").section(tools).section(manual);
    match wants {
        Wants::Nothing => template.build().unwrap().prompt(),
        Wants::Object => template.output(Output::object::<Verdict>().publishes()).build().unwrap().prompt(),
        Wants::List => template.output(Output::list::<Verdict>()).build().unwrap().prompt(),
        Wants::Notes => template.completion(Noted).build().unwrap().prompt(),
    }
}

/// One world, in which one scenario takes place.
pub(super) struct World {
    pub(super) prompt: Prompt,
    pub(super) resources: ResourceRegistry,
    pub(super) outside: Arc<Outside>,
    pub(super) files: Arc<MemoryFilesystem>,
    pub(super) gate: Arc<Gate>,
    pub(super) clock: FakeClock,
    pub(super) watching: Arc<Watching>,
}

impl World {
    pub(super) fn new(wants: Wants) -> Self {
        let outside = Arc::new(Outside::default());
        let files = Arc::new(MemoryFilesystem::new());
        let gate = Arc::new(Gate { open: AtomicBool::new(false), entered: watch::channel(false).0 });
        let resources = ResourceRegistry::of((
            Binding::instance(Arc::clone(&outside)),
            Binding::instance(Arc::clone(&gate)),
            Binding::filesystem(Arc::clone(&files) as Arc<dyn Filesystem>),
        ));
        Self {
            prompt: prompt(wants),
            resources: resources.unwrap(),
            outside,
            files,
            gate,
            clock: FakeClock::new(Timestamp::from_second(1_800_000_000).unwrap()),
            watching: Arc::default(),
        }
    }

    /// The session of this store, as a process opens it. The ids that it gives are the same in every world.
    pub(super) async fn session(&self, store: Arc<ByteStore>, process: u64) -> Session {
        let builder = Session::builder().store(store).clock(Arc::new(self.clock.clone()));
        let session = builder.id("contract").ids(IdSource::seeded(process)).open().await.unwrap();
        session.know::<Note>().unwrap();
        session
    }
}

/// Something that was shown: text in one, however it came.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub(super) kind: &'static str,
    pub(super) text: String,
    /// In how many pieces it came.
    pub(super) pieces: usize,
}

/// Sees what is shown, and when calls were executed.
#[derive(Default)]
pub(super) struct Watching {
    shown: Mutex<Vec<Shown>>,
    batches: watch::Sender<usize>,
}

impl Watching {
    /// What was shown.
    pub(super) fn shown(&self) -> Vec<Shown> {
        lock(&self.shown).clone()
    }

    /// Ends when a batch of calls was executed.
    pub(super) async fn until_called(&self) {
        let _ = self.batches.subscribe().wait_for(|batches| *batches > 0).await;
    }
}

impl Stream for Watching {
    fn piece(&self, piece: Piece<'_>) {
        let (kind, more) = match piece {
            Piece::Text(text) => ("text", text),
            Piece::Thinking(text) => ("thinking", text),
            Piece::Call { name } => ("call", name),
        };
        let mut shown = lock(&self.shown);
        match shown.last_mut() {
            _ if more.is_empty() => {}
            Some(last) if last.kind == kind && kind != "call" => {
                last.text.push_str(more);
                last.pieces += 1;
            }
            _ => shown.push(Shown { kind, text: more.to_owned(), pieces: 1 }),
        }
    }
}

impl Watch for Watching {
    fn outcomes(&self, _: &[wink::executor::Outcome]) {
        self.batches.send_modify(|batches| *batches += 1);
    }
}
