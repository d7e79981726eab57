//! The adapter with a small program in place of `claude`: what that is given, and how it and all that it started are ended.

#![cfg(feature = "claude")]
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wink::filesystem::FilesystemExt;
use wink::filesystem::host::{HostFilesystem, HostOptions};
use wink::limits::CancelToken;
use wink::prelude::*;
use wink::resource::Binding;
use wink::session::{Ending, ToolInvoked};
use wink_models::claude::{ClaudeAdapter, Native, native_tools};
use wink_models::{Adapter, Evaluation, ModelErrorKind, PromptResponse, Secret, StopReason, Stopped, Terms};

const KEY: &str = "sk-a-key-that-nobody-sees";

/// What the program says at first, up to the task.
const BEGIN: &str = r#"
read -r initialize
echo '{"type":"control_response","response":{"subtype":"success","request_id":"1","response":{"hooks_applied":true,"hook_on_failure_supported":true}}}'
read -r task
"#;

/// Asks whether it may run a command, and takes the answer.
const BEFORE: &str = r#"
echo '{"type":"control_request","request_id":"p1","request":{"subtype":"hook_callback","input":{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_use_id":"t1","tool_input":{"command":"x"}}}}'
read -r allowed
"#;

struct World {
    dir: tempfile::TempDir,
    workspace: PathBuf,
    session: Session,
    adapter: ClaudeAdapter,
}

impl World {
    /// The program is a script of the shell.
    fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (program, workspace) = (dir.path().join("program"), dir.path().join("workspace"));
        std::fs::write(&program, format!("#!/bin/sh\n{script}")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(workspace.join("a.txt"), "one\n").unwrap();
        let adapter = ClaudeAdapter::new("some-model")
            .program(program)
            .env("OTHER", "value")
            .secret("ANTHROPIC_API_KEY", Secret::new(KEY.to_owned()))
            .unwrap()
            .terms(Terms { max_turns: 9, ..Terms::default() });
        Self { dir, workspace, session: Session::new(), adapter }
    }

    fn prompt(&self) -> Prompt {
        let files = HostFilesystem::open(&self.workspace, HostOptions::default()).unwrap();
        let natives = native_tools([Native::Bash]).resource(Binding::filesystem(Arc::new(files)));
        PromptTemplate::builder("tests", "process").section(natives).build().unwrap().prompt()
    }

    async fn run(&self, evaluation: Evaluation) -> Result<PromptResponse, Stopped> {
        let came = self.adapter.evaluate(&self.prompt(), &self.session, evaluation).await;
        self.nothing_runs();
        came
    }

    /// A note that the program left, beside the workspace.
    fn left(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.dir.path().join(name)).ok()
    }

    fn nothing_runs(&self) {
        let here = |path: PathBuf| path.starts_with(self.dir.path().canonicalize().unwrap());
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let cwd = std::fs::read_link(process.path().join("cwd")).ok();
            assert!(!cwd.is_some_and(here), "{process:?}");
        }
    }

    fn endings(&self) -> Vec<Ending> {
        self.session.slice::<ToolInvoked>().iter().map(|event| event.ending).collect()
    }

    fn files(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.workspace)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != ".wink").collect();
        names.sort();
        names
    }
}

#[tokio::test]
async fn it_is_given_what_it_needs_and_nothing_else() {
    let done = r#"echo '{"type":"result","subtype":"success","result":"Done."}'; read -r end; exit 0"#;
    let world = World::new(&format!(
        r#"env | sort > ../env; printf '%s\n' "$@" > ../args; cat "$8" > ../prompt; pwd > ../cwd; {BEGIN} echo "$task" > ../task; {done}"#
    ));
    let response = world.run(Evaluation::new().task("Go.")).await.unwrap();
    assert_eq!(&*response.text, "Done.");
    let environment = world.left("env").unwrap();
    let names: Vec<&str> = environment.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert_eq!(
        names.into_iter().filter(|name| !["_", "PWD", "SHLVL", "OLDPWD"].contains(name)).collect::<Vec<_>>(),
        [
            "ANTHROPIC_API_KEY",
            "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            "CLAUDE_CODE_MAX_RETRIES",
            "CLAUDE_CODE_SHELL_PREFIX",
            "CLAUDE_CODE_TMPDIR",
            "DISABLE_AUTOUPDATER",
            "DISABLE_ERROR_REPORTING",
            "DISABLE_TELEMETRY",
            "ENABLE_TOOL_SEARCH",
            "HOME",
            "HUSKY",
            "MCP_TOOL_TIMEOUT",
            "OTHER",
            "PATH",
            "TMPDIR",
            "WINK_COMMAND",
        ]
    );
    let arguments = world.left("args").unwrap();
    assert!(!arguments.contains(KEY));
    for pair in [
        "--model\nsome-model",
        "--max-turns\n9",
        "--tools\nBash",
        "--strict-mcp-config",
        "--setting-sources=\n",
    ] {
        assert!(arguments.contains(pair), "{pair}: {arguments}");
    }
    assert!(world.left("prompt").unwrap().contains("Tools of Claude Code."));
    assert_eq!(Path::new(world.left("cwd").unwrap().trim()), world.workspace.canonicalize().unwrap());
    assert!(world.left("task").unwrap().contains("\"Go.\""));
    let home = environment.lines().find_map(|line| line.strip_prefix("HOME=")).unwrap();
    assert!(!Path::new(home).exists());
}

