//! The log of a session that a durable store keeps: it is read there, and is what it would be in memory.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test says what is broken by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use wink::BoxFuture;
use wink::policy::{Decision, PolicyCall, PolicyContext, ToolPolicy};
use wink::prelude::*;
use wink::serde::{Deserialize, Serialize};
use wink::session::{SliceProblem, SnapshotScope};
use wink::store::{Batch, Record, SharedStore};
use wink::testing::{ByteStore, FaultyStore, StoreOp};

/// What happened.
#[data]
#[derive(PartialEq, SliceType)]
#[slice(name = "happened", kind = "log")]
struct Happened {
    number: u32,
}

async fn open(store: &SharedStore) -> Session {
    Session::builder().store(Arc::clone(store)).id("one").open().await.unwrap()
}

fn numbers(session: &Session) -> Vec<u32> {
    session.slice::<Happened>().iter().map(|one| one.number).collect()
}

fn happen(session: &Session, numbers: std::ops::Range<u32>) {
    numbers.for_each(|number| assert!(session.dispatch(Happened { number }).is_ok()));
}

#[tokio::test]
async fn what_is_stored_and_what_is_not_yet_are_one_slice() {
    let store: SharedStore = Arc::new(ByteStore::new());
    let session = open(&store).await;
    let all = |upto: u32| (0..upto).collect::<Vec<_>>();
    let (mut count, mut views) = (0, Vec::new());
    for upto in [3, 5, 5, 900, 901] {
        happen(&session, count..upto);
        count = upto;
        assert_eq!(numbers(&session), all(upto), "before it is stored");
        views.push((upto, session.slice::<Happened>()));
        session.flush().await.unwrap();
        views.push((upto, session.slice::<Happened>()));
        assert_eq!(numbers(&session), all(upto), "when it is stored");
        assert_eq!(numbers(&open(&store).await), all(upto), "and for whoever opens it");
        for (upto, view) in &views {
            let then: Vec<u32> = view.iter().map(|one| one.number).collect();
            assert_eq!((view.len(), then), (*upto as usize, all(*upto)), "a view never changes");
            assert_eq!(view.latest().map(|one| one.number), upto.checked_sub(1));
            let newest: Vec<u32> = view.newest().take(4).map(|one| one.number).collect();
            assert_eq!(newest, (0..*upto).rev().take(4).collect::<Vec<_>>());
        }
    }
    assert_eq!(session.slice::<Happened>().filter(|one| one.number % 2 == 1).len(), 450);
}

#[tokio::test]
async fn a_log_that_was_emptied_stays_empty() {
    let store: SharedStore = Arc::new(ByteStore::new());
    let session = open(&store).await;
    happen(&session, 0..5);
    session.flush().await.unwrap();
    happen(&session, 5..7);
    session.reset();
    assert_eq!(numbers(&session), [] as [u32; 0]);
    happen(&session, 7..9);
    assert_eq!(numbers(&session), [7, 8]);
    assert_eq!(numbers(&open(&store).await), [0, 1, 2, 3, 4], "nothing of that is stored yet");
    session.flush().await.unwrap();
    assert_eq!(numbers(&session), [7, 8]);
    happen(&session, 9..10);
    session.flush().await.unwrap();
    let newest: Vec<u32> = session.slice::<Happened>().newest().map(|one| one.number).collect();
    assert_eq!((numbers(&session), newest), (vec![7, 8, 9], vec![9, 8, 7]));
    let again = open(&store).await;
    assert_eq!((numbers(&again), again.slice::<Happened>().len()), (vec![7, 8, 9], 3));
    // One that nobody has named is emptied like the others.
    let other = open(&store).await;
    other.reset();
    other.flush().await.unwrap();
    happen(&other, 20..21);
    other.flush().await.unwrap();
    assert_eq!(numbers(&other), [20]);
    assert_eq!(numbers(&open(&store).await), [20]);
}

