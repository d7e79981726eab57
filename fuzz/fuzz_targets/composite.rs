//! The fuzzer's front of `targets/composite.rs`.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};

#[path = "../targets/composite.rs"]
mod composite;
#[path = "../shared/mutator.rs"]
mod mutator;
#[path = "../shared/world.rs"]
mod world;

fuzz_target!(|text: &str| composite::run(text));
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
