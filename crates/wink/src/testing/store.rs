//! What every [`Store`](crate::store::Store) must do, as one function to run on any implementation.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a contract suite says what is broken by panicking"
)]
#![allow(clippy::cloned_ref_to_slice_refs, reason = "whole values read better")]

mod numbers;
mod pages;

use std::slice;
use std::sync::Barrier;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;

use crate::session::{InvocationId, RunContext, SessionId};
use crate::store::{
    Batch, CallMark, Claimed, Durability, LedgerChange, LedgerRow, LedgerState, OrphanRule, Record, Rows,
    SharedStore, StoredSession, boot_id,
};
use crate::support::background::block_on;

/// Opens one storage place, each time as a new process would. The store opened before has been dropped, unless it is one
/// that several processes share.
type Open = Box<dyn FnMut() -> SharedStore>;

/// Runs the whole contract. `make` makes a new, empty storage place, and returns what opens it: called again, that
/// opens the same place as the next process would find it.
///
/// # Panics
///
/// When the implementation breaks the contract; the text says where.
pub async fn store_contract(make: impl Fn() -> Open) {
    commits_are_whole_and_in_order(make()).await;
    sessions_are_separate(make()).await;
    calls_without_an_end_are_found(make()).await;
    one_of_many_claims_wins(make()).await;
    claims_respect_what_counts(make()).await;
    rows_are_listed_and_removed(make()).await;
    a_change_needs_the_row_that_it_expects(make()).await;
    one_of_many_changes_wins(make()).await;
    a_commit_whose_claim_is_gone_is_refused_as_a_whole(make()).await;
    claims_of_the_dead_are_in_doubt_or_released(make()).await;
    numbers::records_are_numbered(make()).await;
    numbers::a_batch_that_expects_another_number_is_refused(make()).await;
    numbers::history_says_who_wrote_what(make()).await;
    numbers::history_says_which_journals_a_call_had(make()).await;
    numbers::old_records_are_replaced_by_what_they_come_to(make()).await;
    numbers::the_living_are_left_alone(make()).await;
    pages::records_are_read_by_pages(make()).await;
    pages::a_session_is_opened_from_its_newest_summary(make()).await;
}

async fn commits_are_whole_and_in_order(mut open: Open) {
    let session = SessionId::from("one");
    let store = open();
    assert_eq!(store.load(&session).await.unwrap(), StoredSession::default(), "nothing was committed yet");
    assert_eq!(store.losses().await.unwrap(), [], "and nothing is lost");

    let mark = mark(1);
    store.begin(&session, mark.clone()).await.unwrap();
    let row = recorded("key", "send", None);
    let claim = claimed("key", "me");
    assert_eq!(store.claim(claim.clone(), at(0)).await.unwrap(), Claimed::Yes);
    let first = Batch { records: records("a", 0..3), ..Batch::default() };
    let ledger = Some(LedgerChange { from: claim, to: Some(row.clone()) });
    let second =
        Batch { records: records("b", 3..5), ends: Some(mark.invocation), ledger, ..Batch::default() };
    let third = Batch { records: records("a", 5..6), ..Batch::default() };
    for batch in [&first, &second, &third] {
        store.commit(&session, batch.clone()).await.unwrap();
    }

    let written = [first.records, second.records, third.records].concat();
    let all = StoredSession { sequence: written.len() as u64, records: written, unfinished: Vec::new() };
    let store = check_twice(store, &mut open, async |store, restarted| {
        if store.durability() == Durability::Restart {
            assert_eq!(store.load(&session).await.unwrap(), all, "records in order, and the call has ended");
        } else {
            let kept = store.load(&session).await.unwrap();
            assert_eq!(kept.unfinished, [], "a store without restarts has no calls from before");
        }
        if !restarted || store.durability() == Durability::Restart {
            assert_eq!(
                store.rows(Rows::All).await.unwrap(),
                slice::from_ref(&row),
                "the ledger row came with its batch"
            );
        }
    })
    .await;
    assert_eq!(store.losses().await.unwrap(), [], "nothing was lost by opening it again");
    store.commit(&session, Batch::default()).await.expect("an empty batch is fine");
    let unknown = Batch { ends: Some(InvocationId::fresh(at(9))), ..Batch::default() };
    store.commit(&session, unknown).await.expect("ending a call that never began is fine");
}

