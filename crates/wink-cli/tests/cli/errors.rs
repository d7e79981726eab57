//! Errors for programs: with `--json` each is one object on standard error, whatever the exit code.

use std::fs;

use serde_json::{Value, json};

use crate::json::check;
use crate::support::{Place, Said, has_commands, said};

/// The one error that was told, and nothing else.
fn error(said: &Said) -> Value {
    let mut lines = said.err.lines();
    let (Some(line), None) = (lines.next(), lines.next()) else { panic!("not one line: {said:?}") };
    let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    check("error", &value);
    assert_eq!(value["error"]["exit_code"], json!(said.code), "{said:?}");
    assert_eq!(said.out, "", "{said:?}");
    value["error"].clone()
}

fn of(place: &Place, arguments: &[&str]) -> Value {
    error(&place.wink(&[arguments, &["--json"]].concat()))
}

/// The kind of an error, and its message.
fn told(error: &Value) -> (&str, &str) {
    (error["kind"].as_str().unwrap(), error["message"].as_str().unwrap())
}

#[test]
fn what_is_refused_is_a_failure() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    place.write("b.txt", "two\n");
    place.put("b.txt", "by hand, and longer\n");
    let error = of(&place, &["undo", "last"]);
    assert_eq!(
        told(&error),
        (
            "failure",
            "call 2 (write_file): changed since by something else: file 'b.txt'; nothing was undone, since that would \
             overwrite it"
        )
    );
    assert!(error["hint"].as_str().unwrap().contains("--force"), "{error:#}");
}

#[test]
fn a_failed_or_cancelled_call_is_told_where_every_call_is() {
    let place = Place::new();
    let failed = place.wink(&["call", "read_file", r#"{"path": "nope"}"#, "--json"]);
    check("call", &serde_json::from_str(&failed.out).unwrap());
    assert_eq!((failed.code, failed.err.as_str()), (Some(1), ""));
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&crate::exits::slow());
    place.put_script("slow", "exec sleep 1000");
    let exhausted = place.wink(&["call", "slow", "--json"]);
    check("call", &serde_json::from_str(&exhausted.out).unwrap());
    assert_eq!((exhausted.code, exhausted.err.as_str()), (Some(3), ""));
}

#[test]
fn a_command_line_that_is_not_understood_is_usage() {
    let place = Place::new();
    let cases: [(&[&str], &str, Option<&str>); 8] = [
        (&["nope"], "unrecognized subcommand 'nope'", None),
        (&["logs"], "unrecognized subcommand 'logs'", Some("'log'")),
        (&["log", "--last"], "a value is required for '--last <COUNT>' but none was supplied", None),
        (
            &["call"],
            "the following required arguments were not provided:\n  <TOOL>",
            Some("Usage: wink call"),
        ),
        (&["log", "-n", "many"], "invalid value 'many' for '--last <COUNT>'", None),
        (&["serve", "--http", "here"], "'here' is no address", Some("127.0.0.1:8377")),
        (&[], "no command was given", Some("--help")),
        (&["ledger"], "no command was given", Some("--help")),
    ];
    for (arguments, message, hint) in cases {
        let error = of(&place, arguments);
        let (kind, told) = told(&error);
        assert!(kind == "usage" && told.starts_with(message), "{arguments:?}: {error:#}");
        if let Some(hint) = hint {
            assert!(
                error["hint"].as_str().is_some_and(|told| told.contains(hint)),
                "{arguments:?}: {error:#}"
            );
        }
    }
    assert!(!place.wink(&["--session", "x"]).err.contains("demo-victim"));
    // What is help is no error.
    assert!(place.wink(&["log", "--json", "--help"]).ok().contains("Usage: wink log"));
    // After this, words are no options.
    let plain = place.wink(&["show", "--", "--json"]);
    assert!(plain.err.starts_with("error: "), "{plain:?}");
}

#[test]
fn everything_wrong_with_an_agent_file_has_its_place() {
    let place = Place::with_agent("[agent]\nns = \"t\"\nkee = \"t\"\n");
    let error = of(&place, &["tools"]);
    assert_eq!(error["kind"], "usage");
    assert_eq!(
        error["problems"],
        json!([
            {
                "file": "./wink.toml", "line": 1, "column": 1, "message": "`key` is missing",
                "hint": "add `key = \"…\"`: The key in the namespace: small letters, digits, `.`, `_` and `-`.",
            },
            { "file": "./wink.toml", "line": 3, "column": 1, "message": "unknown key `kee`", "hint": "did you mean `key`?" },
        ])
    );
    let missing = of(&place, &["tools", "--agent", "nowhere.toml"]);
    assert!(told(&missing).1.starts_with("nowhere.toml: cannot be read"), "{missing:#}");
    let nowhere = of(&place, &["log", "--workspace", "nowhere"]);
    assert_eq!((&nowhere["kind"], &nowhere["problems"]), (&json!("usage"), &json!([])));
}

#[test]
fn what_fails_below_is_internal() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    place.damage_store();
    assert_eq!(of(&place, &["log"])["kind"], "internal");
    if cfg!(target_os = "linux") {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Place::new().command(&["tools", "--json"]);
        let said =
            said(command.current_dir("/").args(["--workspace", "/usr"]).stdout(full).output().unwrap());
        assert!(told(&error(&said)).1.starts_with("the output cannot be written: "), "{said:?}");
    }
}

#[test]
fn notes_are_objects_too() {
    let place = Place::with_agent(crate::terminal::ASKING);
    let asked = place.wink(&["call", "write_file", r#"{"path": "a", "content": ""}"#, "--json"]);
    assert_eq!(asked.code, Some(1));
    let note: Value = serde_json::from_str(&asked.err).unwrap();
    check("note", &note);
    assert_eq!(
        note,
        json!({ "note": "nobody can be asked in a pipe: call it on a terminal, or with --yes" })
    );
}
