//! Failures and deaths in the middle of going back to a snapshot: files and session went back together, or neither did.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use wink::testing::{FaultyStore, StoreOp, steps};
use wink::transaction::{CompositeSnapshot, RestoreFailedError, create_snapshot, restore_snapshot};

use crate::undo::world::{Op, Slices, Tree, World, note, write};

const JOB: &str = "WINK_TEST_RESTORE_JOB";

#[derive(Debug, Serialize, Deserialize)]
struct Job {
    root: PathBuf,
    /// Goes back by the JSON form of the snapshot, not by the journals.
    by_json: bool,
    /// The process dies when this is reached for the nth time.
    die_at: (String, usize),
}

type State = (Tree, Slices);

/// A workspace at a mark, and what it is there.
async fn marked(world: &World) -> (CompositeSnapshot, State) {
    world.put("a", "0");
    world.put("d/x", "0");
    world.work(&[note("zero"), Op::Total(0)]).await;
    let mark = create_snapshot(&world.session, world.executor.resources(), "mark").await.unwrap();
    (mark, (world.tree(), world.slices()))
}

/// What happens after the mark.
async fn go_on(world: &World) -> State {
    let ops =
        [write("a", "1"), Op::Rename("d".into(), "e".into()), write("n/m", "1"), note("one"), Op::Total(1)];
    world.work(&ops).await;
    (world.tree(), world.slices())
}

async fn restore(world: &World, mark: &CompositeSnapshot) -> Result<(), RestoreFailedError> {
    restore_snapshot(&world.session, world.executor.resources(), mark).await.map(drop)
}

fn read_back(world: &World, mark: &CompositeSnapshot) -> CompositeSnapshot {
    let text = mark.to_json().unwrap();
    CompositeSnapshot::from_json(&text, &world.session, world.executor.resources()).unwrap()
}

#[tokio::test]
async fn a_restore_that_the_store_refuses_has_done_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut faulty = None;
    let world = World::open_with(dir.path(), "s", Default::default(), |store| {
        let store = Arc::new(FaultyStore::new(store));
        faulty = Some(Arc::clone(&store));
        store
    })
    .await;
    let faulty = faulty.unwrap();
    let (mark, before) = marked(&world).await;
    let stored = read_back(&world, &mark);
    let there = go_on(&world).await;
    for mark in [&mark, &stored] {
        faulty.fail(StoreOp::Commit, 1);
        let error = restore(&world, mark).await.unwrap_err();
        assert!(error.to_string().contains("told to fail"), "{error}");
        assert_eq!((world.tree(), world.slices()), there);
    }
    restore(&world, &mark).await.unwrap();
    assert_eq!((world.tree(), world.slices()), before);
    drop(world);
    let world = World::open(dir.path()).await;
    assert_eq!((world.tree(), world.slices()), before);
}

/// Not a test by itself: this is what the child processes of the next one run.
#[test]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let Job { root, by_json, die_at: (step, nth) } = serde_json::from_str(&job).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::open(&root).await;
        let (mut mark, _) = marked(&world).await;
        if by_json {
            mark = read_back(&world, &mark);
        }
        go_on(&world).await;
        let reached = AtomicUsize::new(0);
        steps::on_every_step(move |now| {
            if now == step && reached.fetch_add(1, Ordering::SeqCst) + 1 == nth {
                std::process::abort();
            }
        });
        restore(&world, &mark).await.unwrap();
    });
}

fn run(root: &Path, by_json: bool, step: &str, nth: usize) -> bool {
    let job = Job { root: root.to_owned(), by_json, die_at: (step.to_owned(), nth) };
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["undo::restores::child", "--exact", "--nocapture"])
        .env(JOB, serde_json::to_string(&job).unwrap())
        .output()
        .unwrap();
    ended.status.success()
}

#[tokio::test]
async fn wherever_a_process_dies_a_restore_happened_or_did_not() {
    let (before, there) = {
        let dir = tempfile::tempdir().unwrap();
        let world = World::open(dir.path()).await;
        let (_, before) = marked(&world).await;
        (before, go_on(&world).await)
    };
    let mut seen = std::collections::BTreeSet::new();
    let all = ["host.planned", "host.merged", "host.kept", "journal.intent-synced", "journal.step-done"];
    let more = ["journal.tree-synced", "journal.kept", "store.before-commit", "store.committed"];
    for by_json in [false, true] {
        for step in all.into_iter().chain(more) {
            for nth in 1.. {
                let dir = tempfile::tempdir().unwrap();
                if run(dir.path(), by_json, step, nth) {
                    assert!(nth > 1, "{step} is never reached");
                    break;
                }
                let world = World::open(dir.path()).await;
                let now = (world.tree(), world.slices());
                assert!(now == before || now == there, "{step} {nth}: {now:?}");
                seen.insert(now == before);
            }
        }
    }
    assert_eq!(seen.len(), 2, "both were seen");
}