async fn sessions_are_separate(mut open: Open) {
    let store = open();
    let (one, other) = (SessionId::from("one"), SessionId::from("other"));
    store.commit(&one, Batch { records: records("a", 0..2), ..Batch::default() }).await.unwrap();
    store.begin(&one, mark(1)).await.unwrap();
    check_twice(store, &mut open, async |store, _| {
        assert_eq!(
            store.load(&other).await.unwrap(),
            StoredSession::default(),
            "the other session is untouched"
        );
    })
    .await;
}

async fn calls_without_an_end_are_found(mut open: Open) {
    let session = SessionId::from("one");
    let store = open();
    let marks = [mark(1), mark(2), mark(3)];
    for mark in &marks {
        store.begin(&session, mark.clone()).await.unwrap();
    }
    store.commit(&session, Batch { ends: Some(marks[1].invocation), ..Batch::default() }).await.unwrap();
    assert_eq!(store.load(&session).await.unwrap().unfinished, [], "a call that runs is not unfinished");
    if store.durability() == Durability::Process {
        return;
    }
    drop(store);
    let store = open();
    let unfinished = [marks[0].clone(), marks[2].clone()];
    assert_eq!(store.load(&session).await.unwrap().unfinished, unfinished, "in the order of their beginning");
    assert_eq!(store.load(&session).await.unwrap().unfinished, unfinished, "looking changes nothing");
    for mark in &unfinished {
        store.commit(&session, Batch { ends: Some(mark.invocation), ..Batch::default() }).await.unwrap();
    }
    assert_eq!(store.load(&session).await.unwrap().unfinished, [], "ended now");
    drop(store);
    assert_eq!(open().load(&session).await.unwrap().unfinished, [], "and after the next start");
}

async fn one_of_many_claims_wins(mut open: Open) {
    let store = open();
    let answers = at_once(|number| {
        (number, block_on(store.claim(claimed("key", &number.to_string()), at(0))).unwrap())
    });
    let winners: Vec<usize> =
        answers.iter().filter(|(_, answer)| *answer == Claimed::Yes).map(|(number, _)| *number).collect();
    assert_eq!(winners.len(), 1, "exactly one claim wins");
    let row = claimed("key", &winners[0].to_string());
    for (number, answer) in answers.into_iter().filter(|(number, _)| *number != winners[0]) {
        assert_eq!(answer, Claimed::No(row.clone()), "claim {number} is told whose row it is");
    }
    assert_eq!(store.rows(Rows::All).await.unwrap(), [row]);
}

async fn claims_respect_what_counts(mut open: Open) {
    let store = open();
    let old = recorded("old", "send", Some(at(10)));
    let doubt = in_doubt("doubt", "send");
    for row in [&old, &recorded("kept", "send", None), &doubt] {
        add(&store, row).await;
    }
    let wish = claimed("old", "me");
    assert_eq!(store.claim(wish.clone(), at(9)).await.unwrap(), Claimed::No(old), "it still counts");
    assert_eq!(
        store.claim(wish.clone(), at(10)).await.unwrap(),
        Claimed::Yes,
        "at its time it no longer counts"
    );
    assert_eq!(store.claim(claimed("old", "you"), at(11)).await.unwrap(), Claimed::No(wish), "claimed anew");
    let kept = recorded("kept", "send", None);
    assert_eq!(
        store.claim(claimed("kept", "me"), at(1_000_000)).await.unwrap(),
        Claimed::No(kept),
        "for ever"
    );
    assert_eq!(
        store.claim(claimed("doubt", "me"), at(1_000_000)).await.unwrap(),
        Claimed::No(doubt),
        "never expires"
    );
}

