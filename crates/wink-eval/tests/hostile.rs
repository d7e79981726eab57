//! Programs and workers that do their worst: each is a clear failure, nothing hangs, and no process is left.

#![cfg(unix)]
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use support::{Desk, WORKER, brief};
use wink::limits::{Clock, SystemClock};
use wink_eval::{Failure, Finished, Interpreter, Limits, Program, WorkerProcess};

/// What is said, and how long it took in seconds.
async fn run(code: &str, limits: Limits) -> (Finished, f64) {
    run_with(WorkerProcess::new(WORKER), code, limits).await
}

async fn run_with(worker: WorkerProcess, code: &str, limits: Limits) -> (Finished, f64) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let started = clock.monotonic();
    let program = Program { code: code.to_owned(), ..Program::default() };
    let finished = worker.run(program, &limits, &clock).await;
    (finished, (clock.monotonic() - started).as_secs_f64())
}

/// Workers that are children of this process, dead ones too. Tests of one file share a process: only those with a
/// name of their own are counted.
fn left_behind(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").expect("listed").flatten() {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((head, tail)) = stat.rsplit_once(") ") else { continue };
        let parent = tail.split(' ').nth(1).and_then(|id| id.parse::<u32>().ok());
        if parent == Some(std::process::id()) && head.contains(name) {
            found.push(stat);
        }
    }
    found
}

/// A program that is started in place of a worker.
fn script(name: &str, text: &str) -> (tempfile::TempDir, WorkerProcess) {
    let dir = tempfile::TempDir::new().expect("a directory");
    let path: PathBuf = dir.path().join(name);
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("allowed");
    (dir, WorkerProcess::new(path))
}

// case 179
#[tokio::test]
async fn a_program_without_end_is_stopped() {
    for code in [
        "while True: pass",
        "def f():\n    while True:\n        try:\n            while True: pass\n        except BaseException:\n            pass\nf()",
        "sum(n for n in range(10 ** 12))",
        "n = 3\nwhile True: n = n * n % (10 ** 50)",
        "sorted(range(10 ** 9), key=lambda n: -n)",
        "x = 7 ** 300000\nfor n in range(1000): x = x * x % (x + 1) + str(x).count('7')",
    ] {
        let (finished, seconds) = run(code, brief()).await;
        let failure = finished.outcome.expect_err(code);
        assert!(
            matches!(
                failure,
                Failure::Time { millis: 500 } | Failure::Memory { .. } | Failure::Raised { .. }
            ),
            "{code}: {failure:?}"
        );
        assert!(seconds < 10.0, "{code}: {seconds}");
    }
    let (finished, _) = run("while True: pass", brief()).await;
    assert_eq!(finished.outcome, Err(Failure::Time { millis: 500 }));
}

#[tokio::test]
async fn a_memory_bomb_is_stopped() {
    for code in [
        "'a' * (1 << 34)",
        "a = 'a' * (1 << 20)\nwhile True: a = a + a",
        "a = []\nwhile True: a.append(a[:])",
        "a = [0]\nwhile True: a.extend(a)",
        "a = [0] * (1 << 30)",
        "b = b'x' * (1 << 33)",
        "10 ** 10000000 ** 2",
        "1 << (1 << 40)",
        "a = {}\nn = 0\nwhile True:\n    a[n] = str(n) * 100\n    n += 1",
        "'%01000000000d' % 1",
        "f'{1:>2000000000}'",
        "'x'.rjust(1 << 33)",
        "list(range(1 << 40))",
        "','.join(['x' * (1 << 20)] * 10000)",
        "'a'.replace('a', 'b' * (1 << 26)).replace('b', 'c' * (1 << 20))",
        "import itertools\nlist(itertools.product(range(100), repeat=6))",
        "x = []\nfor n in range(1000000): x = [x, x]\nx",
    ] {
        let limits = Limits { time: Duration::from_secs(3), ..Limits::default() };
        let (finished, seconds) = run(code, limits).await;
        let failure = finished.outcome.expect_err(code);
        assert!(!matches!(failure, Failure::Unavailable { .. }), "{code}: {failure:?}");
        println!("{seconds:5.2} s  {code:?}: {failure}");
        assert!(seconds < 10.0, "{code}: {seconds}");
    }
    let (finished, _) = run("'a' * (1 << 34)", Limits::default()).await;
    assert_eq!(finished.outcome, Err(Failure::Memory { bytes: 64 * 1024 * 1024 }));
    let (finished, _) =
        run("a = []\nwhile True: a.append('x' * 1000 + str(len(a)))", Limits::default()).await;
    assert_eq!(finished.outcome, Err(Failure::Memory { bytes: 64 * 1024 * 1024 }));
}

