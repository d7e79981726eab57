//! Snapshots and their JSON form, and sessions that come back from a store.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::cloned_ref_to_slice_refs,
    reason = "a test says what is broken by panicking"
)]

use std::sync::Arc;

use jiff::Timestamp;
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wink::executor::{Executor, ToolCall};
use wink::prompt::{PromptTemplate, Section};
use wink::session::{
    DeclarativeSlice, DispatchResult, InvocationId, PromptRendered, ReducerFailure, Reducers, Session,
    SessionError, SliceKey, SliceKind, SliceProblem, SliceType, SnapshotError, SnapshotScope, upsert_by_key,
};
use wink::store::SharedStore;
use wink::testing::{ByteStore, FakeClock};
use wink::tool::schema::ParseLimits;
use wink::tool::{Tool, ToolContext, ToolResult};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note(u32);
impl SliceType for Note {
    const NAME: &'static str = "note";
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    key: String,
    value: f64,
}
impl SliceType for Entry {
    const NAME: &'static str = "entry";
    const VERSION: u32 = 3;
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

fn entry(key: &str, value: f64) -> Entry {
    Entry { key: key.to_owned(), value }
}

fn all<T: SliceType + Clone>(session: &Session) -> Vec<T> {
    session.slice::<T>().iter().map(|item| T::clone(&item)).collect()
}

fn dispatch<E: SliceType>(session: &Session, event: E) {
    assert_eq!(session.dispatch(event), DispatchResult::default());
}

fn session(id: &str) -> Session {
    let clock = FakeClock::new(Timestamp::from_second(1_700_000_000).unwrap());
    let session = Session::builder().id(id).tag("team", "blue").clock(Arc::new(clock)).build();
    session.know::<Note>().unwrap();
    session.register::<Entry, Entry>(upsert_by_key()).unwrap();
    session.know::<Heard>().unwrap();
    session
}

fn filled() -> Session {
    let session = session("s");
    dispatch(&session, Note(1));
    dispatch(&session, entry("a", 0.1));
    dispatch(&session, entry("b", 2.0));
    dispatch(&session, entry("a", 1e300));
    dispatch(&session, Heard(7));
    session
}

// case 104
#[test]
fn a_snapshot_has_state_and_on_request_the_log() {
    let session = filled();
    let names = |scope| -> Vec<String> {
        let json = session.snapshot_of(scope).to_json().unwrap();
        json["slices"]
            .as_array()
            .unwrap()
            .iter()
            .map(|slice| slice["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(
        session.snapshot().to_json().unwrap()["slices"],
        session.snapshot_of(SnapshotScope::State).to_json().unwrap()["slices"]
    );
    assert_eq!(names(SnapshotScope::State), ["note", "entry"]);
    assert_eq!(names(SnapshotScope::IncludeAll), ["note", "entry", "heard"]);
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Started(u32);
impl SliceType for Started {
    const NAME: &'static str = "started";
}
impl DeclarativeSlice for Started {
    fn initial() -> Option<Self> {
        Some(Self(100))
    }

    fn reducers(on: &mut Reducers<Self>) {
        on.on::<Note>(|state, note| Ok(Self(state.0 + note.0)));
    }
}

#[test]
fn a_slice_without_items_is_not_in_a_snapshot_and_is_empty_when_it_comes_back() {
    let session = filled();
    session.install::<Started>().unwrap();
    let before = session.snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap();
    // Named, as by a call that failed; and filled and emptied again.
    assert!(session.slice::<PromptRendered>().is_empty());
    let _ = session.slice::<Unnamed>();
    dispatch(&session, Note(5));
    let full = session.snapshot();
    session.clear::<Started>().unwrap();
    session.clear_where::<Note>(|note| note.0 == 5).unwrap();
    assert_eq!(session.snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap(), before);

    // A session that has never heard of the type can read it, and one that has something there loses it.
    let other = self::session("other");
    other.install::<Started>().unwrap();
    other.restore(&full).unwrap();
    assert_eq!(all::<Started>(&other), [Started(105)]);
    other.restore(&other.decode_snapshot(&before.to_string()).unwrap()).unwrap();
    assert_eq!((all::<Started>(&other), all::<Note>(&other)), (vec![], vec![Note(1)]));
    dispatch(&other, Note(7));
    assert_eq!(all::<Started>(&other), [Started(107)]);
    self::session("third").decode_snapshot(&before.to_string()).unwrap();
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Unnamed;
impl SliceType for Unnamed {
    const NAME: &'static str = "unnamed";
}

#[test]
fn restoring_takes_back_state_and_leaves_the_log() {
    let session = filled();
    let snapshot = session.snapshot_of(SnapshotScope::IncludeAll);
    dispatch(&session, Note(2));
    dispatch(&session, entry("a", 3.0));
    dispatch(&session, Heard(8));
    dispatch(&session, Later(1));
    session.restore(&snapshot).unwrap();
    assert_eq!(all::<Note>(&session), [Note(1)]);
    assert_eq!(all::<Entry>(&session), [entry("a", 1e300), entry("b", 2.0)]);
    assert_eq!(all::<Heard>(&session), [Heard(7), Heard(8)]);
    assert_eq!(all::<Later>(&session), [], "a slice first created since is empty again");
    dispatch(&session, entry("b", 5.0));
    assert_eq!(all::<Entry>(&session), [entry("a", 1e300), entry("b", 5.0)], "keys still find their items");
    session.restore(&snapshot).unwrap();
    assert_eq!(
        all::<Entry>(&session),
        [entry("a", 1e300), entry("b", 2.0)],
        "a snapshot is good for more than once"
    );
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Later(u32);
impl SliceType for Later {
    const NAME: &'static str = "later";
}

// case 105
#[test]
fn an_unknown_slice_type_is_named() {
    let session = filled();
    dispatch(&session, Later(1));
    let json = session.snapshot().to_json().unwrap().to_string();
    let other = self::session("other");
    let error = other.decode_snapshot(&json).unwrap_err();
    assert_eq!(error, SnapshotError::UnknownSlice { slice: "later".into() });
    let text = "the snapshot has slice \"later\", which this session does not know: register its type first";
    assert_eq!(error.to_string(), text);
    dispatch(&other, Note(9));
    assert_eq!(other.restore(&session.snapshot()), Err(error));
    assert_eq!(all::<Note>(&other), [Note(9)], "and nothing was changed");
    other.know::<Later>().unwrap();
    other.restore(&session.snapshot()).unwrap();
    assert_eq!((all::<Note>(&other), all::<Later>(&other)), (vec![Note(1)], vec![Later(1)]));
}

// case 106
#[test]
fn the_json_form_comes_back_whole_and_typed() {
    let (parent, session, child) = (self::session("parent"), filled(), self::session("child"));
    parent.adopt(&session).unwrap();
    session.adopt(&child).unwrap();
    let json = session.snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap();
    let expected = json!({
        "version": 1,
        "session_id": "s",
        "created_at": "2023-11-14T22:13:20Z",
        "parent_id": "parent",
        "children_ids": ["child"],
        "tags": { "session_id": "s", "team": "blue" },
        "slices": [
            { "name": "note", "version": 1, "kind": "state", "items": [1] },
            { "name": "entry", "version": 3, "kind": "state",
              "items": [{ "key": "a", "value": 1e300 }, { "key": "b", "value": 2.0 }] },
            { "name": "heard", "version": 1, "kind": "log", "items": [7] },
        ],
        "unread": {},
        "calls": {},
        "policies": {},
    });
    assert_eq!(json, expected);
    let other = self::session("other");
    let snapshot = other.decode_snapshot(&json.to_string()).unwrap();
    assert_eq!(snapshot.to_json().unwrap(), expected);
    assert_eq!(
        (snapshot.session_id(), snapshot.created_at()),
        (session.id(), session.snapshot().created_at())
    );
    assert_eq!(all::<Note>(&other), [], "reading changes nothing");
    other.restore(&snapshot).unwrap();
    assert_eq!(all::<Note>(&other), [Note(1)]);
    assert_eq!(all::<Entry>(&other), [entry("a", 1e300), entry("b", 2.0)]);
    assert_eq!(all::<Heard>(&other), [], "LOG is its own");
}

// case 106
#[test]
fn every_malformed_snapshot_has_its_own_error_and_changes_nothing() {
    let session = filled();
    let good = session.snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap();
    let field = |field: &str, expected| SnapshotError::Field { field: field.to_owned(), expected };
    let slice = |name: &str| name.to_owned();
    type Spoil = fn(&mut Value);
    let cases: [(Spoil, SnapshotError); 21] = [
        (|json| json["version"] = json!(2), SnapshotError::Version { found: "2".into() }),
        (|json| json["version"] = json!("1"), SnapshotError::Version { found: "\"1\"".into() }),
        (
            |json| drop(json.as_object_mut().unwrap().remove("version")),
            SnapshotError::Version { found: "missing".into() },
        ),
        (|json| *json = json!([1]), field("(root)", "an object")),
        (|json| drop(json.as_object_mut().unwrap().remove("slices")), field("slices", "a list of objects")),
        (|json| json["slices"] = json!([1]), field("slices", "a list of objects")),
        (|json| json["slices"][0]["name"] = json!(1), field("name", "a string")),
        (|json| json["slices"][0]["version"] = json!(-1), field("version", "a whole number")),
        (|json| json["slices"][0]["items"] = json!({}), field("items", "a list")),
        (|json| json["tags"]["n"] = json!(1), field("tags", "an object of strings")),
        (|json| json["parent_id"] = json!(1), field("parent_id", "a string or null")),
        (|json| json["children_ids"] = json!("x"), field("children_ids", "a list of strings")),
        (|json| json["session_id"] = json!(null), field("session_id", "a string")),
        (|json| json["created_at"] = json!("soon"), field("created_at", "an RFC 3339 time")),
        (|json| json["calls"] = json!({ "t": 1 }), field("calls", "an object of {count, last}")),
        (|json| json["policies"] = json!({ "p": 1 }), field("policies", "an object of objects")),
        (|json| json["unread"] = json!([]), field("unread", "an object of lists")),
        (
            |json| json["slices"][0]["kind"] = json!("log"),
            SnapshotError::Kind { slice: slice("note"), declared: "state", found: "log".into() },
        ),
        (
            |json| json["slices"][0]["items"] = json!([1, "x"]),
            SnapshotError::Item {
                slice: slice("note"),
                at: 1,
                reason: "invalid type: string \"x\", expected u32".into(),
            },
        ),
        (
            |json| json["slices"][1]["version"] = json!(2),
            SnapshotError::Item {
                slice: slice("entry"),
                at: 0,
                reason: "no upgrade from version 2 to 3".into(),
            },
        ),
        (|json| json["slices"][2] = json["slices"][0].clone(), SnapshotError::Twice { slice: slice("note") }),
    ];
    for (spoil, expected) in cases {
        let mut bad = good.clone();
        spoil(&mut bad);
        assert_eq!(session.decode_snapshot_value(&bad).unwrap_err(), expected);
        assert_eq!(session.decode_snapshot(&bad.to_string()).unwrap_err(), expected);
    }
    assert!(matches!(session.decode_snapshot("{"), Err(SnapshotError::NotJson(_))));
    assert!(matches!(session.decode_snapshot(&"[".repeat(100_000)), Err(SnapshotError::NotJson(_))));
    let now = session.snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap();
    assert_eq!(now, good);
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        let key = prop_oneof![
            Just("note".to_owned()),
            Just("items".to_owned()),
            Just("append".to_owned()),
            "[a-z]{1,3}"
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn a_spoilt_snapshot_never_panics_and_a_good_one_goes_round(spoilt in json(), at in 0..12usize, inner in any::<bool>()) {
        let session = filled();
        let mut bad = session.snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap();
        let keys: Vec<String> = bad.as_object().unwrap().keys().cloned().collect();
        match keys.get(at) {
            Some(key) if inner && key == "slices" => bad[key][0]["items"][0] = spoilt,
            Some(key) if inner && key == "unread" => bad[key]["later"] = spoilt,
            Some(key) => bad[key.as_str()] = spoilt,
            None => bad = spoilt,
        }
        if let Ok(snapshot) = session.decode_snapshot(&bad.to_string()) {
            let once = snapshot.to_json().unwrap();
            prop_assert_eq!(session.decode_snapshot(&once.to_string()).unwrap().to_json().unwrap(), once);
            session.restore(&snapshot).unwrap();
        }
    }
}

async fn open(store: &Arc<ByteStore>) -> Session {
    Session::builder().id("s").store(Arc::clone(store) as SharedStore).open().await.unwrap()
}

async fn stored() -> Arc<ByteStore> {
    let store = Arc::new(ByteStore::new());
    let session = open(&store).await;
    session.register::<Entry, Entry>(upsert_by_key()).unwrap();
    dispatch(&session, Note(1));
    dispatch(&session, entry("a", 0.1));
    dispatch(&session, entry("b", 2.0));
    dispatch(&session, entry("a", 1e300));
    dispatch(&session, Heard(7));
    let rendered = PromptRendered {
        id: InvocationId::fresh(Timestamp::UNIX_EPOCH),
        run: Arc::default(),
        prompt: "ns/key".into(),
        time: Timestamp::UNIX_EPOCH,
        text: "x".into(),
        tools: vec!["t".into()],
    };
    dispatch(&session, rendered);
    session.flush().await.unwrap();
    Arc::new(store.reopen().unwrap())
}

#[tokio::test]
async fn a_slice_is_read_from_the_store_when_it_is_first_named() {
    let store = stored().await;
    let session = open(&store).await;
    assert_eq!(all::<PromptRendered>(&session).len(), 1);
    let before = session.snapshot();
    let unread = before.to_json().unwrap()["unread"].clone();
    assert_eq!(unread.as_object().unwrap().keys().collect::<Vec<_>>(), ["entry", "note"], "LOG is left out");
    assert_eq!(all::<Entry>(&session), [entry("a", 1e300), entry("b", 2.0)]);
    session.register::<Entry, Entry>(upsert_by_key()).unwrap();
    dispatch(&session, entry("b", 5.0));
    dispatch(&session, Heard(8));
    assert_eq!(all::<Entry>(&session), [entry("a", 1e300), entry("b", 5.0)]);
    assert_eq!(all::<Heard>(&session), [Heard(7), Heard(8)]);

    // A snapshot from before a slice was named has it, here and as JSON elsewhere.
    let elsewhere = self::session("elsewhere");
    elsewhere.restore(&elsewhere.decode_snapshot(&before.to_json().unwrap().to_string()).unwrap()).unwrap();
    session.restore(&before).unwrap();
    for restored in [&session, &elsewhere] {
        assert_eq!(all::<Entry>(restored), [entry("a", 1e300), entry("b", 2.0)]);
        assert_eq!(all::<Note>(restored), [Note(1)]);
    }
    session.reset();
    session.flush().await.unwrap();
    let emptied = open(&Arc::new(store.reopen().unwrap())).await;
    assert_eq!((all::<Note>(&emptied), all::<Heard>(&emptied)), (Vec::new(), Vec::new()), "named or not");
    session.restore(&before).unwrap();
    session.flush().await.unwrap();
    let back = open(&Arc::new(store.reopen().unwrap())).await;
    assert_eq!((all::<Note>(&back), all::<Entry>(&back).len()), (vec![Note(1)], 2));
}

mod newer {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Note {
        pub(crate) number: u32,
        pub(crate) text: String,
    }
    impl SliceType for Note {
        const NAME: &'static str = "note";
        const VERSION: u32 = 2;

        fn upgrade(from: u32, value: Value) -> Result<Value, String> {
            match from {
                1 => Ok(json!({ "number": value, "text": "from before" })),
                _ => Err(format!("version {from} was never written")),
            }
        }
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    pub(crate) struct Entry(bool);
    impl SliceType for Entry {
        const NAME: &'static str = "entry";
        const VERSION: u32 = 3;
    }

    #[derive(Debug, Clone, PartialEq, Serialize)]
    pub(crate) struct Heard(pub(crate) u32);
    impl<'de> Deserialize<'de> for Heard {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            panic!("cannot read");
        }
    }
    impl SliceType for Heard {
        const NAME: &'static str = "heard";
        const KIND: SliceKind = SliceKind::Log;
    }
}

#[tokio::test]
async fn values_of_an_older_version_are_upgraded() {
    let session = open(&stored().await).await;
    let upgraded = newer::Note { number: 1, text: "from before".into() };
    assert_eq!(all::<newer::Note>(&session), [upgraded.clone()]);
    let new = newer::Note { number: 2, text: "now".into() };
    dispatch(&session, new.clone());
    let copy = session.duplicate();
    assert_eq!(all::<newer::Note>(&copy), [upgraded, new]);
}

#[tokio::test]
async fn a_stored_value_that_cannot_be_read_is_a_named_problem_and_the_session_lives() {
    let store = stored().await;
    let session = open(&store).await;
    assert_eq!(session.problems(), []);
    assert_eq!(all::<newer::Entry>(&session), []);
    let [SliceProblem { slice, reason }] = session.problems().try_into().unwrap();
    assert_eq!(slice, "entry");
    assert!(reason.starts_with("invalid type: map, expected"), "{reason}");
    let failure = ReducerFailure { slice: "entry", reason: reason.clone() };
    let new: newer::Entry = serde_json::from_value(json!(true)).unwrap();
    assert_eq!(
        session.dispatch(new.clone()).failures,
        [failure],
        "nothing is written over what cannot be read"
    );
    let unreadable = SessionError::Unreadable { slice: "entry".into(), reason };
    assert_eq!(session.clear_where::<newer::Entry>(|_| true), Err(unreadable));
    assert_eq!(all::<newer::Heard>(&session), []);
    let heard = SliceProblem {
        slice: "heard".into(),
        reason: "its Deserialize or upgrade panicked: cannot read".into(),
    };
    assert_eq!(session.problems()[1], heard);
    dispatch(&session, newer::Heard(9));
    assert_eq!(all::<newer::Heard>(&session), [newer::Heard(9)], "LOG goes on");
    dispatch(&session, Note(2));
    assert_eq!(all::<Note>(&session), [Note(1), Note(2)]);

    // With the old type it is all still there; seeding starts anew.
    session.flush().await.unwrap();
    let old = open(&Arc::new(store.reopen().unwrap())).await;
    assert_eq!(all::<Entry>(&old), [entry("a", 1e300), entry("b", 2.0)]);
    assert_eq!(all::<Heard>(&old), [Heard(7), Heard(9)]);
    session.seed([new.clone()]).unwrap();
    dispatch(&session, new.clone());
    session.flush().await.unwrap();
    let mended = open(&Arc::new(store.reopen().unwrap())).await;
    assert_eq!(all::<newer::Entry>(&mended), [new.clone(), new]);
    assert_eq!(mended.problems(), []);
}

/// Holds whatever a tool was given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Given(Value);
impl SliceType for Given {
    const NAME: &'static str = "given";
}

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

fn deep() -> Given {
    // As deep as the arguments of a call may be.
    Given(serde_json::from_str(&nested(ParseLimits::MAX_DEPTH - 1)).unwrap())
}

#[tokio::test]
async fn a_snapshot_with_values_as_deep_as_arguments_comes_back() {
    let store = Arc::new(ByteStore::new());
    let session = open(&store).await;
    dispatch(&session, deep());
    let text = session.snapshot().to_json().unwrap().to_string();
    let read = session.decode_snapshot(&text).unwrap();
    assert_eq!(read.to_json().unwrap().to_string(), text);
    session.clear::<Given>().unwrap();
    session.restore(&read).unwrap();
    assert_eq!(all::<Given>(&session), [deep()]);

    // The same where nobody has named the slice yet.
    session.flush().await.unwrap();
    let reopened = open(&Arc::new(store.reopen().unwrap())).await;
    let text = reopened.snapshot().to_json().unwrap().to_string();
    let read = reopened.decode_snapshot(&text).unwrap();
    assert_eq!(read.to_json().unwrap().to_string(), text);
    assert_eq!(all::<Given>(&reopened), [deep()]);
}

#[test]
fn a_snapshot_that_is_nested_without_end_is_an_error() {
    let error = session("s").decode_snapshot(&nested(1_000_000)).unwrap_err();
    assert_eq!(error.to_string(), "the snapshot is not valid JSON: it is nested more than 256 levels deep");
}

#[test]
fn brackets_in_texts_are_no_nesting() {
    let session = session("s");
    session.know::<Given>().unwrap();
    dispatch(&session, Given(json!({ "\\\"[": format!("\"{}\\", "[{".repeat(1000)) })));
    let text = session.snapshot().to_json().unwrap().to_string();
    assert_eq!(session.decode_snapshot(&text).unwrap().to_json().unwrap().to_string(), text);
}

#[tokio::test]
async fn a_snapshot_cannot_write_the_sessions_own_tables_through_its_unread_slices() {
    let store = Arc::new(ByteStore::new());
    let session = open(&store).await;
    let mut whole = session.snapshot().to_json().unwrap();
    for name in ["wink.calls", "wink.policies"] {
        whole["unread"] = json!({ name: [{ "reset": {} }] });
        assert_eq!(
            session.decode_snapshot_value(&whole).unwrap_err(),
            SnapshotError::Field {
                field: format!("unread.{name}"),
                expected: "absent: the session keeps its own tables there"
            }
        );
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Impostor;
impl SliceType for Impostor {
    const NAME: &'static str = "wink.calls";
}

#[test]
fn the_names_of_the_sessions_own_tables_are_taken() {
    let session = Session::new();
    let error = session.know::<Impostor>().unwrap_err();
    let SessionError::SliceNameTaken { name, by, .. } = error else { panic!("{error}") };
    assert_eq!((name, by), ("wink.calls", "the session's own tables"));
}

#[tokio::test]
async fn a_restored_count_of_calls_that_is_full_stays_full() {
    async fn nothing(_: (), _: &mut ToolContext) -> ToolResult<()> {
        ToolResult::done("done")
    }
    let section = Section::tools("tools", "Tools").tool(Tool::new("nothing", "Nothing.", nothing));
    let prompt = PromptTemplate::builder("tests", "full").section(section).build().unwrap().prompt();
    let session = session("s");
    let mut whole = session.snapshot().to_json().unwrap();
    whole["calls"] = json!({ "nothing": { "count": u64::MAX, "last": "2023-11-14T22:13:20Z" } });
    session.restore(&session.decode_snapshot_value(&whole).unwrap()).unwrap();
    let executor = Executor::open(&prompt, &session).await.unwrap();
    let outcome = executor.call(ToolCall::new("1", "nothing", "{}")).await;
    assert_eq!(outcome.text(), "done");
    assert_eq!((session.total_calls(), session.calls("nothing").unwrap().count), (u64::MAX, u64::MAX));
}
