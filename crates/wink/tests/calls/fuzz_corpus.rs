//! Every input that the fuzzer keeps, through the same functions, without a fuzzer.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    missing_docs,
    unreachable_pub
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "../../../../fuzz/targets/answers.rs"]
mod answers;
#[path = "../../../../fuzz/targets/arguments.rs"]
mod arguments;
#[path = "../../../../fuzz/targets/composite.rs"]
mod composite;
#[path = "../../../../fuzz/targets/journals.rs"]
mod journals;
#[path = "../../../../fuzz/targets/names.rs"]
mod names;
#[path = "../../../../fuzz/targets/snapshots.rs"]
mod snapshots;
#[path = "../../../../fuzz/targets/templates.rs"]
mod templates;
#[path = "../../../../fuzz/shared/world.rs"]
mod world;

/// Each target: the name of its file and of its corpus, and what it does with an input.
const TARGETS: [(&str, fn(&[u8])); 7] = [
    ("answers", |input| answers::run(valid_prefix(input))),
    ("arguments", |input| arguments::run(valid_prefix(input))),
    ("composite", |input| composite::run(valid_prefix(input))),
    ("journals", journals::run),
    ("names", |input| names::run(valid_prefix(input))),
    ("snapshots", snapshots::run),
    ("templates", |input| templates::run(valid_prefix(input))),
];

/// What the fuzzer makes of bytes for a target that takes text.
fn valid_prefix(input: &[u8]) -> &str {
    std::str::from_utf8(input)
        .unwrap_or_else(|error| std::str::from_utf8(&input[..error.valid_up_to()]).unwrap())
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn entries(directory: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn stems(directory: &str) -> BTreeSet<String> {
    let paths = entries(&fuzz().join(directory));
    paths.iter().map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Those of other crates, whose replay is among the tests of those or of the program.
const ELSEWHERE: [&str; 3] = ["agent_file", "sse", "wire"];

#[test]
fn every_target_is_replayed_and_has_a_corpus() {
    let here = TARGETS.iter().map(|(name, _)| *name);
    let replayed: BTreeSet<String> = here.chain(ELSEWHERE).map(str::to_owned).collect();
    for directory in ["targets", "fuzz_targets", "corpus"] {
        assert_eq!(stems(directory), replayed, "fuzz/{directory}");
    }
}

#[test]
fn nothing_in_the_corpus_breaks_its_target() {
    for (name, run) in TARGETS {
        let inputs = entries(&fuzz().join("corpus").join(name));
        assert!(!inputs.is_empty(), "the corpus of {name} is empty");
        for path in inputs {
            let input = fs::read(&path).unwrap();
            if let Err(panic) = std::panic::catch_unwind(|| run(&input)) {
                eprintln!("the input is {}", path.display());
                std::panic::resume_unwind(panic);
            }
        }
    }
}
