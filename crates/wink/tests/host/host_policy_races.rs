//! Another process changes the workspace between a policy's decision and the handler's work: the handler uses what the
//! policy decided about, or fails.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests panic when they fail")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use wink::BoxFuture;
use wink::executor::{Moment, Step, StepHook};
use wink::filesystem::host::{HostFilesystem, HostOptions};
use wink::filesystem::{Filesystem, FilesystemExt};
use wink::policy::{PathPolicy, ReadBeforeWritePolicy};
use wink::prelude::*;
use wink::resource::{Binding, ResourceRegistry};
use wink::serde_json::{Value, json};
use wink::session::InvocationId;
use wink::suites::{VfsConfig, VfsToolsSection};

const SECRET: &str = "hunter2\n";

/// `src/d` is a directory, `src/l` a link to `../other`; `src/**` and `other/**` are allowed, `secrets` is not.
fn tree() -> TempDir {
    let dir = TempDir::new().unwrap();
    let root = dir.path();
    for made in ["secrets/sub", "src/d/sub", "other/sub"] {
        fs::create_dir_all(root.join(made)).unwrap();
    }
    for name in ["x", "sub/y"] {
        fs::write(root.join("secrets").join(name), SECRET).unwrap();
        fs::write(root.join("src/d").join(name), "harmless\n").unwrap();
        fs::write(root.join("other").join(name), "harmless\n").unwrap();
    }
    symlink("../other", root.join("src/l")).unwrap();
    dir
}

fn rules() -> PathPolicy {
    let builder = PathPolicy::builder().allow("src/**").allow("other/**");
    builder.tool("move", ["from", "to"]).tree("below", "path").build().unwrap()
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Below {
    path: String,
}

/// Works on paths that it makes from the one that it is given.
async fn below(params: Below, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    let files = cx.filesystem().await?;
    let text = files.read_text(&format!("{}/sub/y", params.path)).await?;
    files.write_text(&format!("{}/sub/new", params.path), "new\n").await?;
    Ok(ToolResult::ok(text, "read"))
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct Move {
    from: String,
    to: String,
}

async fn moves(params: Move, cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    cx.filesystem().await?.rename(&params.from, &params.to).await?;
    Ok(ToolResult::done("moved"))
}

/// Does something once, at one moment of a call.
#[derive(Default)]
struct At(Mutex<Option<Armed>>);

type Armed = (Step, Moment, Box<dyn FnOnce() + Send>);

impl At {
    fn arm(&self, step: Step, moment: Moment, act: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some((step, moment, Box::new(act)));
    }

    fn is_done(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }
}

impl StepHook for At {
    fn at<'a>(&'a self, step: Step, moment: Moment, _: InvocationId) -> BoxFuture<'a, Result<(), String>> {
        let mut armed = self.0.lock().unwrap();
        if armed.as_ref().is_some_and(|(at, when, _)| (*at, *when) == (step, moment))
            && let Some((.., act)) = armed.take()
        {
            act();
        }
        Box::pin(std::future::ready(Ok(())))
    }
}

struct World {
    dir: TempDir,
    executor: Executor,
    hook: Arc<At>,
}

impl World {
    async fn open(walk: bool, read_before_write: bool) -> Self {
        let dir = tree();
        let options = HostOptions { walk, ..HostOptions::default() };
        let files = HostFilesystem::open(dir.path(), options).unwrap();
        let config = VfsConfig { read_before_write: false, ..VfsConfig::default() };
        let own = Section::tools("own", "Own")
            .tool(Tool::new("below", "Read below.", below))
            .tool(Tool::new("move", "Move.", moves));
        let mut template = PromptTemplate::builder("t", "t")
            .section(VfsToolsSection::new().config(config).section())
            .section(own);
        template = match read_before_write {
            true => template.policy(ReadBeforeWritePolicy::new()),
            false => template.policy(rules()),
        };
        let resources = ResourceRegistry::of([Binding::filesystem(Arc::new(files))]).unwrap();
        let session = Session::builder().open().await.unwrap();
        let hook = Arc::new(At::default());
        let executor = Executor::builder(&template.build().unwrap().prompt(), &session)
            .resources(resources)
            .hook(Arc::<At>::clone(&hook))
            .open()
            .await
            .unwrap();
        Self { dir, executor, hook }
    }

    fn root(&self) -> &Path {
        self.dir.path()
    }

    async fn call(&self, tool: &str, arguments: &Value) -> (bool, String) {
        let outcome = self.executor.call(ToolCall::new("1", tool, arguments.to_string())).await;
        (outcome.event.success, outcome.answer.text.to_string())
    }
}

/// Everything in a directory: paths, and contents of files.
fn listing(dir: &Path) -> Vec<(PathBuf, Option<String>)> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let is_dir = path.symlink_metadata().unwrap().is_dir();
            found.push((path.clone(), (!is_dir).then(|| fs::read_to_string(&path).unwrap())));
            if is_dir {
                left.push(path);
            }
        }
    }
    found.sort();
    found
}

