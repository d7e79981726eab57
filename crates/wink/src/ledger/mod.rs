//! The ledger: effects that must not happen twice.

mod config;

pub use config::{IdempotencyConfig, KeyStrategy, LedgerScope, WhenInDoubt};
