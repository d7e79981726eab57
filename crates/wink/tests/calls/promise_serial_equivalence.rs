//! Promise: several calls in one response look as if run in order, and overlap where nobody can tell.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

mod floor;
mod model;
mod program;
mod world;

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::task::Poll;
use std::time::Duration;

use floor::{
    Floor, House, calls, end_the_turn, hang, meet, on_the_floor, outlast, paint, painting, stay, stay_green,
};
use model::{Made, Model, Seen};
use program::{End, Op, PATHS, Program, SLICES, Verb};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use wink::executor::ExecutorLimits;
use wink::filesystem::{Filesystem, FilesystemExt, FsLimits, FsPath, MemoryFilesystem};
use wink::ledger::IdempotencyConfig;
use wink::prelude::*;
use wink::resource::{Binding, Resolver, ResourceRegistry, Scope, Shared};
use wink::session::{Ending, ToolInvoked};
use wink::testing::{ByteStore, filesystem_tree};
use world::{Blue, Green, NAMES, Red, Setting, Trail, World};

/// What is said to arguments that are no JSON.
const BROKEN: &str =
    "The arguments are not valid JSON: expected a key in double quotes, got `oops` at line 1 column 2.";

static PROMPT: LazyLock<Prompt> = LazyLock::new(world::prompt);

const CASES: u32 = 1_000;
const BATCHES: usize = 10;
/// Every batch is followed by a new process.
const STORED_CASES: u32 = 100;
const STORED_BATCHES: usize = 5;

fn made() -> impl Strategy<Value = Made> {
    let program = prop_oneof![30 => program::program().prop_map(Some), 1 => Just(None)];
    // Ids repeat within a batch now and then.
    (0..24_u32, 0..NAMES.len(), program).prop_map(|(id, tool, program)| Made {
        id: format!("call-{id}"),
        tool: NAMES[tool],
        program,
    })
}

// cases 50, 51
#[test]
fn batches_come_to_what_calls_in_order_come_to() {
    let met = compare(CASES, BATCHES, || None);
    assert!(met > 5_000, "handlers that hardly ever overlap ({met} times) prove little");
}

// cases 50, 51
#[test]
fn batches_come_to_the_same_on_bytes_that_are_opened_again_after_each() {
    let met = compare(STORED_CASES, STORED_BATCHES, || Some(Arc::new(ByteStore::new())));
    assert!(met > 250, "handlers that hardly ever overlap ({met} times) prove little");
}

/// Runs batches beside the model; says how often handlers overlapped.
fn compare(cases: u32, batches: usize, store: fn() -> Option<Arc<ByteStore>>) -> usize {
    let batches = proptest::collection::vec(proptest::collection::vec(made(), 1..8), batches);
    let setting = (prop_oneof![Just(64_usize), 1..5_usize], any::<bool>())
        .prop_map(|(at_once, dawdles)| Setting { at_once, dawdles });
    let config = Config { cases, max_shrink_iters: 2_000, failure_persistence: None, ..Config::default() };
    let met = AtomicUsize::new(0);
    TestRunner::new(config)
        .run(&(batches, setting), |(batches, setting)| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            runtime.block_on(async {
                let mut model = Model::default();
                let mut world = World::on(&PROMPT, setting, store()).await;
                for calls in &batches {
                    let expected = model.batch(calls);
                    prop_assert_eq!(world.batch(calls).await, expected, "answers");
                    world.reopen().await;
                    prop_assert_eq!(world.state().await, model.state.clone(), "slices and files");
                    prop_assert_eq!(world.trail(), model.trail.clone(), "LOG events");
                    prop_assert_eq!(&*world.outside.effects.lock().unwrap(), &model.outside, "outside");
                }
                prop_assert_eq!(world.log(), model.log, "the log");
                met.fetch_add(world.outside.met.load(Ordering::Relaxed), Ordering::Relaxed);
                Ok(())
            })
        })
        .unwrap();
    met.into_inner()
}

fn op(verb: Verb, on: usize, value: i64) -> Op {
    Op { verb, on, value }
}

fn call(id: &str, tool: &'static str, ops: impl Into<Vec<Op>>, end: End) -> Made {
    Made { id: id.to_owned(), tool, program: Some(Program { ops: ops.into(), end }) }
}