/// `place` becomes a link to `secrets`, at once.
fn swap(root: &Path, place: &str) {
    let aside = root.join("aside");
    symlink("../secrets", &aside).unwrap();
    let exchange = rustix::fs::RenameFlags::EXCHANGE;
    rustix::fs::renameat_with(rustix::fs::CWD, &aside, rustix::fs::CWD, root.join(place), exchange).unwrap();
}

/// Every kind of call on what `dir` leads to.
fn calls(dir: &str) -> Vec<(&'static str, Value)> {
    let file = format!("{dir}/x");
    vec![
        ("read_file", json!({ "path": file })),
        ("write_file", json!({ "path": file, "content": "mine\n" })),
        ("write_file", json!({ "path": format!("{dir}/new"), "content": "mine\n" })),
        ("write_file", json!({ "path": format!("{dir}/more/new"), "content": "mine\n" })),
        ("edit_file", json!({ "path": file, "old_string": "e", "new_string": "" , "replace_all": true })),
        ("delete_file", json!({ "path": file })),
        ("list_directory", json!({ "path": dir })),
        ("glob", json!({ "path": dir, "pattern": "**" })),
        ("grep", json!({ "path": dir, "pattern": "." })),
        ("grep", json!({ "path": file, "pattern": "." })),
        ("below", json!({ "path": dir })),
        ("move", json!({ "from": file, "to": "src/moved" })),
        ("move", json!({ "from": "other/x", "to": format!("{dir}/moved") })),
    ]
}

// case 255
#[tokio::test]
async fn the_handler_uses_what_the_policy_decided_about() {
    let after_policies = (Step::Policies, Moment::After);
    let moments = [
        (false, after_policies),
        (true, after_policies),
        (false, (Step::Begin, Moment::After)),
        (false, (Step::Handler, Moment::After)),
        (false, (Step::Commit, Moment::Before)),
    ];
    for (walk, (step, moment)) in moments {
        for dir in ["src/d", "src/l"] {
            for (tool, arguments) in calls(dir) {
                let world = World::open(walk, false).await;
                let root = world.root().to_owned();
                let before = listing(&root.join("secrets"));
                world.hook.arm(step, moment, move || swap(&root, dir));
                let (success, text) = world.call(tool, &arguments).await;
                let case = format!("{tool} {arguments} at {step:?} {moment:?}: {success} {text}");
                assert!(world.hook.is_done(), "{case}");
                assert_eq!(listing(&world.root().join("secrets")), before, "{case}");
                assert!(!text.contains("hunter2"), "{case}");
                if step < Step::Handler {
                    assert!(!success && text.contains(dir), "{case}");
                }
                let moved = world.root().join("src/moved");
                assert!(fs::read_to_string(moved).unwrap_or_default() != SECRET, "{case}");
                // The next call is decided anew.
                let (success, text) = world.call(tool, &arguments).await;
                assert!(!success && text.contains("Cannot use "), "{case}: {text}");
            }
        }
    }
}

// case 255
#[tokio::test]
async fn a_link_that_appears_where_nothing_was_is_not_followed() {
    let paths = ["src/new/deep/f", "src/d/none", "src/none"];
    for (path, link, target) in [
        (paths[0], "src/new/deep", "../../secrets"),
        (paths[0], "src/new", "../secrets"),
        (paths[1], paths[1], "../../secrets/x"),
        (paths[2], paths[2], "../secrets/new"),
    ] {
        let world = World::open(false, false).await;
        let before = listing(&world.root().join("secrets"));
        let (at, to) = (world.root().join(link), target.to_owned());
        world.hook.arm(Step::Policies, Moment::After, move || {
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            symlink(to, at).unwrap();
        });
        let (success, text) = world.call("write_file", &json!({ "path": path, "content": "mine\n" })).await;
        assert!(!success && world.hook.is_done(), "{path}: {text}");
        assert!(text.contains(link), "{text}");
        assert_eq!(listing(&world.root().join("secrets")), before, "{path}");
    }
}

#[tokio::test]
async fn what_a_call_itself_did_is_no_conflict() {
    let world = World::open(false, false).await;
    // The same path through the same link, twice.
    assert!(world.call("below", &json!({ "path": "src/l" })).await.0);
    assert_eq!(fs::read_to_string(world.root().join("other/sub/new")).unwrap(), "new\n");
    // Another process puts a directory in the place of the link: the next call takes it as it is.
    fs::remove_file(world.root().join("src/l")).unwrap();
    fs::create_dir_all(world.root().join("src/l/sub")).unwrap();
    fs::write(world.root().join("src/l/sub/y"), "y").unwrap();
    assert!(world.call("below", &json!({ "path": "src/l" })).await.0);
    assert!(world.root().join("src/l/sub/new").exists());
}