async fn rows_are_listed_and_removed(mut open: Open) {
    let store = open();
    let a = recorded("a", "send", Some(at(10)));
    let b = recorded("b", "pay", Some(at(20)));
    let c = in_doubt("c", "send");
    let d = recorded("d", "pay", None);
    for row in [&d, &b, &c, &a] {
        add(&store, row).await;
    }
    let durable = store.durability() == Durability::Restart;
    let store = check_twice(store, &mut open, async |store, restarted| {
        if restarted && !durable {
            return;
        }
        let rows = async |which| store.rows(which).await.unwrap();
        assert_eq!(rows(Rows::All).await, [a.clone(), b.clone(), c.clone(), d.clone()], "sorted by key");
        assert_eq!(rows(Rows::Key("b".into())).await, slice::from_ref(&b));
        assert_eq!(rows(Rows::Key("x".into())).await, []);
        assert_eq!(rows(Rows::Tool("send".into())).await, [a.clone(), c.clone()]);
        assert_eq!(rows(Rows::ExpiredAt(at(9))).await, []);
        assert_eq!(rows(Rows::ExpiredAt(at(10))).await, slice::from_ref(&a), "exactly at its time");
        assert_eq!(rows(Rows::ExpiredAt(at(99))).await, [a.clone(), b.clone()]);
    })
    .await;
    let _ = store.remove(Rows::All).await.unwrap();
    let held = claimed("held", "me");
    for row in [&a, &b, &c, &d, &held] {
        add(&store, row).await;
    }
    let remove = async |which| store.remove(which).await.unwrap();
    assert_eq!(remove(Rows::Key("x".into())).await, []);
    assert_eq!(remove(Rows::ExpiredAt(at(10))).await, [a]);
    assert_eq!(remove(Rows::Key("b".into())).await, slice::from_ref(&b));
    assert_eq!(remove(Rows::Key("b".into())).await, [], "once");
    assert_eq!(remove(Rows::Tool("send".into())).await, [c], "a claim is not removed");
    assert_eq!(remove(Rows::Key("held".into())).await, [], "nor by its key");
    add(&store, &b).await;
    assert_eq!(remove(Rows::All).await, [b, d], "nor with everything");
    assert_eq!(store.rows(Rows::All).await.unwrap(), slice::from_ref(&held));
    assert!(store.replace(LedgerChange { from: held, to: None }).await.unwrap());
    check_twice(store, &mut open, async |store, _| {
        assert_eq!(store.rows(Rows::All).await.unwrap(), [], "what was removed stays away");
    })
    .await;
}

async fn a_change_needs_the_row_that_it_expects(mut open: Open) {
    let store = open();
    let (doubt, mine, yours) = (in_doubt("key", "send"), claimed("key", "me"), claimed("key", "you"));
    let done = recorded("key", "send", Some(at(10)));
    let replace = async |from: &LedgerRow, to: Option<&LedgerRow>| {
        store.replace(LedgerChange { from: from.clone(), to: to.cloned() }).await.unwrap()
    };
    let row = async || store.rows(Rows::All).await.unwrap().pop();
    assert!(!replace(&doubt, Some(&mine)).await, "there is no row");
    assert!(!replace(&doubt, None).await);
    assert_eq!(row().await, None);
    add(&store, &doubt).await;
    let mut others = vec![mine.clone(), done.clone()];
    let differ = |change: &dyn Fn(&mut LedgerRow)| {
        let mut other = doubt.clone();
        change(&mut other);
        other
    };
    others.push(differ(&|row| row.tool = "pay".to_owned()));
    others.push(differ(&|row| row.params_hash = "another".to_owned()));
    others.push(differ(&|row| row.ttl = None));
    others.push(differ(&|row| {
        row.state = LedgerState::InDoubt { reason: "timed out".to_owned(), since: at(1) };
    }));
    for other in &others {
        assert!(!replace(other, Some(&yours)).await, "the row is not {other:?}");
        assert!(!replace(other, None).await);
    }
    assert_eq!(row().await, Some(doubt.clone()));
    assert!(replace(&doubt, Some(&mine)).await);
    assert!(!replace(&doubt, Some(&yours)).await, "once");
    assert!(!replace(&yours, None).await, "another's claim");
    assert_eq!(row().await, Some(mine.clone()));
    assert!(replace(&mine, Some(&done)).await);
    assert!(replace(&done, Some(&done)).await, "also by itself, and after its time");
    if store.durability() == Durability::Restart {
        drop(store);
        let store = open();
        assert_eq!(store.rows(Rows::All).await.unwrap(), slice::from_ref(&done), "there again");
        assert!(store.replace(LedgerChange { from: done, to: None }).await.unwrap());
        drop(store);
        assert_eq!(open().rows(Rows::All).await.unwrap(), [], "and gone");
    }
}

