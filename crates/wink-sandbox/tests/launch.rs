//! Launching: streams, limits, and that nothing is left of a command.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wink::limits::{CancelToken, Clock, SystemClock};
use wink::testing::{FakeClock, leave_out};
use wink_sandbox::{
    Capabilities, Ended, Finished, Launch, LaunchError, Mounts, OverlayDirs, OverlayKind, Tree, WorkspaceView,
};

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

const TREES: [Tree; 2] = [Tree::Best, Tree::Reaper];

async fn run(launch: Launch) -> Finished {
    launch.run(&clock()).await.unwrap()
}

fn out(finished: &Finished) -> String {
    finished.stdout.text(1_000_000).0
}

/// Whether a process has this text among its arguments. Each test has its own text.
fn is_running(mark: &str) -> bool {
    count_running(mark) > 0
}

fn count_running(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let command_lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    command_lines.filter(|line| String::from_utf8_lossy(line).contains(mark)).count()
}

/// Children that are dead and not taken note of. Those of other tests may be, for a moment.
fn zombies() -> Vec<String> {
    let mut left = dead_children();
    for _ in 0..10_000 {
        let now = dead_children();
        left.retain(|child| now.contains(child));
        if left.is_empty() {
            break;
        }
        std::thread::yield_now();
    }
    left
}

fn dead_children() -> Vec<String> {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
    stats
        .filter(|stat| {
            let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
            fields[0] == "Z" && fields[1] == own
        })
        .collect()
}

#[tokio::test]
async fn it_runs_and_says_how_it_ended() {
    let dir = tempfile::tempdir().unwrap();
    for tree in TREES {
        let shell = |text: &str| Launch::shell(text, dir.path()).tree(tree);
        let finished = run(shell("echo out; echo err >&2; exit 7")).await;
        assert_eq!(finished.ended, Ended::Exited(7));
        assert_eq!((out(&finished), finished.stderr.text(100).0), ("out\n".to_owned(), "err\n".to_owned()));
        assert_eq!(run(shell("kill -TERM $$")).await.ended, Ended::Signalled(15));
        assert_eq!(run(shell("kill -KILL $$")).await.ended.code(), 137);
        let finished = run(Launch::program("printf", ["%s|", "a b", "$HOME"], dir.path()).tree(tree)).await;
        assert_eq!(out(&finished), "a b|$HOME|");
    }
    assert_eq!(zombies(), Vec::<String>::new());
}

#[tokio::test]
async fn it_begins_where_it_was_told_to() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
    std::os::unix::fs::symlink("/etc", dir.path().join("out")).unwrap();
    std::os::unix::fs::symlink("a", dir.path().join("in")).unwrap();
    let here = dir.path().canonicalize().unwrap();
    let pwd = |cwd: &str| Launch::program("pwd", ["-P"], &here).cwd(cwd);
    assert_eq!(out(&run(pwd("")).await), format!("{}\n", here.display()));
    assert_eq!(out(&run(pwd("a/b")).await), format!("{}/a/b\n", here.display()));
    assert_eq!(out(&run(pwd("in/b")).await), format!("{}/a/b\n", here.display()));
    for outside in ["..", "/etc", "out", "a/../..", "missing"] {
        let error = pwd(outside).run(&clock()).await.unwrap_err();
        assert!(matches!(&error, LaunchError::Cwd { cwd, .. } if cwd == outside), "{outside}: {error}");
    }
}

#[tokio::test]
async fn it_is_given_an_environment_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut marks = Vec::new();
    for tree in [Tree::Best, Tree::Reaper, Tree::Reaper] {
        let launch =
            Launch::program("env", [""; 0], dir.path()).env("ONE", "1 = one").env("WINK_COMMAND", "theirs");
        let finished = run(launch.tree(tree)).await;
        let mut lines: Vec<_> = out(&finished).lines().map(str::to_owned).collect();
        lines.sort();
        // Without a process namespace, that is what it is known by.
        marks.extend(lines.pop().filter(|_| tree == Tree::Reaper));
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        assert_eq!(lines, ["HUSKY=0", "LANG=C.UTF-8", "ONE=1 = one", path], "{tree:?}");
    }
    assert!(
        marks.iter().all(|mark| mark.starts_with("WINK_COMMAND=") && !mark.ends_with("theirs")),
        "{marks:?}"
    );
    assert_ne!(marks.first(), marks.last());
    let inherited = run(Launch::shell("echo $CARGO_PKG_NAME", dir.path()).inherit("CARGO_PKG_NAME")).await;
    assert_eq!(out(&inherited), "wink-sandbox\n");
    let all = run(Launch::shell("echo $CARGO_PKG_NAME", dir.path()).inherit_all()).await;
    assert_eq!(out(&all), "wink-sandbox\n");
}

