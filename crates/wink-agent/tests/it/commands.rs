//! Commands as tools: what they are given, what becomes of what they do, and that nothing of them is left.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use wink::executor::{Escalation, Outcome};
use wink::filesystem::host::{Capture, HostOptions};
use wink::ledger::params_key;
use wink::limits::CancelToken;
use wink::prelude::*;
use wink::session::Ending;
use wink_agent::OpenSession;
use wink_store::WorkspaceOptions;

use crate::support::{Place, heard, load, make_pipe};

/// Where what commands do is found out by what this machine has, and by a scan.
fn places() -> [Place; 2] {
    let files = HostOptions { capture: Some(Capture::Scan), ..HostOptions::default() };
    [Place::new(), Place::with(WorkspaceOptions { files, ..WorkspaceOptions::default() })]
}

async fn open(place: &Place, tools: &str) -> OpenSession {
    let text = format!("[agent]\nns = \"t\"\nkey = \"t\"\n[[section]]\nkey = \"a\"\ntitle = \"A\"\n{tools}");
    load(&text).open(&place.workspace, "main").await.unwrap()
}

/// A tool that runs a script.
fn script(name: &str, script: &str, rest: &str) -> String {
    format!(
        "[[section.tool]]\nname = \"{name}\"\ndescription = \"d\"\ncommand = [\"sh\", \"-c\", '''{script}''']\n{rest}\n"
    )
}

const ANYTHING: &str = "params = { type = \"object\", additionalProperties = true }";

async fn call(opened: &OpenSession, tool: &str, arguments: Value) -> Outcome {
    opened.executor().call(ToolCall::new("1", tool, arguments.to_string())).await
}

fn answer(outcome: &Outcome) -> (bool, &str) {
    (outcome.event.success, &outcome.answer.text)
}

#[tokio::test]
async fn a_command_that_exits_with_0_has_succeeded() {
    for place in places() {
        let tools = script(
            "write",
            "echo one > a.txt; mkdir -p d; echo two > d/b.txt; echo done; echo noise >&2",
            "",
        );
        let opened = open(&place, &tools).await;
        let outcome = call(&opened, "write", json!({})).await;
        assert_eq!(answer(&outcome), (true, "done"));
        assert_eq!(fs::read_to_string(place.root().join("a.txt")).unwrap(), "one\n");
        assert_eq!(fs::read_to_string(place.root().join("d/b.txt")).unwrap(), "two\n");
    }
}

/// Commands that read, then write, in sessions of their own: with the write turn each sees what the one before it did.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn serial_commands_of_several_sessions_meet_no_conflict() {
    let counts = "read n < counter; echo $((n + 1)) > counter; touch -d @1000000000 counter";
    for place in places() {
        fs::write(place.root().join("counter"), "0\n").unwrap();
        let tools = script("count", counts, "isolation = \"serial\"");
        let text =
            format!("[agent]\nns = \"t\"\nkey = \"t\"\n[[section]]\nkey = \"a\"\ntitle = \"A\"\n{tools}");
        let mut running = Vec::new();
        for session in 0..4 {
            let opened = load(&text).open(&place.workspace, &format!("s{session}")).await.unwrap();
            running.push(tokio::spawn(async move {
                for _ in 0..3 {
                    let outcome = call(&opened, "count", json!({})).await;
                    assert!(outcome.event.success, "{}", outcome.answer.text);
                }
            }));
        }
        for session in running {
            session.await.unwrap();
        }
        assert_eq!(fs::read_to_string(place.root().join("counter")).unwrap(), "12\n");
    }
}

#[tokio::test]
async fn a_command_that_prints_nothing_has_an_answer() {
    let place = Place::new();
    let opened = open(&place, &script("quiet", "true", "")).await;
    assert_eq!(
        answer(&call(&opened, "quiet", json!({})).await),
        (true, "quiet succeeded, and printed nothing.")
    );
}

