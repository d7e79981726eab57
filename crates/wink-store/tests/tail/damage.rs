//! Damage to the database itself: it is found, and what is whole is kept by a repair.

use std::path::Path;

use rusqlite::Connection;
use wink::session::Ending;
use wink::store::{LedgerRow, Rows, Store, StoredSession};
use wink_store::{SqliteStore, StoreOptions, StoreView, Workspace};

use crate::support::{Kept, call, dir_in_memory, executor, fold, paid, pay, workspace_in};

/// One of so many bytes is flipped; every one with `WINK_EVERY_BYTE` set.
const STEP: usize = 311;

/// All that a store says.
async fn content(view: &StoreView) -> Option<(StoredSession, Vec<LedgerRow>)> {
    let session = view.load(&"s".into()).await.ok()?;
    Some((session, view.rows(Rows::All).await.ok()?))
}

async fn workspace_that_paid(root: &Path, numbers: std::ops::Range<u32>) {
    let workspace = workspace_in(root);
    let executor = executor(&workspace).await;
    for number in numbers {
        pay(&executor, number).await;
    }
    drop((executor, workspace));
    fold(root);
}

// case 256
#[tokio::test]
async fn any_byte_of_the_database_that_is_flipped_is_found_or_means_nothing() {
    let dir = dir_in_memory();
    workspace_that_paid(dir.path(), 100..104).await;
    let (state, kept) = (dir.path().join(".wink"), Kept::of(dir.path()));
    let before = content(&StoreView::open(&state).unwrap()).await;
    assert!(before.is_some());
    let len = kept.bytes("wink.db").len();
    let every = std::env::var_os("WINK_EVERY_BYTE").is_some();
    let (mut found, mut nothing) = (0, 0);
    for at in (0..len).filter(|at| every || at.is_multiple_of(STEP)) {
        let mut bytes = kept.bytes("wink.db").to_vec();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(state.join("wink.db"), bytes).unwrap();
        let sound = match StoreView::open(&state) {
            Ok(view) => view.check().unwrap().is_sound().then_some(view),
            Err(_) => None,
        };
        match sound {
            Some(view) => {
                nothing += 1;
                assert!(content(&view).await == before, "byte {at} of {len} is not missed");
            }
            None => found += 1,
        }
    }
    assert!(found > 0 && nothing > 0, "{found} found, {nothing} mean nothing");
}

// case 256
#[tokio::test]
async fn what_is_damaged_is_in_doubt_and_a_repair_keeps_the_rest() {
    let dir = dir_in_memory();
    let state = dir.path().join(".wink");
    workspace_that_paid(dir.path(), 120..124).await;
    assert_eq!(SqliteStore::repair(&state, &StoreOptions::default()).unwrap(), None, "nothing is wrong");
    let conn = Connection::open(state.join("wink.db")).unwrap();
    // Another effect than was recorded, by its message; and another record.
    let changed = conn
        .execute(
            "UPDATE ledger SET row = replace(row, '\"paid\"', '\"PAID\"') WHERE key = (SELECT min(key) FROM ledger)",
            [],
        )
        .unwrap();
    let record: i64 = conn.query_row("SELECT max(id) FROM records", [], |row| row.get(0)).unwrap();
    conn.execute("UPDATE records SET at = at + 1 WHERE id = ?1", [record]).unwrap();
    assert_eq!(changed, 1);
    drop(conn);

    let problems = StoreView::open(&state).unwrap().check().unwrap().problems;
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("record ") && problems[0].contains("of session 's'"), "{problems:?}");
    assert!(problems[1].starts_with("effect session:s:pay:"), "{problems:?}");
    // Opening the session notices the record, which is after the last summary.
    let workspace = workspace_in(dir.path());
    let doubts = workspace.in_doubt().await.unwrap();
    assert_eq!(doubts.len(), 1);
    assert!(doubts[0].reason.contains("damaged"), "{doubts:?}");
    let running = executor(&workspace).await;
    let losses = workspace.store().losses().await.unwrap();
    assert!(
        losses.len() == 1 && losses[0].what.contains("is lost: it does not have the bytes"),
        "{losses:?}"
    );
    let fresh = call(&running, "pay", 129).await;
    assert_eq!((fresh.event.ending, paid(129)), (Ending::InDoubt, 0), "{}", fresh.text());
    let refused = SqliteStore::repair(&state, &StoreOptions::default()).unwrap_err();
    assert!(refused.to_string().contains("a process has the store open"), "{refused}");
    drop((running, workspace));

    let before = std::fs::read(state.join("wink.db")).unwrap();
    let repaired = SqliteStore::repair(&state, &StoreOptions::default()).unwrap().unwrap();
    assert!(!repaired.left_out.is_empty());
    assert_eq!(std::fs::read(repaired.copy.join("wink.db")).unwrap(), before, "as it was");
    let acknowledged = Workspace::acknowledge_losses(dir.path(), StoreOptions::default()).await.unwrap();
    assert!(!acknowledged.is_empty());
    assert_eq!(StoreView::open(&state).unwrap().check().unwrap().problems, Vec::<String>::new());
    let workspace = workspace_in(dir.path());
    assert_eq!(workspace.in_doubt().await.unwrap().len(), 1, "what it said is not known");
    let executor = executor(&workspace).await;
    for number in 120..124 {
        let again = call(&executor, "pay", number).await;
        assert_eq!(paid(number), 1, "{}", again.text());
    }
    pay(&executor, 129).await;
}

// case 256
#[tokio::test]
async fn a_page_that_is_gone_is_repaired_around() {
    let dir = dir_in_memory();
    let state = dir.path().join(".wink");
    workspace_that_paid(dir.path(), 140..160).await;
    let conn = Connection::open(state.join("wink.db")).unwrap();
    let pages: Vec<i64> = conn
        .prepare("SELECT rootpage FROM sqlite_master WHERE name IN ('records', 'ledger_by_tool')")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    drop(conn);
    let whole = std::fs::read(state.join("wink.db")).unwrap();
    for page in pages {
        let mut bytes = whole.clone();
        let at = usize::try_from(page - 1).unwrap() * 4096;
        bytes[at..at + 4096].fill(0xa5);
        std::fs::write(state.join("wink.db"), bytes).unwrap();
        for log in ["wink.db-wal", "wink.db-shm"] {
            let _ = std::fs::remove_file(state.join(log));
        }
        assert!(!StoreView::open(&state).unwrap().check().unwrap().is_sound());
        let repaired = SqliteStore::repair(&state, &StoreOptions::default()).unwrap().unwrap();
        let _ = std::fs::remove_dir_all(&repaired.copy);
        Workspace::acknowledge_losses(dir.path(), StoreOptions::default()).await.unwrap();
        assert_eq!(StoreView::open(&state).unwrap().check().unwrap().problems, Vec::<String>::new());
        let workspace = workspace_in(dir.path());
        let executor = executor(&workspace).await;
        let again = call(&executor, "pay", 140).await;
        assert!(again.is_success() && paid(140) == 1, "the ledger is whole: {}", again.text());
        drop((executor, workspace));
        let _ = std::fs::remove_file(state.join("wink.db-mark"));
    }
}
