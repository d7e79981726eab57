//! Failures and deaths in the middle of an undo: all of it happened, or nothing did.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};
use wink::session::InvocationId;
use wink::testing::{FaultyStore, StoreOp, steps};

use crate::undo::world::{Note, Op, Slices, Tree, World, note, write};

const JOB: &str = "WINK_TEST_UNDO_JOB";

#[derive(Debug, Serialize, Deserialize)]
struct Job {
    root: PathBuf,
    call: InvocationId,
    then: Then,
}

/// What becomes of the process.
#[derive(Debug, Serialize, Deserialize)]
enum Then {
    /// It dies when this is reached for the nth time.
    DiesAt(String, usize),
    /// It writes the steps that it reaches, in their order, one a line.
    Tells(PathBuf),
}

/// A workspace with a call to undo, and what it is before and after that.
async fn scene(world: &World) -> (InvocationId, [(Tree, Slices); 2]) {
    world.put("a", "0");
    world.put("d/x", "0");
    world.work(&[note("zero"), Op::Total(0)]).await;
    let before = (world.tree(), world.slices());
    let ops =
        [write("a", "1"), Op::Rename("d".into(), "e".into()), write("n/m", "1"), note("one"), Op::Total(1)];
    let call = world.work(&ops).await;
    (call, [(world.tree(), world.slices()), before])
}

async fn faulty_world(dir: &Path) -> (World, Arc<FaultyStore>) {
    let mut faulty = None;
    let world = World::open_with(dir, "s", Default::default(), |store| {
        let store = Arc::new(FaultyStore::new(store));
        faulty = Some(Arc::clone(&store));
        store
    })
    .await;
    (world, faulty.unwrap())
}

#[tokio::test]
async fn an_undo_that_the_store_refuses_has_done_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (world, faulty) = faulty_world(dir.path()).await;
    let (call, [there, undone]) = scene(&world).await;
    let ops = [
        (StoreOp::Commit, 1),
        (StoreOp::History, 1),
        (StoreOp::Load, 2),
        (StoreOp::Page, 3),
        (StoreOp::Turn, 1),
        (StoreOp::Rows, 1),
    ];
    for (op, most) in ops {
        for nth in 1..=most {
            faulty.fail(op, nth);
            let error = world.undo(call).await.unwrap_err();
            assert!(error.to_string().contains("told to fail"), "{op:?}: {error}");
            assert_eq!((world.tree(), world.slices()), there, "{op:?}");
            assert_eq!(world.undos(), []);
        }
    }
    world.undo(call).await.unwrap();
    assert_eq!((world.tree(), world.slices()), undone);
}

/// Not a test by itself: this is what the child processes of the next one run.
#[test]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let Job { root, call, then } = serde_json::from_str(&job).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::open(&root).await;
        let reached = AtomicUsize::new(0);
        steps::on_every_step(move |now| match &then {
            Then::DiesAt(step, nth) => {
                if now == step && reached.fetch_add(1, Ordering::SeqCst) + 1 == *nth {
                    std::process::abort();
                }
            }
            Then::Tells(to) => {
                let mut to = std::fs::File::options().create(true).append(true).open(to).unwrap();
                to.write_all(format!("{now}\n").as_bytes()).unwrap();
            }
        });
        world.undo(call).await.unwrap();
    });
}

fn run(root: &Path, call: InvocationId, then: Then) -> bool {
    let job = Job { root: root.to_owned(), call, then };
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["undo::crashes::child", "--exact", "--nocapture"])
        .env(JOB, serde_json::to_string(&job).unwrap())
        .output()
        .unwrap();
    ended.status.success()
}

/// Every step that an undo reaches.
async fn steps_of_an_undo() -> BTreeSet<String> {
    let (dir, told) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let told = told.path().join("steps");
    let (call, _) = scene(&World::open(dir.path()).await).await;
    assert!(run(dir.path(), call, Then::Tells(told.clone())));
    let steps: BTreeSet<String> = std::fs::read_to_string(told).unwrap().lines().map(str::to_owned).collect();
    assert!(steps.len() > 12, "only {steps:?}");
    steps
}

#[tokio::test]
async fn wherever_a_process_dies_an_undo_happened_or_did_not() {
    let mut seen = BTreeSet::new();
    for step in steps_of_an_undo().await {
        for nth in 1.. {
            let dir = tempfile::tempdir().unwrap();
            let (call, [there, undone]) = scene(&World::open(dir.path()).await).await;
            if run(dir.path(), call, Then::DiesAt(step.clone(), nth)) {
                assert!(nth > 1, "{step} is never reached");
                break;
            }
            let world = World::open(dir.path()).await;
            let now = (world.tree(), world.slices());
            match world.undos().len() {
                0 => {
                    assert_eq!(now, there, "{step} {nth}");
                    world.undo(call).await.unwrap();
                    assert_eq!((world.tree(), world.slices()), undone, "{step} {nth}");
                }
                _ => assert_eq!(now, undone, "{step} {nth}"),
            }
            seen.insert(now == undone);
        }
    }
    assert_eq!(seen.len(), 2, "both were seen");
}

#[tokio::test]
async fn what_comes_from_outside_meanwhile_is_neither_overwritten_nor_lost() {
    for (op, least) in [(StoreOp::History, 1), (StoreOp::Load, 2)] {
        let dir = tempfile::tempdir().unwrap();
        let (world, faulty) = faulty_world(dir.path()).await;
        let (call, [there, undone]) = scene(&world).await;
        let mut looked = 0;
        loop {
            let gate = faulty.hold(op, looked + 1);
            let mut undoing = std::pin::pin!(world.undo(call));
            tokio::select! {
                biased;
                done = &mut undoing => {
                    done.unwrap();
                    // Nobody else is to wait there.
                    gate.release();
                    break;
                }
                () = gate.reached() => {}
            }
            looked += 1;
            assert!(world.session.dispatch(Note("between".into())).is_ok());
            gate.release();
            let refused = undoing.await.unwrap_err();
            let text = refused.to_string();
            // Found out before it is undone, or when that is committed.
            assert!(text.contains("session's note") || text.contains("slice note"), "look {looked}: {text}");
            assert_eq!((world.tree(), world.slices().totals), (there.0.clone(), there.1.totals.clone()));
            assert_eq!(world.slices().notes, ["zero", "one", "between"], "look {looked}");
            world.session.clear_where::<Note>(|note| note.0 == "between").unwrap();
        }
        assert!(looked >= least, "only {looked} times for {op:?}");
        assert_eq!((world.tree(), world.slices()), undone);
    }
}

#[tokio::test]
async fn what_comes_from_outside_while_an_undo_is_stored_comes_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let (world, faulty) = faulty_world(dir.path()).await;
    world.work(&[note("zero")]).await;
    let call = world.work(&[note("two")]).await;
    let gate = faulty.hold(StoreOp::Commit, 1);
    {
        let mut undoing = std::pin::pin!(world.undo(call));
        tokio::select! {
            biased;
            done = &mut undoing => panic!("{done:?}"),
            () = gate.reached() => {}
        }
        assert!(world.session.dispatch(Note("after".into())).is_ok());
        gate.release();
        undoing.await.unwrap();
    }
    assert_eq!(world.slices().notes, ["zero", "after"]);
    world.session.flush().await.unwrap();
    drop(world);
    assert_eq!(World::open(dir.path()).await.slices().notes, ["zero", "after"]);
}
