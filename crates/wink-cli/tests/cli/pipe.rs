//! In a pipe: what is printed, without colours, and as wide as it takes.

use std::io::Write;
use std::process::Stdio;

use crate::names::apply;
use crate::support::{Place, has_commands, one_command, said, steady};

/// A session in which a file is made, changed and looked at, and a plan is made.
fn worked() -> Place {
    let place = Place::new();
    place.write("notes/a.txt", "one\ntwo\n");
    place.call("edit_file", r#"{"path": "notes/a.txt", "old_string": "two", "new_string": "three"}"#);
    assert_eq!(place.wink(&["call", "edit_file", r#"{"path": "notes/a.txt", "old": 1}"#]).code, Some(1));
    place.put("theirs.txt", "by hand\n");
    let denied = place.wink(&["call", "write_file", r#"{"path": "theirs.txt", "content": "x"}"#]);
    assert_eq!(denied.code, Some(1), "{denied:?}");
    place.call("planning_setup_plan", r#"{"objective": "tidy up", "initial_steps": ["look"]}"#);
    place
}

#[test]
fn a_call_prints_what_the_model_would_see_and_nothing_else() {
    let place = Place::new();
    let said = place.wink(&["call", "write_file", r#"{"path": "a.txt", "content": "one\n"}"#]);
    assert_eq!(
        (said.code, said.out.as_str(), said.err.as_str()),
        (Some(0), "Created a.txt (4 bytes).\n", "")
    );
    let said = place.wink_with(&["call", "read_file", "-"], r#"{"path": "a.txt"}"#);
    assert_eq!(said.ok(), "a.txt, lines 1-1 of 1:\n1 | one\n");
    // Without arguments there are none.
    assert!(place.wink(&["call", "list_directory"]).ok().contains("a.txt"));
    let rejected = place.wink(&["call", "read_file", "not json"]);
    assert_eq!((rejected.code, rejected.err.as_str()), (Some(1), ""));
    insta::assert_snapshot!("rejected", rejected.out);
}

#[test]
fn what_happened_and_back() {
    let place = worked();
    insta::assert_snapshot!("log", place.wink(&["log"]).whole());
    insta::assert_snapshot!("log_of_failures", place.wink(&["log", "--failed", "-n", "1"]).whole());
    insta::assert_snapshot!("show_success", place.wink(&["show", "1"]).whole());
    insta::assert_snapshot!("show_rejected", place.wink(&["show", "3"]).whole());
    insta::assert_snapshot!("show_denied", place.wink(&["show", "4"]).whole());
    insta::assert_snapshot!("diff_created", place.wink(&["diff", "1"]).whole());
    insta::assert_snapshot!("diff_changed", place.wink(&["diff", "2"]).whole());
    insta::assert_snapshot!("diff_nothing", place.wink(&["diff", "last"]).whole());
    insta::assert_snapshot!("undo_refused", place.wink(&["undo", "1"]).whole());
    insta::assert_snapshot!("undo_of_a_failure", place.wink(&["undo", "3"]).whole());
    insta::assert_snapshot!("undo_a_plan", place.wink(&["undo", "last"]).whole());
    insta::assert_snapshot!("undo", place.wink(&["undo", "2"]).whole());
    assert_eq!(place.text("notes/a.txt").as_deref(), Some("one\ntwo\n"));
    insta::assert_snapshot!("undo_again", place.wink(&["undo", "2"]).whole());
    insta::assert_snapshot!("show_undo", place.wink(&["show", "7"]).whole());
    // An undo is undone like a call.
    place.wink(&["undo", "7"]).ok();
    assert_eq!(place.text("notes/a.txt").as_deref(), Some("one\nthree\n"));
    insta::assert_snapshot!("undo_forced", place.wink(&["undo", "--force", "1"]).whole());
    assert_eq!(place.names(), ["theirs.txt"]);
}

#[test]
fn going_back_to_before_a_call() {
    let place = worked();
    insta::assert_snapshot!("undo_to", place.wink(&["undo", "--to", "1"]).whole());
    assert_eq!(place.names(), ["theirs.txt"]);
    assert_eq!(place.text("theirs.txt").as_deref(), Some("by hand\n"));
}

#[test]
fn going_back_twice_undoes_nothing_and_hints_are_true() {
    let place = Place::new();
    place.write("f1", "one\n");
    assert_eq!(place.wink(&["undo", "--to", "1"]).ok(), "undid 1 call: 1 file is as before\n  f1\n");
    let again = place.wink(&["undo", "--to", "1"]).ok();
    assert_eq!(again, "undid nothing: whatever was changed since is undone already\n");
    let undone = place.json(&["undo", "--to", "1"]);
    assert_eq!(
        (&undone["calls"], &undone["files"]),
        (&serde_json::json!([]), &serde_json::json!([])),
        "{undone}"
    );
    // What is said to bring it back does.
    let hinted = place.wink(&["undo", "1"]);
    assert_eq!(
        (hinted.code, hinted.err.as_str()),
        (
            Some(1),
            "error: call 1 (write_file) was undone already, by entry 2\nhint: `wink undo 2` brings back what it changed\n"
        )
    );
    place.wink(&["undo", "2"]).ok();
    assert_eq!(place.text("f1").as_deref(), Some("one\n"));
    // Undone by one that also undid what came before: that one has to be undone first.
    place.write("f2", "two\n");
    place.wink(&["undo", "--to", "1"]).ok();
    assert_eq!(place.names(), Vec::<String>::new());
    place.wink(&["undo", "--to", "6"]).ok();
    assert_eq!(place.names(), ["f1"]);
    let hinted = place.wink(&["undo", "6"]);
    assert_eq!(
        hinted.err.lines().nth(1),
        Some("hint: `wink undo 8`, then `wink undo 7` bring back what it changed")
    );
    place.wink(&["undo", "8"]).ok();
    place.wink(&["undo", "7"]).ok();
    assert_eq!(place.names(), ["f1", "f2"]);
}

#[test]
fn what_an_undo_cannot_bring_back_is_named() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&one_command("wreck"));
    place.put_script("wreck", "rm -rf d pipe file");
    place.put("d/f", "k\n");
    place.put("file", "k\n");
    drop(std::os::unix::net::UnixListener::bind(place.root().join("d/sock")).unwrap());
    for pipe in ["d/p", "pipe"] {
        let made = std::process::Command::new("mkfifo").arg(place.root().join(pipe)).status().unwrap();
        assert!(made.success(), "{made}");
    }
    place.call("wreck", "{}");
    insta::assert_snapshot!("undo_of_specials", place.wink(&["undo", "last"]).whole());
    let is_pipe = |path: &str| {
        use std::os::unix::fs::FileTypeExt;
        std::fs::symlink_metadata(place.root().join(path)).unwrap().file_type().is_fifo()
    };
    assert!(is_pipe("d/p") && is_pipe("pipe"));
    assert_eq!((place.text("file"), place.text("d/f")), (Some("k\n".to_owned()), Some("k\n".to_owned())));
    let why = "it was a socket or a device, which cannot be made again: whatever made it has to";
    drop(std::os::unix::net::UnixListener::bind(place.root().join("d/sock")).unwrap());
    place.call("wreck", "{}");
    assert_eq!(place.json(&["undo", "last"])["left"], serde_json::json!([{"what": "d/sock", "why": why}]));
}

#[test]
fn a_call_is_named_by_invocation_id_call_id_seq_or_last() {
    let place = Place::new();
    for (id, name) in [("first", "a"), ("again", "b"), ("again", "c")] {
        let arguments = format!(r#"{{"path": "{name}", "content": ""}}"#);
        place.wink(&["call", "write_file", &arguments, "--call-id", id]).ok();
    }
    let seq = |which: &str| place.json(&["show", which])["seq"].clone();
    let second = place.rows(&["log"])[1]["invocation_id"].as_str().unwrap().to_owned();
    assert_eq!((seq("first"), seq("again"), seq(&second)), (1.into(), 3.into(), 2.into()));
    assert_eq!((seq("2"), seq("last")), (2.into(), 3.into()));
    // A number is a seq, whatever a caller calls its calls; that can be named too.
    place.wink(&["call", "list_directory", "--call-id", "2"]).ok();
    place.wink(&["call", "list_directory", "--call-id", "77"]).ok();
    assert_eq!(
        (seq("2"), seq("id:2"), seq("id:77"), seq("id:again")),
        (2.into(), 4.into(), 5.into(), 3.into())
    );
    assert_eq!(place.wink(&["undo", "77"]).code, Some(2), "there is no such seq");
    place.wink(&["undo", "2"]).ok();
    assert_eq!(place.names(), ["a", "c"]);
    insta::assert_snapshot!("no_such_call", place.wink(&["diff", "nobody"]).whole());
    let elsewhere = place.wink(&["show", "last", "--session", "other"]);
    assert_eq!(elsewhere.code, Some(2), "{elsewhere:?}");
}

#[test]
fn an_empty_log_names_the_sessions_that_there_are() {
    let place = Place::new();
    assert_eq!(place.wink(&["log"]).err, "note: session 'main' has no calls yet\n");
    place.write("a.txt", "one\n");
    let said = place.wink(&["log", "--session", "other"]);
    assert_eq!(said.err, "note: session 'other' has no calls yet; others here: main\n");
}

#[test]
fn looking_makes_nothing() {
    let place = Place::new();
    let looks: [&[&str]; 10] = [
        &["policy", "check", "write_file", r#"{"path": "a.txt", "content": "x"}"#],
        &["log"],
        &["tools"],
        &["prompt"],
        &["ledger", "list"],
        &["gc"],
        &["doctor"],
        &["show", "last"],
        &["undo", "last"],
        &["completions", "zsh"],
    ];
    for arguments in looks {
        place.wink(arguments);
        assert_eq!(std::fs::read_dir(place.root()).unwrap().count(), 0, "{arguments:?}");
    }
}

#[test]
fn policies_say_the_same_before_anything_happened() {
    let place = Place::new();
    place.put("theirs.txt", "by hand\n");
    let check = |path: &str| {
        let arguments = format!(r#"{{"path": "{path}", "content": "x"}}"#);
        place.wink(&["policy", "check", "write_file", &arguments]).whole()
    };
    let before = (check("theirs.txt"), check("new.txt"));
    assert_eq!(place.names(), ["theirs.txt"]);
    assert!(!place.root().join(".wink").exists());
    place.call("list_directory", "{}");
    assert_eq!((check("theirs.txt"), check("new.txt")), before);
    assert!(before.0.contains("would not run") && before.1.contains("would run"), "{before:?}");
}

#[test]
fn no_row_of_the_log_is_endless() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&one_command("talk"));
    place.put_script("talk", "head -c 20000 /dev/zero | tr '\\0' x");
    assert_eq!(place.call("talk", "{}").len(), 20_001);
    let log = place.wink(&["log"]).ok();
    let row = log.lines().last().unwrap();
    assert!(row.chars().count() < 300 && row.ends_with("xx…"), "{row}");
    assert_eq!(place.rows(&["log"])[0]["message"].as_str().unwrap().len(), 20_000, "all of it for programs");
}

#[test]
fn what_tools_print_reaches_a_pipe_as_it_is() {
    let place = Place::new();
    let hostile = "\u{1b}[2J\u{7}caf\u{e9}";
    place.put("a.txt", hostile);
    let out = place.call("read_file", r#"{"path": "a.txt"}"#);
    assert!(out.contains(hostile), "{out:?}");
}

#[test]
fn a_diff_is_a_patch() {
    let place = Place::new();
    place.put("a.txt", "one\ntwo\nthree");
    place.call("read_file", r#"{"path": "a.txt"}"#);
    place.call("edit_file", r#"{"path": "a.txt", "old_string": "two", "new_string": "2"}"#);
    let patch = place.wink(&["diff", "last"]).ok();
    insta::assert_snapshot!("diff_without_newline", patch);
    apply(&["patch", "-R", "-p1", "--quiet"], &patch, &place.root());
    assert_eq!(place.text("a.txt").as_deref(), Some("one\ntwo\nthree"));
}

#[test]
fn what_commands_do_is_in_the_diff_too() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&one_command("wreck"));
    place.put_script(
        "wreck",
        "mv a b\nrm -r dir\nmkdir -p new/deep\nprintf 'a\\0b' > binary\nchmod 700 mode\necho done",
    );
    place.put("a", "moved\n");
    place.put("dir/x", "x\n");
    place.put("mode", "m\n");
    std::fs::set_permissions(place.root().join("mode"), std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .unwrap();
    assert_eq!(place.call("wreck", "{}"), "done\n");
    insta::assert_snapshot!("diff_of_a_command", place.wink(&["diff", "last"]).whole());
    place.wink(&["undo", "last"]).ok();
    assert_eq!(place.names(), ["a", "dir", "mode", "wink.toml", "wreck"]);
}

#[test]
fn somebody_elses_change_is_named() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    place.put("a.txt", "by hand, and longer\n");
    insta::assert_snapshot!("diff_lost", place.wink(&["diff", "last"]).whole());
    insta::assert_snapshot!("undo_somebody_elses", place.wink(&["undo", "last"]).whole());
    assert_eq!(place.text("a.txt").as_deref(), Some("by hand, and longer\n"));
}

#[test]
fn tools_and_prompt_in_every_form() {
    let place = Place::with_agent(
        "[agent]\nns = \"t\"\nkey = \"t\"\n\n[[section]]\nkey = \"s\"\ntitle = \"Greeting\"\nbody = \"Say hello.\"\n\n[[section.tool]]\nname = \"greet\"\ndescription = \"Greet somebody.\"\ncommand = [\"echo\", \"hello\"]\nparams = { type = \"object\", required = [\"name\"], properties = { name = { type = \"string\" } } }\n",
    );
    for command in ["tools", "prompt"] {
        for format in ["text", "json", "openai", "anthropic", "mcp"] {
            let out = place.wink(&[command, "--format", format]).ok();
            insta::assert_snapshot!(format!("{command}_as_{format}"), steady(&out));
        }
        assert_eq!(place.wink(&[command, "--json"]).ok(), place.wink(&[command, "--format", "json"]).ok());
        assert_eq!(place.wink(&[command, "--json", "--format", "text"]).code, Some(2));
    }
}

#[test]
fn what_is_closed_says_how_to_open_it() {
    let place = Place::with_agent(
        "[agent]\nns = \"t\"\nkey = \"t\"\n\n[[section]]\nkey = \"more\"\ntitle = \"More\"\nbody = \"All of it.\"\nsummary = \"There is more.\"\nvisibility = \"summary\"\nsuites = [\"planning\"]\n",
    );
    let closed = place.wink(&["call", "planning_read_plan"]);
    assert_eq!(closed.code, Some(1), "{closed:?}");
    insta::assert_snapshot!("closed", closed.out);
    let opened = place.wink(&["call", "open_sections", r#"{"section_keys": ["more"], "reason": "to plan"}"#]);
    assert_eq!((opened.code, opened.out.as_str()), (Some(0), "opened more\n"), "{opened:?}");
    // It stays open for the next program.
    assert!(place.wink(&["tools"]).ok().contains("planning_read_plan"));
    let said = place.wink(&["call", "planning_read_plan"]);
    assert!(!said.out.contains("closed"), "{said:?}");
}

#[test]
fn the_help_of_every_command() {
    let place = Place::new();
    let commands: [&[&str]; 16] = [
        &["call"],
        &["tools"],
        &["prompt"],
        &["log"],
        &["show"],
        &["diff"],
        &["undo"],
        &["policy"],
        &["policy", "check"],
        &["ledger"],
        &["ledger", "list"],
        &["ledger", "resolve"],
        &["ledger", "acknowledge-loss"],
        &["init"],
        &["doctor"],
        &["gc"],
    ];
    for command in commands {
        let out = place.wink(&[command, &["--help"]].concat()).ok();
        assert!(out.contains("Exit codes:\n  0  success\n  1  the tool's result"), "{command:?}: {out}");
        for option in ["--workspace", "--session", "--agent", "--json"] {
            assert!(out.contains(option), "{command:?} has no {option}");
        }
        let long: Vec<&str> = out.lines().filter(|line| line.chars().count() > 100).collect();
        assert_eq!(long, Vec::<&str>::new(), "{command:?}");
    }
    insta::assert_snapshot!("help_of_call", place.wink(&["call", "--help"]).ok());
}

#[test]
fn the_version_tells_the_commit() {
    let out = Place::new().wink(&["--version"]).ok();
    let expected = format!("wink {}", env!("CARGO_PKG_VERSION"));
    assert!(out.starts_with(&expected), "{out}");
    // Where the sources are a clone, and git is there.
    let commit = std::process::Command::new("git").args(["log", "-1", "--format=%h", "--abbrev=12"]).output();
    if let Ok(commit) = commit
        && commit.status.success()
    {
        let commit = String::from_utf8(commit.stdout).unwrap();
        assert!(out.contains(&format!("({} ", commit.trim())), "{out} {commit}");
    }
}

#[test]
fn completions_know_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.wink(&["completions", shell]).ok();
        assert!(script.contains("wink") && script.contains("doctor"), "{shell}");
        // Nobody types what the demo starts.
        assert!(!script.contains("victim"), "{shell}");
    }
}

#[test]
fn arguments_that_are_not_utf_8_are_refused() {
    let place = Place::new();
    let mut command = place.command(&["call", "write_file", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"{\"path\": \"a\", \"content\": \"\xff\"}").unwrap();
    let refused = said(child.wait_with_output().unwrap());
    assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""));
    assert_eq!(
        refused.err,
        "error: standard input is not UTF-8: byte 26 is part of no character\nhint: nothing was done; arguments are JSON, which is text in UTF-8\n"
    );
    assert_eq!(place.names(), Vec::<String>::new());
    assert!(!place.root().join(".wink").exists());
}

#[test]
fn what_other_programs_may_run_later_is_told() {
    let place = Place::new();
    let arguments = r#"{"path": ".github/workflows/ci.yml", "content": "on: push\n"}"#;
    let said = place.wink(&["call", "write_file", arguments]);
    let expected =
        "note: .github/workflows was changed, and other programs may run it: look at it before they do\n";
    assert_eq!((said.code, said.err.as_str()), (Some(0), expected), "{said:?}");
}
