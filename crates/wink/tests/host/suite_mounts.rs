//! Host directories in a workspace in memory.

#![cfg(unix)]
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::TempDir;
use wink::executor::{Executor, ToolCall};
use wink::filesystem::{Filesystem, FilesystemExt, FsError, FsPath, MemoryFilesystem};
use wink::prelude::*;
use wink::suites::files::{MountReport, SkipReason, Skipped};
use wink::suites::{HostMount, MountError, VfsConfig, VfsToolsSection};

/// A host with a project in it and a secret beside it.
struct Host {
    dir: TempDir,
}

impl Host {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = TempDir::new().expect("a directory");
        let host = Self { dir };
        for (path, text) in files {
            host.write(path, text);
        }
        host
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().canonicalize().expect("resolved").join(below)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, text).expect("written");
    }
}

fn allowing(root: PathBuf, mount: HostMount) -> VfsConfig {
    VfsConfig { allowed_roots: vec![root], mounts: vec![mount], ..VfsConfig::default() }
}

async fn every_file(files: &dyn Filesystem) -> Vec<String> {
    let found = files.glob(&FsPath::root(), "**").await.expect("listed");
    found
        .into_iter()
        .filter(|entry| entry.kind == wink::filesystem::EntryKind::File)
        .map(|entry| entry.path.to_string())
        .collect()
}

fn error(config: &VfsConfig) -> String {
    config.mount().expect_err("refused").to_string()
}

// case 172
#[test]
fn what_may_not_be_mounted_is_refused_with_what_to_do() {
    let host = Host::new(&[("project/a.txt", "12345"), ("project/b.txt", "12345"), ("secret/key", "s")]);
    let (project, secret) = (host.path("project"), host.path("secret"));
    symlink(&secret, project.join("out")).expect("linked");

    let no_roots = VfsConfig { mounts: vec![HostMount::new(&project)], ..VfsConfig::default() };
    let absolute = |path: &Path| allowing(project.clone(), HostMount::new(path));
    let relative = |path: &str| allowing(project.clone(), HostMount::new(path));
    let shown = |text: String| text.replace(&*host.path("").to_string_lossy(), "HOST/");
    let texts = [
        error(&no_roots),
        error(&absolute(&secret)),
        error(&absolute(&project.join("../secret/key"))),
        error(&absolute(&project.join("out"))),
        error(&absolute(&project.join("out/key"))),
        error(&absolute(&host.path("projec"))),
        error(&absolute(&host.path(""))),
        error(&relative("missing")),
        error(&relative("../secret")),
        error(&allowing(host.path("gone"), HostMount::new(&project))),
        error(&allowing(project.clone(), HostMount::new(&project).max_bytes(9))),
        error(&allowing(project.clone(), HostMount::new(&project).at("../x"))),
        error(&allowing(project.clone(), HostMount::new(&project).include("["))),
        error(&VfsConfig {
            root: Some(project.clone()),
            mounts: vec![HostMount::new("a.txt").at("b.txt")],
            ..VfsConfig::default()
        }),
        error(&VfsConfig {
            root: Some(project.clone()),
            mounts: vec![HostMount::new("a.txt").at("b.txt/c")],
            ..VfsConfig::default()
        }),
        error(&VfsConfig { root: Some(host.path("gone")), ..VfsConfig::default() }),
    ];
    insta::assert_snapshot!(texts.map(shown).join("\n"));

    // It is an error of the prompt, too.
    let section = VfsToolsSection::new().config(no_roots.clone()).section();
    let refused = PromptTemplate::builder("tests", "mounts").section(section).build().expect_err("refused");
    assert_eq!(refused.to_string(), format!("section files: {}", error(&no_roots)));
    let over = VfsToolsSection::new().config(absolute(&project)).over(Arc::new(MemoryFilesystem::new()));
    let refused = PromptTemplate::builder("tests", "mounts").section(over.section()).build();
    assert_eq!(refused.expect_err("refused").reason, MountError::OtherWorkspace.to_string());
}

