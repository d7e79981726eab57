//! The part of the contract about numbered records: what is new, what a call did, what a stream was, and who may write next.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::{Open, add, at, check_twice, claimed, claimed_with, mark, recorded, records};
use crate::session::{InvocationId, SessionId};
use crate::store::{
    Batch, Claimed, Durability, HistoryQuery, JournalId, LedgerChange, LedgerState, NumberedJournal,
    OrphanRule, Record, Rows, SharedStore, StoreError, StoreErrorKind, boot_id,
};

pub(super) async fn records_are_numbered(mut open: Open) {
    let session = SessionId::from("one");
    let store = open();
    if store.durability() == Durability::Process {
        return;
    }
    assert_eq!(store.load_since(&session, 0).await.unwrap(), store.load(&session).await.unwrap());
    let all = records("a", 0..5);
    let commit = async |records: &[Record]| {
        store.commit(&session, Batch { records: records.to_vec(), ..Batch::default() }).await.unwrap();
    };
    commit(&all[..2]).await;
    commit(&[]).await;
    commit(&all[2..]).await;
    store
        .commit(&SessionId::from("other"), Batch { records: records("b", 0..9), ..Batch::default() })
        .await
        .unwrap();
    check_twice(store, &mut open, async |store, _| {
        for since in 0..=5 {
            let news = store.load_since(&session, since as u64).await.unwrap();
            assert_eq!((news.records.as_slice(), news.sequence), (&all[since..], 5), "after {since}");
        }
    })
    .await;
}

pub(super) async fn a_batch_that_expects_another_number_is_refused(mut open: Open) {
    let session = SessionId::from("one");
    let store = open();
    if store.durability() == Durability::Process {
        return;
    }
    let mark = mark(1);
    store.begin(&session, mark.clone()).await.unwrap();
    let claim = claimed("key", "me");
    add(&store, &claim).await;
    let ledger = LedgerChange { from: claim.clone(), to: Some(recorded("key", "send", None)) };
    let batch = |expects| Batch {
        records: records("a", 0..2),
        ends: Some(mark.invocation),
        ledger: Some(ledger.clone()),
        expects: Some(expects),
        ..Batch::default()
    };
    let refused = store.commit(&session, batch(1)).await;
    assert_eq!(refused, Err(StoreError::moved(1, 0)));
    assert_eq!(refused.unwrap_err().kind, StoreErrorKind::Moved);
    assert_eq!(store.rows(Rows::All).await.unwrap(), [claim], "nothing of it is true");
    assert_eq!(store.load(&session).await.unwrap().sequence, 0);
    store.commit(&session, batch(0)).await.expect("that is what there is");
    let next = |expects| Batch { records: records("a", 2..3), expects: Some(expects), ..Batch::default() };
    assert_eq!(store.commit(&session, next(0)).await, Err(StoreError::moved(0, 2)));
    store.commit(&session, next(2)).await.unwrap();
    check_twice(store, &mut open, async |store, _| {
        let kept = store.load(&session).await.unwrap();
        assert_eq!((kept.records, kept.unfinished, kept.sequence), (records("a", 0..3), Vec::new(), 3));
    })
    .await;
}

pub(super) async fn history_says_who_wrote_what(mut open: Open) {
    let session = SessionId::from("one");
    let store = open();
    if store.durability() == Durability::Process {
        return;
    }
    let calls = [InvocationId::fresh(at(1)), InvocationId::fresh(at(2))];
    let of = |call: Option<InvocationId>, stream, numbers| -> Vec<Record> {
        records(stream, numbers).into_iter().map(|record| Record { call, ..record }).collect()
    };
    let batches = [
        [of(None, "a", 0..1), of(Some(calls[0]), "a", 1..2), of(Some(calls[0]), "b", 2..4)].concat(),
        of(None, "b", 4..5),
        [of(Some(calls[1]), "a", 5..6), of(Some(calls[1]), "c", 6..7)].concat(),
    ];
    for records in &batches {
        store.commit(&session, Batch { records: records.clone(), ..Batch::default() }).await.unwrap();
    }
    let all = batches.concat();
    check_twice(store, &mut open, async |store, _| {
        let ask = async |query: HistoryQuery| {
            let history = store.history(&session, query.clone()).await.unwrap();
            assert_eq!(history.compacted, 0);
            let (mut numbers, mut found) = (Vec::new(), Vec::new());
            for one in history.records {
                assert!(query.matches(&one), "{one:?} was not asked for");
                numbers.push(one.sequence);
                found.push(one.record);
            }
            let expected: Vec<Record> =
                numbers.iter().map(|number| all[*number as usize - 1].clone()).collect();
            assert_eq!(found, expected);
            numbers
        };
        let query = HistoryQuery::default;
        assert_eq!(ask(query()).await, [1, 2, 3, 4, 5, 6, 7]);
        let stream = |name: &str| HistoryQuery { stream: Some(name.to_owned()), ..query() };
        assert_eq!(ask(stream("a")).await, [1, 2, 6]);
        assert_eq!(ask(HistoryQuery { upto: Some(2), ..stream("a") }).await, [1, 2], "as it was before");
        assert_eq!(ask(HistoryQuery { after: Some(2), ..stream("a") }).await, [6], "changed since");
        let call = |call| HistoryQuery { call: Some(call), ..query() };
        assert_eq!(ask(call(calls[0])).await, [2, 3, 4]);
        assert_eq!(ask(HistoryQuery { stream: Some("a".into()), ..call(calls[1]) }).await, [6]);
        assert_eq!(ask(HistoryQuery { after: Some(2), upto: Some(3), ..call(calls[0]) }).await, [3]);
        assert_eq!(ask(call(InvocationId::fresh(at(3)))).await, Vec::<u64>::new());
        let nobody = store.history(&SessionId::from("other"), query()).await.unwrap();
        assert_eq!(nobody.records, []);
    })
    .await;
}

