//! The part of the contract about what is read of a long session: pages, and the summary that it is opened from.

use super::{Open, check_twice, mark, records};
use crate::session::SessionId;
use crate::store::{
    Batch, NumberedRecord, Opening, PageOrder, PageQuery, Record, SharedStore, StoreErrorKind, Summary,
};

pub(super) async fn records_are_read_by_pages(mut open: Open) {
    let session = SessionId::from("one");
    let store = open();
    if !store.has_pages() {
        let refused = store.page(&session, &PageQuery::default()).unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Unsupported, "it says that it has none");
        return;
    }
    let mut all: Vec<Record> = Vec::new();
    for number in 0..7 {
        let stream = ["a", "b", "c"][number % 3];
        all.push(Record::new(stream, vec![number as u8; 10 * (number + 1)]));
    }
    // 70 bytes at the end, and nothing in between belongs to another session.
    for record in &all {
        for session in [&session, &SessionId::from("other")] {
            store.commit(session, Batch { records: vec![record.clone()], ..Batch::default() }).await.unwrap();
        }
    }
    let numbered = |store: &SharedStore, query: &PageQuery| -> Vec<u64> {
        let page = store.page(&session, query).unwrap();
        for NumberedRecord { sequence, record, .. } in &page {
            assert_eq!(*record, all[usize::try_from(*sequence).unwrap() - 1], "record {sequence}");
        }
        page.into_iter().map(|one| one.sequence).collect()
    };
    check_twice(store, &mut open, async |store, _| {
        let pages = |query: PageQuery| numbered(store, &query);
        let query = PageQuery::default;
        let newest = || PageQuery { order: PageOrder::NewestFirst, ..query() };
        let streams = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(pages(query()), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(pages(newest()), [7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(pages(PageQuery { most: 2, ..query() }), [1, 2]);
        assert_eq!(pages(PageQuery { most: 2, ..newest() }), [7, 6]);
        assert!(pages(PageQuery { most: 0, ..query() }).is_empty());
        assert_eq!(pages(PageQuery { after: 2, upto: 5, ..query() }), [3, 4, 5]);
        assert_eq!(pages(PageQuery { after: 2, upto: 5, ..newest() }), [5, 4, 3]);
        assert!(pages(PageQuery { after: 5, upto: 2, ..query() }).is_empty());
        assert!(pages(PageQuery { after: 7, ..query() }).is_empty());
        assert_eq!(pages(PageQuery { streams: streams(&["a"]), ..query() }), [1, 4, 7]);
        assert_eq!(pages(PageQuery { streams: streams(&["a"]), most: 1, ..newest() }), [7]);
        assert_eq!(pages(PageQuery { streams: streams(&["c", "a"]), ..newest() }), [7, 6, 4, 3, 1]);
        assert!(pages(PageQuery { streams: streams(&["nobody's"]), ..query() }).is_empty());
        assert_eq!(pages(PageQuery { streams: streams(&["a"]), skip: 1, ..newest() }), [4, 1]);
        assert!(pages(PageQuery { skip: 9, ..query() }).is_empty());
        assert_eq!(pages(PageQuery { bytes: 59, ..query() }), [1, 2], "10 and 20 bytes, and not 30 more");
        assert_eq!(pages(PageQuery { bytes: 60, ..query() }), [1, 2, 3], "exactly as many");
        assert_eq!(pages(PageQuery { bytes: 5, ..newest() }), [7], "the first is there however large");
        assert_eq!(store.page(&SessionId::from("nobody"), &query()).unwrap(), []);

        let count = |query: PageQuery| store.count(&session, &query).unwrap();
        assert_eq!(count(query()), 7);
        assert_eq!(count(PageQuery { most: 1, bytes: 1, ..newest() }), 7, "whatever the size of pages");
        assert_eq!(count(PageQuery { streams: streams(&["a", "b"]), after: 1, ..newest() }), 4);
        assert_eq!(count(PageQuery { after: 2, upto: 5, skip: 1, ..query() }), 2);
        assert_eq!(store.count(&SessionId::from("nobody"), &query()).unwrap(), 0);
    })
    .await;
}

pub(super) async fn a_session_is_opened_from_its_newest_summary(mut open: Open) {
    let session = SessionId::from("one");
    let store = open();
    if !store.has_pages() {
        let refused = store.opening(&session).await.unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Unsupported);
        let refused = store.summarise(&session, Summary::default()).await.unwrap_err();
        assert_eq!(refused.kind, StoreErrorKind::Unsupported);
        return;
    }
    assert_eq!(store.opening(&session).await.unwrap(), Opening::default(), "nothing was committed yet");
    let summary = |sequence: u64, numbers: std::ops::Range<u8>| {
        let mut whole = records("a", numbers);
        whole.push(Record::new("b", Vec::new()));
        Summary { sequence, compactions: 0, records: whole }
    };
    store.summarise(&session, summary(1, 0..1)).await.unwrap();
    assert_eq!(store.opening(&session).await.unwrap(), Opening::default(), "there is nothing to sum up");

    store.commit(&session, Batch { records: records("a", 0..5), ..Batch::default() }).await.unwrap();
    let bare = Opening { sequence: 5, ..Opening::default() };
    assert_eq!(store.opening(&session).await.unwrap(), bare);
    store.summarise(&session, summary(6, 0..1)).await.unwrap();
    assert_eq!(store.opening(&session).await.unwrap(), bare, "what is still to come cannot be summed up");
    store.summarise(&session, summary(4, 0..9)).await.unwrap();
    store.summarise(&session, summary(3, 0..2)).await.unwrap();
    let at_four = Opening { summary: Some(summary(4, 0..9)), ..bare.clone() };
    let store = check_twice(store, &mut open, async |store, _| {
        assert_eq!(store.opening(&session).await.unwrap(), at_four, "an older one does not replace it");
        let other = store.opening(&SessionId::from("other")).await.unwrap();
        assert_eq!(other, Opening::default());
    })
    .await;
    store.summarise(&session, summary(5, 3..4)).await.unwrap();
    let begun = mark(1);
    store.begin(&session, begun.clone()).await.unwrap();
    let at_five = Opening { summary: Some(summary(5, 3..4)), ..bare.clone() };
    assert_eq!(store.opening(&session).await.unwrap(), at_five, "a newer one does, all of it");
    drop(store);
    let store = open();
    let unfinished = Opening { unfinished: vec![begun.clone()], ..at_five };
    assert_eq!(store.opening(&session).await.unwrap(), unfinished, "with the calls of the dead");
    store.commit(&session, Batch { ends: Some(begun.invocation), ..Batch::default() }).await.unwrap();

    assert_eq!(store.compact(&session, 2, vec![Record::new("nobody's", vec![1])]).await.unwrap(), 0);
    assert!(store.opening(&session).await.unwrap().summary.is_some(), "nothing was compacted");
    assert_eq!(store.compact(&session, 2, vec![Record::new("a", vec![1])]).await.unwrap(), 1);
    let compacted = Opening { compactions: 1, ..bare };
    store.summarise(&session, summary(5, 0..2)).await.unwrap();
    let store = check_twice(store, &mut open, async |store, _| {
        assert_eq!(store.opening(&session).await.unwrap(), compacted, "it may not be so any more");
    })
    .await;
    let anew = Summary { compactions: 1, ..summary(5, 0..2) };
    store.summarise(&session, anew.clone()).await.unwrap();
    assert_eq!(store.opening(&session).await.unwrap(), Opening { summary: Some(anew), ..compacted });
}
