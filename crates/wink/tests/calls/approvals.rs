//! An approval counts for exactly what was shown, and everybody who approved is in the event.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic when they fail"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use jiff::Timestamp;
use wink::BoxFuture;
use wink::executor::{Approval, ApprovalRequest, Approver, Executor, Outcome, ToolCall};
use wink::filesystem::{FilesystemExt, MemoryFilesystem};
use wink::ledger::{IdempotencyConfig, WhenInDoubt};
use wink::policy::{Decision, FnPolicy, PolicyCall, PolicyContext, policy_fn};
use wink::prelude::*;
use wink::resource::{Binding, BoxError, ResourceRegistry, Shared};
use wink::session::{Ending, LoggedAnswer};
use wink::store::{LedgerChange, LedgerRow, LedgerState, MemoryStore, Rows, SharedStore};

type Price = Shared<u32>;

/// What happens while somebody thinks.
type Meanwhile = Box<dyn Fn(&Desk, usize) -> BoxFuture<'static, ()> + Send + Sync>;

/// Approves, each time in another name, after something happened.
struct Desk {
    files: Arc<MemoryFilesystem>,
    price: Arc<Price>,
    session: Session,
    store: SharedStore,
    meanwhile: OnceLock<Meanwhile>,
    questions: Mutex<Vec<String>>,
}

impl Approver for Desk {
    fn ask<'a>(&'a self, request: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>> {
        Box::pin(async move {
            let at = {
                let mut questions = self.questions.lock().unwrap();
                questions.push(request.question.clone());
                questions.len()
            };
            (self.meanwhile.get().unwrap())(self, at).await;
            Ok(Approval::Approved { by: format!("clerk {at}").into() })
        })
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note(u32);
impl SliceType for Note {
    const NAME: &'static str = "note";
}

async fn pay(_: (), _: &mut ToolContext) -> ToolResult<()> {
    ToolResult::done("paid")
}

struct World {
    desk: Arc<Desk>,
    executor: Executor,
}

impl World {
    async fn new(
        section: Section,
        meanwhile: impl Fn(&Desk, usize) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        let store: SharedStore = Arc::new(MemoryStore::new());
        let session = Session::builder().store(Arc::clone(&store)).open().await.unwrap();
        session.know::<Note>().unwrap();
        let files = Arc::new(MemoryFilesystem::from_files([("bill.txt", "10")]).unwrap());
        let price = Arc::new(Price::new(10));
        let resources = ResourceRegistry::of((
            Binding::filesystem(Arc::<MemoryFilesystem>::clone(&files)),
            Binding::instance(Arc::clone(&price)).snapshotable(),
            Binding::new(|_| Ok(String::from("not snapshotable"))),
        ))
        .unwrap();
        let desk = Arc::new(Desk {
            files,
            price,
            session: session.clone(),
            store,
            meanwhile: OnceLock::new(),
            questions: Mutex::default(),
        });
        assert!(desk.meanwhile.set(Box::new(meanwhile)).is_ok());
        let prompt = PromptTemplate::builder("tests", "approvals").section(section).build().unwrap().prompt();
        let executor = Executor::builder(&prompt, &session)
            .resources(resources)
            .approver(Arc::<Desk>::clone(&desk))
            .open()
            .await
            .unwrap();
        Self { desk, executor }
    }

    async fn pay(&self) -> Outcome {
        self.executor.call(ToolCall::new("1", "pay", "{}")).await
    }

    fn questions(&self) -> Vec<String> {
        self.desk.questions.lock().unwrap().clone()
    }
}

fn asking(
    kind: &'static str,
) -> FnPolicy<impl Fn(&PolicyCall<'_>, &PolicyContext<'_>) -> Decision + Send + Sync + 'static> {
    policy_fn(kind, move |_, _| Decision::Ask(format!("{kind}?")))
}

fn paying() -> Section {
    Section::tools("tools", "Tools").tool(Tool::new("pay", "Pays.", pay))
}

fn nothing(_: &Desk, _: usize) -> BoxFuture<'static, ()> {
    Box::pin(std::future::ready(()))
}

