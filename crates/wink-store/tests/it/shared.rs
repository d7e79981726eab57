//! One session, several stores on one database: what each process would have, in one.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is broken by panicking"
)]

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use wink::limits::{Clock, SystemClock};
use wink::resource::{ResourceContext, ResourceRegistry};
use wink::session::{Compaction, Conflict, LogRetention, Session, SliceKind, SliceOp, SliceType};
use wink::store::SharedStore;
use wink::testing::{FaultyStore, StoreOp};
use wink::transaction::{Transaction, TransactionError, create_snapshot, restore_snapshot};
use wink_store::{SqliteStore, StoreOptions};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note(u32);
impl SliceType for Note {
    const NAME: &'static str = "note";
}

/// An event that is reduced to a running sum, so that its result depends on what was there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Add(u32);
impl SliceType for Add {
    const NAME: &'static str = "add";
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Sum(u64);
impl SliceType for Sum {
    const NAME: &'static str = "sum";
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry(u32);
impl SliceType for Entry {
    const NAME: &'static str = "entry";
    const KIND: SliceKind = SliceKind::Log;
}

/// Much of the log, which nobody names who does not want it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Bulk(String);
impl SliceType for Bulk {
    const NAME: &'static str = "bulk";
    const KIND: SliceKind = SliceKind::Log;
}

struct Peer {
    session: Session,
    resources: ResourceContext,
}

impl Peer {
    async fn start(place: &Path) -> Self {
        Self::with(Arc::new(SqliteStore::open(place, StoreOptions::default()).unwrap())).await
    }

    async fn with(store: SharedStore) -> Self {
        let session = Session::builder().id("s").store(store).open().await.unwrap();
        session
            .register::<Add, Sum>(|sums, add| {
                let sum = sums.latest().map_or(0, |sum| sum.0);
                Ok(SliceOp::Replace(vec![Sum(sum * 3 + u64::from(add.0))]))
            })
            .unwrap();
        for known in [session.know::<Note>(), session.know::<Entry>()] {
            known.unwrap();
        }
        let resources = ResourceRegistry::default().open().await.unwrap();
        Self { session, resources }
    }

    async fn begin(&self) -> Transaction {
        Transaction::begin(&self.session, &self.resources, "test").await
    }

    /// Hears of what the others did.
    async fn catch_up(&self) {
        self.session.flush().await.unwrap();
        self.begin().await.rollback().await.unwrap();
    }