#[tokio::test]
async fn copies_and_snapshots_have_the_log() {
    let store: SharedStore = Arc::new(ByteStore::new());
    let session = open(&store).await;
    happen(&session, 0..3);
    session.flush().await.unwrap();
    for session in [session, open(&store).await] {
        let text = session.snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap().to_string();
        assert!(text.contains("happened") && text.contains("\"number\":2"), "{text}");
        assert!(!session.snapshot().to_json().unwrap().to_string().contains("happened"));
        let copy = session.duplicate();
        assert_eq!(numbers(&copy), [0, 1, 2]);
        happen(&copy, 3..4);
        copy.flush().await.unwrap();
        assert_eq!((numbers(&copy), numbers(&session)), (vec![0, 1, 2, 3], vec![0, 1, 2]));
        let builder = Session::builder().store(Arc::clone(&store)).id(copy.id().clone());
        assert_eq!(numbers(&builder.open().await.unwrap()), [0, 1, 2, 3], "and so it is stored");
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_left_out_and_named() {
    let inner: SharedStore = Arc::new(ByteStore::new());
    let faulty = Arc::new(FaultyStore::new(inner));
    let store: SharedStore = faulty.clone();
    let session = open(&store).await;
    happen(&session, 0..2);
    session.flush().await.unwrap();
    let strange = r#"{"version":1,"kind":"log","change":{"append":{"number":"many"}}}"#;
    let records = vec![Record::new("happened", strange)];
    store.commit(session.id(), Batch { records, ..Batch::default() }).await.unwrap();
    let session = open(&store).await;
    assert_eq!(session.problems(), [], "nobody has looked yet");
    assert_eq!((numbers(&session), session.slice::<Happened>().len()), (vec![0, 1], 3));
    let [SliceProblem { slice, reason }] = &session.problems()[..] else {
        panic!("{:?}", session.problems())
    };
    assert!(slice == "happened" && reason.contains("invalid type"), "{slice}: {reason}");
    faulty.fail(StoreOp::Page, 1);
    assert_eq!(numbers(&session), [] as [u32; 0], "what cannot be read is not made up");
    assert_eq!(session.problems().len(), 2);
    assert_eq!(numbers(&session), [0, 1], "and is there when it can");
    faulty.panic(StoreOp::Page, 1);
    assert_eq!(numbers(&session), [] as [u32; 0]);
    happen(&session, 5..6);
    session.flush().await.unwrap();
    assert_eq!(numbers(&session), [0, 1, 5]);
}

#[tokio::test]
async fn a_summary_that_cannot_be_kept_or_read_is_no_loss() {
    let inner: SharedStore = Arc::new(ByteStore::new());
    let faulty = Arc::new(FaultyStore::new(Arc::clone(&inner)));
    let store: SharedStore = faulty.clone();
    let session = open(&store).await;
    faulty.fail(StoreOp::Summarise, 1);
    happen(&session, 0..2_000);
    session.flush().await.unwrap();
    assert_eq!(inner.opening(session.id()).await.unwrap().summary, None);
    happen(&session, 2_000..4_000);
    faulty.panic(StoreOp::Summarise, 1);
    session.flush().await.unwrap();
    assert_eq!(numbers(&session), (0..4_000).collect::<Vec<_>>());
    drop(session);
    let session = open(&store).await;
    let summary = inner.opening(session.id()).await.unwrap().summary.unwrap();
    assert_eq!(summary.sequence, 4_000, "whoever opens it makes up for it");

    let wrong = Record::new("wink.log", "no summary");
    happen(&session, 4_000..4_001);
    session.flush().await.unwrap();
    let summary = wink::store::Summary { sequence: 4_001, compactions: 0, records: vec![wrong] };
    inner.summarise(session.id(), summary).await.unwrap();
    assert_eq!(numbers(&open(&store).await).len(), 4_001);
}

/// STATE whose item can be changed in place, which a type must not allow.
#[derive(Serialize, Deserialize)]
struct Shared {
    number: Arc<AtomicU64>,
}

impl SliceType for Shared {
    const NAME: &'static str = "shared";
}

#[tokio::test]
async fn a_summary_has_items_as_they_were_committed() {
    let store: SharedStore = Arc::new(ByteStore::new());
    let session = open(&store).await;
    let number = Arc::new(AtomicU64::new(1));
    assert!(session.dispatch(Shared { number: Arc::clone(&number) }).is_ok());
    session.flush().await.unwrap();
    number.store(2, Ordering::SeqCst);
    happen(&session, 0..2_000);
    session.flush().await.unwrap();
    assert_eq!(store.opening(session.id()).await.unwrap().summary.unwrap().sequence, 2_001);

    let reopened = open(&store).await;
    let numbers: Vec<_> =
        reopened.slice::<Shared>().iter().map(|one| one.number.load(Ordering::SeqCst)).collect();
    assert_eq!(numbers, [1]);
}

/// Allows what did not happen yet.
struct NotYet;

impl ToolPolicy for NotYet {
    fn kind(&self) -> &'static str {
        "not_yet"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        cx: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, Box<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async move {
            Ok(match cx.slice::<Happened>()?.iter().any(|one| one.number == 13) {
                true => Decision::deny("it happened"),
                false => Decision::Allow,
            })
        })
    }
}

