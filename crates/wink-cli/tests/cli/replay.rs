//! `wink replay`: a recorded run is the same once more, byte for byte; and where it is not, that is said.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::json::check;
use crate::run::{STORY, place, run, until_ready, waiting};
use crate::support::{Place, has_commands, said, steady};

#[test]
fn a_recorded_run_is_the_same_byte_for_byte() {
    let place = place(STORY);
    // In the workspace: no tool sees it while it is written.
    assert_eq!(run(&place, &["--record", "run.jsonl", "--budget", "1000"]).code, Some(0));
    assert_eq!(place.names(), ["notes", "run.jsonl", "theirs"]);
    let before = place.wink(&["log", "--json"]).ok();
    let replayed = place.json(&["replay", "run.jsonl", "--into", "../again"]);
    check("replay", &replayed);
    assert_eq!((&replayed["same"], &replayed["output"]), (&json!(true), &json!("Done.")), "{replayed:#}");
    let again = place.wink(&["log", "--json", "--workspace", "../again"]).ok();
    assert_eq!(again, before, "ids, times and all");
    assert_eq!(place.wink(&["log", "--json"]).ok(), before, "and nothing happened here");
    assert_eq!(place.names(), ["notes", "run.jsonl", "theirs"]);
    let said = place.wink(&["replay", "run.jsonl"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "Done.\n"), "{}", said.err);
    assert!(said.err.ends_with("note: the same as recorded\n"), "{}", said.err);
}