#[tokio::test]
async fn deep_programs_are_stopped() {
    let nested = |open: &str, close: &str, n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
    for code in [
        "def f(n): return f(n + 1)\nf(0)".to_owned(),
        "class A:\n    def __repr__(self): return repr(self)\nrepr(A())".to_owned(),
        "f = lambda g: g(g)\nf(f)".to_owned(),
        nested("(", ")", 990),
        nested("[", "]", 990),
        nested("{1:", "}", 400),
        nested("-", "", 1990),
        nested("not ", "", 490),
        format!("f{}", "()".repeat(990)),
        format!("x{}", "[0]".repeat(660)),
        "lambda: ".repeat(240) + "1",
        "x = []\nfor n in range(100000): x = [x]\nprint(x)".to_owned(),
        "x = []\nfor n in range(100000): x = (x,)\nx == x, hash(x)".to_owned(),
        "import json\njson.loads('[' * 100000)".to_owned(),
    ] {
        let (finished, seconds) = run(&code, Limits::default()).await;
        println!("{seconds:5.2} s  {:.60?}: {:.200?}", code, finished.outcome);
        assert!(
            !matches!(finished.outcome, Err(Failure::Unavailable { .. } | Failure::Time { .. })),
            "{code}"
        );
        assert!(seconds < 9.0, "{code}: {seconds}");
    }
    let desk = Desk::new().await;
    let said = desk.runs("def f(n): return f(n + 1)\nf(0)").await;
    assert!(
        said.starts_with("FAILED: RecursionError: maximum recursion depth exceeded. Use a loop."),
        "{said}"
    );
}

#[tokio::test]
async fn a_flood_of_output_is_stopped() {
    let (finished, _) = run("while True: print('x' * 1000)", Limits::default()).await;
    assert_eq!(finished.outcome, Err(Failure::Flood { bytes: 4 * 1024 * 1024 }));
    assert_eq!(finished.stdout.text.len(), 32 * 1024);
    let (finished, seconds) =
        run("while True:\n    try:\n        print('x' * 100000)\n    except BaseException: pass", brief())
            .await;
    assert!(finished.outcome.is_err() && seconds < 5.0, "{finished:?}");
}

#[tokio::test]
async fn workers_that_misbehave_are_failures() {
    let desk = |worker: WorkerProcess| Desk::with(worker, brief(), &[]);
    // Not there, silent, babbling, dying, closing its output and going on.
    let missing = desk(WorkerProcess::new("/nowhere/worker")).await.runs("1").await;
    assert_eq!(
        missing,
        "FAILED: Python cannot be run here: the worker '/nowhere/worker' does not start: No such file or directory (os error 2)"
    );
    let died = |how: &str| {
        format!(
            "FAILED: the interpreter stopped without an answer ({how}); the program may nest too deeply or use too much memory"
        )
    };
    for (name, text, said) in [
        ("odd-quits", "#!/bin/sh\nexit 3\n", died("exit status: 3")),
        ("odd-babbles", "#!/bin/sh\ncat > /dev/null\necho '{\"stdout\": 1'\n", died("exit status: 0")),
        ("odd-dies", "#!/bin/sh\nkill -SEGV $$\n", died("signal: 11 (SIGSEGV)")),
        (
            "odd-oom",
            "#!/bin/sh\nexit 65\n",
            "FAILED: the program used more than 64 MiB of memory and was stopped; work on less at a time"
                .to_owned(),
        ),
        ("odd-closes", "#!/bin/sh\nexec >&-\nwhile :; do :; done\n", died("signal: 9 (SIGKILL)")),
    ] {
        let (_dir, worker) = script(name, text);
        assert_eq!(desk(worker).await.runs("1").await, said, "{name}");
        assert_eq!(left_behind("(odd-"), [""; 0], "{name}");
    }
}

#[tokio::test]
async fn a_worker_that_never_answers_is_killed_from_outside() {
    let (_dir, worker) = script("waits", "#!/bin/sh\nexec tail -f /dev/null\n");
    let (finished, seconds) = run_with(worker, "1", brief()).await;
    assert_eq!(finished.outcome, Err(Failure::Time { millis: 500 }));
    assert!((2.0..5.0).contains(&seconds), "{seconds}");
    assert_eq!(left_behind("(tail"), [""; 0]);
}

#[tokio::test]
async fn a_worker_without_end_that_babbles_is_bounded() {
    let (_dir, worker) = script("yes-babbles", "#!/bin/sh\nexec yes\n");
    let (finished, seconds) = run_with(worker, "1", Limits::default()).await;
    // Nobody listens any more, and then it is killed: either ends it.
    let ended =
        ["signal: 13 (SIGPIPE)", "signal: 9 (SIGKILL)"].map(|how| Err(Failure::Died { how: how.to_owned() }));
    assert!(ended.contains(&finished.outcome), "{finished:?}");
    assert!(seconds < 7.0, "{seconds}");
    assert_eq!(left_behind("(yes"), [""; 0]);
}

