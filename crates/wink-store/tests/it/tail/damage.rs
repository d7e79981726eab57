//! Damage to the database itself: it is found, and what is whole is kept by a repair.

use std::path::Path;

use rusqlite::Connection;
use wink::session::Ending;
use wink::store::{LedgerRow, LedgerState, Rows, Store, StoredSession};
use wink_store::{SqliteStore, StoreOptions, StoreView, Workspace};

use crate::tail::support::{Kept, call, dir_in_memory, executor, fold, paid, pay, workspace_in};

/// One of so many bytes is flipped; every one, and far more random ones, with `WINK_EVERY_BYTE` set.
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

/// Changes the database of a store that nothing has open.
fn change(state: &Path, sql: &str) {
    let conn = Connection::open(state.join("wink.db")).unwrap();
    conn.execute_batch(sql).unwrap();
}

async fn rows(state: &Path) -> Vec<LedgerRow> {
    StoreView::open(state).unwrap().rows(Rows::All).await.unwrap()
}

async fn repair_and_acknowledge(root: &Path) -> Vec<String> {
    let state = root.join(".wink");
    let repaired = SqliteStore::repair(&state, &StoreOptions::default()).unwrap().unwrap();
    std::fs::remove_dir_all(&repaired.copy).unwrap();
    let acknowledged = Workspace::acknowledge_losses(root, StoreOptions::default()).await.unwrap();
    assert_eq!(StoreView::open(&state).unwrap().check().unwrap().problems, Vec::<String>::new());
    acknowledged.into_iter().map(|loss| loss.what).collect()
}

/// A text whose first byte has bit 7 flipped: it is no UTF-8.
const FLIPPED: &str = "CAST(X'fb' || CAST(substr(row, 2) AS BLOB) AS TEXT)";

// case 256
#[tokio::test]
async fn an_effect_whose_row_is_no_text_is_in_doubt_before_and_after_a_repair() {
    let dir = dir_in_memory();
    let state = dir.path().join(".wink");
    workspace_that_paid(dir.path(), 200..205).await;
    let before = rows(&state).await;
    let ends = [before[0].key.clone(), before[4].key.clone()];
    let [first, last] = &ends;
    change(
        &state,
        &format!("UPDATE ledger SET row = {FLIPPED}, owner = 'x' WHERE key IN ('{first}', '{last}')"),
    );

    // The workspace opens, and the other rows are as they were.
    let workspace = workspace_in(dir.path());
    let doubts = workspace.in_doubt().await.unwrap();
    assert_eq!(doubts.iter().map(|doubt| doubt.key.clone()).collect::<Vec<_>>(), ends);
    let there = workspace.store().rows(Rows::All).await.unwrap();
    assert_eq!(there[1..4], before[1..4]);
    drop(workspace);
    let problems = StoreView::open(&state).unwrap().check().unwrap().problems;
    let named =
        ends.clone().map(|key| format!("effect {key}: it does not have the bytes that were committed"));
    assert_eq!(problems, named);

    let losses = repair_and_acknowledge(dir.path()).await;
    assert_eq!(losses, named.map(|what| format!("found by a repair: {what}")));
    let after = rows(&state).await;
    assert_eq!(after[1..4], before[1..4]);
    let workspace = workspace_in(dir.path());
    assert_eq!(workspace.in_doubt().await.unwrap().len(), 2);
    let executor = executor(&workspace).await;
    for number in 200..205 {
        let again = call(&executor, "pay", number).await;
        assert_eq!(paid(number), 1, "{}", again.text());
    }
}

// case 256
#[tokio::test]
async fn an_effect_whose_key_cannot_be_read_is_named_as_lost() {
    let dir = dir_in_memory();
    let state = dir.path().join(".wink");
    workspace_that_paid(dir.path(), 210..212).await;
    let before = rows(&state).await;
    let key = &before[0].key;
    change(
        &state,
        &format!(
            "UPDATE ledger SET key = CAST(X'f3' || CAST(substr(key, 2) AS BLOB) AS TEXT) WHERE key = '{key}'"
        ),
    );
    let seen = format!("\u{fffd}{}", &key[1..]);
    let losses = repair_and_acknowledge(dir.path()).await;
    assert_eq!(
        losses,
        [format!("found by a repair: effect {seen}: it does not have the bytes that were committed")]
    );
    let after: Vec<_> = rows(&state).await.into_iter().map(|row| row.key).collect();
    assert_eq!(after, [before[1].key.clone(), seen]);
}

