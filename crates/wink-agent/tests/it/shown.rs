//! Where the sandbox shows the workspace at `/workspace`, a path that begins so is one from the root.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use wink::prelude::*;
use wink_agent::{Agent, OpenSession};
use wink_store::Workspace;

fn agent(suites: &str, tool: &str) -> String {
    format!(
        r#"
[agent]
ns = "t"
key = "t"

[sandbox]
unlimited = ["unenforceable"]

[[policy]]
paths = {{ deny = ["secrets/**"] }}

[[section]]
key = "a"
title = "A"
suites = [{suites}]
{tool}
"#
    )
}

async fn open(dir: &tempfile::TempDir, text: &str) -> OpenSession {
    fs::create_dir_all(dir.path().join("secrets")).unwrap();
    fs::create_dir_all(dir.path().join("workspace")).unwrap();
    fs::write(dir.path().join("a"), "one\n").unwrap();
    fs::write(dir.path().join("workspace/a"), "two\n").unwrap();
    fs::write(dir.path().join("secrets/key"), "hidden\n").unwrap();
    let workspace = Arc::new(Workspace::open(dir.path()).unwrap());
    Agent::parse(text, "a text").unwrap().open(&workspace, "main").await.unwrap()
}

async fn call(opened: &OpenSession, tool: &str, arguments: Value) -> (bool, String) {
    let outcome = opened.executor().call(ToolCall::new("1", tool, arguments.to_string())).await;
    (outcome.event.success, outcome.answer.text.to_string())
}

const TOOL: &str = r#"
[[section.section]]
key = "b"
title = "B"

[[section.section.tool]]
name = "run"
description = "Run."
command = ["true"]
sandbox = true
"#;

#[tokio::test]
async fn a_path_at_workspace_is_one_from_the_root() {
    for text in [agent("\"files\", \"sandbox\"", ""), agent("\"files\"", TOOL)] {
        let dir = tempfile::tempdir().unwrap();
        let opened = open(&dir, &text).await;
        for (path, content) in
            [("/workspace/a", "one"), ("workspace/a", "two"), ("/workspace/workspace/a", "two")]
        {
            let (success, text) = call(&opened, "read_file", json!({ "path": path })).await;
            assert!(success && text.contains(content), "{path}: {text}");
        }
        // What was read by one name is known by the other.
        let write = |path: &str| json!({ "path": path, "content": "new\n" });
        assert!(call(&opened, "write_file", write("a")).await.0);
        let (success, text) = call(&opened, "write_file", write("//workspace/./a")).await;
        assert!(success, "{text}");
        assert_eq!(fs::read_to_string(dir.path().join("a")).unwrap(), "new\n");
        let edit = json!({ "path": "/workspace/a", "old_string": "new", "new_string": "newer" });
        let (success, text) = call(&opened, "edit_file", edit).await;
        assert!(success, "{text}");
        // Policies and guards see where it leads.
        let (success, text) = call(&opened, "read_file", json!({ "path": "/workspace/secrets/key" })).await;
        assert!(!success && !text.contains("hidden"), "{text}");
        let (success, text) = call(&opened, "write_file", write("/workspace/.envrc")).await;
        assert!(!success && text.contains("'.envrc' is guarded"), "{text}");
        let (success, text) = call(&opened, "list_directory", json!({ "path": "/workspace" })).await;
        assert!(success && text.contains("secrets"), "{text}");
    }
}

#[tokio::test]
async fn without_a_sandbox_it_is_a_directory_like_others() {
    let dir = tempfile::tempdir().unwrap();
    let opened = open(&dir, &agent("\"files\"", "")).await;
    for path in ["/workspace/a", "workspace/a"] {
        let (success, text) = call(&opened, "read_file", json!({ "path": path })).await;
        assert!(success && text.contains("two"), "{path}: {text}");
    }
}
