//! The durable store of [Wink](wink): sessions, ledger and marks of journals in one SQLite database, which several
//! processes may have open at a time; and [`Workspace`], which is a directory and its store together.
//!
//! What is promised, on what ground, and how recovery works is told in the guide: [`wink::guide::durability`].
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use std::sync::Arc;
//! use wink::session::Session;
//! use wink_store::{SqliteStore, StoreOptions};
//!
//! # let place = tempfile::tempdir()?;
//! # let place = place.path();
//! let store = Arc::new(SqliteStore::open(place, StoreOptions::default())?);
//! let session = Session::builder().store(store).id("work").open().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! What a call leaves is one SQLite transaction, on disk before anybody is told (WAL, `synchronous=FULL`). One thread
//! writes; what is asked of it at the same time shares a commit. Beside the database are `stores/`, with a locked file
//! for each store that is open, by which it is known whether whoever made a claim still lives, and `sessions/`, with
//! the locks by which processes take turns on a session. `wink.db-id` says which database belongs there: one
//! that is gone, emptied or another is an error, and not a new one. Locks die with their process, so nothing there has to be cleaned up
//! by hand, and nothing there may be.

// The examples of the front page, and those of the guide that need a store, run like all others.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
#[cfg(doctest)]
#[doc = include_str!("../../wink/src/guide/durability.md")]
mod guide {}

mod chain;
mod declared;
mod ground;
mod identity;
mod image;
mod ledger;
mod loss;
mod maintain;
mod mark;
mod marks;
mod options;
mod own;
mod read;
mod records;
mod repair;
mod schema;
mod store;
mod tail;
mod turns;
mod view;
mod workspace;
mod writer;

pub use maintain::{CheckReport, Pruned};
pub use options::{StoreOptions, StoreRetention};
pub use read::Verdict;
pub use repair::Repaired;
pub use store::SqliteStore;
pub use view::StoreView;
pub use workspace::{Workspace, WorkspaceError, WorkspaceOptions};
