//! Versions of files in the STATE that a recorded run began with. A session knows a file on disk by its inode and times, which a copy
//! of it has not got: a recording says which files were just as the session knew them, and a replay puts in what it knows the copies by.

use serde_json::{Map, Value, json};
use wink::filesystem::{FileVersion, Filesystem, FilesystemExt};

/// What stands for the version that the file has.
const AS_IT_IS: &str = "wink:as_it_is";

/// Puts names in the place of versions that files have now.
pub(in crate::commands) async fn named(mut state: Value, files: &dyn Filesystem) -> Value {
    for (path, known) in remembered(&mut state) {
        if let Some(now) = version(path, files).await
            && known.as_str() == Some(&now)
        {
            *known = json!({ AS_IT_IS: true });
        }
    }
    state
}

/// Puts the versions that files have now in the place of names.
pub(in crate::commands) async fn found(mut state: Value, files: &dyn Filesystem) -> Value {
    for (path, known) in remembered(&mut state) {
        if known.get(AS_IT_IS).is_some() {
            *known = version(path, files).await.map_or(Value::Null, Value::String);
        }
    }
    state
}

/// What stands for a version that the file had.
const AS_IT_WAS: &str = "wink:as_it_was";

/// The STATE as it can be compared with that of a copy: with names in the place of all versions, be they of what files were.
pub(in crate::commands) async fn comparable(state: Value, files: &dyn Filesystem) -> Value {
    let mut state = named(state, files).await;
    for (_, known) in remembered(&mut state) {
        if known.as_str().is_some_and(|known| known.parse::<FileVersion>().is_ok()) {
            *known = json!({ AS_IT_WAS: true });
        }
    }
    state
}

/// What policies remember, by what it is about.
fn remembered(state: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    let policies = state.get_mut("policies").and_then(Value::as_object_mut);
    policies.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut).flatten()
}

async fn version(path: &str, files: &dyn Filesystem) -> Option<String> {
    files.stat_at(path).await.ok().map(|about| about.version.to_string())
}
