//! Every input that the fuzzer keeps for targets of the server and of agent files, through the same functions, without a
//! fuzzer. The library's own are replayed by its own tests.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, unreachable_pub)]

use std::fs;
use std::path::Path;

#[path = "../../../fuzz/targets/agent_file.rs"]
mod agent_file;
#[path = "../../../fuzz/targets/wire.rs"]
mod wire;

fn replay(name: &str, run: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut count = 0;
    for entry in fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display())) {
        let path = entry.unwrap().path();
        let input = fs::read(&path).unwrap();
        if let Err(panic) = std::panic::catch_unwind(|| run(&input)) {
            eprintln!("the input is {}", path.display());
            std::panic::resume_unwind(panic);
        }
        count += 1;
    }
    assert!(count > 0, "the corpus of {name} is empty");
}

#[test]
fn nothing_in_the_corpus_breaks_the_server() {
    replay("wire", wire::run);
}

#[test]
fn nothing_in_the_corpus_breaks_agent_files() {
    replay("agent_file", |input| {
        if let Ok(text) = str::from_utf8(input) {
            agent_file::run(text);
        }
    });
}