#[tokio::test]
async fn it_reads_what_it_is_given() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(out(&run(Launch::shell("wc -c", dir.path())).await).trim(), "0");
    let large = vec![b'x'; 1_000_000];
    assert_eq!(out(&run(Launch::shell("wc -c", dir.path()).stdin(large.clone())).await).trim(), "1000000");
    // Whoever does not read it does not have to.
    assert_eq!(run(Launch::shell("exit 3", dir.path()).stdin(large)).await.ended, Ended::Exited(3));
}

#[tokio::test]
async fn what_it_says_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let flood = "head -c 3000000 /dev/zero | tr '\\0' o; head -c 2000000 /dev/zero | tr '\\0' e >&2";
    let finished = run(Launch::shell(flood, dir.path()).keep_output(1000)).await;
    assert_eq!((finished.stdout.bytes().len(), finished.stdout.total()), (1000, 3_000_000));
    assert_eq!((finished.stderr.bytes().len(), finished.stderr.total()), (1000, 2_000_000));
    assert_eq!(finished.ended, Ended::Exited(0));
}

#[tokio::test]
async fn what_cannot_be_run_is_said() {
    let dir = tempfile::tempdir().unwrap();
    for tree in TREES {
        let missing = Launch::program("no-such-program", [""; 0], dir.path()).tree(tree).run(&clock()).await;
        assert!(
            matches!(&missing, Err(LaunchError::Program { program, .. }) if program == "no-such-program")
        );
        let directory = Launch::program("/etc", [""; 0], dir.path()).tree(tree).run(&clock()).await;
        assert!(matches!(directory, Err(LaunchError::Program { .. })));
        let zero = Launch::program("true", ["a\0b"], dir.path()).tree(tree).run(&clock()).await;
        assert!(matches!(zero, Err(LaunchError::Zero { .. })));
    }
}

// case 176
#[tokio::test]
async fn nothing_is_left_after_a_timeout() {
    let dir = tempfile::tempdir().unwrap();
    for tree in TREES {
        let mark = format!("wink-timeout-{tree:?}-{}", std::process::id());
        // The time that counts is the clock's, which stands still until everything runs.
        let fake = Arc::new(FakeClock::new(SystemClock.now()));
        let clock: Arc<dyn Clock> = fake.clone();
        let limit = Duration::from_secs(100);
        let flag = dir.path().join(format!("{tree:?}"));
        let text = escaping(&mark).replace("echo ready;", &format!("echo ready; touch {};", flag.display()));
        let launch = Launch::shell(text, dir.path()).tree(tree).time_limit(limit);
        let (finished, ()) = tokio::join!(launch.run(&clock), async {
            appears(&flag).await;
            assert!(is_running(&mark));
            fake.advance(limit);
        });
        let finished = finished.unwrap();
        assert_eq!((finished.ended, finished.ended.code()), (Ended::TimedOut, 124));
        assert_eq!(finished.duration, limit);
        assert_eq!(out(&finished), "ready\n");
        assert!(!is_running(&mark), "{tree:?}");
    }
    assert_eq!(zombies(), Vec::<String>::new());
}

/// A child, one in the background, one with a session of its own, and one that was forked twice.
fn escaping(mark: &str) -> String {
    let sleep = format!("sh -c 'sleep 1000; : {mark}'");
    format!(
        "{sleep} & setsid {sleep} & (setsid {sleep} </dev/null >/dev/null 2>&1 &) ; nohup {sleep} >/dev/null 2>&1 & echo ready; trap '' TERM HUP INT; {sleep}"
    )
}

#[tokio::test]
async fn nothing_outlives_the_command() {
    let dir = tempfile::tempdir().unwrap();
    for tree in TREES {
        let mark = format!("wink-outlives-{tree:?}-{}", std::process::id());
        // It has the streams open, and would hold them for a long time.
        let text = format!(
            "(setsid sh -c 'sleep 1000; : {mark}' &) ; sh -c 'sleep 1000; : {mark}' & echo done; exit 5"
        );
        let finished = run(Launch::shell(text, dir.path()).tree(tree)).await;
        assert_eq!((finished.ended, out(&finished)), (Ended::Exited(5), "done\n".to_owned()));
        assert!(!is_running(&mark), "{tree:?}");
    }
}

#[tokio::test]
async fn what_it_sends_to_its_group_reaches_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    for tree in TREES {
        let finished = run(Launch::shell("kill -9 0", dir.path()).tree(tree)).await;
        assert_eq!(finished.ended, Ended::Signalled(9), "{tree:?}");
    }
}

