//! The adapter of the program `claude` in the suite of conversations that every adapter is in: with a program that speaks the control
//! protocol as the real one does, it comes to the very sessions that a scripted model comes to. What the real program does is looked up in
//! `claude_code`, which runs the same scenarios with it.

#![cfg(feature = "claude")]
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

mod program;

use std::os::unix::fs::PermissionsExt;

use crate::answers::{Unknown, expected, go_through};
use crate::claude_subject::{DIFFERS, adapter};
use serde_json::{Value, json};
use wink::BoxFuture;
use wink_models::Adapter;
use wink_models::claude::ClaudeAdapter;
use wink_models::testing::{Arguments, Differs, Running, Script, Setup, Subject, adapter_contract};
use wink_models::{Random, Terms};

/// The adapter, with this test in place of the program.
struct Played;

impl Subject for Played {
    fn name(&self) -> String {
        "claude".to_owned()
    }

    fn arguments(&self) -> Arguments {
        Arguments::Rewritten
    }

    fn differs(&self) -> &[Differs] {
        DIFFERS
    }

    fn start<'a>(&'a self, script: &'a Script, setup: Setup) -> BoxFuture<'a, Box<dyn Running>> {
        let started = Started::new(&script.to_json_lines(), setup);
        Box::pin(std::future::ready(Box::new(started) as Box<dyn Running>))
    }
}

struct Started {
    dir: tempfile::TempDir,
    adapter: ClaudeAdapter,
}

impl Started {
    fn new(script: &str, setup: Setup) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        let (place, test) = (dir.path().display(), std::env::current_exe().unwrap());
        let text = format!(
            "#!/bin/sh\n{}=\"$(printf '%s\\n' \"$@\")\" {}='{place}' exec '{}' --exact claude_contract::as_the_program --nocapture\n",
            program::ARGUMENTS,
            program::PLACE,
            test.display()
        );
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(dir.path().join("script"), script).unwrap();
        let adapter = adapter(setup).program(program);
        Self { dir, adapter }
    }

    /// The lines that the program has written down.
    fn written(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Running for Started {
    fn adapter(&self) -> &dyn Adapter {
        &self.adapter
    }

    fn complaints(&self) -> Vec<String> {
        self.written("complaints")
    }
}

/// The program, when this runs as a process of its own.
#[test]
fn as_the_program() {
    program::play();
}

// case 211
#[tokio::test]
async fn every_scenario_comes_to_the_same_session() {
    adapter_contract(&Played).await;
}

/// But for a tool that there is not: of that the program tells the model itself. And a prompt that has changed is told after the answer
/// that changed it, since the program sends what it began with.
// case 72
#[tokio::test]
async fn the_program_is_told_the_same_text() {
    let setup = Setup { terms: Terms::default(), random: Random::seeded(7) };
    let started = Started::new(&crate::answers::script(Unknown::Left), setup);
    go_through(started.adapter()).await;
    let told = started.written("told").into_iter().map(|line| {
        let mut told: Value = serde_json::from_str(&line).unwrap();
        let text = told[0]["text"].as_str().unwrap().to_owned();
        if let Some((answer, _)) = text.split_once("\n\nYour instructions are these from now on:\n\n") {
            assert_eq!(answer, "opened manual");
            told[0]["text"] = answer.into();
        }
        told
    });
    let expected = expected(Unknown::Left).await;
    let expected = expected.iter().map(|text| json!([{ "type": "text", "text": text }]));
    assert_eq!(told.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    assert_eq!(started.complaints(), [""; 0]);
}
