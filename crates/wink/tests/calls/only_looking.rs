//! Those who only look change nothing: handlers with a read-only context, policies, feedback, dry runs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic when they fail"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use wink::BoxFuture;
use wink::executor::{Executor, Outcome, ToolCall};
use wink::feedback::{Feedback, StaticFeedback, Trigger};
use wink::filesystem::{DeleteMode, Filesystem, FilesystemExt, FsError, MemoryFilesystem};
use wink::policy::{Decision, PolicyCall, PolicyContext, ToolPolicy};
use wink::prelude::*;
use wink::resource::{Binding, BoxError, Resolver, ResourceRegistry, Scope, Shared};
use wink::session::Ending;
use wink::tool::IntoTool;

type Counter = Shared<u32>;

/// A resource of one call that has the workspace.
struct Editor {
    files: Arc<dyn Filesystem>,
}

struct World {
    files: Arc<MemoryFilesystem>,
    counter: Arc<Counter>,
    executor: Executor,
}

impl World {
    async fn new(tool: impl IntoTool) -> Self {
        let files = Arc::new(MemoryFilesystem::from_files([("a.txt", "old")]).unwrap());
        let counter = Arc::new(Counter::new(1));
        let resources = ResourceRegistry::of((
            Binding::filesystem(Arc::<MemoryFilesystem>::clone(&files)),
            Binding::instance(Arc::clone(&counter)).snapshotable(),
            Binding::with_async(async |resources: Resolver| {
                Ok(Editor { files: resources.get::<dyn Filesystem>().await? })
            })
            .scope(Scope::ToolCall),
        ))
        .unwrap();
        let prompt = prompt(Section::tools("tools", "Tools").tool(tool.into_tool().unwrap()));
        let executor = Executor::builder(&prompt, &Session::new()).resources(resources).open().await.unwrap();
        Self { files, counter, executor }
    }

    async fn call(&self) -> Outcome {
        self.executor.call(ToolCall::new("c", "look", "{}")).await
    }
}

fn prompt(section: Section) -> wink::prompt::Prompt {
    PromptTemplate::builder("tests", "looking").section(section).build().unwrap().prompt()
}

#[tokio::test]
async fn a_read_only_handler_cannot_write_files_however_it_gets_them() {
    async fn look(_: (), cx: &mut ReadContext) -> Result<ToolResult<()>, ToolError> {
        let editor = cx.resource::<Editor>().await?;
        for files in [cx.resource::<dyn Filesystem>().await?, Arc::clone(&editor.files)] {
            assert!(files.is_read_only());
            assert_eq!(files.read_text("a.txt").await?, "old");
            assert_eq!(files.write_text("a.txt", "new").await, Err(FsError::ReadOnly));
            assert_eq!(files.edit_text("a.txt", "old", "new").await, Err(FsError::ReadOnly));
            let (a, b) = (files.path("a.txt")?, files.path("b")?);
            assert_eq!(files.delete(&a, DeleteMode::Recursive).await, Err(FsError::ReadOnly));
            assert_eq!(files.mkdir(&b, Default::default()).await, Err(FsError::ReadOnly));
            assert_eq!(files.rename(&a, &b).await, Err(FsError::ReadOnly));
            assert_eq!(files.restore(&files.snapshot()?), Err(FsError::ReadOnly));
            let copy = files.fork()?;
            copy.write_text("a.txt", "new").await?;
            assert_eq!(files.merge(&*copy).err(), Some(FsError::ReadOnly));
        }
        Ok(ToolResult::done("looked"))
    }
    let world = World::new(Tool::new("look", "Looks.", look)).await;
    let outcome = world.call().await;
    assert_eq!(outcome.text(), "looked");
    assert_eq!(world.files.read_text("a.txt").await.unwrap(), "old");
}

#[tokio::test]
async fn what_a_read_only_handler_does_to_its_copies_fails_the_call() {
    async fn count(_: (), cx: &mut ReadContext) -> Result<ToolResult<()>, ToolError> {
        cx.resource::<Counter>().await?.update(|count| *count += 1);
        Ok(ToolResult::done("counted"))
    }
    async fn around(_: (), cx: &mut ReadContext) -> Result<ToolResult<()>, ToolError> {
        let files = cx.resource::<dyn Filesystem>().await?;
        let plain = files.as_any().downcast_ref::<MemoryFilesystem>().unwrap();
        plain.write_text("a.txt", "new").await?;
        Ok(ToolResult::done("written"))
    }
    fn blocking(_: (), cx: &mut ReadContext) -> Result<ToolResult<()>, ToolError> {
        cx.block_on(cx.resource::<Counter>())?.update(|count| *count += 1);
        Ok(ToolResult::done("counted"))
    }
    let tools: [(AnyTool, &str); 3] = [
        (Tool::new("look", "Looks.", count).into_tool().unwrap(), "Shared<u32>"),
        (Tool::new("look", "Looks.", around).into_tool().unwrap(), "filesystem"),
        (Tool::blocking("look", "Looks.", blocking).into_tool().unwrap(), "Shared<u32>"),
    ];
    for (tool, name) in tools {
        let world = World::new(tool).await;
        let outcome = world.call().await;
        assert_eq!(outcome.event.ending, Ending::NotCommitted);
        assert_eq!(
            outcome.text(),
            format!(
                "look was not committed: {name} was changed by a tool that may not: its handler takes a \
                 ReadContext and only looks; take a ToolContext to change something; nothing was changed"
            )
        );
        assert_eq!(
            (world.files.read_text("a.txt").await.unwrap().as_str(), *world.counter.read()),
            ("old", 1)
        );
    }
}