fn seen(id: &str, tool: &str, text: &str, ending: &'static str) -> Seen {
    Seen { id: id.to_owned(), tool: tool.to_owned(), text: text.to_owned(), ending }
}

// case 50
#[tokio::test]
async fn an_unknown_tool_stops_nothing_and_an_escalation_stops_the_rest() {
    for tool in ["declared", "bare"] {
        let world = World::new(&PROMPT, 64).await;
        let push = |id, value| call(id, tool, [op(Verb::Push, 0, value)], End::Well);
        let unknown = call("2", "publish", [], End::Well);
        assert_eq!(
            world.batch(&[push("1", 1), unknown, push("3", 3)]).await,
            [
                seen("1", tool, "", "Succeeded"),
                seen("2", "publish", "Unknown tool 'publish'. Did you mean 'publishing'?", "Unavailable"),
                seen("3", tool, "", "Succeeded"),
            ]
        );
        assert_eq!(world.state().await.slices[0], [1, 3]);
        let escalating = call("2", tool, [op(Verb::Push, 0, 5)], End::Escalate);
        let stopped = format!("{tool} was stopped: enough; nothing was changed");
        let not_run = format!("not run: {tool} ended the turn before it");
        assert_eq!(
            world.batch(&[push("1", 4), escalating, push("3", 6)]).await,
            [
                seen("1", tool, "", "Succeeded"),
                seen("2", tool, &stopped, "Escalated"),
                seen("3", tool, &not_run, "NotRun"),
            ]
        );
        assert_eq!(world.state().await.slices[0], [1, 3, 4]);
    }
}

