//! Forks, the window of a commit, and sessions that are opened again: what only the inside can arrange.

mod model;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::*;
use crate::store::{CallMark, Store};
use crate::support::background::block_on;
use crate::testing::{ByteStore, FaultyStore, StoreOp};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note(u32);
impl SliceType for Note {
    const NAME: &'static str = "note";
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry(String, u32);
impl SliceType for Entry {
    const NAME: &'static str = "entry";
    const KEYED: bool = true;
    fn key(&self) -> Option<SliceKey> {
        Some(self.0.as_str().into())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Last(String, u32);
impl SliceType for Last {
    const NAME: &'static str = "last";
    const KEYED: bool = true;
    fn key(&self) -> Option<SliceKey> {
        Some(self.0.as_str().into())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Sum(u32);
impl SliceType for Sum {
    const NAME: &'static str = "sum";
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Heard(u32);
impl SliceType for Heard {
    const NAME: &'static str = "heard";
    const KIND: SliceKind = SliceKind::Log;
}

/// Sums notes, refusing to go beyond 1000; hears every one of them.
fn prepared(session: Session) -> Session {
    session.register::<Note, Note>(append_all()).unwrap();
    session
        .register::<Note, Sum>(|sum, note| {
            let next = sum.latest().map_or(0, |sum| sum.0) + note.0;
            if next > 1000 { Err("too much".to_owned()) } else { Ok(SliceOp::Replace(vec![Sum(next)])) }
        })
        .unwrap();
    session.register::<Note, Heard>(|_, note| Ok(SliceOp::Append(Heard(note.0)))).unwrap();
    session.register::<Entry, Entry>(upsert_by_key()).unwrap();
    session.register::<Last, Last>(replace_latest_by_key()).unwrap();
    session
}

type Contents = (Vec<u32>, Vec<u32>, Vec<u32>, Vec<Entry>);

fn contents(session: &Session) -> Contents {
    let notes = session.slice::<Note>().iter().map(|note| note.0).collect();
    let sums = session.slice::<Sum>().iter().map(|sum| sum.0).collect();
    let heard = session.slice::<Heard>().iter().map(|heard| heard.0).collect();
    (notes, sums, heard, session.slice::<Entry>().iter().map(|entry| Entry::clone(&entry)).collect())
}

fn dispatch_in<E: SliceType>(session: &Session, fork: &mut Fork, event: E) -> Vec<ReducerFailure> {
    let action = Action::Event(Arc::new(event));
    let failures = session.reduce_in(fork, &action);
    fork.record(action, !failures.is_empty());
    failures
}

fn put(session: &Session, fork: &mut Fork, note: u32) -> Vec<ReducerFailure> {
    dispatch_in(session, fork, Note(note))
}

fn slot<T: SliceType>(session: &Session) -> Slot {
    session.slot_of::<T>().unwrap()
}

async fn commit(session: &Session, fork: Fork) -> Result<(), CommitError> {
    let turn = session.committing().await;
    session.commit(&turn, fork, Closing::default()).await
}

fn with_policy(session: &Session, fork: &mut Fork, value: Option<Value>) {
    session.policy_in(fork, &"p".into()).set("item".into(), value.map(Arc::new));
}

#[tokio::test]
async fn what_comes_from_outside_is_kept_and_the_calls_events_run_again_on_it() {
    let session = prepared(Session::new());
    assert!(session.dispatch(Note(1)).is_ok());
    let mut fork = Fork::default();
    assert_eq!(put(&session, &mut fork, 10), []);
    assert!(session.dispatch(Note(2)).is_ok());
    assert!(session.dispatch(Entry("a".into(), 1)).is_ok());
    assert_eq!(contents(&session).1, [3], "a fork shows nothing");
    commit(&session, fork).await.unwrap();
    let all = (vec![1, 2, 10], vec![13], vec![1, 2, 10], vec![Entry("a".into(), 1)]);
    assert_eq!(contents(&session), all);
}

#[tokio::test]
async fn a_forgotten_fork_leaves_its_log_part_and_what_came_from_outside() {
    let session = prepared(Session::new());
    let mut fork = Fork::default();
    assert_eq!(put(&session, &mut fork, 10), []);
    assert!(session.dispatch(Note(2)).is_ok());
    let turn = session.committing().await;
    session.close_failed(&turn, &fork, Closing::default()).await.unwrap();
    assert_eq!(contents(&session), (vec![2], vec![2], vec![2, 10], Vec::new()));
}

// A commit without a store to wait for decides its LOG part anew when the log has grown meanwhile.
#[test]
fn commits_and_dispatches_at_once_lose_nothing() {
    const EACH: u32 = 300;
    let session = prepared(Session::new());
    session.register::<Entry, Heard>(|heard, _| Ok(SliceOp::Append(Heard(heard.len() as u32)))).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..EACH).for_each(|_| assert!(session.dispatch(Entry("out".into(), 1)).is_ok())));
            scope.spawn(|| {
                for _ in 0..EACH {
                    let mut fork =
                        Fork { success: Some(("tool".into(), Timestamp::UNIX_EPOCH)), ..Fork::default() };
                    dispatch_in(&session, &mut fork, Entry("in".into(), 1));
                    let turn = block_on(session.committing());
                    session.commit_unstored(&turn, fork, None).map_err(|(conflict, _)| conflict).unwrap();
                }
            });
        }
    });
    let heard: Vec<u32> = session.slice::<Heard>().iter().map(|heard| heard.0).collect();
    assert_eq!(heard, (0..8 * EACH).collect::<Vec<_>>(), "each reducer saw all that came before");
    assert_eq!(session.calls("tool").map(|stat| stat.count), Some(u64::from(4 * EACH)));
}

#[tokio::test]
async fn a_slice_that_was_read_and_changed_is_a_conflict() {
    let session = prepared(Session::new());
    let mut fork = Fork::default();
    assert_eq!(session.read_in::<Sum>(&mut fork, slot::<Sum>(&session)).len(), 0);
    assert!(session.dispatch(Entry("a".into(), 1)).is_ok());
    put(&session, &mut fork, 5);
    commit(&session, fork.clone()).await.expect("what changed was not what was read");

    assert_eq!(session.read_in::<Sum>(&mut fork, slot::<Sum>(&session)).len(), 1, "its own view");
    let error = commit(&session, fork).await.unwrap_err();
    assert_eq!(error, CommitError::Conflict(Conflict::Slice { slice: "sum" }));
    assert_eq!(contents(&session).1, [5]);
}

#[tokio::test]
async fn a_nested_rollback_takes_back_state_and_keeps_log_and_reads() {
    let session = prepared(Session::new());
    let mut fork = Fork::default();
    put(&session, &mut fork, 1);
    with_policy(&session, &mut fork, Some(json!(1)));
    let mark = fork.mark();
    put(&session, &mut fork, 2);
    put(&session, &mut fork, 4);
    dispatch_in(&session, &mut fork, Entry("a".into(), 1));
    with_policy(&session, &mut fork, Some(json!(2)));
    session.read_in::<Entry>(&mut fork, slot::<Entry>(&session));
    fork.roll_back_to(mark);
    put(&session, &mut fork, 8);
    commit(&session, fork.clone()).await.unwrap();
    assert_eq!(contents(&session), (vec![1, 8], vec![9], vec![1, 2, 4, 8], Vec::new()));
    assert_eq!(session.policy_item("p", "item"), Some(Arc::new(json!(1))));

    let mut fork = Fork::default();
    let mark = fork.mark();
    dispatch_in(&session, &mut fork, Entry("a".into(), 1));
    session.read_in::<Entry>(&mut fork, slot::<Entry>(&session));
    fork.roll_back_to(mark);
    assert!(session.dispatch(Entry("b".into(), 1)).is_ok());
    let conflict = CommitError::Conflict(Conflict::Slice { slice: "entry" });
    assert_eq!(commit(&session, fork).await, Err(conflict), "what was learnt there may still count");
}

#[tokio::test]
async fn a_reducer_that_refuses_on_the_newer_state_is_a_conflict_unless_it_already_had() {
    let session = prepared(Session::new());
    let mut fork = Fork::default();
    assert_eq!(put(&session, &mut fork, 900), []);
    assert_eq!(put(&session, &mut fork, 500).len(), 1, "told in the call");
    assert!(session.dispatch(Note(50)).is_ok());
    commit(&session, fork.clone()).await.unwrap();
    assert_eq!(contents(&session), (vec![50, 900, 500], vec![950], vec![50, 900, 500], Vec::new()));
    let error = commit(&session, fork).await.unwrap_err();
    let reason = "too much".to_owned();
    assert_eq!(error, CommitError::Conflict(Conflict::Reducer { slice: "sum", reason }));
    assert_eq!(contents(&session).1, [950]);
}

#[tokio::test]
async fn policy_state_conflicts_by_item_and_counts_add_up() {
    let session = Session::new();
    let at = Timestamp::UNIX_EPOCH;
    let mut one = Fork { success: Some(("deploy".into(), at)), ..Fork::default() };
    with_policy(&session, &mut one, Some(json!("mine")));
    let mut other = one.clone();
    session.policy_in(&mut other, &"p".into()).set("other".into(), Some(Arc::new(json!(7))));
    let mut reader = Fork::default();
    assert_eq!(session.policy_in(&mut reader, &"p".into()).get("item"), None);
    commit(&session, one).await.unwrap();
    commit(&session, other).await.unwrap();
    assert_eq!(session.calls("deploy"), Some(CallStat { count: 2, last: at }));
    assert_eq!(session.policy_item("p", "other"), Some(Arc::new(json!(7))));
    session.policy_in(&mut reader, &"p".into()).set("third".into(), None);
    let conflict = CommitError::Conflict(Conflict::Policy { policy: "p".into() });
    assert_eq!(commit(&session, reader).await, Err(conflict));
}

/// A stored session, its store, and how to open it again.
struct Kept {
    bytes: Arc<ByteStore>,
    store: Arc<FaultyStore>,
    session: Session,
}

fn kept() -> Kept {
    let bytes = Arc::new(ByteStore::new());
    let store = Arc::new(FaultyStore::new(Arc::clone(&bytes) as SharedStore));
    let session = Session::builder().id("s").store(Arc::clone(&store) as SharedStore).open();
    Kept { bytes, store, session: prepared(block_on(session).unwrap()) }
}

impl Kept {
    async fn reopened(&self) -> Session {
        self.session.flush().await.unwrap();
        prepared(again(&self.bytes).await)
    }

