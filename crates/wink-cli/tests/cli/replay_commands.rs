//! `wink replay` and commands: what came of them is in the recording, and nothing is run.

use serde_json::{Value, json};

use crate::json::check;
use crate::replay_files::{calls, rewrite};
use crate::run::{run, waiting};
use crate::support::{Place, Said, has_commands, one_command};

/// A workspace with an agent of this one command, which is called so often, and recorded.
fn recorded(script: &str, more: &str, times: usize) -> Place {
    let place = Place::with_agent(&(one_command("go") + more));
    place.put_script("go", script);
    std::fs::write(place.outside("script.jsonl"), calls(&vec!["go"; times])).unwrap();
    assert_eq!(run(&place, &["--record", "../run.jsonl"]).code, Some(0));
    place
}

/// The replay is the same, and its log is the run's.
fn assert_same(place: &Place) -> Value {
    let log = |more: &[&str]| place.wink(&[&["log", "--json"][..], more].concat()).ok();
    let replayed = place.json(&["replay", "../run.jsonl", "--into", "../again"]);
    check("replay", &replayed);
    assert_eq!(replayed["same"], true, "{replayed:#}");
    assert_eq!(log(&["--workspace", "../again"]), log(&[]), "ids, times and all");
    replayed
}

#[test]
fn what_a_command_said_and_changed_is_so_again_and_nothing_happens_outside() {
    if !has_commands() {
        return;
    }
    // Nothing of it is the same twice.
    let script = "echo paid >> ../paid\ncat /proc/sys/kernel/random/uuid | tee said\n\
        mkdir -p made; cp said made/copy; chmod 700 made/copy; ln -sf copy made/link\n\
        rm -rf were; mkdir were; cp said were/more; cp said were/$(cat said)\nprintf '\\377\\000' > bytes";
    let place = recorded(script, "", 2);
    let replayed = assert_same(&place);
    assert_eq!(replayed["calls"], 2, "{replayed:#}");
    assert_eq!(std::fs::read_to_string(place.outside("paid")).unwrap(), "paid\npaid\n");
    let again = place.outside("again");
    let mut diff = std::process::Command::new("diff");
    let differs = diff.args(["-r", "-x", ".wink"]).arg(place.root()).arg(again).output().unwrap();
    assert!(differs.status.success(), "{}", String::from_utf8_lossy(&differs.stdout));
    // Unless somebody wants it.
    let said = place.wink(&["replay", "../run.jsonl", "--outside"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
}

#[test]
fn failures_of_commands_are_so_again() {
    if !has_commands() {
        return;
    }
    for script in ["cat /proc/sys/kernel/random/uuid >&2; echo half > half; exit 3", "kill -9 $$"] {
        let place = recorded(script, "", 1);
        let replayed = assert_same(&place);
        assert_eq!(replayed["rolled_back"], 1, "{replayed:#}");
    }
    // There is nothing to run any more, either.
    let place = Place::with_agent(&one_command("gone"));
    std::fs::write(place.outside("script.jsonl"), calls(&["gone"])).unwrap();
    assert_eq!(run(&place, &["--record", "../run.jsonl"]).code, Some(0));
    place.put_script("gone", "echo here");
    assert_eq!(assert_same(&place)["rolled_back"], 1);
}

#[test]
fn a_command_whose_time_was_over_is_not_waited_for() {
    if !has_commands() {
        return;
    }
    let place = recorded("exec sleep 1000", "timeout = \"100ms\"\n", 1);
    let replayed = assert_same(&place);
    assert_eq!(replayed["rolled_back"], 1, "{replayed:#}");
}

#[test]
fn a_command_that_a_deadline_ended_is_not_waited_for() {
    if !has_commands() {
        return;
    }
    let (place, _line) = waiting();
    place.put_script("wait", "exec sleep 1000");
    let arguments = ["run", "Go.", "--model", "script:../script.jsonl", "--record", "../run.jsonl"];
    assert_eq!(place.wink(&[&arguments[..], &["--deadline", "1s"]].concat()).code, Some(3));
    let replayed = assert_same(&place);
    assert_eq!((&replayed["stopped_by"], &replayed["rolled_back"]), (&json!("deadline"), &json!(1)));
}

#[test]
fn what_is_not_in_the_recording_is_not_run() {
    if !has_commands() {
        return;
    }
    let place = recorded("echo paid >> ../paid", "", 1);
    // As of a run that was killed in the middle of the call.
    rewrite(&place, |line| line.get("outcome").is_none().then_some(line));
    let replayed = place.json(&["replay", "../run.jsonl"]);
    let difference = "go is called, and what came of that is not in the recording";
    assert_eq!((&replayed["same"], &replayed["difference"]), (&json!(false), &json!(difference)));
    // One of an earlier version has nothing of commands.
    rewrite(&place, |mut line| {
        if let Some(note) = line.get_mut("note").and_then(Value::as_object_mut) {
            note.remove("commands").unwrap();
        }
        Some(line)
    });
    insta::assert_snapshot!("replay_outside", place.wink(&["replay", "../run.jsonl"]).whole());
    assert_eq!(std::fs::read_to_string(place.outside("paid")).unwrap(), "paid\n");
    let Said { code, err, .. } = place.wink(&["replay", "../run.jsonl", "--outside"]);
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn keys_in_what_a_command_says_are_not_in_a_recording() {
    if !has_commands() {
        return;
    }
    let (place, key) = (Place::with_agent(&one_command("tell")), "sk-a-key-that-nobody-sees");
    place.put_script("tell", &format!("echo {key}; echo {key} > told"));
    std::fs::write(place.outside("script.jsonl"), calls(&["tell"])).unwrap();
    let arguments = ["run", "Go.", "--model", "script:../script.jsonl", "--record", "../run.jsonl"];
    assert!(place.command(&arguments).env("ANTHROPIC_API_KEY", key).output().unwrap().status.success());
    let text = std::fs::read_to_string(place.outside("run.jsonl")).unwrap();
    assert!(!text.contains(key) && text.contains(r#""message":"***""#), "{text}");
    let replayed = place.json(&["replay", "../run.jsonl"]);
    assert_eq!(replayed["same"], true, "{replayed:#}");
}

#[test]
fn the_tests_of_the_agent_that_init_writes_are_repeated_offline() {
    if !has_commands() {
        return;
    }
    let place = Place::new();
    assert_eq!(place.wink(&["init"]).code, Some(0));
    let agent = place.text("wink.toml").unwrap();
    // As it says: without the marks in front, down to the next empty line.
    let (before, tool) = agent.split_once("# [[section.tool]]\n# name = \"run_tests\"\n").unwrap();
    let (tool, after) = tool.split_once("\n\n").unwrap();
    let tool: String = tool.lines().map(|line| format!("{}\n", line.trim_start_matches("# "))).collect();
    place.put("wink.toml", &format!("{before}[[section.tool]]\nname = \"run_tests\"\n{tool}\n{after}"));
    place.put_script("scripts/test.sh", "echo tested >> ../tested; date +%N; echo report > report");
    std::fs::write(place.outside("script.jsonl"), calls(&["run_tests"])).unwrap();
    assert_eq!(run(&place, &["--record", "../run.jsonl"]).code, Some(0));
    assert_same(&place);
    assert_eq!(std::fs::read_to_string(place.outside("tested")).unwrap(), "tested\n");
}
