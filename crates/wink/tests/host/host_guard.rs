//! Guarded paths through the filesystem alone: file tools and what a program did in a scanned workspace.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests panic when they fail")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use proptest::prelude::*;
use tempfile::TempDir;
use wink::filesystem::host::{Capture, HostFilesystem, HostOptions, PathGuard};
use wink::filesystem::{
    Filesystem, FilesystemExt, FsError, FsErrorKind, FsResult, MergedBy, Revert, UndoForce,
};

fn open(dir: &TempDir) -> HostFilesystem {
    HostFilesystem::open(dir.path(), HostOptions::default()).unwrap()
}

fn unguarded(dir: &TempDir) -> HostFilesystem {
    let options = HostOptions { guard: PathGuard::none(), ..HostOptions::default() };
    HostFilesystem::open(dir.path(), options).unwrap()
}

fn is_refused<T>(done: FsResult<T>, what: &str) {
    match done.map(drop) {
        Err(FsError::Guarded { rule, .. }) => assert!(rule.contains(": "), "{what}: {rule}"),
        other => panic!("{what}: {other:?}"),
    }
}

/// Runs a script in the workspace itself, as a command without an overlay does, and takes over what it did.
fn by_command(fork: &Arc<dyn Filesystem>, root: &Path, script: &str) -> FsResult<()> {
    let layer = HostFilesystem::of(&**fork).unwrap().command_layer_by(Capture::Scan)?;
    by_user(root, script);
    layer.finish()
}

#[tokio::test]
async fn file_tools_make_and_change_nothing_that_is_guarded() {
    let dir = TempDir::new().unwrap();
    fs::create_dir_all(dir.path().join("real/.vscode")).unwrap();
    fs::write(dir.path().join("real/.vscode/settings.json"), "{}").unwrap();
    fs::create_dir_all(dir.path().join("bare/objects")).unwrap();
    fs::create_dir_all(dir.path().join("bare/refs")).unwrap();
    symlink("real", dir.path().join("way")).unwrap();
    symlink("real/.vscode", dir.path().join("code")).unwrap();
    symlink("shared", dir.path().join(".claude")).unwrap();
    fs::create_dir(dir.path().join("shared")).unwrap();
    fs::create_dir(dir.path().join("shared2")).unwrap();
    let files = open(&dir);
    let fork = files.fork().unwrap();
    for path in [
        ".git",
        ".git/x",
        "a/.GIT/x",
        "way/.vscode/settings.json",
        "code/settings.json",
        "code/mcp.json",
        "a/wink.toml",
        "a/.wink",
        "bare/HEAD",
        "shared/settings.json",
        "a/.idea/x",
        ".cargo/config.toml",
    ] {
        is_refused(fork.write_text(path, "x").await, path);
        is_refused(files.write_text(path, "x").await, path);
    }
    for dir in ["a/.git", "b/.claude", "c/.idea"] {
        is_refused(fork.mkdir_all(dir).await, dir);
    }
    is_refused(fork.rename_to("real", ".git").await, "a directory becomes a repository");
    is_refused(fork.rename_to("real/.vscode", "shared2/.vscode").await, "settings of an editor are moved");
    is_refused(fork.delete_all("real").await, "settings of an editor are removed");
    fork.write_text("bare/config", "x").await.unwrap();
    fork.write_text("a/HEAD", "x").await.unwrap();
    fork.write_text("real/.vscode/extensions.json", "{}").await.unwrap();
    fork.write_text("real/.vscode/settings.json", "{}").await.unwrap();
    files.keep(files.merge(&*fork).unwrap());
}

#[tokio::test]
async fn what_becomes_a_repository_is_judged_with_all_that_is_in_it() {
    let dir = TempDir::new().unwrap();
    let files = open(&dir);
    let fork = files.fork().unwrap();
    // As long as it is none, these are files like others.
    fork.write_text("r/hooks/pre-commit", "#!/bin/sh\n").await.unwrap();
    fork.write_text("s/config", "[core]\n\tfsmonitor = x\n").await.unwrap();
    files.keep(files.merge(&*fork).unwrap());
    for (script, path) in [
        ("git init -q --bare r", "r/hooks/pre-commit"),
        ("git init -q --bare s", "s/config"),
        ("mv r .git", ".git/hooks"),
        ("mkdir -p s/objects s/refs; echo ref: refs/heads/x > s/HEAD", "s/config"),
        ("mkdir t; cp -r r/hooks t; echo x > t/HEAD; echo ../r > t/commondir", "t/"),
    ] {
        let fork = files.fork().unwrap();
        match by_command(&fork, dir.path(), script) {
            Err(FsError::Guarded { path: refused, .. }) => {
                assert!(refused.as_str().starts_with(path), "{script}: {refused}");
            }
            other => panic!("{script}: {other:?}"),
        }
        assert!(!dir.path().join("r/HEAD").exists() && !dir.path().join(".git").exists());
    }
}

