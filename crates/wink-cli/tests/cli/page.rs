//! The pages `docs/using-wink.md` and `docs/first-agent.md`: their files are written, their commands typed, and what they print is what they say.
//!
//! A line before a fenced block says what is done with it:
//!
//! ```text
//! (nothing)                     console: typed in a pipe, one after the other; sh: not run
//! <!-- using: file PATH -->     written to PATH
//! <!-- using: terminal -->      console: typed on a terminal, and answered as it shows
//! <!-- using: http -->          console: a server that is ended when it is ready
//! <!-- using: claude -->        sh: has Claude Code start what the next client's configuration says
//! <!-- using: client -->        how a client is told to start a server, which is started
//! <!-- using: call -->          json: a call that the first of these clients makes
//! <!-- using: json -->          JSON
//! <!-- using: provider -->      sh: as one script, with a server in the provider's place
//! <!-- using: local -->         sh: as one script, with a server in place of the one at port 8080
//! <!-- using: native -->        sh: as one script, with a program in place of Claude Code that edits with a tool of its own
//! <!-- using: model -->         toml: goes into wink.toml
//! ```

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::serve::{Client, Pipes};
use crate::support::{Place, Terminal, has_commands, said, steady};

/// A fenced block, and what the page says is done with it.
struct Block<'a> {
    marker: &'a str,
    language: &'a str,
    body: String,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut marker = "";
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(text) = line.strip_prefix("<!-- using: ") {
            marker = text.strip_suffix(" -->").unwrap();
        } else if let Some(language) = line.strip_prefix("```") {
            let body = lines.by_ref().take_while(|line| *line != "```");
            let body = body.map(|line| format!("{line}\n")).collect();
            blocks.push(Block { marker: std::mem::take(&mut marker), language, body });
        }
    }
    blocks
}

/// The commands of a console, each with what it prints.
fn typed(console: &str) -> Vec<(&str, String)> {
    let mut typed: Vec<(&str, String)> = Vec::new();
    for line in console.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => typed.push((command, String::new())),
            None => typed.last_mut().unwrap().1.push_str(&format!("{line}\n")),
        }
    }
    typed
}

