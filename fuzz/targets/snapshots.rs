//! Snapshot text and journal bytes from anywhere: nothing panics, a rejected snapshot changes nothing, and an
//! accepted one is the same when it is written and read again.

use serde::{Deserialize, Serialize};
use wink::session::{Session, SliceKey, SliceKind, SliceType, SnapshotScope};
use wink::testing::ByteStore;

#[derive(Serialize, Deserialize)]
struct Note {
    text: String,
    number: Option<f64>,
}
impl SliceType for Note {
    const NAME: &'static str = "note";
    const VERSION: u32 = 2;

    fn upgrade(_: u32, value: serde_json::Value) -> Result<serde_json::Value, String> {
        Ok(value)
    }
}

#[derive(Serialize, Deserialize)]
struct Entry(String, i64);
impl SliceType for Entry {
    const NAME: &'static str = "entry";
    const KEYED: bool = true;

    fn key(&self) -> Option<SliceKey> {
        Some(self.0.as_str().into())
    }
}

#[derive(Serialize, Deserialize)]
struct Heard(u8);
impl SliceType for Heard {
    const NAME: &'static str = "heard";
    const KIND: SliceKind = SliceKind::Log;
}

/// One input of the fuzzer, or of its corpus.
pub fn run(bytes: &[u8]) {
    let _ = ByteStore::from_bytes(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let session = Session::builder().id("s").build();
    for known in [session.know::<Note>(), session.know::<Entry>(), session.know::<Heard>()] {
        known.expect("their names differ");
    }
    let _ = session.dispatch(Note { text: "kept".to_owned(), number: None });
    match session.decode_snapshot(text) {
        Err(_) => assert_eq!(session.slice::<Note>().len(), 1),
        Ok(snapshot) => {
            let once = snapshot.to_json().expect("what was read can be written");
            let again = session.decode_snapshot_value(&once).expect("what was written can be read");
            assert_eq!(again.to_json().expect("and written again"), once);
            session.restore(&snapshot).expect("its slices are known");
            let _ = session.snapshot_of(SnapshotScope::IncludeAll).to_json();
            session.calls("tool");
        }
    }
}
