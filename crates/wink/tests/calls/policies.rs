//! The built-in policies: what they allow, what they deny and in which words, and what they remember.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "tests")]

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::{Just, ProptestConfig, Strategy, prop_assert_eq, prop_oneof, proptest};
use serde_json::{Value, json};
use wink::BoxFuture;
use wink::filesystem::{Filesystem, FilesystemExt, MemoryFilesystem};
use wink::policy::{
    AllOf, AnyOf, ApprovalPolicy, Decision, Not, PathPolicy, PathPolicyError, PlacedPolicy, PolicyCall,
    PolicyContext, PolicyMemory, QuotaPolicy, RateLimitPolicy, ReadBeforeWritePolicy, ResultView,
    SequentialDependencyPolicy, ToolPolicy, policy_fn,
};
use wink::resource::{BoxError, ResourceRegistry};
use wink::testing::{BenchCall, PolicyBench, policy_contract};
use wink::tool::{Footprint, IntoTool, Tool, ToolContext, ToolResult};

fn call(tool: &str, arguments: Value) -> BenchCall {
    BenchCall::new(tool, arguments).unwrap()
}

fn plain(tool: &str) -> BenchCall {
    call(tool, json!({}))
}

fn at(tool: &str, path: &str) -> BenchCall {
    call(tool, json!({ "path": path }))
}

fn denied(reason: &'static str) -> Decision {
    Decision::deny(reason)
}

/// One policy on a bench.
struct Room {
    bench: PolicyBench,
    policy: PlacedPolicy,
}

impl Room {
    async fn new(policy: impl ToolPolicy) -> Self {
        Self::with_files(policy, &[]).await
    }

    async fn with_files(policy: impl ToolPolicy, files: &[(&str, &str)]) -> Self {
        let files = MemoryFilesystem::from_files(files.iter().copied()).unwrap();
        let bench = PolicyBench::with_files(Arc::new(files)).await.unwrap();
        Self { bench, policy: PlacedPolicy::new("room/0", policy) }
    }

    async fn without_files(policy: impl ToolPolicy) -> Self {
        let bench = PolicyBench::with_resources(&ResourceRegistry::default()).await.unwrap();
        Self { bench, policy: PlacedPolicy::new("room/0", policy) }
    }

    async fn check(&self, call: &BenchCall) -> Decision {
        self.bench.check(&self.policy, call).await.unwrap()
    }

    async fn succeed(&self, call: &BenchCall) {
        self.work(call, async |_| {}).await;
    }

    async fn work(&self, call: &BenchCall, work: impl AsyncFnOnce(&dyn Filesystem)) {
        self.bench.succeed(std::slice::from_ref(&self.policy), call, work).await.unwrap();
    }

    /// Writes through the tool that the policy covers.
    async fn write(&self, path: &str, text: &str) {
        self.work(&at("write_file", path), async |files| _ = files.write_text(path, text).await.unwrap())
            .await;
    }

    /// Somebody else writes.
    async fn write_outside(&self, path: &str, text: &str) {
        self.bench.files().await.unwrap().write_text(path, text).await.unwrap();
    }
}

/// A policy that fails, or panics.
struct Broken {
    panics: bool,
}

impl ToolPolicy for Broken {
    fn kind(&self) -> &'static str {
        "broken"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        if self.panics {
            panic!("out of order");
        }
        Box::pin(async { Err("out of order".into()) })
    }

    fn on_result<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a ResultView<'a>,
        _: &'a PolicyContext<'a>,
        memory: &'a PolicyMemory<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move {
            memory.remember("half", json!(true))?;
            if self.panics {
                panic!("out of order");
            }
            Err("out of order".into())
        })
    }

    fn wants_results(&self) -> bool {
        true
    }
}

fn says(decision: Decision) -> impl ToolPolicy {
    policy_fn("says", move |_, _| decision.clone())
}

fn ask(question: &str) -> Decision {
    Decision::Ask(question.to_owned())
}

fn deploys_after_tests() -> SequentialDependencyPolicy {
    SequentialDependencyPolicy::new().require("deploy", ["test", "build"])
}

// case 182
#[tokio::test]
async fn deploy_waits_for_test_and_build() {
    let room = Room::new(deploys_after_tests()).await;
    let both = "Cannot call 'deploy' - missing required tools: test, build\nCall these tools first, then retry deploy.";
    assert_eq!(room.check(&plain("deploy")).await, denied(both));
    room.succeed(&plain("build")).await;
    let test =
        "Cannot call 'deploy' - missing required tools: test\nCall these tools first, then retry deploy.";
    assert_eq!(room.check(&plain("deploy")).await, denied(test));
    room.bench.roll_back(std::slice::from_ref(&room.policy), &plain("test")).await.unwrap();
    assert_eq!(room.check(&plain("deploy")).await, denied(test));
    room.succeed(&plain("test")).await;
    assert_eq!(room.check(&plain("deploy")).await, Decision::Allow);
    assert_eq!(room.check(&plain("other")).await, Decision::Allow);
}

