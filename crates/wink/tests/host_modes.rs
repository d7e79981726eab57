//! An ordinary user, and what their commands close to them: directories that their owner may not write or look into, and files that they
//! may not read. Whatever happens to the process, the workspace is then as it was before, or as the command left it; and it can
//! be used.
//!
//! These tests are run by the superuser and do everything as another user, for whom modes mean something. Processes are killed at every
//! step, and those that recover what they left at every step in turn.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

mod overlay;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tempfile::TempDir;
use wink::filesystem::host::{Capture, HostFilesystem, HostOptions};
use wink::filesystem::{
    DeleteMode, Filesystem, FilesystemExt, FsPath, MergedBy, MkdirOptions, Revert, UndoForce, WriteOptions,
};
use wink::limits::CancelToken;
use wink::store::JournalId;
use wink::testing::{leave_out, steps};

/// An ordinary user, and the group of the same number.
const USER: u32 = 61_234;
/// Another group that the user is in, and one that they are not in.
const TEAM: u32 = 61_235;
const OTHERS: u32 = 61_299;
const JOB: &str = "WINK_TEST_MODES_JOB";

const SEED: &str = "mkdir -p m/s r/sub k; echo one > m/f1; echo two > m/s/f2; echo a > a; echo x > r/x; echo y > r/sub/y; \
                    echo z > k/z; echo secret > secret; chmod 0 secret; chmod 555 r/sub r; chmod 0 k; \
                    find . -depth -exec touch -h -d 2001-01-01 {} +";

/// What commands do, each in a workspace of its own.
const SCRIPTS: &[&str] = &[
    // case 250
    "rm m/f1; chmod 555 m",
    // case 251
    "echo new > m/f1; chmod 000 m",
    // What Go's module cache and Bazel leave.
    "mkdir -p n/b; echo a > n/a; echo c > n/b/c; chmod 444 n/a; chmod 555 n/b n",
    "mkdir n; echo a > n/a; echo more > n/more; chmod 000 n/a; chmod 000 n",
    // What was closed before: changed, moved and removed.
    "chmod 755 r; echo w > r/w; rm r/x; chmod 555 r; chmod 700 k; echo changed > k/z; chmod 000 k",
    "chmod -R u+w r; rm -rf r; chmod 700 k; rm -r k; rm -f secret",
    "chmod 755 r r/sub; mv r/sub moved; rm r/x; chmod 555 moved r; mv k kk; mv r rr",
    "chmod 600 secret; echo known > secret; chmod 000 secret; chmod 444 a; chmod 000 m/s/f2; chmod 500 m/s",
];