pub(super) async fn history_says_which_journals_a_call_had(mut open: Open) {
    let session = SessionId::from("one");
    let store = open();
    if store.durability() == Durability::Process {
        return;
    }
    let call = Some(InvocationId::fresh(at(1)));
    let all = [(2, 1, call), (2, 0, None), (5, 3, None), (5, 0, None)];
    let journals = all.map(|(sequence, records, call)| {
        (records, NumberedJournal { sequence, id: JournalId::fresh(), call })
    });
    store.commit(&session, Batch { records: records("a", 0..1), ..Batch::default() }).await.unwrap();
    for (count, journal) in journals {
        let batch = Batch {
            records: records("a", 0..count),
            journals: vec![journal.id],
            ends: journal.call,
            ..Batch::default()
        };
        store.commit(&session, batch).await.unwrap();
    }
    let other = Batch { journals: vec![JournalId::fresh()], ..Batch::default() };
    store.commit(&SessionId::from("other"), other).await.unwrap();
    let journals = journals.map(|(_, journal)| journal);
    let refused = Batch { journals: vec![JournalId::fresh()], expects: Some(77), ..Batch::default() };
    assert!(store.commit(&session, refused).await.is_err());
    check_twice(store, &mut open, async |store, _| {
        let ask = async |query: HistoryQuery| {
            let mut found = store.history(&session, query).await.unwrap().journals;
            // Those of one number may come in any order.
            found.sort_by_key(|one| journals.iter().position(|journal| journal == one));
            found
        };
        let query = HistoryQuery::default;
        assert_eq!(ask(query()).await, journals);
        assert_eq!(ask(HistoryQuery { call, ..query() }).await, journals[..1]);
        assert_eq!(ask(HistoryQuery { after: Some(1), ..query() }).await, journals);
        assert_eq!(ask(HistoryQuery { after: Some(2), ..query() }).await, journals[2..]);
        assert_eq!(ask(HistoryQuery { after: Some(0), upto: Some(4), ..query() }).await, journals[..2]);
        let stream = Some("a".to_owned());
        assert_eq!(ask(HistoryQuery { stream, ..query() }).await, [], "a journal is of no stream");
    })
    .await;
}