const UNREAD: &str = "Cannot write to config.json without reading it first";

// case 186
#[tokio::test]
async fn an_existing_file_is_read_before_it_is_written() {
    let room = Room::with_files(ReadBeforeWritePolicy::new(), &[("config.json", "{}")]).await;
    assert_eq!(room.check(&at("write_file", "new.json")).await, Decision::Allow);
    for tool in ["write_file", "edit_file", "delete_file"] {
        assert_eq!(room.check(&at(tool, "config.json")).await, denied(UNREAD));
    }
    room.bench.roll_back(std::slice::from_ref(&room.policy), &at("read_file", "config.json")).await.unwrap();
    assert_eq!(room.check(&at("write_file", "config.json")).await, denied(UNREAD));
    room.succeed(&at("read_file", "config.json")).await;
    for tool in ["write_file", "edit_file", "delete_file"] {
        assert_eq!(room.check(&at(tool, "config.json")).await, Decision::Allow);
    }
}

// case 188
#[tokio::test]
async fn a_file_that_this_session_made_is_known() {
    let room = Room::new(ReadBeforeWritePolicy::new()).await;
    room.write("config.json", "{}").await;
    assert_eq!(room.check(&at("edit_file", "config.json")).await, Decision::Allow);
    room.work(&at("edit_file", "config.json"), async |files| {
        files.edit_text("config.json", "{", "{\n").await.unwrap();
    })
    .await;
    assert_eq!(room.check(&at("edit_file", "config.json")).await, Decision::Allow);
}

#[tokio::test]
async fn a_file_that_somebody_else_changed_is_read_again() {
    let room = Room::with_files(ReadBeforeWritePolicy::new(), &[("config.json", "{}")]).await;
    room.succeed(&at("read_file", "config.json")).await;
    room.write_outside("config.json", "{}").await;
    assert_eq!(room.check(&at("write_file", "config.json")).await, denied(UNREAD));
    room.succeed(&at("read_file", "config.json")).await;
    assert_eq!(room.check(&at("write_file", "config.json")).await, Decision::Allow);
}

#[tokio::test]
async fn a_file_that_was_deleted_and_made_again_by_somebody_else_is_unknown() {
    let room = Room::new(ReadBeforeWritePolicy::new()).await;
    room.write("config.json", "{}").await;
    room.work(&at("delete_file", "config.json"), async |files| {
        files.delete_all("config.json").await.unwrap()
    })
    .await;
    assert_eq!(room.bench.remembered().get("room/0").cloned().unwrap_or_default(), [].into());
    assert_eq!(room.check(&at("write_file", "config.json")).await, Decision::Allow);
    room.write_outside("config.json", "other").await;
    assert_eq!(room.check(&at("write_file", "config.json")).await, denied(UNREAD));
}

#[tokio::test]
async fn spellings_of_one_path_are_one_path() {
    let room = Room::with_files(ReadBeforeWritePolicy::new(), &[("config.json", "{}"), ("a/b", "")]).await;
    for spelling in ["config.json", "./config.json", "/config.json", "a/../config.json", "a//../config.json"]
    {
        assert_eq!(room.check(&at("write_file", spelling)).await, denied(UNREAD), "{spelling}");
    }
    room.succeed(&at("read_file", "a/../config.json")).await;
    assert_eq!(room.check(&at("write_file", "/./config.json")).await, Decision::Allow);
}

#[tokio::test]
async fn a_replayed_read_has_not_looked() {
    let room = Room::with_files(ReadBeforeWritePolicy::new(), &[("config.json", "{}")]).await;
    room.bench.replay(std::slice::from_ref(&room.policy), &at("read_file", "config.json")).await.unwrap();
    assert_eq!(room.check(&at("write_file", "config.json")).await, denied(UNREAD));
}

#[tokio::test]
async fn what_cannot_be_told_is_denied() {
    let no_path = "Cannot call 'write_file' - parameter 'path' names no file, so it is unknown what would be \
                   written to\nGive the path of a file in 'path'.";
    let room = Room::with_files(ReadBeforeWritePolicy::new(), &[("src/a.rs", "")]).await;
    for arguments in [json!({}), json!({ "path": 7 }), json!({ "path": [] }), json!({ "path": ["a", 1] })] {
        assert_eq!(room.check(&call("write_file", arguments)).await, denied(no_path));
    }
    let outside = "Cannot write to ../x: '../x' leads outside the workspace; paths are relative to its root";
    assert_eq!(room.check(&at("write_file", "../x")).await, denied(outside));
    let directory = "Cannot write to src: it is a directory, and only a file can be read first";
    assert_eq!(room.check(&at("delete_file", "src")).await, denied(directory));

    let room = Room::without_files(ReadBeforeWritePolicy::new()).await;
    let no_files = "Cannot write to a: there is no filesystem, so it is unknown whether it was read first";
    assert_eq!(room.check(&at("write_file", "a")).await, denied(no_files));
}

