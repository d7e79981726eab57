//! The planning suite, through the executor.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use proptest::prelude::*;
use serde_json::{Value, json};
use wink::executor::{Executor, Outcome, ToolCall};
use wink::prelude::*;
use wink::suites::planning::{AddStep, SetupPlan, UpdateStep};
use wink::suites::{Plan, PlanStatus, PlanStep, PlanningStrategy, PlanningToolsSection, StepStatus};

const NO_PLAN: &str = "No plan is currently initialised.";

async fn open(session: &Session) -> Executor {
    let section = PlanningToolsSection::new().section();
    let prompt =
        PromptTemplate::builder("tests", "planning").section(section).build().expect("valid").prompt();
    Executor::open(&prompt, session).await.expect("opens")
}

async fn call(executor: &Executor, tool: &str, arguments: Value) -> Outcome {
    executor.call(ToolCall::new("c", tool, arguments.to_string())).await
}

fn plan(session: &Session) -> Option<Plan> {
    let plans = session.slice::<Plan>();
    assert!(plans.len() <= 1, "a session has at most one plan");
    plans.latest().map(|plan| Plan::clone(&plan))
}

fn step(step_id: u32, title: &str, status: StepStatus) -> PlanStep {
    PlanStep { step_id, title: title.into(), status }
}

// case 158
#[tokio::test]
async fn setup_trims_numbers_and_replaces() {
    let session = Session::new();
    let executor = open(&session).await;
    let arguments = json!({ "objective": "  Ship it \n", "initial_steps": [" build", "test\t"] });
    let outcome = call(&executor, "planning_setup_plan", arguments).await;
    assert_eq!(
        outcome.text(),
        "Plan set up.\n\nObjective: Ship it\nStatus: active (0 of 2 done)\n1. [pending] build\n2. [pending] test"
    );
    let expected = Plan {
        objective: "Ship it".into(),
        status: PlanStatus::Active,
        steps: vec![step(1, "build", StepStatus::Pending), step(2, "test", StepStatus::Pending)],
    };
    assert_eq!(outcome.value::<Plan>(), Some(expected.clone()));
    assert_eq!(plan(&session), Some(expected));

    let outcome = call(&executor, "planning_setup_plan", json!({ "objective": "Rest" })).await;
    assert_eq!(outcome.text(), "Plan set up.\n\nObjective: Rest\nStatus: active (0 of 0 done)");
    let expected = Plan { objective: "Rest".into(), status: PlanStatus::Active, steps: vec![] };
    assert_eq!(plan(&session), Some(expected));
}

// case 159
#[tokio::test]
async fn without_a_plan_there_is_nothing_to_add_update_or_read() {
    let session = Session::new();
    let executor = open(&session).await;
    let calls = [
        ("planning_add_step", json!({ "steps": ["x"] })),
        ("planning_update_step", json!({ "step_id": 1, "status": "done" })),
        ("planning_read_plan", json!({})),
    ];
    for (tool, arguments) in calls {
        let outcome = call(&executor, tool, arguments).await;
        assert_eq!((outcome.text(), outcome.is_success()), (NO_PLAN, false), "{tool}");
    }
    assert_eq!(plan(&session), None);
}

// case 160
#[tokio::test]
async fn objective_and_titles_have_1_to_500_characters() {
    let session = Session::new();
    let executor = open(&session).await;
    // Characters, not bytes, and not what is trimmed away.
    let longest = format!("  {}  ", "é".repeat(500));
    let too_long = "é".repeat(501);
    let outcome =
        call(&executor, "planning_setup_plan", json!({ "objective": longest, "initial_steps": [longest] }))
            .await;
    assert!(outcome.is_success(), "{}", outcome.text());
    let before = plan(&session);

    let refused = [
        ("planning_setup_plan", json!({ "objective": too_long })),
        ("planning_setup_plan", json!({ "objective": "" })),
        ("planning_setup_plan", json!({ "objective": " \n" })),
        ("planning_setup_plan", json!({ "objective": "o", "initial_steps": ["a", too_long] })),
        ("planning_setup_plan", json!({ "objective": "o", "initial_steps": ["a", ""] })),
        ("planning_add_step", json!({ "steps": [too_long] })),
        ("planning_add_step", json!({ "steps": [" "] })),
        ("planning_add_step", json!({ "steps": [] })),
        ("planning_update_step", json!({ "step_id": 1, "title": too_long })),
        ("planning_update_step", json!({ "step_id": 1, "title": "  " })),
    ];
    let mut texts = String::new();
    for (tool, arguments) in refused {
        let outcome = call(&executor, tool, arguments).await;
        assert!(!outcome.is_success());
        texts.push_str(outcome.text());
        texts.push('\n');
    }
    insta::assert_snapshot!(texts);
    assert_eq!(plan(&session), before);
}

