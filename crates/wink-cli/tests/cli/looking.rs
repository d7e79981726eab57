//! Looking at a workspace where nothing can be written: a read-only file system, a full one, a copy of another user's.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::{Place, Said, has_commands, one_command, said};

/// What can be looked at, and whether it is told in lines that are the same everywhere.
const LOOKS: [&[&str]; 5] =
    [&["log"], &["log", "--json"], &["show", "last"], &["diff", "last"], &["ledger", "list"]];

/// A workspace whose last calls are in the log of the database only.
fn used() -> Place {
    let place = Place::new();
    place.write("a.txt", "one\n");
    place.call("edit_file", r#"{"path": "a.txt", "old_string": "one", "new_string": "two"}"#);
    let state = place.root().join(".wink");
    assert!(fs::metadata(state.join("wink.db-wal")).unwrap().len() > 0);
    place
}

/// Every file below a directory, with its bytes.
pub(crate) fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(tree(&path));
            found.insert(path, Vec::new());
        } else {
            let bytes = fs::read(&path).unwrap();
            found.insert(path, bytes);
        }
    }
    found
}

fn shell(place: &Place, script: &str, arguments: &[&str]) -> Said {
    let mut command = Command::new("sh");
    command.arg("-euc").arg(script).arg("sh").args(arguments).current_dir(place.outside(""));
    said(command.stdin(Stdio::null()).output().unwrap())
}

fn may_mount() -> bool {
    let able = Command::new("unshare").args(["-m", "true"]).output().is_ok_and(|out| out.status.success());
    if !able {
        wink::testing::leave_out("a read-only and a full file system", "it takes the superuser to mount one");
    }
    able
}

/// What the commands say as long as everything can be written.
fn expected(place: &Place) -> Vec<String> {
    let look = |look: &&[&str]| {
        let said = place.wink(look);
        assert_eq!(said.code, Some(0), "{said:?}");
        said.out
    };
    LOOKS.iter().map(look).collect()
}

fn compare(expected: &[String], look: impl Fn(&[&str]) -> Said) {
    for (arguments, expected) in LOOKS.iter().zip(expected) {
        let said = look(arguments);
        assert_eq!(said.code, Some(0), "{arguments:?}: {said:?}");
        assert_eq!(said.out, *expected, "{arguments:?}: {said:?}");
    }
}

#[test]
fn a_read_only_file_system_can_be_looked_at() {
    if !may_mount() {
        return;
    }
    let place = used();
    let expected = expected(&place);
    let before = tree(&place.root());
    let wink = env!("CARGO_BIN_EXE_wink");
    compare(&expected, |arguments| {
        let script = "mount --bind work work; mount -o remount,ro,bind work work; cd work; exec \"$@\"";
        let whole = format!("exec unshare -m sh -euc '{script}' sh \"$@\"");
        let said = shell(&place, &whole, &[&[wink], arguments].concat());
        assert!(
            said.err.contains("nothing is changed here, and what is shown is as it was left"),
            "{said:?}"
        );
        said
    });
    assert!(tree(&place.root()) == before, "nothing was changed");
}

#[test]
fn a_full_file_system_can_be_looked_at() {
    if !may_mount() {
        return;
    }
    let place = used();
    let expected = expected(&place);
    let wink = env!("CARGO_BIN_EXE_wink");
    fs::create_dir(place.outside("full")).unwrap();
    compare(&expected, |arguments| {
        let script = "mount -t tmpfs -o size=8m full full; cp -a work/. full; cd full; \
                      dd if=/dev/zero of=rest bs=1k 2>/dev/null || true; exec \"$@\"";
        let whole = format!("exec unshare -m sh -euc '{script}' sh \"$@\"");
        shell(&place, &whole, &[&[wink], arguments].concat())
    });
}

#[test]
fn another_user_can_look_at_a_copy() {
    if !rustix::process::geteuid().is_root() {
        wink::testing::leave_out("a copy of another user's", "it takes the superuser to be another user");
        return;
    }
    let place = used();
    let expected = expected(&place);
    // Where that user may go.
    let dir = tempfile::Builder::new().prefix("wink-copy-").tempdir_in("/tmp").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (wink, copy) = (dir.path().join("wink"), dir.path().join("work"));
    fs::copy(env!("CARGO_BIN_EXE_wink"), &wink).unwrap();
    let copied = Command::new("cp").arg("-a").arg(place.root()).arg(&copy).status().unwrap();
    assert!(copied.success());
    assert!(Command::new("chmod").args(["-R", "a+rX"]).arg(&copy).status().unwrap().success());
    let before = tree(&copy);
    compare(&expected, |arguments| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "61234", "--regid", "61234", "--clear-groups", "--inh-caps=-all"]);
        command.arg(&wink).args(arguments).current_dir(&copy).env("HOME", "/tmp");
        said(command.stdin(Stdio::null()).output().unwrap())
    });
    assert!(tree(&copy) == before, "nothing was changed");
}