#[tokio::test]
async fn read_before_write_knows_other_tools() {
    let policy = ReadBeforeWritePolicy::new().reads("view", "files").writes("patch", "target");
    let room = Room::with_files(policy, &[("config.json", "{}"), ("b", "")]).await;
    let patch = call("patch", json!({ "target": ["b", "config.json"] }));
    assert_eq!(room.check(&patch).await, denied("Cannot write to b without reading it first"));
    room.succeed(&call("view", json!({ "files": ["config.json", "b"] }))).await;
    assert_eq!(room.check(&patch).await, Decision::Allow);
}

// case 185
#[tokio::test]
async fn policies_of_one_kind_keep_their_state_apart() {
    let room = Room::with_files(ReadBeforeWritePolicy::new(), &[("config.json", "{}")]).await;
    let other = PlacedPolicy::new("room/1", ReadBeforeWritePolicy::new());
    room.succeed(&at("read_file", "config.json")).await;
    assert_eq!(room.check(&at("write_file", "config.json")).await, Decision::Allow);
    let check = room.bench.check(&other, &at("write_file", "config.json")).await.unwrap();
    assert_eq!(check, denied(UNREAD));
}

#[tokio::test]
async fn a_quota_counts_one_tool_or_all() {
    let room = Room::new(QuotaPolicy::new().tool("deploy", 1).session(3)).await;
    room.succeed(&plain("deploy")).await;
    let deploy = "Cannot call 'deploy' - its quota for this session is used up: 1 of 1 calls";
    assert_eq!(room.check(&plain("deploy")).await, denied(deploy));
    assert_eq!(room.check(&plain("test")).await, Decision::Allow);
    room.succeed(&plain("test")).await;
    room.succeed(&plain("build")).await;
    assert_eq!(room.bench.session().total_calls(), 3);
    let all = "Cannot call 'test' - the quota of this session is used up: 3 of 3 calls of all tools";
    assert_eq!(room.check(&plain("test")).await, denied(all));
}

#[tokio::test]
async fn a_quota_of_one_tool_ignores_the_others() {
    let room = Room::new(QuotaPolicy::new().tool("deploy", 0)).await;
    assert_eq!(
        room.check(&plain("deploy")).await,
        denied("Cannot call 'deploy' - its quota for this session is used up: 0 of 0 calls")
    );
    assert_eq!(room.check(&plain("test")).await, Decision::Allow);
}

#[tokio::test]
async fn a_rate_limit_is_a_sliding_window() {
    let room = Room::new(RateLimitPolicy::per_tool(2, Duration::from_secs(60))).await;
    let (fetch, clock) = (plain("fetch"), room.bench.clock().clone());
    room.succeed(&fetch).await;
    clock.advance(Duration::from_secs(40));
    assert_eq!(room.check(&fetch).await, Decision::Allow);
    room.succeed(&fetch).await;
    let full = "Cannot call 'fetch' yet - 2 of 2 calls in the last 60s are used\nTry again in 20s.";
    assert_eq!(room.check(&fetch).await, denied(full));
    assert_eq!(room.check(&plain("other")).await, Decision::Allow);
    clock.advance(Duration::from_secs(20));
    assert_eq!(room.check(&fetch).await, Decision::Allow);
    room.succeed(&fetch).await;
    let full = "Cannot call 'fetch' yet - 2 of 2 calls in the last 60s are used\nTry again in 40s.";
    assert_eq!(room.check(&fetch).await, denied(full));
    // Nobody waits for parts of a second, nor too short.
    clock.advance(Duration::from_nanos(201_467_101));
    assert_eq!(room.check(&fetch).await, denied(full));
    // However many calls there were: as many times as are allowed, and where the next one goes.
    assert_eq!(room.bench.remembered()["room/0"].len(), 3);
}

#[tokio::test]
async fn a_rate_limit_over_all_tools_counts_those_it_covers() {
    let room = Room::new(RateLimitPolicy::overall(1, Duration::from_secs(1)).only(["a", "b"])).await;
    room.succeed(&plain("other")).await;
    room.bench.replay(std::slice::from_ref(&room.policy), &plain("a")).await.unwrap();
    assert_eq!(room.check(&plain("b")).await, Decision::Allow);
    room.succeed(&plain("a")).await;
    let full = "Cannot call 'b' yet - 1 of 1 calls in the last 1s are used\nTry again in 1s.";
    assert_eq!(room.check(&plain("b")).await, denied(full));
    assert_eq!(room.check(&plain("other")).await, Decision::Allow);
}

