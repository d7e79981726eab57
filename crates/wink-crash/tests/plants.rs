//! The kit finds each bug that is planted, as what it is, and goes on; a kit that does not finds nothing.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::process::Command;

use serde_json::Value;

/// What a run tells, with its exit code.
fn run(arguments: &[&str]) -> (Option<i32>, Value) {
    let done = Command::new(env!("CARGO_BIN_EXE_wink-crash")).arg("--json").args(arguments).output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert_eq!(text.lines().count(), 1, "not one line: {text} {errors}");
    (done.status.code(), serde_json::from_str(&text).unwrap())
}

/// How many findings of a kind there are.
fn count(report: &Value, kind: &str) -> u64 {
    report["kinds"].get(kind).map_or(0, |count| count.as_u64().unwrap())
}

/// Runs with a bug, which must be found as what it is; the kit itself and its children work.
fn finds(kind: &str, arguments: &[&str]) -> Value {
    let (code, report) = run(arguments);
    assert_eq!(code, Some(1), "{report:#}");
    assert!(count(&report, kind) > 0, "no finding of kind {kind}: {report:#}");
    let total: u64 = report["kinds"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(report["findings"], total);
    for other in ["kit", "protocol", "open", "death", "hang"] {
        assert!(other == kind || count(&report, other) == 0, "{other}: {report:#}");
    }
    report
}

#[test]
fn a_workspace_that_cannot_be_opened_is_found_and_the_run_goes_on() {
    let report = finds("open", &["--kills", "3", "--plant", "unopenable"]);
    assert!(report["lost"].as_u64() >= Some(2), "{report:#}");
}

#[test]
fn a_process_that_hangs_is_found_and_the_run_goes_on() {
    let report = finds("hang", &["--kills", "10", "--plant", "deadlock", "--patience", "4"]);
    assert!(report["kills"].as_u64() >= Some(1), "{report:#}");
}

#[test]
fn files_in_place_after_the_commit_are_found() {
    finds("state", &["--kills", "40", "--plant", "early-commit"]);
}

#[test]
fn a_claim_that_is_not_written_is_found() {
    finds("effect", &["--kills", "20", "--at", "store.before-commit", "--plant", "lost-claim"]);
}

#[test]
fn files_that_nobody_touched_and_that_have_changed_are_found() {
    let report = finds("trace", &["--kills", "12", "--plant", "lost-traces"]);
    let found = report["found"].to_string();
    assert!(found.contains("was modified at"), "{report:#}");
    assert!(found.contains("were the names of one file"), "{report:#}");
}

#[test]
fn a_directory_whose_mode_is_not_put_back_is_found() {
    finds("state", &["--kills", "12", "--plant", "lost-locks"]);
}

#[test]
fn modes_that_a_dead_process_had_lifted_and_that_are_not_put_back_are_found() {
    finds("state", &["--kills", "150", "--plant", "lost-modes"]);
}

#[test]
fn a_command_that_wrote_what_another_process_wrote_meanwhile_and_succeeds_is_found() {
    let report = finds("race", &["--kills", "1", "--plant", "lost-update"]);
    assert!(report["races"].as_u64() >= Some(1), "{report:#}");
}

#[test]
fn each_kind_of_sync_that_is_left_out_is_found() {
    for (seed, kind) in ["0", "1", "2", "3"].iter().zip(["Files", "JournalFiles", "Dirs", "JournalDirs"]) {
        let report = finds("disk", &["--kills", "100", "--plant", "missing-sync", "--seed", seed]);
        let found = report["found"][0].as_str().unwrap();
        assert!(found.starts_with(&format!("disk: with LeaveOut({kind}): ")), "{found}");
    }
}

#[test]
fn a_call_that_left_no_mark_is_found() {
    finds("log", &["--kills", "60", "--plant", "lost-mark"]);
}

#[test]
fn a_start_that_is_not_written_is_found() {
    finds("effect", &["--kills", "20", "--at", "store.before-commit", "--plant", "lost-start"]);
}

// case 259
#[test]
fn doubt_about_a_handler_that_never_started_is_found() {
    finds("doubt", &["--kills", "12", "--at", "store.claim-written", "--plant", "early-start"]);
}