/// Notes how much happened.
#[tool]
async fn count(cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let count = cx.session().slice::<Happened>()?.iter().count();
    let _ = cx.session().dispatch(Counted { count })?;
    Ok(ToolResult::done(format!("{count}")))
}

/// How much happened.
#[data]
#[derive(SliceType)]
#[slice(name = "counted")]
struct Counted {
    count: usize,
}

async fn executor(session: &Session, policies: bool) -> Executor {
    session.know::<Counted>().unwrap();
    let mut section = Section::tools("counts", "Counts").tool(count_tool());
    if policies {
        section = section.policy(NotYet);
    }
    let prompt = PromptTemplate::builder("tests", "log").section(section).build().unwrap().prompt();
    Executor::open(&prompt, session).await.unwrap()
}

#[tokio::test]
async fn nothing_is_allowed_because_the_log_cannot_be_read() {
    let faulty = Arc::new(FaultyStore::new(Arc::new(ByteStore::new())));
    let store: SharedStore = faulty.clone();
    let session = open(&store).await;
    let executor = executor(&session, true).await;
    let ask = async || executor.call(ToolCall::new("1", "count", "{}")).await;
    happen(&session, 1..2);
    assert!(ask().await.is_success());
    happen(&session, 13..14);
    session.flush().await.unwrap();
    assert_eq!(ask().await.text(), "it happened");
    for fault in [FaultyStore::fail, FaultyStore::panic] {
        fault(&faulty, StoreOp::Page, 1);
        assert_eq!(ask().await.text(), "count was denied: policy not_yet could not decide");
    }
    assert_eq!(ask().await.text(), "it happened");
}

#[tokio::test]
async fn nothing_is_kept_of_a_call_that_could_not_read_the_log() {
    let faulty = Arc::new(FaultyStore::new(Arc::new(ByteStore::new())));
    let store: SharedStore = faulty.clone();
    let session = open(&store).await;
    let executor = executor(&session, false).await;
    happen(&session, 0..3);
    session.flush().await.unwrap();
    faulty.fail(StoreOp::Page, 1);
    let outcome = executor.call(ToolCall::new("1", "count", "{}")).await;
    assert!(!outcome.is_success() && outcome.text().contains("could not be read"), "{}", outcome.text());
    assert_eq!(session.slice::<Counted>().len(), 0);
    assert_eq!(executor.call(ToolCall::new("2", "count", "{}")).await.text(), "3");
}