#[tokio::test]
async fn a_rate_limit_of_nothing_allows_nothing() {
    let room = Room::new(RateLimitPolicy::per_tool(0, Duration::from_secs(1))).await;
    assert_eq!(room.check(&plain("a")).await, denied("Cannot call 'a' - its rate limit is 0 calls in 1s"));
}

#[tokio::test]
async fn approval_is_asked_for() {
    let policy = ApprovalPolicy::new(["deploy"]).when(|params| params.get("env") == Some(&json!("prod")));
    let room = Room::new(policy).await;
    let deploy = call("deploy", json!({ "env": "prod", "count": 2 }));
    assert_eq!(room.check(&deploy).await, ask("Allow 'deploy' with env=\"prod\", count=2?"));
    assert_eq!(room.check(&call("deploy", json!({ "env": "test" }))).await, Decision::Allow);
    assert_eq!(room.check(&plain("read")).await, Decision::Allow);
    let room = Room::new(ApprovalPolicy::all_tools()).await;
    assert_eq!(room.check(&plain("anything")).await, ask("Allow 'anything'?"));
}

#[tokio::test]
async fn a_question_hides_nothing() {
    let room = Room::new(ApprovalPolicy::all_tools()).await;
    let sly = call("pay", json!({ "note": "x".repeat(5_000), "to": "a\u{202e}b\u{1b}[2J", "amount": 9 }));
    let note = "x".repeat(199);
    let expected = format!(
        "Allow 'pay' with note=\"{note}… (4802 more characters), to=\"a\\u{{202e}}b\\u001b[2J\", amount=9?"
    );
    assert_eq!(room.check(&sly).await, Decision::Ask(expected));
    let many: serde_json::Map<_, _> = (0..25).map(|at| (format!("a{at}"), json!(at))).collect();
    let Decision::Ask(question) = room.check(&call("pay", Value::Object(many))).await else {
        panic!("not asked")
    };
    assert!(question.ends_with("a19=19 and 5 more arguments?"), "{question}");
}

#[tokio::test]
async fn a_question_masks_what_is_sensitive() {
    let schema = json!({ "type": "object", "properties": { "user": { "type": "string" }, "key": { "type": "string" } } });
    let nothing = async |_: Value, _: &mut ToolContext| ToolResult::<Value>::done("");
    let tool = Tool::dynamic("login", "Logs in", schema, nothing).sensitive("key").into_tool().unwrap();
    let login = BenchCall::of(&tool, "{\"key\":\"hunter2\",\n\n\n\"user\":\"me\"}").unwrap();
    let room = Room::new(ApprovalPolicy::all_tools()).await;
    assert_eq!(room.check(&login).await, ask("Allow 'login' with key=\"***\", user=\"me\"?"));
}

fn sources_only() -> PathPolicy {
    PathPolicy::builder()
        .allow("src/**")
        .allow("*.md")
        .deny("**/*.key")
        .example_allowed("src/a.rs")
        .example_denied("secrets/x")
        .build()
        .unwrap()
}

#[tokio::test]
async fn paths_are_allowed_and_denied_by_name() {
    let room = Room::new(sources_only()).await;
    for path in ["src/a.rs", "src", "./src//deep/b.rs", "secrets/../src/a.rs", "README.md"] {
        assert_eq!(room.check(&at("read_file", path)).await, Decision::Allow, "{path}");
    }
    let not_allowed = "Cannot use secrets/x: only src/**, *.md is allowed";
    for path in ["secrets/x", "src/../secrets/x", "./secrets/x", "//secrets//x", "/secrets/./x"] {
        assert_eq!(room.check(&at("read_file", path)).await, denied(not_allowed), "{path}");
    }
    let key = "Cannot use src/a.key: rule '**/*.key' denies it";
    assert_eq!(room.check(&at("read_file", "src/a.key")).await, denied(key));
    let outside =
        "Cannot use ../src/a: '../src/a' leads outside the workspace; paths are relative to its root";
    assert_eq!(room.check(&at("read_file", "../src/a")).await, denied(outside));
    assert_eq!(room.check(&plain("unrelated")).await, Decision::Allow);
    let no_path = "Cannot call 'read_file' - parameter 'path' names no path, so it is unknown what would be used\nGive a \
                   path in 'path'.";
    assert_eq!(room.check(&call("read_file", json!({ "path": null }))).await, denied(no_path));
    let room = Room::without_files(sources_only()).await;
    let no_files = "Cannot use src/a: there is no filesystem, so it is unknown what this path means";
    assert_eq!(room.check(&at("read_file", "src/a")).await, denied(no_files));
}

