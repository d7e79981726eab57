//! A disk that fails while a commit is written: what was refused is not there, then or after a restart.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what is broken by panicking"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use wink::session::SessionId;
use wink::store::{Batch, LedgerRow, LedgerState, Record, Rows, Store};
use wink_store::{SqliteStore, StoreOptions};

const PLACE: &str = "WINK_TEST_FAILING_DISK";

fn batch(number: u8) -> Batch {
    Batch { records: vec![record(number)], ..Batch::default() }
}

fn record(number: u8) -> Record {
    Record::new("x", vec![number; 50_000])
}

/// No file of this process grows beyond this.
fn limit(bytes: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum }).unwrap();
}

/// Not a test by itself: this is what the child process of the other runs. It alone is to have the limit.
#[tokio::test]
async fn child() {
    let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) else { return };
    let store = SqliteStore::open(&place, StoreOptions::default()).unwrap();
    let session = SessionId::from("s");
    let mut written = Vec::new();
    for number in 0..3 {
        store.commit(&session, batch(number)).await.unwrap();
        written.push(record(number));
    }
    let log = std::fs::metadata(place.join("wink.db-wal")).unwrap().len();
    for (round, room) in [0, 2_000, 10_000, 30_000].into_iter().enumerate() {
        let round = u8::try_from(round).unwrap();
        limit(Some(log + room));
        let refused = store.commit(&session, batch(100 + round)).await.unwrap_err();
        assert!(refused.reason.contains("disk I/O error"), "{refused}");
        let state = LedgerState::Claimed {
            owner: "me".into(),
            since: jiff::Timestamp::UNIX_EPOCH,
            orphan: Default::default(),
        };
        let (key, params_hash) = (round.to_string(), "x".repeat(50_000));
        let row = LedgerRow { key, tool: "pay".into(), params_hash, ttl: None, state };
        assert!(store.claim(row, jiff::Timestamp::UNIX_EPOCH).await.is_err());
        assert_eq!(store.load(&session).await.unwrap().records, written);
        if round == 1 {
            // The disk is well again.
            limit(None);
            store.commit(&session, batch(3)).await.unwrap();
            written.push(record(3));
            assert_eq!(store.load(&session).await.unwrap().records, written);
            limit(Some(log + 30_000));
        }
    }
    // Killed with the failure in its log.
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn what_a_failing_disk_refused_never_becomes_true() {
    let place = tempfile::tempdir().unwrap();
    let ended = Command::new("sh")
        // Writing beyond the limit is an error then, and not the end.
        .args(["-c", "trap '' XFSZ; exec \"$0\" failing_disk::child --exact --nocapture"])
        .arg(std::env::current_exe().unwrap())
        .env(PLACE, place.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = [ended.stdout, ended.stderr].concat();
    assert_eq!(ended.status.code(), None, "{}", String::from_utf8_lossy(&said));
    check(place.path()).await;
}

async fn check(place: &Path) {
    let store = SqliteStore::open(place, StoreOptions::default()).unwrap();
    let session = SessionId::from("s");
    let expected: Vec<Record> = (0..4).map(record).collect();
    assert_eq!(store.load(&session).await.unwrap().records, expected);
    assert_eq!(store.rows(Rows::All).await.unwrap(), []);
    assert!(store.check().await.unwrap().is_sound());
    store.commit(&session, Batch { expects: Some(4), ..batch(4) }).await.unwrap();
}
