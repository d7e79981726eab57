//! Policies at work: which calls run, in which order policies are asked, and what a denied call leaves.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use wink::BoxFuture;
use wink::executor::{Approval, ApprovalRequest, Approver, Executor, Outcome, ToolCall};
use wink::filesystem::{Filesystem, FilesystemExt, MemoryFilesystem};
use wink::policy::{
    AllOf, ApprovalPolicy, Decision, FnPolicy, Not, PolicyCall, PolicyContext, PolicyMemory, QuotaPolicy,
    ReadBeforeWritePolicy, ResultView, SequentialDependencyPolicy, ToolPolicy, policy_fn,
};
use wink::prelude::*;
use wink::prompt::{PromptTemplate, PromptTemplateBuilder, Section};
use wink::resource::{Binding, BoxError};
use wink::session::{Ending, LoggedAnswer, ToolInvoked};
use wink::testing::ByteStore;

/// What a handler of these tests leaves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Ran {
    tool: String,
}

impl SliceType for Ran {
    const NAME: &'static str = "tests.ran";
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct Plain {
    /// Whether the handler reports a failure.
    #[serde(default)]
    fail: bool,
}

/// A tool that says that it ran, and fails when told to.
fn plain(name: &str) -> Tool<Plain, ()> {
    Tool::new(name, "Does it", async |params: Plain, cx: &mut ToolContext| {
        let tool = cx.tool().name().to_string();
        let dispatched = cx.session().dispatch(Ran { tool })?;
        assert!(dispatched.is_ok());
        match params.fail {
            true => Ok(ToolResult::error("failed as told")),
            false => Ok::<_, ToolError>(ToolResult::ok((), "done")),
        }
    })
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct AtPath {
    path: String,
}

fn read_file() -> Tool<AtPath, String> {
    Tool::new("read_file", "Reads a file", async |params: AtPath, cx: &mut ReadContext| {
        Ok::<_, ToolError>(ToolResult::value(cx.filesystem().await?.read_text(&params.path).await?))
    })
    .footprint(|params| Footprint::nothing().read_path(&params.path))
}

fn write_file() -> Tool<AtPath, ()> {
    Tool::new("write_file", "Writes a file", async |params: AtPath, cx: &mut ToolContext| {
        cx.filesystem().await?.write_text(&params.path, "written").await?;
        Ok::<_, ToolError>(ToolResult::ok((), "written"))
    })
    .footprint(|params| Footprint::nothing().write_path(&params.path))
}

fn template() -> PromptTemplateBuilder {
    PromptTemplate::builder("tests", "policies")
}

async fn open(template: PromptTemplateBuilder) -> Executor {
    Executor::open(&template.build().unwrap().prompt(), &Session::new()).await.unwrap()
}

async fn call(executor: &Executor, tool: &str, arguments: Value) -> Outcome {
    executor.call(ToolCall::new("call", tool, arguments.to_string())).await
}

/// What the model is told, and whether it worked.
async fn answer(executor: &Executor, tool: &str, arguments: Value) -> (bool, String) {
    let outcome = call(executor, tool, arguments).await;
    (outcome.is_success(), outcome.text().to_owned())
}

fn ok(text: &str) -> (bool, String) {
    (true, text.to_owned())
}

fn no(text: &str) -> (bool, String) {
    (false, text.to_owned())
}

fn ran(executor: &Executor) -> Vec<String> {
    executor.session().slice::<Ran>().iter().map(|ran| ran.tool.clone()).collect()
}

fn deploys_after_tests() -> SequentialDependencyPolicy {
    SequentialDependencyPolicy::new().require("deploy", ["test", "build"])
}

const MISSING_BOTH: &str =
    "Cannot call 'deploy' - missing required tools: test, build\nCall these tools first, then retry deploy.";
const MISSING_TEST: &str =
    "Cannot call 'deploy' - missing required tools: test\nCall these tools first, then retry deploy.";

// cases 182, 183, 184
#[tokio::test]
async fn deploy_runs_after_test_and_build_succeeded_wherever_they_are() {
    let executor = open(
        template()
            .section(Section::tools("release", "Release").tool(plain("deploy")).policy(deploys_after_tests()))
            .section(Section::tools("checks", "Checks").tool(plain("test")).tool(plain("build"))),
    )
    .await;
    assert_eq!(answer(&executor, "deploy", json!({})).await, no(MISSING_BOTH));
    assert_eq!(answer(&executor, "build", json!({})).await, ok("done"));
    assert_eq!(answer(&executor, "test", json!({ "fail": true })).await, no("failed as told"));
    assert_eq!(answer(&executor, "deploy", json!({})).await, no(MISSING_TEST));
    assert_eq!(answer(&executor, "test", json!({})).await, ok("done"));
    assert_eq!(answer(&executor, "deploy", json!({})).await, ok("done"));
    assert_eq!(ran(&executor), ["build", "test", "deploy"]);
}

// case 182
#[tokio::test]
async fn in_one_batch_the_order_of_the_calls_counts() {
    let pure = |name: &str| plain(name).footprint(|_| Footprint::nothing().write_slice::<Ran>());
    let section = Section::tools("all", "All").with_tools(["test", "build", "deploy"].map(pure));
    let executor = open(template().section(section.policy(deploys_after_tests()))).await;
    let batch = |tools: [&str; 3]| {
        let calls = tools.iter().enumerate().map(|(at, tool)| ToolCall::new(at.to_string(), *tool, "{}"));
        calls.collect::<Vec<_>>()
    };
    let outcomes = executor.batch(batch(["test", "deploy", "build"])).await;
    let texts: Vec<&str> = outcomes.iter().map(Outcome::text).collect();
    let missing =
        "Cannot call 'deploy' - missing required tools: build\nCall these tools first, then retry deploy.";
    assert_eq!(texts, ["done", missing, "done"]);
}

#[tokio::test]
async fn a_batch_does_not_slip_past_a_quota() {
    let once = plain("once").footprint(|_| Footprint::nothing().write_slice::<Ran>());
    let section = Section::tools("all", "All").tool(once).policy(QuotaPolicy::new().tool("once", 1));
    let executor = open(template().section(section)).await;
    let calls = (0..3).map(|at| ToolCall::new(at.to_string(), "once", "{}")).collect();
    let texts: Vec<String> =
        executor.batch(calls).await.iter().map(|outcome| outcome.text().to_owned()).collect();
    let used_up = "Cannot call 'once' - its quota for this session is used up: 1 of 1 calls";
    assert_eq!(texts, ["done", used_up, used_up]);
}

fn files_section() -> Section {
    let files = MemoryFilesystem::from_files([("config.json", "{}")]).unwrap();
    Section::tools("files", "Files")
        .tool(read_file())
        .tool(write_file())
        .resource(Binding::filesystem(Arc::new(files)))
        .policy(ReadBeforeWritePolicy::new())
}

const UNREAD: &str = "Cannot write to config.json without reading it first";

fn path(path: &str) -> Value {
    json!({ "path": path })
}

// cases 186, 188
#[tokio::test]
async fn files_are_read_before_they_are_written() {
    let executor = open(template().section(files_section())).await;
    assert_eq!(answer(&executor, "write_file", path("config.json")).await, no(UNREAD));
    assert_eq!(answer(&executor, "write_file", path("new.json")).await, ok("written"));
    assert_eq!(answer(&executor, "write_file", path("./new.json")).await, ok("written"));
    assert_eq!(
        answer(&executor, "read_file", path("missing.json")).await,
        no("'missing.json' does not exist")
    );
    let files = executor.resources().get::<dyn wink::filesystem::Filesystem>().await.unwrap();
    files.write_text("missing.json", "there now").await.unwrap();
    let unread = "Cannot write to missing.json without reading it first";
    assert_eq!(answer(&executor, "write_file", path("missing.json")).await, no(unread));
    assert_eq!(answer(&executor, "read_file", path("config.json")).await, ok("{}"));
    assert_eq!(answer(&executor, "write_file", path("x/../config.json")).await, ok("written"));
    files.write_text("config.json", "by somebody else").await.unwrap();
    assert_eq!(answer(&executor, "write_file", path("config.json")).await, no(UNREAD));
}

// case 186
#[tokio::test]
async fn a_read_in_the_same_batch_counts_for_a_write_after_it() {
    let executor = open(template().section(files_section())).await;
    let call = |id: &str, tool: &str, at: &str| ToolCall::new(id, tool, path(at).to_string());
    let outcomes = executor
        .batch(vec![
            call("1", "read_file", "config.json"),
            call("2", "write_file", "./config.json"),
            call("3", "write_file", "b"),
        ])
        .await;
    assert_eq!(outcomes.iter().map(Outcome::text).collect::<Vec<_>>(), ["{}", "written", "written"]);
}

// case 185
#[tokio::test]
async fn policies_of_one_kind_do_not_share_what_they_know() {
    // The inner section's own instance has seen no read: the reading tool is outside of it.
    let files = MemoryFilesystem::from_files([("config.json", "{}")]).unwrap();
    let section = Section::tools("files", "Files")
        .tool(read_file())
        .resource(Binding::filesystem(Arc::new(files)))
        .policy(ReadBeforeWritePolicy::new())
        .child(Section::tools("inner", "Inner").tool(write_file()).policy(ReadBeforeWritePolicy::new()));
    let executor = open(template().section(section)).await;
    assert_eq!(answer(&executor, "read_file", path("config.json")).await, ok("{}"));
    let outcome = call(&executor, "write_file", path("config.json")).await;
    assert_eq!((outcome.is_success(), outcome.text()), (false, UNREAD));
    let answers: Vec<&LoggedAnswer> =
        outcome.event.decisions.iter().map(|decision| &decision.answer).collect();
    assert_eq!(answers, [&LoggedAnswer::Allow, &LoggedAnswer::Deny(UNREAD.into())]);
}

type Decide = Box<dyn Fn(&PolicyCall<'_>, &PolicyContext<'_>) -> Decision + Send + Sync>;

/// A policy that counts how often it is asked.
fn counted(kind: &'static str, asked: &Arc<AtomicUsize>, decision: Decision) -> FnPolicy<Decide> {
    let asked = Arc::clone(asked);
    policy_fn(
        kind,
        Box::new(move |_, _| {
            asked.fetch_add(1, Ordering::Relaxed);
            decision.clone()
        }),
    )
}

// cases 189, 190
#[tokio::test]
async fn outer_sections_come_first_then_inner_ones_then_the_template() {
    let [outer, inner, whole] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
    let build = |inner_says: Decision| {
        let child = Section::tools("inner", "Inner")
            .tool(plain("deploy"))
            .policy(counted("inner", &inner, inner_says));
        let section =
            Section::tools("outer", "Outer").child(child).policy(counted("outer", &outer, Decision::Allow));
        let beside =
            Section::tools("beside", "Beside").policy(counted("beside", &whole, Decision::deny("not mine")));
        let denies = counted("template", &whole, Decision::deny("the template says no"));
        template().section(section).section(beside).policy(denies)
    };
    let executor = open(build(Decision::Allow)).await;
    let outcome = call(&executor, "deploy", json!({})).await;
    assert_eq!((outcome.is_success(), outcome.text()), (false, "the template says no"));
    let answers: Vec<LoggedAnswer> =
        outcome.event.decisions.iter().map(|decision| decision.answer.clone()).collect();
    let denied = |text: &str| LoggedAnswer::Deny(text.into());
    assert_eq!(answers, [LoggedAnswer::Allow, LoggedAnswer::Allow, denied("the template says no")]);
    let asked = || [&outer, &inner, &whole].map(|asked| asked.swap(0, Ordering::Relaxed));
    assert_eq!(asked(), [1, 1, 1]);

    let executor = open(build(Decision::deny("the inner section says no"))).await;
    assert_eq!(answer(&executor, "deploy", json!({})).await, no("the inner section says no"));
    assert_eq!(asked(), [1, 1, 0]);
    assert_eq!(ran(&executor), [""; 0]);
}

// case 191
#[tokio::test]
async fn a_denied_call_runs_nothing_and_is_recorded() {
    let section = Section::tools("all", "All").tool(plain("deploy")).policy(deploys_after_tests());
    let executor = open(template().section(section)).await;
    executor.session().know::<Ran>().unwrap();
    let before = executor.session().snapshot().to_json().unwrap();
    let outcome = call(&executor, "deploy", json!({})).await;
    let after = executor.session().snapshot().to_json().unwrap();
    assert_eq!(
        (&before["slices"], &before["calls"], &before["policies"]),
        (&after["slices"], &after["calls"], &after["policies"])
    );
    assert_eq!(ran(&executor), [""; 0]);
    let log: Vec<Arc<ToolInvoked>> = executor.session().slice::<ToolInvoked>().iter().collect();
    assert_eq!(log.len(), 1);
    assert_eq!(*log[0], *outcome.event);
    let event = &outcome.event;
    assert_eq!((event.success, event.ending, &*event.message), (false, Ending::Denied, MISSING_BOTH));
}

/// A policy that panics before it has even begun.
struct Panics;

impl ToolPolicy for Panics {
    fn kind(&self) -> &'static str {
        "panics"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        panic!("out of order")
    }

    fn footprint(&self, _: &PolicyCall<'_>, _: &Arc<str>) -> Footprint {
        panic!("out of order")
    }
}

#[tokio::test]
async fn a_panic_denies_alone_and_in_combinations() {
    let build = |policy: Arc<dyn ToolPolicy>| {
        template().section(Section::tools("a", "A").tool(plain("deploy")).policy(policy))
    };
    for (policy, kind) in [
        (Arc::new(Panics) as Arc<dyn ToolPolicy>, "panics"),
        (Arc::new(Not::new(Panics)), "not"),
        (Arc::new(AllOf::new().and(Not::new(Panics))), "all_of"),
        (Arc::new(policy_fn("own", |_, _| panic!("out of order"))), "own"),
    ] {
        let executor = open(build(policy)).await;
        let expected = no(&format!("deploy was denied: policy {kind} could not decide"));
        assert_eq!(answer(&executor, "deploy", json!({})).await, expected.clone());
        let outcomes = executor.batch(vec![ToolCall::new("1", "deploy", "{}")]).await;
        assert_eq!(outcomes.iter().map(Outcome::text).collect::<Vec<_>>(), [expected.1]);
        assert_eq!(ran(&executor), [""; 0]);
    }
}

/// A policy that panics when it is told of a success.
struct Forgets;

impl ToolPolicy for Forgets {
    fn kind(&self) -> &'static str {
        "forgets"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(async { Ok(Decision::Allow) })
    }