#[tokio::test]
async fn a_tool_that_reaches_below_its_path_needs_all_of_it() {
    let room = Room::new(PathPolicy::builder().deny("secrets/**").deny("a/*/b").build().unwrap()).await;
    assert_eq!(room.check(&at("list_directory", "")).await, Decision::Allow);
    for path in ["", "a", "a/x", "secrets", "secrets/deep"] {
        assert!(matches!(room.check(&at("grep", path)).await, Decision::Deny(_)), "{path:?}");
    }
    let below = "Cannot use / with all that is below it: rule 'secrets/**' denies some of it\nChoose a narrower path.";
    assert_eq!(room.check(&at("grep", "/")).await, denied(below));
    assert_eq!(room.check(&at("grep", "src")).await, Decision::Allow);
    assert_eq!(room.check(&at("grep", "secretsandmore")).await, Decision::Allow);

    let policy = PathPolicy::builder().allow("src/**").allow("docs/*").tree("index", "root").build().unwrap();
    let room = Room::new(policy).await;
    let index = |root: &str| call("index", json!({ "root": root }));
    assert_eq!(room.check(&index("src/deep")).await, Decision::Allow);
    let docs = "Cannot use docs with all that is below it: only src/**, docs/* is allowed";
    assert_eq!(room.check(&index("docs")).await, denied(docs));
}

#[tokio::test]
async fn path_parameters_are_configurable() {
    let policy =
        PathPolicy::builder().deny("x").tool("copy", ["from", "to"]).parameter("file").build().unwrap();
    let room = Room::new(policy).await;
    let copy = |from: &str, to: &str| call("copy", json!({ "from": from, "to": to }));
    assert_eq!(room.check(&copy("a", "b")).await, Decision::Allow);
    assert_eq!(room.check(&copy("a", "./x")).await, denied("Cannot use x: rule 'x' denies it"));
    assert!(matches!(room.check(&call("copy", json!({ "from": "a" }))).await, Decision::Deny(_)));
    assert!(matches!(room.check(&call("other", json!({ "file": "x" }))).await, Decision::Deny(_)));
    let policy = PathPolicy::builder().deny("x").tool("copy", ["from"]).only_named_tools().build().unwrap();
    let room = Room::new(policy).await;
    assert_eq!(room.check(&at("read_file", "x")).await, Decision::Allow);
    assert!(matches!(room.check(&call("copy", json!({ "from": "x" }))).await, Decision::Deny(_)));
}

#[tokio::test]
async fn paths_in_a_list_of_objects_are_paths_too() {
    let room = Room::new(PathPolicy::builder().deny("secrets/**").build().unwrap()).await;
    let python = |arguments: Value| call("evaluate_python", arguments);
    let reason = denied("Cannot use secrets/key: rule 'secrets/**' denies it");
    for arguments in [
        json!({ "code": "1", "reads": [{ "path": "a", "name": "a" }, { "path": "./secrets/key", "name": "b" }] }),
        json!({ "code": "1", "reads": [], "writes": [{ "path": "/secrets/key", "name": "b" }] }),
    ] {
        assert_eq!(room.check(&python(arguments)).await, reason);
    }
    for arguments in [
        json!({ "code": "1" }),
        json!({ "code": "1", "reads": [{ "path": "a", "name": "a" }], "writes": [] }),
    ] {
        assert_eq!(room.check(&python(arguments)).await, Decision::Allow);
    }
    // What cannot be understood is not allowed.
    for arguments in
        [json!({ "reads": [{ "name": "a" }] }), json!({ "reads": ["a"] }), json!({ "reads": "a" })]
    {
        assert!(matches!(room.check(&python(arguments)).await, Decision::Deny(_)));
    }

    let policy = ReadBeforeWritePolicy::new().writes("evaluate_python", "writes[].path");
    let room = Room::with_files(policy, &[("a", "x")]).await;
    let write = python(json!({ "code": "1", "writes": [{ "path": "new" }, { "path": "a" }] }));
    assert_eq!(room.check(&write).await, denied("Cannot write to a without reading it first"));
    room.succeed(&at("read_file", "a")).await;
    assert_eq!(room.check(&write).await, Decision::Allow);
    assert_eq!(room.check(&python(json!({ "code": "1" }))).await, Decision::Allow);
}

#[test]
fn path_rules_are_checked_when_made() {
    let error = |builder: wink::policy::PathPolicyBuilder| builder.build().unwrap_err();
    let rules = || PathPolicy::builder().allow("src/**");
    assert_eq!(error(PathPolicy::builder()), PathPolicyError::NoRules);
    let wrong = error(rules().example_allowed("docs/a"));
    assert_eq!(
        wrong.to_string(),
        "example \"docs/a\" should be allowed by the rules, but is denied: Cannot use docs/a: only src/** is allowed"
    );
    assert_eq!(
        error(rules().example_denied("docs/../src/a")).to_string(),
        "example \"docs/../src/a\" should be denied by the rules, but is allowed"
    );
    for never in ["secrets/", "a//b", "a/./b", "", "../x", "[", "{a"] {
        assert!(matches!(error(PathPolicy::builder().deny(never)), PathPolicyError::Rule(_)), "{never:?}");
    }
}

