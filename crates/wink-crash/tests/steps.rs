//! Every step that the sources reach is in the list of steps, by which children are killed at each; and no other is.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use wink::testing::steps::ALL;

/// The Rust files of all crates, without their tests.
fn sources() -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut dirs: Vec<PathBuf> =
        std::fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().path().join("src")).collect();
    let mut files = Vec::new();
    while let Some(dir) = dirs.pop() {
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            match path.extension() {
                _ if path.is_dir() => dirs.push(path),
                Some(extension) if extension == "rs" => files.push(path),
                _ => {}
            }
        }
    }
    files
}

/// What is said to be reached in a file, and what looks like the name of a step and is handed on to where it is.
fn reached(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for after in text.split("reach(").skip(1) {
        if let Some((name, _)) = after.trim_start().strip_prefix('"').and_then(|name| name.split_once('"')) {
            found.insert(name.to_owned());
        }
    }
    if text.contains("steps::reach") {
        let rooms: BTreeSet<&str> = ALL.iter().filter_map(|step| Some(step.split_once('.')?.0)).collect();
        let is_word = |word: &str| {
            !word.is_empty() && word.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-')
        };
        let is_step = |text: &&str| {
            text.split_once('.').is_some_and(|(room, what)| rooms.contains(room) && is_word(what))
        };
        found.extend(text.split('"').filter(is_step).map(str::to_owned));
    }
    found
}

#[test]
fn every_step_that_is_reached_is_listed_and_the_other_way_round() {
    let mut found = BTreeSet::new();
    for file in sources() {
        found.extend(reached(&std::fs::read_to_string(file).unwrap()));
    }
    let listed: BTreeSet<String> = ALL.iter().map(|step| (*step).to_owned()).collect();
    assert_eq!(found, listed);
    assert_eq!(listed.len(), ALL.len(), "one is listed twice");
}

#[test]
fn a_step_that_is_not_listed_is_seen() {
    let text =
        "reach(\n    \"host.new\"\n); fn reach(step: &str); use support::steps::reach; Some(\"store.other\")";
    assert_eq!(reached(text), ["host.new".to_owned(), "store.other".to_owned()].into());
}
