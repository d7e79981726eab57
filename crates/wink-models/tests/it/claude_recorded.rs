//! Runs of the program `claude`, with a script in its place, recorded and repeated without it.

#![cfg(feature = "claude")]
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use wink::limits::{CancelToken, Deadline, SystemClock};
use wink::prelude::*;
use wink::session::SnapshotScope;
use wink::testing::FakeClock;
use wink_models::claude::{ClaudeAdapter, Native, native_tools};
use wink_models::recording::{Recorder, Recording, Scrubber};
use wink_models::{Adapter, Evaluation, PromptResponse, Secret, Stopped};

use crate::support::{Page, prompt, resources};

const KEY: &str = "sk-a-key-that-nobody-sees";

/// What the program says at first, up to the task.
const BEGIN: &str = r#"
read -r initialize
echo '{"type":"control_response","response":{"subtype":"success","request_id":"1","response":{}}}'
echo 'something for people'
read -r task
"#;

/// A response with these calls, and that they are made: each with its tool and its text.
fn calls(calls: &[(&str, &str)]) -> String {
    let mut script = String::new();
    for (at, (tool, text)) in calls.iter().enumerate() {
        script += &format!(
            r#"echo '{{"type":"assistant","message":{{"id":"m1","model":"m","content":[{{"type":"tool_use","id":"t{at}","name":"mcp__wink__{tool}","input":{{"text":"{text}"}}}}],"usage":{{"input_tokens":3,"output_tokens":2}}}}}}'
"#
        );
    }
    for (at, (tool, text)) in calls.iter().enumerate() {
        script += &format!(
            r#"echo '{{"type":"control_request","request_id":"r{at}","request":{{"subtype":"mcp_message","server_name":"wink","message":{{"jsonrpc":"2.0","id":{at},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"{text}"}},"_meta":{{"claudecode/toolUseId":"t{at}"}}}}}}}}}}'
"#
        );
    }
    script
}

/// Takes answers, and hands each on as what the model is told.
fn answers(count: usize) -> String {
    let mut script = "read -r answer\n".repeat(count);
    for at in 0..count {
        script += &format!(
            r#"echo '{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t{at}","content":"told"}}]}}}}'
"#
        );
    }
    script
}

/// The model's last word, in pieces and as a whole.
const DONE: &str = r#"
echo '{"type":"stream_event","event":{"type":"message_start","message":{"id":"m2"}}}'
echo '{"type":"stream_event","event":{"type":"content_block_delta","delta":{"text":"sk-a-key-"}}}'
echo '{"type":"stream_event","event":{"type":"content_block_delta","delta":{"text":"that-nobody-sees"}}}'
echo '{"type":"assistant","message":{"id":"m2","model":"m","content":[{"type":"text","text":"Done with sk-a-key-that-nobody-sees."}],"usage":{"input_tokens":3,"output_tokens":2}}}'
echo '{"type":"stream_event","event":{"type":"message_stop"}}'
echo '{"type":"result","subtype":"success","result":"Done with sk-a-key-that-nobody-sees."}'
read -r end
"#;

fn adapter(dir: &tempfile::TempDir, script: &str) -> ClaudeAdapter {
    let program = dir.path().join("program");
    std::fs::write(&program, format!("#!/bin/sh\n{script}")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let secret = Secret::new(KEY.to_owned());
    ClaudeAdapter::new("some-model").program(program).secret("ANTHROPIC_API_KEY", secret).unwrap()
}

type Came = (Result<PromptResponse, Stopped>, String);

async fn evaluated(adapter: ClaudeAdapter, session: &Session, evaluation: Evaluation) -> Came {
    let evaluation = evaluation.task("Do it.").resources(resources().0);
    let (prompt, minute) = (prompt(), Duration::from_secs(60));
    #[expect(
        clippy::disallowed_methods,
        reason = "on a clock of its own: a run that waits for what never comes is a failure, and no test that hangs"
    )]
    let came = tokio::time::timeout(minute, adapter.evaluate(&prompt, session, evaluation)).await.unwrap();
    (came, session.snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap().to_string())
}

/// Who stops a run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum By {
    Somebody,
    Deadline,
}

/// How far ahead a deadline is.
const AHEAD: Duration = Duration::from_secs(5);