#[tokio::test]
async fn all_of_needs_every_part() {
    let allow = || says(Decision::Allow);
    let answer = async |policy: AllOf| Room::new(policy).await.check(&plain("a")).await;
    assert_eq!(answer(AllOf::new()).await, Decision::Allow);
    assert_eq!(answer(AllOf::new().and(allow()).and(allow())).await, Decision::Allow);
    let first = AllOf::new().and(allow()).and(says(denied("one"))).and(says(denied("two")));
    assert_eq!(answer(first).await, denied("one"));
    // Approving the question must not let the denial behind it go unheard.
    let hidden = AllOf::new().and(says(ask("sure?"))).and(says(denied("no")));
    assert_eq!(answer(hidden).await, denied("no"));
    let both = AllOf::new().and(says(ask("sure?"))).and(says(ask("really?")));
    assert_eq!(answer(both).await, ask("sure?\nreally?"));
}

#[tokio::test]
async fn any_of_needs_one_part() {
    let answer = async |policy: AnyOf| Room::new(policy).await.check(&plain("a")).await;
    assert_eq!(answer(AnyOf::new()).await, Decision::Allow);
    let one = AnyOf::new().or(says(denied("one"))).or(says(ask("sure?"))).or(says(Decision::Allow));
    assert_eq!(answer(one).await, Decision::Allow);
    let asks = AnyOf::new().or(says(denied("one"))).or(says(ask("sure?"))).or(says(ask("really?")));
    assert_eq!(answer(asks).await, ask("sure?"));
    let none = AnyOf::new().or(says(denied("one"))).or(says(denied("two")));
    assert_eq!(answer(none).await, denied("One of these must be settled first:\n- one\n- two"));
    assert_eq!(answer(AnyOf::new().or(says(denied("one")))).await, denied("one"));
    // A part that has no say is no reason to allow.
    let elsewhere = policy_fn("elsewhere", |_, _| Decision::Allow).only(["b"]);
    assert_eq!(answer(AnyOf::new().or(elsewhere).or(says(denied("one")))).await, denied("one"));
}

#[tokio::test]
async fn not_is_the_opposite_of_what_its_part_says() {
    let answer = async |policy: Not| Room::new(policy).await.check(&plain("a")).await;
    assert_eq!(answer(Not::new(says(denied("no")))).await, Decision::Allow);
    assert_eq!(answer(Not::new(says(ask("sure?")))).await, ask("sure?"));
    let text = "Cannot call 'a' - it may run only where policy 'says' would refuse it";
    assert_eq!(answer(Not::new(says(Decision::Allow))).await, denied(text));
    assert_eq!(answer(Not::new(says(Decision::Allow)).because("too late")).await, denied("too late"));
    // A part that has no say in a call leaves it alone, and so does its opposite.
    let elsewhere = policy_fn("elsewhere", |_, _| Decision::Allow).only(["b"]);
    assert_eq!(answer(Not::new(elsewhere)).await, Decision::Allow);
}

#[tokio::test]
async fn nothing_turns_a_failure_into_permission() {
    for panics in [false, true] {
        let broken = || Broken { panics };
        let combined: Vec<Arc<dyn ToolPolicy>> = vec![
            Arc::new(Not::new(broken())),
            Arc::new(Not::new(Not::new(broken()))),
            Arc::new(AllOf::new().and(broken())),
            Arc::new(Not::new(AllOf::new().and(broken()))),
            Arc::new(AnyOf::new().or(broken()).or(says(Decision::Allow))),
            Arc::new(Not::new(AnyOf::new().or(says(denied("no"))).or(broken()))),
        ];
        for policy in combined {
            let room = Room::new(policy).await;
            let error = room.bench.check(&room.policy, &plain("a")).await.unwrap_err();
            assert!(error.to_string().ends_with("out of order"), "{error}");
        }
    }
}

#[tokio::test]
async fn parts_keep_their_state_apart_and_survive_each_other() {
    for panics in [false, true] {
        let policy = AllOf::new()
            .and(Broken { panics })
            .and(ReadBeforeWritePolicy::new())
            .and(AnyOf::new().or(RateLimitPolicy::overall(1, Duration::from_secs(1))));
        let room = Room::with_files(policy, &[("config.json", "{}")]).await;
        room.succeed(&at("read_file", "config.json")).await;
        let keys: Vec<String> = room.bench.remembered().into_keys().collect();
        assert_eq!(keys, ["room/0/1/read_before_write", "room/0/2/any_of/0/rate_limit"]);
    }
}