#[test]
fn a_recording_is_for_nobody_else() {
    let place = place(STORY);
    for (record, session) in [("run.jsonl", "one"), ("../run.jsonl", "two")] {
        assert_eq!(run(&place, &["--record", record, "--session", session]).code, Some(0));
        let mode = std::fs::metadata(place.root().join(record)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{record}");
    }
}

#[test]
fn a_session_with_a_past_is_as_it_was() {
    let place = place(STORY);
    // What was read is STATE, without which the second run may not write.
    assert_eq!(place.wink(&["call", "read_file", r#"{"path": "theirs"}"#]).code, Some(0));
    let script = r#"{"tool_calls": [{"id": "1", "name": "edit_file", "arguments": {"path": "theirs", "old_string": "as it was", "new_string": "changed"}}]}
{"text": "Done."}
"#;
    std::fs::write(place.outside("script.jsonl"), script).unwrap();
    let report = run(&place, &["--record", "../run.jsonl", "--json"]);
    let report: Value = serde_json::from_str(&report.out).unwrap();
    assert_eq!(
        (&report["calls"], &report["rolled_back"], &report["denied"]),
        (&json!(1), &json!(0), &json!(0))
    );
    let replayed = place.json(&["replay", "../run.jsonl"]);
    assert_eq!((&replayed["same"], &replayed["rolled_back"]), (&json!(true), &json!(0)), "{replayed:#}");
}

#[test]
fn what_was_approved_is_approved_again() {
    let agent = "[agent]\nns = \"t\"\nkey = \"t\"\n[[section]]\nkey = \"s\"\ntitle = \"S\"\nsuites = [\"files\"]\n[[section.policy]]\napproval = { tools = [\"write_file\"] }\n";
    let place = Place::with_agent(agent);
    let script = r#"{"tool_calls": [{"id": "1", "name": "write_file", "arguments": {"path": "a", "content": "a"}}]}
{"text": "Done."}
"#;
    std::fs::write(place.outside("script.jsonl"), script).unwrap();
    assert_eq!(run(&place, &["--record", "../yes.jsonl", "--yes"]).code, Some(0));
    assert!(place.names().contains(&"a".to_owned()));
    // Nobody is there to ask, and nobody is asked.
    let replayed = place.json(&["replay", "../yes.jsonl"]);
    assert_eq!((&replayed["same"], &replayed["denied"]), (&json!(true), &json!(0)), "{replayed:#}");
    assert_eq!(place.wink(&["undo", "last"]).code, Some(0));
    assert_eq!(run(&place, &["--record", "../no.jsonl"]).code, Some(0));
    let replayed = place.json(&["replay", "../no.jsonl"]);
    assert_eq!((&replayed["same"], &replayed["denied"]), (&json!(true), &json!(1)), "{replayed:#}");
}

#[test]
fn every_change_to_files_is_taken_back_first() {
    let script = r#"{"tool_calls": [{"id": "1", "name": "read_file", "arguments": {"path": "theirs"}}, {"id": "2", "name": "edit_file", "arguments": {"path": "theirs", "old_string": "as it was", "new_string": "changed"}}, {"id": "3", "name": "write_file", "arguments": {"path": "d/e/f", "content": "new"}}]}
{"tool_calls": [{"id": "4", "name": "edit_file", "arguments": {"path": "theirs", "old_string": "changed", "new_string": "again"}}, {"id": "5", "name": "delete_path", "arguments": {"path": "theirs"}}, {"id": "6", "name": "list_directory", "arguments": {"path": ""}}]}
{"text": "Done."}
"#;
    let place = place(script);
    assert_eq!(run(&place, &["--record", "../run.jsonl"]).code, Some(0));
    let said = place.wink(&["replay", "../run.jsonl"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
}

#[test]
fn where_it_differs_is_said() {
    let place = place(
        "{\"tool_calls\": [{\"id\": \"1\", \"name\": \"read_file\", \"arguments\": {\"path\": \"theirs\"}}]}\n{\"text\": \"Done.\"}\n",
    );
    assert_eq!(run(&place, &["--record", "../run.jsonl"]).code, Some(0));
    place.put("theirs", "as it is\n");
    let said = place.wink(&["replay", "../run.jsonl"]);
    assert_eq!(said.code, Some(1));
    let error = said.err.lines().find(|line| line.starts_with("error: ")).unwrap();
    assert!(error.contains("in request 2, what the tools answered was `…"), "{error}");
    assert!(error.contains("as it was") && error.contains("as it is"), "{error}");
    let replayed = place.json(&["replay", "../run.jsonl"]);
    check("replay", &replayed);
    assert_eq!(replayed["same"], false, "{replayed:#}");
    place.put("wink.toml", "[agent]\nns = \"t\"\nkey = \"t\"\n[[section]]\nkey = \"s\"\ntitle = \"S\"\n");
    let said = place.wink(&["replay", "../run.jsonl"]);
    assert!(said.code == Some(1) && said.err.contains("in request 1, the prompt was"), "{}", said.err);
}

#[test]
fn what_looks_like_a_mask_hides_no_difference() {
    let place = place(
        "{\"tool_calls\": [{\"id\": \"1\", \"name\": \"read_file\", \"arguments\": {\"path\": \"theirs\"}}]}\n{\"text\": \"Done.\"}\n",
    );
    place.put("theirs", "***\nas it was\n");
    assert_eq!(run(&place, &["--record", "../run.jsonl"]).code, Some(0));
    assert_eq!(place.json(&["replay", "../run.jsonl"])["same"], true);
    place.put("theirs", "***\nas it is\n");
    let replayed = place.json(&["replay", "../run.jsonl"]);
    let difference = replayed["difference"].as_str().unwrap_or_default();
    assert!(difference.contains("in request 2, what the tools answered was `…"), "{replayed:#}");
}

#[test]
fn a_deadline_before_the_beginning_is_the_recordings_fault() {
    let place = place(STORY);
    assert_eq!(run(&place, &["--record", "../run.jsonl", "--deadline", "1h"]).code, Some(0));
    let recorded = std::fs::read_to_string(place.outside("run.jsonl")).unwrap();
    let (header, rest) = recorded.split_once('\n').unwrap();
    let mut header: Value = serde_json::from_str(header).unwrap();
    assert!(header["note"]["deadline"].is_string(), "{header:#}");
    header["note"]["deadline"] = json!("2000-01-01T00:00:00Z");
    std::fs::write(place.outside("run.jsonl"), format!("{header}\n{rest}")).unwrap();
    let said = place.wink(&["replay", "../run.jsonl"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("error: the recording's deadline cannot be one: "), "{}", said.err);
}

#[test]
fn a_stopped_run_is_stopped_again() {
    let place = place(STORY);
    assert_eq!(run(&place, &["--record", "../run.jsonl", "--max-turns", "2"]).code, Some(3));
    let replayed = place.json(&["replay", "../run.jsonl"]);
    check("replay", &replayed);
    assert_eq!((&replayed["same"], &replayed["stopped_by"]), (&json!(true), &json!("turn_cap")));
    // As a script it has no more to say.
    let said = place.wink(&["run", "x", "--session", "other", "--model", "script:../run.jsonl", "--json"]);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.code, &report["stopped_by"]), (Some(3), &json!("request_failed")));
}

#[test]
fn a_run_that_goes_on_is_repeated_from_there() {
    let place = place(STORY);
    assert_eq!(run(&place, &["--max-turns", "1"]).code, Some(3));
    let before = place.rows(&["log"]).len();
    let script = ["run", "--resume", "--model", "script:../script.jsonl"];
    let again = place.wink(&[&script[..], &["--max-turns", "9", "--record", "../run.jsonl"]].concat());
    assert_eq!((again.code, again.out.as_str()), (Some(0), "Done.\n"), "{}", again.err);
    let replayed = place.json(&["replay", "../run.jsonl", "--into", "../again"]);
    check("replay", &replayed);
    assert_eq!((&replayed["same"], &replayed["output"]), (&json!(true), &json!("Done.")), "{replayed:#}");
    let log = |more: &[&str]| {
        let mut rows = place.rows(&[&["log"][..], more].concat());
        // They are counted from where the copy begins.
        rows.iter_mut().for_each(|row| drop(row.as_object_mut().unwrap().remove("seq")));
        rows
    };
    assert_eq!(log(&["--workspace", "../again"]), log(&[])[before..], "ids, times and all");
    // A run that is over has nothing more to say, and says what it came to.
    let over = place.wink(&[&script[..], &["--record", "../over.jsonl"]].concat());
    assert_eq!((over.code, over.out.as_str()), (Some(0), "Done.\n"), "{}", over.err);
    assert_eq!(place.wink(&["replay", "../over.jsonl"]).code, Some(0));
}

#[test]
fn what_a_killed_run_owed_is_done_before_the_recording_begins() {
    if !has_commands() {
        return;
    }
    let (place, line) = waiting();
    let mut command = place.command(&["run", "Go.", "--model", "script:../script.jsonl"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until_ready(&line);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    place.put("go-on", "");
    let arguments = ["run", "--resume", "--model", "script:../script.jsonl", "--record", "../run.jsonl"];
    let report = place.json(&arguments);
    check("run", &report);
    assert_eq!(report["stopped_by"], json!("completed"), "{report:#}");
    let replayed = place.json(&["replay", "../run.jsonl", "--outside"]);
    assert_eq!((&replayed["same"], &replayed["turns"]), (&json!(true), &report["turns"]), "{replayed:#}");
    assert_eq!(place.rows(&["log", "--tool", "write_file"]).len(), 1, "what was done is not done again");
}

#[test]
fn an_interrupted_run_is_interrupted_again_where_it_was() {
    if !has_commands() {
        return;
    }
    let (place, line) = waiting();
    let arguments = ["run", "Go.", "--model", "script:../script.jsonl", "--record", "../run.jsonl"];
    let mut command = place.command(&arguments);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until_ready(&line);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(said(child.wait_with_output().unwrap()).code, Some(3));
    let log = |more: &[&str]| place.wink(&[&["log", "--json"][..], more].concat()).ok();
    for (into, more) in [("../again", &["--outside"][..]), ("../without", &[])] {
        let replayed = place.json(&[&["replay", "../run.jsonl", "--into", into], more].concat());
        check("replay", &replayed);
        let told = (&replayed["same"], &replayed["stopped_by"], &replayed["calls"]);
        assert_eq!(told, (&json!(true), &json!("cancelled"), &json!(2)), "{replayed:#}");
        assert_eq!(log(&["--workspace", into]), log(&[]), "ids, times and all");
    }
}

/// Stands for the program `claude`: has a file written and another read, and says that it is done.
#[cfg(feature = "claude")]
const CLAUDE: &str = r#"#!/bin/sh
call() {
    echo "{\"type\":\"assistant\",\"message\":{\"id\":\"m$1\",\"model\":\"m\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t$1\",\"name\":\"mcp__wink__$2\",\"input\":$3}],\"usage\":{\"input_tokens\":3,\"output_tokens\":2}}}"
    echo "{\"type\":\"control_request\",\"request_id\":\"r$1\",\"request\":{\"subtype\":\"mcp_message\",\"server_name\":\"wink\",\"message\":{\"jsonrpc\":\"2.0\",\"id\":$1,\"method\":\"tools/call\",\"params\":{\"name\":\"$2\",\"arguments\":$3,\"_meta\":{\"claudecode/toolUseId\":\"t$1\"}}}}}"
    read -r answer
    echo "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t$1\",\"content\":\"told\"}]}}"
}
read -r initialize
echo '{"type":"control_response","response":{"subtype":"success","request_id":"1","response":{}}}'
read -r task
call 1 write_file '{"path":"notes/a","content":"one"}'
call 2 read_file '{"path":"theirs"}'
echo '{"type":"assistant","message":{"id":"m3","model":"m","content":[{"type":"text","text":"Done."}],"usage":{"input_tokens":3,"output_tokens":2}}}'
echo '{"type":"result","subtype":"success","result":"Done."}'
read -r end
"#;

#[cfg(feature = "claude")]
#[test]
fn a_run_of_claude_code_is_repeated_without_it() {
    let (place, key) = (place(STORY), "sk-a-key-that-nobody-sees");
    let program = place.outside("claude");
    std::fs::write(&program, CLAUDE).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command =
        place.command(&["run", "Go.", "--model", "claude:some-model", "--record", "../run.jsonl"]);
    let path = std::env::var("PATH").unwrap();
    command
        .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
        .env("ANTHROPIC_API_KEY", key);
    let run = said(command.stdin(Stdio::null()).output().unwrap());
    assert_eq!((run.code, run.out.as_str()), (Some(0), "Done.\n"), "{}", run.err);
    let log = |more: &[&str]| place.wink(&[&["log", "--json"][..], more].concat()).ok();
    assert_eq!(place.rows(&["log"]).len(), 2);
    let text = std::fs::read_to_string(place.outside("run.jsonl")).unwrap();
    assert!(text.contains("notes/a") && !text.contains(key), "{text}");
    std::fs::remove_file(program).unwrap();
    let replayed = place.json(&["replay", "../run.jsonl", "--into", "../again"]);
    check("replay", &replayed);
    assert_eq!((&replayed["same"], &replayed["output"]), (&json!(true), &json!("Done.")), "{replayed:#}");
    assert_eq!(log(&["--workspace", "../again"]), log(&[]), "ids, times and all");
    // What it said can be said by a script as well.
    let other = self::place(STORY);
    let script = format!("script:{}", place.outside("run.jsonl").display());
    let report = other.json(&["run", "Go.", "--model", &script]);
    let told = (&report["output"], &report["turns"], &report["calls"], &report["rolled_back"]);
    assert_eq!(told, (&json!("Done."), &json!(3), &json!(2), &json!(0)), "{report:#}");
    assert_eq!(other.text("notes/a").as_deref(), Some("one"));
}

#[test]
fn what_is_no_recording_is_said() {
    let place = place(STORY);
    insta::assert_snapshot!("replay_no_recording", place.wink(&["replay", "../script.jsonl"]).whole());
    insta::assert_snapshot!("replay_no_file", place.wink(&["replay", "nowhere"]).whole());
    place.put("there", "");
    insta::assert_snapshot!("record_there", run(&place, &["--record", "there"]).whole());
    assert_eq!(run(&place, &["--record", "../run.jsonl"]).code, Some(0));
    insta::assert_snapshot!(
        "replay_into_itself",
        steady(&place.wink(&["replay", "../run.jsonl", "--into", "inside"]).whole())
    );
    assert!(!place.names().contains(&"inside".to_owned()));
}
