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

/// The cells of the rows of both tables, after their headings.
fn rules(document: &str) -> Vec<Vec<&str>> {
    let headings =
        ["| rule | kept in | shown by |", "| promise of a command | where it is kept | what shows it |"];
    let rows = headings.into_iter().flat_map(|heading| {
        let heading = format!("{heading}\n| --- | --- | --- |\n");
        let (_, table) = document.split_once(&heading).expect("the table is there");
        table.lines().take_while(|line| line.starts_with('|'))
    });
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
        root().join(format!("crates/wink/tests/calls/{path}.rs")),
        root().join(format!("crates/wink/tests/host/{path}.rs")),
        root().join(format!("crates/wink/tests/host/{path}/mod.rs")),
        root().join(format!("crates/wink/tests/{path}.rs")),
        root().join(format!("crates/wink/src/{path}.rs")),
        root().join(format!("crates/wink-store/tests/{path}.rs")),
        root().join(format!("crates/wink-store/tests/it/{path}.rs")),
        root().join(format!("crates/wink-store/tests/alone/{path}.rs")),
        root().join(format!("crates/wink-sandbox/tests/{path}.rs")),
        root().join(format!("crates/wink-sandbox/tests/it/{path}.rs")),
        root().join(format!("crates/wink-eval/tests/{path}.rs")),
        root().join(format!("crates/wink-agent/tests/{path}.rs")),
        root().join(format!("crates/wink-agent/tests/it/{path}.rs")),
        root().join(format!("crates/wink-mcp/tests/{path}.rs")),
        root().join(format!("crates/wink-mcp/tests/it/{path}.rs")),
        root().join(format!("crates/wink-models/tests/{path}.rs")),
        root().join(format!("crates/wink-models/tests/it/{path}.rs")),
        root().join(format!("crates/wink-cli/tests/{path}.rs")),
        root().join(format!("crates/wink-crash/tests/{path}.rs")),
    ]
}

/// Whether these sources have a test of this name: a function with such an attribute, not a helper.
fn has_test(sources: &str, name: &str) -> bool {
    let lines: Vec<&str> = sources.lines().map(str::trim).collect();
    let defines = |line: &str| {
        let line = line.trim_start_matches("pub(crate) ").trim_start_matches("async ");
        line.strip_prefix("fn ").is_some_and(|rest| rest.starts_with(&format!("{name}(")))
    };
    let is_test = |at: usize| {
        let above = lines[..at].iter().rev().take_while(|line| !line.is_empty() && **line != "}");
        above.into_iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
    };
    lines.iter().enumerate().any(|(at, line)| defines(line) && is_test(at))
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
        let exists =
            |file: &str| root().join("crates/wink/src").join(file).exists() || root().join(file).exists();
        missing.extend(files.into_iter().filter(|file| !exists(file)).map(str::to_owned));
        for test in tests {
            // Or a whole file of them, a stage of `./test`, a crate.
            let Some((file, name)) = test.rsplit_once("::") else {
                if !exists(test) && !test.starts_with("./test ") && !root().join("crates").join(test).is_dir()
                {
                    missing.push(test.to_owned());
                }
                continue;
            };
            let sources: String =
                places(file).iter().filter_map(|path| fs::read_to_string(path).ok()).collect();
            if !has_test(&sources, name) {
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
    for name in [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "docs/cases.md",
        "docs/testing.md",
        "docs/using-wink.md",
    ] {
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
