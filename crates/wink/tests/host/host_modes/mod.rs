//! An ordinary user, and what their commands close to them: directories that their owner may not write or look into, and files that they
//! may not read. Whatever happens to the process, the workspace is then as it was before, or as the command left it; and it can
//! be used.
//!
//! These tests are run by the superuser and do everything as another user, for whom modes mean something. Processes are killed at every
//! step, and those that recover what they left at every step in turn.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

mod attributes;
mod world;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use wink::filesystem::host::Capture;

use world::{Ended, World, captures, dump, is_superuser, left_by, said};

/// What commands do, each in a workspace of its own.
const SCRIPTS: &[&str] = &[
    // A directory that becomes read-only, and one that its owner may not enter.
    "rm m/f1; chmod 555 m",
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

/// Kills the process that does `job` at each of its steps, and the one that opens the workspace then as well, at one step each; then the workspace
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
        // The next process settles it all, and can use the workspace.
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

/// The workspace is restored after the command has failed: what is lifted for that has several places until it is done.
#[test]
fn a_death_at_any_step_of_a_restore_loses_no_mode() {
    if !is_superuser() {
        return;
    }
    for capture in captures() {
        let before = dump(&World::new(capture).root(), "%T@");
        for script in [SCRIPTS[4], SCRIPTS[7]] {
            let both = ((before.as_str(), "%T@"), before.as_str());
            killed_everywhere(|| World::new(capture), &format!("fail\n{script}"), both, (1..).step_by(2));
        }
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