#[test]
fn an_event_that_cannot_be_read_is_named_and_the_others_are_shown() {
    let place = Place::new();
    for number in 1..=3 {
        place.write(&format!("{number}.txt"), "one\n");
    }
    let conn = rusqlite::Connection::open(place.root().join(".wink/wink.db")).unwrap();
    let (id, mut bytes): (i64, Vec<u8>) = conn
        .query_row(
            "SELECT id, bytes FROM records WHERE stream = 'wink.tool_invoked' AND instr(bytes, CAST('2.txt' AS BLOB)) > 0",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(b'x');
    conn.execute("UPDATE records SET bytes = ?2 WHERE id = ?1", rusqlite::params![id, bytes]).unwrap();
    drop(conn);
    let log = place.wink(&["log"]);
    assert_eq!(log.code, Some(0), "{log:?}");
    assert_eq!(log.out.lines().count(), 3, "{log:?}");
    assert!(log.err.contains("note: entry 2 cannot be read: "), "{log:?}");
    for (entry, file) in [("1", "1.txt"), ("3", "3.txt")] {
        assert!(place.wink(&["diff", entry]).out.contains(file));
    }
    // A session that goes on counts it as well.
    let went_on = place.wink(&["call", "write_file", r#"{"path": "4.txt", "content": "one"}"#]);
    assert_eq!(went_on.code, Some(0), "{went_on:?}");
    assert!(place.wink(&["diff", "4"]).out.contains("4.txt"));
    let unreadable = place.wink(&["show", "2"]);
    assert!(unreadable.code != Some(0) && unreadable.err.contains("read the log"), "{unreadable:?}");
}

/// Starts a call whose command goes on until it is told to end.
struct Busy {
    child: Child,
    go: PathBuf,
}

impl Busy {
    fn start(place: &Place, mut command: Command) -> Self {
        let (ready, go) = (place.pipe("ready"), place.pipe("go"));
        let script = format!("echo ready > {}\nread line < {}\necho done", ready.display(), go.display());
        place.put_script("work", &script);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert_eq!(fs::read_to_string(ready).unwrap(), "ready\n");
        Self { child, go }
    }

    fn end(self) -> Said {
        fs::write(self.go, "go\n").unwrap();
        said(self.child.wait_with_output().unwrap())
    }
}

/// A workspace in which a command has written a file.
fn worked(more: &str) -> Place {
    let place = Place::with_agent(&(one_command("work") + more));
    place.put_script("work", "echo two > a.txt");
    place.call("work", "{}");
    place
}

#[test]
fn a_call_that_has_the_write_turn_is_not_waited_for() {
    if !has_commands() {
        return;
    }
    let place = worked("isolation = \"serial\"\n");
    let expected = expected(&place);
    let busy = Busy::start(&place, place.command(&["call", "work", "{}"]));
    compare(&expected, |arguments| place.wink(arguments));
    let ended = busy.end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "done\n"), "{ended:?}");
}

#[test]
fn a_command_that_works_in_the_workspace_itself_is_not_waited_for() {
    // Without the right to mount, and user namespaces to get it from, there is no overlay.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces; exec setpriv --bounding-set=-sys_admin \"$@\"";
    let without_overlay = ["-U", "-r", "sh", "-euc", script, "sh"];
    let able = Command::new("unshare").args(without_overlay).arg("true").output();
    if !has_commands() || !able.is_ok_and(|out| out.status.success()) {
        wink::testing::leave_out(
            "a command without an overlay",
            "it takes user namespaces to take them away",
        );
        return;
    }
    let place = worked("");
    let expected = expected(&place);
    let mut command = place.program("unshare");
    command.args(without_overlay).arg(env!("CARGO_BIN_EXE_wink")).args(["call", "work", "{}"]);
    let busy = Busy::start(&place, command);
    compare(&expected, |arguments| {
        let said = place.wink(arguments);
        assert!(said.err.contains("another process is changing the workspace"), "{said:?}");
        said
    });
    let ended = busy.end();
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "done\n"), "{ended:?}");
}
