//! The store keeps the contract that every store keeps.

#![allow(clippy::unwrap_used, reason = "a test says what is broken by panicking")]

use std::sync::Arc;

use wink::store::SharedStore;
use wink::testing::store_contract;
use wink_store::{SqliteStore, StoreOptions};

#[tokio::test]
async fn the_store_keeps_the_contract() {
    store_contract(|| {
        let place = tempfile::tempdir().unwrap();
        Box::new(move || -> SharedStore {
            Arc::new(SqliteStore::open(place.path(), StoreOptions::default()).unwrap())
        })
    })
    .await;
}
