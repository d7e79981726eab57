//! What every [`ToolPolicy`] must do, as one function to run on any implementation.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a contract suite says what is broken by panicking"
)]

use std::sync::Arc;

use serde_json::{Value, json};

use super::{BenchCall, PolicyBench};
use crate::policy::{Decision, PlacedPolicy, ToolPolicy};
use crate::support::future::catch;
use crate::testing::filesystem_tree;
use crate::tool::footprint::{Access, Area};

/// The longest reason or question: whoever reads it has a bounded window.
const MAX_TEXT: usize = 8 * 1024;

/// Runs the whole contract on policies that `make` makes, each configured alike. `calls` are tools and arguments
/// that the policy has something to say about; they are made to succeed, in order, on an empty workspace.
///
/// # Panics
///
/// When the implementation breaks the contract; the text says where.
pub async fn policy_contract(make: impl Fn() -> Arc<dyn ToolPolicy>, calls: &[(&str, Value)]) {
    let policy = PlacedPolicy { key: "contract/0".into(), policy: make() };
    kind_is_stable(&policy, &make());
    let asked = all_calls(calls);
    let bench = PolicyBench::new().await.expect("an empty workspace can be bound");
    for (tool, arguments) in calls {
        only_looks(&bench, &policy, &asked).await;
        rolled_back_leaves_nothing(&bench, &policy, &asked).await;
        remembers_what_it_declares(&bench, &policy, &call(tool, arguments.clone())).await;
        let again = PlacedPolicy { key: Arc::clone(&policy.key), policy: make() };
        let (first, second) = (answers(&bench, &policy, &asked).await, answers(&bench, &again, &asked).await);
        assert_eq!(first, second, "a policy made anew answers differently: its state must be in the session");
    }
    only_looks(&bench, &policy, &asked).await;
}

fn kind_is_stable(policy: &PlacedPolicy, other: &Arc<dyn ToolPolicy>) {
    let kind = policy.policy.kind();
    assert!(!kind.is_empty(), "the kind is part of the state's key and must not be empty");
    assert!(!kind.contains('/'), "the kind is one segment of the state's key and must not contain '/'");
    assert_eq!((kind, kind), (policy.policy.kind(), other.kind()), "the kind must always be the same");
    assert_eq!(
        policy.policy.wants_results(),
        other.wants_results(),
        "wanting results must always be the same"
    );
}

fn call(tool: &str, arguments: Value) -> BenchCall {
    BenchCall::new(tool, arguments).expect("the calls have proper tool names")
}

/// The calls, the same tools with odd arguments, and a tool that nobody has heard of.
fn all_calls(calls: &[(&str, Value)]) -> Vec<BenchCall> {
    let mut all: Vec<BenchCall> =
        calls.iter().map(|(tool, arguments)| call(tool, arguments.clone())).collect();
    for tool in calls.iter().map(|(tool, _)| *tool).chain(["unheard-of"]) {
        let fields = || {
            let objects = calls.iter().filter_map(|(_, arguments)| arguments.as_object());
            objects.flat_map(|fields| fields.keys().map(String::as_str)).chain(["unheard_of"])
        };
        let odd = [
            json!(null),
            json!(7),
            json!(""),
            json!([]),
            json!([null, { "a": [] }]),
            json!({ "": { "": null } }),
            json!("../../\u{0}\u{202e}\u{1f}"),
            json!("x".repeat(20_000)),
            json!(vec!["a/b"; 50]),
            json!(-1.5e300),
        ];
        all.push(call(tool, json!({})));
        all.push(call(tool, json!([1])));
        all.push(call(tool, json!(null)));
        for value in odd {
            let arguments = fields().map(|name| (name.to_owned(), value.clone())).collect();
            all.push(call(tool, Value::Object(arguments)));
        }
    }
    all
}

/// The answers as text, so that failures can be compared too.
async fn answers(
    bench: &PolicyBench,
    policy: &PlacedPolicy,
    calls: &[BenchCall],
) -> Vec<Result<Decision, String>> {
    let mut answers = Vec::new();
    for call in calls {
        let answer = bench.check(policy, call).await;
        if let Err(error) = &answer {
            let panicked = error.is::<crate::policy::PolicyPanicked>();
            assert!(!panicked, "the policy panicked on {}: {error}", shown(call));
        }
        answers.push(answer.map_err(|error| error.to_string()));
    }
    answers
}

fn shown(call: &BenchCall) -> String {
    format!("{} {}", call.tool.name(), crate::filesystem::shown(call.params.text()))
}

/// Asking changes nothing, so asking twice gives one answer.
async fn only_looks(bench: &PolicyBench, policy: &PlacedPolicy, calls: &[BenchCall]) {
    let before = world(bench).await;
    let first = answers(bench, policy, calls).await;
    assert_eq!(before, world(bench).await, "asking changed the session or the workspace");
    assert_eq!(first, answers(bench, policy, calls).await, "asked twice, the policy answered differently");
    for (call, answer) in calls.iter().zip(first) {
        let text = match &answer {
            Ok(Decision::Allow) => continue,
            Ok(Decision::Deny(reason)) => &**reason,
            Ok(Decision::Ask(question)) => question,
            Err(error) => error,
        };
        assert!(!text.trim().is_empty(), "a refusal without a reason: {}", shown(call));
        assert!(text.len() <= MAX_TEXT, "a text of {} bytes is too long: {}", text.len(), shown(call));
    }
    for call in calls {
        let declare = || policy.policy.footprint(&call.as_call(), &policy.key);
        let (first, second) = (catch(declare), catch(declare));
        assert!(first.is_ok(), "declaring the footprint of {} panicked: {first:?}", shown(call));
        assert_eq!(first, second, "the footprint of {} changes", shown(call));
    }
}

async fn world(bench: &PolicyBench) -> (Value, impl PartialEq + std::fmt::Debug) {
    let mut session = bench.session.snapshot().to_json().expect("the session can be written as JSON");
    if let Some(fields) = session.as_object_mut() {
        fields.remove("created_at");
    }
    let files = bench.files().await.expect("the bench has a workspace");
    (session, filesystem_tree(&*files).await)
}

/// What it remembers of a call is gone with the call.
async fn rolled_back_leaves_nothing(bench: &PolicyBench, policy: &PlacedPolicy, calls: &[BenchCall]) {
    let (before, first) = (world(bench).await, answers(bench, policy, calls).await);
    for call in calls {
        bench.roll_back(std::slice::from_ref(policy), call).await.expect("a rollback in memory goes through");
    }
    assert_eq!(before, world(bench).await, "a call that was rolled back left something");
    assert_eq!(first, answers(bench, policy, calls).await, "a call that was rolled back changed an answer");
}

/// What it remembers of a success is what its footprint says.
async fn remembers_what_it_declares(bench: &PolicyBench, policy: &PlacedPolicy, call: &BenchCall) {
    let footprint = policy.policy.footprint(&call.as_call(), &policy.key);
    let before = bench.remembered();
    bench
        .succeed(std::slice::from_ref(policy), call, async |_| {})
        .await
        .expect("a commit in memory goes through");
    for (key, items) in bench.remembered() {
        let old = before.get(&key);
        for (item, value) in items {
            if old.and_then(|old| old.get(&item)) == Some(&value) {
                continue;
            }
            let area = Area::PolicyItem(key.as_str().into(), item.as_str().into());
            assert!(
                footprint.allows(Access::Write, &area),
                "{} made the policy remember {area}, which its footprint does not declare",
                shown(call)
            );
        }
    }
}