// case 161
#[tokio::test]
async fn an_update_names_a_step_and_a_change() {
    let session = Session::new();
    let executor = open(&session).await;
    let _ = call(&executor, "planning_setup_plan", json!({ "objective": "o", "initial_steps": ["a"] })).await;
    let before = plan(&session);
    let nothing = call(&executor, "planning_update_step", json!({ "step_id": 1 })).await;
    assert_eq!(
        (nothing.text(), nothing.is_success()),
        ("There is nothing to update; give a title, a status, or both.", false)
    );
    let unknown = call(&executor, "planning_update_step", json!({ "step_id": 7, "status": "done" })).await;
    assert_eq!((unknown.text(), unknown.is_success()), ("Step 7 does not exist.", false));
    assert_eq!(plan(&session), before);

    let arguments = json!({ "step_id": 1, "title": " b ", "status": "in_progress" });
    let both = call(&executor, "planning_update_step", arguments).await;
    assert_eq!(
        both.text(),
        "Updated step 1.\n\nObjective: o\nStatus: active (0 of 1 done)\n1. [in_progress] b"
    );
}

// case 162
#[tokio::test]
async fn a_plan_is_completed_and_becomes_active_again() {
    let session = Session::new();
    let executor = open(&session).await;
    let status = || plan(&session).map(|plan| plan.status);
    let set = async |step_id: u32, status: &str| {
        let _ =
            call(&executor, "planning_update_step", json!({ "step_id": step_id, "status": status })).await;
    };
    let _ = call(&executor, "planning_setup_plan", json!({ "objective": "o", "initial_steps": ["a", "b"] }))
        .await;
    set(2, "done").await;
    assert_eq!(status(), Some(PlanStatus::Active));
    set(1, "done").await;
    assert_eq!(status(), Some(PlanStatus::Completed));
    let _ = call(&executor, "planning_add_step", json!({ "steps": ["c"] })).await;
    assert_eq!(status(), Some(PlanStatus::Active));
    set(3, "done").await;
    assert_eq!(status(), Some(PlanStatus::Completed));
    set(1, "in_progress").await;
    assert_eq!(status(), Some(PlanStatus::Active));
    let read = call(&executor, "planning_read_plan", json!({})).await;
    assert_eq!(
        read.text(),
        "Objective: o\nStatus: active (2 of 3 done)\n1. [in_progress] a\n2. [done] b\n3. [done] c"
    );
}

// case 163
#[tokio::test]
async fn numbers_go_on_and_begin_again_with_a_new_plan() {
    let session = Session::new();
    let executor = open(&session).await;
    let ids = || plan(&session).map(|plan| Vec::from_iter(plan.steps.iter().map(|step| step.step_id)));
    let _ = call(&executor, "planning_setup_plan", json!({ "objective": "o", "initial_steps": ["a", "b"] }))
        .await;
    let _ = call(&executor, "planning_add_step", json!({ "steps": ["c", "d"] })).await;
    let _ = call(&executor, "planning_add_step", json!({ "steps": [" ", "lost"] })).await;
    let _ = call(&executor, "planning_add_step", json!({ "steps": ["e"] })).await;
    assert_eq!(ids(), Some(vec![1, 2, 3, 4, 5]));
    let _ = call(&executor, "planning_setup_plan", json!({ "objective": "o", "initial_steps": ["a"] })).await;
    assert_eq!(ids(), Some(vec![1]));
}

// case 165
#[test]
fn strategies_differ_only_in_the_mindset() {
    let render = |strategy| {
        let section: Section = PlanningToolsSection::new().strategy(strategy).into();
        let prompt =
            PromptTemplate::builder("tests", "planning").section(section).build().expect("valid").prompt();
        prompt.render(&Session::new()).expect("renders")
    };
    let react = render(PlanningStrategy::default());
    insta::assert_snapshot!(react.text());
    let blocks = |text: &str| Vec::from_iter(text.split("\n\n").map(str::to_owned));
    let first = blocks(react.text());
    for strategy in [PlanningStrategy::PlanActReflect, PlanningStrategy::GoalDecomposeRouteSynthesise] {
        let other = render(strategy);
        let names = |prompt: &wink::prompt::RenderedPrompt| {
            Vec::from_iter(prompt.tools().iter().map(|tool| tool.tool.contract().schema_text().to_owned()))
        };
        assert_eq!(names(&other), names(&react));
        let other = blocks(other.text());
        let differing: Vec<usize> =
            (0..first.len().max(other.len())).filter(|at| first.get(*at) != other.get(*at)).collect();
        assert_eq!(differing, [2], "heading, introduction, mindset, rules");
    }
}