/// Runs a script in the workspace as its user does, outside of every call.
fn by_user(root: &Path, script: &str) {
    let output = Command::new("sh")
        .current_dir(root)
        .args(["-ec", script])
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_SYSTEM", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A workspace in which the user has a repository `p` with a submodule `sub`, and a bare one.
fn with_submodule() -> TempDir {
    let dir = TempDir::new().unwrap();
    let git = "git -c user.name=a -c user.email=a@b -c protocol.file.allow=always";
    by_user(
        dir.path(),
        &format!(
            "git init -q lib; {git} -C lib commit -q --allow-empty -m one; git init -q --bare p/bare.git; \
             git init -q p; {git} -C p submodule --quiet add \"$PWD/lib\" sub; {git} -C p commit -q -m two"
        ),
    );
    dir
}

/// Runs a script as one call of its own. Gives the path and the rule's name of a refusal.
fn refusal(files: &HostFilesystem, root: &Path, script: &str) -> Option<(String, String)> {
    let fork = files.fork().unwrap();
    match by_command(&fork, root, script) {
        Ok(()) => {
            files.keep(files.merge(&*fork).unwrap());
            None
        }
        Err(FsError::Guarded { path, rule }) => {
            Some((path.to_string(), rule.split(": ").next().unwrap_or_default().to_owned()))
        }
        Err(other) => panic!("{script}: {other:?}"),
    }
}

fn named(path: &str, rule: &str) -> Option<(String, String)> {
    Some((path.to_owned(), rule.to_owned()))
}

// case 254
#[tokio::test]
async fn git_is_led_over_no_link() {
    let dir = with_submodule();
    by_user(dir.path(), "git -C p worktree add -q ../tree 2>&-; mkdir k deep; ln -s deep old");
    let files = open(&dir);
    const SUB: &str = "p/.git/modules/sub/config";
    for (before, worktree) in [
        ("ln -s .git/hooks p/lnk", "../../../lnk"),
        ("ln -s /tmp p/lnk", "../../../lnk"),
        ("ln -s /tmp p/lnk", "../../../lnk/deep"),
        ("ln -s /tmp p/lnk", "$PWD/p/lnk"),
        ("ln -s /tmp p/lnk", "/workspace/p/lnk"),
        ("ln -s /tmp p/lnk", "../../../lnk/../sub"),
        ("", "../../../../old/../p/sub"),
        ("", "../../../none/../sub"),
        ("echo x > p/file", "../../../file/x"),
        // Nor into a repository, a guarded directory, or a directory that is not the project's.
        ("", "../../../bare.git/hooks"),
        ("", "../../../.claude"),
        ("", "../../.."),
        ("", "../../../../lib"),
    ] {
        let script = format!("{before}\ngit config -f {SUB} core.worktree \"{worktree}\"");
        assert_eq!(refusal(&files, dir.path(), &script), named(SUB, "git config"), "{script}");
    }
    for (script, path, rule) in [
        ("ln -s /tmp l; printf 'gitdir: ../l/../p/.git/modules/sub\n' > k/.git", "k/.git", "git link"),
        ("printf 'gitdir: ../old/../p/.git/modules/sub\n' > k/.git", "k/.git", "git link"),
        ("ln -s p q; printf 'gitdir: ../q/.git/modules/sub\n' > k/.git", "k/.git", "git link"),
        (
            "cp -r p/.git/worktrees/tree p/.git/worktrees/k; ln -s k l; echo $PWD/l/.git > p/.git/worktrees/k/gitdir",
            "p/.git/worktrees/k/gitdir",
            "git directories",
        ),
    ] {
        assert_eq!(refusal(&files, dir.path(), script), named(path, rule), "{script}");
    }
    for script in [
        "printf 'gitdir: ../p/.git/modules/sub\n' > k/.git",
        "git -C p mv sub moved; git config -f p/.git/modules/sub/config core.worktree ../../../none",
        "git config -f p/.git/modules/sub/config core.worktree ../../../moved",
        "git -C tree -c protocol.file.allow=always submodule --quiet update --init",
        "git -c protocol.file.allow=always clone -q --no-hardlinks --recurse-submodules p copy",
        "git -C copy submodule --quiet deinit -f sub; git -C copy submodule --quiet update --init",
    ] {
        assert_eq!(refusal(&files, dir.path(), script), None, "{script}");
    }
}

// case 254
#[tokio::test]
async fn no_later_link_leads_git_elsewhere() {
    let dir = with_submodule();
    by_user(dir.path(), "ln -s .git/hooks p/old; git -C p worktree add -q ../tree 2>&-");
    let files = open(&dir);
    let no = |path| named(path, "git work tree");
    for script in ["mv p/sub p/sub2; ln -s .git/hooks p/sub", "rm -r p/sub; ln -s /tmp p/sub"] {
        assert_eq!(refusal(&files, dir.path(), script), no("p/sub"), "{script}");
    }
    // It makes no difference that the way was free before.
    let script = "git config -f p/.git/modules/sub/config core.worktree ../../../a/b";
    assert_eq!(refusal(&files, dir.path(), script), None);
    assert_eq!(refusal(&files, dir.path(), "ln -s .git p/a"), no("p/a"));
    assert_eq!(refusal(&files, dir.path(), "mkdir p/a; ln -s ../.git/hooks p/a/b"), no("p/a/b"));
    assert_eq!(refusal(&files, dir.path(), "mkdir p/c; ln -s ../.git/hooks p/c/b; mv p/c p/a"), no("p/a/b"));
    let fork = files.fork().unwrap();
    is_refused(fork.rename_to("p/old", "p/a").await, "a file tool moves a link");
    // Other links are free, and this one where no key names the path any more.
    for script in [
        "mkdir p/a; ln -s /tmp p/a/c; ln -s .git/hooks p/new; ln -s p q",
        "git config -f p/.git/modules/sub/config --unset core.worktree; ln -s /tmp p/a/b",
    ] {
        assert_eq!(refusal(&files, dir.path(), script), None, "{script}");
    }
}

// case 254
#[tokio::test]
async fn no_remote_names_a_program() {
    let dir = with_submodule();
    by_user(dir.path(), "mkdir -p p/.git/remotes p/.git/branches; echo 'URL: x' > p/.git/remotes/users");
    let files = open(&dir);
    for (script, path, rule) in [
        ("git -C p config url.zap:.insteadOf x", "p/.git/config", "git config"),
        ("git -C p config url.zap.pushInsteadOf x", "p/.git/config", "git config"),
        ("echo 'URL: zap::x' > p/.git/remotes/o", "p/.git/remotes/o", "git remotes"),
        ("echo 'URL: zap::x' > p/.git/remotes/users", "p/.git/remotes/users", "git remotes"),
        ("echo zap::x > p/.git/branches/o", "p/.git/branches/o", "git remotes"),
        ("mkdir -p p/.git/branches/a; echo zap::x > p/.git/branches/a/b", "p/.git/branches/a", "git remotes"),
        ("rm -r p/.git/remotes; mkdir r; ln -s ../../r p/.git/remotes", "p/.git/remotes", "git remotes"),
        (
            "git init -q new; mkdir -p new/.git/remotes; echo zap::x > new/.git/remotes/o",
            "new/.git/remotes/o",
            "git remotes",
        ),
        (
            "mkdir -p new/.git/branches; echo zap::x > new/.git/branches/o",
            "new/.git/branches/o",
            "git remotes",
        ),
    ] {
        assert_eq!(refusal(&files, dir.path(), script), named(path, rule), "{script}");
    }
    for script in [
        "git -C p config url.https://x/.insteadOf x:",
        "git init -q new; mkdir -p new/.git/branches new/.git/remotes",
        "rm -r p/.git/remotes p/.git/branches",
    ] {
        assert_eq!(refusal(&files, dir.path(), script), None, "{script}");
    }
}

#[tokio::test]
async fn two_calls_at_once_do_not_make_together_what_neither_may() {
    let dir = TempDir::new().unwrap();
    let files = open(&dir);
    let (one, two, three) = (files.fork().unwrap(), files.fork().unwrap(), files.fork().unwrap());
    one.write_text("r/hooks/pre-commit", "#!/bin/sh\n").await.unwrap();
    three.write_text("s/hooks/pre-commit", "#!/bin/sh\n").await.unwrap();
    let four = files.fork().unwrap();
    by_command(&four, dir.path(), "git init -q --bare s").unwrap();
    two.write_text("r/HEAD", "ref: refs/heads/x\n").await.unwrap();
    two.mkdir_all("r/objects").await.unwrap();
    is_refused(two.mkdir_all("r/refs").await, "a file tool makes a repository");
    by_command(&two, dir.path(), "mkdir -p r/refs").unwrap();
    files.keep(files.merge(&*two).unwrap());
    let merged = files.merge(&*one).map(drop).map_err(|error| error.kind());
    assert_eq!(merged, Err(FsErrorKind::Guarded));
    assert!(!dir.path().join("r/hooks").exists());
    // In the other order, too.
    files.keep(files.merge(&*three).unwrap());
    let merged = files.merge(&*four).map(drop).map_err(|error| error.kind());
    assert_eq!(merged, Err(FsErrorKind::Guarded));
    assert!(!dir.path().join("s/HEAD").exists());
}

#[tokio::test]
async fn what_is_open_is_open_and_what_is_added_is_guarded() {
    let dir = TempDir::new().unwrap();
    let guard = PathGuard::default().opening("**/.envrc").unwrap().opening(".git/hooks").unwrap();
    let guard = guard.adding("Deploy/**").unwrap().adding("*.lock").unwrap();
    assert_eq!(guard.opened().collect::<Vec<_>>(), ["**/.envrc", ".git/hooks"]);
    assert_eq!(guard.added().collect::<Vec<_>>(), ["Deploy/**", "*.lock"]);
    let options = HostOptions { guard, ..HostOptions::default() };
    let files = HostFilesystem::open(dir.path(), options).unwrap();
    let fork = files.fork().unwrap();
    fork.write_text("a/.envrc", "x").await.unwrap();
    fork.write_text(".envrc", "x").await.unwrap();
    fork.write_text("a/b.lock", "x").await.unwrap();
    for path in ["deploy/x", "DEPLOY/y/z", "b.LOCK", ".git/config"] {
        is_refused(fork.write_text(path, "x").await, path);
    }
    by_command(&fork, dir.path(), "git init -q .; echo x > .git/hooks/pre-commit").unwrap();
    is_refused(by_command(&fork, dir.path(), "git config core.fsmonitor x"), "another path of it");
    files.keep(files.merge(&*fork).unwrap());
    assert!(dir.path().join(".git/hooks/pre-commit").exists());
    assert!(PathGuard::default().opening("").is_err() && PathGuard::default().adding("a/../b").is_err());
}

#[tokio::test]
async fn the_operator_takes_back_what_is_guarded() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join(".envrc"), "before").unwrap();
    let free = unguarded(&dir);
    let fork = free.fork().unwrap();
    fork.write_text(".envrc", "after").await.unwrap();
    fork.write_text(".git/hooks/pre-commit", "x").await.unwrap();
    free.keep(free.merge(&*fork).unwrap());
    let mut kept: Vec<String> = fs::read_dir(dir.path().join(".wink/journal"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    kept.sort();
    let last = kept.last().and_then(|name| name.split('.').next()).unwrap();
    let journal = last.splitn(3, '-').last().unwrap().parse().unwrap();
    drop((fork, free));
    let files = open(&dir);
    let undo = files.fork().unwrap();
    let journals = [Revert { journal, by: MergedBy::Call }];
    let reverted = undo.revert(&journals, UndoForce::Refuse).await.unwrap();
    assert_eq!(reverted.changed, []);
    is_refused(undo.write_text(".idea/x", "x").await, "but for what was taken back");
    files.keep(files.merge(&*undo).unwrap());
    assert_eq!(fs::read_to_string(dir.path().join(".envrc")).unwrap(), "before");
    assert!(!dir.path().join(".git").exists());
}

#[tokio::test]
async fn what_others_may_run_later_is_reported() {
    let dir = TempDir::new().unwrap();
    let files = open(&dir);
    let fork = files.fork().unwrap();
    fork.write_text(".github/workflows/ci.yml", "x").await.unwrap();
    fork.write_text("a/node_modules/.bin/x", "x").await.unwrap();
    fork.write_text("a/node_modules/.bin/y", "x").await.unwrap();
    fork.write_text(".husky/pre-commit", "x").await.unwrap();
    files.keep(files.merge(&*fork).unwrap());
    let noticed = files.take_report().noticed;
    let expected = [".github/workflows", ".husky", "a/node_modules/.bin"].map(PathBuf::from);
    assert_eq!(noticed, expected);
}

/// Whether something is in a tree that other programs would run: an oracle of its own, by what is on disk.
fn found_guarded(root: &Path) -> Option<PathBuf> {
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        let names: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        for path in &names {
            if *path == root.join(".wink") {
                continue;
            }
            let name = path.file_name().unwrap().to_string_lossy().to_lowercase();
            let above = dir.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            let is_bad = matches!(&*name, ".claude" | ".envrc" | "wink.toml" | ".idea" | ".wink")
                || (above == ".vscode" && name == "tasks.json")
                || (above == ".cargo" && name.starts_with("config"))
                || (name == ".git" && !fs::symlink_metadata(path).unwrap().is_dir())
                || (above == ".git"
                    && (matches!(&*name, "hooks" | "commondir" | "gitdir") || name.starts_with("config")));
            if is_bad {
                return Some(path.clone());
            }
            if fs::symlink_metadata(path).unwrap().is_dir() {
                dirs.push(path.clone());
            }
        }
    }
    None
}

