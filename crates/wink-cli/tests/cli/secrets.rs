//! Secrets: keys are planted wherever one can come from, and all that the program says, writes and stores is searched for them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::run::Server;
use crate::serve::{Client, Pipes};
use crate::support::{Place, Said, has_commands, said};

/// In the variable of the key.
const KEY: &str = "planted-provider-key-4711";
/// The same in base64, but for its end, which what follows decides.
const ENCODED: &str = "cGxhbnRlZC1wcm92aWRlci1rZXktNDcx";
/// An argument that is sensitive.
const ARGUMENT: &str = "planted-argument-secret-4712";

/// A command that shows all that it is given, but for what it was given in confidence.
const AGENT: &str = r#"[agent]
ns = "t"
key = "t"

[model]
provider = "PROVIDER"
model = "a-model"
url = "URL"
key_env = "PLANTED_KEY"
retry = { attempts = 2, delay = "1ms" }

[[section]]
key = "s"
title = "S"
suites = ["files"]

[[section.tool]]
name = "complain"
description = "Complain."
command = ["./complain"]
params = { type = "object" }

[[section.tool]]
name = "look"
description = "Look around."
command = ["./look"]
sensitive = ["token"]
arguments = "stdin"
params = { type = "object", required = ["token"], properties = { token = { type = "string" }, what = { type = "string" } } }
"#;

/// Looks at what it was given, and at what the program above it was given, which runs as the same user.
const LOOK: &str = r#"env | sort
cat > /dev/null
one=$PPID
while [ "${one:-0}" -gt 0 ]; do
    case $(readlink "/proc/$one/exe") in */wink) ;; *) [ "$one" = "$PPID" ] || break ;; esac
    echo "looked at $one"
    tr '\0' '\n' < "/proc/$one/environ"
    one=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$one/status")
done 2> /dev/null
tr '\0' '\n' < /proc/self/environ
echo looked > looked"#;

/// Files of the workspace that have the key, and so have it by right.
const OWN: [&str; 3] = ["look", "complain", "notes.txt"];

/// Every byte below a directory, but for the files that have them by right.
fn bytes_below(dir: &Path, all: &mut Vec<(String, Vec<u8>)>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.symlink_metadata().unwrap().file_type() {
            _ if OWN.iter().any(|own| path.ends_with(own)) => {}
            kind if kind.is_dir() => bytes_below(&path, all),
            kind if kind.is_file() => all.push((path.display().to_string(), std::fs::read(&path).unwrap())),
            _ => {}
        }
    }
}

/// Nobody finds the secrets in what was said, or in what is on the disk.
fn nothing_leaked(place: &Place, said: &[&Said]) {
    let mut all = Vec::new();
    bytes_below(&place.outside(""), &mut all);
    for said in said {
        all.push(("standard output".to_owned(), said.out.clone().into_bytes()));
        all.push(("standard error".to_owned(), said.err.clone().into_bytes()));
    }
    assert!(all.len() > 8, "there is something to search");
    for (name, bytes) in &all {
        for secret in [KEY, ARGUMENT, ENCODED] {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} is in {name}: {}", String::from_utf8_lossy(bytes));
        }
    }
}

fn place(provider: &str, url: &str) -> Place {
    let place = Place::with_agent(&AGENT.replace("PROVIDER", provider).replace("URL", url));
    place.put_script("look", LOOK);
    place.put_script("complain", "exit 1");
    place
}

fn run(place: &Place, more: &[&str], log: Option<&str>) -> Said {
    // Whoever asks may not know better, either.
    let mut command = place.command(&["run", &format!("Look around with {KEY}.")]);
    command.args(more).env("PLANTED_KEY", KEY).stdin(Stdio::null());
    if let Some(log) = log {
        command.env("WINK_LOG", log);
    }
    said(command.output().unwrap())
}

/// A model that calls the tool with a secret, and repeats it; and a provider that then says which key was wrong.
fn script() -> String {
    format!(
        "{{\"text\": \"I use {ARGUMENT} now.\", \"tool_calls\": [{{\"id\": \"1\", \"name\": \"look\", \"arguments\": {{\"token\": \"{ARGUMENT}\", \"what\": \"all\"}}}}]}}\n{{\"fault\": \"unauthorized\"}}\n"
    )
}

/// The same with the key in all that the model writes and calls: arguments, what a command says, what one says that fails, a file.
fn script_with_key() -> String {
    let call = |id: &str, name: &str, arguments: serde_json::Value| serde_json::json!({ "id": id, "name": name, "arguments": arguments });
    let calls = [
        call("1", "look", serde_json::json!({ "token": ARGUMENT, "what": KEY })),
        call("2", "complain", serde_json::json!({})),
        call("3", "read_file", serde_json::json!({ "path": "notes.txt" })),
        // One that is not accepted, and one of a tool that there is not.
        call("4", "look", serde_json::json!({ "token": "t", KEY: KEY })),
        call("5", KEY, serde_json::json!({ "path": KEY })),
        call("6", "read_file", serde_json::json!({ "path": format!("{KEY}.txt") })),
    ];
    let said = serde_json::json!({ "tool_calls": calls });
    format!("{said}\n{{\"fault\": \"unauthorized\"}}\n")
}