fn clerks(numbers: impl IntoIterator<Item = usize>) -> Vec<Arc<str>> {
    numbers.into_iter().map(|number| format!("clerk {number}").into()).collect()
}

#[tokio::test]
async fn what_changes_while_somebody_thinks_voids_the_approval() {
    type Change = fn(&Desk) -> BoxFuture<'static, ()>;
    let file: Change = |desk| {
        let files = Arc::clone(&desk.files);
        Box::pin(async move { _ = files.write_text("bill.txt", "1000").await.unwrap() })
    };
    let resource: Change = |desk| {
        desk.price.set(1000);
        Box::pin(std::future::ready(()))
    };
    let slice: Change = |desk| {
        assert!(desk.session.dispatch(Note(1)).is_ok());
        Box::pin(std::future::ready(()))
    };
    for change in [file, resource, slice] {
        let meanwhile = move |desk: &Desk, at: usize| if at == 1 { change(desk) } else { nothing(desk, at) };
        let world = World::new(paying().policy(asking("first")).policy(asking("second")), meanwhile).await;
        let outcome = world.pay().await;
        assert_eq!(outcome.text(), "paid");
        // The first word was about another state; everybody else was asked once.
        assert_eq!(world.questions(), ["first?", "first?", "second?"]);
        assert_eq!(outcome.event.approvers, clerks(1..=3));
    }
    let world = World::new(paying().policy(asking("first")), nothing).await;
    let outcome = world.pay().await;
    assert_eq!((outcome.text(), world.questions().len()), ("paid", 1));
}

#[tokio::test]
async fn a_later_change_voids_earlier_approvals_too() {
    let meanwhile = |desk: &Desk, at: usize| {
        if at == 2 {
            desk.price.update(|price| *price += 1);
        }
        nothing(desk, at)
    };
    let world = World::new(paying().policy(asking("first")).policy(asking("second")), meanwhile).await;
    let outcome = world.pay().await;
    assert_eq!(outcome.text(), "paid");
    assert_eq!(world.questions(), ["first?", "second?", "first?", "second?"]);
    assert_eq!(outcome.event.approvers, clerks(1..=4));
}

#[tokio::test]
async fn as_many_may_ask_as_there_are_policies() {
    let kinds = ["a", "b", "c", "d", "e", "f", "g"];
    let section = kinds.into_iter().fold(paying(), |section, kind| section.policy(asking(kind)));
    let world = World::new(section, nothing).await;
    let outcome = world.pay().await;
    assert_eq!(outcome.text(), "paid");
    assert_eq!(world.questions(), kinds.map(|kind| format!("{kind}?")));
    assert_eq!(outcome.event.approvers, clerks(1..=kinds.len()));
    let answers: Vec<_> = outcome.event.decisions.iter().map(|decision| decision.answer.clone()).collect();
    let approved = |kind: &str| LoggedAnswer::Ask { question: format!("{kind}?").into(), approved: true };
    assert_eq!(answers, kinds.map(approved));
    // The event comes back whole.
    let json = serde_json::to_string(&*outcome.event).unwrap();
    assert_eq!(serde_json::from_str::<wink::session::ToolInvoked>(&json).unwrap(), *outcome.event);
}

#[tokio::test]
async fn what_keeps_changing_is_not_run() {
    let meanwhile = |desk: &Desk, at: usize| {
        desk.price.update(|price| *price += 1);
        nothing(desk, at)
    };
    let world = World::new(paying().policy(asking("first")), meanwhile).await;
    let outcome = world.pay().await;
    let text = "pay was not run: what was shown kept changing while approval was asked for";
    assert_eq!((outcome.text(), outcome.event.ending), (text, Ending::Denied));
    assert_eq!(outcome.event.approvers, clerks(1..=5));
}

