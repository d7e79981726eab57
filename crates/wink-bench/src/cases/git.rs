//! The workspace as tools keep it that snapshot it with git: before each call all of it is added to an index beside the
//! workspace's own and written as a tree, which is checked out again when the call fails.

use std::path::Path;
use std::process::{Command, Stdio};

use super::place::{Tree, absolute, content, scratch};
use super::{Case, End, Size};

pub(super) fn make(end: End, size: Size) -> Option<Case> {
    let tree = Tree::of(size);
    let git = Git { store: scratch() };
    let root = absolute(&tree);
    git.run(&root, &["init", "--quiet"])?;
    // The first snapshot reads every file. Nobody waits for that more than once.
    git.snapshot(&root)?;
    let mut number = 0;
    Some(Box::new(move || {
        number += 1;
        // Not in step with others who change the same tree.
        let number = number + 37;
        let before = git.snapshot(&root);
        for path in tree.changed(number) {
            let written = std::fs::write(root.join(path), content("git", number));
            written.unwrap_or_else(|error| unreachable!("{error}"));
        }
        let done = before.and_then(|before| match end {
            End::Commit => Some(()),
            End::Rollback => git.restore(&root, &before),
        });
        assert!(done.is_some(), "git worked before");
    }))
}

struct Git {
    store: tempfile::TempDir,
}

impl Git {
    fn snapshot(&self, root: &Path) -> Option<String> {
        self.run(root, &["add", "-A"])?;
        self.run(root, &["write-tree"])
    }

    fn restore(&self, root: &Path, tree: &str) -> Option<()> {
        // A merge with one tree keeps what is known of files that are not concerned: the quickest way there is.
        self.run(root, &["read-tree", "-m", tree])?;
        self.run(root, &["checkout-index", "--all", "--force"])?;
        Some(())
    }

    /// What it says; nothing, where there is no git or it fails.
    fn run(&self, root: &Path, arguments: &[&str]) -> Option<String> {
        let output = Command::new("git")
            .env("GIT_DIR", self.store.path())
            .env("GIT_WORK_TREE", root)
            .current_dir(root)
            .args(["-c", "core.autocrlf=false", "-c", "gc.auto=0"])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}
