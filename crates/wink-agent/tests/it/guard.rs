//! Guarded paths: what other programs run on their own is not for tools to change.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use wink::filesystem::host::{Capture, HostOptions, PathGuard};
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

async fn run(opened: &OpenSession, script: &str) -> (bool, String) {
    call(opened, "run", json!({ "script": script })).await
}

/// Git, which reads no configuration but the repository's.
fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(dir)
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"])
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A repository with one commit.
fn repository(dir: &Path) {
    git(dir, &["init", "-q", "-b", "main", "."]);
    fs::write(dir.join("a.txt"), "a\n").unwrap();
    git(dir, &["add", "a.txt"]);
    git(dir, &["commit", "-q", "-m", "one"]);
}

async fn open(dir: &Path, capture: Option<Capture>, guard: &str) -> OpenSession {
    let files = HostOptions { capture, ..HostOptions::default() };
    let options = WorkspaceOptions { files, ..WorkspaceOptions::default() };
    let workspace = Arc::new(Workspace::open_with(dir, options).unwrap());
    let text = AGENT.replace("[[section]]", &format!("{guard}\n[[section]]"));
    Agent::parse(&text, "a text").unwrap().open(&workspace, "main").await.unwrap()
}

/// Everything in a directory that is not the runtime's state: its path, kind, mode and contents.
fn tree(root: &Path) -> String {
    let script = "find . -path ./.wink -prune -o -printf '%p %y %m %l\\n' | sort; \
                  find . -path ./.wink -prune -o -type f -print0 | sort -z | xargs -0 cksum";
    let output = Command::new("sh").current_dir(root).args(["-c", script]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What a command of these tests begins with: no configuration but the repository's, and a name for commits.
const SETUP: &str = "set -e; export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b \
    GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=protocol.file.allow \
    GIT_CONFIG_VALUE_0=always; ";

/// The ways in which commands can be captured here. On an overlay no hard link can be made to a file of the workspace, which a clone
/// from a path would do.
const WAYS: [Option<Capture>; 2] = [None, Some(Capture::Scan)];

// case 254
#[tokio::test]
async fn file_tools_write_nothing_in_a_repository() {
    for capture in WAYS {
        let dir = tempfile::tempdir().unwrap();
        repository(dir.path());
        git(dir.path(), &["init", "-q", "--bare", "bare"]);
        let opened = open(dir.path(), capture, "").await;
        let before = tree(dir.path());
        for path in [
            ".git/hooks/pre-commit",
            ".git/hooks/pre-commit.sample",
            ".git/config",
            ".git/commondir",
            ".git/info/attributes",
            ".git/anything",
            "bare/hooks/update",
            "bare/x",
            "sub/.git/config",
            "sub/.git",
            ".GIT/hooks/pre-commit",
            "x/../.git//hooks/./pre-commit",
        ] {
            let read = call(&opened, "read_file", json!({ "path": path })).await.0;
            let (success, text) = call(&opened, "write_file", json!({ "path": path, "content": "x" })).await;
            assert!(!success && text.contains("is guarded"), "{capture:?} {path}: {text}");
            assert!(text.contains("git repository: ") && text.contains("tell the user"), "{text}");
            if read {
                let (success, text) = call(&opened, "delete_file", json!({ "path": path })).await;
                assert!(!success && text.contains("is guarded"), "{capture:?} {path}: {text}");
            }
        }
        assert_eq!(tree(dir.path()), before);
    }
}

// case 254
#[tokio::test]
async fn what_git_runs_is_changed_by_no_command() {
    for capture in WAYS {
        let dir = tempfile::tempdir().unwrap();
        repository(dir.path());
        git(dir.path(), &["init", "-q", "--bare", "bare.git"]);
        git(dir.path(), &["worktree", "add", "-q", "tree"]);
        git(dir.path(), &["submodule", "--quiet", "add", dir.path().to_str().unwrap(), "sub"]);
        fs::write(dir.path().join(".git/hooks/pre-push"), "#!/bin/sh\n").unwrap();
        let opened = open(dir.path(), capture, "").await;
        let before = tree(dir.path());
        for script in [
            "echo x > .git/hooks/pre-commit",
            "cp .git/hooks/pre-commit.sample .git/hooks/pre-commit",
            "chmod +x .git/hooks/pre-push",
            "rm .git/hooks/pre-push",
            "rm -r .git/hooks; mkdir x; ln -s ../x .git/hooks",
            "mkdir .git/hooks/pre-commit.sample.d",
            "ln -s ../../a.txt .git/hooks/post-commit",
            "ln -s ../../a.txt .git/hooks/new.sample",
            "mv .git/hooks/pre-commit.sample .git/hooks/pre-commit",
            "git config core.fsmonitor x",
            "git config core.hooksPath hooks",
            "git config core.sshCommand x",
            "git config core.pager x",
            "git config core.worktree ..",
            "git config alias.st '!x'",
            "git config include.path ../x",
            "git config filter.x.clean x",
            "git config diff.x.textconv x",
            "git config credential.helper '!x'",
            "git config remote.origin.uploadpack x",
            "git remote add evil 'ext::sh -c x'",
            "git config submodule.sub.update '!x'",
            "git config gpg.program x",
            "git config extensions.worktreeConfig true",
            "printf '[core]\\n\\tfsmonitor = x\\n' >> .git/config",
            "printf '[core]\\n\\tfsmonitor = \\\\\\nx\\n' >> .git/config",
            "printf 'not a configuration' >> .git/config",
            "ln .git/config other; printf '[core]\\nfsmonitor=x\\n' >> other",
            "mv .git/config other; ln -s ../other .git/config",
            "mkdir .git/config.d",
            "echo x > .git/config.worktree",
            "echo ../other > .git/commondir",
            "echo ../other > .git/gitdir",
            "echo '* filter=x' > .git/info/attributes",
            "mkdir x; rm -r .git/info; ln -s ../x .git/info",
            "mkdir -p new/.git; printf '[core]\\n\\tfsmonitor = x\\n' > new/.git/config",
            "mkdir -p new/.git; printf '[core]\\n\\tbare = false\\n' > new/.git/config",
            "mkdir -p new/.GIT/Hooks; echo x > new/.GIT/Hooks/pre-commit",
            "git init -q new; echo x > new/.git/hooks/pre-commit",
            "git init -q new; git -C new config core.fsmonitor x",
            "git init -q new; echo 'x filter=y' > new/.git/info/attributes",
            "git init -q new; mv new/.git plain; echo x > plain/hooks/pre-commit; mv plain new/.git",
            "git init -q new; mv new/.git plain; echo x > plain/hooks/pre-commit",
            "git init -q --bare new.git; echo x > new.git/hooks/update",
            "echo x > bare.git/hooks/update",
            "git -C bare.git config core.fsmonitor x",
            "echo x > .git/modules/sub/hooks/pre-commit",
            "git -C sub config core.fsmonitor x",
            "echo ../../.. > .git/worktrees/tree/commondir",
            "echo 'gitdir: ../other' > tree/.git",
            "echo 'gitdir: ../.git/modules/sub' > tree/.git",
            "mkdir new; echo 'gitdir: ../bare.git' > new/.git",
            "mkdir new; echo 'gitdir: /tmp' > new/.git",
            "mkdir new; echo 'gitdir: ../.git/worktrees/../../bare.git' > new/.git",
            "mkdir new; ln -s ../.git new/.git",
            "rm -r .git; ln -s bare.git .git",
            "git clone -q --no-hardlinks --separate-git-dir=there . new",
            "mkdir new; cp .git/HEAD new; echo ../.git > new/commondir",
            "echo x > .envrc",
            "mkdir -p a/.claude; echo x > a/.claude/settings.json",
            "mkdir -p x; echo x > x/tasks.json; ln -s x .vscode",
            "mkdir -p x; echo x > x/tasks.json; mv x .vscode",
            "mkdir -p sub2; echo x > sub2/wink.toml",
            "mkdir -p sub2/.wink",
        ] {
            let (success, text) = run(&opened, &format!("{SETUP} echo y > y; {script}")).await;
            assert!(!success && text.contains("is guarded"), "{capture:?} {script}: {text}");
            assert_eq!(tree(dir.path()), before, "{capture:?} {script}");
        }
        // What the user's git does outside is what it did before.
        git(dir.path(), &["status", "--short"]);
    }
}

// case 254
#[tokio::test]
async fn commands_work_with_repositories() {
    for capture in WAYS {
        let dir = tempfile::tempdir().unwrap();
        repository(dir.path());
        fs::write(dir.path().join(".git/hooks/pre-push"), "#!/bin/sh\nexit 1\n").unwrap();
        // What the user has set stays, and disturbs no other process.
        git(dir.path(), &["config", "core.editor", "vim"]);
        git(dir.path(), &["config", "alias.st", "status"]);
        let opened = open(dir.path(), capture, "").await;
        for script in [
            "echo b > b.txt; git add b.txt; git commit -q -m two",
            "git init -q new; git init -q --bare -b main bare.git; git init -q -b main other/deep",
            "git remote add origin ./bare.git; git push -q -u origin main",
            "git fetch -q origin; git remote set-url origin ./bare.git; git remote rename origin up",
            "git clone -q --no-hardlinks . copy; git -C copy commit -q --allow-empty -m three",
            "git clone -q --no-hardlinks --bare . copy.git; git clone -q --no-hardlinks --mirror . mirror.git",
            "git submodule --quiet add \"file://$PWD/bare.git\" sub; git commit -q -m submodule",
            "git worktree add -q tree; git -C tree commit -q --allow-empty -m four",
            "git config user.name b; git config user.email b@c; git config --unset user.name",
            "git config core.autocrlf input; git config pull.rebase true; git config commit.gpgsign false",
            "git switch -q -c topic; git branch --set-upstream-to=main; git stash list; git tag v1; git gc -q",
            "git worktree remove tree; git submodule --quiet deinit -f sub; git submodule --quiet update --init",
            "rm -rf copy new .git/modules/x; git init -q new",
            "mkdir x; mv copy.git x; rm -r x",
            "rm .git/hooks/*.sample; git init -q .",
            "mkdir -p .vscode; echo '{}' > .vscode/extensions.json; mkdir .cargo; echo x > .cargo/credentials.example",
        ] {
            let (success, text) = run(&opened, &format!("{SETUP}{script}")).await;
            assert!(success, "{capture:?} {script}: {text}");
        }
        assert_eq!(git(dir.path(), &["config", "core.editor"]), "vim\n");
        git(&dir.path().join("sub"), &["status", "--short"]);
    }
}

// case 254
#[tokio::test]
async fn an_install_does_not_set_hooks() {
    let package = r#"{ "name": "a", "version": "1.0.0", "dependencies": { "b": "file:b" },
        "scripts": { "prepare": "[ \"$HUSKY\" = 0 ] || git config core.hooksPath .husky" } }"#;
    for capture in WAYS {
        let dir = tempfile::tempdir().unwrap();
        repository(dir.path());
        fs::write(dir.path().join("package.json"), package).unwrap();
        fs::create_dir(dir.path().join("b")).unwrap();
        fs::write(dir.path().join("b/package.json"), r#"{ "name": "b", "version": "1.0.0", "bin": "b.js" }"#)
            .unwrap();
        fs::write(dir.path().join("b/b.js"), "#!/usr/bin/env node\n").unwrap();
        let opened = open(dir.path(), capture, "").await;
        // Where there is no npm, what it would run.
        let script = "if command -v npm > npm.txt; then export HOME=$PWD/home; npm install --offline --no-audit --no-fund && \
                      npm ci --offline --no-audit --no-fund; else sh -c '[ \"$HUSKY\" = 0 ]'; fi";
        let (success, text) = run(&opened, &format!("{SETUP}{script}")).await;
        assert!(success, "{capture:?}: {text}");
        let config = fs::read_to_string(dir.path().join(".git/config")).unwrap();
        assert!(!config.contains("hooksPath"), "{config}");
    }
}

#[tokio::test]
async fn the_agent_file_opens_and_adds() {
    let guard = "[guard]\nopen = [\".git/hooks\", \"**/.envrc\"]\nadd = [\"deploy/**\", \"*.lock\"]\n";
    for capture in WAYS {
        let dir = tempfile::tempdir().unwrap();
        repository(dir.path());
        let opened = open(dir.path(), capture, guard).await;
        for path in [".envrc", "a/.envrc", ".git/hooks/pre-commit"] {
            let (success, text) = call(&opened, "write_file", json!({ "path": path, "content": "x" })).await;
            assert!(success, "{path}: {text}");
        }
        assert!(call(&opened, "read_file", json!({ "path": ".git/config" })).await.0);
        for path in ["deploy/run.sh", "a.lock", "wink.toml", ".git/config", ".git/hooks2"] {
            let (success, text) = call(&opened, "write_file", json!({ "path": path, "content": "x" })).await;
            assert!(!success && text.contains("is guarded"), "{path}: {text}");
        }
        let (success, text) = run(&opened, "echo x > .git/hooks/post-commit; echo y > a/.envrc").await;
        assert!(success, "{text}");
        let (success, text) = run(&opened, "mkdir deploy; echo x > deploy/run.sh").await;
        assert!(!success && text.contains("is guarded"), "{text}");
    }
    let wrong = AGENT.replace("[[section]]", "[guard]\nopen = [\"a/../b\"]\nshut = []\n[[section]]");
    let error = Agent::parse(&wrong, "a text").unwrap_err().to_string();
    assert!(error.contains("cannot be matched") && error.contains("shut"), "{error}");
}

// case 254
#[tokio::test]
async fn the_built_in_agent_is_guarded_too() {
    let dir = tempfile::tempdir().unwrap();
    repository(dir.path());
    let workspace = Arc::new(Workspace::open(dir.path()).unwrap());
    let opened = Agent::builtin().open(&workspace, "main").await.unwrap();
    let (success, text) =
        call(&opened, "write_file", json!({ "path": ".git/hooks/pre-commit", "content": "x" })).await;
    assert!(!success && text.contains("is guarded"), "{text}");
    let tools = opened.prompt().placed_tools().map(|tool| tool.name().to_string()).collect::<Vec<_>>();
    if tools.contains(&"shell_execute".to_owned()) {
        let shell = |script: &str| json!({ "command": ["sh", "-ec", format!("{SETUP}{script}")] });
        for script in ["git config core.fsmonitor x", "echo x > .git/hooks/pre-commit", "echo x > .envrc"] {
            let (success, text) = call(&opened, "shell_execute", shell(script)).await;
            assert!(!success && text.contains("is guarded"), "{script}: {text}");
        }
        for script in ["git commit -q --allow-empty -m x", "git worktree add -q tree", "[ $HUSKY = 0 ]"] {
            let (success, text) = call(&opened, "shell_execute", shell(script)).await;
            assert!(success && text.contains("exit code 0"), "{script}: {text}");
        }
    }
}

/// The same as a user without any rights of the superuser.
#[test]
fn as_an_ordinary_user() {
    let is_root =
        fs::read_to_string("/proc/self/status").unwrap().lines().any(|line| line == "Uid:\t0\t0\t0\t0");
    if !is_root {
        // The other tests are run as one then.
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let program = dir.path().join("guard");
    // By a process of its own: whatever other tests start meanwhile would have the copy open, and it could not be run.
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
    let output = Command::new("setpriv")
        .args(["--reuid", "61234", "--regid", "61234", "--clear-groups", "--inh-caps=-all", "env", "-i"])
        .arg(format!("PATH={}", std::env::var("PATH").unwrap()))
        .arg(format!("TMPDIR={}", dir.path().display()))
        .arg("HOME=/tmp")
        .arg(&program)
        .args(["guard::", "--skip", "an_install", "--skip", "as_an_ordinary_user"])
        .current_dir("/")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("test guard::commands_work_with_repositories ... ok"), "{said}");
}

#[test]
fn the_keys_that_commands_may_change_are_documented() {
    let text = include_str!("../../../../docs/using-wink.md");
    for key in PathGuard::config_keys() {
        assert!(text.contains(&format!("`{key}`")), "{key}");
    }
    let rules = PathGuard::default();
    for path in
        rules.rules().flat_map(|rule| rule.paths).filter(|path| !path.contains(".git") && !path.contains(' '))
    {
        assert!(text.contains(&format!("`{path}`")), "{path}");
    }
}
