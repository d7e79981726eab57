//! `wink demo` and the command line around it, through the real program.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic when they fail")]

use std::process::{Command, Output, Stdio};

use regex::Regex;
use tempfile::TempDir;

/// The program, in an environment that says nothing about colours.
fn wink(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wink"));
    command.args(arguments).env("TERM", "xterm-256color");
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI", "COLUMNS"] {
        command.env_remove(name);
    }
    command
}

fn run(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// The output without what differs from run to run, or from machine to machine.
fn steady(text: &str) -> String {
    let text = Regex::new(r"Workspace: \S+").unwrap().replace_all(text, "Workspace: <path>");
    let captured =
        Regex::new(r"(?s)Captured by (overlay|scan).*?\. The program runs in a sandbox without\s+network");
    let text = captured.unwrap().replace_all(&text, "Captured by <capture>. The program runs in a sandbox");
    let text = Regex::new(r"[ \d]{3}\d (µs|ms|s )").unwrap().replace_all(&text, "   time");
    Regex::new(r"passed in [\d.]+(s|ms|µs)").unwrap().replace_all(&text, "passed in <time>").into_owned()
}

fn without_colours(text: &str) -> String {
    Regex::new("\x1b\\[[0-9;]*m").unwrap().replace_all(text, "").into_owned()
}

/// Whether this machine has what the demo's sandbox is made of.
#[cfg(target_os = "linux")]
fn can_run_commands() -> bool {
    let able = wink_sandbox::Capabilities::detect();
    able.seccomp && able.hides_state()
}

#[cfg(not(target_os = "linux"))]
fn can_run_commands() -> bool {
    false
}

#[test]
fn the_whole_demo() {
    let (code, out, err) = run(&mut wink(&["demo"]));
    assert_eq!((code, err.as_str()), (0, ""));
    let reason =
        Regex::new(r"(?s)(No commands can be run on this machine):.*? This\s+scene\s+is\s+left\s+out\.")
            .unwrap();
    if reason.is_match(&out) {
        // A sandbox that always fails must not go unnoticed.
        assert!(!can_run_commands(), "this machine can run commands, and the demo did not:\n{out}");
        insta::assert_snapshot!("without_commands", reason.replace(&steady(&out), "$1: <reason>"));
    } else {
        insta::assert_snapshot!("the_whole_demo", steady(&out));
    }
}

#[test]
fn the_directory_is_removed_at_the_end() {
    let temporary = TempDir::new().unwrap();
    let (code, out, _) = run(wink(&["demo"]).env("TMPDIR", temporary.path()));
    assert_eq!(code, 0);
    assert!(out.contains(&format!("Workspace: {}/wink-demo-", temporary.path().display())), "{out}");
    assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0);
}

#[test]
fn the_process_that_is_killed_does_not_outlive_the_demo() {
    let place = TempDir::new().unwrap();
    std::fs::create_dir_all(place.path().join("shop/orders")).unwrap();
    let root = place.path().to_str().unwrap();
    let arguments = ["demo-victim", root, "charge_card", r#"{"order": 18, "cents": 2400}"#];
    let mut child = wink(&arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let out = child.stdout.as_mut().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut said).unwrap();
    assert_eq!(said, "stopped\n");
    drop(child.stdin.take());
    assert_eq!(child.wait().unwrap().code(), None, "a signal ended it");
}

#[test]
fn lines_fit_into_80_columns() {
    let (_, out, _) = run(&mut wink(&["demo"]));
    let long: Vec<&str> = out.lines().filter(|line| line.chars().count() > 80).collect();
    assert_eq!(long, Vec::<&str>::new());
    let ragged: Vec<&str> = out.lines().filter(|line| line.trim_end() != *line).collect();
    assert_eq!(ragged, Vec::<&str>::new());
}

#[test]
fn a_pipe_gets_plain_text() {
    let (_, out, err) = run(&mut wink(&["demo"]));
    assert!(!(out + &err).contains('\x1b'));
}

#[test]
fn colours_can_be_forced_and_forbidden() {
    let (code, forced, _) = run(wink(&["demo"]).env("CLICOLOR_FORCE", "1"));
    let (_, plain, _) = run(&mut wink(&["demo"]));
    assert_eq!(code, 0);
    assert!(forced.contains("\x1b[32m✓ "), "green check marks");
    assert_eq!(steady(&without_colours(&forced)), steady(&plain), "nothing but colours differs");

    let (_, forbidden, _) = run(wink(&["demo"]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1"));
    assert!(!forbidden.contains('\x1b'), "NO_COLOR wins");
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let mut child = wink(&["demo"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert_eq!((status.code(), String::from_utf8(stderr).unwrap().as_str()), (Some(0), ""));
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let temporary = TempDir::new().unwrap();
    let (code, _, err) = run(wink(&["demo"]).stdout(full).env("TMPDIR", temporary.path()));
    assert_eq!(code, 1);
    assert!(err.starts_with("error: the output cannot be written: "), "{err}");
    let left = std::fs::read_dir(temporary.path()).unwrap().next().unwrap().unwrap().path();
    assert!(
        err.ends_with(&format!("\nhint: its directory was left as it is: {}\n", left.display())),
        "{err}"
    );
}

#[test]
fn without_a_command_there_is_help_and_exit_code_2() {
    let (code, out, err) = run(&mut wink(&[]));
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("Usage: wink [OPTIONS] <COMMAND>"), "{err}");
}

#[test]
fn what_is_not_understood_is_exit_code_2() {
    let (code, out, err) = run(&mut wink(&["dmo"]));
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("unrecognized subcommand 'dmo'") && err.contains("'demo'"), "{err}");

    let (code, _, err) = run(&mut wink(&["demo", "--fast"]));
    assert_eq!(code, 2);
    assert!(err.contains("unexpected argument '--fast'"), "{err}");
}

#[test]
fn help_names_the_exit_codes() {
    let (code, out, err) = run(&mut wink(&["--help"]));
    assert_eq!((code, err.as_str()), (0, ""));
    insta::assert_snapshot!("help", out);
    let (code, out, err) = run(&mut wink(&["demo", "--help"]));
    assert_eq!((code, err.as_str()), (0, ""));
    insta::assert_snapshot!("demo_help", out);
}