#[tokio::test]
async fn it_can_be_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    for tree in TREES {
        let mark = format!("wink-cancelled-{tree:?}-{}", std::process::id());
        let token = CancelToken::new();
        let flag = dir.path().join(format!("{tree:?}"));
        let text = format!("touch {}; {}", flag.display(), escaping(&mark));
        let launch = Launch::shell(text, dir.path()).tree(tree).cancelled_by(token.clone());
        let clock = clock();
        let (finished, ()) = tokio::join!(launch.run(&clock), async {
            appears(&flag).await;
            token.cancel();
            // It is polled again and again before it is over.
            while is_running(&mark) {
                tokio::task::yield_now().await;
            }
        });
        assert_eq!(finished.unwrap().ended, Ended::Cancelled);
        assert!(!is_running(&mark), "{tree:?}");
    }
}

#[tokio::test]
async fn dropping_it_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    for tree in TREES {
        let mark = format!("wink-dropped-{tree:?}-{}", std::process::id());
        let flag = dir.path().join(format!("{tree:?}"));
        let text = format!("touch {}; {}", flag.display(), escaping(&mark));
        let launch = Launch::shell(text, dir.path()).tree(tree);
        let running = tokio::spawn(async move { launch.run(&clock()).await });
        appears(&flag).await;
        assert!(is_running(&mark));
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        assert!(!is_running(&mark), "{tree:?}");
    }
    assert_eq!(zombies(), Vec::<String>::new());
}

/// Locks die with their owner: no process of a command keeps a descriptor of this program, init included.
#[tokio::test]
async fn it_keeps_nothing_of_the_program_open() {
    let dir = tempfile::tempdir().unwrap();
    for tree in TREES {
        let path = dir.path().join(format!("lock-{tree:?}"));
        let flag = dir.path().join(format!("{tree:?}"));
        let locked = std::fs::File::create(&path).unwrap();
        locked.lock().unwrap();
        let token = CancelToken::new();
        let text = format!("ls /proc/self/fd | wc -l; touch {}; sleep 1000", flag.display());
        let launch = Launch::shell(text, dir.path()).tree(tree).cancelled_by(token.clone());
        let running = tokio::spawn(async move { launch.run(&clock()).await });
        appears(&flag).await;
        drop(locked);
        // A process that another test is just starting has everything of this program, for a moment.
        let free = async {
            while std::fs::File::open(&path).unwrap().try_lock().is_err() {
                tokio::task::yield_now().await;
            }
        };
        let time = SystemClock;
        let late = time.sleep_until(time.monotonic() + Duration::from_secs(20));
        let is_free = tokio::select! { () = free => true, () = late => false };
        token.cancel();
        let finished = running.await.unwrap().unwrap();
        assert!(is_free, "{tree:?}");
        // The three streams, and the directory that is listed.
        assert_eq!(out(&finished).trim(), "4");
    }
}

async fn appears(path: &Path) {
    while !path.exists() {
        tokio::task::yield_now().await;
    }
}

/// Runs a command until it is killed. A test only by its looks: the next one runs it in a process of its own.
#[tokio::test]
async fn a_program_that_will_die() {
    let Ok(mark) = std::env::var("WINK_TEST_MARK") else { return };
    let tree = if mark.contains("Best") { Tree::Best } else { Tree::Reaper };
    run(Launch::shell(escaping(&mark), "/").tree(tree)).await;
}

#[test]
fn nothing_outlives_the_program() {
    for tree in TREES {
        let mark = format!("wink-orphan-{tree:?}-{}", std::process::id());
        let mut program = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_program_that_will_die"])
            .env("WINK_TEST_MARK", &mark)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Until all five are there; the first is the shell that starts them.
        while count_running(&mark) < 6 {
            std::thread::yield_now();
        }
        program.kill().unwrap();
        program.wait().unwrap();
        // The kernel tells them, in its own time. If it did not, this would go on for ever.
        while is_running(&mark) {
            std::thread::yield_now();
        }
    }
}

#[test]
fn it_needs_no_runtime_with_anything_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let finished = runtime.block_on(run(Launch::shell("echo hi", dir.path())));
    assert_eq!(out(&finished), "hi\n");
}

fn layers(root: &Path, lower: &Path) -> OverlayDirs {
    let dir = |name: &str| {
        let dir = root.join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    };
    let user_xattr = Capabilities::detect().overlay == Some(OverlayKind::User);
    let (upper, work) = (dir("upper"), dir("work"));
    OverlayDirs { lower: lower.to_owned(), upper, work, state_name: ".wink", user_xattr }
}