fn sh(root: &Path, script: &str) {
    let script = format!("set -e\n{script}");
    let done = Command::new("sh").args(["-c", &script]).current_dir(root).output().unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

fn said(root: &Path, script: &str) -> String {
    let output = Command::new("sh").args(["-c", script]).current_dir(root).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Everything in the workspace: kind, mode, owner, time, and what is in files. As the superuser sees it.
fn dump(root: &Path, times: &str) -> String {
    let list = format!(
        "find . -path ./.wink -prune -o -printf '%p %y %m %U:%G {times} %l\\n' | sort | sed '/^\\. /d'; \
         find . -path ./.wink -prune -o -type f -print | sort | xargs grep . /dev/null"
    );
    said(root, &list)
}

/// A copy of this test that everybody may run.
fn executable() -> &'static Path {
    static COPY: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = COPY.get_or_init(|| {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("test");
        sh(dir.path(), &format!("chmod 755 .; cp '{}' test", std::env::current_exe().unwrap().display()));
        (dir, path)
    });
    path
}

/// A workspace of the user's.
struct World {
    dir: TempDir,
    capture: Capture,
}

/// How a process of the user's ended.
#[derive(Debug, PartialEq)]
enum Ended {
    /// With what it said.
    Well(String),
    /// By the step that it was to be killed at.
    Killed(String),
}

impl World {
    fn new(capture: Capture) -> Self {
        let dir = TempDir::new().unwrap();
        sh(dir.path(), "chmod 755 .; mkdir w w/root");
        sh(&dir.path().join("w/root"), SEED);
        sh(dir.path(), &format!("chown -hR {USER}:{USER} w"));
        Self { dir, capture }
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("w/root")
    }

    /// How many commits the store of the user has.
    fn commits(&self) -> usize {
        std::fs::read_to_string(self.dir.path().join("w/committed")).map_or(0, |text| text.lines().count())
    }

    /// A process that does a job as the user.
    fn process(&self, job: &str, kill_at: &str) -> Command {
        let mut process = Command::new("setpriv");
        process
            .args([format!("--reuid={USER}"), format!("--regid={USER}"), format!("--groups={TEAM}")])
            .args(["--inh-caps=-all", "--"])
            .arg(executable())
            .args(["user_child", "--exact", "--nocapture"])
            .env(JOB, format!("{}\n{}\n{kill_at}\n{job}", self.root().display(), self.capture))
            .current_dir("/");
        process
    }

    /// Does a job as the user, who is killed at the step with this number.
    fn user(&self, job: &str, kill_at: usize) -> Ended {
        let output = self.process(job, &kill_at.to_string()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let told = |mark: &str| -> Vec<String> {
            text.lines().filter_map(|line| Some(line.split_once(mark)?.1.to_owned())).collect()
        };
        if output.status.signal() == Some(9) {
            return Ended::Killed(told("killed at: ").join(" "));
        }
        assert!(output.status.success(), "{job}: {text}{}", String::from_utf8_lossy(&output.stderr));
        Ended::Well(told("told: ").join("\n"))
    }

    fn done(&self, job: &str) -> String {
        match self.user(job, 0) {
            Ended::Well(told) => told,
            killed => panic!("{killed:?}"),
        }
    }
}

fn is_superuser() -> bool {
    let can = rustix::process::geteuid().is_root();
    if !can {
        leave_out("an ordinary user", "it takes the superuser to be somebody else");
    }
    can
}

fn captures() -> Vec<Capture> {
    if overlay::works() { vec![Capture::Overlay, Capture::Scan] } else { vec![Capture::Scan] }
}

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

// --- what the user does ------------------------------------------------------------------------------------------------

/// The last change of a workspace.
fn last(root: &Path) -> String {
    let names = std::fs::read_dir(root.join(".wink/journal")).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names.last().unwrap().split('.').next().unwrap().splitn(3, '-').last().unwrap().to_owned()
}

/// Not a test by itself: what the user does.
#[test]
fn user_child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let mut parts = job.splitn(5, '\n');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (root, capture, kill_at, what, script) = (PathBuf::from(next()), next(), next(), next(), next());
    let count = AtomicUsize::new(0);
    if kill_at == "wait" {
        // When the directory of the workspace itself is lifted, and not that of a layer.
        let closed = root.join("k");
        steps::on_every_step(move |step| {
            let is_lifted = || closed.metadata().unwrap().permissions().mode() & 0o777 == 0o700;
            if step == "disk.lifted" && is_lifted() && count.fetch_add(1, Ordering::Relaxed) == 0 {
                println!("waiting");
                std::io::stdin().read_line(&mut String::new()).unwrap();
            }
        });
    } else if let kill_at @ 1.. = kill_at.parse::<usize>().unwrap() {
        steps::on_every_step(move |step| {
            if count.fetch_add(1, Ordering::Relaxed) + 1 == kill_at {
                println!("killed at: {step}");
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                    .unwrap();
            }
        });
    }
    let capture = if capture == "scan" { Capture::Scan } else { Capture::Overlay };
    let committed = root.parent().unwrap().join("committed");
    let store = {
        let committed = committed.clone();
        Arc::new(move |id: &JournalId| {
            let known = std::fs::read_to_string(&committed).unwrap_or_default();
            Ok(known.lines().any(|line| line == id.to_string()))
        })
    };
    let mut options = HostOptions { capture: Some(capture), verdict: Some(store), ..HostOptions::default() };
    match what.as_str() {
        "beside" => options.lock_timeout = Duration::ZERO,
        "capture" => options.capture = None,
        _ => {}
    }
    let files = match HostFilesystem::open(&root, options) {
        Err(error) if what == "beside" => return println!("told: not opened: {error}"),
        files => files.unwrap(),
    };
    let command_on = |fork: Arc<dyn Filesystem>| {
        let layer = HostFilesystem::of(&*fork).unwrap().command_layer_by(capture).unwrap();
        match capture {
            Capture::Overlay => _ = overlay::sh(&layer, &script),
            Capture::Scan => sh(&root, &script),
        }
        (fork, layer)
    };
    let command = || command_on(files.fork().unwrap());
    let merge = |fork: &Arc<dyn Filesystem>| {
        let receipt = files.merge(&**fork).unwrap();
        let mut store = std::fs::File::options().append(true).create(true).open(&committed).unwrap();
        writeln!(store, "{}", last(&root)).unwrap();
        files.keep(receipt);
    };
    match what.as_str() {
        "open" => {}
        "fail" => {
            let (fork, layer) = command();
            layer.undo().unwrap();
            drop(fork);
        }
        "commit" => {
            let (fork, layer) = command();
            layer.finish().unwrap();
            merge(&fork);
        }
        "alone" => {
            let fork = files.fork().unwrap();
            let turn = block(fork.write_turn(None)).unwrap().unwrap();
            fork.enter_turn(&turn);
            let (fork, layer) = command_on(fork);
            layer.finish().unwrap();
            assert!(!fork.changes().contains(&FsPath::root()), "{:?}", fork.changes());
            merge(&fork);
        }
        "beside" => println!("told: opened"),
        "refused" => {
            let (_fork, layer) = command();
            println!("told: {}", layer.finish().unwrap_err());
        }
        "roll back" => {
            let (fork, layer) = command();
            layer.finish().unwrap();
            files.unmerge(files.merge(&*fork).unwrap()).unwrap();
        }
        "undo" => {
            let journal =
                std::fs::read_to_string(&committed).unwrap().lines().last().unwrap().parse().unwrap();
            let fork = files.fork().unwrap();
            let revert = [Revert { journal, by: MergedBy::Call }];
            let reverted = block(fork.revert(&revert, UndoForce::Refuse)).unwrap();
            assert_eq!((reverted.changed, reverted.left, reverted.forgotten), (vec![], vec![], vec![]));
            assert!(!reverted.files.is_empty());
            // It is known what is undone, also where it is closed.
            assert!(!fork.changes().contains(&FsPath::root()), "{:?}", fork.changes());
            merge(&fork);
        }
        "tools" => {
            let path = |path: &str| FsPath::parse(path, files.limits()).unwrap();
            let fork = files.fork().unwrap();
            let refused = [
                block(fork.write_text("r/new", "")).err(),
                block(fork.write_text("r/x", "changed")).err(),
                block(fork.delete(&path("r/x"), DeleteMode::Single)).err(),
                block(fork.mkdir(&path("r/dir"), MkdirOptions::default())).err(),
                block(fork.rename(&path("r/sub"), &path("sub"))).err(),
                block(fork.write_text("k/z", "")).err(),
            ];
            for refused in refused {
                println!("told: {}", refused.unwrap());
            }
        }
        "write" => {
            let fork = files.fork().unwrap();
            for path in script.split(' ') {
                let path = FsPath::parse(path, files.limits()).unwrap();
                let options = WriteOptions { create_parents: true, ..WriteOptions::default() };
                if let Err(error) = block(fork.write(&path, b"written", options)) {
                    println!("told: {error}");
                }
            }
            merge(&fork);
        }
        "capture" => {
            let fork = files.fork().unwrap();
            let layer = HostFilesystem::of(&*fork).unwrap().command_layer(&CancelToken::new(), |_| Ok(()));
            println!("told: {}", layer.unwrap().capture());
        }
        "use" => {
            // Whoever comes next can do anything: by the file tools, and by a command.
            block(files.write_text("again", "")).unwrap();
            let fork = files.fork().unwrap();
            let layer = HostFilesystem::of(&*fork).unwrap().command_layer_by(capture).unwrap();
            match capture {
                Capture::Overlay => _ = overlay::sh(&layer, "rm again"),
                Capture::Scan => sh(&root, "rm again"),
            }
            layer.finish().unwrap();
            files.keep(files.merge(&*fork).unwrap());
        }
        other => panic!("{other}"),
    }
}

/// What a script leaves where there is no runtime.
fn left_by(script: &str) -> String {
    let world = World::new(Capture::Scan);
    let done = Command::new("sh")
        .args(["-ec", script])
        .current_dir(world.root())
        .uid(USER)
        .gid(USER)
        .status()
        .unwrap();
    assert!(done.success(), "{script}");
    dump(&world.root(), "")
}

// --- what becomes of it ------------------------------------------------------------------------------------------------

// cases 250, 251
#[test]
fn what_a_command_closes_is_committed_rolled_back_and_undone() {
    if !is_superuser() {
        return;
    }
    for capture in captures() {
        for script in SCRIPTS {
            let world = World::new(capture);
            let (before, started) = (dump(&world.root(), "%T@"), dump(&world.root(), ""));
            for end in ["fail", "roll back"] {
                world.done(&format!("{end}\n{script}"));
                assert_eq!(dump(&world.root(), "%T@"), before, "{capture}, {end}: {script}");
            }
            world.done(&format!("commit\n{script}"));
            assert_eq!(dump(&world.root(), ""), left_by(script), "{capture}, commit: {script}");
            world.done("undo");
            // Commits and undos give a directory that stays another time.
            assert_eq!(dump(&world.root(), ""), started, "{capture}, undo: {script}");
            world.done("use");
            assert_eq!(dump(&world.root(), ""), started, "{capture}, use: {script}");
        }
    }
}

/// Kills whoever does `job` at each of its steps, and whoever opens the workspace then as well, at one step each; then the workspace
/// must be as it was, or, where the store has the commit, as it became. Says at which steps.
fn killed_everywhere(
    world: impl Fn() -> World,
    job: &str,
    (before, after): ((&str, &str), &str),
    steps: impl Iterator<Item = usize>,
) -> Vec<String> {
    let mut seen = Vec::new();
    for kill_at in steps {
        let world = world();
        let commits = world.commits();
        let Ended::Killed(step) = world.user(job, kill_at) else { break };
        // Those who recover die too: each at another step.
        let recovering = world.user("open", 1 + kill_at % 23);
        // Whoever comes next settles it all, and can use the workspace.
        world.done("use");
        let (expected, times) = if world.commits() > commits { (after, "") } else { before };
        let what = format!("{}, {job}, killed at {kill_at} {step}, then {recovering:?}", world.capture);
        assert_eq!(dump(&world.root(), times), expected, "{what}");
        assert!(!world.root().join(".wink/lifted").exists(), "{what}");
        seen.push(step);
    }
    seen
}

fn kill_at_every_step(scripts: &[&str]) {
    kill_at_steps(scripts, 1);
}

/// Kills at every `stride`th step.
fn kill_at_steps(scripts: &[&str], stride: usize) {
    if !is_superuser() {
        return;
    }
    for capture in captures() {
        let before = dump(&World::new(capture).root(), "%T@");
        let mut seen = Vec::new();
        for script in scripts {
            let after = left_by(script);
            let both = ((before.as_str(), "%T@"), after.as_str());
            let killed = |job: &str, first: usize| {
                killed_everywhere(
                    || World::new(capture),
                    &format!("{job}\n{script}"),
                    both,
                    (first..).step_by(stride),
                )
            };
            let committed = killed("commit", 1);
            // Up to the merge, both are the same.
            let merged = committed.iter().rposition(|step| step == "host.merged");
            seen.extend(killed("roll back", merged.map_or(1, |merged| merged * stride + 1)));
            seen.extend(committed);
        }
        // Every third step need not be one of these.
        if stride > 1 {
            continue;
        }
        for step in ["disk.lift-written", "disk.lifted", "disk.mode-put-back", "disk.lifting-over"] {
            assert!(seen.iter().any(|seen| seen == step), "{capture}: {step} was not reached");
        }
    }
}

// case 250
#[test]
fn a_death_at_any_step_leaves_a_read_only_directory_as_it_was_or_as_it_became() {
    kill_at_every_step(&SCRIPTS[..1]);
}

// case 251
#[test]
fn a_death_at_any_step_leaves_a_closed_directory_as_it_was_or_as_it_became() {
    kill_at_every_step(&SCRIPTS[1..2]);
}

#[test]
fn a_death_at_any_step_of_changing_what_was_closed_before() {
    kill_at_steps(&SCRIPTS[6..7], 3);
}

// cases 250, 251
#[test]
fn a_death_at_any_step_of_an_undo_loses_no_mode() {
    if !is_superuser() {
        return;
    }
    let before = dump(&World::new(Capture::Scan).root(), "");
    for script in [SCRIPTS[1], SCRIPTS[5]] {
        let world = || {
            let world = World::new(Capture::Scan);
            world.done(&format!("commit\n{script}"));
            world
        };
        killed_everywhere(world, "undo", ((left_by(script).as_str(), ""), &before), (1..).step_by(2));
    }
}

/// What Go's module cache looks like: directories 0555 on every level, files 0444.
const TREE: &str = "mkdir -p n/cache/a@v1/b/c n/cache/d@v2; echo a > n/cache/a@v1/a; echo c > n/cache/a@v1/b/c/c; \
                    echo d > n/cache/d@v2/d; find n -type f -exec chmod 444 {} +; find n -type d -exec chmod 555 {} +";
const REMOVED: &str = "chmod -R u+w n; rm -rf n";

#[test]
fn a_read_only_tree_is_removed_by_a_later_command_and_brought_back() {
    if !is_superuser() {
        return;
    }
    for capture in captures() {
        let world = || {
            let world = World::new(capture);
            world.done(&format!("commit\n{TREE}"));
            world
        };
        let made = left_by(TREE);
        let removed = left_by(&format!("{TREE}; {REMOVED}"));
        let one = world();
        assert_eq!(dump(&one.root(), ""), made, "{capture}");
        one.done(&format!("fail\n{REMOVED}"));
        assert_eq!(dump(&one.root(), ""), made, "{capture}");
        one.done(&format!("commit\n{REMOVED}"));
        assert_eq!(dump(&one.root(), ""), removed, "{capture}");
        one.done("undo");
        assert_eq!(dump(&one.root(), ""), made, "{capture}");
        let both = ((made.as_str(), ""), removed.as_str());
        killed_everywhere(world, &format!("commit\n{REMOVED}"), both, (1..).step_by(7));
    }
}

/// While one process has modes lifted, another neither puts them back nor gets to see them: opening waits.
#[test]
fn another_process_leaves_alone_what_a_living_one_has_lifted() {
    if !is_superuser() {
        return;
    }
    let script = "chmod 700 k; echo changed > k/z; chmod 000 k";
    for capture in captures() {
        let world = World::new(capture);
        let mut first = world
            .process(&format!("alone\n{script}"), "wait")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(first.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().ends_with("waiting")), "{capture}");
        let lifted = || (said(&world.root(), "stat -c %a k"), world.root().join(".wink/lifted").exists());
        assert_eq!(lifted(), ("700\n".to_owned(), true), "{capture}");
        let told = world.done("beside");
        assert!(told.starts_with("not opened: '/': the workspace is held by process "), "{capture}: {told}");
        assert_eq!(lifted(), ("700\n".to_owned(), true), "{capture}");
        first.stdin.take().unwrap().write_all(b"\n").unwrap();
        lines.for_each(drop);
        assert!(first.wait().unwrap().success());
        assert_eq!(dump(&world.root(), ""), left_by(script), "{capture}");
        assert!(!world.root().join(".wink/lifted").exists());
    }
}

