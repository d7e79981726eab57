//! `wink replay` and files: what the run changed is put back from the recording, and compared.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::run::run;
use crate::support::{Place, has_commands};

/// A script with a file written so many times.
fn many_writes(count: usize) -> String {
    let call = |n: usize| {
        let arguments = json!({ "path": format!("notes/{}", n % 7), "content": format!("{n}") });
        json!({ "tool_calls": [{ "id": n.to_string(), "name": "write_file", "arguments": arguments }] })
    };
    let read =
        json!({ "tool_calls": [{ "id": "r", "name": "read_file", "arguments": { "path": "notes/0" } }] });
    let calls: String = (0..count).map(|n| format!("{}\n", call(n))).collect();
    format!("{read}\n") + &calls + "{\"text\": \"Done.\"}\n"
}

#[test]
fn a_run_of_more_changes_than_the_workspace_remembers_is_repeated() {
    let place = Place::with_agent(&inside("unused"));
    std::fs::write(place.outside("script.jsonl"), many_writes(120)).unwrap();
    place.put("notes/0", "as it was\n");
    assert_eq!(run(&place, &["--record", "../run.jsonl", "--max-turns", "200"]).code, Some(0));
    let said = place.wink(&["replay", "../run.jsonl"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "Done.\n"), "{}", said.err);
    assert!(!said.err.contains("is known any more"), "{}", said.err);
    // The recording alone is enough: nothing is left of what the workspace knew.
    std::fs::remove_dir_all(place.root().join(".wink")).unwrap();
    let said = place.wink(&["replay", "../run.jsonl", "--into", "../again"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(std::fs::read_to_string(place.outside("again/notes/0")).unwrap(), "119");
}

/// An agent with files and a command that says of itself that it stays inside.
fn inside(name: &str) -> String {
    format!(
        "[agent]\nns = \"t\"\nkey = \"t\"\n[[section]]\nkey = \"s\"\ntitle = \"S\"\nsuites = [\"files\"]\n[[section.tool]]\nname = \"{name}\"\ndescription = \"Runs.\"\ncommand = [\"./{name}\"]\nannotations = {{ open_world = false }}\n"
    )
}

/// A script that calls these, one after the other, and is done.
pub(crate) fn calls(names: &[&str]) -> String {
    let call = |name: &&str| {
        format!("{}\n", json!({ "tool_calls": [{ "id": name, "name": name, "arguments": {} }] }))
    };
    names.iter().map(call).collect::<String>() + "{\"text\": \"Done.\"}\n"
}

/// Changes the lines of a recording.
pub(crate) fn rewrite(place: &Place, with: impl Fn(Value) -> Option<Value>) {
    let file = place.outside("run.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    let lines = text.lines().filter_map(|line| with(serde_json::from_str(line).unwrap()));
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    std::fs::write(file, lines).unwrap();
}

#[test]
fn every_kind_of_change_is_put_back_from_the_recording() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&inside("mess"));
    place.put("was/there", "as it was\n");
    place.put("was/deep/er", "deep\n");
    place.put("moved/inside", "inside\n");
    std::fs::write(place.root().join("bytes"), [0, 255, 254, 7]).unwrap();
    symlink("was/there", place.root().join("link")).unwrap();
    // It says what it finds: what is not put back is told to the model.
    let script = "cat was/there; readlink link; od -An -tx1 bytes; stat -c %a bytes; ls -R moved\n\
        echo changed > was/there; rm -r was/deep; mv moved gone; echo more >> gone/inside\n\
        printf '\\001' > bytes; chmod 700 bytes; rm link; mkdir link; ln -s elsewhere link/in";
    place.put_script("mess", script);
    std::fs::write(place.outside("script.jsonl"), calls(&["mess"])).unwrap();
    assert_eq!(run(&place, &["--record", "../run.jsonl"]).code, Some(0));
    let replayed = place.json(&["replay", "../run.jsonl", "--outside"]);
    assert_eq!(replayed["same"], true, "{replayed:#}");
    std::fs::remove_dir_all(place.root().join(".wink")).unwrap();
    for more in [&["--outside"][..], &[]] {
        let replayed = place.json(&[&["replay", "../run.jsonl"], more].concat());
        assert_eq!(replayed["same"], true, "{replayed:#}");
    }
}

#[test]
fn a_recording_without_files_is_repeated_from_what_the_workspace_remembers() {
    let place = Place::with_agent(&inside("unused"));
    std::fs::write(place.outside("script.jsonl"), many_writes(9)).unwrap();
    place.put("notes/0", "as it was\n");
    assert_eq!(run(&place, &["--record", "../run.jsonl"]).code, Some(0));
    // One of an earlier version has none, and one of a run that was killed not the last.
    rewrite(&place, |line| (line.get("files").is_none() && line.get("ended").is_none()).then_some(line));
    let replayed = place.json(&["replay", "../run.jsonl"]);
    assert_eq!(replayed["same"], true, "{replayed:#}");
}

#[test]
fn what_is_too_large_for_a_recording_is_put_back_from_what_the_workspace_remembers() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&inside("drop"));
    place.put_script("drop", "wc -c < large; rm large");
    std::fs::write(place.outside("script.jsonl"), calls(&["drop"])).unwrap();
    place.put("large", &"line\n".repeat(4 << 20));
    assert_eq!(run(&place, &["--record", "../run.jsonl"]).code, Some(0));
    assert_eq!(place.text("large"), None);
    assert!(std::fs::metadata(place.outside("run.jsonl")).unwrap().len() < 1 << 20);
    let replayed = place.json(&["replay", "../run.jsonl", "--outside"]);
    assert_eq!(replayed["same"], true, "{replayed:#}");
    std::fs::remove_dir_all(place.root().join(".wink")).unwrap();
    let said = place.wink(&["replay", "../run.jsonl", "--outside"]);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("note: not all that the run changed is known any more"), "{}", said.err);
}