// case 51
#[tokio::test]
async fn a_call_sees_what_the_call_before_it_committed() {
    for tool in ["declared", "bare", "once", "publishing"] {
        let world = World::new(&PROMPT, 64).await;
        let change = [op(Verb::Push, 0, 7), op(Verb::Write, 2, 8)];
        let look = [op(Verb::Look, 0, 0), op(Verb::Read, 2, 0)];
        let answers =
            world.batch(&[call("1", tool, change, End::Well), call("2", tool, look, End::Well)]).await;
        assert_eq!(
            answers,
            [seen("1", tool, "", "Succeeded"), seen("2", tool, "red=[7];d/x=8", "Succeeded")]
        );
        assert_eq!(world.log(), answers);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_really_run_at_the_same_time() {
    let tool = Tool::new("meet", "Meet somebody.", meet).footprint(|()| on_the_floor());
    let house = House::new(Section::tools("tools", "Tools").tool(tool)).await;
    // Two that wait for each other end only if both are running. The paused clock moves when nothing else does.
    #[expect(clippy::disallowed_methods, reason = "whoever waits in vain would wait for ever")]
    let met = tokio::time::timeout(Duration::from_secs(1), house.batch(&["meet", "meet"])).await;
    let texts: Vec<_> = met.expect("they overlap").iter().map(|outcome| outcome.text().to_owned()).collect();
    assert_eq!(texts, ["met", "met"]);
}

#[tokio::test]
async fn calls_overlap_exactly_when_nobody_can_tell() {
    let f = on_the_floor;
    let rows: Vec<(&str, Footprint, Footprint, usize)> = vec![
        ("nothing", f(), f(), 2),
        ("two readers", f().read_slice::<Red>(), f().read_slice::<Red>(), 2),
        ("two slices", f().write_slice::<Red>(), f().write_slice::<Green>(), 2),
        ("two readers of a path", f().read_path("d"), f().read_path("d/x"), 2),
        ("two paths", f().write_path("a"), f().write_path("b"), 2),
        ("siblings", f().write_path("there/x"), f().write_path("there/y"), 2),
        ("deeper siblings", f().write_path("there/x/y"), f().read_path("there/z"), 2),
        ("readers of siblings", f().read_path("d/x"), f().read_path("d/y"), 2),
        ("writers in a directory to be made", f().write_path("d/x"), f().write_path("d/y"), 1),
        ("reader in a directory to be made", f().write_path("d/e/x"), f().read_path("d/y"), 1),
        ("one path begins like the other", f().write_path("d"), f().write_path("dd"), 2),
        ("slice and path", f().write_slice::<Red>(), f().write_path("a"), 2),
        ("a copied resource", f(), f().use_resource::<Shared<u32>>(), 2),
        ("after something lasting", f().outside(), f().write_path("a"), 2),
        ("two writers", f().write_slice::<Red>(), f().write_slice::<Red>(), 1),
        ("reader after writer", f().write_slice::<Red>(), f().read_slice::<Red>(), 1),
        ("writer after reader", f().read_slice::<Red>(), f().write_slice::<Red>(), 1),
        ("writers of a path", f().write_path("a"), f().write_path("./a"), 1),
        ("below a written path", f().write_path("d"), f().read_path("d/x"), 1),
        ("above a written path", f().write_path("d/x"), f().read_path("d"), 1),
        ("all files", f().write_path("d/x"), f().read_path(""), 1),
        ("no path at all", f().write_path("../x"), f(), 1),
        ("the filesystem itself", f().write_path("a"), f().share_resource::<dyn Filesystem>(), 1),
        ("two users", f().use_resource::<Shared<u32>>(), f().use_resource::<Shared<u32>>(), 1),
        ("a resource that stays changed", f(), f().use_resource::<String>(), 1),
        ("something lasting", f(), f().outside(), 1),
        ("history", f().read_history(), f(), 1),
        ("history after", f(), f().read_history(), 1),
        ("the log", f(), f().read_slice::<ToolInvoked>(), 1),
        ("everything", Footprint::everything(), f(), 1),
        ("everything after", f(), Footprint::everything(), 1),
    ];
    for (what, first, second, most) in rows {
        let tool = |name: &str, footprint: Footprint| {
            Tool::new(name, "Stay.", stay).footprint(move |()| footprint.clone())
        };
        assert_eq!(House::together(tool("first", first), tool("second", second)).await, most, "{what}");
    }

    let plain = |name: &str| Tool::new(name, "Stay.", stay).footprint(|()| on_the_floor());
    let bare = |name: &str| Tool::new(name, "Stay.", stay);
    assert_eq!(House::together(bare("first"), bare("second")).await, 1, "no footprint");
    assert_eq!(House::together(bare("first"), plain("second")).await, 1, "no footprint before");
    assert_eq!(House::together(plain("first"), bare("second")).await, 1, "no footprint after");
    let once = |name: &str| plain(name).idempotency(IdempotencyConfig::auto());
    assert_eq!(House::together(plain("first"), once("second")).await, 1, "an effect that counts");
    assert_eq!(House::together(once("first"), plain("second")).await, 2, "after an effect that counts");
    let green = |name: &str| Tool::new(name, "Stay.", stay_green).footprint(|()| on_the_floor()).publishes();
    assert_eq!(House::together(green("first"), green("second")).await, 1, "values for one slice");
    assert_eq!(House::together(green("first"), plain("second")).await, 2, "a value for a slice");
}

#[tokio::test]
async fn whoever_may_ask_knows_of_every_call_before_it() {
    let ask = [op(Verb::History, 0, 0), op(Verb::Log, 0, 0)];
    for tool in ["declared", "bare"] {
        let world = World::new(&PROMPT, 64).await;
        // The first touches nothing, and takes its time.
        let answers = world
            .batch(&[
                call("1", "declared", [], End::Well),
                call("2", "idle", [], End::Well),
                call("3", "publish", [], End::Well),
                call("4", tool, ask.clone(), End::Well),
            ])
            .await;
        assert_eq!(answers[3], seen("4", tool, "declared=1;log=3", "Succeeded"));
    }
}

#[tokio::test]
async fn commits_and_events_come_in_request_order() {
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("outlast", "Stay longer.", outlast).footprint(|()| on_the_floor()))
        .tool(Tool::new("paint", "Paint.", paint).footprint(|()| painting()));
    let house = House::new(section).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hearing = Arc::clone(&heard);
    house.session.dispatcher().subscribe::<ToolInvoked>(move |event, _| {
        hearing.lock().unwrap().push(event.call_id.to_string());
        Ok(())
    });
    let outcomes = house.batch(&["outlast", "paint", "missing"]).await;
    let texts: Vec<_> = outcomes.iter().map(|outcome| outcome.text().to_owned()).collect();
    assert_eq!(texts[..2], ["outlasted", "painted"]);
    assert_eq!(*heard.lock().unwrap(), ["1", "2"], "failures are recorded, not shown before");
    let log: Vec<_> =
        house.session.slice::<ToolInvoked>().iter().map(|event| event.call_id.to_string()).collect();
    assert_eq!(log, ["1", "2", "3"]);
}

#[tokio::test]
async fn what_overlapped_with_an_escalation_was_never_run() {
    let lasting = || on_the_floor().outside();
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("end_the_turn", "End it.", end_the_turn).footprint(|()| on_the_floor()))
        .tool(Tool::new("paint", "Paint.", paint).footprint(|()| painting()))
        .tool(Tool::new("lasting", "Do it for good.", stay).footprint(move |()| lasting()));
    let house = House::new(section).await;
    let outcomes = house.batch(&["end_the_turn", "paint", "lasting", "paint"]).await;
    let texts: Vec<_> = outcomes.iter().map(|outcome| outcome.text().to_owned()).collect();
    let not_run = "not run: end_the_turn ended the turn before it";
    assert_eq!(texts, ["end_the_turn was stopped: enough; nothing was changed", not_run, not_run, not_run]);
    assert_eq!(house.floor.entered(), ["1", "2"], "one overlapped; what lasts did not begin");
    assert!(house.session.slice::<Green>().is_empty());
    assert!(house.session.slice::<Trail>().is_empty(), "not even LOG");
    let there = BTreeMap::from([(FsPath::parse("there", &FsLimits::DEFAULT).unwrap(), None)]);
    assert_eq!(filesystem_tree(&*house.files).await, there);
    let endings: Vec<_> = house.session.slice::<ToolInvoked>().iter().map(|event| event.ending).collect();
    assert_eq!(endings, [Ending::Escalated, Ending::NotRun, Ending::NotRun, Ending::NotRun]);
    assert_eq!(house.session.total_calls(), 0);
}