/// Whoever stops waiting stops the program.
#[tokio::test]
async fn a_call_that_is_dropped_kills_its_worker() {
    let (_dir, worker) = script("drop-sleeps", "#!/bin/sh\nexec sleep 1002\n");
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let limits = Limits { time: Duration::from_secs(600), ..Limits::default() };
    let asleep = || {
        let running = |stat: &String| !stat.contains(") Z");
        let found = Vec::from_iter(fs::read_dir("/proc").expect("listed").flatten().filter_map(|entry| {
            let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            line.contains("sleep\u{0}1002")
                .then(|| fs::read_to_string(entry.path().join("stat")).unwrap_or_default())
        }));
        found.iter().filter(|stat| running(stat)).count()
    };
    {
        let mut run = std::pin::pin!(worker.run(Program::default(), &limits, &clock));
        // Until it sleeps.
        while asleep() == 0 {
            tokio::select! {
                finished = &mut run => panic!("{finished:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
    }
    // It is killed at once; the thread that waits for it takes it off the list.
    let until = clock.monotonic() + Duration::from_secs(5);
    while asleep() > 0 {
        assert!(clock.monotonic() < until, "the worker is still there");
        tokio::task::yield_now().await;
    }
}

/// The worker killed by somebody else while it runs.
#[tokio::test]
async fn a_worker_limits_itself_and_one_that_is_killed_is_a_failure() {
    let (dir, _) = script("unused", "");
    let worker = dir.path().join("kill-me");
    fs::copy(WORKER, &worker).expect("copied");
    let limits = Limits { time: Duration::from_secs(5), ..Limits::default() };
    let running =
        tokio::spawn(async move { run_with(WorkerProcess::new(worker), "while True: pass", limits).await });
    let id = loop {
        let found = left_behind("(kill-me");
        if let Some(id) = found.first().and_then(|stat| stat.split(' ').next()?.parse::<i32>().ok()) {
            break id;
        }
        tokio::task::yield_now().await;
    };
    // It takes its own limits on before it runs anything; the last is that on address space.
    let limits = loop {
        let limits = fs::read_to_string(format!("/proc/{id}/limits")).expect("still there");
        if limits.lines().any(|line| line.starts_with("Max address space") && !line.contains("unlimited")) {
            break limits;
        }
        tokio::task::yield_now().await;
    };
    let limit = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).expect(name);
        line.trim_start_matches(name).split_whitespace().next().map(str::to_owned)
    };
    let armed = ["Max file size", "Max cpu time", "Max address space"].map(limit);
    assert_eq!(armed, ["0", "8", &(1088u64 * 1024 * 1024).to_string()].map(|text| Some(text.to_owned())));
    let killed = std::process::Command::new("kill").args(["-9", &id.to_string()]).status().expect("kill");
    assert!(killed.success());
    let (finished, _) = running.await.expect("joined");
    assert_eq!(finished.outcome, Err(Failure::Died { how: "signal: 9 (SIGKILL)".to_owned() }));
    assert_eq!(left_behind("(kill-me"), [""; 0]);
}

#[test]
fn the_worker_says_what_it_is_for() {
    let output = std::process::Command::new(WORKER).output().expect("runs");
    assert_eq!(output.status.code(), Some(2));
    let request = std::process::Command::new(WORKER).arg(wink_eval::worker::ARGUMENT).output().expect("runs");
    assert_eq!((request.status.code(), request.stdout), (Some(1), Vec::new()));
}

/// Every thread of a worker that runs a program is sealed: it opens, starts and reaches nothing.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_worker_is_sealed() {
    let dir = tempfile::TempDir::new().expect("a directory");
    let path = dir.path().join("sealed-worker");
    fs::copy(support::WORKER, &path).expect("copied");
    let worker = WorkerProcess::new(path);
    let look = async {
        loop {
            // The one that waits, the one that watches the time, and the one that runs the program.
            let stats = left_behind("sealed-worker");
            let id = stats.first().and_then(|stat| stat.split(' ').next()).unwrap_or_default();
            let tasks = fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
            let states: Vec<_> =
                tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok()).collect();
            if states.len() == 3 {
                return states;
            }
            tokio::task::yield_now().await;
        }
    };
    let states = tokio::select! {
        states = look => states,
        (finished, _) = run_with(worker, "while True: pass", brief()) => panic!("it ended first: {finished:?}"),
    };
    for state in states {
        assert!(state.contains("\nSeccomp:\t2\n") && state.contains("\nNoNewPrivs:\t1\n"), "{state}");
    }
}
