//! Tools of the program `claude` itself in `wink run`: governed, in the log, undone when they fail, and undone later by whoever wants to.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::{Place, Said, said};

const AGENT: &str = r#"[agent]
ns = "t"
key = "t"

[model]
provider = "claude"
model = "some-model"
native_tools = ["Read", "Edit", "Bash"]

[[section]]
key = "s"
title = "S"
suites = ["files"]

[[policy]]
paths = { deny = ["secrets/**"] }
"#;

/// Stands for the program `claude`: edits files with a tool of its own, and says what it saw right after each.
const CLAUDE: &str = r##"#!/bin/sh
hook() {
    echo "{\"type\":\"control_request\",\"request_id\":\"$2$1\",\"request\":{\"subtype\":\"hook_callback\",\"callback_id\":\"$2\",\"input\":{\"hook_event_name\":\"$2\",\"tool_use_id\":\"t$1\",\"tool_name\":\"Edit\",$3}}}"
    read -r answer
}
edit() {
    input="{\"file_path\":\"$PWD/$2\",\"old_string\":\"a\",\"new_string\":\"b\"}"
    echo "{\"type\":\"assistant\",\"message\":{\"id\":\"m$1\",\"model\":\"m\",\"content\":[{\"type\":\"tool_use\",\"id\":\"t$1\",\"name\":\"Edit\",\"input\":$input}],\"usage\":{\"input_tokens\":3,\"output_tokens\":2}}}"
    hook "$1" PreToolUse "\"tool_input\":$input"
    case $answer in
    *'"permissionDecision":"allow"'*)
        echo "# edited" >> "$2"
        echo "$2 $(tail -n 1 "$2")" >> ../edits
        hook "$1" PostToolUse "\"tool_response\":{}"
        ;;
    esac
    echo "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"t$1\",\"content\":\"told\"}]}}"
}
echo "$@" > ../started
read -r initialize
echo '{"type":"control_response","response":{"subtype":"success","request_id":"1","response":{"hooks_applied":true,"hook_on_failure_supported":true}}}'
read -r task
edit 1 theirs
edit 2 wink.toml
edit 3 secrets/key
echo '{"type":"assistant","message":{"id":"m4","model":"m","content":[{"type":"text","text":"Done."}],"usage":{"input_tokens":3,"output_tokens":2}}}'
echo '{"type":"result","subtype":"success","result":"Done."}'
read -r end
"##;

fn place() -> Place {
    let place = Place::with_agent(AGENT);
    place.put("theirs", "as it was\n");
    place.put("secrets/key", "secret\n");
    std::fs::create_dir(place.outside("bin")).unwrap();
    let program = place.outside("bin/claude");
    std::fs::write(&program, CLAUDE).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    place
}

fn run(place: &Place, more: &[&str]) -> Said {
    let mut command = place.command(&[&["run", "Go."], more].concat());
    let path = std::env::var("PATH").unwrap();
    command
        .env("PATH", format!("{}:{path}", place.outside("bin").display()))
        .env("ANTHROPIC_API_KEY", "sk-a-key-that-nobody-sees");
    said(command.stdin(Stdio::null()).output().unwrap())
}

#[test]
fn they_are_governed_logged_and_undone() {
    let place = place();
    let run = run(&place, &["--json"]);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(
        (run.code, &report["calls"], &report["rolled_back"], &report["denied"]),
        (Some(0), &json!(3), &json!(1), &json!(1)),
        "{run:?}"
    );
    let started = std::fs::read_to_string(place.outside("started")).unwrap();
    assert!(started.contains("Read,Edit,Bash"), "{started}");
    // Both files were changed, one of them could not stay so, and the third was never reached.
    assert_eq!(
        std::fs::read_to_string(place.outside("edits")).unwrap(),
        "theirs # edited\nwink.toml # edited\n"
    );
    assert_eq!(place.text("theirs").as_deref(), Some("as it was\n# edited\n"));
    assert_eq!(place.text("wink.toml").as_deref(), Some(AGENT));
    assert_eq!(place.text("secrets/key").as_deref(), Some("secret\n"));
    let log = place.rows(&["log"]);
    let rows: Vec<_> =
        log.iter().map(|row| json!([row["tool"], row["arguments"]["path"], row["error"]["kind"]])).collect();
    assert_eq!(
        rows,
        [
            json!(["claude_edit", "theirs", null]),
            json!(["claude_edit", "wink.toml", "errored"]),
            json!(["claude_edit", "secrets/key", "denied"]),
        ]
    );
    assert_eq!(place.wink(&["undo", "1"]).code, Some(0));
    assert_eq!(place.text("theirs").as_deref(), Some("as it was\n"));
}

#[test]
fn what_cannot_be_recorded_is_said_before_anything_begins() {
    let place = place();
    let said = run(&place, &["--record", "../run.jsonl"]);
    assert_eq!(
        (said.code, said.err.as_str()),
        (
            Some(2),
            "error: a run with tools of Claude Code itself cannot be recorded: what they do is not said to Wink\n\
             hint: leave --record out, or `native_tools` in [model]\n"
        )
    );
    assert!(!place.outside("started").exists() && !place.root().join(".wink").exists());
}

#[test]
fn only_whoever_can_run_them_is_given_them() {
    let place = place();
    let names = |format: &str| -> Vec<String> {
        let told = place.wink(&["tools", "--format", format]).ok();
        let found =
            ["claude_read", "claude_edit", "claude_bash"].into_iter().filter(|name| told.contains(name));
        found.map(str::to_owned).collect()
    };
    for format in ["text", "json"] {
        assert_eq!(names(format), ["claude_read", "claude_edit", "claude_bash"], "{format}");
    }
    for format in ["openai", "anthropic", "mcp"] {
        assert_eq!(names(format), Vec::<String>::new(), "{format}");
    }
    assert!(place.wink(&["prompt"]).ok().contains("Tools of Claude Code."));
    assert!(!place.wink(&["prompt", "--format", "anthropic"]).ok().contains("Tools of Claude Code."));
    let denied = place.wink(&["policy", "check", "claude_edit", r#"{"path": "secrets/key"}"#]);
    assert!(denied.code == Some(1) && denied.out.contains("secrets/key"), "{denied:?}");
    assert_eq!(place.wink(&["policy", "check", "claude_edit", r#"{"path": "theirs"}"#]).code, Some(0));
    // Another who answers has none of them, and is recorded as ever.
    std::fs::write(
        place.outside("script.jsonl"),
        "{\"tool_calls\": [{\"id\": \"1\", \"name\": \"claude_edit\", \"arguments\": {\"path\": \"theirs\"}}]}\n{\"text\": \"Done.\"}\n",
    )
    .unwrap();
    let said = run(&place, &["--model", "script:../script.jsonl", "--record", "../run.jsonl"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "Done.\n"), "{}", said.err);
    assert_eq!(place.rows(&["log"])[0]["error"]["kind"], "unavailable");
    assert_eq!(place.json(&["replay", "../run.jsonl"])["same"], true);
}