#[tokio::test]
async fn what_a_footprint_does_not_name_cannot_be_touched() {
    let verbs = [
        Verb::Look,
        Verb::Push,
        Verb::Clear,
        Verb::Read,
        Verb::Write,
        Verb::Delete,
        Verb::DeleteAll,
        Verb::Mkdir,
        Verb::Rename,
        Verb::Trail,
        Verb::History,
        Verb::Log,
    ];
    for verb in verbs {
        for on in 0..SLICES.len().max(PATHS.len()) {
            let world = World::new(&PROMPT, 64).await;
            let (what, access) = op(verb, on, 1).undeclared().unwrap();
            let text = format!("{what} is outside the footprint that this tool declares ({access})");
            let answers = world.batch(&[call("1", "lying", [op(verb, on, 1)], End::Well)]).await;
            assert_eq!(answers, [seen("1", "lying", &text, "Errored")]);
            assert_eq!(world.state().await, model::State::default());
        }
    }
    // A resource neither; its own value goes where it goes.
    let resource = Tool::new("resource", "Use a resource.", stay).footprint(|()| Footprint::nothing());
    async fn give(_: (), _: &mut ToolContext) -> ToolResult<Blue> {
        ToolResult::value(Blue(3))
    }
    let value = Tool::new("value", "Give a value.", give).footprint(|()| Footprint::nothing()).publishes();
    let house = House::new(Section::tools("tools", "Tools").tool(resource).tool(value)).await;
    let outcomes = house.batch(&["resource", "value"]).await;
    let name = std::any::type_name::<Floor>();
    let text = format!("resource {name} is outside the footprint that this tool declares (read)");
    assert_eq!((outcomes[0].text(), outcomes[0].event.ending), (&*text, Ending::Errored));
    assert_eq!((outcomes[1].text(), house.session.slice::<Blue>().len()), ("3", 1));
}

/// A resource of one call that has the workspace.
struct Editor(Arc<dyn Filesystem>);

