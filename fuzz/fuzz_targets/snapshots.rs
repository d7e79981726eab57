//! The fuzzer's front of `targets/snapshots.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../targets/snapshots.rs"]
mod snapshots;

fuzz_target!(|bytes: &[u8]| snapshots::run(bytes));
