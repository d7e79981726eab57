//! Sessions: slices, reducers, declarative slices, copies and families.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test says what is broken by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wink::session::{
    DeclarativeSlice, Delivery, DispatchResult, FamilyError, InvocationId, LoggedValue, PromptExecuted,
    PromptRendered, ReadOnlySession, ReducerFailure, Reducers, Session, SessionError, SliceKey, SliceKind,
    SliceOp, SliceType, SliceView, append_all, replace_latest, replace_latest_by_key, upsert_by_key,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note(u32);
impl SliceType for Note {
    const NAME: &'static str = "note";
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    key: String,
    value: u32,
}
impl SliceType for Entry {
    const NAME: &'static str = "entry";
    const KEYED: bool = true;

    fn key(&self) -> Option<SliceKey> {
        Some(self.key.as_str().into())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Heard(u32);
impl SliceType for Heard {
    const NAME: &'static str = "heard";
    const KIND: SliceKind = SliceKind::Log;
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Total(u32);
impl SliceType for Total {
    const NAME: &'static str = "total";
}

fn entry(key: &str, value: u32) -> Entry {
    Entry { key: key.to_owned(), value }
}

fn all<T: SliceType + Clone>(session: &Session) -> Vec<T> {
    values(&session.slice())
}

fn values<T: SliceType + Clone>(view: &SliceView<T>) -> Vec<T> {
    view.iter().map(|item| T::clone(&item)).collect()
}

fn dispatch<E: SliceType>(session: &Session, events: impl IntoIterator<Item = E>) {
    for event in events {
        assert_eq!(session.dispatch(event), DispatchResult::default());
    }
}

// case 94
#[test]
fn an_event_without_a_registration_goes_to_its_own_slice() {
    let session = Session::new();
    dispatch(&session, [Note(1), Note(2), Note(1)]);
    assert_eq!(all::<Note>(&session), [Note(1), Note(2), Note(1)]);
    assert_eq!(all::<Total>(&session), []);
}

// case 95
#[test]
fn latest_all_and_filter() {
    let session = Session::new();
    let empty = session.slice::<Note>();
    assert_eq!((empty.latest(), empty.all(), empty.len(), empty.is_empty()), (None, Vec::new(), 0, true));
    dispatch(&session, (1..=6).map(Note));
    let slice = session.slice::<Note>();
    assert_eq!((slice.latest(), slice.len(), slice.is_empty()), (Some(Arc::new(Note(6))), 6, false));
    assert_eq!(slice.newest().collect::<Vec<_>>(), slice.all().into_iter().rev().collect::<Vec<_>>());
    assert_eq!(slice.all(), (1..=6).map(|number| Arc::new(Note(number))).collect::<Vec<_>>());
    let even: Vec<_> = [2, 4, 6].map(|number| Arc::new(Note(number))).into();
    assert_eq!(slice.filter(|note| note.0 % 2 == 0), even);
    assert_eq!(
        (empty.len(), format!("{slice:?}")),
        (0, format!("{:?}", (1..=6).map(Note).collect::<Vec<_>>()))
    );
}

// case 96
#[test]
fn reducers_run_in_registration_order_on_what_the_previous_left() {
    let session = Session::new();
    for factor in [10, 100] {
        session
            .register::<Note, Total>(move |total, note| {
                let so_far = total.latest().map_or(1, |total| total.0);
                Ok(SliceOp::Append(Total(so_far * factor + note.0)))
            })
            .unwrap();
    }
    dispatch(&session, [Note(1)]);
    assert_eq!(all::<Total>(&session), [Total(11), Total(1101)]);
    assert_eq!(all::<Note>(&session), [], "registered reducers take the place of the default one");
}

// case 97
#[test]
fn a_failing_reducer_leaves_its_slice_and_stops_no_other() {
    let session = Session::new();
    session.register::<Note, Note>(append_all()).unwrap();
    session.register::<Note, Total>(|_, _| Err("no more".to_owned())).unwrap();
    session.register::<Note, Entry>(|_, _| panic!("broken")).unwrap();
    session.register::<Note, Heard>(|_, note| Ok(SliceOp::Append(Heard(note.0)))).unwrap();
    session.seed([Total(5)]).unwrap();
    session.seed([entry("a", 1)]).unwrap();
    let result = session.dispatch(Note(7));
    let failures = vec![
        ReducerFailure { slice: "total", reason: "no more".to_owned() },
        ReducerFailure { slice: "entry", reason: "the reducer panicked: broken".to_owned() },
    ];
    assert_eq!(result, DispatchResult { failures, delivery: Delivery::default() });
    assert!(!result.is_ok());
    assert_eq!(result.failures[0].to_string(), "the reducer of slice total failed: no more");
    assert_eq!(all::<Note>(&session), [Note(7)]);
    assert_eq!(all::<Total>(&session), [Total(5)]);
    assert_eq!(all::<Entry>(&session), [entry("a", 1)]);
    assert_eq!(all::<Heard>(&session), [Heard(7)]);
}

// case 98
#[test]
fn the_built_in_reducers() {
    let events = || [entry("a", 1), entry("b", 1), entry("a", 2), entry("a", 2)];
    let with = |register: &dyn Fn(&Session)| {
        let session = Session::new();
        register(&session);
        dispatch(&session, events());
        all::<Entry>(&session)
    };
    let latest = with(&|session| session.register::<Entry, Entry>(replace_latest()).unwrap());
    assert_eq!(latest, [entry("a", 2)]);
    let upserted = with(&|session| session.register::<Entry, Entry>(upsert_by_key()).unwrap());
    assert_eq!(upserted, [entry("a", 2), entry("b", 1)]);
    let by_key = with(&|session| session.register::<Entry, Entry>(replace_latest_by_key()).unwrap());
    assert_eq!(by_key, [entry("b", 1), entry("a", 2)]);

    let session = Session::new();
    session.register::<Note, Note>(append_all()).unwrap();
    dispatch(&session, [Note(1), Note(1), Note(2), Note(1)]);
    assert_eq!(all::<Note>(&session), [Note(1), Note(1), Note(2), Note(1)]);
}

// case 98
#[test]
fn a_keyed_slice_finds_by_key_and_one_without_keys_refuses_upserts() {
    let session = Session::new();
    session.register::<Entry, Entry>(upsert_by_key()).unwrap();
    dispatch(&session, [entry("a", 1), entry("b", 2), entry("a", 3)]);
    let slice = session.slice::<Entry>();
    assert_eq!(slice.get("a"), Some(Arc::new(entry("a", 3))));
    assert_eq!(slice.get("c"), None);
    session.register::<Note, Note>(upsert_by_key()).unwrap();
    let reason = "slice note has no key for this item: set KEYED and key() on its type".to_owned();
    assert_eq!(session.dispatch(Note(1)).failures, [ReducerFailure { slice: "note", reason }]);
    assert_eq!(session.slice::<Note>().get("1"), None);
}

// case 99
#[test]
fn seed_replaces_and_clear_removes() {
    let session = Session::new();
    dispatch(&session, (1..=4).map(Note));
    session.seed([Note(9)]).unwrap();
    assert_eq!(all::<Note>(&session), [Note(9)]);
    session.seed((1..=6).map(Note)).unwrap();
    assert_eq!(all::<Note>(&session), (1..=6).map(Note).collect::<Vec<_>>());
    session.clear_where::<Note>(|note| note.0 % 3 == 0).unwrap();
    assert_eq!(all::<Note>(&session), [Note(1), Note(2), Note(4), Note(5)]);
    let failed = session.clear_where::<Note>(|_| panic!("odd")).unwrap_err();
    let reason = "the condition panicked: odd".to_owned();
    assert_eq!(failed, SessionError::Edit { slice: "note", reason });
    assert_eq!(all::<Note>(&session), [Note(1), Note(2), Note(4), Note(5)]);
    session.clear::<Note>().unwrap();
    assert_eq!(all::<Note>(&session), []);
}

// case 100
#[test]
fn every_operation_applies_exactly() {
    let session = Session::new();
    session
        .register::<Note, Total>(|_, note| {
            Ok(match note.0 {
                0 => SliceOp::Keep,
                1 => SliceOp::Append(Total(1)),
                2 => SliceOp::Extend(vec![Total(2), Total(3)]),
                3 => SliceOp::Replace(vec![Total(4), Total(5), Total(6)]),
                4 => SliceOp::ClearWhere(Arc::new(|total| total.0 == 5)),
                _ => SliceOp::Clear,
            })
        })
        .unwrap();
    let mut seen = Vec::new();
    for number in [0, 1, 2, 3, 4, 1, 5, 2] {
        dispatch(&session, [Note(number)]);
        seen.push(all::<Total>(&session).into_iter().map(|total| total.0).collect::<Vec<_>>());
    }
    let expected: [&[u32]; 8] = [&[], &[1], &[1, 2, 3], &[4, 5, 6], &[4, 6], &[4, 6, 1], &[], &[2, 3]];
    assert_eq!(seen, expected);
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Counter<const INITIAL: bool> {
    sum: u32,
}
impl SliceType for Counter<true> {
    const NAME: &'static str = "counter_with";
}
impl SliceType for Counter<false> {
    const NAME: &'static str = "counter_without";
}
fn add<const I: bool>(state: &Counter<I>, note: &Note) -> Result<Counter<I>, String> {
    let sum = state.sum.checked_add(note.0).ok_or("too much")?;
    Ok(Counter { sum })
}
impl DeclarativeSlice for Counter<true> {
    fn initial() -> Option<Self> {
        Some(Self { sum: 100 })
    }

    fn reducers(on: &mut Reducers<Self>) {
        on.on::<Note>(add).on::<Total>(|_, total| Ok(Self { sum: total.0 }));
    }
}
impl DeclarativeSlice for Counter<false> {
    fn reducers(on: &mut Reducers<Self>) {
        on.on::<Note>(add);
    }
}

// case 101
#[test]
fn a_declarative_slice_starts_from_its_initial_state() {
    let session = Session::new();
    session.install::<Counter<true>>().unwrap();
    session.install::<Counter<false>>().unwrap();
    dispatch(&session, [Note(1), Note(2)]);
    assert_eq!(all::<Counter<true>>(&session), [Counter { sum: 103 }]);
    assert_eq!(all::<Counter<false>>(&session), [], "without an initial state nothing happens");
    session.seed([Counter::<false> { sum: 7 }]).unwrap();
    dispatch(&session, [Note(2)]);
    dispatch(&session, [Total(50)]);
    assert_eq!(all::<Counter<true>>(&session), [Counter { sum: 50 }]);
    assert_eq!(all::<Counter<false>>(&session), [Counter { sum: 9 }]);
    let result = session.dispatch(Note(u32::MAX));
    let reason = || "too much".to_owned();
    let failures =
        ["counter_with", "counter_without"].map(|slice| ReducerFailure { slice, reason: reason() }).to_vec();
    assert_eq!(result, DispatchResult { failures, delivery: Delivery::default() });
    assert_eq!(all::<Counter<true>>(&session), [Counter { sum: 50 }]);
}

macro_rules! declared {
    ($type:ident, $name:literal, $kind:expr, $on:ident => $reducers:expr) => {
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        struct $type;
        impl SliceType for $type {
            const NAME: &'static str = $name;
            const KIND: SliceKind = $kind;
        }
        impl DeclarativeSlice for $type {
            fn initial() -> Option<Self> {
                Some(Self)
            }
            fn reducers($on: &mut Reducers<Self>) {
                $reducers;
            }
        }
    };
}
declared!(Silent, "silent", SliceKind::State, on => { let _ = on; });
declared!(Double, "double", SliceKind::State, on => {
    on.on::<Note>(|_, _| Ok(Double)).on::<Total>(|_, _| Ok(Double)).on::<Note>(|_, _| Ok(Double))
});
declared!(Logged, "logged", SliceKind::Log, on => on.on::<Note>(|_, _| Ok(Logged)));
declared!(Clash, "clash", SliceKind::State, on => {
    on.on::<Total>(|_, _| Ok(Clash)).on::<Namesake>(|_, _| Ok(Clash))
});

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Namesake;
impl SliceType for Namesake {
    const NAME: &'static str = "note";
}

// case 102
#[test]
fn a_declarative_slice_with_no_event_or_one_twice_is_not_installed() {
    let session = Session::new();
    dispatch(&session, [Note(1)]);
    let refused = |result: Result<(), SessionError>| result.unwrap_err().to_string();
    assert_eq!(refused(session.install::<Silent>()), "slice silent cannot be installed: it names no event");
    assert_eq!(
        refused(session.install::<Double>()),
        "slice double cannot be installed: it names event note twice"
    );
    assert_eq!(
        refused(session.install::<Logged>()),
        "slice logged cannot be installed: slice logged is LOG and kept for good: it can be appended to, and \
         changed in no other way"
    );
    assert_eq!(
        refused(session.install::<Clash>()),
        "slice name \"note\" belongs to calls::session::Note; calls::session::Namesake must declare another"
    );
    dispatch(&session, [Note(2)]);
    dispatch(&session, [Total(2)]);
    assert_eq!(all::<Note>(&session), [Note(1), Note(2)]);
    assert_eq!(all::<Total>(&session), [Total(2)], "nothing of a refused slice is registered");
    assert_eq!(session.dispatch(Namesake).failures.len(), 1);
}

// case 103
#[test]
fn installing_twice_is_a_no_op() {
    let session = Session::new();
    session.install::<Counter<true>>().unwrap();
    session.install::<Counter<true>>().unwrap();
    dispatch(&session, [Note(1)]);
    assert_eq!(all::<Counter<true>>(&session), [Counter { sum: 101 }]);
}

// case 107
#[test]
fn reset_empties_everything_and_keeps_registrations() {
    let session = Session::new();
    session.install::<Counter<true>>().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    session.dispatcher().subscribe::<Note>(move |_, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    dispatch(&session, [Heard(1)]);
    assert!(session.dispatch(Note(1)).is_ok());
    session.reset();
    assert_eq!(all::<Heard>(&session), []);
    assert_eq!(all::<Counter<true>>(&session), []);
    assert!(session.dispatch(Note(5)).is_ok());
    assert_eq!(all::<Counter<true>>(&session), [Counter { sum: 105 }]);
    assert_eq!(count.load(Ordering::Relaxed), 2);
}

// case 108
#[test]
fn a_duplicate_is_equal_and_independent() {
    let session = Session::builder().id("first").tag("team", "blue").build();
    session.install::<Counter<true>>().unwrap();
    dispatch(&session, [Note(1)]);
    dispatch(&session, [Heard(1)]);
    session.seed([entry("a", 1)]).unwrap();
    let copy = session.duplicate();
    assert_ne!(copy.id(), session.id());
    assert_eq!(copy.tags()["team"], "blue");
    assert_eq!(copy.tags()["session_id"], copy.id().as_str());
    let contents =
        |session: &Session| (all::<Counter<true>>(session), all::<Heard>(session), all::<Entry>(session));
    let first = (vec![Counter { sum: 101 }], vec![Heard(1)], vec![entry("a", 1)]);
    assert_eq!(contents(&copy), first);
    dispatch(&copy, [Note(1)]);
    dispatch(&copy, [Heard(2)]);
    copy.clear::<Entry>().unwrap();
    assert_eq!(contents(&session), first);
    assert_eq!(contents(&copy), (vec![Counter { sum: 102 }], vec![Heard(1), Heard(2)], Vec::new()));
    dispatch(&session, [Note(7)]);
    assert_eq!(contents(&copy).0, [Counter { sum: 102 }]);
    copy.register::<Namesake2, Namesake2>(replace_latest()).unwrap();
    dispatch(&session, [Namesake2, Namesake2]);
    assert_eq!(all::<Namesake2>(&session), [Namesake2, Namesake2], "a registration of the copy is its own");
}

// case 109
#[test]
fn families() {
    let ids = |sessions: Vec<Session>| sessions.iter().map(|one| one.id().to_string()).collect::<Vec<_>>();
    let session = |id: &str| Session::builder().id(id).build();
    let (root, left, right, leaf) = (session("root"), session("left"), session("right"), session("leaf"));
    root.adopt(&left).unwrap();
    root.adopt(&right).unwrap();
    root.adopt(&left).unwrap();
    left.adopt(&leaf).unwrap();
    assert_eq!(ids(root.children()), ["left", "right"], "registered once");
    assert_eq!(leaf.parent().map(|parent| parent.id().clone()), Some("left".into()));
    assert_eq!(leaf.parent_id(), Some("left".into()));
    assert_eq!(root.adopt(&root), Err(FamilyError::Self_("root".into())));
    let taken = FamilyError::HasParent { child: "leaf".into(), parent: "left".into() };
    assert_eq!(right.adopt(&leaf), Err(taken));
    assert_eq!(ids(root.bottom_up()), ["leaf", "left", "right", "root"]);
    leaf.adopt(&root).unwrap();
    assert_eq!(ids(root.bottom_up()), ["leaf", "left", "right", "root"], "a cycle is walked once");
    assert_eq!(ids(left.bottom_up()), ["right", "root", "leaf", "left"]);
    let fork = root.fork();
    assert_eq!(fork.parent_id(), Some("root".into()));
    assert_eq!(root.children().last().map(|child| child.id().clone()), Some(fork.id().clone()));
}

// case 109
#[test]
fn a_deep_family_is_walked_without_recursion() {
    let sessions: Vec<Session> =
        (0..20_000).map(|number| Session::builder().id(number.to_string()).build()).collect();
    for pair in sessions.windows(2) {
        pair[0].adopt(&pair[1]).unwrap();
    }
    let walked = sessions[0].bottom_up();
    assert_eq!(walked.len(), 20_000);
    assert!(walked.iter().rev().map(Session::id).eq(sessions.iter().map(Session::id)));
}

// case 110
#[test]
fn tags_are_text_and_have_the_session_id() {
    let session = Session::builder().id("s1").tag("team", "blue").tag("session_id", "forged").build();
    let tags = session.tags();
    let expected = [("session_id", "s1"), ("team", "blue")];
    assert!(tags.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(expected));
    let fresh = Session::new();
    assert_eq!(fresh.tags()["session_id"], fresh.id().as_str());
    let mut json = session.snapshot().to_json().unwrap();
    json["tags"]["team"] = 7.into();
    let error = session.decode_snapshot(&json.to_string()).unwrap_err();
    assert_eq!(error.to_string(), "snapshot field tags must be an object of strings");
}

fn rendered(text: &str) -> PromptRendered {
    PromptRendered {
        id: InvocationId::parse("0190163d-8694-739b-aea5-966c26f8ad91").unwrap(),
        run: Arc::default(),
        prompt: "ns/key".into(),
        time: Timestamp::UNIX_EPOCH,
        text: text.into(),
        tools: Vec::new(),
    }
}

// case 112
#[test]
fn a_telemetry_event_is_stored_once() {
    let session = Session::new();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    session.dispatcher().subscribe::<PromptRendered>(move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let result = session.dispatch(rendered("hello"));
    let delivery = Delivery { handled_count: 1, failures: Vec::new() };
    assert_eq!(result, DispatchResult { failures: Vec::new(), delivery });
    assert_eq!(all::<PromptRendered>(&session), [rendered("hello")]);
    assert_eq!(seen.load(Ordering::Relaxed), 1);
}

// case 113
#[test]
fn every_element_of_a_list_output_goes_to_its_slice() {
    let session = Session::new();
    session
        .register::<Note, Total>(|total, note| {
            let sum = total.latest().map_or(0, |total| total.0);
            if note.0 == 0 {
                Err("nothing".to_owned())
            } else {
                Ok(SliceOp::Replace(vec![Total(sum + note.0)]))
            }
        })
        .unwrap();
    session.register::<Note, Note>(append_all()).unwrap();
    session.dispatcher().subscribe::<Note>(|_, _| Ok(()));
    let executed = PromptExecuted {
        run: Arc::default(),
        prompt: "ns/key".into(),
        time: Timestamp::UNIX_EPOCH,
        text: "[1,0,3]".into(),
        output: LoggedValue::Json(Arc::new(serde_json::json!([1, 0, 3]))),
        usage: None,
    };
    let result = session.record_executed(executed.clone(), [Note(1), Note(0), Note(3)]);
    let failures = vec![ReducerFailure { slice: "total", reason: "nothing".to_owned() }];
    let delivery = Delivery { handled_count: 3, failures: Vec::new() };
    assert_eq!(result, DispatchResult { failures, delivery });
    assert_eq!(all::<PromptExecuted>(&session), [executed]);
    assert_eq!(all::<Note>(&session), [Note(1), Note(0), Note(3)]);
    assert_eq!(all::<Total>(&session), [Total(4)]);
}

// case 114
#[test]
fn a_read_only_view_reads_and_that_is_all() {
    // What it lacks is shown beside the type, by examples that do not compile; this pins what it has.
    let session = Session::builder().id("s").build();
    let view: ReadOnlySession = session.read_only();
    dispatch(&session, [Note(1)]);
    assert_eq!(view.id(), session.id());
    assert_eq!(values(&view.slice::<Note>()), [Note(1)]);
    assert_eq!(view.calls("deploy"), None);
}

#[test]
fn a_log_slice_only_grows() {
    let session = Session::new();
    dispatch(&session, [Heard(1)]);
    let reason = "slice heard is LOG and kept for good: it can be appended to, and changed in no other way";
    let refused = || SessionError::Edit { slice: "heard", reason: reason.to_owned() };
    assert_eq!(session.clear::<Heard>(), Err(refused()));
    assert_eq!(session.seed([Heard(2)]), Err(refused()));
    assert_eq!(session.clear_where::<Heard>(|_| true), Err(refused()));
    session.register::<Note, Heard>(|_, _| Ok(SliceOp::Clear)).unwrap();
    session
        .register::<Note, Heard>(|view, note| {
            let seen = view.iter().any(|heard| heard.0 == note.0);
            Ok(if seen { SliceOp::Keep } else { SliceOp::Extend(vec![Heard(note.0), Heard(note.0 * 10)]) })
        })
        .unwrap();
    let failures = vec![ReducerFailure { slice: "heard", reason: reason.to_owned() }];
    for _ in 0..2 {
        assert_eq!(session.dispatch(Note(2)).failures, failures);
    }
    assert_eq!(all::<Heard>(&session), [Heard(1), Heard(2), Heard(20)]);
}

#[test]
fn reading_modifying_and_writing_is_atomic_across_threads() {
    const THREADS: u32 = 8;
    const EACH: u32 = 400;
    let session = Session::new();
    session.install::<Counter<true>>().unwrap();
    session
        .register::<Note, Entry>(|view, note| {
            let key = (note.0 % 5).to_string();
            let value = view.get(&key).map_or(0, |entry| entry.value) + 1;
            Ok(SliceOp::Upsert(Entry { key, value }))
        })
        .unwrap();
    session.register::<Note, Heard>(|view, _| Ok(SliceOp::Append(Heard(view.len() as u32)))).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                (0..EACH).for_each(|number| {
                    assert!(session.dispatch(Note(number % 10)).is_ok());
                })
            });
        }
        // Registrations that come meanwhile are not lost either.
        scope.spawn(|| {
            for _ in 0..50 {
                session.register::<Namesake2, Namesake2>(append_all()).unwrap();
            }
        });
    });
    let sum = THREADS * EACH / 10 * (0..10).sum::<u32>();
    assert_eq!(all::<Counter<true>>(&session), [Counter { sum: 100 + sum }]);
    let entries: Vec<u32> =
        (0..5).map(|key| session.slice::<Entry>().get(&key.to_string()).unwrap().value).collect();
    assert_eq!(entries, [THREADS * EACH / 5; 5]);
    let heard: Vec<u32> = all::<Heard>(&session).into_iter().map(|heard| heard.0).collect();
    assert_eq!(heard, (0..THREADS * EACH).collect::<Vec<_>>(), "each reducer saw all that came before");
    assert!(session.dispatch(Namesake2).is_ok());
    assert_eq!(session.slice::<Namesake2>().len(), 50, "every registration counts");
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Namesake2;
impl SliceType for Namesake2 {
    const NAME: &'static str = "namesake2";
}

#[derive(Debug)]
struct Touchy(Option<Session>);
impl Serialize for Touchy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.touch();
        serializer.serialize_unit()
    }
}
impl<'de> Deserialize<'de> for Touchy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <()>::deserialize(deserializer).map(|()| Self(None))
    }
}
impl Touchy {
    fn touch(&self) {
        if let Some(session) = &self.0 {
            assert!(session.dispatch(Note(1)).is_ok());
            drop(session.snapshot());
        }
    }
}
impl Drop for Touchy {
    fn drop(&mut self) {
        self.touch();
    }
}
impl SliceType for Touchy {
    const NAME: &'static str = "touchy";
    const KEYED: bool = true;
    fn key(&self) -> Option<SliceKey> {
        self.touch();
        Some("only".into())
    }
}

