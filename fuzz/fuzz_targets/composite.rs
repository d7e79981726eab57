//! The fuzzer's front of `targets/composite.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../targets/composite.rs"]
mod composite;

fuzz_target!(|text: &str| composite::run(text));
