//! Where the demo takes place: a directory with the workspace and the bank's books in it, for as many processes as there are.

use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub(super) struct Place {
    root: PathBuf,
    workspace: PathBuf,
}

impl Place {
    /// In this directory.
    pub(super) fn at(root: PathBuf) -> Self {
        Self { workspace: root.join("shop"), root }
    }

    /// What processes that join have to know.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// The workspace.
    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// The bank's books, which are none of the workspace's business.
    pub(super) fn books(&self) -> PathBuf {
        self.root.join("books-of-the-bank")
    }
}