#[tokio::test]
async fn what_was_not_read_is_not_overwritten_however_late_it_came() {
    let changes: [(&str, fn(&Path)); 2] = [
        ("src/d/x", |file| fs::write(file, "by another process\n").unwrap()),
        ("src/d/new", |file| fs::write(file, "by another process\n").unwrap()),
    ];
    for (path, change) in changes {
        for (tool, arguments) in [
            ("write_file", json!({ "path": path, "content": "mine\n" })),
            ("edit_file", json!({ "path": path, "old_string": "by", "new_string": "mine" })),
            ("delete_file", json!({ "path": path })),
        ] {
            for step in [Step::Policies, Step::Begin, Step::Handler] {
                let world = World::open(false, true).await;
                let file = world.root().join(path);
                if file.exists() {
                    assert!(world.call("read_file", &json!({ "path": path })).await.0);
                }
                let at = file.clone();
                world.hook.arm(step, Moment::After, move || change(&at));
                let (success, text) = world.call(tool, &arguments).await;
                let case = format!("{tool} {path} after {step:?}: {text}");
                assert!(!success, "{case}");
                if world.hook.is_done() {
                    assert_eq!(fs::read_to_string(&file).unwrap(), "by another process\n", "{case}");
                }
            }
        }
    }
}

#[tokio::test]
async fn what_counts_as_read_is_what_was_read() {
    let world = World::open(false, true).await;
    let file = world.root().join("src/d/x");
    let at = file.clone();
    world.hook.arm(Step::Handler, Moment::After, move || fs::write(at, "by another process\n").unwrap());
    let (success, text) = world.call("read_file", &json!({ "path": "src/d/x" })).await;
    assert!(success && text.contains("harmless"), "{text}");
    let (success, text) = world.call("write_file", &json!({ "path": "src/d/x", "content": "mine\n" })).await;
    assert!(!success, "{text}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "by another process\n");
    assert!(world.call("read_file", &json!({ "path": "src/d/x" })).await.0);
    assert!(world.call("write_file", &json!({ "path": "src/d/x", "content": "mine\n" })).await.0);
}

const SWAPS: &str = "WINK_TEST_SWAPS_IN";

/// A process that swaps `src/d` and a link to `../secrets` until it is killed.
struct Swapper(Child);

impl Swapper {
    fn start(root: &Path) -> Self {
        symlink("../secrets", root.join("src/spare")).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "host_policy_races::no_call_gets_around_the_rules_while_links_are_swapped"])
            .env(SWAPS, root)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn swap_for_ever(root: &Path) {
    let exchange = rustix::fs::RenameFlags::EXCHANGE;
    let (one, two) = (root.join("src/d"), root.join("src/spare"));
    loop {
        rustix::fs::renameat_with(rustix::fs::CWD, &one, rustix::fs::CWD, &two, exchange).unwrap();
        // Long enough for a policy to decide between two swaps, short enough to come before the handler.
        std::thread::yield_now();
    }
}

/// How often it is tried; as long as nothing has succeeded, on and on, up to the second number.
const TURNS: usize = 1000;
const MOST_TURNS: usize = 20_000;

// case 255
#[tokio::test]
async fn no_call_gets_around_the_rules_while_links_are_swapped() {
    if let Some(root) = std::env::var_os(SWAPS) {
        return swap_for_ever(Path::new(&root));
    }
    let world = World::open(false, false).await;
    let before = listing(&world.root().join("secrets"));
    let swapper = Swapper::start(world.root());
    let (mut read, mut wrote, mut leaked) = (0, 0, 0);
    for turn in 0..MOST_TURNS {
        if turn >= TURNS && read > 0 {
            break;
        }
        let (success, text) = world.call("read_file", &json!({ "path": "src/d/x" })).await;
        read += usize::from(success);
        leaked += usize::from(text.contains("hunter2"));
    }
    for turn in 0..MOST_TURNS {
        if turn >= TURNS && wrote > 0 {
            break;
        }
        let content = json!({ "path": "src/d/x", "content": format!("harmless {turn}\n") });
        wrote += usize::from(world.call("write_file", &content).await.0);
    }
    drop(swapper);
    assert_eq!(leaked, 0, "of {read} reads that succeeded");
    assert_eq!(listing(&world.root().join("secrets")), before, "{wrote} writes succeeded");
    assert!(read > 0 && wrote > 0, "{read} reads and {wrote} writes succeeded: nothing was tried");
}

#[tokio::test]
async fn without_policies_links_are_followed_as_they_are() {
    let dir = tree();
    let files = HostFilesystem::open(dir.path(), HostOptions::default()).unwrap();
    let fork = files.fork().unwrap();
    assert_eq!(fork.read_text("src/l/x").await.unwrap(), "harmless\n");
    fs::remove_file(dir.path().join("src/l")).unwrap();
    symlink("../secrets", dir.path().join("src/l")).unwrap();
    assert_eq!(fork.read_text("src/l/x").await.unwrap(), SECRET);
}
