//! Rollback equals before: whatever a call did to the workspace, by the filesystem or by a command, and however it failed,
//! the workspace is then what it was. With an overlay and with a scan.
//!
//! What the workspace is, is asked of `find` and `sha256sum`, which share no code with what is tested. Some seeds are always the same,
//! a few are new each time; a failure names its own. To have it again, or others: the number of cases is in
//! `WINK_ROLLBACK_CASES`, the first seed in `WINK_ROLLBACK_SEED`.
//!
//! The scripts have all the rights of whoever runs this: no link in a tree, and no line of a script, may lead out of it.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::BuildHasher;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use wink::filesystem::host::{Capture, HostFilesystem, HostOptions, PathGuard};
use wink::filesystem::{DeleteMode, Edit, Filesystem, FilesystemExt, MkdirOptions};
use wink::limits::{Clock, SystemClock};
use wink::prelude::*;
use wink::resource::Binding;
use wink::serde_json::json;
use wink::session::{Ending, ToolInvoked};
use wink::testing::{ByteStore, Dice, FakeClock, FaultyStore, StoreOp, leave_out, steps};
use wink_sandbox::tool::{HostLayers, WorkspaceLayers};
use wink_sandbox::{Capabilities, Launch, OverlayKind, capture_of};

// --- what a tree is ------------------------------------------------------------------------------------------------

/// What `find` and `sha256sum` say about an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct About {
    kind: String,
    mode: String,
    owner: String,
    modified: String,
    target: Vec<u8>,
    links: String,
    /// The first name of the same file.
    group: Vec<u8>,
    hash: String,
}

type Dump = BTreeMap<Vec<u8>, About>;

fn dump(root: &Path) -> Dump {
    let found = Process::new("find")
        .arg(root)
        .args(["-path"])
        .arg(root.join(".wink"))
        .args(["-prune", "-o", "-printf", "%P\\0%y\\0%m\\0%U:%G\\0%T@\\0%l\\0%n\\0%i\\0"])
        .output()
        .unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let fields: Vec<&[u8]> = found.stdout.split(|byte| *byte == 0).collect();
    let text = |field: &[u8]| String::from_utf8(field.to_vec()).unwrap();
    let mut hashes = hashes(root);
    let mut dump = Dump::new();
    let mut inodes: HashMap<String, Vec<u8>> = HashMap::new();
    let mut entries: Vec<&[&[u8]]> = fields.chunks_exact(8).collect();
    entries.sort_unstable();
    for entry in entries {
        let [path, kind, mode, owner, modified, target, links, inode] = entry else { panic!("eight fields") };
        let group = inodes.entry(text(inode)).or_insert_with(|| path.to_vec()).clone();
        let is_dir = *kind == b"d";
        let about = About {
            kind: text(kind),
            mode: text(mode),
            owner: text(owner),
            modified: text(modified),
            target: target.to_vec(),
            links: if is_dir { String::new() } else { text(links) },
            group: if is_dir { Vec::new() } else { group },
            hash: hashes.remove(*path).unwrap_or_default(),
        };
        dump.insert(path.to_vec(), about);
    }
    dump
}

fn hashes(root: &Path) -> HashMap<Vec<u8>, String> {
    let script = "cd \"$1\" && find . -path ./.wink -prune -o -type f -print0 | xargs -0 -r sha256sum -z --";
    let output = Process::new("sh").args(["-c", script, "sh"]).arg(root).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = output.stdout.split(|byte| *byte == 0).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let (hash, name) = line.split_at(64);
            (name[4..].to_vec(), String::from_utf8(hash.to_vec()).unwrap())
        })
        .collect()
}

fn paths(dump: &Dump) -> Vec<PathBuf> {
    let paths = dump.keys().filter(|path| !path.is_empty());
    paths.map(|path| PathBuf::from(OsString::from_vec(path.clone()))).collect()
}

fn differences(before: &Dump, after: &Dump) -> Vec<String> {
    let keys: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    let differs = keys.into_iter().filter(|key| before.get(*key) != after.get(*key));
    differs
        .map(|key| {
            format!("{:?}\n  was {:?}\n  is  {:?}", OsStr::from_bytes(key), before.get(key), after.get(key))
        })
        .collect()
}

// --- random things -------------------------------------------------------------------------------------------------