// --- what stays refused ------------------------------------------------------------------------------------------------

#[test]
fn a_command_that_closes_the_workspace_or_its_state_is_refused_and_undone() {
    if !is_superuser() {
        return;
    }
    let refused = [
        ("chmod 000 .wink", "'.wink': the command changed this, which only the runtime writes"),
        ("rm a; chmod 000 .", "'/': the command changed mode or owner of the workspace itself"),
    ];
    for (script, why) in refused {
        let world = World::new(Capture::Scan);
        let before = dump(&world.root(), "%T@");
        let told = world.done(&format!("refused\n{script}"));
        assert!(told.starts_with(why), "{script}: {told}");
        assert_eq!(dump(&world.root(), "%T@"), before, "{script}");
        world.done("use");
    }
}

/// Modes that hold for the user hold for file tools: only what a command did, and what is taken back, is done in spite of them.
#[test]
fn file_tools_do_not_write_into_read_only_directories() {
    if !is_superuser() {
        return;
    }
    let world = World::new(Capture::Scan);
    let before = dump(&world.root(), "%T@");
    let told = world.done("tools");
    let read_only = "it cannot be changed: permission denied; the directory 'r' is read-only for this user";
    let expected = ["r/new", "r/x", "r/x", "r/dir", "r/sub"].map(|path| format!("'{path}': {read_only}"));
    let (refused, unreachable) = told.rsplit_once('\n').unwrap();
    assert_eq!(refused, expected.join("\n"));
    assert!(unreachable.starts_with("'k/z': ") && unreachable.contains("permission denied"), "{unreachable}");
    assert_eq!(dump(&world.root(), "%T@"), before);
}

