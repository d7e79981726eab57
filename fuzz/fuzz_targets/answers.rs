//! The fuzzer's front of `targets/answers.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../targets/answers.rs"]
mod answers;

fuzz_target!(|text: &str| answers::run(text));
