//! `wink run`: from a task to a result, with a script or a provider that speaks the real wire format; how it ends, is stopped, and is
//! gone on with.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use wink_fake::{Fake, Script};

use crate::json::check;
use crate::support::{Place, Said, Terminal, has_commands, on_terminal, one_command, said};

/// Writes a file, fails to edit it, is denied something, and is done.
pub(crate) const STORY: &str = r#"{"text": "I will write it.", "tool_calls": [{"id": "1", "name": "write_file", "arguments": {"path": "notes/a.txt", "content": "one\n"}}]}
{"tool_calls": [{"id": "2", "name": "edit_file", "arguments": {"path": "notes/a.txt", "old_string": "two", "new_string": "x"}}, {"id": "3", "name": "write_file", "arguments": {"path": "theirs", "content": "x"}}]}
{"text": "Done.", "usage": {"input_tokens": 10, "output_tokens": 5}}
"#;

/// A place with something of somebody else's, and a script beside it.
pub(crate) fn place(script: &str) -> Place {
    let place = Place::new();
    place.put("theirs", "as it was\n");
    std::fs::write(place.outside("script.jsonl"), script).unwrap();
    place
}

/// Runs a task by the script.
pub(crate) fn run(place: &Place, more: &[&str]) -> Said {
    place.wink(&[&["run", "Write it.", "--model", "script:../script.jsonl"], more].concat())
}

/// A server that speaks as providers do, on a thread of its own, as long as it is there.
pub(crate) struct Server {
    pub(crate) fake: Fake,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    pub(crate) fn start(script: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let fake = runtime.block_on(Fake::start(Script::parse(script).unwrap())).unwrap();
        Self { fake, _runtime: runtime }
    }
}

#[test]
fn a_script_is_run_to_its_end() {
    let place = place(STORY);
    let said = run(&place, &[]);
    insta::assert_snapshot!("story", said.whole());
    assert_eq!(place.text("notes/a.txt").as_deref(), Some("one\n"));
    assert_eq!(place.text("theirs").as_deref(), Some("as it was\n"));
    let endings: Vec<Value> = place.rows(&["log"]).iter().map(|row| row["error"]["kind"].clone()).collect();
    assert_eq!(endings, [Value::Null, json!("errored"), json!("denied")]);
}

