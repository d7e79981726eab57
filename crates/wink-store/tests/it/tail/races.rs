//! Stores that commit beside each other, and others that open meanwhile: the mark of one never tells another that it lost something.

use std::sync::atomic::{AtomicUsize, Ordering};

use wink::store::{LedgerRow, LedgerState, OrphanRule, Rows, Store};
use wink_store::{SqliteStore, StoreOptions, StoreView};

use crate::tail::support::dir_in_memory;

/// How many stores commit at once, how often each is opened, and what it commits then.
const WRITERS: usize = 4;
const OPENED: usize = 6;
const COMMITS: usize = 30;

fn claim(key: String) -> LedgerRow {
    let since = jiff::Timestamp::UNIX_EPOCH;
    let orphan = OrphanRule::default();
    let state = LedgerState::Claimed { owner: key.clone(), since, orphan };
    LedgerRow { key, tool: "pay".to_owned(), params_hash: String::new(), ttl: None, state }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

// case 256
#[test]
fn stores_that_commit_beside_each_other_lose_nothing() {
    let dir = dir_in_memory();
    let open = || SqliteStore::open(dir.path(), StoreOptions::default()).unwrap();
    let writing = AtomicUsize::new(WRITERS);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (open, writing) = (&open, &writing);
            scope.spawn(move || {
                for turn in 0..OPENED {
                    let store = open();
                    let commit = async {
                        for number in 0..COMMITS {
                            store
                                .claim(
                                    claim(format!("{writer}:{turn}:{number}")),
                                    jiff::Timestamp::UNIX_EPOCH,
                                )
                                .await?;
                        }
                        store.losses().await
                    };
                    assert_eq!(runtime().block_on(commit), Ok(Vec::new()));
                }
                writing.fetch_sub(1, Ordering::AcqRel);
            });
        }
        scope.spawn(|| {
            while writing.load(Ordering::Acquire) > 0 {
                assert_eq!(open().lost(), []);
            }
        });
        // Only to look at it, without a lock.
        scope.spawn(|| {
            drop(open());
            while writing.load(Ordering::Acquire) > 0 {
                let view = StoreView::open(dir.path()).unwrap();
                assert_eq!(view.check().unwrap().problems, Vec::<String>::new());
            }
        });
    });
    let store = open();
    assert_eq!(store.lost(), []);
    let (rows, report) = runtime().block_on(async { (store.rows(Rows::All).await, store.check().await) });
    assert_eq!(rows.unwrap().len(), WRITERS * OPENED * COMMITS);
    assert_eq!(report.unwrap().problems, Vec::<String>::new());
}
