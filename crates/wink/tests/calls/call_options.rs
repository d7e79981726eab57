//! What one call has of its own: whom it asks and tells, and which request it is.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wink::executor::{Approval, CallOptions, Executor, Outcome, ToolCall, approver_fn};
use wink::filesystem::host::{HostFilesystem, HostOptions};
use wink::filesystem::{Filesystem, MemoryFilesystem};
use wink::ledger::{EffectLedger, IdempotencyConfig};
use wink::limits::CancelToken;
use wink::policy::ApprovalPolicy;
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry};
use wink::session::{Ending, InvocationId};
use wink::store::{Rows, Store};
use wink::testing::{ByteStore, FakeClock};
use wink::tool::context::Progress;
use wink::tool::{Annotations, Footprint};

/// How often something was done outside.
#[derive(Default)]
struct Done(AtomicUsize);

#[data]
struct Params {
    what: String,
}

async fn act(params: Params, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    cx.progress(1.0, Some(2.0), "half of it");
    let times = cx.resource::<Done>().await?.0.fetch_add(1, Ordering::SeqCst) + 1;
    Ok(ToolResult::ok(format!("{} {times}", params.what), "done"))
}

async fn look(params: Params, cx: &mut ReadContext) -> Result<ToolResult<String>, ToolError> {
    let times = cx.resource::<Done>().await?.0.fetch_add(1, Ordering::SeqCst) + 1;
    Ok(ToolResult::value(format!("{} {times}", params.what)))
}

async fn wait(_: Params, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    cx.resource::<Done>().await?.0.fetch_add(1, Ordering::SeqCst);
    std::future::pending().await
}

/// What can be written, and not read again.
#[data]
#[derive(Clone)]
struct OneWay {
    #[serde(serialize_with = "as_text")]
    number: u64,
}

fn as_text<S: serde::Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&number.to_string())
}

async fn one_way(_: Params, cx: &mut ToolContext) -> Result<ToolResult<OneWay>, ToolError> {
    let times = cx.resource::<Done>().await?.0.fetch_add(1, Ordering::SeqCst) + 1;
    Ok(ToolResult::ok(OneWay { number: times as u64 }, "done"))
}

struct World {
    executor: Executor,
    done: Arc<Done>,
}

impl World {
    async fn new() -> Self {
        let done = Arc::new(Done::default());
        let inside = Annotations { open_world: false, ..Annotations::default() };
        let section = Section::tools("all", "All")
            .tool(Tool::new("act", "Does it.", act))
            .tool(Tool::new("ask", "Does it when somebody says so.", act))
            .tool(Tool::new("look", "Looks.", look))
            .tool(Tool::new("wait", "Begins and never ends.", wait))
            .tool(Tool::new("hang", "Begins inside and never ends.", wait).annotations(inside))
            .tool(
                Tool::new("hang_once", "Begins once and never ends.", wait)
                    .annotations(inside)
                    .idempotency(IdempotencyConfig::auto()),
            )
            .tool(Tool::new("one_way", "Has a value that cannot be read again.", one_way))
            .tool(Tool::new("pay", "Does it once.", act).idempotency(IdempotencyConfig::auto()))
            .policy(ApprovalPolicy::new(["ask"]));
        let prompt = PromptTemplate::builder("tests", "options").section(section).build().unwrap().prompt();
        let resources = ResourceRegistry::of((Binding::instance(Arc::clone(&done)),)).unwrap();
        let nobody = approver_fn(async |_| {
            Ok(Approval::Refused { by: "the executor".into(), reason: "no".to_owned() })
        });
        let executor = Executor::builder(&prompt, &Session::new())
            .resources(resources)
            .approver(Arc::new(nobody))
            .open()
            .await
            .unwrap();
        Self { executor, done }
    }

    fn times(&self) -> usize {
        self.done.0.load(Ordering::SeqCst)
    }