/// The program puts what it is told to before each command; real ones do so in `claude_code`.
#[tokio::test]
async fn its_commands_do_not_have_its_secrets() {
    let done = r#"echo '{"type":"result","subtype":"success","result":"Done."}'; read -r end; exit 0"#;
    let command =
        r#"echo "${ANTHROPIC_API_KEY:-none} $OTHER it'"'"'s" > ../command; env > ../commands; exit 7"#;
    let mut world = World::new(&format!(
        "{BEGIN} env > ../env; \"$CLAUDE_CODE_SHELL_PREFIX\" '{command}'; echo $? > ../status; {done}"
    ));
    // A name that no shell has.
    world.adapter = world.adapter.clone().secret("O'DD", Secret::new("another-secret".to_owned())).unwrap();
    world.run(Evaluation::new()).await.unwrap();
    assert!(world.left("env").unwrap().contains(KEY), "the program itself has it");
    assert_eq!(world.left("command").as_deref(), Some("none value it's\n"));
    assert!(!world.left("commands").unwrap().contains("another-secret"));
    assert_eq!(world.left("status").as_deref(), Some("7\n"));
}

#[tokio::test]
async fn when_it_dies_what_it_and_its_children_did_is_undone() {
    let world = World::new(&format!(
        "{BEGIN} {BEFORE} echo half > a.txt; echo new > b.txt; \
         setsid sh -c 'while true; do echo more >> c.txt; sleep 0.01; done' & \
         while [ ! -e c.txt ]; do :; done; echo 'the key is {KEY}' >&2; kill -9 $$"
    ));
    let stopped = world.run(Evaluation::new()).await.unwrap_err();
    let StopReason::Request(error) = &stopped.reason else { panic!("{stopped:?}") };
    assert_eq!(error.kind, ModelErrorKind::Unavailable);
    assert!(error.message.contains("the key is") && !stopped.to_string().contains(KEY), "{}", error.message);
    assert_eq!(world.endings(), [Ending::Errored]);
    assert_eq!(world.files(), ["a.txt"]);
    assert_eq!(std::fs::read_to_string(world.workspace.join("a.txt")).unwrap(), "one\n");
}

#[tokio::test]
async fn when_nobody_waits_any_more_it_is_ended_and_undone() {
    let world = World::new(&format!("{BEGIN} {BEFORE} echo half > a.txt; echo > ../began; exec sleep 1000"));
    let began = async {
        while world.left("began").is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        came = world.run(Evaluation::new()) => panic!("{came:?}"),
        () = began => {}
    }
    // The next to change the workspace waits for that.
    let files = HostFilesystem::open(&world.workspace, HostOptions::default()).unwrap();
    files.write_text("b.txt", "next").await.unwrap();
    assert_eq!(std::fs::read_to_string(world.workspace.join("a.txt")).unwrap(), "one\n");
    world.nothing_runs();
}

