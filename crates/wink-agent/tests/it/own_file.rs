//! The agent's own file is the user's: no tool changes it, or makes one that would be taken for it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use serde_json::{Value, json};
use wink::filesystem::Filesystem;
use wink::filesystem::host::{Capture, HostFilesystem, HostOptions};
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
            assert!(!success && text.contains("is guarded"), "{path}: {text}");
        }
        for path in ["conf/agent.toml", "way/agent.toml"] {
            let (success, text) = call(&opened, "delete_file", json!({ "path": path })).await;
            assert!(!success && text.contains("is guarded"), "{path}: {text}");
        }
        let edit = json!({ "path": "link", "old_string": "ns = \"t\"", "new_string": "ns = \"u\"" });
        let (success, text) = call(&opened, "edit_file", edit).await;
        assert!(!success && text.contains("is guarded"), "{text}");
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
            assert!(!success && text.contains("is guarded"), "{capture:?} {script}: {text}");
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
        let (success, text) =
            call(&opened, "write_file", json!({ "path": "sub/wink.toml", "content": "" })).await;
        assert!(!success && text.contains("is guarded"), "nor one of a workspace below: {text}");
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
        assert!(!success && (!read || text.contains("is guarded")), "{path}: {text}");
        let (success, text) = call(&opened, "run", json!({ "script": format!("rm {path}") })).await;
        assert!(!success && text.contains("is guarded"), "{path}: {text}");
    }
}

#[tokio::test]
async fn under_the_built_in_agent_none_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = Arc::new(Workspace::open(dir.path()).unwrap());
    let opened = Agent::builtin().open(&workspace, "main").await.unwrap();
    let (success, text) = call(&opened, "write_file", json!({ "path": "wink.toml", "content": AGENT })).await;
    assert!(!success && text.contains("is guarded"), "{text}");
    let tools = opened.prompt().placed_tools().map(|tool| tool.name().to_string()).collect::<Vec<_>>();
    if tools.contains(&"shell_execute".to_owned()) {
        let (success, text) =
            call(&opened, "shell_execute", json!({ "command": ["sh", "-c", "echo > wink.toml"] })).await;
        assert!(!success && text.contains("is guarded"), "{text}");
    }
    assert!(!dir.path().join("wink.toml").exists());
}

#[tokio::test]
async fn nor_what_is_on_the_way_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::create_dir(root.join("real")).unwrap();
    fs::create_dir(root.join("cfg")).unwrap();
    fs::write(root.join("real/agent.toml"), AGENT).unwrap();
    fs::write(root.join("cfg/usual"), AGENT).unwrap();
    symlink("real", root.join("conf")).unwrap();
    // Not in use now, and what is used next time if nobody says otherwise.
    symlink("cfg/usual", root.join("wink.toml")).unwrap();
    let workspace = Arc::new(Workspace::open(root).unwrap());
    let agent = Agent::find(root, Some(&root.join("conf/agent.toml"))).unwrap();
    let opened = agent.open(&workspace, "main").await.unwrap();
    for script in [
        "rm conf; mkdir conf; cp real/agent.toml conf/agent.toml",
        "rm conf; ln -s cfg conf",
        "echo >> real/agent.toml",
        "mv real other",
        "echo >> cfg/usual",
        "ln -sf real/agent.toml wink.toml",
    ] {
        let (success, text) = call(&opened, "run", json!({ "script": script })).await;
        assert!(!success && text.contains("is guarded"), "{script}: {text}");
    }
    // However it was loaded.
    let loaded = Agent::load(&root.join("conf/agent.toml")).unwrap();
    let loaded = loaded.open(&workspace, "loaded").await.unwrap();
    let (success, text) = call(&loaded, "run", json!({ "script": "echo >> real/agent.toml" })).await;
    assert!(!success && text.contains("is guarded"), "{text}");
    for path in ["wink.toml", "cfg/usual", "conf/agent.toml", "real/agent.toml"] {
        assert!(call(&opened, "read_file", json!({ "path": path })).await.0, "{path}");
        let (success, text) = call(&opened, "write_file", json!({ "path": path, "content": "" })).await;
        assert!(!success && text.contains("is guarded"), "{path}: {text}");
    }
    // The user turns it into another link while the agent is at work.
    fs::remove_file(root.join("wink.toml")).unwrap();
    fs::write(root.join("third"), AGENT).unwrap();
    symlink("third", root.join("wink.toml")).unwrap();
    assert!(call(&opened, "read_file", json!({ "path": "third" })).await.0);
    let (success, text) = call(&opened, "write_file", json!({ "path": "third", "content": "" })).await;
    assert!(!success && text.contains("is guarded"), "{text}");
}