    fn on_result<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a ResultView<'a>,
        _: &'a PolicyContext<'a>,
        memory: &'a PolicyMemory<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        memory.remember("half", json!(true)).unwrap();
        panic!("out of order")
    }

    fn wants_results(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_panic_on_a_result_is_contained() {
    for policy in [Arc::new(Forgets) as Arc<dyn ToolPolicy>, Arc::new(Not::new(Not::new(Forgets)))] {
        let executor =
            open(template().section(Section::tools("a", "A").tool(plain("deploy")).policy(policy))).await;
        assert_eq!(answer(&executor, "deploy", json!({})).await, ok("done"));
        assert_eq!(executor.session().snapshot().to_json().unwrap()["policies"], json!({}));
    }
}

/// Remembers how many things ran so far, which is not the tool's business.
struct Counts;

impl ToolPolicy for Counts {
    fn kind(&self) -> &'static str {
        "counts"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(async { Ok(Decision::Allow) })
    }

    fn on_result<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a ResultView<'a>,
        cx: &'a PolicyContext<'a>,
        memory: &'a PolicyMemory<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            let ran = cx.slice::<Ran>()?.len();
            let log = cx.slice::<ToolInvoked>()?.len();
            let file = cx.path("other.txt").await?.unwrap();
            let there = cx.stat(&file).await?.is_some();
            let calls = cx.total_calls();
            Ok(memory.remember("seen", json!([ran, log, there, calls]))?)
        })
    }

    fn wants_results(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn what_a_policy_looks_at_is_not_held_to_the_footprint_of_the_tool() {
    let files = Arc::new(MemoryFilesystem::from_files([("a.txt", "a"), ("other.txt", "b")]).unwrap());
    let section = Section::tools("a", "A").tool(read_file()).tool(plain("plain"));
    let section = section.policy(Counts).resource(Binding::filesystem(files));
    let executor = open(template().section(section)).await;
    assert_eq!(answer(&executor, "plain", json!({})).await, ok("done"));
    assert_eq!(answer(&executor, "read_file", json!({ "path": "a.txt" })).await, ok("a"));
    let remembered = &executor.session().snapshot().to_json().unwrap()["policies"];
    assert_eq!(*remembered, json!({ "a/counts/0": { "seen": [1, 1, true, 1] } }));
}

/// Says the same to everybody and keeps the questions.
#[derive(Default)]
struct Desk {
    questions: std::sync::Mutex<Vec<String>>,
}

impl Approver for Desk {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>> {
        self.questions.lock().unwrap().push(request.question.clone());
        Box::pin(async { Ok(Approval::Approved { by: "desk".into() }) })
    }
}

#[tokio::test]
async fn an_approval_does_not_cover_a_denial_behind_it() {
    let build = |last: Decision| {
        let policy = AllOf::new()
            .and(ApprovalPolicy::new(["deploy"]))
            .and(policy_fn("last", move |_, _| last.clone()));
        template()
            .section(Section::tools("a", "A").tool(plain("deploy")).policy(policy))
            .build()
            .unwrap()
            .prompt()
    };
    let session = Session::new();
    let executor = async |last: Decision, desk: &Arc<Desk>| {
        Executor::builder(&build(last), &session).approver(Arc::<Desk>::clone(desk)).open().await.unwrap()
    };
    let desk = Arc::new(Desk::default());
    let denying = executor(Decision::deny("never"), &desk).await;
    assert_eq!(answer(&denying, "deploy", json!({})).await, no("never"));
    let allowing = executor(Decision::Allow, &desk).await;
    let outcome = call(&allowing, "deploy", json!({ "fail": false })).await;
    assert_eq!((outcome.is_success(), &outcome.event.approvers[..]), (true, &["desk".into()][..]));
    assert_eq!(*desk.questions.lock().unwrap(), ["Allow 'deploy' with fail=false?"]);
}

/// Counts the successes, by what it remembered of those before.
struct Tallies;

impl ToolPolicy for Tallies {
    fn kind(&self) -> &'static str {
        "tallies"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(async { Ok(Decision::Allow) })
    }

    fn on_result<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a ResultView<'a>,
        cx: &'a PolicyContext<'a>,
        memory: &'a PolicyMemory<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        let before = cx.remembered("tally").and_then(|tally| tally.as_u64()).unwrap_or(0);
        memory.remember("tally", json!(before + 1)).unwrap();
        Box::pin(async { Ok(()) })
    }

    fn wants_results(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn a_policy_that_is_told_of_a_success_sees_what_it_remembered_before() {
    let executor =
        open(template().section(Section::tools("a", "A").tool(plain("deploy")).policy(Tallies))).await;
    for _ in 0..3 {
        assert_eq!(answer(&executor, "deploy", json!({})).await, ok("done"));
    }
    let policies = executor.session().snapshot().to_json().unwrap()["policies"].clone();
    let states: Vec<&Value> = policies.as_object().unwrap().values().collect();
    assert_eq!(states, [&json!({ "tally": 3 })]);
}

/// What a policy remembers is in the session, and is there when the session is opened again.
#[tokio::test]
async fn what_a_policy_remembers_survives_a_restart() {
    let files: Arc<dyn Filesystem> = Arc::new(MemoryFilesystem::from_files([("config.json", "{}")]).unwrap());
    let prompt = || {
        let section = Section::tools("files", "Files")
            .tool(read_file())
            .tool(write_file())
            .resource(Binding::filesystem(Arc::clone(&files)))
            .policy(ReadBeforeWritePolicy::new());
        template().section(section).build().unwrap().prompt()
    };
    let open = async |store: ByteStore| {
        let session = Session::builder().id("s").store(Arc::new(store)).open().await.unwrap();
        Executor::open(&prompt(), &session).await.unwrap()
    };
    let store = Arc::new(ByteStore::new());
    let session = Session::builder().id("s").store(Arc::clone(&store) as _).open().await.unwrap();
    let before = Executor::open(&prompt(), &session).await.unwrap();
    assert_eq!(answer(&before, "read_file", path("config.json")).await, ok("{}"));
    let after = open(store.reopen().unwrap()).await;
    assert_eq!(answer(&after, "write_file", path("config.json")).await, ok("written"));
    let elsewhere = open(ByteStore::new()).await;
    assert_eq!(answer(&elsewhere, "write_file", path("config.json")).await, no(UNREAD));
}

/// Nothing is written to a door that is locked. Only `lock` changes what it remembers; the others ask.
struct Lock;

impl ToolPolicy for Lock {
    fn kind(&self) -> &'static str {
        "lock"
    }

    fn check_now(&self, _: &PolicyCall<'_>, cx: &PolicyContext<'_>) -> Option<Result<Decision, BoxError>> {
        let locked = cx.remembered("locked").is_some();
        Some(Ok(if locked { Decision::deny("locked") } else { Decision::Allow }))
    }

    fn wants_results(&self) -> bool {
        true
    }

    fn on_result<'a>(
        &'a self,
        call: &'a PolicyCall<'a>,
        _: &'a ResultView<'a>,
        _: &'a PolicyContext<'a>,
        memory: &'a PolicyMemory<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            match &**call.tool.name() {
                "lock" => Ok(memory.remember("locked", json!(true))?),
                _ => Ok(()),
            }
        })
    }

    fn footprint(&self, call: &PolicyCall<'_>, key: &Arc<str>) -> Footprint {
        match &**call.tool.name() {
            "lock" => Footprint::nothing().write_remembered(key, "locked"),
            _ => Footprint::nothing().read_remembered(key, "locked"),
        }
    }
}

