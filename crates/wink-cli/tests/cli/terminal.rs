//! On a terminal: colours, its width, the wait that is shown, and questions.

use regex::Regex;

use crate::support::{Place, Terminal, has_commands, on_terminal, one_command, steady};

pub(crate) const ASKING: &str = "[agent]\nns = \"t\"\nkey = \"t\"\n\n[[section]]\nkey = \"s\"\ntitle = \"S\"\nsuites = [\"files\"]\n\n[[section.policy]]\napproval = { tools = [\"write_file\"] }\n";

const WRITE: [&str; 3] = ["call", "write_file", r#"{"path": "a.txt", "content": "x"}"#];

fn without_colours(text: &str) -> String {
    Regex::new("\x1b\\[[0-9;]*m").unwrap().replace_all(text, "").into_owned()
}

pub(crate) fn colours(text: &str) -> String {
    steady(text).replace('\x1b', "\\e")
}

#[test]
fn the_log_has_colours_and_fits() {
    let place = Place::new();
    place.write("a-file-with-a-rather-long-name-for-a-narrow-terminal.txt", "one\n");
    assert_eq!(place.wink(&["call", "read_file", r#"{"path": "nope"}"#]).code, Some(1));
    let (code, seen) = on_terminal(place.command(&["log"]), 60, "");
    assert_eq!(code, Some(0));
    insta::assert_snapshot!("log_on_a_terminal", colours(&seen));
    let long: Vec<String> =
        without_colours(&seen).lines().filter(|line| line.chars().count() > 60).map(str::to_owned).collect();
    assert_eq!(long, Vec::<String>::new());
    // Where there is no room for a table, nothing is lost.
    let (_, narrow) = on_terminal(place.command(&["log"]), 40, "");
    let narrow = without_colours(&narrow);
    insta::assert_snapshot!("log_on_a_narrow_terminal", steady(&narrow));
    assert_eq!(narrow.lines().find(|line| line.chars().count() > 40), None);
    let (_, wide) = on_terminal(place.command(&["log"]), 200, "");
    assert_eq!(
        without_colours(&wide),
        place.wink(&["log"]).ok(),
        "nothing but colours differs where there is room"
    );
    let (_, plain) = {
        let mut command = place.command(&["log"]);
        command.env("NO_COLOR", "1");
        on_terminal(command, 200, "")
    };
    assert!(!plain.contains('\x1b'), "{plain}");
}

#[test]
fn tools_are_described_however_narrow_the_terminal() {
    let place = Place::new();
    let descriptions: Vec<String> =
        place.json(&["tools"]).as_array().unwrap().iter().map(description).collect();
    for columns in [40, 80, 250] {
        let (_, seen) = on_terminal(place.command(&["tools"]), columns, "");
        let seen = without_colours(&seen);
        assert!(!seen.contains('…'), "{seen}");
        assert_eq!(seen.lines().find(|line| line.trim_end().chars().count() > usize::from(columns)), None);
        let words: Vec<&str> = seen.split_whitespace().collect();
        for description in &descriptions {
            assert!(words.join(" ").contains(description), "{description}: {seen}");
        }
    }
}

fn description(tool: &serde_json::Value) -> String {
    tool["description"].as_str().unwrap().to_owned()
}

#[test]
fn help_fits_the_terminal() {
    let place = Place::new();
    for arguments in
        [&["--help"][..], &["-h"], &["call", "--help"], &["ledger", "resolve", "--help"], &["serve", "-h"]]
    {
        let (_, seen) = on_terminal(place.command(arguments), 60, "");
        let seen = without_colours(&seen);
        let long = |line: &&str| line.trim_end().chars().count() > 60 && !line.starts_with("Usage: ");
        assert_eq!(seen.lines().find(long), None, "{seen}");
    }
}

#[test]
fn a_server_without_a_client_says_what_it_is() {
    let place = Place::new();
    let mut terminal = Terminal::start(place.command(&["serve"]), 120);
    terminal.until("this speaks MCP");
    terminal.types("\u{4}");
    assert_eq!(terminal.ends().0, Some(0));
}

#[test]
fn a_diff_has_colours() {
    let place = Place::new();
    place.write("a.txt", "one\ntwo\n");
    place.call("edit_file", r#"{"path": "a.txt", "old_string": "two", "new_string": "three"}"#);
    let (_, seen) = on_terminal(place.command(&["diff", "last"]), 80, "");
    insta::assert_snapshot!("diff_on_a_terminal", colours(&seen));
    assert_eq!(without_colours(&seen), place.wink(&["diff", "last"]).ok());
}

#[test]
fn all_of_a_call_on_a_terminal() {
    let place = Place::new();
    place.write("notes/a.txt", "one\ntwo\n");
    assert_eq!(place.wink(&["call", "read_file", r#"{"path": "nope"}"#]).code, Some(1));
    let shown = |which: &str| {
        let (code, seen) = on_terminal(place.command(&["show", which]), 60, "");
        assert_eq!(code, Some(0), "{seen}");
        colours(&seen)
    };
    insta::assert_snapshot!("show_on_a_terminal", shown("1"));
    insta::assert_snapshot!("show_failed_on_a_terminal", shown("2"));
    let (code, seen) = on_terminal(place.command(&["undo", "1"]), 60, "");
    insta::assert_snapshot!("undo_on_a_terminal", colours(&seen));
    assert_eq!((code, place.names()), (Some(0), Vec::new()));
    insta::assert_snapshot!("show_undo_on_a_terminal", shown("3"));
    let (code, seen) = on_terminal(place.command(&["undo", "1"]), 60, "");
    insta::assert_snapshot!("undo_refused_on_a_terminal", colours(&seen));
    assert_eq!(code, Some(1));
}

/// What `doctor` finds of the workspace. What it finds of the machine is another one everywhere.
fn of_the_workspace(doctor: &str) -> String {
    let mut lines = doctor.lines();
    assert!(without_colours(lines.next().unwrap()).starts_with("wink "), "{doctor}");
    let (mut kept, mut keeps) = (String::new(), false);
    for line in lines {
        let plain = without_colours(line);
        if !plain.starts_with(' ') {
            let name = plain.get(8..).and_then(|rest| rest.split_once(": ")).map(|(name, _)| name);
            keeps = name.is_some_and(|name| ["agent", "workspace", "store", "ledger"].contains(&name));
        }
        if keeps {
            kept += &format!("{line}\n");
        }
    }
    kept
}

#[test]
fn a_doctor_tells_of_the_workspace() {
    let place = Place::with_agent(ASKING);
    insta::assert_snapshot!("doctor_at_first", steady(&of_the_workspace(&place.wink(&["doctor"]).ok())));
    place.call("list_directory", "{}");
    let plain = of_the_workspace(&place.wink(&["doctor"]).ok());
    insta::assert_snapshot!("doctor", steady(&plain));
    let (code, seen) = on_terminal(place.command(&["doctor"]), 250, "");
    let seen = of_the_workspace(&seen);
    insta::assert_snapshot!("doctor_on_a_terminal", colours(&seen));
    assert_eq!((code, without_colours(&seen)), (Some(0), plain));
    place.put("wink.toml", "[agent]\nns = 1\n");
    let broken = place.wink(&["doctor"]);
    assert_eq!(broken.code, Some(1));
    insta::assert_snapshot!("doctor_of_a_broken_agent", steady(&of_the_workspace(&broken.out)));
}

#[test]
fn a_doctor_says_that_there_are_more_sessions_than_it_names() {
    let place = Place::new();
    for number in 10..22 {
        place.wink(&["call", "list_directory", "--session", &format!("s{number}")]).ok();
    }
    let doctor = place.wink(&["doctor"]).ok();
    let found = "12 sessions: s10, s11, s12, s13, s14, s15, s16, s17, s18, s19 and 2 more\n";
    assert!(doctor.contains(found), "{doctor}");
}

#[test]
fn errors_have_colours_too() {
    let place = Place::new();
    let (code, seen) = on_terminal(place.command(&["show", "last"]), 80, "");
    assert_eq!(code, Some(2));
    insta::assert_snapshot!("error_on_a_terminal", colours(&seen));
}

#[test]
fn what_a_model_wrote_does_not_command_the_terminal() {
    let place = Place::new();
    place.write("a.txt", "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m text\n");
    for arguments in [
        &["call", "read_file", r#"{"path": "a.txt"}"#][..],
        &["log"],
        &["show", "1"],
        &["diff", "1"],
        &["call", "\u{1b}[2J"],
        &["show", "\u{1b}[2J"],
    ] {
        let (_, seen) = on_terminal(place.command(arguments), 80, "");
        let seen = without_colours(&seen);
        assert!(!seen.contains(['\x1b', '\u{7}', '\u{9b}']), "{arguments:?}: {seen:?}");
    }
    let (_, seen) = on_terminal(place.command(&["call", "read_file", r#"{"path": "a.txt"}"#]), 80, "");
    assert!(seen.contains("␛]0;owned␇␛[2J"), "{seen:?}");
}

#[test]
fn somebody_is_asked_and_says_yes() {
    let place = Place::with_agent(ASKING);
    let mut terminal = Terminal::start(place.command(&WRITE), 80);
    terminal.until("[y/N]");
    terminal.types("y\n");
    let (code, seen) = terminal.ends();
    assert_eq!(code, Some(0), "{seen}");
    insta::assert_snapshot!("asked", without_colours(&seen));
    assert_eq!(place.text("a.txt").as_deref(), Some("x"));
    let shown = place.json(&["show", "last"]);
    assert_eq!(
        (&shown["decision"]["outcome"], &shown["approvers"][0]),
        (&"approved".into(), &"somebody".into())
    );
}

#[test]
fn anything_but_yes_is_no() {
    for answer in ["n\n", "\n", "perhaps\n", "\u{4}"] {
        let place = Place::with_agent(ASKING);
        let mut terminal = Terminal::start(place.command(&WRITE), 80);
        terminal.until("[y/N]");
        terminal.types(answer);
        let (code, seen) = terminal.ends();
        assert_eq!(code, Some(1), "{answer:?}: {seen}");
        assert!(seen.contains("was not approved by somebody"), "{answer:?}: {seen}");
        assert_eq!(place.text("a.txt"), None);
    }
}

#[test]
fn a_question_that_nobody_answers_can_be_cancelled() {
    let place = Place::with_agent(ASKING);
    let mut terminal = Terminal::start(place.command(&WRITE), 80);
    terminal.until("[y/N]");
    terminal.interrupt();
    let (code, seen) = terminal.ends();
    assert_eq!(code, Some(3), "{seen}");
    assert_eq!(place.text("a.txt"), None);
}

#[test]
fn in_a_pipe_nobody_can_be_asked() {
    let place = Place::with_agent(ASKING);
    let said = place.wink(&WRITE);
    insta::assert_snapshot!("nobody_to_ask", said.whole());
    assert_eq!((said.code, place.text("a.txt")), (Some(1), None));
    place.wink(&[&WRITE[..], &["--yes"]].concat()).ok();
    assert_eq!(place.text("a.txt").as_deref(), Some("x"));
    assert_eq!(place.json(&["show", "last"])["approvers"][0], "--yes");
    let check = place.wink(&["policy", "check", "write_file", r#"{"path": "b.txt", "content": "x"}"#]);
    insta::assert_snapshot!("policy_asks", check.whole());
}

#[test]
fn a_wait_of_more_than_a_second_is_shown_and_leaves_no_trace() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&one_command("slow"));
    let line = place.pipe("line");
    place.put_script("slow", &format!("read word < {}\necho \"$word\"", line.display()));
    let mut terminal = Terminal::start(place.command(&["call", "slow"]), 80);
    terminal.until("calling slow 1s");
    std::fs::write(&line, "done\n").unwrap();
    let (code, seen) = terminal.ends();
    assert_eq!(code, Some(0), "{seen:?}");
    // The line is removed before the answer comes.
    assert!(seen.ends_with("\r\x1b[2Kdone\n"), "{seen:?}");
    // In a pipe nothing is said.
    let mut command = place.command(&["call", "slow"]);
    let child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    std::fs::write(&line, "done\n").unwrap();
    let said = crate::support::said(child.wait_with_output().unwrap());
    assert_eq!(said.ok(), "done\n");
}