    async fn call(&self, tool: &str, what: &str, key: Option<&str>) -> Outcome {
        let mut call = ToolCall::new("x", tool, format!(r#"{{"what":"{what}"}}"#));
        if let Some(key) = key {
            call = call.request_key(key);
        }
        self.executor.call(call).await
    }
}

#[tokio::test]
async fn a_call_asks_whom_it_was_told_to_ask() {
    let world = World::new().await;
    assert_eq!(world.call("ask", "a", None).await.text(), "ask was not approved by the executor: no");
    let mine = approver_fn(async |_| Ok(Approval::Approved { by: "me".into() }));
    let call = ToolCall::new("x", "ask", r#"{"what":"a"}"#);
    let outcome = world.executor.call_with(call, CallOptions::new().approver(Arc::new(mine))).await;
    assert_eq!((outcome.text(), &*outcome.event.approvers), ("done\n\na 1", &["me".into()][..]));
}

#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Progress for Told {
    fn progress(&self, _: InvocationId, done: f64, total: Option<f64>, message: &str) {
        self.0.lock().unwrap().push(format!("{done} {total:?} {message}"));
    }

    fn partial(&self, _: InvocationId, _: &str) {}
}

#[tokio::test]
async fn a_call_tells_whom_it_was_told_to_tell() {
    let world = World::new().await;
    let told = Arc::new(Told::default());
    let call = || ToolCall::new("x", "act", r#"{"what":"a"}"#);
    let _ = world.executor.call_with(call(), CallOptions::new().progress(told.clone())).await;
    let _ = world.executor.call(call()).await;
    assert_eq!(*told.0.lock().unwrap(), ["1 Some(2.0) half of it"]);
}

async fn take_long(_: Params, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    let clock = Arc::clone(cx.clock());
    cx.telling(clock.sleep_until(clock.monotonic() + Duration::from_millis(3500))).await;
    Ok(ToolResult::ok("x".to_owned(), "done"))
}

#[tokio::test]
async fn work_that_cannot_say_how_far_it_is_says_every_second_that_it_goes_on() {
    let clock = Arc::new(FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap()));
    let section = Section::tools("all", "All").tool(Tool::new("take_long", "Takes long.", take_long));
    let prompt = PromptTemplate::builder("tests", "options").section(section).build().unwrap().prompt();
    let session = Session::builder().clock(Arc::clone(&clock) as _).build();
    let executor = Executor::open(&prompt, &session).await.unwrap();
    let told = Arc::new(Told::default());
    let call = ToolCall::new("x", "take_long", r#"{"what":"a"}"#);
    let mut calling = std::pin::pin!(executor.call_with(call, CallOptions::new().progress(told.clone())));
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut calling => break outcome,
            () = tokio::task::yield_now() => clock.advance(Duration::from_millis(500)),
        }
    };
    assert_eq!(outcome.text(), "done\n\nx");
    let told = told.0.lock().unwrap();
    assert_eq!(*told, ["1 None running for 1 s", "2 None running for 2 s", "3 None running for 3 s"]);
}

#[tokio::test]
async fn a_call_can_be_cancelled_alone() {
    let world = World::new().await;
    let cancel = CancelToken::new();
    cancel.cancel();
    let call = ToolCall::new("x", "act", r#"{"what":"a"}"#);
    let outcome = world.executor.call_with(call.clone(), CallOptions::new().cancel(cancel)).await;
    assert_eq!((outcome.event.ending, world.times()), (Ending::Cancelled, 0));
    assert!(world.executor.call(call).await.is_success());
}

#[tokio::test]
async fn a_request_that_is_sent_again_is_done_once() {
    let world = World::new().await;
    let first = world.call("act", "a", Some("k")).await;
    let again = world.call("act", "a", Some("k")).await;
    assert_eq!((first.text(), again.text()), ("done\n\na 1", "done\n\na 1"));
    assert_eq!((first.event.replayed, again.event.replayed, world.times()), (false, true, 1));
    assert_eq!(again.value::<String>().as_deref(), Some("a 1"));
    // Another key, other arguments, another tool, no key: another request.
    for (tool, what, key) in
        [("act", "a", Some("l")), ("act", "b", Some("k")), ("look", "a", Some("k")), ("act", "a", None)]
    {
        let before = world.times();
        assert!(!world.call(tool, what, key).await.event.replayed);
        assert_eq!(world.times(), before + 1);
    }
}

#[tokio::test]
async fn a_tool_that_only_reads_is_read_again() {
    let world = World::new().await;
    assert_eq!(world.call("look", "a", Some("k")).await.text(), "a 1");
    assert_eq!(world.call("look", "a", Some("k")).await.text(), "a 2");
}

#[tokio::test]
async fn a_tool_that_says_what_counts_is_taken_at_its_word() {
    let world = World::new().await;
    let _ = world.call("pay", "a", Some("k")).await;
    assert!(world.call("pay", "a", Some("l")).await.event.replayed);
    assert_eq!(world.times(), 1);
}

#[tokio::test]
async fn a_value_that_cannot_be_read_again_is_kept_as_the_model_saw_it() {
    let world = World::new().await;
    let first = world.call("one_way", "a", Some("k")).await;
    assert!(first.is_success(), "{}", first.text());
    let again = world.call("one_way", "a", Some("k")).await;
    assert_eq!((again.text(), again.event.replayed, world.times()), (first.text(), true, 1));
}

/// Stops a request, and sends it again: how both tries ended and what the first one was told, how often it was begun, and how
/// many entries are left in doubt.
async fn stopped_and_sent_again(tool: &str) -> ([Ending; 2], String, usize, usize) {
    let world = World::new().await;
    let call = ToolCall::new("x", tool, r#"{"what":"a"}"#).request_key("k");
    let mut outcomes = Vec::new();
    for tries in 1..=2 {
        let cancel = CancelToken::new();
        let running = world.executor.call_with(call.clone(), CallOptions::new().cancel(cancel.clone()));
        let stopping = async {
            // One that is not begun again ends by itself.
            for _ in 0..100 {
                if world.times() < tries {
                    tokio::task::yield_now().await;
                }
            }
            cancel.cancel();
        };
        outcomes.push(tokio::join!(running, stopping).0);
    }
    let endings = [outcomes[0].event.ending, outcomes[1].event.ending];
    let session = world.executor.session();
    let ledger = EffectLedger::new(Arc::clone(session.store()), Arc::clone(session.clock()));
    let in_doubt = ledger.in_doubt().await.unwrap();
    (endings, outcomes[0].text().to_owned(), world.times(), in_doubt.len())
}

#[tokio::test]
async fn a_request_whose_first_try_was_stopped_is_not_done_again() {
    let told = "wait was cancelled; what it did here was undone, and whether its effect outside happened is not known";
    let came = stopped_and_sent_again("wait").await;
    assert_eq!(came, ([Ending::Cancelled, Ending::InDoubt], told.to_owned(), 1, 1));
}

#[tokio::test]
async fn what_reaches_nothing_outside_leaves_no_doubt() {
    let told = "hang was cancelled; nothing was changed";
    let came = stopped_and_sent_again("hang").await;
    assert_eq!(came, ([Ending::Cancelled, Ending::Cancelled], told.to_owned(), 2, 0));
}

#[tokio::test]
async fn a_config_holds_whatever_a_tool_says_of_its_reach() {
    let came = stopped_and_sent_again("hang_once").await;
    assert_eq!((came.0, came.2, came.3), ([Ending::Cancelled, Ending::InDoubt], 1, 1));
}

#[data]
#[derive(Clone)]
struct Memo {
    text: String,
}
impl SliceType for Memo {
    const NAME: &'static str = "memo";
}

/// How often a handler got so far that it never ends.
static REMEMBERED: AtomicUsize = AtomicUsize::new(0);

async fn remember(params: Params, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let _ = cx.session().dispatch(Memo { text: params.what })?;
    REMEMBERED.fetch_add(1, Ordering::SeqCst);
    std::future::pending().await
}

async fn until_remembered(times: usize) {
    while REMEMBERED.load(Ordering::SeqCst) < times {
        tokio::task::yield_now().await;
    }
}

fn memo() -> Footprint {
    Footprint::nothing().write_slice::<Memo>()
}

/// Its key is released when it is stopped, here and with its process, if it says that it does not reach outside, and what it
/// touches is in memory and enforced.
#[tokio::test]
async fn a_tool_with_a_key_that_touches_nothing_but_memory_leaves_no_doubt() {
    let inside = Annotations { open_world: false, ..Annotations::default() };
    let dir = tempfile::tempdir().unwrap();
    let on_disk: Arc<dyn Filesystem> =
        Arc::new(HostFilesystem::open(dir.path(), HostOptions::default()).unwrap());
    let in_memory: Arc<dyn Filesystem> = Arc::new(MemoryFilesystem::new());
    type Case<'a> = (&'a str, Annotations, fn() -> Footprint, &'a Arc<dyn Filesystem>, usize);
    let cases: [Case<'_>; 7] = [
        ("slices", inside, memo, &on_disk, 0),
        ("history", inside, || memo().read_history(), &on_disk, 0),
        ("files in memory", inside, || memo().write_path("a"), &in_memory, 0),
        ("files on disk", inside, || memo().write_path("a"), &on_disk, 1),
        ("a resource", inside, || memo().share_resource::<Done>(), &in_memory, 1),
        ("everything", inside, Footprint::everything, &in_memory, 1),
        ("outside", Annotations::default(), memo, &in_memory, 1),
    ];
    for (name, annotations, footprint, files, doubts) in cases {
        let tool = Tool::new("remember", "Begins and never ends.", remember)
            .annotations(annotations)
            .footprint(move |_| footprint())
            .idempotency(IdempotencyConfig::auto());
        let section = Section::tools("all", "All").tool(tool);
        let prompt = PromptTemplate::builder("tests", "memory").section(section).build().unwrap().prompt();
        let store = Arc::new(ByteStore::new());
        let session = Session::builder().id("s").store(Arc::clone(&store) as _).open().await.unwrap();
        session.know::<Memo>().unwrap();
        let resources = ResourceRegistry::of([Binding::filesystem(Arc::clone(files))]).unwrap();
        let executor = Executor::builder(&prompt, &session).resources(resources).open().await.unwrap();
        let call = || ToolCall::new("x", "remember", r#"{"what":"a"}"#);
        let ledger =
            |store: &Arc<ByteStore>| EffectLedger::new(Arc::clone(store) as _, Arc::clone(session.clock()));

        let (cancel, before) = (CancelToken::new(), REMEMBERED.load(Ordering::SeqCst));
        let running = executor.call_with(call(), CallOptions::new().cancel(cancel.clone()));
        let stopping = async {
            until_remembered(before + 1).await;
            let dead = Arc::new(store.reopen().unwrap());
            cancel.cancel();
            dead
        };
        let (outcome, dead) = tokio::join!(running, stopping);
        assert_eq!(outcome.event.ending, Ending::Cancelled, "{name}");
        assert_eq!(outcome.text().contains("nothing was changed"), doubts == 0, "{name}: {}", outcome.text());
        for (store, how) in [(&store, "cancelled"), (&dead, "its process died")] {
            assert_eq!(ledger(store).in_doubt().await.unwrap().len(), doubts, "{name}: {how}");
            let rows = store.rows(Rows::All).await.unwrap();
            assert_eq!(rows.len(), doubts, "{name}: {how}: {rows:?}");
        }
        assert!(session.slice::<Memo>().all().is_empty(), "{name}");
    }
}

#[test]
fn every_tool_that_a_session_can_come_to_offer() {
    let open = || Section::tools("open", "Open").tool(Tool::new("act", "Does it.", act));
    let closed = Section::markdown("closed", "Closed")
        .summary("More.")
        .visibility(Visibility::Summary)
        .tool(Tool::new("look", "Looks.", look));
    let names = |sections: Vec<Section>| -> Vec<String> {
        let template = PromptTemplate::builder("tests", "tools");
        let template = sections.into_iter().fold(template, |template, section| template.section(section));
        template.build().unwrap().prompt().possible_tools().map(|placed| placed.name().to_string()).collect()
    };
    assert_eq!(names(vec![open()]), ["act"]);
    assert_eq!(names(vec![open(), closed]), ["act", "look", "open_sections", "read_section"]);
}
