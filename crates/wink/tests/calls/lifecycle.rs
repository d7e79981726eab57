//! How long resources live around calls, through the real executor.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use wink::executor::{Executor, ToolCall};
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry, Scope};
use wink::session::PromptRendered;
use wink::tool::VisibilityExpansionRequired;

/// What happened to instances, in order.
type Diary = Arc<Mutex<Vec<String>>>;

/// One instance, by number.
struct Desk(usize);
struct Lamp;

fn desks(diary: &Diary, scope: Scope) -> Binding<Desk> {
    let (opened, closed) = (Arc::clone(diary), Arc::clone(diary));
    let next = AtomicUsize::new(1);
    Binding::new(move |_| {
        let number = next.fetch_add(1, Ordering::SeqCst);
        opened.lock().unwrap().push(format!("open {number}"));
        Ok(Desk(number))
    })
    .scope(scope)
    .on_close(move |desk| {
        closed.lock().unwrap().push(format!("close {}", desk.0));
        async { Ok(()) }
    })
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Work {
    fail: bool,
}

async fn work(work: Work, cx: &mut ToolContext) -> Result<ToolResult<usize>, ToolError> {
    let desk = cx.resource::<Desk>().await?;
    let again = cx.resource::<Desk>().await?;
    assert!(Arc::ptr_eq(&desk, &again), "one instance within one call");
    match work.fail {
        true => Err(ToolError::new("tired")),
        false => Ok(ToolResult::value(desk.0)),
    }
}

fn prompt(binding: Binding<Desk>) -> Prompt {
    let section = Section::tools("office", "Office").tool(Tool::new("work", "Work.", work)).resource(binding);
    PromptTemplate::builder("tests", "lifecycle").section(section).build().unwrap().prompt()
}

async fn do_work(executor: &Executor, fail: bool) -> Option<usize> {
    executor.call(ToolCall::new("1", "work", format!("{{\"fail\":{fail}}}"))).await.value()
}

fn entries(diary: &Diary) -> Vec<String> {
    diary.lock().unwrap().clone()
}

// case 131
#[tokio::test]
async fn a_tool_call_scope_lives_for_one_call() {
    let diary = Diary::default();
    let executor = Executor::open(&prompt(desks(&diary, Scope::ToolCall)), &Session::new()).await.unwrap();
    assert_eq!(do_work(&executor, false).await, Some(1));
    assert_eq!(entries(&diary), ["open 1", "close 1"]);
    assert_eq!(do_work(&executor, true).await, None);
    assert_eq!(entries(&diary), ["open 1", "close 1", "open 2", "close 2"], "closed after a failure too");
    assert_eq!(do_work(&executor, false).await, Some(3));
    executor.close().await.unwrap();
    assert_eq!(entries(&diary).len(), 6);
}

#[tokio::test]
async fn a_singleton_lives_as_long_as_the_executor_that_opened_it() {
    let diary = Diary::default();
    let executor = Executor::open(&prompt(desks(&diary, Scope::Singleton)), &Session::new()).await.unwrap();
    assert_eq!(do_work(&executor, true).await, None);
    assert_eq!(entries(&diary), ["open 1", "close 1"], "built in a call that failed: gone with it");
    assert_eq!(do_work(&executor, false).await, Some(2));
    assert_eq!(do_work(&executor, false).await, Some(2));
    assert_eq!(do_work(&executor, true).await, None);
    assert_eq!(entries(&diary), ["open 1", "close 1", "open 2"]);
    executor.close().await.unwrap();
    assert_eq!(entries(&diary), ["open 1", "close 1", "open 2", "close 2"]);
}

// case 136
#[tokio::test]
async fn resources_of_later_layers_win() {
    #[derive(Clone, Copy)]
    struct Layer(&'static str);
    async fn which(_: (), cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
        Ok(ToolResult::value(cx.resource::<Layer>().await?.0.to_owned()))
    }
    let layers = ["template", "section", "child", "adapter", "loop", "bind", "request"];
    for top in 0..layers.len() {
        let one =
            |at: usize| ResourceRegistry::of((Binding::instance(Arc::new(Layer(layers[at]))),)).unwrap();
        let layer = |at: usize| if at <= top { one(at) } else { ResourceRegistry::default() };
        let child =
            Section::tools("child", "Child").resources(layer(2)).tool(Tool::new("which", "Which?", which));
        let section = Section::tools("parent", "Parent").resources(layer(1)).child(child);
        let template =
            PromptTemplate::builder("tests", "layers").resources(layer(0)).section(section).build().unwrap();
        let prompt = template.binding().resources(layer(5)).build().unwrap();
        let executor = Executor::builder(&prompt, &Session::new())
            .adapter_resources(layer(3))
            .loop_resources(layer(4))
            .resources(layer(6))
            .open()
            .await
            .unwrap();
        assert_eq!(executor.call(ToolCall::new("1", "which", "")).await.text(), layers[top]);
    }
}

// case 137
#[tokio::test]
async fn resources_that_the_caller_opened_live_until_the_caller_closes_them() {
    let diary = Diary::default();
    let prompt = prompt(desks(&diary, Scope::Singleton));
    let resources = prompt.resources().open().await.unwrap();
    for _ in 0..2 {
        let executor =
            Executor::builder(&prompt, &Session::new()).opened(resources.clone()).open().await.unwrap();
        assert_eq!(do_work(&executor, false).await, Some(1));
        executor.close().await.unwrap();
    }
    assert_eq!(entries(&diary), ["open 1"]);
    assert_eq!(resources.get::<Desk>().await.unwrap().0, 1);
    resources.close().await.unwrap();
    assert_eq!(entries(&diary), ["open 1", "close 1"]);
}

// case 138
#[tokio::test]
async fn an_instance_from_outside_is_never_closed() {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let outside = Arc::new(Counted(Arc::clone(&dropped)));
    let diary = Diary::default();
    let prompt = prompt(desks(&diary, Scope::ToolCall))
        .binding()
        .resources(
            ResourceRegistry::of((Binding::instance(Arc::clone(&outside)), Binding::new(|_| Ok(Lamp))))
                .unwrap(),
        )
        .build()
        .unwrap();
    let executor = Executor::open(&prompt, &Session::new()).await.unwrap();
    assert_eq!(do_work(&executor, false).await, Some(1));
    let held = executor.resources().get::<Counted>().await.unwrap();
    assert!(Arc::ptr_eq(&held, &outside));
    drop(held);
    executor.close().await.unwrap();
    drop(prompt);
    assert_eq!((dropped.load(Ordering::SeqCst), Arc::strong_count(&outside)), (0, 1));
}

#[tokio::test]
async fn the_log_says_what_the_model_sees_whenever_that_changes() {
    async fn nothing(_: (), _: &mut ToolContext) -> ToolResult<()> {
        ToolResult::done("")
    }
    let manual = Section::markdown("manual", "Manual")
        .body("All of it.")
        .summary("A manual.")
        .visibility(Visibility::Summary)
        .tool(Tool::new("leaf", "Turns a page.", nothing));
    let section = Section::tools("tools", "Tools").tool(Tool::new("look", "Looks.", nothing));
    let template = PromptTemplate::builder("tests", "seen").section(section).section(manual).build().unwrap();
    let (prompt, session) = (template.prompt(), Session::new());
    let executor = Executor::open(&prompt, &session).await.unwrap();
    // Rendering alone says nothing, and what was seen already is not said again.
    let closed = prompt.render(&session).unwrap().shared_text();
    let again = Executor::open(&prompt, &session).await.unwrap();
    again.refresh().unwrap();
    let keys = vec!["manual".to_owned()];
    let asked = VisibilityExpansionRequired { keys, reason: "to look it up".to_owned() };
    let open = executor.expand(&asked).unwrap().shared_text();
    again.refresh().unwrap();
    let latest = session.slice::<PromptRendered>().latest().unwrap();
    let seen = |text: &Arc<str>, tools: &[&str]| PromptRendered {
        id: latest.id,
        run: Arc::default(),
        prompt: "tests/seen".into(),
        time: latest.time,
        text: Arc::clone(text),
        tools: tools.iter().map(|tool| (*tool).into()).collect(),
    };
    let log: Vec<_> = session
        .slice::<PromptRendered>()
        .iter()
        .map(|event| PromptRendered { id: latest.id, time: latest.time, ..PromptRendered::clone(&event) })
        .collect();
    assert_eq!(
        log,
        [seen(&closed, &["look", "open_sections", "read_section"]), seen(&open, &["look", "leaf"])]
    );
    assert_ne!(closed, open);
}
