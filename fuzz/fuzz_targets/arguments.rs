//! The fuzzer's front of `targets/arguments.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../targets/arguments.rs"]
mod arguments;

fuzz_target!(|text: &str| arguments::run(text));
