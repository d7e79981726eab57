//! Every input that the fuzzer keeps for this crate, through the same functions, without a fuzzer.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::Path;

#[path = "../../../../fuzz/targets/sse.rs"]
mod sse;

#[test]
fn nothing_in_the_corpus_breaks_its_target() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sse");
    let inputs: Vec<_> = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!inputs.is_empty());
    for path in inputs {
        println!("the input is {}", path.display());
        sse::run(&fs::read(&path).unwrap());
    }
}