#[test]
fn keys_and_sensitive_arguments_are_nowhere() {
    if !has_commands() {
        return;
    }
    for (provider, path) in [("anthropic", ""), ("openai", "/v1"), ("openai-chat", "/v1")] {
        for (more, log) in [
            (&["--record", "../run.jsonl", "-vvv"][..], None),
            (&["--record", "run.jsonl", "--json"], Some("trace")),
        ] {
            let server = Server::start(&script_with_key());
            let place = place(provider, &format!("{}{path}", server.fake.url()));
            place.put_script("look", &format!("{LOOK}\necho it is {KEY}\necho and {KEY} >&2"));
            place.put_script(
                "complain",
                &format!("cat > /dev/null\necho not {KEY}\necho wrong: {KEY} >&2\nexit 1"),
            );
            place.put("notes.txt", &format!("the key is\n{KEY}\n"));
            let stopped = run(&place, more, log);
            assert_eq!(stopped.code, Some(2), "{}", stopped.err);
            assert!(stopped.err.contains("does not accept the key"), "{}", stopped.err);
            let (log, show) = (place.wink(&["log", "--json"]), place.wink(&["show", "1", "--json"]));
            let rows = place.rows(&["log"]);
            let ended: Vec<_> = rows.iter().map(|row| row["success"].as_bool()).collect();
            let [yes, no] = [Some(true), Some(false)];
            assert_eq!(ended, [yes, no, yes, no, no, no], "{rows:#?}");
            assert!(log.out.contains("WINK_TOOL=look"), "the command told its environment: {}", log.out);
            assert!(!log.out.contains("PLANTED_KEY="), "which has no variable of a key");
            for said in ["it is ***", "wrong: ***"] {
                assert!(log.out.contains(said), "{said} is told: {}", log.out);
            }
            nothing_leaked(
                &place,
                &[&stopped, &log, &show, &place.wink(&["prompt"]), &place.wink(&["tools", "--json"])],
            );
        }
    }
}

#[test]
fn a_recording_has_neither_where_the_model_repeats_them() {
    if !has_commands() {
        return;
    }
    let server = Server::start(&script());
    let place = place("openai-chat", &format!("{}/v1", server.fake.url()));
    assert_eq!(run(&place, &["--record", "../run.jsonl", "--json"], None).code, Some(2));
    let recorded = std::fs::read_to_string(place.outside("run.jsonl")).unwrap();
    assert!(recorded.contains("I use *** now.") && recorded.contains("look"), "{recorded}");
    assert!(!recorded.contains(ARGUMENT) && !recorded.contains(KEY), "{recorded}");
}

/// Answers whoever comes with all that they sent, in the body and in a header.
fn echo(times: usize) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let mut heard = Vec::new();
        for _ in 0..times {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
            let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
            while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
                let count = stream.read(&mut part).unwrap();
                assert!(count > 0, "the request ended early");
                bytes.extend_from_slice(&part[..count]);
            }
            let head = String::from_utf8_lossy(&bytes).split("\r\n\r\n").next().unwrap().to_owned();
            let told = head.replace("\r\n", " ");
            let body =
                serde_json::json!({ "error": { "message": told, "type": "server_error" } }).to_string();
            let _ = write!(
                stream,
                "HTTP/1.1 500 {told}\r\nx-echo: {told}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            heard.push(head);
        }
        heard
    });
    (url, thread)
}

#[test]
fn a_provider_that_repeats_the_key_does_not_have_it_told() {
    for provider in ["anthropic", "openai", "openai-chat"] {
        let (url, thread) = echo(2);
        let place = place(provider, &url);
        let stopped = run(&place, &["--record", "../run.jsonl", "-vv"], None);
        assert_eq!(stopped.code, Some(3), "{}", stopped.err);
        let heard = thread.join().unwrap();
        assert!(heard.iter().all(|head| head.contains(KEY)), "the provider itself is told: {heard:?}");
        nothing_leaked(&place, &[&stopped, &place.wink(&["log", "--json"])]);
    }
}

#[test]
fn a_key_in_the_wrong_place_is_not_repeated() {
    let agent = AGENT.replace("PROVIDER", "openai").replace("URL", "https://example.com");
    for (place, code) in [
        (Place::with_agent(&agent.replace("PLANTED_KEY", &format!("sk-{KEY}"))), Some(2)),
        (Place::with_agent(&agent.replace("https://", &format!("https://me:{KEY}@"))), Some(2)),
    ] {
        let said = place.wink(&["run", "x"]);
        assert_eq!(said.code, code, "{said:?}");
        assert!(!said.err.contains(KEY), "{}", said.err);
    }
}