trait Choices {
    fn any_of<'a, T>(&mut self, from: &'a [T]) -> &'a T;
    fn name(&mut self) -> OsString;
    fn path(&mut self) -> PathBuf;
}

impl Choices for Dice {
    fn any_of<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        self.pick(from).unwrap()
    }

    fn name(&mut self) -> OsString {
        let long = "l".repeat(120);
        let names: [&[u8]; 13] = [
            b"a",
            b"b",
            b"c",
            b"d",
            b"with space",
            b"-rf",
            b"new\nline",
            b"\xff\xfe",
            b".hidden",
            b"x.log",
            b"\\x41",
            b"q'uote\"",
            long.as_bytes(),
        ];
        OsString::from_vec(self.any_of(&names).to_vec())
    }

    fn path(&mut self) -> PathBuf {
        (0..1 + self.below(3)).map(|_| self.name()).collect()
    }
}

/// A tree with a bit of everything. What cannot be made, because something else is there, is left out.
fn grow(dice: &mut Dice, root: &Path) {
    let mut files = Vec::new();
    for _ in 0..4 + dice.below(14) {
        let path = root.join(dice.path());
        if fs::create_dir_all(path.parent().unwrap()).is_err() || path.symlink_metadata().is_ok() {
            continue;
        }
        match dice.below(10) {
            0 => fs::create_dir(&path).unwrap(),
            // Never to anything outside: commands follow them, with all the rights of whoever runs this.
            1 => symlink(dice.any_of(&["nowhere", "/nonexistent/wink/rollback", "a", "b", "./c"]), &path)
                .unwrap(),
            2 if !files.is_empty() => fs::hard_link(dice.any_of(&files), &path).unwrap(),
            _ => {
                fs::write(&path, vec![b'x'; dice.below(5000)]).unwrap();
                let mode = *dice.any_of(&[0o644, 0o755, 0o600, 0o444, 0o640]);
                fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
                files.push(path);
            }
        }
    }
    fs::write(root.join(".gitignore"), "*.log\nignored/\n").unwrap();
    let _ = fs::create_dir(root.join("ignored"));
    let _ = fs::write(root.join("ignored/file"), "kept");
    if dice.below(3) == 0 {
        let git = root.join("nested/.git/objects/ab");
        fs::create_dir_all(&git).unwrap();
        fs::write(git.join("cdef"), "object").unwrap();
        fs::write(root.join("nested/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    }
    if dice.below(12) == 0 {
        // Whatever else was called so: git makes a repository in a directory only.
        let name = root.join("repository");
        let made = Process::new("git").args(["init", "-q"]).arg(&name).env("HOME", root).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    // Old, each with a time of its own; directories last, the deepest first.
    let listed = Process::new("find").arg(root).args(["-depth", "-print0"]).output().unwrap().stdout;
    for path in listed.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        let path = Path::new(OsStr::from_bytes(path));
        if path.is_symlink() {
            continue;
        }
        let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(dice.any() % 1_700_000_000_000_000_000);
        if path.is_dir() && dice.below(4) == 0 {
            let mode = *dice.any_of(&[0o700, 0o775, 0o750]);
            fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
        fs::File::open(path).unwrap().set_modified(time).unwrap();
    }
}

fn quoted(path: &Path) -> Vec<u8> {
    let mut text = b"'./".to_vec();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            byte => text.push(*byte),
        }
    }
    text.push(b'\'');
    text
}

/// A path that is there, or one that may be.
fn some_path(dice: &mut Dice, there: &[PathBuf]) -> PathBuf {
    if dice.below(3) > 0 && !there.is_empty() { dice.any_of(there).clone() } else { dice.path() }
}

fn script(dice: &mut Dice, there: &[PathBuf]) -> OsString {
    let mut script = b"exec 2>/dev/null\n".to_vec();
    for _ in 0..1 + dice.below(8) {
        let (one, two) = (quoted(&some_path(dice, there)), quoted(&some_path(dice, there)));
        let line: &[&[u8]] = match dice.below(18) {
            0 => &[b"rm -rf ", &one],
            1 => &[b"mv -fT ", &one, b" ", &two],
            2 => &[b"mkdir -p ", &one],
            3 | 4 => &[b"echo new > ", &one],
            5 => &[b"echo more >> ", &one],
            6 => &[b"chmod 711 ", &one],
            7 => &[b"ln -sfn nowhere ", &one],
            8 => &[b"ln -f ", &one, b" ", &two],
            9 => &[b"touch ", &one],
            10 => &[b"cp -a ", &one, b" ", &two],
            11 => &[b"rm -rf ", &one, b"; mkdir ", &one, b"; echo in > ", &one, b"/inside"],
            12 => &[b"mv ", &one, b" ./tmp; mv ", &two, b" ", &one, b"; mv ./tmp ", &two],
            13 => &[b"sed -i s/x/y/ ", &one],
            14 => &[b"touch -d @1000000000 ", &one],
            15 => &[b"truncate -s 3 ", &one],
            16 if dice.below(4) == 0 => &[b"rm -rf ./* ./.[!.]*"],
            _ => &[b"echo same size > ", &one, b"; mkdir -p new/er; ln ", &one, b" new/er/linked"],
        };
        line.iter().chain(&[&b"\n"[..]]).for_each(|part| script.extend_from_slice(part));
    }
    script.extend_from_slice(b"exit 0\n");
    OsString::from_vec(script)
}

/// Changes through the filesystem: what does not work does not matter.
async fn change(dice: &mut Dice, files: &dyn Filesystem, there: &[PathBuf]) {
    for _ in 0..dice.below(5) {
        let mut path = || loop {
            let path = some_path(dice, there);
            if let Some(path) = path.to_str().and_then(|path| files.path(path).ok()) {
                return path;
            }
        };
        let (one, two) = (path(), path());
        let _ = match dice.below(8) {
            6 => files.edit(&one, &Edit::all("x", "edited")).await.map(drop),
            7 => files.edit(&one, &Edit::once("kept", "edited")).await.map(drop),
            0 => files.delete(&one, DeleteMode::Recursive).await,
            1 => files.rename(&one, &two).await,
            2 => files.mkdir(&one, MkdirOptions { parents: true, exist_ok: true }).await,
            _ => files.write(&one, b"by the filesystem", Default::default()).await.map(drop),
        };
    }
}

// --- calls ---------------------------------------------------------------------------------------------------------

/// How a call ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Failed,
    Error,
    Panic,
    /// The store refuses the commit.
    Refused,
    /// Its time is over while the command runs.
    Timeout,
    /// Nobody waits for it any more while the command runs.
    Dropped,
    /// The command leaves a pipe.
    Special,
}

const FAILURES: [End; 7] =
    [End::Failed, End::Error, End::Panic, End::Refused, End::Timeout, End::Dropped, End::Special];

/// What the tool is to do.
struct Order {
    seed: u64,
    there: Vec<PathBuf>,
    end: End,
    script: OsString,
    store: Arc<FaultyStore>,
    /// Whether everything was done by the time that it ended as it was to.
    reached: Arc<Mutex<bool>>,
}

#[derive(Default)]
struct Orders(Mutex<Option<Order>>);

#[tool]
/// Makes a mess.
async fn mess(cx: &mut ToolContext) -> Result<ToolResult<()>, ToolError> {
    let order = cx.resource::<Orders>().await?.0.lock().unwrap().take().expect("an order");
    let files = cx.resource::<dyn Filesystem>().await?;
    let mut dice = Dice::new(order.seed ^ 0x5eed);
    change(&mut dice, &*files, &order.there).await;
    let layer = HostLayers.layer(&files).await?;
    let root = HostFilesystem::of(&*files).unwrap().root().to_owned();
    let finished = Launch::program("sh", [OsStr::new("-c"), &order.script], root)
        .workspace(layer.workspace())
        .run(&(Arc::new(SystemClock) as _))
        .await?;
    assert_eq!(finished.ended, wink_sandbox::Ended::Exited(0));
    layer.finish().await?;
    change(&mut dice, &*files, &order.there).await;
    *order.reached.lock().unwrap() = true;
    match order.end {
        End::Failed => return Ok(ToolResult::error("as asked")),
        End::Error => return Err(ToolError::new("as asked")),
        End::Panic => panic!("as asked"),
        End::Refused => order.store.fail(StoreOp::Commit, 1),
        _ => {}
    }
    Ok(ToolResult::done("done"))
}

struct World {
    dir: tempfile::TempDir,
    files: Arc<HostFilesystem>,
    clock: FakeClock,
    store: Arc<FaultyStore>,
    reached: Arc<Mutex<bool>>,
    executor: Executor,
}

impl World {
    fn root(&self) -> PathBuf {
        self.dir.path().join("workspace")
    }

    fn fifo(&self) -> PathBuf {
        self.dir.path().join("fifo")
    }
}

async fn world(seed: u64, capture: Option<Capture>) -> World {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("workspace");
    fs::create_dir(&root).unwrap();
    grow(&mut Dice::new(seed), &root);
    // Scripts change whatever they like, repositories too.
    let options = HostOptions { capture, guard: PathGuard::none(), ..HostOptions::default() };
    let files = Arc::new(HostFilesystem::open(&root, options).unwrap());
    let clock = FakeClock::new(SystemClock.now());
    let store = Arc::new(FaultyStore::new(Arc::new(ByteStore::new())));
    let session =
        Session::builder().store(store.clone()).clock(Arc::new(clock.clone())).open().await.unwrap();
    let section = Section::markdown("work", "Work")
        .body("Work.")
        .tool(mess_tool().timeout(Duration::from_secs(60)))
        .resource(Binding::filesystem(files.clone()))
        .resource(Binding::instance(Arc::new(Orders::default())));
    let prompt = PromptTemplate::builder("tests", "rollback").section(section).build().unwrap().prompt();
    let executor = Executor::open(&prompt, &session).await.unwrap();
    World { dir, files, clock, store, reached: Arc::default(), executor }
}

impl World {
    async fn call(&self, seed: u64, end: End) -> Option<Outcome> {
        let mut dice = Dice::new(seed ^ 0xca11);
        let there = paths(&dump(&self.root()));
        let mut script = script(&mut dice, &there).into_vec();
        match end {
            End::Special => {
                script.truncate(script.len() - b"exit 0\n".len());
                script.extend_from_slice(b"mkfifo pipe; test -p pipe\n");
            }
            End::Timeout | End::Dropped => {
                let wait = format!("echo begun > {}\nsleep 1000\n", self.fifo().display());
                script.truncate(script.len() - b"exit 0\n".len());
                script.extend_from_slice(wait.as_bytes());
            }
            _ => {}
        }
        let (store, reached) = (self.store.clone(), Arc::clone(&self.reached));
        let order = Order { seed, there, end, script: OsString::from_vec(script), store, reached };
        let orders = self.executor.resources().get::<Orders>().await.unwrap();
        *orders.0.lock().unwrap() = Some(order);
        let call = self.executor.call(ToolCall::new("call", "mess", json!({}).to_string()));
        if !matches!(end, End::Timeout | End::Dropped) {
            return Some(call.await);
        }
        let made = Process::new("mkfifo").arg(self.fifo()).status().unwrap();
        assert!(made.success());
        // On a thread of its own: one of the runtime's would keep a test that has failed from ending.
        let (fifo, (sender, begun)) = (self.fifo(), tokio::sync::oneshot::channel());
        std::thread::spawn(move || sender.send(fs::read(fifo).unwrap()));
        let mut call = Box::pin(call);
        tokio::select! {
            outcome = &mut call => panic!("it ended: {}", outcome.text()),
            begun = begun => assert_eq!(begun.unwrap(), b"begun\n"),
        }
        match end {
            End::Timeout => {
                self.clock.advance(Duration::from_secs(1_000_000));
                Some(call.await)
            }
            _ => {
                drop(call);
                None
            }
        }
    }
}

/// Whether overlays can be tried; where they cannot, that is a failure, or said aloud.
fn overlay_works() -> bool {
    let able = Capabilities::detect();
    if able.overlay.is_none() {
        leave_out("commands on an overlay", &able.why_no_overlay);
    }
    able.overlay.is_some()
}

/// The usual seeds, and a fifth as many that nobody has tried; or those that the environment names. Each is told, which is seen where
/// a test fails.
fn cases(usual: u64) -> impl Iterator<Item = u64> {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (first, count) = (number("WINK_ROLLBACK_SEED"), number("WINK_ROLLBACK_CASES").unwrap_or(usual));
    let new = if first.is_some() { 0 } else { count.div_ceil(5) };
    let mut dice = Dice::new(std::hash::RandomState::new().hash_one("seeds"));
    let first = first.unwrap_or(0);
    // Small enough to be typed, and not to overflow where one is added to it.
    let new = (0..new).map(move |_| dice.any() % 1_000_000_000);
    (first..first + count).chain(new).inspect(|seed| println!("seed {seed}"))
}

/// How a call of each kind is recorded, and what its answer says.
fn expected(end: End) -> (Ending, &'static str) {
    match end {
        End::Failed => (Ending::Failed, "as asked"),
        End::Error => (Ending::Errored, "as asked"),
        End::Panic => (Ending::Panicked, "panicked"),
        End::Refused => (Ending::NotCommitted, "commit"),
        End::Timeout => (Ending::TimedOut, "took longer than 60s"),
        End::Dropped => (Ending::Cancelled, ""),
        End::Special => (Ending::Errored, "pipe"),
    }
}

async fn rollback_equals_before(capture: Capture) {
    for seed in cases(100) {
        let end = FAILURES[(seed % FAILURES.len() as u64) as usize];
        let world = world(seed, Some(capture)).await;
        let before = dump(&world.root());
        let outcome = world.call(seed, end).await;
        let (ending, part) = expected(end);
        match outcome {
            Some(outcome) => {
                let text = outcome.text();
                assert_eq!(outcome.event.ending, ending, "seed {seed}, {end:?}: {text}");
                assert!(text.contains(part), "seed {seed}, {end:?}: {text}");
            }
            None => {
                // What is dropped is rolled back before the next call begins.
                let next = world.call(seed + 1, End::Failed).await.unwrap();
                assert_eq!(next.event.ending, Ending::Failed, "seed {seed}: {}", next.text());
            }
        }
        let first = world.executor.session().slice::<ToolInvoked>().iter().next().unwrap().ending;
        assert_eq!(first, ending, "seed {seed}, {end:?}");
        if end == End::Panic {
            assert!(*world.reached.lock().unwrap(), "seed {seed}: it panicked before");
        }
        let differences = differences(&before, &dump(&world.root()));
        assert!(differences.is_empty(), "seed {seed}, {end:?}, {capture}:\n{}", differences.join("\n"));
        nothing_left(&world, &format!("seed {seed}, {end:?}, {capture}"));
    }
}

/// Only the trash may have something.
fn nothing_left(world: &World, what: &str) {
    let state = world.root().join(".wink");
    for dir in ["layers", "baseline/moved"] {
        let left = fs::read_dir(state.join(dir)).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{what}: something is left in {dir}");
    }
    assert!(!state.join("baseline/begun").exists());
    let stages: Vec<_> =
        fs::read_dir(state.join("stage")).unwrap().map(|entry| entry.unwrap().path()).collect();
    for stage in stages {
        let left: Vec<_> = dump(&stage).into_iter().skip(1).collect();
        assert!(left.is_empty(), "{what}: {left:?} is left in the stage");
    }
}

// case 92
#[tokio::test]
async fn rollback_equals_before_with_an_overlay() {
    if overlay_works() {
        rollback_equals_before(Capture::Overlay).await;
    }
}

// case 92
#[tokio::test]
async fn rollback_equals_before_with_a_scan() {
    rollback_equals_before(Capture::Scan).await;
}

/// What the script leaves on an overlay over `plain` that `mount` makes.
fn on_a_plain_overlay(dir: &Path, script: &OsStr) -> PathBuf {
    for name in ["upper", "work", "merged"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    // Who is the superuser there only has no more rights over files than before.
    let (rights, marks, run) = match Capabilities::detect().overlay {
        Some(OverlayKind::User) => ("-Urm", "userxattr", "setpriv --bounding-set=-all --inh-caps=-all sh"),
        _ => ("-m", "redirect_dir=on,metacopy=off", "sh"),
    };
    let options = format!("{marks},lowerdir=plain,upperdir=upper,workdir=work");
    // What is seen there is seen there only. The upper directory is what the root is seen to be.
    let all = format!(
        "set -e; chmod --reference=plain upper; mount -t overlay -o \"$1\" overlay merged; cd merged; {run} -c \"$2\"; \
         cp -a . ../seen"
    );
    let ran = Process::new("unshare")
        .args([rights, "sh", "-c", &all, "sh", &options])
        .arg(script)
        .current_dir(dir)
        .output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    dir.join("seen")
}

/// A call that succeeds leaves what the same script leaves in a copy of the workspace, but for times.
async fn success_equals_a_plain_run(capture: Capture) {
    for seed in cases(40) {
        let world = world(seed, Some(capture)).await;
        let plain = world.dir.path().join("plain");
        let copied = Process::new("cp").arg("-a").arg(world.root()).arg(&plain).status().unwrap();
        assert!(copied.success());
        fs::remove_dir_all(plain.join(".wink")).unwrap();
        let before = dump(&plain);
        let script = script(&mut Dice::new(seed), &paths(&before));
        let has_names = before.values().any(|about| about.kind == "f" && about.links != "1");
        let plain = if capture == Capture::Overlay && has_names {
            // What is written through one name is not seen through the others on an overlay: they are copied up apart.
            on_a_plain_overlay(world.dir.path(), &script)
        } else {
            let ran = Process::new("sh").arg("-c").arg(&script).current_dir(&plain).status().unwrap();
            assert!(ran.success());
            plain
        };
        let fork = world.files.fork().unwrap();
        let layer = HostLayers.layer(&fork).await.unwrap();
        let ran =
            Launch::program("sh", [OsStr::new("-c"), &script], world.root()).workspace(layer.workspace());
        let _ = ran.run(&(Arc::new(SystemClock) as _)).await.unwrap();
        layer.finish().await.unwrap();
        let receipt = world.files.merge(&*fork).unwrap();
        drop(fork);
        world.files.keep(receipt);
        let strip = |mut dump: Dump| {
            for about in dump.values_mut() {
                about.modified = String::new();
                if capture == Capture::Overlay || about.kind == "l" {
                    // Names of one file become files of their own on an overlay, and names of one link everywhere.
                    (about.links, about.group) = (String::new(), Vec::new());
                }
            }
            dump
        };
        let differences = differences(&strip(dump(&plain)), &strip(dump(&world.root())));
        assert!(
            differences.is_empty(),
            "seed {seed}, {capture}: {}\n{}",
            String::from_utf8_lossy(script.as_bytes()),
            differences.join("\n")
        );
        nothing_left(&world, &format!("seed {seed}, {capture}"));
        let trash = dump(&world.root().join(".wink/trash"));
        let left: Vec<_> =
            trash.keys().filter(|path| !path.is_empty()).map(|path| OsStr::from_bytes(path)).collect();
        assert!(left.is_empty(), "seed {seed}: {left:?} is in the trash after a success: {script:?}");
    }
}

#[tokio::test]
async fn success_equals_a_plain_run_with_an_overlay() {
    if overlay_works() {
        success_equals_a_plain_run(Capture::Overlay).await;
    }
}

#[tokio::test]
async fn success_equals_a_plain_run_with_a_scan() {
    success_equals_a_plain_run(Capture::Scan).await;
}

#[tokio::test]
async fn an_overlay_is_used_wherever_it_works() {
    let world = world(1, None).await;
    let (capture, finding) = capture_of(&world.files).unwrap();
    println!("{}: {} ({})", finding.what, finding.found, finding.how);
    let expected = if overlay_works() { Capture::Overlay } else { Capture::Scan };
    assert_eq!(capture, expected, "{}", finding.found);
    let fork = world.files.fork().unwrap();
    let layer = HostLayers.layer(&fork).await.unwrap();
    let is_overlay = matches!(layer.workspace(), wink_sandbox::WorkspaceView::Overlay(_));
    assert_eq!(is_overlay, expected == Capture::Overlay);
}

/// A copy of a workspace at every moment at which a process may die there is one that a dead process left.
#[tokio::test]
async fn a_death_at_any_step_of_a_scan_is_undone() {
    for seed in cases(4) {
        let world = world(seed, Some(Capture::Scan)).await;
        let before = dump(&world.root());
        let mut dice = Dice::new(seed);
        let there = paths(&before);
        let fork = world.files.fork().unwrap();
        change(&mut dice, &*fork, &there).await;
        let script = script(&mut dice, &there);

        let copies = Arc::new(Mutex::new(Vec::new()));
        let (root, dir, me) = (world.root(), world.dir.path().to_owned(), std::thread::current().id());
        let made = Arc::clone(&copies);
        steps::on_every_step(move |step| {
            if step.starts_with("scan.") && std::thread::current().id() == me {
                let mut made = made.lock().unwrap();
                let copy = dir.join(format!("copy{}", made.len()));
                let copied = Process::new("cp").arg("-a").arg(&root).arg(&copy).status().unwrap();
                assert!(copied.success());
                made.push((step, copy));
            }
        });
        let layer = HostFilesystem::of(&*fork).unwrap().command_layer_by(Capture::Scan).unwrap();
        let workspace = wink_sandbox::WorkspaceView::Direct {
            root: world.root(),
            state_name: Some(layer.state_name().to_owned()),
            record: layer.record(),
        };
        let command = Launch::program("sh", [OsStr::new("-c"), &script], world.root()).workspace(workspace);
        let _ = command.run(&(Arc::new(SystemClock) as _)).await.unwrap();
        if dice.below(2) == 0 {
            layer.finish().unwrap();
        } else {
            drop(layer);
        }
        steps::stop_listening();

        assert_eq!(differences(&before, &dump(&world.root())), [""; 0], "seed {seed}");
        let copies = std::mem::take(&mut *copies.lock().unwrap());
        for needed in ["scan.begun", "scan.compared", "scan.brought-back", "scan.over"] {
            assert!(copies.iter().any(|(step, _)| *step == needed), "seed {seed}: {needed}");
        }
        for (step, copy) in copies {
            let had_begun = copy.join(".wink/baseline/begun").exists();
            let files = HostFilesystem::open(&copy, HostOptions::default()).unwrap();
            let differences = differences(&before, &dump(&copy));
            assert!(differences.is_empty(), "seed {seed}, {step}:\n{}", differences.join("\n"));
            assert_eq!(files.recovered().unwrap().trash.len(), usize::from(had_begun), "seed {seed}, {step}");
        }
    }
}

/// What somebody else writes while a command runs is kept: in place with an overlay, in the trash with a scan.
async fn somebody_elses_edit(capture: Capture) {
    let world = world(2, Some(capture)).await;
    let root = world.root();
    fs::write(root.join("theirs"), "old").unwrap();
    let there = Vec::new();
    let elsewhere = root.display();
    // Not seen by the command through an overlay: it is written where the workspace itself is.
    let written = world.dir.path().join("written");
    let script = format!(
        "echo mine > mine; echo begun > {}; while ! test -e {}; do sleep 0.01; done; cat theirs > seen",
        world.fifo().display(),
        written.display()
    );
    let (store, reached) = (world.store.clone(), Arc::clone(&world.reached));
    let order = Order { seed: 0, there, end: End::Failed, script: script.into(), store, reached };
    let orders = world.executor.resources().get::<Orders>().await.unwrap();
    *orders.0.lock().unwrap() = Some(order);
    assert!(Process::new("mkfifo").arg(world.fifo()).status().unwrap().success(), "{elsewhere}");
    let (fifo, theirs) = (world.fifo(), root.join("theirs"));
    let (sender, edited) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        assert_eq!(fs::read(fifo).unwrap(), b"begun\n");
        fs::write(theirs, "by somebody else").unwrap();
        fs::write(written, "").unwrap();
        sender.send(()).unwrap();
    });
    let outcome = world.executor.call(ToolCall::new("call", "mess", json!({}).to_string())).await;
    assert!(!outcome.is_success(), "{}", outcome.text());
    let edited = edited.recv_timeout(Duration::from_secs(60));
    edited.unwrap_or_else(|_| panic!("it never began: {}", outcome.text()));
    let kept = match capture {
        Capture::Overlay => root.join("theirs"),
        Capture::Scan => {
            assert_eq!(fs::read_to_string(root.join("theirs")).unwrap(), "old");
            let mut trash = fs::read_dir(root.join(".wink/trash")).unwrap();
            trash.next().unwrap().unwrap().path().join("theirs")
        }
    };
    assert_eq!(fs::read_to_string(&kept).unwrap(), "by somebody else");
    assert!(!root.join("mine").exists() && !root.join("seen").exists());
    // The operator is told where it is.
    let told: Vec<_> =
        world.files.take_report().trash.iter().map(|trash| root.join(trash).join("theirs")).collect();
    match capture {
        Capture::Overlay => assert_eq!(told, [] as [PathBuf; 0]),
        Capture::Scan => assert_eq!(told, [kept]),
    }
}

#[tokio::test]
async fn what_somebody_else_writes_meanwhile_is_kept_with_an_overlay() {
    if overlay_works() {
        somebody_elses_edit(Capture::Overlay).await;
    }
}

#[tokio::test]
async fn what_somebody_else_writes_meanwhile_is_in_the_trash_with_a_scan() {
    somebody_elses_edit(Capture::Scan).await;
}
