//! An ordinary user whose commands close directories to their own user: such calls succeed, and are undone.

use std::os::unix::process::CommandExt;
use std::process::Stdio;

use crate::support::{Place, Said, has_commands, one_command, said};

const USER: u32 = 61234;

/// Runs the program as the user; nothing if that user cannot start it.
fn as_user(place: &Place, arguments: &[&str]) -> Option<Said> {
    let mut command = place.command(arguments);
    command.stdin(Stdio::null()).env("HOME", "/tmp").uid(USER).gid(USER);
    command.output().ok().map(said)
}

/// What a shell says that the superuser runs in the workspace.
fn shell(place: &Place, script: &str) -> String {
    let output = place.program("sh").args(["-ec", script]).output().unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Modes and contents of all but the state.
fn tree(place: &Place) -> String {
    let list = "find . -path ./.wink -prune -o -mindepth 1 -printf '%p %M\\n' | sort; \
                find m n -type f 2>/dev/null | sort | xargs grep . /dev/null || true";
    shell(place, list)
}

// cases 250, 251
#[test]
fn calls_that_close_directories_to_their_user_succeed_and_are_undone() {
    if !has_commands() {
        return;
    }
    if !rustix::process::geteuid().is_root() {
        wink::testing::leave_out("an ordinary user", "only the superuser can be two users");
        return;
    }
    let before = "./build -rwxr-xr-x\n./m drwxr-xr-x\n./m/f1 -rw-r--r--\n./wink.toml -rw-r--r--\nm/f1:one\n";
    for (script, after) in [
        ("rm m/f1; chmod 555 m", "./build -rwxr-xr-x\n./m dr-xr-xr-x\n./wink.toml -rw-r--r--\n"),
        (
            "echo new > m/f1; chmod 000 m",
            "./build -rwxr-xr-x\n./m d---------\n./m/f1 -rw-r--r--\n./wink.toml -rw-r--r--\nm/f1:new\n",
        ),
        (
            "mkdir n; echo a > n/a; chmod 555 n",
            "./build -rwxr-xr-x\n./m drwxr-xr-x\n./m/f1 -rw-r--r--\n./n dr-xr-xr-x\n./n/a -rw-r--r--\n\
             ./wink.toml -rw-r--r--\nm/f1:one\nn/a:a\n",
        ),
    ] {
        let place = Place::with_agent(&one_command("build"));
        place.put("m/f1", "one\n");
        place.put_script("build", &format!("umask 022; {script}"));
        shell(&place, &format!("chmod 755 .. . m; chmod 644 wink.toml m/f1; chown -R {USER}:{USER} .. "));
        assert_eq!(tree(&place), before);
        let Some(called) = as_user(&place, &["call", "build"]) else {
            wink::testing::leave_out("an ordinary user", "the program cannot be started by another user");
            return;
        };
        assert_eq!((called.code, called.err.as_str()), (Some(0), ""), "{script}: {called:?}");
        assert_eq!(tree(&place), after, "{script}");
        let undone = as_user(&place, &["undo", "last"]).unwrap();
        assert_eq!((undone.code, undone.err.as_str()), (Some(0), ""), "{script}: {undone:?}");
        assert_eq!(tree(&place), before, "{script}");
    }
}
