//! Damage to the log: any byte of it, its end, all of it.

use std::path::Path;

use tempfile::TempDir;
use wink::session::Ending;
use wink::store::{LedgerState, Rows, Store};
use wink_store::{SqliteStore, StoreOptions, StoreView, Workspace};

use crate::tail::support::{Kept, call, dir_in_memory, executor, fold, forget, paid, pay, workspace_in};

/// The header of the log, and of each page in it.
const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
const FRAME: usize = FRAME_HEADER + 4096;
/// Every header is damaged at each byte, and pages at one of so many; at every byte with `WINK_EVERY_BYTE` set.
const STEP: usize = 401;

/// A workspace that paid `old` before its log was folded into the database, and `new` after that.
async fn workspace(dir: &TempDir, old: u32, new: u32) {
    let workspace = workspace_in(dir.path());
    let before = executor(&workspace).await;
    pay(&before, old).await;
    drop((before, workspace));
    fold(dir.path());
    let workspace = workspace_in(dir.path());
    let after = executor(&workspace).await;
    pay(&after, new).await;
}

/// Opens a workspace that may have lost commits, and pays again. Says whether it had.
async fn notices(root: &Path, old: u32, new: u32, what: &str) -> bool {
    let workspace = match Workspace::open(root) {
        Ok(workspace) => workspace,
        Err(error) => panic!("{what}: {error}"),
    };
    let losses = workspace.store().losses().await.unwrap();
    let executor = executor(&workspace).await;
    let again = call(&executor, "pay", old).await;
    assert!(again.is_success(), "{what}: what is recorded is replayed: {}", again.text());
    let again = call(&executor, "pay", new).await;
    assert_eq!((paid(old), paid(new)), (1, 1), "{what}: paid again: {}", again.text());
    if losses.is_empty() {
        assert!(again.is_success(), "{what}: nothing is lost: {}", again.text());
        return false;
    }
    assert!(
        losses[0].what.starts_with(&format!("commit {} is missing: ", losses[0].first)),
        "{what}: {losses:?}"
    );
    assert_eq!(workspace.store().lost(), losses, "{what}");
    // The last commits may be of the call's end only; its effect is recorded then.
    if !again.is_success() {
        assert_eq!(again.event.ending, Ending::InDoubt, "{what}: {}", again.text());
    }
    let fresh = call(&executor, "pay", new + 1000).await;
    assert!(!fresh.is_success() && paid(new + 1000) == 0, "{what}: {}", fresh.text());
    assert!(fresh.text().contains("wink ledger acknowledge-loss"), "{what}: {}", fresh.text());
    let keyless = call(&executor, "look", new).await;
    assert!(keyless.is_success(), "{what}: {}", keyless.text());
    true
}

/// Opens a store that may have lost commits. Says whether it had; if not, it has the effects of both payments.
async fn notices_at_open(root: &Path, what: &str) -> bool {
    // As it is read where nothing can be written.
    let state = root.join(".wink");
    let view = StoreView::open(&state).unwrap();
    let (seen, sequence) = (view.losses().await.unwrap(), view.load(&"s".into()).await.unwrap().sequence);
    let store = SqliteStore::open(&state, StoreOptions::default()).unwrap();
    assert_eq!(seen.len(), store.losses().await.unwrap().len(), "{what}");
    assert_eq!(sequence, store.load(&"s".into()).await.unwrap().sequence, "{what}");
    let losses = store.losses().await.unwrap();
    if let Some(loss) = losses.first() {
        assert!(loss.what.starts_with(&format!("commit {} is missing: ", loss.first)), "{what}: {loss:?}");
        return true;
    }
    let rows = store.rows(Rows::All).await.unwrap();
    let recorded = rows.iter().filter(|row| matches!(row.state, LedgerState::Recorded { .. })).count();
    assert_eq!((recorded, rows.len()), (2, 2), "{what}: {rows:?}");
    assert_eq!(store.check().await.unwrap().problems, Vec::<String>::new(), "{what}");
    false
}

