//! The fuzzer's front of `targets/snapshots.rs`.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};

#[path = "../shared/mutator.rs"]
mod mutator;
#[path = "../targets/snapshots.rs"]
mod snapshots;
#[path = "../shared/world.rs"]
mod world;

fuzz_target!(|bytes: &[u8]| snapshots::run(bytes));
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