#[tokio::test]
async fn a_read_only_handler_that_only_looks_succeeds_whatever_others_change_meanwhile() {
    async fn look(_: (), cx: &mut ReadContext) -> Result<ToolResult<String>, ToolError> {
        let files = cx.resource::<dyn Filesystem>().await?;
        let outside = cx.resource::<Arc<MemoryFilesystem>>().await;
        assert!(outside.is_err());
        let count = *cx.resource::<Counter>().await?.read();
        Ok(ToolResult::value(format!("{} {count}", files.read_text("a.txt").await?)))
    }
    let world = World::new(Tool::new("look", "Looks.", look)).await;
    assert_eq!(world.call().await.text(), "old 1");
    world.files.write_text("a.txt", "new").await.unwrap();
    world.counter.update(|count| *count += 1);
    assert_eq!(world.call().await.text(), "new 2");
}

/// A workspace that a provider builds, and how often it was built and closed.
#[derive(Clone, Default)]
struct Lazy {
    built: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl Lazy {
    fn resources(&self) -> ResourceRegistry {
        let (built, closed) = (Arc::clone(&self.built), Arc::clone(&self.closed));
        let workspace = Binding::<dyn Filesystem>::of_trait(move |_| {
            built.fetch_add(1, Ordering::SeqCst);
            Ok(Arc::new(MemoryFilesystem::from_files([("a.txt", "old")])?))
        });
        let closing = workspace.on_close(move |_| {
            closed.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Ok(()))
        });
        ResourceRegistry::of((closing,)).unwrap()
    }

    /// How often the workspace was built and closed.
    fn counts(&self) -> (usize, usize) {
        (self.built.load(Ordering::SeqCst), self.closed.load(Ordering::SeqCst))
    }
}

/// Looks at the workspace, and answers as it was told.
struct Looking(Arc<Mutex<Decision>>);

impl ToolPolicy for Looking {
    fn kind(&self) -> &'static str {
        "looking"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        cx: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(async move {
            let path = cx.path("a.txt").await?.expect("a workspace");
            assert!(cx.stat(&path).await?.is_some());
            Ok(self.0.lock().unwrap().clone())
        })
    }
}

#[tokio::test]
async fn a_policys_look_leaves_nothing_unless_the_call_succeeds() {
    async fn ends(fail: Fail, _: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        match fail.fail {
            true => Err(ToolError::new("no")),
            false => Ok(ToolResult::done("done")),
        }
    }
    let lazy = Lazy::default();
    let answer = Arc::new(Mutex::new(Decision::deny("not now")));
    let section = Section::tools("tools", "Tools").tool(Tool::new("end", "Ends.", ends));
    let prompt = prompt(section.policy(Looking(Arc::clone(&answer))));
    let executor =
        Executor::builder(&prompt, &Session::new()).resources(lazy.resources()).open().await.unwrap();
    let call =
        async |arguments: &str| executor.call(ToolCall::new("c", "end", arguments)).await.text().to_owned();
    let there = || executor.resources().ready::<dyn Filesystem>().unwrap().is_some();

    assert_eq!(call("{}").await, "not now");
    assert_eq!((lazy.counts(), there()), ((1, 1), false));
    *answer.lock().unwrap() = Decision::Ask("really?".to_owned());
    assert_eq!(call("{}").await, "end needs approval, and nobody can be asked: really?");
    assert_eq!((lazy.counts(), there()), ((2, 2), false));
    assert!(!executor.dry_run(ToolCall::new("c", "end", "{}")).await.would_run());
    assert_eq!((lazy.counts(), there()), ((3, 3), false));
    *answer.lock().unwrap() = Decision::Allow;
    assert_eq!(call(r#"{"fail": true}"#).await, "no");
    assert_eq!((lazy.counts(), there()), ((4, 4), false));
    assert_eq!(call("{}").await, "done");
    assert_eq!((lazy.counts(), there()), ((5, 4), true));
    assert_eq!(call(r#"{"fail": true}"#).await, "no");
    assert_eq!((lazy.counts(), there()), ((5, 4), true));
}

#[tokio::test]
async fn feedback_that_looks_for_files_leaves_nothing_after_a_failed_call() {
    async fn ends(fail: Fail, _: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        match fail.fail {
            true => Err(ToolError::new("no")),
            false => Ok(ToolResult::done("done")),
        }
    }
    let lazy = Lazy::default();
    let prompt = prompt(Section::tools("tools", "Tools").tool(Tool::new("end", "Ends.", ends)));
    let executor = Executor::builder(&prompt, &Session::new())
        .resources(lazy.resources())
        .feedback(Trigger::file("missing.txt"), StaticFeedback::new("note", Feedback::info("there")))
        .open()
        .await
        .unwrap();
    let there = || executor.resources().ready::<dyn Filesystem>().unwrap().is_some();

    assert!(!executor.call(ToolCall::new("c", "end", r#"{"fail": true}"#)).await.is_success());
    assert_eq!((lazy.counts(), there()), ((1, 1), false));
    assert!(executor.call(ToolCall::new("c", "end", "{}")).await.is_success());
    assert_eq!((lazy.counts(), there()), ((2, 1), true));
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Fail {
    #[serde(default)]
    fail: bool,
}
