//! The fuzzer's front of `targets/journals.rs`.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};

#[path = "../targets/journals.rs"]
mod journals;
#[path = "../shared/mutator.rs"]
mod mutator;

fuzz_target!(|body: &[u8]| journals::run(body));
fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutator::mutate(data, size, max_size, seed)
});