#[tokio::test]
async fn a_batch_of_planning_calls_runs_in_order() {
    let session = Session::new();
    let executor = open(&session).await;
    let calls = vec![
        ToolCall::new("1", "planning_setup_plan", r#"{"objective":"o","initial_steps":["a"]}"#),
        ToolCall::new("2", "planning_add_step", r#"{"steps":["b"]}"#),
        ToolCall::new("3", "planning_update_step", r#"{"step_id":9,"status":"done"}"#),
        ToolCall::new("4", "planning_read_plan", ""),
    ];
    let outcomes = executor.batch(calls).await;
    let texts = Vec::from_iter(outcomes.iter().map(Outcome::text));
    assert_eq!(texts[2], "Step 9 does not exist.");
    assert_eq!(texts[3], "Objective: o\nStatus: active (0 of 2 done)\n1. [pending] a\n2. [pending] b");
}

#[test]
fn events_from_outside_obey_the_same_rules() {
    let session = Session::new();
    session.install::<Plan>().expect("installs");
    let refused = session.dispatch(AddStep { steps: vec!["a".into()] });
    assert_eq!(refused.failures[0].reason, NO_PLAN);
    assert_eq!(plan(&session), None);
    let event = SetupPlan { objective: " o ".into(), initial_steps: vec!["a\nb".into()] };
    assert!(session.dispatch(event).is_ok());
    let event = UpdateStep { step_id: 1, title: None, status: Some(StepStatus::Done) };
    assert!(session.dispatch(event).is_ok());
    let there = plan(&session).expect("a plan");
    assert_eq!(
        there.render().expect("renders"),
        "Objective: o\nStatus: completed (1 of 1 done)\n1. [done] a b"
    );
    assert!(session.dispatch(there.clone()).is_ok());
    assert_eq!(plan(&session), Some(there));
}

/// What a model may send: also what is refused.
#[derive(Debug, Clone)]
enum Op {
    Setup(String, Vec<String>),
    Add(Vec<String>),
    Update(u32, Option<String>, Option<&'static str>),
}

fn title() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-z ]{1,6}", 1 => Just(String::new()), 1 => Just("x".repeat(501))]
}

fn op() -> impl Strategy<Value = Op> {
    let status = prop::option::of(prop::sample::select(vec!["pending", "in_progress", "done"]));
    prop_oneof![
        1 => (title(), prop::collection::vec(title(), 0..3)).prop_map(|(objective, steps)| Op::Setup(objective, steps)),
        2 => prop::collection::vec(title(), 0..3).prop_map(Op::Add),
        5 => (0..6u32, prop::option::of(title()), status).prop_map(|(id, title, status)| Op::Update(id, title, status)),
    ]
}

/// The rules again, as simply as can be: titles with a status each, numbered by place.
type Model = Option<(String, Vec<(String, String)>)>;

fn fits(text: &str) -> bool {
    !text.trim().is_empty() && text.trim().len() <= 500
}

fn predict(model: &mut Model, op: &Op) -> bool {
    let fresh = |titles: &[String]| {
        Vec::from_iter(titles.iter().map(|title| (title.trim().to_owned(), "pending".to_owned())))
    };
    match (op, model.as_mut()) {
        (Op::Setup(objective, titles), _) => {
            let fits = fits(objective) && titles.iter().all(|title| fits(title));
            if fits {
                *model = Some((objective.trim().to_owned(), fresh(titles)));
            }
            fits
        }
        (_, None) => false,
        (Op::Add(titles), Some((_, steps))) => {
            let fits = !titles.is_empty() && titles.iter().all(|title| fits(title));
            if fits {
                steps.extend(fresh(titles));
            }
            fits
        }
        (Op::Update(id, title, status), Some((_, steps))) => {
            let change = title.is_some() || status.is_some();
            let valid = title.as_deref().is_none_or(fits);
            let Some(step) = (*id as usize).checked_sub(1).and_then(|at| steps.get_mut(at)) else {
                return false;
            };
            if !change || !valid {
                return false;
            }
            if let Some(title) = title {
                step.0 = title.trim().to_owned();
            }
            if let Some(status) = status {
                step.1 = (*status).to_owned();
            }
            true
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // cases 158, 160, 161, 162, 163
    #[test]
    fn plans_follow_a_simple_model(ops in prop::collection::vec(op(), 1..25)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            let session = Session::new();
            let executor = open(&session).await;
            let mut model: Model = None;
            for op in &ops {
                let expected = predict(&mut model, op);
                let (tool, arguments) = match op {
                    Op::Setup(objective, steps) => {
                        ("planning_setup_plan", json!({ "objective": objective, "initial_steps": steps }))
                    }
                    Op::Add(steps) => ("planning_add_step", json!({ "steps": steps })),
                    Op::Update(id, title, status) => {
                        ("planning_update_step", json!({ "step_id": id, "title": title, "status": status }))
                    }
                };
                let outcome = call(&executor, tool, arguments).await;
                assert_eq!(outcome.is_success(), expected, "{op:?}: {}", outcome.text());
                let seen = serde_json::to_value(plan(&session)).expect("serialises");
                let wanted = model.as_ref().map(|(objective, steps)| {
                    let completed = !steps.is_empty() && steps.iter().all(|(_, status)| status == "done");
                    let steps = Vec::from_iter(steps.iter().enumerate().map(|(at, (title, status))| {
                        json!({ "step_id": at + 1, "title": title, "status": status })
                    }));
                    let status = if completed { "completed" } else { "active" };
                    json!({ "objective": objective, "status": status, "steps": steps })
                });
                assert_eq!(seen, json!(wanted));
            }
        });
    }
}
