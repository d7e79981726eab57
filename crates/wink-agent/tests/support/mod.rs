//! A workspace for agents, and what is beside it.

#![allow(dead_code, reason = "not every test uses all of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