// case 256
#[tokio::test]
async fn every_broken_record_is_named_and_a_repair_leaves_none() {
    let dir = dir_in_memory();
    let state = dir.path().join(".wink");
    workspace_that_paid(dir.path(), 220..224).await;
    let conn = Connection::open(state.join("wink.db")).unwrap();
    let ids: Vec<i64> = conn
        .prepare("SELECT id FROM records ORDER BY id DESC LIMIT 6")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    drop(conn);
    let [last, unsummed, changed] = [ids[0], ids[2], ids[4]];
    change(
        &state,
        &format!(
            "UPDATE records SET at = at + 1 WHERE id IN ({last}, {changed});
             UPDATE records SET sum = NULL WHERE id = {unsummed};"
        ),
    );
    let number = |id: i64| id & ((1 << 40) - 1);
    let problems = StoreView::open(&state).unwrap().check().unwrap().problems;
    let named = [
        format!("record {} of session 's': it does not have the bytes that were committed", number(changed)),
        format!("record {} of session 's': it has no checksum", number(unsummed)),
        format!("record {} of session 's': it does not have the bytes that were committed", number(last)),
    ];
    assert_eq!(problems, named);
    let losses = repair_and_acknowledge(dir.path()).await;
    assert_eq!(losses, named.map(|what| format!("found by a repair: {what}")));
}

/// Numbers that are the same in every run (splitmix64).
fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *seed;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((mixed ^ (mixed >> 31)) >> 8).unwrap()
}

// case 256
#[tokio::test]
async fn a_repair_after_any_flips_leaves_a_sound_store_and_forgets_no_effect_silently() {
    let dir = dir_in_memory();
    let state = dir.path().join(".wink");
    workspace_that_paid(dir.path(), 240..252).await;
    let (kept, before) = (Kept::of(dir.path()), rows(&state).await);
    let whole = kept.bytes("wink.db");
    let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    let (mut repaired, mut refused, mut nothing, mut doubted) = (0, 0, 0, 0);
    let mut seed = 7;
    let cases = if std::env::var_os("WINK_EVERY_BYTE").is_some() { 6000 } else { 60 };
    for case in 0..cases {
        let flips: Vec<(usize, u8)> = (0..=next(&mut seed) % 6)
            .map(|_| (used[next(&mut seed) % used.len()], 1 << (next(&mut seed) % 8)))
            .collect();
        kept.put_back(|name, bytes| {
            let mut bytes = bytes.to_vec();
            if name == "wink.db" {
                flips.iter().for_each(|(at, bit)| bytes[*at] ^= bit);
            }
            Some(bytes)
        });
        let what = format!("case {case}, {flips:?}");
        let losses = match SqliteStore::repair(&state, &StoreOptions::default()) {
            Ok(Some(done)) => {
                repaired += 1;
                std::fs::remove_dir_all(&done.copy).unwrap();
                Workspace::acknowledge_losses(dir.path(), StoreOptions::default())
                    .await
                    .unwrap_or_else(|error| panic!("{what}: {error}"))
            }
            Ok(None) => {
                nothing += 1;
                Vec::new()
            }
            Err(error) => {
                refused += 1;
                let text = error.to_string();
                let why = ["database", "newer version", "table", "column", "schema"];
                assert!(why.iter().any(|why| text.contains(why)), "{what}: {text}");
                continue;
            }
        };
        let view = StoreView::open(&state).unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut problems = view.check().unwrap().problems;
        if losses.is_empty() {
            // The count of commits may be another: that is a loss, which opening the store notes, and no damage.
            problems.retain(|one| !one.starts_with("commit "));
        }
        assert_eq!(problems, Vec::<String>::new(), "{what}");
        let after = view.rows(Rows::All).await.unwrap();
        for recorded in &before {
            match after.iter().find(|row| row.key == recorded.key) {
                Some(row) if row == recorded => {}
                Some(row) => {
                    doubted += 1;
                    assert!(matches!(row.state, LedgerState::InDoubt { .. }), "{what}: {row:?}");
                }
                None => assert!(
                    losses
                        .iter()
                        .any(|loss| loss.what.contains(&recorded.key) || loss.what.contains("table ledger")),
                    "{what}: {recorded:?} is gone: {losses:?}"
                ),
            }
        }
    }
    assert!(
        repaired > cases / 2 && doubted > 0,
        "{repaired} repaired, {refused} refused, {nothing} unharmed"
    );
}