// case 256
#[tokio::test]
async fn any_byte_of_the_log_that_is_flipped_repeats_nothing() {
    let (dir, old, new) = (dir_in_memory(), 0, 1);
    workspace(&dir, old, new).await;
    let kept = Kept::of(dir.path());
    let len = kept.bytes("wink.db-wal").len();
    let every = std::env::var_os("WINK_EVERY_BYTE").is_some();
    let is_chosen = |at: &usize| {
        let in_frame = at.saturating_sub(HEADER) % FRAME;
        every || *at < HEADER || in_frame < FRAME_HEADER || at.is_multiple_of(STEP)
    };
    let (mut lost, mut whole) = (0, 0);
    for (turn, at) in (0..len).filter(is_chosen).enumerate() {
        kept.put_back(|name, bytes| {
            let mut bytes = bytes.to_vec();
            if name == "wink.db-wal" {
                bytes[at] ^= 1 << (at % 8);
            }
            Some(bytes)
        });
        let what = format!("byte {at} of {len}");
        // Most are only opened: calls are refused for what the store says then.
        let notices = match turn % 20 {
            0 => notices(dir.path(), old, new, &what).await,
            _ => notices_at_open(dir.path(), &what).await,
        };
        match notices {
            true => lost += 1,
            false => whole += 1,
        }
    }
    assert!(lost > 0, "no byte of {len} counts");
    println!("{lost} flips lost something, {whole} nothing");
}

// case 256
#[tokio::test]
async fn a_log_that_is_cut_short_or_gone_repeats_nothing() {
    let (dir, old, new) = (dir_in_memory(), 10, 11);
    workspace(&dir, old, new).await;
    let kept = Kept::of(dir.path());
    let len = kept.bytes("wink.db-wal").len();
    let cuts =
        (0..len).filter(|at| *at < HEADER || (at - HEADER) % FRAME < 2 || (at - HEADER) % FRAME > FRAME - 2);
    for at in cuts {
        kept.put_back(|name, bytes| {
            Some(if name == "wink.db-wal" { bytes[..at].to_vec() } else { bytes.to_vec() })
        });
        assert!(notices(dir.path(), old, new, &format!("the first {at} bytes")).await);
    }
    kept.put_back(|name, bytes| (name != "wink.db-wal").then(|| bytes.to_vec()));
    assert!(notices(dir.path(), old, new, "no log").await);
    // What is behind the last commit is nothing.
    kept.put_back(|name, bytes| {
        let rest: &[u8] = if name == "wink.db-wal" { &[7; 5000] } else { &[] };
        Some([bytes, rest].concat())
    });
    assert!(!notices(dir.path(), old, new, "a longer log").await);
}

// case 256
#[tokio::test]
async fn a_loss_stays_until_it_is_acknowledged() {
    let (dir, old, new) = (dir_in_memory(), 20, 21);
    workspace(&dir, old, new).await;
    let kept = Kept::of(dir.path());
    kept.put_back(|name, bytes| (name != "wink.db-wal").then(|| bytes.to_vec()));
    for _ in 0..3 {
        assert!(
            notices(dir.path(), old, new, "opened again").await,
            "also when it has made more commits than it lost"
        );
    }
    // The copy is of the moment before anything was written.
    let state = dir.path().join(".wink");
    let copies: Vec<_> = std::fs::read_dir(&state)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("wink.db-lost-"))
        .collect();
    assert_eq!(copies.len(), 1, "{copies:?}");
    assert_eq!(std::fs::read(copies[0].join("wink.db")).unwrap(), kept.bytes("wink.db"));

    // Not while a call runs.
    let workspace = workspace_in(dir.path());
    let running = executor(&workspace).await;
    std::fs::write(dir.path().join("root"), dir.path().to_str().unwrap()).unwrap();
    let refused = call(&running, "acknowledge", 0).await;
    assert!(
        !refused.is_success() && refused.text().contains("a call of 'acknowledge' is running"),
        "{}",
        refused.text()
    );
    drop((running, workspace));

    let losses = Workspace::acknowledge_losses(dir.path(), StoreOptions::default()).await.unwrap();
    assert_eq!(losses.len(), 1, "{losses:?}");
    assert_eq!(Workspace::acknowledge_losses(dir.path(), StoreOptions::default()).await.unwrap(), []);
    let workspace = workspace_in(dir.path());
    assert_eq!(workspace.store().losses().await.unwrap(), []);
    forget(new);
    pay(&executor(&workspace).await, new).await;
    drop(workspace);
    assert!(!notices(dir.path(), old, new, "acknowledged").await);
}

