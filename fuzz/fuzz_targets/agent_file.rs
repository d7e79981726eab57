//! The fuzzer's front of `targets/agent_file.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../targets/agent_file.rs"]
mod agent_file;

fuzz_target!(|text: &str| agent_file::run(text));
