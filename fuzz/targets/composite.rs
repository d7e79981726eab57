//! The JSON form of composite snapshots from anywhere: nothing panics, a rejected one changes neither session nor
//! resources, and an accepted one is the same when it is written and read again. Restoring it makes all of it true
//! or nothing.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use wink::filesystem::{Filesystem, MemoryFilesystem};
use wink::resource::{Binding, ResourceContext, ResourceRegistry, Shared};
use wink::testing::filesystem_tree;
use wink::transaction::{CompositeSnapshot, create_snapshot, restore_snapshot};

use super::world::{World, assert_same_words, ready, state_of};

fn resources() -> ResourceContext {
    let files =
        MemoryFilesystem::from_files([("there.txt", "there"), ("a/b", "x")]).expect("paths are sound");
    let registry = ResourceRegistry::of((
        Binding::filesystem(Arc::new(files)),
        Binding::instance(Arc::new(Shared::new(1_i64))).named("counter").snapshotable(),
        Binding::instance(Arc::new(Shared::new(Value::Null))).named("anything").snapshotable(),
    ));
    ready(registry.expect("their names differ").open()).expect("nothing is built")
}

fn files(resources: &ResourceContext) -> Arc<dyn Filesystem> {
    ready(resources.get::<dyn Filesystem>()).expect("it is bound")
}

/// Everything that can be read of session and resources.
fn contents(world: &World, resources: &ResourceContext) -> Value {
    let tree = ready(filesystem_tree(&*files(resources)));
    let tree: Map<String, Value> =
        tree.into_iter().map(|(path, bytes)| (path.to_string(), json!(bytes))).collect();
    let counter = ready(resources.get::<Shared<i64>>()).expect("it is bound").read();
    let anything = ready(resources.get::<Shared<Value>>()).expect("it is bound").read();
    json!({ "session": world.contents(), "files": tree, "counter": *counter, "anything": *anything })
}

/// The resources of a snapshot's JSON form that are there, by their names.
fn parts(snapshot: &Value) -> Map<String, Value> {
    let parts = snapshot["resources"].as_array().expect("a list").iter();
    let parts =
        parts.map(|part| (part["name"].as_str().expect("a name").to_owned(), part["snapshot"].clone()));
    parts.filter(|(name, _)| ["filesystem", "counter", "anything"].contains(&name.as_str())).collect()
}

/// One input of the fuzzer, or of its corpus.
pub fn run(text: &str) {
    let Ok(parsed) = serde_json::from_str::<Value>(text) else { return };
    let (world, resources) = (World::new(), resources());
    let before = contents(&world, &resources);
    let read = CompositeSnapshot::from_json(text, &world.session, &resources);
    assert_eq!(contents(&world, &resources), before, "reading changes nothing");
    let snapshot = match read {
        Ok(snapshot) => snapshot,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };

    let once = snapshot.to_json().expect("what was read can be written");
    let again = CompositeSnapshot::from_json(&once, &world.session, &resources).expect("and read again");
    assert_eq!(again.to_json().expect("and written again"), once);
    let once: Value = serde_json::from_str(&once).expect("it is JSON");
    for field in ["version", "tag", "phase", "metadata"] {
        assert_eq!(parsed[field], once[field], "{field}");
    }
    assert_same_words(&parsed["session"], &once["session"]);

    if ready(restore_snapshot(&world.session, &resources, &snapshot)).is_err() {
        assert_eq!(contents(&world, &resources), before, "all or nothing");
        return;
    }
    let taken = ready(create_snapshot(&world.session, &resources, "after")).expect("they can be read");
    let taken: Value = serde_json::from_str(&taken.to_json().expect("and written")).expect("it is JSON");
    assert_eq!(state_of(&taken["session"]), state_of(&once["session"]));
    let restored = parts(&taken);
    for (name, part) in parts(&once) {
        assert_eq!(restored[&name], part, "{name}");
    }
    let reopened = world.contents_when_reopened();
    assert_eq!(
        state_of(&reopened["whole"]),
        state_of(&once["session"]),
        "and when the session is opened again"
    );
}