#[tokio::test]
async fn on_an_overlay_the_workspace_is_not_touched() {
    if Capabilities::detect().overlay.is_none() {
        return leave_out("a command on an overlay", &Capabilities::detect().why_no_overlay);
    }
    // A path that no list of options could hold as it is.
    let dir = tempfile::Builder::new().prefix("a,b:c\\d ").tempdir().unwrap();
    let workspace = dir.path().join("work space");
    std::fs::create_dir_all(workspace.join(".wink/layers/1")).unwrap();
    std::fs::create_dir_all(workspace.join("dir")).unwrap();
    std::fs::write(workspace.join("kept"), "old").unwrap();
    std::fs::write(workspace.join("gone"), "old").unwrap();
    std::fs::write(workspace.join(".wink/secret"), "state").unwrap();
    let dirs = layers(&workspace.join(".wink/layers/1"), &workspace);
    for tree in TREES {
        let text = "set -e; pwd; ls -A .wink; cat kept; echo new > kept; rm -f gone; mkdir -p made; touch made/file; \
                    ! touch .wink/x 2>/dev/null; mv .wink elsewhere 2>/dev/null || echo stays";
        let launch = Launch::shell(text, &workspace).overlay(dirs.clone()).tree(tree);
        let finished = run(launch).await;
        let second = if tree == Tree::Best { "old" } else { "new\n" };
        let expected = format!("{}\n{second}stays\n", workspace.display());
        assert_eq!(
            (finished.ended, out(&finished)),
            (Ended::Exited(0), expected),
            "{}",
            finished.stderr.text(999).0
        );
    }
    assert_eq!(std::fs::read_to_string(workspace.join("kept")).unwrap(), "old");
    assert!(workspace.join("gone").exists() && !workspace.join("made").exists());
    assert_eq!(std::fs::read_to_string(dirs.upper.join("kept")).unwrap(), "new\n");
    assert!(dirs.upper.join("made/file").exists());
    let root = rustix_is_root();
    let kind = Capabilities::detect().overlay.unwrap();
    assert_eq!(kind, if root { OverlayKind::Trusted } else { OverlayKind::User });
    if root {
        let renamed = Launch::shell("mv dir moved", &workspace).overlay(dirs.clone());
        assert_eq!(run(renamed).await.ended, Ended::Exited(0));
    }
}

/// What hides the state directory, and the overlay itself, stay: for the superuser, too.
#[tokio::test]
async fn what_hides_the_state_directory_cannot_be_unmounted() {
    let able = Capabilities::detect();
    if !able.hides_state() || able.overlay.is_none() {
        return leave_out("hiding the state directory", &able.report().to_string());
    }
    for overlaid in [false, true] {
        for tree in TREES {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            std::fs::create_dir_all(root.join(".wink/layers/1")).unwrap();
            std::fs::write(root.join(".wink/secret"), "state").unwrap();
            let workspace = if overlaid {
                WorkspaceView::Overlay(layers(&root.join(".wink/layers/1"), &root))
            } else {
                WorkspaceView::Direct {
                    root: root.clone(),
                    state_name: Some(".wink".to_owned()),
                    record: None,
                }
            };
            // Also from a place that was mounted anew, and in namespaces of its own.
            let tries = "umount .wink; umount -l .wink; cat .wink/secret; echo x > .wink/y; \
                mkdir again; mount --bind . again; cat again/.wink/secret; echo x > again/.wink/y; \
                mount -o remount,rw .wink; echo x > .wink/y; cd /; umount -l \"$ROOT\"; cat \"$ROOT/.wink/secret\"; \
                echo x > \"$ROOT/.wink/y\"";
            let text =
                format!("exec 2>/dev/null; {tries}; cd \"$ROOT\"; unshare -Urm sh -c '{tries}'; exit 0");
            let launch = Launch::shell(text, &root).workspace(workspace).env("ROOT", &root).tree(tree);
            let finished = run(launch).await;
            assert_eq!(
                (out(&finished).as_str(), finished.ended),
                ("", Ended::Exited(0)),
                "{tree:?}, {overlaid}"
            );
            let mut left: Vec<_> = std::fs::read_dir(root.join(".wink"))
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            left.sort();
            assert_eq!(left, ["layers", "secret"], "{tree:?}, overlaid: {overlaid}");
            assert_eq!(
                root.join("again").exists(),
                !overlaid,
                "what it does in the workspace itself is done"
            );
        }
    }
}

