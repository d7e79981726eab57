//! A workspace for agents, and what is beside it.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "not every test uses all of it, and tests may fail"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::oneshot;
use wink_agent::Agent;
use wink_store::{Workspace, WorkspaceOptions};

/// The agent of a text that is one.
pub(crate) fn load(text: &str) -> Agent {
    Agent::parse(text, "wink.toml").unwrap_or_else(|error| panic!("{error}"))
}

/// A workspace in a directory of its own.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    pub(crate) workspace: Arc<Workspace>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::with(WorkspaceOptions::default())
    }

    pub(crate) fn with(options: WorkspaceOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        fs::create_dir(&root).unwrap();
        let workspace = Arc::new(Workspace::open_with(&root, options).unwrap());
        Self { dir, workspace }
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    /// A place that no rollback reaches.
    pub(crate) fn outside(&self) -> &Path {
        self.dir.path()
    }
}

/// A pipe with a name.
pub(crate) fn make_pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// What is written to a pipe, to its end. A thread of its own waits for it: one of the runtime's would keep a test that has failed
/// from ending, if nobody ever writes.
pub(crate) fn heard(pipe: &Path) -> oneshot::Receiver<String> {
    let (sender, heard) = oneshot::channel();
    let pipe = pipe.to_owned();
    std::thread::spawn(move || sender.send(fs::read_to_string(pipe).unwrap()));
    heard
}
