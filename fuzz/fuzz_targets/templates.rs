//! The fuzzer's front of `targets/templates.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../targets/templates.rs"]
mod templates;

fuzz_target!(|text: &str| templates::run(text));
