//! Tools that only stay for a while, and a floor that knows who is on it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::sync::Barrier;
use wink::executor::{Executor, ExecutorLimits, Outcome, ToolCall};
use wink::filesystem::{Filesystem, FilesystemExt, MemoryFilesystem};
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry, Shared};
use wink::tool::{IntoTool, Phase, PromptEvaluationError};

use super::world::{Green, Trail};

pub(crate) struct Floor {
    now: AtomicUsize,
    pub(crate) most: AtomicUsize,
    pub(crate) entered: Mutex<Vec<String>>,
    pub(crate) left: AtomicUsize,
    pub(crate) pair: Barrier,
    pub(crate) session: Session,
}

impl Floor {
    fn enter(&self, cx: &ToolContext) {
        self.entered.lock().unwrap().push(cx.invocation().call_id.to_string());
        self.most.fetch_max(self.now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn leave(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
        self.left.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn entered(&self) -> Vec<String> {
        self.entered.lock().unwrap().clone()
    }

    /// Until somebody has left.
    async fn until_left(&self) {
        while self.left.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
    }
}

/// Nothing but the floor, which everybody may be on.
pub(crate) fn on_the_floor() -> Footprint {
    Footprint::nothing().share_resource::<Floor>()
}

/// Stays for a few turns.
pub(crate) async fn stay(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let floor = cx.resource::<Floor>().await?;
    floor.enter(cx);
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    floor.leave();
    Ok(ToolResult::done("stayed"))
}

/// As [`stay`], and publishes something.
pub(crate) async fn stay_green(_: (), cx: &mut ToolContext) -> Result<ToolResult<Green>, ToolError> {
    let _ = stay((), cx).await?;
    Ok(ToolResult::value(Green(1)))
}

/// Goes on only when another call is there.
pub(crate) async fn meet(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    cx.resource::<Floor>().await?.pair.wait().await;
    Ok(ToolResult::done("met"))
}

/// Changes what it can, at once.
pub(crate) async fn paint(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let floor = cx.resource::<Floor>().await?;
    floor.enter(cx);
    assert!(cx.session().dispatch(Green(1))?.is_ok());
    assert!(cx.session().dispatch(Trail(1))?.is_ok());
    cx.filesystem().await?.write_text("a", "painted").await?;
    floor.leave();
    Ok(ToolResult::done("painted"))
}

pub(crate) fn painting() -> Footprint {
    on_the_floor().write_slice::<Green>().write_slice::<Trail>().write_path("a")
}

/// Ends only when another call has run, of which nothing is to be seen yet.
pub(crate) async fn outlast(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let floor = cx.resource::<Floor>().await?;
    floor.enter(cx);
    floor.until_left().await;
    for _ in 0..5 {
        tokio::task::yield_now().await;
    }
    assert!(floor.session.slice::<Green>().is_empty());
    assert!(floor.session.slice::<Trail>().is_empty());
    Ok(ToolResult::done("outlasted"))
}

/// As [`outlast`], and ends the turn.
pub(crate) async fn end_the_turn(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = outlast((), cx).await?;
    Err(PromptEvaluationError { phase: Phase::Tool, message: "enough".to_owned(), deadline: None }.into())
}

/// Never ends.
pub(crate) async fn hang(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let floor = cx.resource::<Floor>().await?;
    floor.enter(cx);
    assert!(cx.session().dispatch(Green(1))?.is_ok());
    std::future::pending().await
}

pub(crate) struct House {
    pub(crate) session: Session,
    pub(crate) floor: Arc<Floor>,
    pub(crate) files: Arc<dyn Filesystem>,
    pub(crate) executor: Executor,
}

impl House {
    pub(crate) async fn new(section: Section) -> Self {
        Self::with(section, ExecutorLimits::default()).await
    }

    pub(crate) async fn with(section: Section, limits: ExecutorLimits) -> Self {
        let session = Session::new();
        let floor = Arc::new(Floor {
            now: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            entered: Mutex::default(),
            left: AtomicUsize::new(0),
            pair: Barrier::new(2),
            session: session.clone(),
        });
        let files: Arc<dyn Filesystem> = Arc::new(MemoryFilesystem::new());
        files.mkdir_all("there").await.unwrap();
        let resources = ResourceRegistry::of((
            Binding::filesystem(Arc::clone(&files)),
            Binding::instance(Arc::clone(&floor)),
            Binding::instance(Arc::new(Shared::new(0_u32))).snapshotable(),
            Binding::instance(Arc::new(String::from("not snapshotable"))),
        ))
        .unwrap();
        let prompt = PromptTemplate::builder("tests", "floor").section(section).build().unwrap().prompt();
        let builder = Executor::builder(&prompt, &session).resources(resources).limits(limits);
        let executor = builder.open().await.unwrap();
        Self { session, floor, files, executor }
    }

    /// One call of each of these, with ids 1, 2, 3…
    pub(crate) async fn batch(&self, tools: &[&str]) -> Vec<Outcome> {
        self.executor.batch(calls(tools)).await
    }

    /// How many of these two were on the floor at once.
    pub(crate) async fn together(first: impl IntoTool + 'static, second: impl IntoTool + 'static) -> usize {
        let house = Self::new(Section::tools("tools", "Tools").tool(first).tool(second)).await;
        for outcome in house.batch(&["first", "second"]).await {
            assert!(outcome.is_success(), "{}", outcome.text());
        }
        assert_eq!(house.floor.entered(), ["1", "2"]);
        house.floor.most.load(Ordering::Relaxed)
    }
}

pub(crate) fn calls(tools: &[&str]) -> Vec<ToolCall> {
    tools.iter().enumerate().map(|(at, tool)| ToolCall::new((at + 1).to_string(), *tool, "")).collect()
}
