//! Completion: who is asked when the model says that it is done.

#![allow(clippy::unwrap_used, reason = "tests panic when they fail")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use wink::BoxFuture;
use wink::feedback::{
    AllComplete, AnyComplete, CheckerPanicked, Completion, CompletionChecker, CompletionContext,
};
use wink::filesystem::{Filesystem, FilesystemExt, MemoryFilesystem};
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry};
use wink::serde_json::json;
use wink::suites::planning::{AddStep, Plan, SetupPlan, UpdateStep};
use wink::suites::{PlanChecker, StepStatus};

/// Says what it was told to say, and counts.
#[derive(Clone)]
struct Says {
    what: Completion,
    asked: Arc<AtomicUsize>,
}

impl Says {
    fn complete() -> Self {
        Self { what: Completion::Complete, asked: Arc::default() }
    }

    fn missing(text: &str) -> Self {
        Self { what: missing(text), asked: Arc::default() }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl CompletionChecker for Says {
    fn check<'a>(&'a self, _: &'a CompletionContext<'a>) -> BoxFuture<'a, Completion> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(self.what.clone()))
    }
}

fn missing(text: &str) -> Completion {
    Completion::Missing(text.to_owned())
}

async fn ask(checker: &dyn CompletionChecker, session: &Session) -> Completion {
    CompletionContext::new(session, "Done.").ask(checker).await.unwrap()
}

fn session_with_plan(titles: &[&str]) -> Session {
    let session = Session::new();
    session.install::<Plan>().unwrap();
    let initial_steps = titles.iter().map(|&title| title.to_owned()).collect();
    assert!(session.dispatch(SetupPlan { objective: "Ship it".into(), initial_steps }).is_ok());
    session
}

fn done(session: &Session, step_id: u32) {
    let update = UpdateStep { step_id, title: None, status: Some(StepStatus::Done) };
    assert!(session.dispatch(update).is_ok());
}

// case 197
#[tokio::test]
async fn an_open_plan_is_told_with_its_counts_and_three_titles() {
    let session = session_with_plan(&["Build", "Test", "Review\nit", "Deploy", "Tell"]);
    done(&session, 1);
    assert_eq!(
        ask(&PlanChecker, &session).await,
        missing(
            "The plan is not done: 1 of 5 steps are. Open: 2. Test; 3. Review it; 4. Deploy; and 1 more. \
             Finish them, or change the plan to what you did."
        )
    );
    (2..=4).for_each(|step| done(&session, step));
    assert_eq!(
        ask(&PlanChecker, &session).await,
        missing(
            "The plan is not done: 4 of 5 steps are. Open: 5. Tell. Finish them, or change the plan to what you did."
        )
    );
}

// case 197
#[tokio::test]
async fn a_plan_that_is_done_is_complete_until_a_step_is_added() {
    let session = session_with_plan(&["Build"]);
    done(&session, 1);
    assert_eq!(ask(&PlanChecker, &session).await, Completion::Complete);
    assert!(session.dispatch(AddStep { steps: vec!["Test".into()] }).is_ok());
    assert!(matches!(ask(&PlanChecker, &session).await, Completion::Missing(_)));
}

// case 197
#[tokio::test]
async fn without_a_plan_there_is_nothing_to_wait_for() {
    assert_eq!(ask(&PlanChecker, &Session::new()).await, Completion::Complete);
    assert_eq!(ask(&PlanChecker, &session_with_plan(&[])).await, Completion::Complete);
}

// case 197
#[tokio::test]
async fn all_stops_at_the_first_that_is_not_satisfied() {
    let session = Session::new();
    let (first, second, third) = (Says::complete(), Says::missing("tests"), Says::missing("docs"));
    let all = AllComplete::new().and(first.clone()).and(second.clone()).and(third.clone());
    assert_eq!(ask(&all, &session).await, missing("tests"));
    assert_eq!((first.asked(), second.asked(), third.asked()), (1, 1, 0));
    let both = AllComplete::new().and(first).and(Says::complete());
    assert_eq!(ask(&both, &session).await, Completion::Complete);
    assert_eq!(ask(&AllComplete::new(), &session).await, Completion::Complete);
}

// case 197
#[tokio::test]
async fn any_stops_at_the_first_that_is_satisfied() {
    let session = Session::new();
    let (first, second, third) = (Says::missing("tests"), Says::complete(), Says::missing("docs"));
    let any = AnyComplete::new().or(first.clone()).or(second.clone()).or(third.clone());
    assert_eq!(ask(&any, &session).await, Completion::Complete);
    assert_eq!((first.asked(), second.asked(), third.asked()), (1, 1, 0));
    let neither = AnyComplete::new().or(first).or(third);
    assert_eq!(ask(&neither, &session).await, missing("tests\nor: docs"));
    assert_eq!(ask(&AnyComplete::new(), &session).await, Completion::Complete);
}

// case 197
#[tokio::test]
async fn a_prompt_carries_its_checkers() {
    let session = Session::new();
    let builder = || PromptTemplate::builder("tests", "completion");
    assert!(builder().build().unwrap().prompt().completion().is_none());
    let template = builder().completion(Says::complete()).completion(Says::missing("tests")).build().unwrap();
    let prompt = template.prompt();
    assert_eq!(ask(prompt.completion().unwrap(), &session).await, missing("tests"));
}

#[tokio::test]
async fn a_checker_that_panics_is_not_taken_for_satisfied() {
    struct Panics;
    impl CompletionChecker for Panics {
        #[allow(clippy::panic, reason = "that is what is tested")]
        fn check<'a>(&'a self, cx: &'a CompletionContext<'a>) -> BoxFuture<'a, Completion> {
            if cx.text() == "early" {
                panic!("early")
            }
            Box::pin(async { panic!("late") })
        }
    }
    let session = Session::new();
    for text in ["early", "late"] {
        let said = CompletionContext::new(&session, text).ask(&Panics).await;
        assert_eq!(said, Err(CheckerPanicked), "{text}");
    }
}

#[tokio::test]
async fn a_checker_sees_the_answer_and_the_workspace_and_changes_nothing() {
    struct Looks;
    impl CompletionChecker for Looks {
        fn check<'a>(&'a self, cx: &'a CompletionContext<'a>) -> BoxFuture<'a, Completion> {
            Box::pin(async {
                assert_eq!((cx.text(), cx.output()), ("Done.", Some(&json!({ "ok": true }))));
                assert!(cx.calls("write_file").is_none());
                let Ok(Some(files)) = cx.filesystem().await else { return missing("no files") };
                assert_eq!(files.read_text("report.md").await.unwrap(), "fine");
                assert!(files.write_text("report.md", "changed").await.is_err());
                Completion::Complete
            })
        }
    }
    let files = Arc::new(MemoryFilesystem::new());
    files.write_text("report.md", "fine").await.unwrap();
    let registry = ResourceRegistry::of([Binding::filesystem(Arc::clone(&files) as Arc<dyn Filesystem>)]);
    let resources = registry.unwrap().open().await.unwrap();
    let session = Session::new();
    let output = json!({ "ok": true });
    let cx = CompletionContext::new(&session, "Done.").with_output(&output);
    assert_eq!(cx.with_resources(&resources).ask(&Looks).await, Ok(Completion::Complete));
    let cx = CompletionContext::new(&session, "Done.").with_output(&output);
    assert_eq!(cx.ask(&Looks).await, Ok(missing("no files")));
}