    fn contents(&self) -> (Vec<u32>, Vec<u64>, Vec<u32>) {
        let session = &self.session;
        (
            session.slice::<Note>().iter().map(|note| note.0).collect(),
            session.slice::<Sum>().iter().map(|sum| sum.0).collect(),
            session.slice::<Entry>().iter().map(|entry| entry.0).collect(),
        )
    }
}

#[tokio::test]
async fn what_others_committed_is_there_when_a_call_begins() {
    let place = tempfile::tempdir().unwrap();
    let (one, other) = (Peer::start(place.path()).await, Peer::start(place.path()).await);
    for number in 1..=3 {
        for peer in [&one, &other] {
            let tx = peer.begin().await;
            let seen = tx.session().slice::<Note>().unwrap().len() as u32;
            assert!(tx.session().dispatch(Note(seen)).unwrap().is_ok());
            assert!(tx.session().dispatch(Add(number)).unwrap().is_ok());
            assert!(tx.session().dispatch(Entry(seen)).unwrap().is_ok());
            tx.commit().await.unwrap();
        }
    }
    one.catch_up().await;
    assert_eq!(one.contents().0, [0, 1, 2, 3, 4, 5], "nobody overwrote anybody");
    assert_eq!(one.contents(), other.contents());
    assert_eq!(one.contents(), Peer::start(place.path()).await.contents());
}

#[tokio::test]
async fn what_comes_between_is_taken_over_unless_the_call_relied_on_it() {
    let place = tempfile::tempdir().unwrap();
    let (one, other) = (Peer::start(place.path()).await, Peer::start(place.path()).await);
    let tx = one.begin().await;
    assert!(tx.session().dispatch(Add(1)).unwrap().is_ok());
    assert!(tx.session().dispatch(Note(1)).unwrap().is_ok());
    // From outside, while the call runs.
    assert!(other.session.dispatch(Add(2)).is_ok());
    assert!(other.session.dispatch(Note(2)).is_ok());
    other.session.flush().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(one.contents(), (vec![2, 1], vec![2 * 3 + 1], vec![]), "its events follow what came between");

    let tx = one.begin().await;
    assert_eq!(tx.session().slice::<Note>().unwrap().len(), 2);
    assert!(tx.session().dispatch(Add(1)).unwrap().is_ok());
    assert!(other.session.dispatch(Note(3)).is_ok());
    other.session.flush().await.unwrap();
    let failed = tx.commit().await;
    let expected = Conflict::Slice { slice: "note" };
    assert!(
        matches!(&failed, Err(TransactionError::Commit(wink::session::CommitError::Conflict(found))) if *found == expected),
        "{failed:?}"
    );
    other.catch_up().await;
    assert_eq!(one.contents(), (vec![2, 1, 3], vec![7], vec![]), "nothing of it is left");
    assert_eq!(one.contents(), other.contents());
}

/// It is still waiting after a while.
async fn waits<T>(work: impl Future<Output = T>) {
    let until = SystemClock.monotonic() + std::time::Duration::from_millis(50);
    tokio::select! {
        biased;
        _ = work => panic!("it did not wait"),
        () = SystemClock.sleep_until(until) => {}
    }
}

#[tokio::test]
async fn one_process_at_a_time_runs_calls() {
    let place = tempfile::tempdir().unwrap();
    let (one, other) = (Peer::start(place.path()).await, Peer::start(place.path()).await);
    let tx = one.begin().await;
    let mut waiting = Box::pin(other.begin());
    waits(&mut waiting).await;
    assert!(tx.session().dispatch(Note(1)).unwrap().is_ok());
    tx.commit().await.unwrap();
    let tx = waiting.await;
    assert_eq!(tx.session().slice::<Note>().unwrap().len(), 1, "and then it knows what was done");
    tx.rollback().await.unwrap();
}

#[tokio::test]
async fn a_session_is_made_short_under_the_eyes_of_another() {
    let place = tempfile::tempdir().unwrap();
    let (one, other) = (Peer::start(place.path()).await, Peer::start(place.path()).await);
    for number in 0..10 {
        assert!(one.session.dispatch(Note(number)).is_ok());
        assert!(one.session.dispatch(Add(number)).is_ok());
        assert!(one.session.dispatch(Entry(number)).is_ok());
        one.session.flush().await.unwrap();
        if number == 4 {
            other.catch_up().await;
        }
    }
    // `add` itself keeps nothing, as its events are reduced to sums.
    assert_eq!(one.session.compact(Compaction::default()).await.unwrap(), 9 + 9);
    other.catch_up().await;
    assert_eq!(other.contents(), one.contents());
    assert_eq!(Peer::start(place.path()).await.contents(), one.contents());
    let short = Compaction { log: LogRetention::Last(3), ..Compaction::default() };
    assert_eq!(other.session.compact(short).await.unwrap(), 9);
    let (notes, sums, _) = one.contents();
    assert_eq!(Peer::start(place.path()).await.contents(), (notes, sums, vec![7, 8, 9]));
    assert!(one.session.dispatch(Note(99)).is_ok());
    one.session.flush().await.unwrap();
    other.catch_up().await;
    assert_eq!(other.contents(), one.contents());
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Note,
    Add,
    Entry,
    Seed,
    ClearOdd,
    Flush,
    Call,
    /// A call during which the other does something outside.
    Between,
    FailedCall,
    Restore,
    Reset,
    Compact,
    /// All but the last of the log is left out.
    Shorten,
    /// As much as makes a summary due.
    Large,
    /// The process ends, and another one begins.
    Restart,
}

fn op() -> impl Strategy<Value = (bool, Op)> {
    let op = prop_oneof![
        4 => Just(Op::Note), 4 => Just(Op::Add), 4 => Just(Op::Entry), 1 => Just(Op::Seed), 2 => Just(Op::ClearOdd),
        3 => Just(Op::Flush), 4 => Just(Op::Call), 3 => Just(Op::Between), 2 => Just(Op::FailedCall),
        1 => Just(Op::Restore), 1 => Just(Op::Reset), 1 => Just(Op::Compact),
        1 => Just(Op::Shorten), 2 => Just(Op::Large), 2 => Just(Op::Restart),
    ];
    (any::<bool>(), op)
}

fn outside(peer: &Peer, number: u32) {
    assert!(peer.session.dispatch(Note(number)).is_ok());
    assert!(peer.session.dispatch(Add(number)).is_ok());
    assert!(peer.session.dispatch(Entry(number)).is_ok());
}

async fn run(ops: Vec<(bool, Op)>) {
    let place = tempfile::tempdir().unwrap();
    let mut peers = [Peer::start(place.path()).await, Peer::start(place.path()).await];
    let mut snapshots = [peers[0].session.snapshot(), peers[1].session.snapshot()];
    for (number, (who, op)) in (1u32..).zip(ops) {
        let (peer, other) = (&peers[usize::from(who)], &peers[usize::from(!who)]);
        match op {
            Op::Note => assert!(peer.session.dispatch(Note(number)).is_ok()),
            Op::Add => assert!(peer.session.dispatch(Add(number)).is_ok()),
            Op::Entry => assert!(peer.session.dispatch(Entry(number)).is_ok()),
            Op::Seed => peer.session.seed([Note(number), Note(number)]).unwrap(),
            Op::ClearOdd => peer.session.clear_where::<Note>(|note| note.0 % 2 == 1).unwrap(),
            Op::Flush => peer.session.flush().await.unwrap(),
            Op::Call | Op::Between | Op::FailedCall => {
                let tx = peer.begin().await;
                assert!(tx.session().dispatch(Note(number)).unwrap().is_ok());
                assert!(tx.session().dispatch(Add(number)).unwrap().is_ok());
                assert!(tx.session().dispatch(Entry(number)).unwrap().is_ok());
                if matches!(op, Op::Between) {
                    outside(peer, number * 1000);
                    outside(other, number * 2000);
                    other.session.flush().await.unwrap();
                }
                match op {
                    Op::FailedCall => tx.rollback().await.unwrap(),
                    _ => tx.commit().await.unwrap(),
                }
            }
            Op::Restore => {
                peer.session.restore(&snapshots[usize::from(who)]).unwrap();
                snapshots[usize::from(who)] = peer.session.snapshot();
            }
            Op::Reset => peer.session.reset(),
            Op::Compact => drop(peer.session.compact(Default::default()).await.unwrap()),
            Op::Shorten => {
                let last = Compaction { log: LogRetention::Last(2), ..Compaction::default() };
                peer.session.compact(last).await.unwrap();
            }
            Op::Large => {
                assert!(peer.session.dispatch(Bulk("x".repeat(600_000))).is_ok());
                peer.session.flush().await.unwrap();
            }
            Op::Restart => {
                peer.session.flush().await.unwrap();
                let again = Peer::start(place.path()).await;
                snapshots[usize::from(who)] = again.session.snapshot();
                peers[usize::from(who)] = again;
            }
        }
    }
    for peer in [&peers[0], &peers[1], &peers[0]] {
        peer.catch_up().await;
    }
    let last = Peer::start(place.path()).await;
    let entries = last.session.slice::<Entry>();
    assert_eq!(entries.len(), entries.iter().count(), "as many as there are");
    let again = Peer::start(place.path()).await;
    assert_eq!(again.session.slice::<Bulk>().len(), again.session.slice::<Bulk>().iter().count());
    assert_eq!(peers[0].contents(), last.contents(), "as it is stored");
    assert_eq!(peers[1].contents(), last.contents(), "as it is stored, for the other too");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn everybody_ends_with_what_is_stored(ops in prop::collection::vec(op(), 1..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(ops));
    }
}

/// A restore that the store refuses leaves nothing behind that would replace what others commit later.
#[tokio::test]
async fn a_refused_restore_replaces_nothing_later() {
    let place = tempfile::tempdir().unwrap();
    let inner: SharedStore = Arc::new(SqliteStore::open(place.path(), StoreOptions::default()).unwrap());
    let faulty = Arc::new(FaultyStore::new(inner));
    let one = Peer::with(Arc::clone(&faulty) as SharedStore).await;
    let other = Peer::start(place.path()).await;
    assert!(one.session.dispatch(Note(1)).is_ok());
    assert!(one.session.dispatch(Entry(1)).is_ok());
    one.catch_up().await;
    let mark = create_snapshot(&one.session, &one.resources, "mark").await.unwrap();
    assert!(one.session.dispatch(Note(2)).is_ok());
    one.catch_up().await;
    other.catch_up().await;
    // Others go on, which the one who restores does not know yet.
    assert!(other.session.dispatch(Note(3)).is_ok());
    assert!(other.session.dispatch(Entry(3)).is_ok());
    other.catch_up().await;

    // The first try finds the session moved; the second is refused.
    faulty.fail(StoreOp::Commit, 2);
    restore_snapshot(&one.session, &one.resources, &mark).await.unwrap_err();
    assert_eq!(one.contents().0, [1, 2]);
    assert!(other.session.dispatch(Note(4)).is_ok());
    other.catch_up().await;
    assert!(one.session.dispatch(Note(5)).is_ok());
    one.catch_up().await;
    other.catch_up().await;
    let expected = (vec![1, 2, 3, 4, 5], vec![], vec![1, 3]);
    assert_eq!((one.contents(), other.contents()), (expected.clone(), expected.clone()));
    assert_eq!(Peer::start(place.path()).await.contents(), expected);
}

#[tokio::test]
async fn what_is_held_is_one_processes_and_comes_with_what_others_did() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (Peer::start(dir.path()).await.session, Peer::start(dir.path()).await.session);
    let held = one.hold("run").await.unwrap().unwrap();
    assert!(two.hold("run").await.unwrap().is_none());
    assert!(one.hold("run").await.unwrap().is_none(), "nor is it had twice by the same");
    assert!(two.hold("another").await.unwrap().is_some());
    assert!(one.dispatch(Entry(1)).is_ok());
    one.flush().await.unwrap();
    drop(held);
    let files = || std::fs::read_dir(dir.path().join("sessions")).unwrap().count();
    let before = files();
    let held = two.hold("run").await.unwrap().unwrap();
    assert_eq!(two.slice::<Entry>().all(), [Arc::new(Entry(1))]);
    assert_eq!(files(), before + 1);
    drop(held);
    assert_eq!(files(), before, "nothing is left of it");
}
