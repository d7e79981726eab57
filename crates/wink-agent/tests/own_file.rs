//! The agent's own file is the user's: no tool changes it, or makes one that would be taken for it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use serde_json::{Value, json};
use wink::filesystem::host::{Capture, HostOptions};
use wink::prelude::*;
use wink_agent::{Agent, OpenSession};
use wink_store::{Workspace, WorkspaceOptions};

const AGENT: &str = r#"
[agent]
ns = "t"
key = "t"

[[section]]
key = "a"
title = "A"
suites = ["files"]

[[section.tool]]
name = "run"
description = "Run a script."
command = ["sh", "-c", 'eval "$WINK_ARG_SCRIPT"']
params = { type = "object", properties = { script = { type = "string" } } }
"#;

async fn call(opened: &OpenSession, tool: &str, arguments: Value) -> (bool, String) {
    let outcome = opened.executor().call(ToolCall::new("1", tool, arguments.to_string())).await;
    (outcome.event.success, outcome.answer.text.to_string())
}

#[tokio::test]
async fn no_tool_changes_it() {
    for capture in [None, Some(Capture::Scan)] {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("conf")).unwrap();
        let file = dir.path().join("conf/agent.toml");
        fs::write(&file, AGENT).unwrap();
        // Links that somebody has left, or that came with a repository.
        symlink("conf/agent.toml", dir.path().join("link")).unwrap();
        symlink("conf", dir.path().join("way")).unwrap();
        symlink("wink.toml", dir.path().join("usual")).unwrap();
        let files = HostOptions { capture, ..HostOptions::default() };
        let options = WorkspaceOptions { files, ..WorkspaceOptions::default() };
        let workspace = Arc::new(Workspace::open_with(dir.path(), options).unwrap());
        let agent = Agent::find(dir.path(), Some(&file)).unwrap();
        let opened = agent.open(&workspace, "main").await.unwrap();

        assert!(call(&opened, "read_file", json!({ "path": "conf/agent.toml" })).await.0, "it can be read");
        for path in ["link", "way/agent.toml"] {
            assert!(call(&opened, "read_file", json!({ "path": path })).await.0, "{path} can be read");
        }
        let names = ["wink.toml", "./wink.toml", "conf/agent.toml", "x/../conf//agent.toml"];
        for path in names.into_iter().chain(["link", "way/agent.toml", "usual"]) {
            let (success, text) = call(&opened, "write_file", json!({ "path": path, "content": "" })).await;
            assert!(!success && text.contains("is the user's to change"), "{path}: {text}");
        }
        for path in ["conf/agent.toml", "way/agent.toml"] {
            let (success, text) = call(&opened, "delete_file", json!({ "path": path })).await;
            assert!(!success && text.contains("is the user's to change"), "{path}: {text}");
        }
        let edit = json!({ "path": "link", "old_string": "ns = \"t\"", "new_string": "ns = \"u\"" });
        let (success, text) = call(&opened, "edit_file", edit).await;
        assert!(!success && text.contains("is the user's to change"), "{text}");
        assert_eq!(fs::read_to_string(&file).unwrap(), AGENT);
        let scripts = [
            "echo > wink.toml",
            "echo >> conf/agent.toml",
            "mkdir wink.toml",
            "ln -s conf/agent.toml wink.toml",
            "rm conf/agent.toml",
            "mv conf other",
            "rm -r conf && ln -s /etc conf",
            "cp conf/agent.toml x; echo >> x; mv x conf/agent.toml",
            "cp conf/agent.toml x; ln -sf ../x conf/agent.toml",
            "mv conf other; ln -s other conf",
            "ln conf/agent.toml x; echo >> x",
            "echo >> link",
            "echo >> way/agent.toml",
            "chmod 600 conf/agent.toml",
        ];
        for script in scripts {
            let (success, text) =
                call(&opened, "run", json!({ "script": format!("echo x > b.txt; {script}") })).await;
            assert!(!success && text.contains("is the user's to change"), "{capture:?} {script}: {text}");
            assert_eq!(fs::read_to_string(&file).unwrap(), AGENT, "{capture:?} {script}");
            assert!(fs::symlink_metadata(&file).unwrap().is_file(), "{capture:?} {script}");
            assert!(fs::symlink_metadata(dir.path().join("wink.toml")).is_err(), "{capture:?} {script}");
            assert!(!dir.path().join("b.txt").exists(), "{capture:?} {script}");
        }
        // What leaves it as it is, is fine.
        let script = "touch conf/agent.toml; cp conf/agent.toml x; mv x conf/agent.toml; echo y > b.txt";
        let (success, text) = call(&opened, "run", json!({ "script": script })).await;
        assert!(success, "{capture:?}: {text}");
        assert_eq!(fs::read_to_string(dir.path().join("b.txt")).unwrap(), "y\n");
        assert!(
            call(&opened, "write_file", json!({ "path": "sub/wink.toml", "content": "" })).await.0,
            "elsewhere it is a file"
        );
    }
}

#[tokio::test]
async fn nor_what_it_is_a_link_to() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("conf")).unwrap();
    fs::write(dir.path().join("conf/agent.toml"), AGENT).unwrap();
    symlink("agent.toml", dir.path().join("conf/current")).unwrap();
    symlink("conf/current", dir.path().join("wink.toml")).unwrap();
    let workspace = Arc::new(Workspace::open(dir.path()).unwrap());
    let opened = Agent::find(dir.path(), None).unwrap().open(&workspace, "main").await.unwrap();
    for path in ["wink.toml", "conf/current", "conf/agent.toml"] {
        // It is known then, so that only its being the agent's own is against it. Links cannot be read.
        let (read, _) = call(&opened, "read_file", json!({ "path": path })).await;
        let (success, text) = call(&opened, "write_file", json!({ "path": path, "content": "" })).await;
        assert!(!success && (!read || text.contains("is the user's to change")), "{path}: {text}");
        let (success, text) = call(&opened, "run", json!({ "script": format!("rm {path}") })).await;
        assert!(!success && text.contains("is the user's to change"), "{path}: {text}");
    }
}

#[tokio::test]
async fn under_the_built_in_agent_none_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = Arc::new(Workspace::open(dir.path()).unwrap());
    let opened = Agent::builtin().open(&workspace, "main").await.unwrap();
    let (success, text) = call(&opened, "write_file", json!({ "path": "wink.toml", "content": AGENT })).await;
    assert!(!success && text.contains("is the user's to change"), "{text}");
    let tools = opened.prompt().placed_tools().map(|tool| tool.name().to_string()).collect::<Vec<_>>();
    if tools.contains(&"shell_execute".to_owned()) {
        let (success, text) =
            call(&opened, "shell_execute", json!({ "command": ["sh", "-c", "echo > wink.toml"] })).await;
        assert!(!success && text.contains("is the user's to change"), "{text}");
    }
    assert!(!dir.path().join("wink.toml").exists());
}