/// Who has to can be given the right to.
#[tokio::test]
async fn the_right_to_mount_can_be_given() {
    if !rustix_is_root() {
        // Nobody else has it to begin with.
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(".wink")).unwrap();
    let workspace = WorkspaceView::Direct {
        root: dir.path().to_owned(),
        state_name: Some(".wink".to_owned()),
        record: None,
    };
    let mounts = |mounts| {
        let text = "mkdir -p m; mount -t tmpfs tmpfs m 2>/dev/null && echo mounted";
        run(Launch::shell(text, dir.path()).workspace(workspace.clone()).mounts(mounts))
    };
    assert_eq!(out(&mounts(Mounts::Fixed).await), "");
    assert_eq!(out(&mounts(Mounts::Free).await), "mounted\n");
}

fn rustix_is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t0")
}

/// Seals itself and tries everything. A test only by its looks: the next one runs it in a process of its own.
#[test]
fn a_process_that_is_sealed() {
    use std::io::ErrorKind;
    if std::env::var_os("WINK_TEST_SEALED").is_none() {
        return;
    }
    let sealed = std::thread::spawn(|| {
        let sealed = wink_sandbox::seal().unwrap();
        let refused = |what: &str, tried: std::io::Result<()>| {
            assert_eq!(tried.map_err(|error| error.kind()), Err(ErrorKind::PermissionDenied), "{what}");
        };
        refused("reading", std::fs::read("/etc/passwd").map(drop));
        refused("reading itself", std::fs::read("/proc/self/environ").map(drop));
        refused("listing", std::fs::read_dir("/").map(drop));
        refused("writing", std::fs::write("/tmp/wink-sealed", ""));
        refused("removing", std::fs::remove_file("/tmp/wink-sealed"));
        refused("making a directory", std::fs::create_dir("/tmp/wink-sealed"));
        refused("connecting", std::net::TcpStream::connect("127.0.0.1:1").map(drop));
        refused("sending", std::net::UdpSocket::bind("127.0.0.1:0").map(drop));
        refused("a local socket", std::os::unix::net::UnixStream::pair().map(drop));
        refused("a process", std::process::Command::new("true").status().map(drop));
        // What it may: memory, time, threads, and what it has open.
        let computed = std::thread::spawn(|| (0..1000_u64).collect::<Vec<_>>().iter().sum::<u64>());
        assert_eq!(computed.join().unwrap(), 499_500);
        sealed
    });
    let sealed = sealed.join().unwrap();
    println!("sealed, Landlock: {}", sealed.landlock.is_some());
}

#[test]
fn a_process_can_be_sealed() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_process_that_is_sealed", "--nocapture", "--test-threads", "1"])
        .env("WINK_TEST_SEALED", "1")
        .output()
        .unwrap();
    let (said, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}{told}");
    let expected = format!("sealed, Landlock: {}", Capabilities::detect().landlock.is_some());
    assert!(said.contains(&expected), "{said}{told}");
}

/// What a process does in a process namespace whose `/proc` is that of another. A test only by its looks: the next one runs it there.
#[tokio::test]
async fn a_program_with_a_foreign_proc() {
    let Some(place) = std::env::var_os("WINK_TEST_FOREIGN_PROC") else { return };
    let launch = Launch::shell("touch ran", PathBuf::from(&place)).tree(Tree::Reaper);
    let refused = launch.run(&clock()).await.unwrap_err();
    assert!(matches!(refused, LaunchError::ForeignProc(_)), "{refused}");
    assert!(refused.to_string().contains("/proc is that of another process namespace"), "{refused}");
    assert!(!Path::new(&place).join("ran").exists());
}

#[test]
fn where_proc_is_that_of_another_process_namespace_nothing_is_run() {
    let dir = tempfile::tempdir().unwrap();
    let unshare = || {
        let mut unshare = std::process::Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child"]);
        unshare
    };
    if !unshare().arg("true").status().is_ok_and(|status| status.success()) {
        return leave_out("a foreign /proc", "no process namespace can be made here");
    }
    let inside = unshare()
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "a_program_with_a_foreign_proc", "--nocapture"])
        .env("WINK_TEST_FOREIGN_PROC", dir.path())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&inside.stdout);
    assert!(
        inside.status.success() && told.contains("1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&inside.stderr)
    );
}

/// Whoever kills the process that keeps a command together: it ran, and is lost.
#[tokio::test]
async fn a_command_whose_keeper_was_killed_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let launch = Launch::shell("kill -9 $PPID; while :; do sleep 1; done", dir.path()).tree(Tree::Reaper);
    let lost = launch.run(&clock()).await.unwrap_err();
    assert!(matches!(lost, LaunchError::Lost(_)), "{lost}");
}