#[tokio::test]
async fn a_command_that_exits_with_anything_else_has_failed_and_is_undone() {
    for place in places() {
        fs::write(place.root().join("a.txt"), "before\n").unwrap();
        let tools = script(
            "spoil",
            "echo after > a.txt; echo new > b.txt; rm -rf .git; echo out; echo err >&2; exit 3",
            "",
        );
        let opened = open(&place, &tools).await;
        let outcome = call(&opened, "spoil", json!({})).await;
        let (success, text) = answer(&outcome);
        assert!(!success);
        assert!(
            text.starts_with("spoil exited with 3. What it changed in the workspace is undone."),
            "{text}"
        );
        assert!(text.ends_with("\n--- stdout\nout\n--- stderr\nerr"), "{text}");
        assert_eq!(fs::read_to_string(place.root().join("a.txt")).unwrap(), "before\n");
        assert!(!place.root().join("b.txt").exists());
    }
}

#[tokio::test]
async fn a_command_that_a_signal_ended_has_failed() {
    let place = Place::new();
    let opened = open(&place, &script("die", "echo x > a.txt; kill -9 $$", "")).await;
    let outcome = call(&opened, "die", json!({})).await;
    assert_eq!(
        answer(&outcome),
        (false, "die was ended by signal 9. What it changed in the workspace is undone.")
    );
    assert!(!place.root().join("a.txt").exists());
}

#[tokio::test]
async fn arguments_come_on_standard_input_and_as_variables() {
    let place = Place::new();
    let params = "params = { type = \"object\", properties = { text = { type = \"string\" }, count = { type = \"integer\" }, \
                  flag = { type = \"boolean\" }, list = { type = \"array\", items = { type = \"integer\" } }, \"odd-näme\" = { \
                  type = \"string\" }, absent = { type = \"string\" } } }\nenv = { GREETING = \"hello\" }";
    let tools =
        script("show", "cat; echo; env | grep -E \"^(WINK_|GREETING)\" | grep -v INVOCATION | sort", params);
    let opened = open(&place, &tools).await;
    let text = "$(touch pwned) `id` ; \"quoted\" 'too' \\ end";
    let arguments = json!({ "text": text, "count": 7, "flag": true, "list": [1, 2], "odd-näme": "ö" });
    let outcome = call(&opened, "show", arguments.clone()).await;
    let (success, said) = answer(&outcome);
    assert!(success, "{said}");
    let (stdin, variables) = said.split_once('\n').unwrap();
    assert_eq!(serde_json::from_str::<Value>(stdin).unwrap(), arguments);
    let variables: BTreeMap<_, _> = variables.lines().map(|line| line.split_once('=').unwrap()).collect();
    let expected = BTreeMap::from([
        ("GREETING", "hello"),
        ("WINK_ARG_COUNT", "7"),
        ("WINK_ARG_FLAG", "true"),
        ("WINK_ARG_LIST", "[1,2]"),
        ("WINK_ARG_ODD_N_ME", "ö"),
        ("WINK_ARG_TEXT", text),
        ("WINK_TOOL", "show"),
    ]);
    assert_eq!(variables, expected);
    assert!(!place.root().join("pwned").exists());
}

#[tokio::test]
async fn words_are_no_shell() {
    let place = Place::new();
    let tools = "[[section.tool]]\nname = \"say\"\ndescription = \"d\"\ncommand = [\"printf\", \"%s|\", \"a b\", \"$HOME\", \"; \
                 ls\", \"\"]\n";
    let opened = open(&place, tools).await;
    assert_eq!(answer(&call(&opened, "say", json!({})).await), (true, "a b|$HOME|; ls||"));
}