// case 172
#[tokio::test]
async fn globs_include_first_and_exclude_then() {
    let host = Host::new(&[
        ("top.py", ""),
        ("a/b.py", ""),
        ("a/c.txt", ""),
        ("a/gen/d.py", ""),
        ("a/gen/keep/e.py", ""),
        ("gen/f.py", ""),
        ("build/g.py", ""),
        ("h.md", ""),
        (".wink/wink.db", "state"),
    ]);
    let mounted = async |mount: HostMount| {
        let mounted = allowing(host.path(""), mount).mount().expect("mounted");
        every_file(&mounted.files).await
    };
    let all = HostMount::new(host.path(""));
    let every =
        ["a/b.py", "a/c.txt", "a/gen/d.py", "a/gen/keep/e.py", "build/g.py", "gen/f.py", "h.md", "top.py"];
    assert_eq!(mounted(all.clone()).await, every);
    // `**/` stands for no directory as well.
    assert_eq!(
        mounted(all.clone().include("**/*.py").exclude("**/gen/**")).await,
        ["a/b.py", "build/g.py", "top.py"]
    );
    assert_eq!(mounted(all.clone().include("*.py").include("h.*")).await, ["h.md", "top.py"]);
    // An excluded directory takes all that is in it, and excluding wins.
    assert_eq!(mounted(all.clone().include("**/keep/e.py").exclude("a/gen")).await, [""; 0]);
    assert_eq!(mounted(all.clone().exclude("**/*.py").include("**/*.py")).await, [""; 0]);
    assert_eq!(mounted(all.exclude("**/*").at("x")).await, [""; 0]);
    // Somewhere else, one file, and a relative path.
    assert_eq!(
        mounted(HostMount::new("a/gen").at("/lib/./gen/")).await,
        ["lib/gen/d.py", "lib/gen/keep/e.py"]
    );
    assert_eq!(mounted(HostMount::new("a/c.txt")).await, ["c.txt"]);
    assert_eq!(mounted(HostMount::new("a/c.txt").at("d/notes.txt")).await, ["d/notes.txt"]);
    assert_eq!(mounted(HostMount::new("a/c.txt").exclude("*.txt")).await, [""; 0]);
}

// case 172
#[tokio::test]
async fn the_budget_is_for_what_is_copied() {
    let host = Host::new(&[("big.bin", &"x".repeat(1000)), ("a", "12345"), ("b", "12345")]);
    let mount = HostMount::new(host.path("")).exclude("*.bin").max_bytes(10);
    let mounted = allowing(host.path(""), mount).mount().expect("mounted");
    assert_eq!(
        mounted.mounts,
        [MountReport {
            host: host.path("").components().collect(),
            at: FsPath::root(),
            files: 2,
            bytes: 10,
            top: vec!["a".to_owned(), "b".to_owned()],
            skipped: Vec::new(),
            more_skipped: 0,
        }]
    );
    // A file that the workspace itself would not take.
    let limits = wink::filesystem::FsLimits { max_write_bytes: 999, ..Default::default() };
    let config = VfsConfig { limits, ..allowing(host.path(""), HostMount::new("big.bin")) };
    assert_eq!(
        config.mount().expect_err("refused"),
        MountError::Place {
            host: "big.bin".to_owned(),
            reason: FsError::TooLarge {
                path: mounted.files.path("big.bin").expect("a path"),
                bytes: 1000,
                max: 999
            },
        }
    );
}

// case 172
#[test]
fn a_mount_looks_at_a_hundred_thousand_entries_at_most() {
    let host = Host::new(&[("in/a/0", "copied"), ("in/b/0", "")]);
    for (dir, count) in [("in/a", 50_000), ("in/b", 49_998)] {
        let dir = host.path(dir);
        for number in 1..count {
            fs::File::create(dir.join(number.to_string())).expect("made");
        }
    }
    // With the two directories these are all; what is not copied counts as well.
    let mount = || HostMount::new("in").include("a/0");
    let config = |mount| allowing(host.path(""), mount);
    assert_eq!(config(mount()).mount().expect("mounted").mounts[0].files, 1);
    host.write("in/b/one-more", "");
    assert_eq!(
        config(mount()).mount().expect_err("refused"),
        MountError::TooMany { host: "in".to_owned(), max: 100_000 }
    );
    assert_eq!(
        error(&config(mount())),
        "mount 'in' has more than 100000 entries; mount a smaller directory, or exclude some"
    );
    // What is excluded is not looked into.
    assert_eq!(config(mount().exclude("b")).mount().expect("mounted").mounts[0].files, 1);
}

#[tokio::test]
async fn what_cannot_be_copied_is_skipped_and_reported() {
    let host = Host::new(&[("in/a.txt", "a"), ("secret", "s"), ("in/dir/b", "b")]);
    let inside = host.path("in");
    symlink(host.path("secret"), inside.join("link")).expect("linked");
    symlink(inside.join("a.txt"), inside.join("link-inside")).expect("linked");
    symlink(host.path(""), inside.join("dir/up")).expect("linked");
    symlink("nowhere", inside.join("dangling")).expect("linked");
    fs::write(inside.join(OsStr::from_bytes(b"bad\xff.txt")), "x").expect("written");
    fs::create_dir(inside.join(OsStr::from_bytes(b"dir\xfe"))).expect("made");
    fs::write(inside.join("n".repeat(81)), "x").expect("written");
    let _socket = std::os::unix::net::UnixListener::bind(inside.join("socket")).expect("bound");
    let made = std::process::Command::new("mkfifo").arg(inside.join("pipe")).status().expect("mkfifo");
    assert!(made.success());

    let mounted = allowing(host.path(""), HostMount::new("in")).mount().expect("mounted");
    assert_eq!(every_file(&mounted.files).await, ["a.txt", "dir/b"]);
    let skipped = |path: &str, why| Skipped { path: path.to_owned(), why };
    let long = FsError::SegmentTooLong { segment: "n".repeat(81), chars: 81, max: 80 };
    assert_eq!(
        mounted.mounts[0].skipped,
        [
            skipped("bad\u{fffd}.txt", SkipReason::NotUtf8),
            skipped("dangling", SkipReason::Link),
            skipped("dir\u{fffd}", SkipReason::NotUtf8),
            skipped("link", SkipReason::Link),
            skipped("link-inside", SkipReason::Link),
            skipped(&"n".repeat(81), SkipReason::Path(long)),
            skipped("pipe", SkipReason::Special),
            skipped("socket", SkipReason::Special),
            skipped("dir/up", SkipReason::Link),
        ]
    );
}

