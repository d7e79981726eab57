//! What commands are promised: streams, codes, limits, and that they leave nothing behind.

use std::time::Duration;

use wink::limits::CancelToken;

use super::{Bench, View, complained, exists, is_running, mark, said, timed_out};
use crate::error::{LaunchError, SandboxError};
use crate::launch::{Command, Ended};
use crate::sandbox::Job;

pub(super) async fn check(bench: &Bench<'_>) {
    runs_and_ends(bench).await;
    arguments(bench).await;
    directories(bench).await;
    environment(bench).await;
    input(bench).await;
    output(bench).await;
    changes(bench).await;
    timeout(bench).await;
    background(bench).await;
    cancelled(bench).await;
    dropped(bench).await;
}

async fn runs_and_ends(bench: &Bench<'_>) {
    let world = bench.world();
    let finished = bench.run(world.shell("echo out; echo err >&2; exit 7")).await;
    assert_eq!(finished.ended, Ended::Exited(7));
    assert_eq!((said(&finished).as_str(), complained(&finished).as_str()), ("out\n", "err\n"));
    for code in [125, 126, 127, 255] {
        let text = format!("echo 'Error: no' >&2; exit {code}");
        assert_eq!(bench.sh(&text).await.0, code, "whatever else has this code, it is the command's");
    }
    assert_eq!(bench.sh("kill -TERM $$").await.0, 143);
    assert_eq!(bench.sh("kill -KILL $$").await.0, 137);
}

async fn arguments(bench: &Bench<'_>) {
    let command = |words: &[&str]| {
        let mut words = words.iter().map(Into::into);
        Command::Program { program: words.next().unwrap(), args: words.collect() }
    };
    let world = bench.world();
    let echo = Job::new(command(&["printf", "%s|", "a b", "$HOME", "-n", "*"]), world.workspace());
    assert_eq!(said(&bench.run(echo).await), "a b|$HOME|-n|*|");
    // Either the sandbox says so, or a shell in it does.
    match bench.try_run(Job::new(command(&["no-such-program"]), world.workspace())).await {
        Ok(finished) => assert_eq!(finished.ended.code(), 127),
        Err(error) => assert!(matches!(error, SandboxError::Launch(LaunchError::Program { .. })), "{error}"),
    }
}

async fn directories(bench: &Bench<'_>) {
    let world = bench.world();
    let pwd = |cwd: &str| Job { cwd: cwd.to_owned(), ..world.shell("pwd -P; ls") };
    assert_eq!(said(&bench.run(pwd("")).await), "/workspace\ndir\nfile\n");
    assert_eq!(said(&bench.run(pwd("dir")).await), "/workspace/dir\nbelow\n");
    assert_eq!(said(&bench.run(pwd("dir/below")).await), "/workspace/dir/below\n");
    for outside in ["..", "/etc", "dir/../..", "missing"] {
        assert!(bench.try_run(pwd(outside)).await.is_err(), "cwd {outside}");
    }
}

async fn environment(bench: &Bench<'_>) {
    let world = bench.world();
    let mut job = world.shell("echo \"$ONE|$TWO\"; test -n \"$PATH\" && test -n \"$HOME\" && echo more");
    job.env.insert("ONE".to_owned(), "1 = \"one\"\n$HOME".to_owned());
    job.env.insert("TWO".to_owned(), String::new());
    assert_eq!(said(&bench.run(job).await), "1 = \"one\"\n$HOME|\nmore\n");
}

async fn input(bench: &Bench<'_>) {
    let world = bench.world();
    assert_eq!(said(&bench.run(world.shell("wc -c")).await).trim(), "0");
    let given = |bytes: Vec<u8>, text: &str| Job { stdin: Some(bytes), ..world.shell(text) };
    assert_eq!(said(&bench.run(given(b"hello".to_vec(), "cat")).await), "hello");
    assert_eq!(said(&bench.run(given(vec![b'x'; 300_000], "wc -c")).await).trim(), "300000");
    assert_eq!(bench.run(given(vec![b'x'; 300_000], "exit 3")).await.ended, Ended::Exited(3));
}

async fn output(bench: &Bench<'_>) {
    let most = bench.sandbox.limits().output;
    let world = bench.world();
    let text = "head -c 400000 /dev/zero | tr '\\0' o; head -c 300000 /dev/zero | tr '\\0' e >&2";
    let finished = bench.run(world.shell(text)).await;
    assert_eq!((finished.stdout.total(), finished.stderr.total()), (400_000, 300_000));
    let (shown, cut) = finished.stdout.text(most);
    assert!(cut && shown.ends_with("\n[cut: this is the beginning of 400000 bytes]"), "{cut}");
    assert_eq!(shown.chars().filter(|letter| *letter == 'o').count() - 1, most, "one more is in the marker");
}

