//! The fuzzer's front of `targets/names.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../targets/names.rs"]
mod names;

fuzz_target!(|text: &str| names::run(text));