#[tokio::test]
async fn however_it_is_called() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let deep = ["d"; 20].join("/");
    let long = format!("{}.toml", "n".repeat(120));
    let names = [b"a\xff.toml".as_slice(), b"a\\xFF.toml", b"a\nb.toml", deep.as_bytes(), long.as_bytes()];
    for name in names.map(OsStr::from_bytes) {
        let dir = tempfile::tempdir().unwrap();
        let file = match name.as_bytes() == deep.as_bytes() {
            true => dir.path().join(name).join("agent.toml"),
            false => dir.path().join(name),
        };
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, AGENT).unwrap();
        let workspace = Arc::new(Workspace::open(dir.path()).unwrap());
        let agent = Agent::find(dir.path(), Some(&file)).unwrap();
        let opened = agent.open(&workspace, "main").await.unwrap();
        let script = "find . -name '*.toml' | while read -r f; do echo >> \"$f\"; done; for f in *.toml; do echo >> \"$f\"; done";
        let (success, text) = call(&opened, "run", json!({ "script": script })).await;
        assert!(!success && text.contains("is guarded"), "{name:?}: {text}");
        assert_eq!(fs::read_to_string(&file).unwrap(), AGENT, "{name:?}");
    }
}

#[tokio::test]
async fn what_a_command_has_made_of_it_is_not_believed() {
    const OTHER: &str = "[agent]\nns = \"t\"\nkey = \"other\"\n";
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("wink.toml");
    fs::write(&file, AGENT).unwrap();
    let files = HostOptions { capture: Some(Capture::Scan), ..HostOptions::default() };
    let options = WorkspaceOptions { files, ..WorkspaceOptions::default() };
    let workspace = Workspace::open_with(dir.path(), options).unwrap();
    let fork = workspace.files().fork().unwrap();
    let layer = HostFilesystem::of(&*fork).unwrap().command_layer_by(Capture::Scan).unwrap();
    // A command is at work, and somebody reads what it made of the file.
    fs::write(&file, OTHER).unwrap();
    let read = Agent::find(dir.path(), None).unwrap();
    fs::remove_file(&file).unwrap();
    let missed = Agent::find(dir.path(), None).unwrap();
    assert_eq!((read.prompt().key(), missed.name()), ("other", Agent::builtin().name()));
    drop(layer);
    for agent in [read, missed] {
        assert_eq!(agent.settled_in(&workspace, None).unwrap().prompt().key(), "t");
    }
    let text = Agent::parse(OTHER, "a text").unwrap();
    assert_eq!(text.settled_in(&workspace, None).unwrap().prompt().key(), "other");
    let agent = Agent::find(dir.path(), None).unwrap();
    assert_eq!(agent.settled_in(&workspace, None).unwrap().prompt().key(), "t");
}

#[tokio::test]
async fn nor_what_an_absolute_link_in_its_place_leads_to() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    fs::write(root.join("usual"), AGENT).unwrap();
    fs::write(root.join("used.toml"), AGENT).unwrap();
    symlink(root.join("usual"), root.join("wink.toml")).unwrap();
    let workspace = Arc::new(Workspace::open(root).unwrap());
    let agent = Agent::find(root, Some(&root.join("used.toml"))).unwrap();
    let opened = agent.open(&workspace, "main").await.unwrap();
    for script in ["echo >> usual", "echo >> used.toml", "rm wink.toml"] {
        let (success, text) = call(&opened, "run", json!({ "script": script })).await;
        assert!(!success && text.contains("is guarded"), "{script}: {text}");
    }
}

#[tokio::test]
async fn no_tool_changes_what_the_agent_is_told() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("wink.toml"), AGENT).unwrap();
    let workspace = Arc::new(Workspace::open(dir.path()).unwrap());
    let agent = Agent::find(dir.path(), None).unwrap();
    let opened = agent.open(&workspace, "main").await.unwrap();
    let path = "wink-overrides/t/t/latest.json";
    let (success, text) = call(&opened, "write_file", json!({ "path": path, "content": "{}" })).await;
    assert!(!success && text.contains("is guarded"), "{text}");
    for script in [
        "mkdir -p wink-overrides/t/t && echo '{}' > wink-overrides/t/t/latest.json",
        "mkdir -p other/t/t && echo '{}' > other/t/t/latest.json && mv other wink-overrides",
    ] {
        let (success, text) = call(&opened, "run", json!({ "script": script })).await;
        assert!(!success, "{script}: {text}");
    }
    assert!(!dir.path().join("wink-overrides").exists());
    // Nor overrides of another agent, which may be used next time.
    for path in ["wink-overrides/t/other/latest.json", "wink-overrides/readme"] {
        let (success, text) = call(&opened, "write_file", json!({ "path": path, "content": "{}" })).await;
        assert!(!success && text.contains("is guarded"), "{path}: {text}");
    }
    // What is there stays as it is.
    fs::create_dir_all(dir.path().join("wink-overrides/t/t")).unwrap();
    fs::write(dir.path().join("wink-overrides/t/t/latest.json"), "{}").unwrap();
    for script in [
        "rm -r wink-overrides",
        "mv wink-overrides a",
        "rm wink-overrides/t/t/latest.json",
        "echo > wink-overrides/t/x",
    ] {
        let (success, text) = call(&opened, "run", json!({ "script": script })).await;
        assert!(!success && text.contains("is guarded"), "{script}: {text}");
    }
    let (success, text) =
        call(&opened, "run", json!({ "script": "cat wink-overrides/t/t/latest.json > copy" })).await;
    assert!(success, "{text}");
}
