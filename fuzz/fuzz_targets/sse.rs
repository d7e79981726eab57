//! The fuzzer's front of `targets/sse.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../targets/sse.rs"]
mod sse;

fuzz_target!(|input: &[u8]| sse::run(input));