#[test]
fn files_that_come_to_be_others_are_a_difference() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&inside("roll"));
    place.put_script("roll", "cat /proc/sys/kernel/random/uuid > rolled\necho rolled");
    std::fs::write(place.outside("script.jsonl"), calls(&["roll"])).unwrap();
    assert_eq!(run(&place, &["--record", "../run.jsonl"]).code, Some(0));
    let replayed = place.json(&["replay", "../run.jsonl", "--outside"]);
    let difference =
        "a call changed files otherwise than when this was recorded: rolled is not what it was then";
    assert_eq!((&replayed["same"], &replayed["difference"]), (&json!(false), &json!(difference)));
}

#[test]
fn another_state_at_the_end_is_a_difference() {
    let place = Place::with_agent(&inside("unused"));
    std::fs::write(place.outside("script.jsonl"), many_writes(2)).unwrap();
    place.put("notes/0", "as it was\n");
    assert_eq!(run(&place, &["--record", "../run.jsonl"]).code, Some(0));
    assert_eq!(place.json(&["replay", "../run.jsonl"])["same"], true);
    rewrite(&place, |mut line| {
        if let Some(ended) = line.get_mut("ended").and_then(Value::as_object_mut) {
            assert!(!ended.is_empty(), "what was read is remembered");
            ended.values_mut().for_each(|digest| *digest = json!("another"));
        }
        Some(line)
    });
    let replayed = place.json(&["replay", "../run.jsonl"]);
    let difference = replayed["difference"].as_str().unwrap_or_default();
    let expected = "the session's STATE is not what it was when the recorded run was over: its ";
    assert!(difference.starts_with(expected), "{replayed:#}");
}

#[test]
fn what_is_remembered_of_files_that_are_others_by_now_is_no_difference() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&inside("change"));
    place.put("changed", "as it was\n");
    place.put("gone", "as it was\n");
    place.put_script("change", "echo changed > changed; rm gone");
    let read = |path: &str| json!({ "id": path, "name": "read_file", "arguments": { "path": path } });
    let reads = json!({ "tool_calls": [read("changed"), read("gone")] });
    std::fs::write(place.outside("script.jsonl"), format!("{reads}\n{}", calls(&["change"]))).unwrap();
    assert_eq!(run(&place, &["--record", "../run.jsonl"]).code, Some(0));
    for more in [&["--outside"][..], &[]] {
        let replayed = place.json(&[&["replay", "../run.jsonl"], more].concat());
        assert_eq!(replayed["same"], true, "{replayed:#}");
    }
}

#[test]
fn keys_in_files_are_not_in_a_recording() {
    if !has_commands() {
        return;
    }
    let (place, key) = (Place::with_agent(&inside("drop")), "sk-a-key-that-nobody-sees");
    place.put("text", &format!("key = {key}\n"));
    std::fs::write(place.root().join("bytes"), [&[0xff], key.as_bytes()].concat()).unwrap();
    place.put_script("drop", "rm text bytes");
    std::fs::write(place.outside("script.jsonl"), calls(&["drop"])).unwrap();
    let arguments = ["run", "Go.", "--model", "script:../script.jsonl", "--record", "../run.jsonl"];
    let ran = place.command(&arguments).env("ANTHROPIC_API_KEY", key).output().unwrap();
    assert!(ran.status.success());
    let text = std::fs::read_to_string(place.outside("run.jsonl")).unwrap();
    assert!(!text.contains(key) && text.contains(r#""content":{"text":"key = ***\n"}"#), "{text}");
    assert!(text.contains(r#""content":"not_kept""#), "{text}");
    let said = place.wink(&["replay", "../run.jsonl"]);
    assert_eq!(said.code, Some(0), "the mask is compared: {}", said.err);
}

#[test]
fn a_recording_does_not_say_which_agent_it_is() {
    let place = Place::with_agent(&inside("unused"));
    std::fs::write(place.outside("script.jsonl"), calls(&["evil"])).unwrap();
    // Somebody else's recording, of an agent with a tool that is not there.
    let own = place.text("wink.toml").unwrap();
    let evil = own.replace("name = \"unused\"", "name = \"evil\"").replace("./unused", "./evil");
    place.put("wink.toml", &evil);
    place.put_script("evil", &format!("echo ran >> {}", place.outside("ran").display()));
    assert_eq!(run(&place, &["--record", "../run.jsonl"]).code, Some(0));
    let ran = || std::fs::read_to_string(place.outside("ran")).ok();
    let once = ran();
    place.put("wink.toml", &own);
    let before = json!({ "kind": "file", "mode": 0o644, "digest": "x", "content": { "text": evil } });
    let after = json!({ "kind": "file", "mode": 0o644, "digest": "y" });
    let change = json!({ "path": "wink.toml", "before": before, "after": after });
    let files = json!({ "call": "01a1e5b0-e889-703d-9131-1e262267f98a", "changes": [change] });
    rewrite(&place, |mut line| {
        if line.get("note").is_some() {
            line["note"]["commands"] = json!("unknown");
            return Some(line);
        }
        if line.get("state").is_some() {
            line["files"] = files.clone();
        }
        (line.get("outcome").is_none()).then_some(line)
    });
    let said = place.wink(&["replay", "../run.jsonl"]);
    assert_eq!(
        (said.code, ran()),
        (Some(1), once),
        "nothing is run that the agent here has not got: {}",
        said.err
    );
}