#[tokio::test]
async fn a_combination_reads_what_its_parts_read() {
    let combined = AllOf::new().and(deploys_after_tests()).and(AnyOf::new().or(ReadBeforeWritePolicy::new()));
    let footprints = policy_fn("footprints", move |call, _| {
        let key = Arc::from("k");
        let path_item = Arc::from("k/1/any_of/0/read_before_write");
        let expected = match &**call.tool.name() {
            "deploy" => Footprint::nothing().read_history(),
            "write_file" => Footprint::nothing().write_remembered(&path_item, "a/b").read_path("a/b"),
            _ => Footprint::nothing(),
        };
        assert_eq!(combined.footprint(call, &key), expected);
        Decision::Allow
    });
    let room = Room::new(footprints).await;
    for call in [plain("deploy"), at("write_file", "./a/x/../b"), plain("other")] {
        assert_eq!(room.check(&call).await, Decision::Allow);
    }
}

#[tokio::test]
async fn a_policy_is_one_function() {
    let small =
        policy_fn("small_orders", |call, cx| match call.params.get("count").and_then(Value::as_u64) {
            Some(0..=10) if cx.calls("order").is_none() => Decision::Allow,
            _ => Decision::deny("one small order only"),
        })
        .only(["order"])
        .reads(Footprint::nothing().read_history());
    let room = Room::new(small).await;
    let order = |count: u64| call("order", json!({ "count": count }));
    assert_eq!(room.check(&order(11)).await, denied("one small order only"));
    assert_eq!(room.check(&order(10)).await, Decision::Allow);
    room.succeed(&order(10)).await;
    assert_eq!(room.check(&order(10)).await, denied("one small order only"));
    assert_eq!(room.check(&plain("other")).await, Decision::Allow);
}

#[tokio::test]
async fn every_built_in_policy_keeps_the_contract() {
    let calls = [
        ("read_file", json!({ "path": "a/b" })),
        ("write_file", json!({ "path": "a/b", "content": "x" })),
        ("grep", json!({ "path": "a", "pattern": "x" })),
        ("deploy", json!({ "env": "prod" })),
        ("test", json!({})),
    ];
    let minute = Duration::from_secs(60);
    let make: [fn() -> Arc<dyn ToolPolicy>; 4] = [
        || Arc::new(deploys_after_tests()),
        || Arc::new(ReadBeforeWritePolicy::new()),
        || Arc::new(QuotaPolicy::new().tool("deploy", 1).session(3)),
        || Arc::new(sources_only()),
    ];
    for make in make {
        policy_contract(make, &calls).await;
    }
    policy_contract(|| Arc::new(RateLimitPolicy::per_tool(2, minute)), &calls).await;
    policy_contract(|| Arc::new(RateLimitPolicy::overall(2, minute)), &calls).await;
    policy_contract(|| Arc::new(ApprovalPolicy::all_tools()), &calls).await;
    policy_contract(|| Arc::new(says(denied("no"))), &calls).await;
    let nested = || {
        let either = AnyOf::new().or(RateLimitPolicy::overall(2, minute)).or(deploys_after_tests());
        let all = AllOf::new().and(ReadBeforeWritePolicy::new()).and(either).and(Not::new(sources_only()));
        Arc::new(all) as Arc<dyn ToolPolicy>
    };
    policy_contract(nested, &calls).await;
}

/// A policy that breaks the contract in one way.
struct Faulty {
    fault: Fault,
    asked: std::sync::atomic::AtomicU64,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    OwnState,
    UndeclaredMemory,
    EmptyReason,
    Panic,
}

impl Faulty {
    fn shared(fault: Fault) -> Arc<dyn ToolPolicy> {
        Arc::new(Self { fault, asked: 0.into() })
    }
}

impl ToolPolicy for Faulty {
    fn kind(&self) -> &'static str {
        "faulty"
    }

    fn check<'a>(
        &'a self,
        call: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        let asked = self.asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Box::pin(async move {
            Ok(match self.fault {
                Fault::OwnState if asked > 30 => denied("I was asked too often"),
                Fault::EmptyReason => denied(""),
                Fault::Panic => panic!("no object: {:?}", call.params.json().as_object().unwrap()),
                Fault::OwnState | Fault::UndeclaredMemory => Decision::Allow,
            })
        })
    }

    fn on_result<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a ResultView<'a>,
        _: &'a PolicyContext<'a>,
        memory: &'a PolicyMemory<'a>,
    ) -> BoxFuture<'a, Result<(), BoxError>> {
        Box::pin(async move { Ok(memory.remember("somewhere", json!(1))?) })
    }

    fn wants_results(&self) -> bool {
        self.fault == Fault::UndeclaredMemory
    }

    fn footprint(&self, _: &PolicyCall<'_>, key: &Arc<str>) -> Footprint {
        Footprint::nothing().write_remembered(key, "elsewhere")
    }
}

#[tokio::test]
#[should_panic(expected = "answered differently")]
async fn the_contract_finds_state_outside_the_session() {
    policy_contract(|| Faulty::shared(Fault::OwnState), &[("a", json!({}))]).await;
}