/// A file and a directory that turn into links to a secret again and again, while they are mounted again and again.
#[test]
fn a_link_swapped_in_is_not_followed() {
    let host = Host::new(&[("in/file", "plain"), ("in/dir/file", "plain"), ("secret/file", "SECRET")]);
    let (file, dir, secret) = (host.path("in/file"), host.path("in/dir"), host.path("secret"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (spare_file, spare_dir) = (host.path("spare-file"), host.path("spare-dir"));
            let (link_file, link_dir) = (host.path("link-file"), host.path("link-dir"));
            symlink(secret.join("file"), &link_file).expect("linked");
            symlink(&secret, &link_dir).expect("linked");
            while !stop.load(Ordering::Relaxed) {
                for (real, spare, link) in [(&file, &spare_file, &link_file), (&dir, &spare_dir, &link_dir)] {
                    fs::rename(real, spare).expect("moved");
                    fs::rename(link, real).expect("moved");
                    fs::rename(real, link).expect("moved");
                    fs::rename(spare, real).expect("moved");
                }
            }
        });
        let config = allowing(host.path("in"), HostMount::new(host.path("in")));
        let seen = (0..500).map(|_| {
            let mounted = config.mount().map_err(|error| error.to_string())?;
            Ok(mounted.files.snapshot().expect("a snapshot").to_json().to_string())
        });
        // Whoever swaps is stopped before anything is asserted: a failure must not wait for it.
        let seen: Result<Vec<String>, String> = seen.collect();
        stop.store(true, Ordering::Relaxed);
        for json in seen.expect("mounted each time") {
            assert!(!json.contains("SECRET") && !json.contains("U0VDUkVU"), "{json}");
        }
    });
}

// case 174
#[tokio::test]
async fn a_preview_names_twenty_entries() {
    let names = Vec::from_iter((0..21).map(|n| format!("many/f{n:02}/x")));
    let host = Host::new(&Vec::from_iter(names.iter().map(|name| (name.as_str(), "x"))));
    host.write("few/costs $5 `now`.md", "");
    host.write("few/sub/x", "12");
    symlink("x", host.path("few/link")).expect("linked");
    let config = VfsConfig {
        root: None,
        mounts: vec![HostMount::new("many").at("docs"), HostMount::new("few")],
        allowed_roots: vec![host.path("")],
        ..VfsConfig::default()
    };
    let section = VfsToolsSection::new().config(config).section();
    let prompt = PromptTemplate::builder("tests", "mounts").section(section).build().expect("valid").prompt();
    let executor = Executor::open(&prompt, &Session::new()).await.expect("opens");
    let text = executor.rendered().expect("rendered").text().to_owned();
    let previews = text.split_once("need no reading.\n\n").expect("previews").1;
    let previews = previews.split("\n\n").take(2).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(previews);

    // The tools see it, changes stay, and the host is as it was.
    let call = |tool, arguments: &str| executor.call(ToolCall::new("c", tool, arguments));
    let read = call("read_file", r#"{"path":"docs/f00/x"}"#).await;
    assert_eq!(read.text(), "docs/f00/x, lines 1-1 of 1:\n1 | x");
    assert!(call("write_file", r#"{"path":"docs/f00/x","content":"changed"}"#).await.is_success());
    assert_eq!(fs::read_to_string(host.path("many/f00/x")).expect("there"), "x");
}

// case 172
#[tokio::test]
async fn a_root_is_a_mount_at_the_root() {
    let host = Host::new(&[("project/src/a.rs", "fn a() {}"), ("project/lib/b", "b")]);
    let config = VfsConfig {
        root: Some(host.path("project")),
        mounts: vec![HostMount::new("lib").at("vendor/lib")],
        ..VfsConfig::default()
    };
    let mounted = config.mount().expect("mounted");
    assert_eq!(every_file(&mounted.files).await, ["lib/b", "src/a.rs", "vendor/lib/b"]);
    assert_eq!(mounted.files.read_text("src/a.rs").await.expect("there"), "fn a() {}");
}