#[test]
fn for_programs_one_object_is_printed_and_nothing_else() {
    let place = place(STORY);
    let said = run(&place, &["--json"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let report: Value = serde_json::from_str(&said.out).unwrap();
    check("run", &report);
    assert_eq!(
        report,
        json!({
            "output": "Done.", "turns": 3, "calls": 3, "rolled_back": 1, "denied": 1,
            "usage": { "input_tokens": 10, "output_tokens": 5, "cached_tokens": 0 },
            "stopped_by": "completed",
        })
    );
}

#[test]
fn a_task_comes_from_standard_input() {
    let place = place(r#"{"text": "ok"}"#);
    let arguments = ["run", "-", "--model", "script:../script.jsonl", "--record", "../r.jsonl"];
    assert_eq!(place.wink_with(&arguments, "Count to three.\n").code, Some(0));
    let recorded = std::fs::read_to_string(place.outside("r.jsonl")).unwrap();
    assert!(recorded.contains(r#"{"role":"user","text":"Count to three.\n"}"#), "{recorded}");
    let empty = place.wink_with(&["run", "-", "--model", "script:../script.jsonl"], "\n");
    assert_eq!(
        (empty.code, empty.err.as_str()),
        (Some(2), "error: the task is empty\nhint: say what is to be done\n")
    );
    // Half of one is not what was meant.
    let long =
        place.wink_with(&["run", "-", "--model", "script:../script.jsonl"], &"x".repeat((4 << 20) + 1));
    let told = "error: standard input has more than 4 MiB\nhint: nothing was done; put what is large into a file, and say which\n";
    assert_eq!((long.code, long.err.as_str()), (Some(2), told));
}

#[test]
fn a_typed_result_is_what_the_agent_file_says() {
    const AGENT: &str = "[agent]\nns = \"t\"\nkey = \"t\"\n[output]\nschema = { type = \"object\", required = [\"version\"], properties = { version = { type = \"integer\" } } }\n[[section]]\nkey = \"s\"\ntitle = \"S\"\nsuites = [\"files\"]\n";
    let place = Place::with_agent(AGENT);
    let script = |text: &str| std::fs::write(place.outside("script.jsonl"), text).unwrap();
    script("{\"text\": \"about seven\"}\n{\"text\": \"{\\\"version\\\": 7}\"}\n");
    let said = run(&place, &[]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), "{\n  \"version\": 7\n}\n"));
    assert_eq!(
        place.json(&["run", "x", "--model", "script:../script.jsonl"])["output"],
        json!({ "version": 7 })
    );
    script(&"{\"text\": \"about seven\"}\n".repeat(4));
    let said = run(&place, &["--json"]);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    check("run", &report);
    assert_eq!(
        (said.code, &report["stopped_by"], &report["output"]),
        (Some(1), &json!("output"), &Value::Null)
    );
    let error: Value = serde_json::from_str(&said.err).unwrap();
    check("error", &error);
}

/// What happens to a run that a provider answers so.
fn with_provider(server: &Server, place: &Place, model: &str, more: &[&str]) -> Said {
    let url = match model.split_once(':').unwrap().0 {
        "anthropic" => server.fake.url(),
        _ => format!("{}/v1", server.fake.url()),
    };
    let mut command = place.command(&["run", "Write it.", "--json", "--model", model, "--base-url", &url]);
    command.args(["--key-env", "TEST_KEY"]).args(more).env("TEST_KEY", "sk-planted-key-123");
    said(command.stdin(Stdio::null()).output().unwrap())
}

#[test]
fn settings_go_with_their_provider() {
    let agent = "[agent]\nns = \"t\"\nkey = \"t\"\n[model]\nprovider = \"anthropic\"\nmodel = \"m\"\ntemperature = 0.5\nmax_output_tokens = 77\nextra = { top_k = 3 }\nmax_turns = 1\n[[section]]\nkey = \"s\"\ntitle = \"S\"\n";
    for (model, has) in [("anthropic:other", true), ("openai:a-model", false), ("openai-chat:a-model", false)]
    {
        let server = Server::start("{\"text\": \"Done.\"}");
        let place = Place::with_agent(agent);
        let said = with_provider(&server, &place, model, &[]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let seen = format!("{:?}", server.fake.seen());
        for setting in ["temperature", "77", "top_k"] {
            assert_eq!(seen.contains(setting), has, "{model}, {setting}: {seen}");
        }
    }
}

#[test]
fn every_provider_comes_to_the_same() {
    let ways: [(&str, &[&str]); 4] = [
        ("anthropic:a-model", &[]),
        ("openai:a-model", &[]),
        ("openai-chat:a-model", &[]),
        ("openai-chat:a-model", &["--constrained"]),
    ];
    for (model, more) in ways {
        // Held to a schema, a model makes one call at a time.
        let lines = STORY.replace("}}, {\"id\": \"3\"", "}}]}\n{\"tool_calls\": [{\"id\": \"3\"");
        let server = Server::start(&lines);
        let place = place("");
        let said = with_provider(&server, &place, model, more);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{model}: {:?}", server.fake.seen());
        let report: Value = serde_json::from_str(&said.out).unwrap();
        check("run", &report);
        let came = |name: &str| report[name].clone();
        assert_eq!(
            ["output", "turns", "calls", "rolled_back", "denied", "stopped_by"].map(came),
            [json!("Done."), json!(4), json!(3), json!(1), json!(1), json!("completed")],
            "{model} {more:?}"
        );
        assert_eq!(place.text("notes/a.txt").as_deref(), Some("one\n"));
        assert_eq!(server.fake.left(), 0);
    }
}

#[test]
fn the_agent_file_says_who_answers() {
    let server = Server::start("{\"text\": \"from the file\"}\n{\"text\": \"from the line\"}\n");
    let agent = format!(
        "[agent]\nns = \"t\"\nkey = \"t\"\n[model]\nprovider = \"openai-chat\"\nmodel = \"from-file\"\nurl = \"{}/v1\"\nmax_output_tokens = 77\ntemperature = 0.5\nextra = {{ seed = 7 }}\n[[section]]\nkey = \"s\"\ntitle = \"S\"\n",
        server.fake.url()
    );
    let place = Place::with_agent(&agent);
    let refused = place.wink(&["run", "x"]);
    assert_eq!(refused.code, Some(2), "no key is sent to somebody else unasked");
    insta::assert_snapshot!("run_no_key_sent", refused.whole());
    server.fake.without_keys();
    assert_eq!(place.json(&["run", "x"])["output"], "from the file");
    assert_eq!(place.json(&["run", "x", "--model", "openai-chat:from-line"])["output"], "from the line");
    let asked: Vec<Value> = server
        .fake
        .seen()
        .iter()
        .map(|seen| {
            json!([seen.body["model"], seen.body["max_tokens"], seen.body["temperature"], seen.body["seed"]])
        })
        .collect();
    assert_eq!(asked, [json!(["from-file", 77, 0.5, 7]), json!(["from-line", 77, 0.5, 7])]);
}

#[test]
fn who_cannot_answer_is_said_before_anything_is_done() {
    let place = place("{\"txt\": 1}\n");
    std::fs::write(place.outside("ok.jsonl"), "{\"text\": \"x\"}\n").unwrap();
    for (name, arguments) in [
        ("no_model", &["run", "x"][..]),
        ("no_such_form", &["run", "x", "--model", "gpt"]),
        ("no_such_provider", &["run", "x", "--model", "acme:gpt"]),
        ("no_key", &["run", "x", "--model", "openai:gpt", "--key-env", "NO_SUCH_KEY"]),
        ("no_script", &["run", "x", "--model", "script:nowhere"]),
        ("bad_script", &["run", "x", "--model", "script:../script.jsonl"]),
        ("no_url", &["run", "x", "--model", "openai-chat:m", "--base-url", "nowhere"]),
        ("not_constrained", &["run", "x", "--model", "anthropic:m", "--constrained"]),
        ("no_time", &["run", "x", "--model", "script:../ok.jsonl", "--deadline", "soon"]),
        ("little_time", &["run", "x", "--model", "script:../ok.jsonl", "--deadline", "500ms"]),
        ("no_claude", &["run", "x", "--model", "claude:m", "--key-env", "USER"]),
        ("nothing_to_resume", &["run", "--resume", "--model", "script:../ok.jsonl"]),
    ] {
        let said = place.wink(arguments);
        assert_eq!(said.code, Some(2), "{said:?}");
        insta::assert_snapshot!(format!("run_{name}"), said.whole());
    }
    assert_eq!(place.rows(&["log"]), Vec::<Value>::new());
}

#[test]
fn a_provider_that_is_not_there_or_does_not_know_the_model_is_said() {
    let agent = "[agent]\nns = \"t\"\nkey = \"t\"\n[model]\nprovider = \"openai-chat\"\nmodel = \"m\"\nretry = { attempts = 1 }\n[[section]]\nkey = \"s\"\ntitle = \"S\"\n";
    let place = Place::with_agent(agent);
    // Nobody listens where somebody did.
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let said = place.wink(&["run", "x", "--base-url", &format!("http://{gone}/v1")]);
    assert_eq!(said.code, Some(3), "{}", said.err);
    assert!(said.err.contains(&format!("Connection refused (os error 111) (http://{gone})")), "{}", said.err);
    // After this it takes no more requests.
    let server = Server::start("{\"tool_calls\": [{\"id\": \"1\", \"name\": \"x\", \"arguments\": {}}]}\n");
    let said = with_provider(&server, &place, "openai-chat:m", &[]);
    assert!(said.err.contains("look at the name of the model, at --base-url"), "{}", said.err);
}

#[test]
fn ways_of_being_exhausted_are_told_apart() {
    let forever = "{\"tool_calls\": [{\"id\": \"1\", \"name\": \"list_directory\", \"arguments\": {}}], \"usage\": {\"input_tokens\": 60, \"output_tokens\": 1}}\n".repeat(20);
    let place = place(&forever);
    let stopped = |more: &[&str]| {
        let said = run(&place, &[more, &["--json"]].concat());
        let report: Value = serde_json::from_str(&said.out).unwrap();
        check("run", &report);
        let error: Value = serde_json::from_str(&said.err).unwrap();
        check("error", &error);
        (said.code, report["stopped_by"].as_str().unwrap().to_owned())
    };
    let came = |why: &str| (Some(3), why.to_owned());
    assert_eq!(stopped(&["--max-turns", "2"]), came("turn_cap"));
    assert_eq!(stopped(&["--budget", "100"]), came("budget"));
    let silent = Server::start("{\"fault\": \"silent\"}\n");
    let said = with_provider(&silent, &place, "openai-chat:m", &["--deadline", "2s"]);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.code, &report["stopped_by"]), (Some(3), &json!("deadline")));
}

#[test]
fn retries_are_exhausted_in_three_ways() {
    let agent = |retry: &str| {
        format!(
            "[agent]\nns = \"t\"\nkey = \"t\"\n[model]\nprovider = \"openai-chat\"\nmodel = \"m\"\nretry = {retry}\n[[section]]\nkey = \"s\"\ntitle = \"S\"\n"
        )
    };
    let long = "{\"fault\": \"throttled\", \"retry_after\": \"1000\"}\n";
    for (retry, script, more, why) in [
        (
            "{ attempts = 2, delay = \"1ms\" }",
            "{\"fault\": \"broken\"}\n{\"fault\": \"broken\"}\n",
            &[][..],
            "retry_attempts",
        ),
        ("{ window = \"1m\" }", long, &[], "retry_window"),
        ("{ window = \"2h\" }", long, &["--deadline", "1m"], "retry_deadline"),
    ] {
        let (server, place) = (Server::start(script), Place::with_agent(&agent(retry)));
        let said = with_provider(&server, &place, "openai-chat:m", more);
        let report: Value = serde_json::from_str(&said.out).unwrap();
        check("run", &report);
        assert_eq!((said.code, &report["stopped_by"]), (Some(3), &json!(why)), "{}", said.err);
    }
}

/// An agent with a command that waits, and a script that calls it after it has written a file.
pub(crate) fn waiting() -> (Place, std::path::PathBuf) {
    let place = Place::with_agent(
        &(one_command("wait") + "\n[[section]]\nkey = \"files\"\ntitle = \"Files\"\nsuites = [\"files\"]\n"),
    );
    let line = place.pipe("line");
    place.put_script(
        "wait",
        &format!(
            "echo made > made\ntest -e go-on && exit 0\necho ready > {}\nexec sleep 1000",
            line.display()
        ),
    );
    let script = "{\"tool_calls\": [{\"id\": \"1\", \"name\": \"write_file\", \"arguments\": {\"path\": \"a\", \"content\": \"one\"}}]}\n{\"tool_calls\": [{\"id\": \"2\", \"name\": \"wait\", \"arguments\": {}}]}\n{\"text\": \"Done.\"}\n";
    std::fs::write(place.outside("script.jsonl"), script).unwrap();
    (place, line)
}

pub(crate) fn until_ready(line: &std::path::Path) {
    let mut ready = String::new();
    File::open(line).unwrap().read_to_string(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
}

#[test]
fn a_run_that_is_interrupted_is_undone_or_kept_and_goes_on() {
    if !has_commands() {
        return;
    }
    let (place, line) = waiting();
    let mut command = place.command(&["run", "Go.", "--model", "script:../script.jsonl", "--json"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until_ready(&line);
    // The second says nothing new.
    for _ in 0..2 {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    }
    let stopped = said(child.wait_with_output().unwrap());
    let report: Value = serde_json::from_str(&stopped.out).unwrap();
    check("run", &report);
    assert_eq!((stopped.code, &report["stopped_by"]), (Some(3), &json!("cancelled")), "{}", stopped.err);
    assert_eq!(place.names(), ["a", "wait", "wink.toml"], "the first call is kept, the second undone");
    let endings: Vec<Value> = place.rows(&["log"]).iter().map(|row| row["error"]["kind"].clone()).collect();
    assert_eq!(endings, [Value::Null, json!("cancelled")]);
    // The call is one that may reach outside: what became of it is not known, and it is not made again unasked.
    place.put("go-on", "");
    let again = place.json(&["run", "--resume", "--model", "script:../script.jsonl"]);
    check("run", &again);
    assert_eq!((&again["stopped_by"], &again["turns"]), (&json!("completed"), &json!(3)), "{again:#}");
    let rows = place.rows(&["log"]);
    let logged = |name: &str| rows.iter().filter(|row| row[name] == true).count();
    assert_eq!((&again["calls"], &again["rolled_back"]), (&json!(rows.len()), &json!(logged("rolled_back"))));
    assert_eq!((rows.len(), logged("rolled_back")), (3, 1));
    // What a run came to that is over is said again, and nothing is done.
    let calls = place.rows(&["log"]).len();
    let over = place.json(&["run", "--resume", "--model", "script:../script.jsonl"]);
    assert_eq!(over, again);
    assert_eq!(place.rows(&["log"]).len(), calls);
}

#[test]
fn what_could_not_be_printed_is_printed_again() {
    let place = place(STORY);
    let expected = run(&self::place(STORY), &["--json"]);
    let mut command = place.command(&["run", "Write it.", "--model", "script:../script.jsonl", "--json"]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let lost = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(said(lost).code, Some(4));
    let again = place.wink(&["run", "--resume", "--model", "script:../script.jsonl", "--json"]);
    assert_eq!((again.code, again.out), (expected.code, expected.out));
    assert_eq!(place.rows(&["log"]).len(), 3, "nothing is done again");
}

#[test]
fn a_run_that_came_to_nothing_says_so_again() {
    let place = place("{\"text\": \"No.\", \"stop\": \"refused\"}\n");
    let first = run(&place, &["--json"]);
    assert_eq!(first.code, Some(1), "{}", first.err);
    let again = place.wink(&["run", "--resume", "--model", "script:../script.jsonl", "--json"]);
    assert_eq!((again.code, again.out, again.err), (first.code, first.out, first.err));
}

#[test]
fn a_killed_run_goes_on_and_repeats_nothing() {
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
    let again = place.wink(&["run", "--resume", "--model", "script:../script.jsonl", "--json"]);
    let report: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!((again.code, &report["stopped_by"]), (Some(0), &json!("completed")), "{}", again.err);
    let written = place.rows(&["log", "--tool", "write_file"]);
    assert_eq!(written.len(), 1, "what was done is not done again");
    assert_eq!(place.text("a").as_deref(), Some("one"));
}

#[test]
fn a_call_that_failed_before_the_run_was_stopped_is_not_made_again() {
    if !has_commands() {
        return;
    }
    let (place, line) = waiting();
    let out = place.outside("out");
    place.put_script("wait", &format!(
        "test -e go-on && exit 0\ntest -s {out} || {{ echo failed >> {out}; exit 1; }}\necho ready > {line}\nexec sleep 1000",
        out = out.display(), line = line.display(),
    ));
    let call = |id: &str| format!("{{\"id\": \"{id}\", \"name\": \"wait\", \"arguments\": {{}}}}");
    let script = format!("{{\"tool_calls\": [{}, {}]}}\n{{\"text\": \"Done.\"}}\n", call("1"), call("2"));
    std::fs::write(place.outside("script.jsonl"), script).unwrap();
    let mut command = place.command(&["run", "Go.", "--model", "script:../script.jsonl"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until_ready(&line);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(said(child.wait_with_output().unwrap()).code, Some(3));
    let again = place.wink(&["run", "--resume", "--model", "script:../script.jsonl", "--json"]);
    let doubt = place.rows(&["ledger", "list", "--in-doubt"]).remove(0);
    let typed =
        format!("wink ledger resolve {} --happened, or --did-not-happen", doubt["key"].as_str().unwrap());
    assert!(again.err.contains(&typed), "at the end of the run: {}", again.err);
    let again: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!(
        (&again["stopped_by"], &again["calls"], &again["rolled_back"]),
        (&json!("completed"), &json!(3), &json!(2)),
        "as many as the log has: one that failed, one that was cancelled, one of which nothing is known"
    );
    let shown = place.json(&["show", "last"]);
    assert!(shown.to_string().contains(&typed), "in the answer: {shown:#}");
    assert_eq!(std::fs::read_to_string(out).unwrap(), "failed\n");
    let endings: Vec<Value> = place.rows(&["log"]).iter().map(|row| row["error"]["kind"].clone()).collect();
    assert_eq!(endings, [json!("failed"), json!("cancelled"), json!("in_doubt")]);
}

#[test]
fn a_command_that_reaches_nothing_outside_is_run_again_after_ctrl_c_and_after_a_kill() {
    if !has_commands() {
        return;
    }
    for signal in [Signal::INT, Signal::KILL] {
        let (place, line) = waiting();
        let agent = place.text("wink.toml").unwrap();
        place.put(
            "wink.toml",
            &agent.replace("[\"./wait\"]", "[\"./wait\"]\nannotations = { open_world = false }"),
        );
        let mut command = place.command(&["run", "Go.", "--model", "script:../script.jsonl"]);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until_ready(&line);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let stopped = said(child.wait_with_output().unwrap());
        assert!(!stopped.err.contains("wink ledger resolve"), "{}", stopped.err);
        assert_eq!(place.rows(&["ledger", "list", "--in-doubt"]), Vec::<Value>::new());
        place.put("go-on", "");
        let again = place.wink(&["run", "--resume", "--model", "script:../script.jsonl"]);
        assert_eq!(again.code, Some(0), "{}", again.err);
        assert_eq!(place.text("made").as_deref(), Some("made\n"), "the command has run: {}", again.err);
    }
}

#[test]
fn a_recording_of_a_killed_run_is_found_and_removed() {
    if !has_commands() {
        return;
    }
    let (place, line) = waiting();
    let arguments = ["run", "Go.", "--model", "script:../script.jsonl", "--record", "r.jsonl"];
    let mut command = place.command(&arguments);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until_ready(&line);
    let doctor = || {
        let checks = place.wink(&["doctor", "--json"]);
        let checks: Value = serde_json::from_str(&checks.out).unwrap();
        let checks = checks["checks"].as_array().unwrap().clone();
        checks.into_iter().filter(|check| check["name"] == "recordings").count()
    };
    // It is somebody's, as long as the run goes on.
    assert_eq!((doctor(), &place.json(&["gc"])["recordings"]), (0, &json!(0)));
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    assert_eq!((doctor(), &place.json(&["gc"])["recordings"]), (1, &json!(1)));
    assert_eq!((doctor(), &place.json(&["gc"])["recordings"]), (0, &json!(0)));
}

#[test]
fn whoever_does_not_want_it_any_more_is_heard_before_it_begins() {
    let place = place(STORY);
    let mut command = place.command(&["run", "-", "--model", "script:../script.jsonl"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // More than a pipe holds: when it is written, the program reads.
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, &[b'x'; 1 << 20]).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let said = said(child.wait_with_output().unwrap());
    assert_eq!(said.code, Some(3), "{}", said.err);
    assert!(said.err.contains("the run was cancelled"), "{}", said.err);
    drop(input);
    assert_eq!(place.rows(&["log"]), Vec::<Value>::new());
}

#[test]
fn a_task_that_is_too_long_is_refused() {
    let place = place(STORY);
    let mut command = place.command(&["run", "-", "--model", "script:../script.jsonl"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // It may end before it has read all of it.
    let _ = std::io::Write::write_all(&mut input, &vec![b'x'; (4 << 20) + 1]);
    drop(input);
    let said = said(child.wait_with_output().unwrap());
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("standard input has more than 4 MiB"), "{}", said.err);
    assert_eq!(place.rows(&["log"]), Vec::<Value>::new());
}

#[test]
fn a_run_that_goes_on_elsewhere_is_nobody_elses() {
    if !has_commands() {
        return;
    }
    let (place, line) = waiting();
    let mut command = place.command(&["run", "Go.", "--model", "script:../script.jsonl", "--json"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until_ready(&line);
    let resume = ["run", "--resume", "--model", "script:../script.jsonl", "--json"];
    for _ in 0..2 {
        let refused = place.wink(&resume);
        let report: Value = serde_json::from_str(&refused.out).unwrap();
        check("run", &report);
        assert_eq!((refused.code, &report["stopped_by"]), (Some(2), &json!("elsewhere")), "{}", refused.err);
        assert!(refused.err.contains("is going on in another process"), "{}", refused.err);
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(said(child.wait_with_output().unwrap()).code, Some(3));
    // Whoever had it has let go.
    place.put("go-on", "");
    let again = place.wink(&resume);
    assert_eq!(again.code, Some(0), "{}", again.err);
    assert_eq!(place.rows(&["log", "--tool", "write_file"]).len(), 1);
}

#[test]
fn a_run_may_be_given_more_turns() {
    let place = place(STORY);
    assert_eq!(run(&place, &["--max-turns", "1"]).code, Some(3));
    let resume = |more: &[&str]| {
        place.wink(&[&["run", "--resume", "--model", "script:../script.jsonl"], more].concat()).code
    };
    assert_eq!(resume(&[]), Some(3));
    assert_eq!(resume(&["--max-turns", "2"]), Some(3));
    assert_eq!(resume(&["--max-turns", "3"]), Some(0));
    assert_eq!(place.rows(&["log"]).len(), 3, "each call once");
}

#[test]
fn a_call_is_told_when_it_ends_and_not_when_all_do() {
    if !has_commands() {
        return;
    }
    let (place, line) = waiting();
    let script = r#"{"tool_calls": [{"id": "1", "name": "nobody_has_it", "arguments": {"first": 1}}, {"id": "2", "name": "wait", "arguments": {}}]}"#;
    std::fs::write(place.outside("script.jsonl"), script).unwrap();
    // Were it told only when all have ended, it would be the deadline that ends them.
    let arguments = ["run", "Go.", "--model", "script:../script.jsonl", "--deadline", "60s"];
    let mut terminal = Terminal::start(place.command(&arguments), 200);
    until_ready(&line);
    terminal.until("{\"first\"");
    terminal.interrupt();
    let (code, seen) = terminal.ends();
    assert_eq!(code, Some(3), "{seen}");
    assert!(seen.contains("the run was cancelled"), "{seen}");
}

#[test]
fn a_person_is_asked_on_the_terminal() {
    let agent = "[agent]\nns = \"t\"\nkey = \"t\"\n[[section]]\nkey = \"s\"\ntitle = \"S\"\nsuites = [\"files\"]\n[[section.policy]]\napproval = { tools = [\"write_file\"] }\n";
    let script = "{\"tool_calls\": [{\"id\": \"1\", \"name\": \"write_file\", \"arguments\": {\"path\": \"a\", \"content\": \"one\"}}]}\n{\"text\": \"Done.\"}\n";
    for (keys, written) in [("y\n", Some("one")), ("n\n", None)] {
        let place = Place::with_agent(agent);
        std::fs::write(place.outside("script.jsonl"), script).unwrap();
        let command = place.command(&["run", "Go.", "--model", "script:../script.jsonl"]);
        let (code, seen) = on_terminal(command, 120, keys);
        assert_eq!((code, place.text("a").as_deref()), (Some(0), written), "{seen}");
    }
    let place = Place::with_agent(agent);
    std::fs::write(place.outside("script.jsonl"), script).unwrap();
    assert_eq!(place.json(&["run", "Go.", "--model", "script:../script.jsonl"])["denied"], 1);
    assert_eq!(place.json(&["run", "Go.", "--model", "script:../script.jsonl", "--yes"])["denied"], 0);
}