/// Runs a script in place of the program; `until` says when the run is stopped.
async fn recorded(script: &str, by: By, until: impl Future<Output = ()>) -> (Came, String) {
    let (dir, page) = (tempfile::tempdir().unwrap(), Page::default());
    let clock = FakeClock::new("2026-03-01T12:00:00Z".parse().unwrap());
    let adapter = adapter(&dir, script);
    let scrubber = Scrubber::new().knowing(&Secret::new(KEY.to_owned())).unwrap();
    let recorder = Recorder::start(page.clone(), adapter.stand_in(), Arc::new(clock.clone()), scrubber);
    let session = recorder.session(Session::builder()).build();
    let cancel = CancelToken::new();
    let mut evaluation = recorder.evaluation(Evaluation::new()).cancel(cancel.clone());
    if by == By::Deadline {
        evaluation = evaluation.deadline(Deadline::after(AHEAD, &**recorder.clock()).unwrap());
    }
    let adapter = adapter.recorded(&recorder).random(recorder.random());
    let mut evaluating = std::pin::pin!(evaluated(adapter, &session, evaluation));
    let came = tokio::select! {
        biased;
        came = &mut evaluating => came,
        () = until => {
            match by {
                By::Somebody => cancel.cancel(),
                By::Deadline => clock.advance(AHEAD),
            }
            evaluating.await
        }
    };
    recorder.finish().unwrap();
    (came, page.text())
}

async fn replayed(text: &str, by: By) -> (Came, Option<String>) {
    let recording = Recording::parse(text).unwrap();
    let session = recording.session(Session::builder()).build();
    let mut evaluation = recording.evaluation(Evaluation::new());
    if by == By::Deadline {
        evaluation = evaluation.deadline(Deadline::after(AHEAD, &*recording.clock()).unwrap());
    }
    let adapter = recording.claude().unwrap().random(recording.random());
    let came = evaluated(adapter, &session, evaluation).await;
    (came, recording.difference())
}

#[tokio::test]
async fn a_run_is_repeated_without_the_program() {
    let script = [BEGIN, &calls(&[("note", "a"), ("fail", "b"), ("write", "c")]), &answers(3), DONE].concat();
    let (came, text) = recorded(&script, By::Somebody, std::future::pending()).await;
    assert_eq!(&*came.0.as_ref().unwrap().text, "Done with ***.");
    assert_eq!(came.0.as_ref().unwrap().stats.calls, 3);
    for part in [KEY, "sk-a-key-", "that-nobody"] {
        assert!(!text.contains(part), "{part} is in {text}");
    }
    assert_eq!(Recording::parse(&text).unwrap().called().len(), 3);
    let (again, difference) = replayed(&text, By::Somebody).await;
    assert_eq!(difference, None, "{text}");
    assert_eq!(again, came, "{text}");
}

#[tokio::test]
async fn what_differs_is_said() {
    let script = [BEGIN, &calls(&[("note", "a")]), &answers(1), DONE].concat();
    let (_, text) = recorded(&script, By::Somebody, std::future::pending()).await;
    let (_, difference) = replayed(&text.replace("noted", "nothing"), By::Somebody).await;
    let difference = difference.unwrap();
    assert!(difference.starts_with("Claude Code is told something else"), "{difference}");
    let (_, difference) = replayed(&text.replace("note\"", "fail\""), By::Somebody).await;
    assert!(difference.is_some());
}

#[tokio::test]
async fn a_run_is_stopped_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("here");
    rustix::fs::mknodat(rustix::fs::CWD, &here, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let ready = format!("echo > '{}'\n", here.display());
    let end = r#"read -r interrupt
echo '{"type":"result","subtype":"success","is_error":true,"result":"stopped"}'
read -r end
"#;
    let hangs = calls(&[("note", "a"), ("hang", "b")]);
    // The first answer has come, so that the second call has begun.
    let in_call = [BEGIN, &hangs, "read -r answer\n", &ready, end].concat();
    let in_request = [BEGIN, &ready, end].concat();
    let stops = [(By::Somebody, "cancelled"), (By::Deadline, "deadline")];
    for (script, (by, why)) in [in_call, in_request].iter().flat_map(|script| stops.map(|by| (script, by))) {
        let here = here.clone();
        let until = async move {
            tokio::task::spawn_blocking(move || std::fs::read(here)).await.unwrap().unwrap();
        };
        let (came, text) = recorded(script, by, until).await;
        assert_eq!(came.0.as_ref().unwrap_err().reason.name(), why, "{text}");
        let (again, difference) = replayed(&text, by).await;
        assert_eq!(difference, None, "{text}");
        assert_eq!(again, came, "{text}");
    }
}

#[tokio::test]
async fn what_the_programs_own_tools_do_is_not_recorded() {
    let (dir, page) = (tempfile::tempdir().unwrap(), Page::default());
    let adapter = adapter(&dir, BEGIN);
    let recorder = Recorder::start(page, adapter.stand_in(), Arc::new(SystemClock), Scrubber::new());
    let builder = PromptTemplate::builder("tests", "own").section(native_tools([Native::Bash]));
    let prompt = builder.build().unwrap().prompt();
    let came = adapter
        .recorded(&recorder)
        .evaluate(&prompt, &Session::new(), recorder.evaluation(Evaluation::new()))
        .await;
    let told = came.unwrap_err().to_string();
    assert!(told.contains("cannot be recorded"), "{told}");
    recorder.finish().unwrap();
}
