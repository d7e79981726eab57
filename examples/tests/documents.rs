//! What the documents point at is there: every file and every test that `ARCHITECTURE.md` names, every link.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "the lints exempt tests, not their helpers"
)]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The cells of the table's rows, after its heading.
fn rules(document: &str) -> Vec<Vec<&str>> {
    let heading = "| rule | kept in | shown by |\n| --- | --- | --- |\n";
    let (_, table) = document.split_once(heading).expect("the table of rules is there");
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// What stands between backticks in a cell.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// Where a test `a::b::name` may be.
fn places(file: &str) -> Vec<PathBuf> {
    let path = file.replace("::", "/");
    vec![
        root().join(format!("crates/wink/tests/{path}.rs")),
        root().join(format!("crates/wink/src/{path}.rs")),
        root().join(format!("crates/wink-store/tests/{path}.rs")),
        root().join(format!("crates/wink-cli/tests/{path}.rs")),
    ]
}

#[test]
fn every_rule_names_files_and_tests_that_exist() {
    let document = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it can be read");
    let rules = rules(&document);
    assert!(rules.len() > 100, "only {} rules", rules.len());
    let mut missing = Vec::new();
    for rule in rules {
        let [what, files, tests] = rule[..] else { panic!("not three cells: {rule:?}") };
        let (files, tests) = (names(files), names(tests));
        assert!(!files.is_empty() && !tests.is_empty(), "nothing keeps or shows: {what}");
        for file in files {
            if !root().join("crates/wink/src").join(file).is_file() && !root().join(file).is_file() {
                missing.push(file.to_owned());
            }
        }
        for test in tests {
            let (file, name) = test.rsplit_once("::").expect("a test is file::name");
            let sources: String =
                places(file).iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
            if !sources.contains(&format!("fn {name}(")) {
                missing.push(test.to_owned());
            }
        }
    }
    assert!(missing.is_empty(), "named in ARCHITECTURE.md, and not there: {missing:#?}");
}

#[test]
fn every_source_file_that_is_named_exists() {
    let document = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it can be read");
    let there =
        |file: &&str| root().join("crates/wink/src").join(file).is_file() || root().join(file).is_file();
    let files = document.lines().flat_map(names).filter(|name| name.ends_with(".rs"));
    let missing: Vec<&str> = files.filter(|file| !there(file)).collect();
    assert!(missing.is_empty(), "named in ARCHITECTURE.md, and not there: {missing:#?}");
}

#[test]
fn every_link_to_a_file_leads_somewhere() {
    for name in ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/cases.md"] {
        let path = root().join(name);
        let document = fs::read_to_string(&path).expect("it can be read");
        let here = path.parent().expect("a file is in a directory");
        for link in document.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if !link.contains("://") {
                assert!(here.join(link).exists(), "{name} links to {link}, which is not there");
            }
        }
    }
}
