//! Journals as somebody may have left them: whatever the intent says, recovering ends with an answer, a second time gives the
//! same, and nothing but what the intent names is touched.

use std::path::Path;
use std::sync::Arc;

use wink::filesystem::EntryKind;
use wink::filesystem::host::disk::Disk;
use wink::filesystem::host::journal::{Journal, JournalOptions};
use wink::testing::ModelDisk;

const NAME: &str = "00000000000000000001-0-01890000-0000-7000-8000-000000000000";

fn world() -> Arc<ModelDisk> {
    let disk = Arc::new(ModelDisk::new());
    let dir = Path::new(".wink/journal").join(NAME);
    for made in ["d", ".wink", ".wink/journal", ".wink/trash", ".wink/stage"] {
        disk.make_dir(Path::new(made), 0o755).expect("an empty disk takes a directory");
    }
    disk.make_dir(&dir, 0o700).expect("it is new");
    disk.make_dir(&dir.join("pre"), 0o700).expect("it is new");
    for (file, content) in [("a", "a"), ("d/b", "b"), ("apart", "apart")] {
        disk.create(Path::new(file), content.as_bytes(), 0o644).expect("it is new");
    }
    for held in ["pre/t0", "pre/r0"] {
        disk.create(&dir.join(held), b"before", 0o644).expect("it is new");
    }
    disk
}

/// One input of the fuzzer, or of its corpus: the body of an intent.
pub fn run(body: &[u8]) {
    let disk = world();
    let seal = blake3::hash(body).to_hex();
    let text = [b"wink-journal 1 ".as_slice(), seal.as_bytes(), b"\n", body].concat();
    let intent = Path::new(".wink/journal").join(NAME).join("intent");
    disk.create(&intent, &text, 0o600).expect("it is new");
    let recover = || {
        let journal = Journal::new(disk.clone(), ".wink", JournalOptions::default()).expect("it opens");
        journal.recover(None).map(|recovered| recovered.rolled_back.len())
    };
    let first = recover();
    let second = recover();
    match first {
        Ok(_) => assert_eq!(second.expect("it was recovered before"), 0),
        Err(error) => assert!(second.is_err() || !error.to_string().is_empty()),
    }
    if !String::from_utf8_lossy(body).contains("apart") {
        let apart = disk.look(Path::new("apart")).expect("it can be looked at").expect("nobody named it");
        assert_eq!(
            (apart.kind, disk.read(Path::new("apart")).expect("it is a file")),
            (EntryKind::File, b"apart".to_vec())
        );
    }
}