#[tokio::test]
#[should_panic(
    expected = "remember item somewhere of policy contract/0, which its footprint does not declare"
)]
async fn the_contract_finds_undeclared_memory() {
    policy_contract(|| Faulty::shared(Fault::UndeclaredMemory), &[("a", json!({}))]).await;
}

#[tokio::test]
#[should_panic(expected = "a refusal without a reason")]
async fn the_contract_finds_empty_reasons() {
    policy_contract(|| Faulty::shared(Fault::EmptyReason), &[("a", json!({}))]).await;
}

#[tokio::test]
#[should_panic(expected = "the policy panicked on")]
async fn the_contract_finds_panics() {
    policy_contract(|| Faulty::shared(Fault::Panic), &[("a", json!({}))]).await;
}

/// What happens to a few files.
#[derive(Debug, Clone, Copy)]
enum Event {
    Read,
    ReplayedRead,
    FailedRead,
    Write,
    FailedWrite,
    Delete,
    WriteOutside,
    DeleteOutside,
}

/// A file as the model knows it: which state it is in, and which one the session has seen.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    there: Option<u64>,
    seen: Option<u64>,
}

fn events() -> impl Strategy<Value = Vec<(Event, usize, usize)>> {
    let event = prop_oneof![
        Just(Event::Read),
        Just(Event::ReplayedRead),
        Just(Event::FailedRead),
        Just(Event::Write),
        Just(Event::FailedWrite),
        Just(Event::Delete),
        Just(Event::WriteOutside),
        Just(Event::DeleteOutside),
    ];
    proptest::collection::vec((event, 0..3_usize, 0..4_usize), 0..40)
}

const FILES: [&str; 3] = ["a", "d/a", "d/b"];

fn spelt(file: usize, spelling: usize) -> String {
    let file = FILES[file];
    [file.to_owned(), format!("./{file}"), format!("x/..//{file}"), format!("/{file}")][spelling].clone()
}

async fn happen(room: &Room, event: Event, path: &str) {
    let policies = std::slice::from_ref(&room.policy);
    match event {
        Event::Read => room.succeed(&at("read_file", path)).await,
        Event::ReplayedRead => room.bench.replay(policies, &at("read_file", path)).await.unwrap(),
        Event::FailedRead => room.bench.roll_back(policies, &at("read_file", path)).await.unwrap(),
        Event::Write => room.write(path, "same").await,
        Event::FailedWrite => room.bench.roll_back(policies, &at("write_file", path)).await.unwrap(),
        Event::Delete => {
            room.work(&at("delete_file", path), async |files| files.delete_all(path).await.unwrap()).await;
        }
        Event::WriteOutside => room.write_outside(path, "same").await,
        Event::DeleteOutside => room.bench.files().await.unwrap().delete_all(path).await.unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // cases 186, 188
    #[test]
    fn read_before_write_agrees_with_a_simple_model(events in events()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let room = Room::with_files(ReadBeforeWritePolicy::new(), &[("a", "same"), ("d/a", "same")]).await;
            let mut model = [Known { there: Some(0), seen: None }, Known { there: Some(0), seen: None }, Known::default()];
            for (turn, (event, file, spelling)) in (1..).zip(events) {
                let known = &mut model[file];
                let safe = known.there.is_none() || known.seen == known.there;
                let expected = match safe {
                    true => Decision::Allow,
                    false => Decision::deny(format!("Cannot write to {} without reading it first", FILES[file])),
                };
                let path = spelt(file, spelling);
                prop_assert_eq!(room.check(&at("edit_file", &path)).await, expected.clone());
                prop_assert_eq!(room.check(&at("write_file", &path)).await, expected);
                match event {
                    Event::Read if known.there.is_some() => known.seen = known.there,
                    Event::Write if safe => *known = Known { there: Some(turn), seen: Some(turn) },
                    Event::Delete if safe && known.there.is_some() => *known = Known::default(),
                    Event::WriteOutside => known.there = Some(turn),
                    Event::DeleteOutside if known.there.is_some() => known.there = None,
                    Event::ReplayedRead | Event::FailedRead | Event::FailedWrite => {}
                    // What the tool or the policy would have refused.
                    Event::Read | Event::Write | Event::Delete | Event::DeleteOutside => continue,
                }
                happen(&room, event, &path).await;
            }
            Ok(())
        })?;
    }
}

/// A policy with neither `check_now` nor `check`.
struct Mute;

impl ToolPolicy for Mute {
    fn kind(&self) -> &'static str {
        "mute"
    }
}

#[tokio::test]
async fn a_policy_that_does_not_say_how_it_decides_denies() {
    let room = Room::new(Mute).await;
    let error = room.bench.check(&room.policy, &plain("deploy")).await.unwrap_err();
    assert_eq!(error.to_string(), "the policy does not say how it decides");
}
