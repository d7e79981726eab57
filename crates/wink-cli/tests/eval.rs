//! The program with its interpreter: the built-in agent evaluates Python, and `wink` itself is the worker.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests panic when they fail")]

use std::fs;
use std::process::{Command, Output};

use serde_json::json;

fn wink(dir: &tempfile::TempDir, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wink"));
    let Output { status, stdout, stderr } = command.args(arguments).current_dir(dir.path()).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn python_is_evaluated_by_a_worker_that_is_this_program() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("numbers.txt"), "1\n2\n3\n").unwrap();
    let (code, tools, _) = wink(&dir, &["tools"]);
    assert!(code == Some(0) && tools.contains("\nevaluate_python "), "{tools}");
    let program = json!({
        "code": "sum(int(line) for line in text.split())",
        "reads": [{ "path": "numbers.txt", "name": "text" }],
    });
    let (code, out, err) = wink(&dir, &["call", "evaluate_python", &program.to_string()]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains('6'), "{out}");
    // What is wrong with a program is the model's to read, and the worker's death nobody else's.
    let (code, out, err) = wink(&dir, &["call", "evaluate_python", &json!({ "code": "1 / 0" }).to_string()]);
    assert!((code, err.as_str()) == (Some(1), "") && out.contains("ZeroDivisionError"), "{out} {err}");
    let (code, out, err) =
        wink(&dir, &["call", "evaluate_python", &json!({ "code": "[0] * 10**12" }).to_string()]);
    assert!((code, err.as_str()) == (Some(1), "") && out.contains("emory"), "{out} {err}");
    let (code, doctor, _) = wink(&dir, &["doctor"]);
    assert!(code == Some(0) && doctor.contains("ok      evaluate_python: built in"), "{doctor}");
}