/// What is done is where it can be taken or left, and the workspace is as it was.
async fn changes(bench: &Bench<'_>) {
    let world = bench.world();
    let text =
        "echo new > file; mkdir made; echo x > made/x; chmod 600 made/x; mv dir moved; rm -rf moved/below";
    let finished = bench.run(world.shell(text)).await;
    assert_eq!((finished.ended, complained(&finished)), (Ended::Exited(0), String::new()));
    assert_eq!(std::fs::read_to_string(world.changed("file")).unwrap(), "new\n");
    assert_eq!(std::fs::read_to_string(world.changed("made/x")).unwrap(), "x\n");
    assert!(exists(&world.changed("moved")));
    if world.view == View::Overlay {
        let lower = &world.dirs.lower;
        assert_eq!(std::fs::read_to_string(lower.join("file")).unwrap(), "old\n");
        assert!(
            lower.join("dir/below").is_dir() && !exists(&lower.join("made")) && !exists(&lower.join("moved"))
        );
    }
}

/// Children in every way of getting away that there is.
fn escaping(mark: &str) -> String {
    let sleep = format!("sh -c 'sleep 1000; : {mark}'");
    format!(
        "{sleep} & setsid {sleep} & (setsid {sleep} </dev/null >/dev/null 2>&1 &) ; nohup {sleep} >/dev/null 2>&1 & \
         echo ready; trap '' TERM HUP INT; {sleep}"
    )
}

async fn timeout(bench: &Bench<'_>) {
    let (world, mark) = (bench.world(), mark("timeout", bench.sandbox));
    let job = Job { time: Some(Duration::from_secs(2)), ..world.shell(escaping(&mark)) };
    let finished = bench.run(job).await;
    assert!(timed_out(&finished), "{finished:?}");
    assert_eq!(said(&finished), "ready\n", "what was said before is kept");
    assert!(finished.duration >= Duration::from_secs(2));
    assert!(!is_running(&mark), "something outlived the timeout");
}

async fn background(bench: &Bench<'_>) {
    let (world, mark) = (bench.world(), mark("background", bench.sandbox));
    let sleep = format!("sh -c 'sleep 1000; : {mark}'");
    let text = format!("(setsid {sleep} &) ; {sleep} & echo done; exit 5");
    let finished = bench.run(world.shell(text)).await;
    assert_eq!((finished.ended, said(&finished)), (Ended::Exited(5), "done\n".to_owned()));
    assert!(!is_running(&mark), "something outlived its command");
}

async fn cancelled(bench: &Bench<'_>) {
    let (world, mark) = (bench.world(), mark("cancelled", bench.sandbox));
    let token = CancelToken::new();
    let job =
        Job { cancel: Some(token.clone()), ..world.shell(format!("echo > ready; {}", escaping(&mark))) };
    let ready = world.changed("ready");
    let (finished, ()) = both(bench.run(job), async {
        appears(&ready).await;
        token.cancel();
    })
    .await;
    assert_eq!(finished.ended, Ended::Cancelled);
    assert!(!is_running(&mark), "something outlived the cancellation");
}

async fn dropped(bench: &Bench<'_>) {
    let (world, mark) = (bench.world(), mark("dropped", bench.sandbox));
    let job = world.shell(format!("echo > ready; {}", escaping(&mark)));
    let ready = world.changed("ready");
    {
        let mut running = Box::pin(bench.run(job));
        let mut ready = Box::pin(appears(&ready));
        std::future::poll_fn(|cx| {
            assert!(running.as_mut().poll(cx).is_pending(), "it goes on");
            ready.as_mut().poll(cx)
        })
        .await;
        assert!(is_running(&mark));
    }
    assert!(!is_running(&mark), "something outlived the drop");
}

async fn appears(path: &std::path::Path) {
    while !exists(path) {
        tokio::task::yield_now().await;
    }
}

/// Two futures side by side.
async fn both<A: Future, B: Future>(one: A, other: B) -> (A::Output, B::Output) {
    let (mut one, mut other) = (std::pin::pin!(one), std::pin::pin!(other));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(|cx| {
        use std::task::Poll;
        if first.is_none()
            && let Poll::Ready(done) = one.as_mut().poll(cx)
        {
            first = Some(done);
        }
        if second.is_none()
            && let Poll::Ready(done) = other.as_mut().poll(cx)
        {
            second = Some(done);
        }
        if first.is_some() && second.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    (first.unwrap(), second.unwrap())
}