// --- groups, attributes and access control lists -------------------------------------------------------------------------

/// An access control list by which another user may read and write, as the kernel has it.
fn list() -> Vec<u8> {
    const NO_ID: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] =
        [(0x01, 6, NO_ID), (0x02, 6, OTHERS), (0x04, 4, NO_ID), (0x10, 6, NO_ID), (0x20, 0, NO_ID)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

const USERS: &str = "user.wink-test";
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

impl World {
    fn set(&self, path: &str, name: &str, value: &[u8]) {
        rustix::fs::setxattr(self.root().join(path), name, value, rustix::fs::XattrFlags::empty()).unwrap();
    }

    fn get(&self, path: &str, name: &str) -> Option<Vec<u8>> {
        let mut value = vec![0; 1000];
        let len = rustix::fs::getxattr(self.root().join(path), name, value.as_mut_slice()).ok()?;
        value.truncate(len);
        Some(value)
    }

    /// Mode and group.
    fn about(&self, path: &str) -> String {
        said(&self.root(), &format!("stat -c '%a %g' '{path}'")).trim().to_owned()
    }
}

#[test]
fn what_is_written_keeps_group_attributes_and_lists() {
    if !is_superuser() {
        return;
    }
    let world = World::new(Capture::Scan);
    sh(
        &world.root(),
        "mkdir team lists; echo old > plain; echo old > locked; echo old > listed; echo old > alien",
    );
    sh(&world.root(), &format!("chown {USER}:{TEAM} plain team; chown {USER}:{USER} lists locked listed"));
    sh(
        &world.root(),
        &format!("chmod 2775 team; chmod 664 plain; chmod 444 locked; chown {USER}:{OTHERS} alien"),
    );
    world.set("plain", USERS, b"one");
    world.set("locked", USERS, b"two");
    world.set("listed", ACCESS, &list());
    world.set("lists", DEFAULT, &list());
    let listed = world.about("listed");

    let told = world.done("write\nplain locked listed alien team/new team/in/deep lists/new lists/in/deep");
    assert_eq!(
        told,
        format!(
            "'alien': it cannot be written: its group {OTHERS} cannot be kept, since this user is not in it"
        )
    );
    assert_eq!(
        said(&world.root(), "cat plain locked listed team/in/deep alien"),
        "writtenwrittenwrittenwrittenold\n"
    );
    assert_eq!(
        (world.about("plain"), world.get("plain", USERS)),
        (format!("664 {TEAM}"), Some(b"one".to_vec()))
    );
    assert_eq!(
        (world.about("locked"), world.get("locked", USERS)),
        (format!("444 {USER}"), Some(b"two".to_vec()))
    );
    assert_eq!((world.about("listed"), world.get("listed", ACCESS)), (listed, Some(list())));
    assert_eq!(
        ["team/new", "team/in", "team/in/deep"].map(|path| world.about(path)),
        [format!("644 {TEAM}"), format!("2755 {TEAM}"), format!("644 {TEAM}")]
    );
    for path in ["lists/new", "lists/in", "lists/in/deep"] {
        assert!(world.get(path, ACCESS).is_some(), "{path}");
    }
    assert_eq!(world.get("lists/in", DEFAULT), Some(list()));

    world.done("undo");
    assert_eq!(
        said(&world.root(), "cat plain locked listed; ls team lists"),
        "old\nold\nold\nlists:\n\nteam:\n"
    );
    assert_eq!(
        (world.about("plain"), world.get("plain", USERS)),
        (format!("664 {TEAM}"), Some(b"one".to_vec()))
    );
    assert_eq!(
        (world.about("locked"), world.get("locked", USERS)),
        (format!("444 {USER}"), Some(b"two".to_vec()))
    );
    assert_eq!(world.get("listed", ACCESS), Some(list()));
}

#[test]
fn a_directory_that_gives_a_group_of_others_takes_no_new_files() {
    if !is_superuser() {
        return;
    }
    let world = World::new(Capture::Scan);
    sh(&world.root(), &format!("mkdir odd; chown {USER}:{OTHERS} odd; chmod 2775 odd"));
    let told = world.done("write\nodd/new fine");
    let why = format!("its group {OTHERS} of its directory cannot be kept, since this user is not in it");
    assert_eq!(told, format!("'odd/new': it cannot be written: {why}"));
    assert_eq!(said(&world.root(), "ls odd; cat fine"), "written");
}

#[test]
fn a_directory_that_comes_back_has_its_attributes() {
    if !is_superuser() {
        return;
    }
    for capture in captures() {
        let world = World::new(capture);
        sh(&world.root(), &format!("mkdir -p d/e; echo f > d/e/f; chown -R {USER}:{USER} d"));
        world.set("d/e", USERS, b"mine");
        world.set("d/e", DEFAULT, &list());
        world.done("fail\nrm -r d");
        assert_eq!(world.get("d/e", USERS), Some(b"mine".to_vec()), "{capture}");
        world.done("commit\nrm -r d");
        world.done("undo");
        let now = (world.get("d/e", USERS), world.get("d/e", DEFAULT), said(&world.root(), "cat d/e/f"));
        assert_eq!(now, (Some(b"mine".to_vec()), Some(list()), "f\n".to_owned()), "{capture}");
    }
}

/// In a user namespace of their own, a user has one group.
#[test]
fn a_workspace_with_other_groups_is_scanned() {
    if !is_superuser() || !overlay::works() {
        return;
    }
    let world = World::new(Capture::Overlay);
    assert_eq!(world.done("capture"), "overlay");
    sh(&world.root(), &format!("chgrp {TEAM} a"));
    assert_eq!(world.done("capture"), "scan");
}
