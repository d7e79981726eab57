//! Snapshot text and journal bytes from anywhere: nothing panics, a rejected snapshot changes nothing, and an
//! accepted one says what its text said, is the same when it is written and read again, and becomes true, here and
//! for the next process, when it is restored.

use serde_json::Value;
use wink::testing::ByteStore;

use super::world::{World, assert_same_words, state_of};

/// One input of the fuzzer, or of its corpus.
pub fn run(bytes: &[u8]) {
    let _ = ByteStore::from_bytes(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // Most inputs are no JSON, and a world takes time.
    let Ok(parsed) = serde_json::from_str::<Value>(text) else { return };
    let world = World::new();
    let before = world.contents();
    let read = world.session.decode_snapshot(text);
    assert_eq!(world.contents(), before, "reading changes nothing");
    let Ok(snapshot) = read else { return };

    let once = snapshot.to_json().expect("what was read can be written");
    assert_same_words(&parsed, &once);
    let again = world.session.decode_snapshot(&once.to_string()).expect("what was written can be read");
    assert_eq!(again.to_json().expect("and written again"), once);

    world.session.restore(&snapshot).expect("its slices are known");
    let after = world.contents();
    assert_eq!(state_of(&after["whole"]), state_of(&once));
    assert_eq!(after["heard"], before["heard"], "the log stays");
    let reopened = world.contents_when_reopened();
    assert_eq!(reopened["problems"], before["problems"]);
    assert_eq!(state_of(&reopened["whole"]), state_of(&once), "and when the session is opened again");
    assert_eq!(reopened["heard"], before["heard"], "the log stays");
}
