//! A session that has something of everything, in a store that keeps bytes, and all that can be read of it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wink::session::{Session, SliceKey, SliceKind, SliceType, SnapshotScope};
use wink::testing::{ByteStore, FakeClock};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note {
    text: String,
    number: Option<f64>,
}
impl SliceType for Note {
    const NAME: &'static str = "note";
    const VERSION: u32 = 2;

    fn upgrade(_: u32, value: Value) -> Result<Value, String> {
        Ok(value)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry(String, Value);
impl SliceType for Entry {
    const NAME: &'static str = "entry";
    const KEYED: bool = true;

    fn key(&self) -> Option<SliceKey> {
        Some(self.0.as_str().into())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Heard(u8);
impl SliceType for Heard {
    const NAME: &'static str = "heard";
    const KIND: SliceKind = SliceKind::Log;
}

/// What the session starts from: slices, one that nobody has named, calls, policies.
const START: &str = r#"{"version":1,"session_id":"s","created_at":"2023-11-14T22:13:20Z","parent_id":null,
    "children_ids":[],"tags":{},"slices":[{"name":"note","version":2,"kind":"state","items":[{"text":"kept"}]},
    {"name":"entry","version":1,"kind":"state","items":[["a",1],["b",[{}]]]}],
    "unread":{"unnamed":[{"version":1,"kind":"state","change":{"append":1}}]},
    "calls":{"tool":{"count":2,"last":"2023-11-14T22:13:20Z"}},"policies":{"p":{"item":[1]}}}"#;

/// The answer of a future that has nothing to wait for.
pub fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("in memory nothing has to be waited for"),
    }
}

/// A session with something in every place that a snapshot speaks of.
pub struct World {
    store: Arc<ByteStore>,
    pub session: Session,
}

impl World {
    pub fn new() -> Self {
        let store = Arc::new(ByteStore::new());
        let world = Self { session: open(&store), store };
        let start = world.session.decode_snapshot(START).expect("it is sound");
        world.session.restore(&start).expect("its slices are known");
        let heard = world.session.dispatch(Heard(7));
        assert!(heard.is_ok());
        world
    }

    /// Everything that can be read of the session.
    pub fn contents(&self) -> Value {
        contents(&self.session)
    }

    /// What the next process finds.
    pub fn contents_when_reopened(&self) -> Value {
        ready(self.session.flush()).expect("the store takes everything");
        contents(&open(&Arc::new(self.store.reopen().expect("its bytes are its own"))))
    }
}

fn open(store: &Arc<ByteStore>) -> Session {
    let clock = FakeClock::new("2023-11-14T22:13:20Z".parse().expect("a time"));
    let builder = Session::builder().id("s").store(Arc::clone(store) as _).clock(Arc::new(clock));
    let session = ready(builder.open()).expect("the store can be read");
    for known in [session.know::<Note>(), session.know::<Entry>(), session.know::<Heard>()] {
        known.expect("their names differ");
    }
    session
}

fn contents(session: &Session) -> Value {
    let whole = session.snapshot_of(SnapshotScope::IncludeAll).to_json().expect("it can be written");
    let problems: Vec<String> = session.problems().iter().map(|problem| format!("{problem:?}")).collect();
    json!({
        "whole": whole,
        "notes": session.slice::<Note>().all(),
        "entries": session.slice::<Entry>().all(),
        "heard": session.slice::<Heard>().all(),
        "total_calls": session.total_calls(),
        "tags": *session.tags(),
        "problems": problems,
    })
}

/// The STATE part of a snapshot's JSON form: what restoring it makes true.
pub fn state_of(snapshot: &Value) -> Value {
    let is_log = |body: Option<&Value>| body.and_then(|body| body.get("kind")) == Some(&json!("log"));
    let nothing = |body: &Value| body["change"] == json!({ "replace": [] });
    let slices = snapshot["slices"].as_array().expect("a list").iter();
    let mut unread = snapshot["unread"].as_object().expect("an object").clone();
    unread.retain(|_, bodies| !is_log(bodies.get(0)));
    for bodies in unread.values_mut().filter_map(Value::as_array_mut) {
        // What came before the last emptying does not matter.
        let from = bodies.iter().rposition(nothing).map_or(0, |at| at + 1);
        bodies.drain(..from);
    }
    unread.retain(|_, bodies| bodies.get(0).is_some());
    json!({
        "slices": slices.filter(|slice| slice["kind"] == "state").collect::<Vec<_>>(),
        "unread": unread,
        "calls": snapshot["calls"],
        "policies": snapshot["policies"],
    })
}

/// Compares an accepted snapshot's JSON form with the text that it was read from, as far as both say the same
/// things in the same words.
pub fn assert_same_words(text: &Value, read: &Value) {
    for field in ["version", "session_id", "parent_id", "children_ids"] {
        assert_eq!(text[field], read[field], "{field}");
    }
    let counts = |calls: &Value| -> Vec<(String, Option<u64>)> {
        let calls = calls.as_object().expect("an object").iter();
        let mut counts: Vec<_> = calls.map(|(tool, stat)| (tool.clone(), stat["count"].as_u64())).collect();
        counts.sort();
        counts
    };
    assert_eq!(counts(&text["calls"]), counts(&read["calls"]));
    let mut policies = text["policies"].clone();
    policies.as_object_mut().expect("an object").retain(|_, items| *items != json!({}));
    assert_eq!(policies, read["policies"]);
    let mut tags = text["tags"].clone();
    tags["session_id"] = text["session_id"].clone();
    assert_eq!(tags, read["tags"]);
    for slice in text["slices"].as_array().expect("a list") {
        let there = read["slices"].as_array().expect("a list").iter();
        let there: Vec<&Value> = there.filter(|there| there["name"] == slice["name"]).collect();
        if slice["items"] == json!([]) {
            assert!(there.is_empty(), "a slice that has nothing is not written");
            continue;
        }
        let [there] = there[..] else { panic!("one slice of each name, not {}", there.len()) };
        match slice["name"].as_str() {
            Some("note") => {
                let items: Vec<Note> = Vec::deserialize(&slice["items"]).expect("they were accepted");
                assert_eq!(items, Vec::<Note>::deserialize(&there["items"]).expect("they were written"));
            }
            Some("entry") => {
                let items: Vec<Entry> = Vec::deserialize(&slice["items"]).expect("they were accepted");
                let mut kept: Vec<Entry> = Vec::new();
                for item in items {
                    kept.retain(|older| older.0 != item.0);
                    kept.push(item);
                }
                assert_eq!(kept, Vec::<Entry>::deserialize(&there["items"]).expect("they were written"));
            }
            _ => assert_eq!(slice["items"].as_array().map(Vec::len), there["items"].as_array().map(Vec::len)),
        }
    }
}