#[tokio::test]
async fn calls_whose_policies_only_ask_overlap_and_those_that_change_do_not() {
    /// How many are inside.
    #[derive(Default)]
    struct Inside(AtomicUsize);
    let tool = |name: &str| {
        Tool::new(name, "Stays a while", async |_: (), cx: &mut ToolContext| {
            let inside = cx.resource::<Inside>().await?;
            inside.0.fetch_add(1, Ordering::SeqCst);
            let mut most = 0;
            for _ in 0..20 {
                most = most.max(inside.0.load(Ordering::SeqCst));
                tokio::task::yield_now().await;
            }
            inside.0.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, ToolError>(ToolResult::value(most))
        })
        .footprint(|()| Footprint::nothing().share_resource::<Inside>())
    };
    let section = Section::tools("doors", "Doors")
        .tool(tool("enter"))
        .tool(tool("lock"))
        .resource(Binding::instance(Arc::new(Inside::default())))
        .policy(Lock);
    let executor = open(template().section(section)).await;
    let batch = async |tools: [&str; 3]| {
        let calls =
            tools.iter().zip(1..).map(|(tool, id)| ToolCall::new(id.to_string(), *tool, "")).collect();
        let outcomes = executor.batch(calls).await;
        outcomes.iter().map(|outcome| outcome.text().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(batch(["enter", "enter", "enter"]).await, ["3", "3", "3"]);
    assert_eq!(batch(["enter", "lock", "enter"]).await, ["1", "1", "locked"]);
}

/// Allows, at once or after a while, and counts how it was asked.
struct Allows {
    waits: bool,
    asked: Arc<AtomicUsize>,
}

impl ToolPolicy for Allows {
    fn kind(&self) -> &'static str {
        "allows"
    }

    fn check_now(&self, _: &PolicyCall<'_>, _: &PolicyContext<'_>) -> Option<Result<Decision, BoxError>> {
        (!self.waits).then(|| {
            self.asked.fetch_add(1, Ordering::Relaxed);
            Ok(Decision::Allow)
        })
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(async {
            assert!(self.waits, "it has answered already");
            tokio::task::yield_now().await;
            self.asked.fetch_add(1, Ordering::Relaxed);
            Ok(Decision::Allow)
        })
    }
}

#[tokio::test]
async fn a_policy_may_answer_at_once_or_be_waited_for() {
    for last in [Decision::Allow, Decision::deny("no")] {
        let asked = Arc::new(AtomicUsize::new(0));
        let allows = |waits| Allows { waits, asked: Arc::clone(&asked) };
        let section = Section::tools("a", "A")
            .tool(plain("deploy"))
            .policy(allows(false))
            .policy(allows(true))
            .policy(allows(false))
            .policy(counted("last", &asked, last.clone()));
        let executor = open(template().section(section)).await;
        let outcome = call(&executor, "deploy", json!({})).await;
        assert_eq!(outcome.is_success(), last == Decision::Allow);
        let allowed =
            outcome.event.decisions.iter().filter(|said| said.answer == LoggedAnswer::Allow).count();
        assert_eq!((allowed, outcome.event.decisions.len()), (if outcome.is_success() { 4 } else { 3 }, 4));
        assert_eq!(asked.load(Ordering::Relaxed), 4, "each once");
    }
}