/// A shell that is told this line, and finds the program.
fn shell(place: &Place, line: &str) -> Command {
    let programs = Path::new(env!("CARGO_BIN_EXE_wink")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = place.program("sh");
    command.args(["-c", &format!("exec 2>&1; {line}")]).env("PATH", path).env("USER", "me");
    command
}

/// On a terminal, where a question is answered as the page shows.
fn on_terminal(place: &Place, line: &str, shown: &str) -> String {
    let mut command = shell(place, line);
    command.env("NO_COLOR", "1");
    let mut terminal = Terminal::start(command, 200);
    if let Some((_, answer)) = shown.split_once("[y/N] ") {
        terminal.until("[y/N] ");
        terminal.types(&format!("{}\n", answer.lines().next().unwrap()));
    }
    // A line that tells of a wait is gone when it is over.
    Regex::new("\r\x1b\\[2K[^\r\n]*").unwrap().replace_all(&terminal.ends().1, "").into_owned()
}

/// What a server over HTTP says when it is ready. It takes a port that is free instead of the one shown.
fn over_http(place: &Place, line: &str) -> String {
    let line = line.replace("8377", "0");
    let mut command = shell(place, &format!("exec {line}"));
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = format!("{}\n{}\n", lines.next().unwrap().unwrap(), lines.next().unwrap().unwrap());
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    Regex::new(r":\d+/").unwrap().replace(&ready, ":8377/").into_owned()
}

/// The words with which a client starts its server.
fn start(configuration: &Block<'_>) -> Vec<String> {
    let (command, args) = match configuration.language {
        "json" => {
            let value: Value = serde_json::from_str(&configuration.body).unwrap();
            let server = &value["mcpServers"]["handbook"];
            (server["command"].clone(), server["args"].clone())
        }
        _ => {
            // Texts and lists of texts are written in TOML as they are in JSON.
            let value = |key: &str| {
                let line = configuration.body.lines().find_map(|line| line.strip_prefix(key)).unwrap();
                serde_json::from_str(line.trim_start_matches(" = ")).unwrap()
            };
            (value("command"), value("args"))
        }
    };
    let args = args.as_array().unwrap().iter();
    [&command].into_iter().chain(args).map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// Starts a server as a client would.
fn started(place: &Place, words: &[String]) -> Pipes {
    let words: Vec<String> =
        words.iter().map(|word| word.replace("/home/me/handbook", place.root().to_str().unwrap())).collect();
    assert_eq!(words[0], "wink");
    let arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    Pipes::over(place.command(&arguments))
}

/// Looks what a server has.
fn serves(place: &Place, words: &[String]) {
    let mut client = started(place, words);
    let answer = client.request("tools/list", json!({}));
    let tools = answer["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["run_tests", "build", "deploy"]);
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn the_page_on_using_wink_is_true() {
    if !has_commands() {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/using-wink.md");
    let page = std::fs::read_to_string(path).unwrap();
    let place = Place::new();
    let (mut commands, mut clients) = (0, Vec::new());
    let mut added = None;
    for block in blocks(&page) {
        match (block.marker, block.language) {
            ("", "sh") => {}
            ("json", "json") => drop(serde_json::from_str::<Value>(&block.body).unwrap()),
            ("claude", "sh") => added = Some(block.body.split_once(" -- ").unwrap().1.trim().to_owned()),
            ("client", _) => {
                let words = start(&block);
                if let Some(added) = added.take() {
                    assert_eq!(added, words.join(" "), "the command and the file say the same");
                }
                serves(&place, &words);
                clients.push(words);
            }
            ("call", "json") => {
                let params = serde_json::from_str(&block.body).unwrap();
                let mut client = started(&place, &clients[0]);
                let answer = client.request("tools/call", params);
                assert_eq!(answer["result"]["isError"], false, "{answer:#}");
                assert_eq!(client.leave(), Some(0));
            }
            (how @ ("" | "terminal" | "http"), "console") => {
                for (line, shown) in typed(&block.body) {
                    let printed = match how {
                        "" => said(shell(&place, line).stdin(Stdio::null()).output().unwrap()).out,
                        "terminal" => on_terminal(&place, line, &shown),
                        _ => over_http(&place, line),
                    };
                    assert_eq!(stable(&printed), stable(&shown), "{line}");
                    commands += 1;
                }
            }
            (marker, language) => match marker.strip_prefix("file ") {
                Some(path) => place.put(path, &block.body),
                None => panic!("a block of {language} that nothing is done with: {marker:?}"),
            },
        }
    }
    assert!(commands > 30 && clients.len() == 2, "only {commands} commands and {} clients", clients.len());
}

fn stable(text: &str) -> String {
    let text = steady(text);
    Regex::new("Bearer [0-9a-f]+").unwrap().replace_all(&text, "Bearer <token>").into_owned()
}

/// What a model would say that does the task at once.
fn model() -> &'static str {
    r#"{"tool_calls": [{"id": "1", "name": "read_file", "arguments": {"path": "plants.txt"}}]}
{"tool_calls": [{"id": "2", "name": "edit_file", "arguments": {"path": "plants.txt", "old_string": "pear\n", "new_string": "pear\nquince\n"}}]}
{"tool_calls": [{"id": "3", "name": "check", "arguments": {}}]}
{"text": "The quince is on the list."}
"#
}

/// The page has four ways, each from an empty directory. The files are the same for all.
#[test]
fn the_page_on_a_first_agent_is_true() {
    if !has_commands() {
        return;
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/first-agent.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (begin, rest) = page.split_once("## Without a model").unwrap();
    let (script, rest) = rest.split_once("## With a provider's key").unwrap();
    let (provider, rest) = rest.split_once("## With a server of your own").unwrap();
    let (local, rest) = rest.split_once("## With Claude Code").unwrap();
    let (claude, end) = rest.split_once("## When it does not go on").unwrap();
    for way in [format!("{script}{end}"), provider.to_owned(), local.to_owned(), claude.to_owned()] {
        let place = Place::new();
        let commands = follow(&place, begin) + follow(&place, &way);
        assert!((3..10).contains(&commands), "{commands} commands");
    }
}

/// Does what a part of the page says: how many commands that takes.
fn follow(place: &Place, part: &str) -> usize {
    let mut commands = 0;
    for Block { marker, language, body } in blocks(part) {
        match (marker, language) {
            ("", "console") => {
                for (line, shown) in typed(&body) {
                    let printed = said(shell(place, line).stdin(Stdio::null()).output().unwrap()).out;
                    assert_eq!(stable(&printed), stable(&shown), "{line}");
                    commands += 1;
                }
            }
            ("provider" | "local", "sh") => {
                let server = crate::run::Server::start(model());
                if marker == "local" {
                    server.fake.without_keys();
                }
                let body = body.replace("http://127.0.0.1:8080", &server.fake.url());
                let mut command = shell(place, &format!("set -e\n{body}"));
                command.env("ANTHROPIC_BASE_URL", server.fake.url()).env_remove("ANTHROPIC_API_KEY");
                let ran = said(command.stdin(Stdio::null()).output().unwrap());
                assert_eq!(ran.code, Some(0), "{}", ran.out);
                assert!(ran.out.contains("The quince is on the list.\n"), "{}", ran.out);
                assert_eq!(place.text("plants.txt").as_deref(), Some("apple\npear\nquince\n"));
                assert_eq!(server.fake.left(), 0, "all was asked of the model");
                commands += body.lines().count();
            }
            #[cfg(feature = "claude")]
            ("native", "sh") => {
                let path =
                    crate::natives::path_with_claude(place, &[("plants.txt", "echo quince >> plants.txt")]);
                let mut command = shell(place, &format!("set -e\n{body}"));
                let usual =
                    command.get_envs().find(|(name, _)| *name == "PATH").unwrap().1.unwrap().to_owned();
                command.env("PATH", format!("{path}:{}", usual.display()));
                let ran = said(command.stdin(Stdio::null()).output().unwrap());
                assert_eq!(ran.code, Some(0), "{}", ran.out);
                assert!(
                    ran.out.contains("claude_edit") && ran.out.contains("1 file is as before"),
                    "{}",
                    ran.out
                );
                assert_eq!(place.text("plants.txt").as_deref(), Some("apple\npear\n"));
                commands += body.lines().count();
            }
            ("model", "toml") => {
                place.put("wink.toml", &(place.text("wink.toml").unwrap() + "\n" + &body));
                assert_eq!(place.wink(&["tools"]).code, Some(0));
            }
            (marker, language) => match marker.strip_prefix("file ") {
                Some(path) => place.put(path, &body),
                None => panic!("a block of {language} that nothing is done with: {marker:?}"),
            },
        }
    }
    commands
}