pub(super) async fn old_records_are_replaced_by_what_they_come_to(mut open: Open) {
    let session = SessionId::from("one");
    let store = open();
    if store.durability() == Durability::Process {
        return;
    }
    let record = |stream: &str, number: u8| Record::new(stream, vec![number]);
    // By number: a1 b2 a3 c4 a5 b6.
    let all: Vec<Record> = ["a", "b", "a", "c", "a", "b"]
        .iter()
        .zip(1..)
        .map(|(stream, number)| record(stream, number))
        .collect();
    for one in &all {
        store.commit(&session, Batch { records: vec![one.clone()], ..Batch::default() }).await.unwrap();
    }
    let (a, d) = (record("a", 13), record("d", 99));
    let gone = store.compact(&session, 4, vec![a.clone(), d]).await.unwrap();
    assert_eq!(gone, 1, "a1 and a3 are one now, and nothing is made of a stream that is not there");
    let kept = [all[1].clone(), a.clone(), all[3].clone(), all[4].clone(), all[5].clone()];
    let numbers = [2, 3, 4, 5, 6];
    let store = check_twice(store, &mut open, async |store, _| {
        let loaded = store.load(&session).await.unwrap();
        assert_eq!((loaded.records.as_slice(), loaded.sequence), (kept.as_slice(), 6));
        let history = store.history(&session, HistoryQuery::default()).await.unwrap();
        assert_eq!(history.records.iter().map(|one| one.sequence).collect::<Vec<_>>(), numbers);
        assert_eq!(history.compacted, 4, "what all was before is not known any more");
        // Whoever has read up to 1 gets the whole of `a`; whoever has read up to 3 has it.
        for since in 0..=6_usize {
            let new = numbers.iter().zip(&kept).filter(|(number, _)| **number > since as u64);
            let new: Vec<Record> = new.map(|(_, record)| record.clone()).collect();
            assert_eq!(store.load_since(&session, since as u64).await.unwrap().records, new, "after {since}");
        }
    })
    .await;
    assert_eq!(store.compact(&session, 4, vec![a.clone()]).await.unwrap(), 0, "again changes nothing");
    assert_eq!(store.load(&session).await.unwrap().records, kept);
    let (a, b, c) = (record("a", 15), record("b", 16), all[3].clone());
    assert_eq!(store.compact(&session, 6, vec![a.clone(), b.clone()]).await.unwrap(), 2);
    let none = store.compact(&session, 99, vec![record("d", 1)]).await.unwrap();
    let all = store.compact(&session, 99, vec![a.clone()]).await.unwrap();
    let known = store.history(&session, HistoryQuery::default()).await.unwrap().compacted;
    assert_eq!((none, all, known), (0, 0, 6), "what is still to come is not compacted");
    let next = Batch { records: vec![record("a", 7)], expects: Some(6), ..Batch::default() };
    store.commit(&session, next).await.expect("numbers go on");
    let kept = [c, a, b, record("a", 7)];
    check_twice(store, &mut open, async |store, _| {
        assert_eq!(store.load(&session).await.unwrap().records, kept);
    })
    .await;
    assert_eq!(open().compact(&SessionId::from("nobody"), 9, vec![record("a", 1)]).await.unwrap(), 0);
}

/// For stores that several processes share: what somebody else does who lives.
pub(super) async fn the_living_are_left_alone(mut open: Open) {
    let session = SessionId::from("one");
    let store = open();
    if !store.is_shared() {
        return;
    }
    let call = mark(1);
    store.begin(&session, call.clone()).await.unwrap();
    let claim = claimed("key", "me");
    let boot = boot_id().unwrap_or_default().to_owned();
    let unstarted = OrphanRule::ReleaseUnlessStarted { call: call.invocation, boot };
    let waiting = claimed_with("not started yet", "me", unstarted);
    for claim in [&claim, &waiting] {
        add(&store, claim).await;
    }
    let other: SharedStore = open();
    assert_eq!(other.load(&session).await.unwrap().unfinished, [], "its process lives");
    assert_eq!(other.rows(Rows::All).await.unwrap(), [claim.clone(), waiting.clone()]);
    assert_eq!(other.claim(claimed("key", "you"), at(1)).await.unwrap(), Claimed::No(claim));
    let wish = claimed("not started yet", "you");
    assert_eq!(other.claim(wish.clone(), at(1)).await.unwrap(), Claimed::No(waiting));
    store.commit(&session, Batch { records: records("a", 0..1), ..Batch::default() }).await.unwrap();
    let late = Batch { records: records("a", 1..2), expects: Some(0), ..Batch::default() };
    assert_eq!(
        other.commit(&session, late).await,
        Err(StoreError::moved(0, 1)),
        "it sees what was committed"
    );

    let turn = store.turn(&session).await.unwrap();
    drop(other.turn(&SessionId::from("another")).await.unwrap());
    {
        let mut waiting = pin!(other.turn(&session));
        let mut looking = Context::from_waker(Waker::noop());
        assert!(matches!(waiting.as_mut().poll(&mut looking), Poll::Pending), "one has the turn");
    }
    drop(turn);
    drop(other.turn(&session).await.unwrap());

    // The first one dies.
    drop(store);
    let found = other.claim(claimed("key", "you"), at(1)).await.unwrap();
    let Claimed::No(row) = &found else { panic!("the claim of the dead was given away") };
    assert!(matches!(row.state, LedgerState::InDoubt { .. }), "it is in doubt as soon as it is met: {row:?}");
    // Its call is met before its other claim is, which is decided all the same.
    let unfinished = other.load_since(&session, 0).await.unwrap().unfinished;
    assert_eq!(unfinished.len(), 1, "and so is its call");
    if boot_id().is_some() {
        assert_eq!(other.rows(Rows::All).await.unwrap(), [row.clone()]);
        assert_eq!(other.claim(wish, at(1)).await.unwrap(), Claimed::Yes, "it never started");
    }
}