#[tokio::test]
async fn one_that_ignores_everything_is_killed() {
    let world = World::new(&format!("trap '' TERM INT; {BEGIN} echo > ../began; sleep 1000; sleep 1000"));
    let cancel = CancelToken::new();
    let began = async {
        while world.left("began").is_none() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (came, ()) = tokio::join!(world.run(Evaluation::new().cancel(cancel.clone())), began);
    assert_eq!(came.unwrap_err().reason, StopReason::Cancelled);
}

#[tokio::test]
async fn one_that_is_not_there_is_told() {
    let mut world = World::new("");
    world.adapter = world.adapter.program("/nowhere/claude");
    let StopReason::Runtime(text) = world.run(Evaluation::new()).await.unwrap_err().reason else { panic!() };
    assert!(text.starts_with("the program /nowhere/claude cannot be started"), "{text}");
}

#[tokio::test]
async fn a_run_that_was_stopped_is_taken_up_again() {
    taken_up(false).await;
}

/// Where sessions last, calls are known by their keys, too.
#[tokio::test]
async fn a_run_that_was_stopped_is_taken_up_again_in_a_durable_session() {
    taken_up(true).await;
}

async fn taken_up(durable: bool) {
    let says = concat!(
        r#"echo '{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1"}}}';"#,
        r#"echo '{"type":"assistant","message":{"id":"m1","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"x"}}]}}';"#,
        r#"echo '{"type":"stream_event","event":{"type":"message_stop"}}';"#,
    );
    let done = r#"echo '{"type":"result","subtype":"success","result":"Done."}'; read -r end; exit 0"#;
    // The second program goes on from what the first has said.
    let mut world = World::new(&format!(
        r#"
        while [ $# -gt 0 ]; do if [ "$1" = --resume ]; then cat "$2" > ../transcript; fi; shift; done
        {BEGIN} echo "$task" > ../task
        if [ -e ../transcript ]; then {done}; fi
        {says} {BEFORE} echo half > b.txt; kill -9 $$"#
    ));
    let place = tempfile::tempdir().unwrap();
    if durable {
        let store = wink_store::SqliteStore::open(place.path(), wink_store::StoreOptions::default()).unwrap();
        world.session = Session::builder().store(Arc::new(store)).id("run").open().await.unwrap();
    }
    let stopped = world.run(Evaluation::new().task("Go.")).await.unwrap_err();
    assert_eq!(stopped.reason.name(), "request_failed");
    assert_eq!((world.endings(), world.files()), (vec![Ending::Errored], vec!["a.txt".to_owned()]));
    assert!(world.left("task").unwrap().contains("\"Go.\""));

    let run = wink::session::RunContext { run_id: Some(stopped.run_id.to_string()), ..Default::default() };
    let response = world.run(Evaluation::new().run(run.clone())).await.unwrap();
    assert_eq!((&*response.text, response.stats.turns), ("Done.", 2));
    // The command was not run again: the model is told what came of it, and has to want it. Where nothing lasts, it is tried.
    let endings = vec![Ending::Errored; if durable { 1 } else { 2 }];
    assert_eq!((world.endings(), world.files()), (endings, vec!["a.txt".to_owned()]));
    let transcript = world.left("transcript").unwrap();
    let said: Vec<&str> = transcript.lines().collect();
    assert!(said[0].contains(r#""content":"Go.""#), "{transcript}");
    assert!(said[1].contains(r#""id":"t1""#) && said[1].contains(r#""name":"Bash""#), "{transcript}");
    assert!(
        said[2].contains(r#""tool_use_id":"t1""#)
            && said[2].contains(if durable {
                "Whether its effect outside happened is not known."
            } else {
                "nothing was changed"
            }),
        "{transcript}"
    );
    assert_eq!(said.len(), 3);
    assert!(world.left("task").unwrap().contains("\"Go on.\""));

    // One that is at its end has come to what it has come to.
    let again = world.run(Evaluation::new().run(run)).await.unwrap();
    assert_eq!(again, response);
}

/// Where the test below is to run, when it runs as a process of its own.
const PLACE: &str = "WINK_CLAUDE_PLACE";

/// Runs the adapter, in a process that is killed in the middle of it.
#[tokio::test]
async fn as_a_process_that_is_killed() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    let place = PathBuf::from(place);
    let adapter = ClaudeAdapter::new("m").program(place.join("program"));
    let files = HostFilesystem::open(place.join("workspace"), HostOptions::default()).unwrap();
    let natives = native_tools([Native::Bash]).resource(Binding::filesystem(Arc::new(files)));
    let prompt = PromptTemplate::builder("tests", "process").section(natives).build().unwrap().prompt();
    let _ = adapter.evaluate(&prompt, &Session::new(), Evaluation::new()).await;
}

#[test]
fn whoever_comes_after_a_process_that_was_killed_ends_the_program_first() {
    let world = World::new(&format!(
        "{BEGIN} {BEFORE} echo half > a.txt; echo > ../began; while true; do echo more >> b.txt; sleep 0.01; done"
    ));
    let mut process = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "claude_process::as_a_process_that_is_killed"])
        .env(PLACE, world.dir.path())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while world.left("began").is_none() {
        std::thread::yield_now();
    }
    process.kill().unwrap();
    process.wait().unwrap();
    let files = HostFilesystem::open(&world.workspace, HostOptions::default()).unwrap();
    world.nothing_runs();
    assert_eq!(world.files(), ["a.txt"]);
    assert_eq!(std::fs::read_to_string(world.workspace.join("a.txt")).unwrap(), "one\n");
    assert_eq!(files.recovered().map(|found| found.trash.len()), Some(1));
}