#[tokio::test]
async fn relative_paths_are_in_the_workspace() {
    let place = Place::new();
    let scripts = place.root().join("scripts");
    fs::create_dir_all(place.root().join("sub")).unwrap();
    fs::create_dir(&scripts).unwrap();
    fs::write(scripts.join("where.sh"), "#!/bin/sh\npwd\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(scripts.join("where.sh"), executable).unwrap();
    let tool = |name: &str, rest: &str| {
        format!(
            "[[section.tool]]\nname = \"{name}\"\ndescription = \"d\"\ncommand = [\"./scripts/where.sh\"]\n{rest}\n"
        )
    };
    let opened = open(
        &place,
        &(tool("root", "") + &tool("sub", "cwd = \"./sub/\"") + &tool("gone", "cwd = \"nowhere\"")),
    )
    .await;
    let root = place.root().canonicalize().unwrap();
    assert_eq!(answer(&call(&opened, "root", json!({})).await), (true, root.to_str().unwrap()));
    assert_eq!(answer(&call(&opened, "sub", json!({})).await), (true, root.join("sub").to_str().unwrap()));
    let outcome = call(&opened, "gone", json!({})).await;
    let (success, text) = answer(&outcome);
    assert!(!success);
    assert!(text.contains("the working directory \"nowhere\" cannot be used"), "{text}");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_a_failed_call() {
    let place = Place::new();
    let tools = "[[section.tool]]\nname = \"t\"\ndescription = \"d\"\ncommand = [\"./missing.sh\"]\n";
    let opened = open(&place, tools).await;
    let outcome = call(&opened, "t", json!({})).await;
    let (success, text) = answer(&outcome);
    assert!(!success);
    assert!(text.contains("\"./missing.sh\" cannot be executed"), "{text}");
}

#[tokio::test]
async fn what_a_program_cannot_be_given_is_refused_and_not_left_out() {
    let place = Place::new();
    let tools = script("both", "echo ran", ANYTHING)
        + &script("stdin", "wc -c", &format!("{ANYTHING}\narguments = \"stdin\""));
    let opened = open(&place, &tools).await;
    let refused = |outcome: &Outcome| {
        let (success, text) = answer(outcome);
        assert!(!success, "{text}");
        text.to_owned()
    };
    let zero = call(&opened, "both", json!({ "a": "x\0y" })).await;
    assert_eq!(
        refused(&zero),
        "argument \"a\" has a zero byte in it, which no program can be given; send it without"
    );
    let nested = call(&opened, "both", json!({ "a": { "b": "\0" } })).await;
    assert_eq!(answer(&nested), (true, "ran"), "as JSON it is no zero byte");
    let clash = call(&opened, "both", json!({ "a-b": 1, "a_b": 2 })).await;
    assert_eq!(refused(&clash), "arguments \"a-b\" and \"a_b\" would both be WINK_ARG_A_B; send one of them");
    let huge = "x".repeat(200_000);
    let large = call(&opened, "both", json!({ "a": huge })).await;
    assert_eq!(
        refused(&large),
        "argument \"a\" has 200000 bytes, and a program can be given 131060 of it; send less, or have the agent file say \
         `arguments = \"stdin\"` for this tool"
    );
    let just = "x".repeat(131_060);
    assert_eq!(answer(&call(&opened, "both", json!({ "a": just })).await), (true, "ran"));
    let many: serde_json::Map<_, _> =
        (0..60).map(|at| (format!("a{at}"), json!("x".repeat(130_000)))).collect();
    let together = refused(&call(&opened, "both", Value::Object(many)).await);
    assert!(together.contains("the arguments and the environment are too large for \"sh\""), "{together}");
    let fits = call(&opened, "stdin", json!({ "a": huge })).await;
    assert_eq!(answer(&fits), (true, "200008"));
}

#[tokio::test]
async fn output_is_bounded() {
    let place = Place::new();
    let tools = script("talk", "head -c 100000 /dev/zero | tr '\\0' x", "output = 10")
        + &script("fail", "head -c 1000000 /dev/zero | tr '\\0' x; exit 1", "output = 10");
    let opened = open(&place, &tools).await;
    let long = call(&opened, "talk", json!({})).await;
    assert_eq!(answer(&long), (true, "xxxxxxxxxx\n[cut: this is the beginning of 100000 bytes]"));
    let failed = call(&opened, "fail", json!({})).await;
    assert!(failed.answer.text.len() < 400, "{}", failed.answer.text);
}

/// Whether a process has this among its words.
fn runs(marker: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .any(|words| words.split(|byte| *byte == 0).any(|word| word == marker.as_bytes()))
}

/// Leaves processes that do not want to go, then waits.
fn lingering(marker: &str) -> String {
    format!(
        "trap '' TERM HUP INT; echo x > a.txt; setsid sleep {marker} & (sleep {marker} &) ; echo started > \"$STARTED\"; sleep {marker}"
    )
}

#[tokio::test]
async fn a_command_whose_time_is_over_is_gone_with_all_that_it_started() {
    for place in places() {
        let (started, marker) = (place.outside().join("started"), "86411.25");
        let rest = format!("timeout = \"2s\"\nenv = {{ STARTED = {started:?} }}");
        let opened = open(&place, &script("wait", &lingering(marker), &rest)).await;
        let outcome = call(&opened, "wait", json!({})).await;
        let (success, text) = answer(&outcome);
        assert!(!success);
        assert!(text.contains("2s"), "{text}");
        assert!(started.exists(), "it did not even begin");
        assert!(!runs(marker));
        assert!(!place.root().join("a.txt").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_command_is_gone_with_all_that_it_started() {
    for place in places() {
        let (started, marker) = (place.outside().join("started"), "86412.25");
        make_pipe(&started);
        let opened =
            open(&place, &script("wait", &lingering(marker), &format!("env = {{ STARTED = {started:?} }}")))
                .await;
        let cancel = CancelToken::new();
        let token = cancel.clone();
        let executor = opened.executor().clone();
        let mut calling =
            tokio::spawn(
                async move { executor.call_cancellable(ToolCall::new("1", "wait", "{}"), token).await },
            );
        tokio::select! {
            outcome = &mut calling => panic!("{}", outcome.unwrap().answer.text),
            started = heard(&started) => assert_eq!(started.unwrap(), "started\n"),
        }
        // What the shell has begun may not have become another program yet.
        while !runs(marker) {
            assert!(!calling.is_finished(), "{}", calling.await.unwrap().answer.text);
            tokio::task::yield_now().await;
        }
        cancel.cancel();
        let outcome = calling.await.unwrap();
        assert!(matches!(outcome.escalation, Some(Escalation::Cancelled)), "{:?}", outcome.escalation);
        assert!(!runs(marker));
        assert!(!place.root().join("a.txt").exists());
        let refused = call(&opened, "wait", json!({ "x": 1 })).await;
        assert!(
            refused.answer.text.starts_with("Invalid arguments"),
            "the session goes on: {}",
            refused.answer.text
        );
    }
}

#[tokio::test]
async fn an_effect_happens_once() {
    let place = Place::new();
    let count = place.outside().join("count");
    let tools = script(
        "pay",
        "echo \"$WINK_IDEMPOTENCY_KEY\" >> \"$COUNT\"; echo \"paid $WINK_ARG_TO\"",
        &format!(
            "params = {{ type = \"object\", required = [\"to\"], properties = {{ to = {{ type = \"string\" }}, note = {{ type = \
             \"string\" }} }} }}\nenv = {{ COUNT = {count:?} }}\nidempotency = {{ strategy = \"custom\", key = \"pay-${{to}}\", \
             scope = \"global\" }}"
        ),
    );
    let opened = open(&place, &tools).await;
    for note in ["one", "two"] {
        let outcome = call(&opened, "pay", json!({ "to": "ann", "note": note })).await;
        assert_eq!(answer(&outcome), (true, "paid ann"));
        assert_eq!(outcome.event.replayed, note == "two");
    }
    let key = params_key(&json!({ "to": "ann" }), &["to".to_owned()]);
    assert_eq!(fs::read_to_string(&count).unwrap(), format!("global:pay:pay-ann:{key}\n"));
    assert!(answer(&call(&opened, "pay", json!({ "to": "bob" })).await).0);
    assert_eq!(fs::read_to_string(&count).unwrap().lines().count(), 2);
}

#[tokio::test]
async fn different_arguments_never_have_the_same_key() {
    let place = Place::new();
    let rest = "params = { type = \"object\", properties = { a = {}, b = {} } }\nidempotency = { strategy = \"custom\", key = \"${a}-${b}\" }";
    let opened = open(&place, &script("pay", "echo paid", rest)).await;
    let different = [
        json!({ "a": "1-2", "b": "3" }),
        json!({ "a": "1", "b": "2-3" }),
        json!({ "a": 1, "b": "2-3" }),
        json!({ "a": "", "b": "x" }),
        json!({ "a": null, "b": "x" }),
        json!({ "b": "x" }),
    ];
    for arguments in &different {
        assert!(!call(&opened, "pay", arguments.clone()).await.event.replayed, "{arguments}");
    }
    for arguments in different {
        assert!(call(&opened, "pay", arguments.clone()).await.event.replayed, "{arguments}");
    }
}

// A program that is killed has not said that nothing happened.
#[tokio::test]
async fn a_command_that_was_killed_leaves_its_effect_in_doubt() {
    let place = Place::new();
    let count = place.outside().join("count");
    let rest = format!("env = {{ COUNT = {count:?} }}\nidempotency = {{ strategy = \"auto\" }}");
    let opened = open(&place, &script("die", "echo x >> \"$COUNT\"; kill -9 $$", &rest)).await;
    let killed = call(&opened, "die", json!({})).await;
    let key = place.workspace.in_doubt().await.unwrap().remove(0).key;
    let told = format!(
        "die was ended by signal 9. What it changed in the workspace is undone.\nWhether its effect outside happened is not \
         known.\nFind out whether it happened, and say so: wink ledger resolve {key} --happened, or --did-not-happen"
    );
    assert_eq!(answer(&killed), (false, told.as_str()));
    let again = call(&opened, "die", json!({})).await;
    assert_eq!(again.event.ending, Ending::InDoubt);
    assert_eq!(fs::read_to_string(&count).unwrap(), "x\n");
    assert_eq!(place.workspace.in_doubt().await.unwrap().len(), 1);
}

// case 227
#[tokio::test]
async fn a_command_that_fails_has_not_said_that_it_had_no_effect_outside() {
    let place = Place::new();
    let keyed = "idempotency = { strategy = \"auto\" }";
    let tools = [
        ("plain", String::new()),
        ("keyed", keyed.to_owned()),
        ("told", format!("{keyed}\non_failure = \"no_effect\"")),
        ("inside", format!("{keyed}\nannotations = {{ open_world = false }}")),
        ("doubtful", format!("{keyed}\nannotations = {{ open_world = false }}\non_failure = \"in_doubt\"")),
        ("never", "idempotency = { strategy = \"none\" }".to_owned()),
    ];
    let count = |name: &str| place.outside().join(name);
    let tools = tools.map(|(name, rest)| {
        let rest = format!("env = {{ COUNT = {:?} }}\n{rest}", count(name));
        (name, script(name, "echo x >> \"$COUNT\"; echo no >&2; exit 3", &rest))
    });
    let opened = open(&place, &tools.iter().map(|(_, tool)| tool.as_str()).collect::<String>()).await;
    let mut times = Vec::new();
    for (name, _) in &tools {
        let first = call(&opened, name, json!({})).await;
        assert!(first.text().contains(&format!("{name} exited with 3")), "{}", first.text());
        let again = call(&opened, name, json!({})).await;
        times.push((*name, fs::read_to_string(count(name)).unwrap().lines().count(), again.event.ending));
    }
    let expected = [
        ("plain", 2, Ending::Failed),
        ("keyed", 1, Ending::InDoubt),
        ("told", 2, Ending::Failed),
        ("inside", 2, Ending::Failed),
        ("doubtful", 1, Ending::InDoubt),
        ("never", 2, Ending::Failed),
    ];
    assert_eq!(times, expected);
}

#[tokio::test]
async fn a_probe_finds_out_what_happened_to_a_command_that_was_stopped() {
    let place = Place::new();
    let (count, books) = (place.outside().join("count"), place.outside().join("books"));
    let probe = place.root().join("probe.sh");
    fs::write(
        &probe,
        "#!/bin/sh\necho looked > looked.txt\nif [ -e \"$BOOKS\" ]; then echo \"was paid: $WINK_ARG_TO\"; else exit 1; fi\n",
    )
    .unwrap();
    fs::set_permissions(&probe, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let tools = script(
        "pay",
        "echo x >> \"$COUNT\"; [ \"$(wc -l < \"$COUNT\")\" -gt 1 ] || sleep 1000; echo paid",
        &format!(
            "timeout = \"1s\"\nparams = {{ type = \"object\", properties = {{ to = {{ type = \"string\" }} }} }}\nenv = {{ COUNT \
             = {count:?}, BOOKS = {books:?} }}\nidempotency = {{ strategy = \"params\", fields = [\"to\"], ttl = \"forever\", \
             when_in_doubt = \"probe\", probe = [\"./probe.sh\"] }}"
        ),
    );
    let opened = open(&place, &tools).await;
    assert!(!answer(&call(&opened, "pay", json!({ "to": "ann" })).await).0, "it is stopped");
    fs::write(&books, "").unwrap();
    let settled = call(&opened, "pay", json!({ "to": "ann" })).await;
    assert_eq!(answer(&settled), (true, "was paid: ann"));
    assert_eq!(fs::read_to_string(&count).unwrap(), "x\n", "nothing ran again");
    assert!(!place.root().join("looked.txt").exists(), "a probe only looks");
}

#[tokio::test]
async fn a_confined_command_reaches_nothing_but_the_workspace() {
    let place = Place::new();
    let secret = place.outside().join("secret");
    fs::write(&secret, "do not look").unwrap();
    let tools = format!(
        "{}[sandbox]\nunlimited = [\"memory\", \"cpu\", \"processes\"]\n",
        script(
            "try",
            "cat; echo; cat \"$SECRET\" 2>/dev/null; (echo x > /etc/wink-was-here) 2>/dev/null; echo y > b.txt; pwd; echo $WINK_ARG_A",
            &format!("sandbox = true\n{ANYTHING}\nenv = {{ SECRET = {secret:?} }}"),
        )
    );
    let opened = open(&place, &tools).await;
    let outcome = call(&opened, "try", json!({ "a": "b" })).await;
    match answer(&outcome) {
        (true, text) => {
            assert_eq!(text, "{\"a\":\"b\"}\n/workspace\nb");
            assert_eq!(fs::read_to_string(place.root().join("b.txt")).unwrap(), "y\n");
        }
        // Where there is no sandbox, it does not run at all.
        (false, text) => {
            assert!(text.starts_with("there is no "), "{text}");
            wink::testing::leave_out("a confined command", text);
        }
    }
    assert!(!Path::new("/etc/wink-was-here").exists());
}

#[tokio::test]
async fn what_is_sensitive_is_masked_in_the_log() {
    let place = Place::new();
    let rest = "sensitive = [\"token\"]\nparams = { type = \"object\", properties = { token = { type = \"string\" } } }";
    let opened = open(&place, &script("login", "test \"$WINK_ARG_TOKEN\" = s3cret", rest)).await;
    let outcome = call(&opened, "login", json!({ "token": "s3cret" })).await;
    assert!(answer(&outcome).0);
    assert!(!format!("{:?}", outcome.event).contains("s3cret"));
}