async fn one_of_many_changes_wins(mut open: Open) {
    let store = open();
    let doubt = in_doubt("key", "send");
    add(&store, &doubt).await;
    let wins = at_once(|number| {
        let to = match number % 3 {
            0 => None,
            1 => Some(recorded("key", "send", None)),
            _ => Some(claimed("key", &number.to_string())),
        };
        (block_on(store.replace(LedgerChange { from: doubt.clone(), to: to.clone() })).unwrap(), to)
    });
    let mut winners = wins.into_iter().filter_map(|(won, to)| won.then_some(to));
    let winner = winners.next().expect("one change goes through");
    assert_eq!(winners.next(), None, "and only one");
    assert_eq!(store.rows(Rows::All).await.unwrap(), Vec::from_iter(winner), "as it was wanted");
}

async fn a_commit_whose_claim_is_gone_is_refused_as_a_whole(mut open: Open) {
    let session = SessionId::from("one");
    let store = open();
    let mark = mark(1);
    store.begin(&session, mark.clone()).await.unwrap();
    let change = LedgerChange { from: claimed("key", "me"), to: Some(recorded("key", "send", None)) };
    let batch = Batch {
        records: records("a", 0..2),
        ends: Some(mark.invocation),
        ledger: Some(change.clone()),
        ..Batch::default()
    };
    let refused = store.commit(&session, batch.clone()).await;
    assert_eq!(refused, Err(change.refused()), "there is no claim");
    add(&store, &claimed("key", "you")).await;
    assert_eq!(store.commit(&session, batch).await, Err(change.refused()), "it is another's");
    assert_eq!(store.rows(Rows::All).await.unwrap(), [claimed("key", "you")]);
    if store.durability() == Durability::Restart {
        drop(store);
        let kept = open().load(&session).await.unwrap();
        let nothing = StoredSession { unfinished: vec![mark], ..StoredSession::default() };
        assert_eq!(kept, nothing, "nothing of the batch is true");
    }
}

/// A claim is released only if it is known that its handler had no effect.
async fn claims_of_the_dead_are_in_doubt_or_released(mut open: Open) {
    let session = SessionId::from("one");
    let store = open();
    if store.durability() == Durability::Process {
        return;
    }
    let [begun, started, ended, unknown] = [1, 2, 3, 4].map(mark);
    for mark in [&begun, &started, &ended] {
        store.begin(&session, mark.clone()).await.unwrap();
    }
    store.start(started.invocation).await.unwrap();
    store.start(ended.invocation).await.unwrap();
    store.commit(&session, Batch { ends: Some(ended.invocation), ..Batch::default() }).await.unwrap();
    let this_boot = boot_id().unwrap_or_default();
    let unless_started = |mark: &CallMark, boot: &str| OrphanRule::ReleaseUnlessStarted {
        call: mark.invocation,
        boot: boot.to_owned(),
    };
    let claims = [
        ("another boot", unless_started(&begun, "another")),
        ("call that ended", unless_started(&ended, this_boot)),
        ("call that never began", unless_started(&unknown, this_boot)),
        ("call that started", unless_started(&started, this_boot)),
        ("inside", OrphanRule::Release),
        ("key", OrphanRule::InDoubt),
        ("never started", unless_started(&begun, this_boot)),
        ("no boot", unless_started(&begun, "")),
    ]
    .map(|(key, rule)| claimed_with(key, "me", rule));
    for claim in &claims {
        add(&store, claim).await;
    }
    assert_eq!(store.rows(Rows::All).await.unwrap(), claims, "nothing is decided while the owner lives");
    drop(store);
    let store = open();
    let mut doubts =
        vec!["another boot", "call that ended", "call that never began", "call that started", "key"];
    if boot_id().is_none() {
        doubts.push("never started");
    }
    doubts.push("no boot");
    let rows = store.rows(Rows::All).await.unwrap();
    assert!(rows.iter().all(|row| matches!(row.state, LedgerState::InDoubt { .. })), "{rows:?}");
    assert_eq!(
        rows.iter().map(|row| row.key.as_str()).collect::<Vec<_>>(),
        doubts,
        "the others are released"
    );
    for key in ["inside", "never started"].iter().filter(|key| !doubts.contains(key)) {
        let claim = claimed(key, "you");
        assert_eq!(store.claim(claim.clone(), at(1)).await.unwrap(), Claimed::Yes, "{key} can be claimed");
        assert!(store.replace(LedgerChange { from: claim, to: None }).await.unwrap());
    }
    // The end of an interrupted call is committed, and changes nothing of this.
    for mark in store.load(&session).await.unwrap().unfinished {
        store.commit(&session, Batch { ends: Some(mark.invocation), ..Batch::default() }).await.unwrap();
    }
    let store = check_twice(store, &mut open, async |store, _| {
        assert_eq!(store.rows(Rows::All).await.unwrap(), rows, "what was decided stays so");
    })
    .await;
    let rows = store.rows(Rows::Key("key".into())).await.unwrap();
    let [LedgerRow { state: LedgerState::InDoubt { reason, since }, .. }] = rows.as_slice() else {
        panic!("the claim of a process that ended must be in doubt, and is {rows:?}");
    };
    let doubt = LedgerState::InDoubt { reason: reason.clone(), since: at(0) };
    assert_eq!(*since, at(0));
    assert_eq!(rows, [LedgerRow { state: doubt, ..claimed("key", "me") }], "the rest of it stays as it was");
    assert!(reason.contains("interrupted"), "the reason says so: {reason}");
    assert_eq!(store.claim(claimed("key", "you"), at(1)).await.unwrap(), Claimed::No(rows[0].clone()));
}