// Whatever a slice type's own code does with the session: no lock is held while it runs.
#[test]
fn foreign_code_may_use_the_session() {
    let session = Session::new();
    let inside = session.clone();
    session
        .register::<Total, Total>(move |_, total| {
            assert!(inside.dispatch(Note(total.0)).is_ok());
            Ok(SliceOp::Append(Total(inside.slice::<Note>().len() as u32)))
        })
        .unwrap();
    let inside = session.clone();
    session.dispatcher().subscribe::<Total>(move |_, _| {
        inside.dispatcher().subscribe::<Note>(|_, _| Ok(()));
        Ok(())
    });
    assert!(session.dispatch(Total(1)).is_ok());
    let copy = || Touchy(Some(session.duplicate()));
    assert!(session.dispatch(copy()).is_ok());
    assert!(session.dispatch(copy()).is_ok());
    session.seed([copy()]).unwrap();
    session
        .clear_where::<Touchy>(|item| {
            item.touch();
            true
        })
        .unwrap();
    session.seed([Touchy(Some(session.clone()))]).unwrap();
    let snapshot = session.snapshot();
    session.clear::<Touchy>().unwrap();
    session.restore(&snapshot).unwrap();
    drop(snapshot);
    session.seed([Touchy(None)]).unwrap();
    session.reset();
    assert_eq!(session.slice::<Touchy>().len(), 0);
}
