//! What is printed for programs, against the schemas beside the sources.

use std::path::Path;

use serde_json::{Value, json};

use crate::killed::{kill_in, paying};
use crate::support::{Place, has_commands, on_terminal, steady};
use crate::terminal::colours;

/// Checks a value against the schema of this name.
pub(crate) fn check(schema: &str, value: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("schemas/{schema}.schema.json"));
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let validator = jsonschema::draft202012::options().should_validate_formats(true).build(&schema).unwrap();
    let problems: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(problems.is_empty(), "{problems:#?}\n{value:#}");
}

#[test]
fn every_ending_of_a_call_fits_its_schema() {
    let place = Place::new();
    place.put("theirs", "x");
    let calls = [
        ("write_file", r#"{"path": "a", "content": "one"}"#, "succeeded"),
        ("write_file", r#"{"path": "theirs", "content": "one"}"#, "denied"),
        ("edit_file", r#"{"path": "a", "old_string": "two", "new_string": "x"}"#, "errored"),
        ("read_file", r#"{"pat": "a", "limit": "x"}"#, "rejected"),
        ("read_file", "[", "rejected"),
        ("no_such_tool", "{}", "unavailable"),
    ];
    for (tool, arguments, ending) in calls {
        let value = place.json(&["call", tool, arguments]);
        check("call", &value);
        let kind = value["error"].get("kind").cloned().unwrap_or(json!("succeeded"));
        assert_eq!(kind, ending, "{value:#}");
    }
    for row in place.rows(&["log"]) {
        check("log", &row);
        check("show", &place.json(&["show", row["invocation_id"].as_str().unwrap()]));
    }
    let value = place.json(&["call", "write_file", r#"{"path": "b", "content": "one", "x": 1, "y": 2}"#]);
    let told: Vec<&str> =
        value["error"]["problems"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert_eq!(told.len(), 2, "{value:#}");
}

#[test]
fn the_fields_of_a_call_and_of_the_log() {
    let place = Place::new();
    let call = place.json(&["call", "write_file", r#"{"path": "a", "content": "one"}"#]);
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let expected = [
        "call_id",
        "invocation_id",
        "tool",
        "success",
        "message",
        "value",
        "rendered",
        "replayed",
        "rolled_back",
        "decision",
        "error",
        "duration_ms",
    ];
    assert_eq!(names(&call), expected);
    assert_eq!(names(&call["decision"]), ["outcome", "policy", "reason"]);
    let row = &place.rows(&["log"])[0];
    for (name, value) in call.as_object().unwrap() {
        assert_eq!(&row[name], value, "{name} is the same in both");
    }
    for name in ["seq", "time", "session", "arguments"] {
        assert!(row.get(name).is_some(), "{name}");
    }
    assert_eq!(row["arguments"], json!({ "path": "a", "content": "one" }));
    insta::assert_snapshot!("call_json", steady(&call.to_string()));
}

#[test]
fn undo_diff_gc_doctor_init_tools_and_prompt() {
    let place = Place::new();
    check("doctor", &place.json(&["doctor"]));
    place.write("d/a", "one\n");
    place.call("planning_setup_plan", r#"{"objective": "x"}"#);
    place.call("edit_file", r#"{"path": "d/a", "old_string": "one", "new_string": "two"}"#);
    check("diff", &place.json(&["diff", "1"]));
    let diff = place.json(&["diff", "3"]);
    check("diff", &diff);
    insta::assert_snapshot!("diff_json", steady(&serde_json::to_string_pretty(&diff).unwrap()));
    check("undo", &place.json(&["undo", "3"]));
    check("undo", &place.json(&["undo", "--to", "1"]));
    for row in place.rows(&["log"]) {
        check("log", &row);
        check("show", &place.json(&["show", &row["seq"].to_string()]));
        check("diff", &place.json(&["diff", &row["seq"].to_string()]));
    }
    let undo = place.rows(&["log"]).pop().unwrap();
    assert_eq!(
        (undo["kind"].as_str(), undo["arguments"]["to"].as_bool()),
        (Some("undo"), Some(true)),
        "{undo:#}"
    );
    check("gc", &place.json(&["gc"]));
    check("doctor", &place.json(&["doctor", "--deep"]));
    check("init", &place.json(&["init"]));
    check("demo", &place.json(&["demo"]));
    check("completions", &place.json(&["completions", "fish"]));
    check("version", &place.json(&["--version"]));
    check("tools", &place.json(&["tools"]));
    check("prompt", &place.json(&["prompt"]));
}

#[test]
fn what_policies_would_say() {
    let place = Place::new();
    place.put("theirs", "x");
    for (tool, arguments, would_run) in [
        ("write_file", r#"{"path": "new", "content": ""}"#, true),
        ("write_file", r#"{"path": "theirs", "content": ""}"#, false),
        ("write_file", r#"{}"#, false),
        ("no_such_tool", "{}", false),
    ] {
        let value = place.json(&["policy", "check", tool, arguments]);
        check("policy-check", &value);
        assert_eq!(value["would_run"], would_run, "{value:#}");
        let code = place.wink(&["policy", "check", tool, arguments]).code;
        assert_eq!(code, Some(i32::from(!would_run)));
    }
    assert_eq!(place.rows(&["log"]), Vec::<Value>::new(), "nothing was recorded");
    assert_eq!(place.names(), ["theirs"], "and nothing run");
    insta::assert_snapshot!(
        "policy_allows",
        place.wink(&["policy", "check", "write_file", r#"{"path": "new", "content": ""}"#]).whole()
    );
    insta::assert_snapshot!(
        "policy_denies",
        place.wink(&["policy", "check", "write_file", r#"{"path": "theirs", "content": ""}"#]).whole()
    );
}

#[test]
fn effects_recorded_and_in_doubt() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&paying());
    place.put_script("pay", "echo paid");
    assert_eq!(place.call("pay", r#"{"order": 1}"#), "paid\n");
    let again = place.json(&["call", "pay", r#"{"order": 1}"#]);
    assert_eq!(again["replayed"], true, "{again:#}");
    kill_in(&place, "pay", r#"{"order": 2}"#);
    let entries = place.rows(&["ledger", "list"]);
    let states: Vec<&str> = entries.iter().map(|entry| entry["state"].as_str().unwrap()).collect();
    let mut sorted = states.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, ["in_doubt", "recorded"]);
    entries.iter().for_each(|entry| check("ledger-list", entry));
    let text = place.wink(&["ledger", "list"]).whole();
    insta::assert_snapshot!(
        "ledger_list",
        regex::Regex::new("pay:[0-9a-f]+").unwrap().replace_all(&text, "pay:<hash>")
    );

    let (_, seen) = on_terminal(place.command(&["ledger", "list"]), 200, "");
    insta::assert_snapshot!(
        "ledger_on_a_terminal",
        regex::Regex::new("pay:[0-9a-f]+").unwrap().replace_all(&colours(&seen), "pay:<hash>")
    );

    // Nobody runs it again before somebody has looked.
    place.put_script("pay", "echo paid again");
    let refused = place.wink(&["call", "pay", r#"{"order": 2}"#]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(place.wink(&["doctor"]).out.contains("in doubt"));
    let doubt = place.rows(&["ledger", "list", "--in-doubt"]).remove(0);
    let key = doubt["key"].as_str().unwrap();
    let mut inside = place.command(&["ledger", "resolve", key, "--did-not-happen"]);
    let inside = crate::support::said(inside.env("WINK_INVOCATION_ID", "1").output().unwrap());
    assert_eq!(inside.code, Some(1), "a command of a call settles nothing: {inside:?}");
    let settled = place.json(&["ledger", "resolve", key, "--happened", "--message", "found in the books"]);
    check("ledger-resolve", &settled);
    assert_eq!(place.call("pay", r#"{"order": 2}"#), "found in the books\n");
    let again = place.wink(&["ledger", "resolve", key, "--did-not-happen"]);
    assert_eq!(again.code, Some(2), "{again:?}");

    // As much of a key as only one has is enough, with what is before its last part or without.
    kill_in(&place, "pay", r#"{"order": 3}"#);
    kill_in(&place, "pay", r#"{"order": 4}"#);
    let several = place.wink(&["ledger", "resolve", "session:main:pay:", "--did-not-happen"]);
    assert_eq!(several.code, Some(2), "{several:?}");
    let hashes = regex::Regex::new("pay:[0-9a-f]+").unwrap();
    insta::assert_snapshot!("several_doubts", hashes.replace_all(&several.whole(), "pay:<hash>"));
    let doubts = place.rows(&["ledger", "list", "--in-doubt"]);
    let keys: Vec<&str> = doubts.iter().map(|doubt| doubt["key"].as_str().unwrap()).collect();
    let settled =
        place.json(&["ledger", "resolve", &keys[0]["session:main:pay:".len()..][..20], "--did-not-happen"]);
    assert_eq!(settled["key"], keys[0]);
    place.wink(&["ledger", "resolve", "session:main:p", "--did-not-happen"]).ok();
    assert_eq!(place.rows(&["ledger", "list", "--in-doubt"]), Vec::<Value>::new());
    let empty = place.wink(&["ledger", "resolve", "", "--did-not-happen"]);
    assert_eq!(empty.code, Some(2), "{empty:?}");
    place.put_script("pay", "echo paid at last");
    assert_eq!(place.call("pay", r#"{"order": 3}"#), "paid at last\n");
}