    async fn same_after_restart(&self) {
        let reopened = self.reopened().await;
        assert_eq!(contents(&reopened), contents(&self.session));
        assert_eq!(json_of(&reopened), json_of(&self.session));
        assert_eq!(reopened.problems(), []);
    }
}

async fn again(bytes: &ByteStore) -> Session {
    let store: SharedStore = Arc::new(bytes.reopen().unwrap());
    Session::builder().id("s").store(store).open().await.unwrap()
}

/// Everything but the time and the order in which slices were named.
fn json_of(session: &Session) -> Value {
    let mut json = session.snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap();
    json["created_at"] = Value::Null;
    let mut slices = json["slices"].as_array().cloned().unwrap();
    slices.retain(|slice| slice["items"] != json!([]));
    slices.sort_by_key(|slice| slice["name"].to_string());
    json["slices"] = slices.into();
    json
}

fn poll_once(
    future: &mut Pin<Box<impl Future<Output = Result<(), CommitError>>>>,
) -> Poll<Result<(), CommitError>> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Commits `note`, with `meanwhile` while the store has the batch, which it then takes or refuses.
fn commit_with_window(kept: &Kept, note: u32, takes: bool, meanwhile: impl FnOnce(&Session)) {
    let session = &kept.session;
    let mut fork = Fork { success: Some(("tool".into(), Timestamp::UNIX_EPOCH)), ..Fork::default() };
    put(session, &mut fork, note);
    let before = contents(session);
    let gate = kept.store.hold(StoreOp::Commit, 1);
    let mut committing = Box::pin(commit(session, fork));
    assert!(poll_once(&mut committing).is_pending());
    assert_eq!(contents(session), before, "nobody sees it before it is stored");
    meanwhile(session);
    if takes {
        gate.release()
    } else {
        gate.refuse()
    }
    assert_eq!(block_on(committing).is_ok(), takes);
}

#[tokio::test]
async fn what_comes_while_a_commit_is_stored_is_neither_lost_nor_undone() {
    for takes in [true, false] {
        let kept = kept();
        assert!(kept.session.dispatch(Note(1)).is_ok());
        commit_with_window(&kept, 100, takes, |session| {
            assert!(session.dispatch(Note(2)).is_ok());
            assert!(session.dispatch(Heard(77)).is_ok());
            assert!(session.dispatch(Entry("a".into(), 1)).is_ok());
            assert!(session.dispatch(Note(3)).is_ok());
            session.clear_where::<Note>(|note| note.0 == 2).unwrap();
            assert_eq!(contents(session).0, [1, 3], "visible at once");
        });
        let entries = vec![Entry("a".into(), 1)];
        let expected = match takes {
            true => (vec![1, 100, 3], vec![106], vec![1, 100, 2, 77, 3], entries),
            false => (vec![1, 3], vec![6], vec![1, 2, 77, 3], entries),
        };
        assert_eq!(contents(&kept.session), expected);
        kept.same_after_restart().await;
    }
}

#[tokio::test]
async fn a_restore_or_reset_while_a_commit_is_stored_comes_after_it() {
    for takes in [true, false] {
        for reset in [true, false] {
            let kept = kept();
            assert!(kept.session.dispatch(Note(1)).is_ok());
            let snapshot = kept.session.snapshot();
            commit_with_window(&kept, 100, takes, |session| {
                assert!(session.dispatch(Note(2)).is_ok());
                if reset {
                    session.reset()
                } else {
                    session.restore(&snapshot).unwrap()
                }
                assert!(session.dispatch(Note(3)).is_ok());
            });
            let expected = match (reset, takes) {
                (true, _) => (vec![3], vec![3], vec![3], Vec::new()),
                (false, true) => (vec![1, 3], vec![4], vec![1, 100, 2, 3], Vec::new()),
                (false, false) => (vec![1, 3], vec![4], vec![1, 2, 3], Vec::new()),
            };
            assert_eq!(contents(&kept.session), expected, "reset {reset}, stored {takes}");
            assert_eq!(kept.session.calls("tool"), None);
            kept.same_after_restart().await;
        }
    }
}

#[tokio::test]
async fn a_store_that_fails_or_panics_loses_nothing_that_is_in_memory() {
    let kept = kept();
    let session = &kept.session;
    assert!(session.dispatch(Note(1)).is_ok());
    let mut fork = Fork::default();
    put(session, &mut fork, 10);
    kept.store.fail(StoreOp::Commit, 1);
    let error = commit(session, fork.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), "the store failed to commit: told to fail");
    kept.store.panic(StoreOp::Commit, 1);
    let error = commit(session, fork.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), "the store failed to commit: it panicked: this store was told to panic");
    assert_eq!(contents(session), (vec![1], vec![1], vec![1], Vec::new()));

    kept.store.fail(StoreOp::Commit, 1);
    let turn = session.committing().await;
    session.close_failed(&turn, &fork, Closing::default()).await.unwrap_err();
    drop(turn);
    assert!(session.dispatch(Note(2)).is_ok());
    kept.store.fail(StoreOp::Commit, 1);
    session.flush().await.unwrap_err();
    assert_eq!(contents(session), (vec![1, 2], vec![3], vec![1, 10, 2], Vec::new()));
    kept.same_after_restart().await;
}

