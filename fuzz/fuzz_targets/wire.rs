//! The fuzzer's front of `targets/wire.rs`.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};

#[path = "../shared/mutator.rs"]
mod mutator;
#[path = "../targets/wire.rs"]
mod wire;

fuzz_target!(|frame: &[u8]| wire::run(frame));
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