#[tokio::test]
async fn files_behind_a_resource_of_the_call_are_part_of_the_footprint() {
    async fn edit(_: (), cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
        let editor = cx.resource::<Editor>().await?;
        tokio::task::yield_now().await;
        let before = editor.0.exists_at("a").await?;
        editor.0.write_text("a", "edited").await?;
        Ok(ToolResult::done(format!("{before}")))
    }
    let hidden =
        Tool::new("hidden", "Edit.", edit).footprint(|()| Footprint::nothing().share_resource::<Editor>());
    let named = Tool::new("named", "Edit.", edit)
        .footprint(|()| Footprint::nothing().share_resource::<Editor>().share_resource::<dyn Filesystem>());
    let bare = Tool::new("bare", "Edit.", edit);
    let section = Section::tools("tools", "Tools").tool(hidden).tool(named).tool(bare);
    let prompt = PromptTemplate::builder("tests", "editor").section(section).build().unwrap().prompt();
    let files = Arc::new(MemoryFilesystem::new());
    let resources = ResourceRegistry::of((
        Binding::filesystem(files),
        Binding::with_async(|r: Resolver| async move { Ok(Editor(r.get().await?)) }).scope(Scope::ToolCall),
    ))
    .unwrap();
    let executor = Executor::builder(&prompt, &Session::new()).resources(resources).open().await.unwrap();
    let outcomes = executor.batch(calls(&["hidden", "named", "named", "bare", "hidden"])).await;
    let texts: Vec<_> = outcomes.iter().map(|outcome| outcome.text().to_owned()).collect();
    let outside = "filesystem is outside the footprint that this tool declares (read): a resource of the call asked \
                   for it; declare it with Footprint::share_resource or Footprint::use_resource";
    assert_eq!(texts, [outside, "false", "true", "true", outside]);
}

#[tokio::test]
async fn dropping_a_batch_records_one_event_for_every_call() {
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("hang", "Never end.", hang).footprint(|()| on_the_floor().write_slice::<Green>()))
        .tool(Tool::new("paint", "Paint.", paint).footprint(|()| painting()))
        .tool(Tool::new("stay", "Stay.", stay).footprint(|()| on_the_floor()));
    let house = House::new(section).await;
    let mut made = calls(&["stay", "hang", "stay", "paint", "missing", "stay"]);
    made[5].id = "1".into();
    {
        let mut batch = pin!(house.executor.batch(made));
        // Until all that can has run: the first is committed, the second hangs.
        for _ in 0..20 {
            poll_fn(|cx| {
                assert!(batch.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            tokio::task::yield_now().await;
        }
    }
    let log: Vec<_> = house
        .session
        .slice::<ToolInvoked>()
        .iter()
        .map(|event| (event.call_id.to_string(), event.tool.to_string(), event.ending))
        .collect();
    let expected = [
        ("1", "stay", Ending::Succeeded),
        ("2", "hang", Ending::Cancelled),
        ("3", "stay", Ending::Cancelled),
        ("4", "paint", Ending::Cancelled),
        ("5", "missing", Ending::Cancelled),
        ("1", "stay", Ending::Cancelled),
    ];
    assert_eq!(log, expected.map(|(id, tool, ending)| (id.to_owned(), tool.to_owned(), ending)));
    assert!(house.session.slice::<Green>().is_empty());
    assert_eq!(house.floor.entered(), ["1", "2", "3"]);
    assert!(house.batch(&["paint"]).await[0].is_success(), "the session goes on");
}

#[tokio::test]
async fn no_more_calls_at_once_than_allowed() {
    for (allowed, most) in [(0, 1), (1, 1), (2, 2), (64, 6)] {
        let tool = Tool::new("stay", "Stay.", stay).footprint(|()| on_the_floor());
        let limits = ExecutorLimits { max_calls_at_once: allowed, ..ExecutorLimits::default() };
        let house = House::with(Section::tools("tools", "Tools").tool(tool), limits).await;
        let outcomes = house.batch(&["stay"; 6]).await;
        assert!(outcomes.iter().all(|outcome| outcome.text() == "stayed"));
        assert_eq!(house.floor.most.load(Ordering::Relaxed), most, "{allowed} allowed");
        assert_eq!(house.floor.entered(), ["1", "2", "3", "4", "5", "6"]);
    }
}

/// Calls that are taken one at a time; what they cost is counted in `promise_flat_cost.rs`.
#[tokio::test]
async fn a_long_batch_comes_to_its_end() {
    let section = Section::tools("tools", "Tools").tool(Tool::new("stay", "Stay.", stay));
    let house = House::new(section).await;
    let outcomes = house.batch(&["stay"; 1_000]).await;
    assert!(outcomes.iter().all(|outcome| outcome.text() == "stayed"));
    assert_eq!(house.session.total_calls(), 1_000);
}
