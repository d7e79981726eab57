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

#[path = "../support/claude_subject.rs"]
mod claude_subject;
mod program;

use std::os::unix::fs::PermissionsExt;

use claude_subject::{DIFFERS, adapter};
use wink::BoxFuture;
use wink_models::Adapter;
use wink_models::claude::ClaudeAdapter;
use wink_models::testing::{Arguments, Differs, Running, Script, Setup, Subject, adapter_contract};

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
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        let (place, test) = (dir.path().display(), std::env::current_exe().unwrap());
        let text = format!(
            "#!/bin/sh\n{}=\"$(printf '%s\\n' \"$@\")\" {}='{place}' exec '{}' --exact as_the_program --nocapture\n",
            program::ARGUMENTS,
            program::PLACE,
            test.display()
        );
        std::fs::write(&program, text).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(dir.path().join("script"), script.to_json_lines()).unwrap();
        let adapter = adapter(setup).program(program);
        Box::pin(std::future::ready(Box::new(Started { dir, adapter }) as Box<dyn Running>))
    }
}

struct Started {
    dir: tempfile::TempDir,
    adapter: ClaudeAdapter,
}

impl Running for Started {
    fn adapter(&self) -> &dyn Adapter {
        &self.adapter
    }

    fn complaints(&self) -> Vec<String> {
        let complaints = std::fs::read_to_string(self.dir.path().join("complaints")).unwrap_or_default();
        complaints.lines().map(str::to_owned).collect()
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