#[tokio::test]
async fn the_ledgers_question_does_not_void_what_policies_were_told() {
    async fn hang(_: (), _: &mut ToolContext) -> ToolResult<()> {
        static RUNS: Mutex<u32> = Mutex::new(0);
        let first = {
            let mut runs = RUNS.lock().unwrap();
            *runs += 1;
            *runs == 1
        };
        assert!(!first, "the first one is stopped");
        ToolResult::done("paid")
    }
    let config = IdempotencyConfig::auto().when_in_doubt(WhenInDoubt::Ask);
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("pay", "Pays.", hang).idempotency(config))
        .policy(asking("first"));
    let world = World::new(section, nothing).await;
    assert_eq!(world.pay().await.event.ending, Ending::Panicked);
    let outcome = world.pay().await;
    assert_eq!(outcome.text(), "paid");
    let questions = world.questions();
    assert_eq!((questions.len(), &*questions[1]), (3, "first?"), "{questions:?}");
    assert!(questions[2].ends_with("Run it again?"), "{questions:?}");
    assert_eq!(outcome.event.approvers, clerks(2..=3));
}

#[tokio::test]
async fn what_was_decided_after_an_approval_is_in_order() {
    let section = paying()
        .policy(policy_fn("a", |_, _| Decision::Allow))
        .policy(asking("b"))
        .policy(policy_fn("c", |_, _| Decision::Allow));
    let outcome = World::new(section, nothing).await.pay().await;
    let decisions: Vec<_> =
        outcome.event.decisions.iter().map(|one| (one.policy.to_string(), one.answer.clone())).collect();
    let approved = LoggedAnswer::Ask { question: "b?".into(), approved: true };
    let expected = [
        ("tools/a/0".to_owned(), LoggedAnswer::Allow),
        ("tools/b/0".to_owned(), approved),
        ("tools/c/0".to_owned(), LoggedAnswer::Allow),
    ];
    assert_eq!(decisions, expected);
}

#[tokio::test]
async fn policies_are_asked_again_after_the_ledgers_question() {
    async fn stop(_: (), _: &mut ToolContext) -> ToolResult<()> {
        panic!("stopped")
    }
    let changed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&changed);
    let config = IdempotencyConfig::auto().when_in_doubt(WhenInDoubt::Ask);
    let section = Section::tools("tools", "Tools")
        .tool(Tool::new("pay", "Pays.", stop).idempotency(config))
        .policy(policy_fn("shut", move |_, _| match seen.load(Ordering::SeqCst) {
            true => Decision::deny("the shop is shut"),
            false => Decision::Allow,
        }));
    let world = World::new(section, move |desk, at| {
        changed.store(true, Ordering::SeqCst);
        nothing(desk, at)
    })
    .await;
    assert_eq!(world.pay().await.event.ending, Ending::Panicked);
    let outcome = world.pay().await;
    assert_eq!((outcome.text(), outcome.event.ending), ("the shop is shut", Ending::Denied));
    assert_eq!(world.questions().len(), 1);
}

#[tokio::test]
async fn an_entry_that_keeps_changing_is_not_run_again() {
    async fn stop(_: (), _: &mut ToolContext) -> ToolResult<()> {
        panic!("stopped")
    }
    let config = IdempotencyConfig::auto().when_in_doubt(WhenInDoubt::Ask);
    let section = Section::tools("tools", "Tools").tool(Tool::new("pay", "Pays.", stop).idempotency(config));
    let meanwhile = |desk: &Desk, at: usize| -> BoxFuture<'static, ()> {
        let store = Arc::clone(&desk.store);
        Box::pin(async move {
            let from = store.rows(Rows::All).await.unwrap().remove(0);
            let state = LedgerState::InDoubt { reason: format!("doubt {at}"), since: Timestamp::UNIX_EPOCH };
            let to = Some(LedgerRow { state, ..from.clone() });
            assert!(store.replace(LedgerChange { from, to }).await.unwrap());
        })
    };
    let world = World::new(section, meanwhile).await;
    assert_eq!(world.pay().await.event.ending, Ending::Panicked);
    let outcome = world.pay().await;
    let text = "pay was not run: its entry kept changing while approval was asked for";
    assert_eq!((outcome.text(), outcome.event.ending), (text, Ending::InDoubt));
    assert_eq!(outcome.event.approvers, clerks(1..=5));
}