/// Puts a row where there is none.
async fn add(store: &SharedStore, row: &LedgerRow) {
    assert_eq!(store.claim(row.clone(), at(0)).await.unwrap(), Claimed::Yes);
}

/// What each of many threads gets that do something at the same time.
fn at_once<T: Send>(work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    const THREADS: usize = 16;
    let start = Barrier::new(THREADS);
    // A store may need the runtime of the test that called us.
    let runtime = tokio::runtime::Handle::try_current().ok();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let (work, start, runtime) = (&work, &start, &runtime);
                scope.spawn(move || {
                    let _entered = runtime.as_ref().map(|runtime| runtime.enter());
                    start.wait();
                    work(number)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Checks the store as it is, and as it is opened again.
async fn check_twice(
    store: SharedStore,
    open: &mut Open,
    check: impl AsyncFn(&SharedStore, bool),
) -> SharedStore {
    check(&store, false).await;
    drop(store);
    let store = open();
    check(&store, true).await;
    store
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn records(stream: &str, numbers: std::ops::Range<u8>) -> Vec<Record> {
    // Records are bytes, not text.
    numbers.map(|number| Record::new(stream, vec![number, 0, 0xff, b'\n'])).collect()
}

fn mark(number: i64) -> CallMark {
    CallMark {
        invocation: InvocationId::fresh(at(number)),
        call_id: format!("call_{number}"),
        tool: "send".to_owned(),
        arguments: "{\"to\":\"日本\"}".to_owned(),
        prompt: "ns/key".to_owned(),
        adapter: "scripted".to_owned(),
        time: at(number),
        run: Some(RunContext { run_id: Some(format!("run_{number}")), ..RunContext::default() }),
        request: Some(format!("run/{number}")),
        attempt: Some(2),
    }
}

fn claimed(key: &str, owner: &str) -> LedgerRow {
    claimed_with(key, owner, OrphanRule::default())
}

fn claimed_with(key: &str, owner: &str, orphan: OrphanRule) -> LedgerRow {
    let state = LedgerState::Claimed { owner: owner.to_owned(), since: at(0), orphan };
    row(key, "send", state)
}

fn in_doubt(key: &str, tool: &str) -> LedgerRow {
    let state = LedgerState::InDoubt { reason: "timed out".to_owned(), since: at(0) };
    row(key, tool, state)
}

fn recorded(key: &str, tool: &str, expires_at: Option<Timestamp>) -> LedgerRow {
    let effect = json!({ "message": "sent", "value": { "id": 7, "big": 1.0e300, "none": null } });
    row(key, tool, LedgerState::Recorded { effect, expires_at })
}

fn row(key: &str, tool: &str, state: LedgerState) -> LedgerRow {
    let ttl = Some(Duration::new(86_400, 1));
    LedgerRow { key: key.to_owned(), tool: tool.to_owned(), params_hash: "hash".to_owned(), ttl, state }
}