#[tokio::test]
async fn a_flush_that_nobody_waits_for_arrives() {
    let kept = kept();
    assert!(kept.session.dispatch(Note(1)).is_ok());
    let gate = kept.store.hold(StoreOp::Commit, 1);
    {
        let mut flushing = Box::pin(kept.session.flush());
        assert!(flushing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    gate.release();
    kept.same_after_restart().await;
}

fn mark(call: &str) -> CallMark {
    CallMark {
        invocation: InvocationId::fresh(Timestamp::UNIX_EPOCH),
        call_id: call.to_owned(),
        tool: "deploy".to_owned(),
        arguments: "{}".to_owned(),
        prompt: "ns/key".to_owned(),
        adapter: "scripted".to_owned(),
        time: Timestamp::UNIX_EPOCH,
        run: Some(RunContext { run_id: Some("r".to_owned()), ..RunContext::default() }),
        request: Some(format!("r/{call}")),
        attempt: Some(3),
    }
}

#[tokio::test]
async fn an_interrupted_call_gets_its_event_once() {
    let kept = kept();
    let (lost, ended) = (mark("lost"), mark("ended"));
    kept.store.begin(kept.session.id(), lost.clone()).await.unwrap();
    kept.store.begin(kept.session.id(), ended.clone()).await.unwrap();

    // Its end cannot be stored, but its event comes with the next batch.
    let event: Item =
        Arc::new(ToolInvoked { ending: Ending::Failed, ..kept.session.interrupted(ended.clone()) });
    kept.store.fail(StoreOp::Commit, 1);
    let turn = kept.session.committing().await;
    let closing =
        || Closing { event: Some(Arc::clone(&event)), ends: Some(ended.invocation), ..Closing::default() };
    kept.session.close_failed(&turn, &Fork::default(), closing()).await.unwrap_err();
    drop(turn);
    kept.session.flush().await.unwrap();

    let mut bytes = kept.bytes.reopen().unwrap();
    for _ in 0..3 {
        let store = Arc::new(bytes);
        let session =
            Session::builder().id("s").store(Arc::clone(&store) as SharedStore).open().await.unwrap();
        let events: Vec<_> = session
            .slice::<ToolInvoked>()
            .iter()
            .map(|event| (event.id, event.ending, event.success))
            .collect();
        let expected =
            [(ended.invocation, Ending::Failed, false), (lost.invocation, Ending::Interrupted, false)];
        assert_eq!(events, expected);
        // Whose it was is known, as of any other.
        let event = session.slice::<ToolInvoked>().latest().unwrap();
        let of = (event.run.run_id.as_deref(), event.request.as_deref(), event.attempt);
        assert_eq!(of, (Some("r"), Some("r/lost"), 3));
        assert_eq!(store.load(session.id()).await.unwrap().unfinished, []);
        bytes = store.reopen().unwrap();
    }
}