fn name() -> impl Strategy<Value = String> {
    let names = [
        ".git",
        ".GIT",
        "hooks",
        "config",
        ".claude",
        ".Claude",
        ".envrc",
        "wink.toml",
        "Wink.toml",
        ".idea",
        ".vscode",
        ".VSCODE",
        "tasks.json",
        ".cargo",
        "config.toml",
        "a",
        "b",
        "HEAD",
        "objects",
        "refs",
        ".wink",
        "link",
        ".",
        "..",
        "",
    ];
    proptest::sample::select(names.to_vec()).prop_map(str::to_owned)
}

fn spelling() -> impl Strategy<Value = String> {
    proptest::collection::vec(name(), 1..5).prop_map(|names| names.join("/"))
}

#[derive(Debug, Clone)]
enum Step {
    Write(String),
    Mkdir(String),
    Rename(String, String),
    Delete(String),
    /// By a command, in the scanned workspace: the same with `mv`, `ln -s`, `ln`, `mkdir`.
    Shell(&'static str, String, String),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => spelling().prop_map(Step::Write),
        1 => spelling().prop_map(Step::Mkdir),
        2 => (spelling(), spelling()).prop_map(|(from, to)| Step::Rename(from, to)),
        1 => spelling().prop_map(Step::Delete),
        2 => (proptest::sample::select(vec!["mv -T", "ln -sT", "ln -T", "cp -rT", "mkdir -p"]), spelling(), spelling())
            .prop_map(|(program, from, to)| Step::Shell(program, from, to)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]
    #[test]
    fn however_it_is_spelt(steps in proptest::collection::vec(step(), 1..10)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let dir = TempDir::new().unwrap();
        fs::create_dir_all(dir.path().join("a/.vscode")).unwrap();
        fs::create_dir_all(dir.path().join("b/config")).unwrap();
        symlink("a", dir.path().join("link")).unwrap();
        let files = open(&dir);
        for step in steps {
            let fork = files.fork().unwrap();
            let _ = match &step {
                Step::Write(path) => runtime.block_on(fork.write_text(path, "x")).map(drop),
                Step::Mkdir(path) => runtime.block_on(fork.mkdir_all(path)),
                Step::Rename(from, to) => runtime.block_on(fork.rename_to(from, to)),
                Step::Delete(path) => runtime.block_on(fork.delete_all(path)),
                Step::Shell(program, from, to) => {
                    // Nothing outside of the workspace, nor its state.
                    let inside = |path: &str| format!("'./{}'", path.replace("..", "b").replace(".wink", "b"));
                    let (from, to) = (inside(from), inside(to));
                    let script = match *program {
                        "mkdir -p" => format!("mkdir -p {to} 2>&- || true"),
                        program => format!("{program} {from} {to} 2>&- || true"),
                    };
                    by_command(&fork, dir.path(), &script)
                }
            };
            if let Ok(receipt) = files.merge(&*fork) {
                files.keep(receipt);
            }
            let found = found_guarded(dir.path());
            prop_assert!(found.is_none(), "{:?} left {:?}", step, found);
        }
    }
}