// case 256
#[tokio::test]
async fn an_older_database_is_noticed_and_an_older_mark_is_not_missed() {
    let (dir, old, new) = (dir_in_memory(), 30, 31);
    let workspace = workspace_in(dir.path());
    pay(&executor(&workspace).await, old).await;
    drop(workspace);
    fold(dir.path());
    let backup = Kept::of(dir.path());
    let workspace = workspace_in(dir.path());
    pay(&executor(&workspace).await, new).await;
    drop(workspace);
    fold(dir.path());
    let newer = Kept::of(dir.path());
    newer.put_back(|name, bytes| {
        Some(if name == "wink.db" { backup.bytes("wink.db").to_vec() } else { bytes.to_vec() })
    });
    assert!(notices(dir.path(), old, new, "an older database").await);
    newer.put_back(|name, bytes| {
        Some(if name == "wink.db-mark" { backup.bytes("wink.db-mark").to_vec() } else { bytes.to_vec() })
    });
    assert!(!notices(dir.path(), old, new, "an older mark").await);

    // It went on from the older one: as many commits, and not the same.
    backup.put_back(|_, bytes| Some(bytes.to_vec()));
    let workspace = workspace_in(dir.path());
    forget(new);
    pay(&executor(&workspace).await, new + 5).await;
    drop(workspace);
    let other = Kept::of(dir.path());
    newer.put_back(|name, bytes| {
        Some(if name.ends_with("-mark") { bytes.to_vec() } else { other.bytes(name).to_vec() })
    });
    std::fs::write(dir.path().join(".wink/wink.db-wal"), other.bytes("wink.db-wal")).unwrap();
    let workspace = workspace_in(dir.path());
    let losses = workspace.store().losses().await.unwrap();
    assert_eq!(losses.len(), 1, "{losses:?}");
}

// case 256
#[tokio::test]
async fn a_mark_that_is_gone_or_damaged_is_noticed() {
    let (dir, old, new) = (dir_in_memory(), 40, 41);
    workspace(&dir, old, new).await;
    let kept = Kept::of(dir.path());
    for (what, says) in [(None, "is not there"), (Some(vec![0_u8; 300]), "cannot be read")] {
        kept.put_back(|name, bytes| if name == "wink.db-mark" { what.clone() } else { Some(bytes.to_vec()) });
        let workspace = workspace_in(dir.path());
        let losses = workspace.store().losses().await.unwrap();
        assert!(losses.len() == 1 && losses[0].what.contains(says), "{losses:?}");
        drop(workspace);
        Workspace::acknowledge_losses(dir.path(), StoreOptions::default()).await.unwrap();
        assert!(!notices(dir.path(), old, new, "acknowledged").await, "there is a new one");
    }
    // One byte of it is not all of it.
    for at in (0..kept.bytes("wink.db-mark").len()).step_by(101) {
        kept.put_back(|name, bytes| {
            let mut bytes = bytes.to_vec();
            if name == "wink.db-mark" {
                bytes[at] ^= 4;
            }
            Some(bytes)
        });
        assert!(!notices(dir.path(), old, new, &format!("byte {at} of the mark")).await);
    }
}
