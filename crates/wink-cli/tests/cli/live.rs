//! A run on a terminal, as it is seen while it goes on: how far it is, on a line that fits.

use regex::Regex;

use crate::run::{Server, place, until_ready, waiting};
use crate::support::{Terminal, has_commands};

const COLUMNS: u16 = 80;

/// Looks until the last line ends like this, gives all of that line, and has the run stopped.
fn seen(mut terminal: Terminal, end: &str) -> String {
    // The line is drawn in one piece, and the next begins by wiping it.
    terminal.until(&format!("{end}\r"));
    terminal.interrupt();
    let (code, seen) = terminal.ends();
    assert_eq!(code, Some(3), "{seen}");
    assert!(seen.contains("the run was cancelled"), "{seen}");
    let lines: Vec<&str> = seen.split("\r\x1b[2K").filter(|line| line.ends_with(end)).collect();
    let line = *lines.first().unwrap_or_else(|| panic!("{seen:?}"));
    assert!(line.chars().count() < COLUMNS.into(), "{line}");
    line.to_owned()
}

#[test]
fn a_terminal_shows_how_far_it_is() {
    if !has_commands() {
        return;
    }
    let (place, line) = waiting();
    let arguments = ["run", "Go.", "--model", "script:../script.jsonl", "--deadline", "100s"];
    let terminal = Terminal::start(place.command(&arguments), COLUMNS);
    until_ready(&line);
    let line = seen(terminal, "left; calling wait");
    let wanted = Regex::new("^. 2 turns, 1 call, (1m [0-9]{2}|[0-9]{2})s left; calling wait$").unwrap();
    assert!(wanted.is_match(&line), "{line}");
}

/// Reads a file, fails to edit it, and then says this, and no end of it.
fn stalled(reply: &str) -> String {
    format!(
        r#"{{"tool_calls": [{{"id": "1", "name": "read_file", "arguments": {{"path": "theirs"}}}}], "usage": {{"input_tokens": 123456, "output_tokens": 1234}}}}
{{"tool_calls": [{{"id": "2", "name": "edit_file", "arguments": {{"path": "theirs", "old_string": "x", "new_string": "y"}}}}]}}
{reply}
"#
    )
}

/// What is seen of a run whose provider says this, and then nothing more.
fn while_it_comes(reply: &str, end: &str) -> String {
    let (place, server) = (place(""), Server::start(&stalled(reply)));
    // Were it never to be seen, the deadline would end the run.
    let arguments =
        ["run", "Go.", "--model", "anthropic:m", "--base-url", &server.fake.url(), "--deadline", "100s"];
    let mut command = place.command(&arguments);
    command.args(["--key-env", "TEST_KEY"]).env("TEST_KEY", "sk-planted-key-123");
    seen(Terminal::start(command, COLUMNS), end)
}

/// What must be seen before anything else.
fn is_first(line: &str, rest: &str) {
    let numbers = r"^. 2 turns, 2 calls \(1 rolled back\), 124k tokens, (1m [0-9]{2}|[0-9]{2})s left; ";
    let whole = Regex::new(&format!("{numbers}{rest}$")).unwrap();
    assert!(whole.is_match(line), "{line}");
}

#[test]
fn the_newest_words_are_seen_while_they_come_and_take_nothing_elses_place() {
    let words = "The words that come first are of no more use to anybody who looks on than all the others, so the last are seen: these.";
    let events = 3 + words.len().div_ceil(6);
    let line = while_it_comes(&format!(r#"{{"text": {words:?}, "stall": {events}}}"#), "these.");
    is_first(&line, "…[a-z :]*these\\.");
}

#[test]
fn a_call_that_is_being_written_is_named() {
    let reply = r#"{"text": "Now.", "tool_calls": [{"id": "3", "name": "grep", "arguments": {"pattern": "a long pattern"}}], "stall": 8}"#;
    is_first(&while_it_comes(reply, "call of grep"), "…[a-z ]*call of grep");
}

#[test]
fn thinking_is_told() {
    let reply = r#"{"thinking": "I wonder whether that will do.", "text": "Done.", "stall": 5}"#;
    is_first(&while_it_comes(reply, "left; thinking"), "thinking");
}