#[test]
fn no_usual_key_is_for_commands_whatever_the_model() {
    if !has_commands() {
        return;
    }
    let usual = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY"];
    let place = place("openai", "https://example.com");
    place.put_script("look", &format!("{LOOK}\necho seen: $OTHER\necho it is {KEY}\nprintf {KEY} | base64"));
    let call =
        serde_json::json!({ "tool_calls": [{ "id": "1", "name": "look", "arguments": { "token": "t" } }] });
    std::fs::write(place.outside("script.jsonl"), format!("{call}\n{{\"text\": \"Done.\"}}\n")).unwrap();
    let arguments = ["run", "Look.", "--model", "script:../script.jsonl", "--record", "../run.jsonl"];
    let mut command = place.command(&arguments);
    command.envs(usual.map(|name| (name, KEY))).env("PLANTED_KEY", KEY).env("OTHER", "is given");
    let ran = said(command.stdin(Stdio::null()).output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Done.\n"), "{}", ran.err);
    let log = place.wink(&["log", "--json"]);
    assert!(log.out.contains("looked at ") && log.out.contains("seen: is given"), "{}", log.out);
    assert!(log.out.contains("it is ***"), "{}", log.out);
    // The same where a run is repeated.
    let mut command = place.command(&["replay", "../run.jsonl", "--outside", "--into", "../copy"]);
    command.envs(usual.map(|name| (name, KEY))).env("PLANTED_KEY", KEY).env("OTHER", "is given");
    let replayed = said(command.stdin(Stdio::null()).output().unwrap());
    nothing_leaked(&place, &[&ran, &log, &replayed]);
}

#[test]
fn a_command_is_given_a_key_that_its_own_table_has() {
    if !has_commands() {
        return;
    }
    let agent = format!("{AGENT}env = {{ OPENAI_API_KEY = \"for the tool\" }}\n");
    let place = Place::with_agent(&agent.replace("PROVIDER", "openai").replace("URL", "https://example.com"));
    place.put_script("look", "cat > /dev/null\necho it is $OPENAI_API_KEY");
    let call =
        serde_json::json!({ "tool_calls": [{ "id": "1", "name": "look", "arguments": { "token": "t" } }] });
    std::fs::write(place.outside("script.jsonl"), format!("{call}\n{{\"text\": \"Done.\"}}\n")).unwrap();
    let mut command = place.command(&["run", "Look.", "--model", "script:../script.jsonl"]);
    let ran = said(command.env("OPENAI_API_KEY", KEY).stdin(Stdio::null()).output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "Done.\n"), "{}", ran.err);
    assert_eq!(place.rows(&["log"])[0]["message"], "it is for the tool");
}

#[test]
fn no_key_is_for_commands_of_single_calls_and_of_servers_either() {
    if !has_commands() {
        return;
    }
    let usual = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY"];
    let place = place("openai", "https://example.com");
    place.put_script("look", &format!("{LOOK}\necho seen: $OTHER"));
    let given = |mut command: Command| {
        command.envs(usual.map(|name| (name, KEY))).env("PLANTED_KEY", KEY).env("OTHER", "is given");
        command
    };
    let called = given(place.command(&["call", "look", r#"{"token": "t"}"#])).stdin(Stdio::null()).output();
    let called = said(called.unwrap());
    assert_eq!(called.code, Some(0), "{}", called.err);
    let mut client = Pipes::over(given(place.command(&["serve"])));
    let served = client.call("look", &serde_json::json!({ "token": "t" }));
    assert_eq!(client.leave(), Some(0));
    for text in [&called.out, &served] {
        assert!(text.contains("looked at ") && text.contains("seen: is given"), "{text}");
    }
    let served = Said { code: Some(0), out: served, err: String::new() };
    nothing_leaked(&place, &[&called, &served]);
}

#[test]
fn a_command_is_given_a_key_that_its_table_names() {
    if !has_commands() {
        return;
    }
    for more in ["", "sandbox = true\n"] {
        let agent = format!("{AGENT}env = [\"OPENAI_API_KEY\", \"NOT_THERE\", \"REGION=eu=1\"]\n{more}");
        let place =
            Place::with_agent(&agent.replace("PROVIDER", "openai").replace("URL", "https://example.com"));
        let script = "cat > /dev/null\necho $OPENAI_API_KEY, ${PLANTED_KEY-none}, ${NOT_THERE-none}, $REGION";
        place.put_script("look", script);
        let mut command = place.command(&["call", "look", r#"{"token": "t"}"#]);
        command.env("OPENAI_API_KEY", "passed on").env("PLANTED_KEY", KEY).env_remove("NOT_THERE");
        let called = said(command.stdin(Stdio::null()).output().unwrap());
        assert_eq!(
            (called.code, called.out.as_str()),
            (Some(0), "passed on, none, none, eu=1\n"),
            "{}",
            called.err
        );
    }
}
