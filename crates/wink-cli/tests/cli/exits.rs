//! How the program ends, and what it says when something is in its way.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use crate::support::{Place, has_commands, one_command, said};

/// An agent whose session is soon over.
pub(crate) fn slow() -> String {
    one_command("slow") + "\n[limits]\ndeadline = \"2s\"\n"
}

#[test]
fn a_deadline_is_exit_code_3() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&slow());
    place.put_script("slow", "touch made\nexec sleep 1000");
    let said = place.wink(&["call", "slow"]);
    assert_eq!(said.code, Some(3), "{said:?}");
    insta::assert_snapshot!("deadline", crate::support::steady(&said.out));
    assert_eq!(place.names(), ["slow", "wink.toml"]);
    assert_eq!(place.rows(&["log"])[0]["error"]["kind"], "exhausted");
}

#[test]
fn a_workspace_that_is_not_there_is_exit_code_2() {
    let place = Place::new();
    insta::assert_snapshot!("no_workspace", place.wink(&["log", "--workspace", "nowhere"]).whole());
    place.put("file", "");
    insta::assert_snapshot!("no_directory", place.wink(&["call", "x", "--workspace", "file"]).whole());
}

#[test]
fn a_workspace_without_permission_is_exit_code_2() {
    let place = Place::new();
    let is_root = rustix::process::geteuid().is_root();
    // The way there can be gone, but nothing be changed at its end.
    for dir in [place.outside(""), place.root()] {
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o555)).unwrap();
    }
    let looks = ["policy", "check", "list_directory"];
    for arguments in [&["call", "list_directory"][..], &looks, &["init"]] {
        let mut command = place.command(arguments);
        if is_root {
            command.uid(61234).gid(61234);
        }
        let Ok(output) = command.output() else {
            wink::testing::leave_out("another user", "the program cannot be started by one");
            return;
        };
        let said = said(output);
        if arguments == looks {
            assert_eq!(said.code, Some(0), "looking makes nothing: {said:?}");
            continue;
        }
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}: {said:?}");
        if arguments[0] == "call" {
            insta::assert_snapshot!("no_permission", said.whole());
        }
    }
    fs::set_permissions(place.outside(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_state_that_somebody_else_owns_is_exit_code_2() {
    if !rustix::process::geteuid().is_root() {
        wink::testing::leave_out("somebody else's state", "only the superuser can be two users");
        return;
    }
    let place = Place::new();
    place.write("a", "");
    fs::set_permissions(place.outside(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = place.command(&["log"]);
    command.uid(61234).gid(61234);
    let Ok(output) = command.output() else {
        wink::testing::leave_out("somebody else's state", "the program cannot be started by another user");
        return;
    };
    insta::assert_snapshot!("somebody_elses_state", said(output).whole());
}

#[test]
fn a_store_of_a_newer_version_is_exit_code_2_and_is_not_touched() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    let path = place.root().join(".wink/wink.db");
    let newer = rusqlite::Connection::open(&path).unwrap();
    newer.pragma_update(None, "user_version", 99).unwrap();
    drop(newer);
    let before = fs::read(&path).unwrap();
    for arguments in
        [&["log"][..], &["call", "list_directory"], &["undo", "last"], &["ledger", "list"], &["gc"]]
    {
        let said = place.wink(arguments);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}: {said:?}");
    }
    insta::assert_snapshot!("newer_store", place.wink(&["log"]).whole());
    assert_eq!(fs::read(&path).unwrap(), before);
    let doctor = place.wink(&["doctor"]);
    assert_eq!(doctor.code, Some(1));
    assert!(doctor.out.contains("broken  workspace: "), "{doctor:?}");
}

#[test]
fn a_damaged_store_is_exit_code_4() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    place.damage_store();
    let said = place.wink(&["log"]);
    assert_eq!((said.code, said.out.as_str()), (Some(4), ""), "{said:?}");
    insta::assert_snapshot!("damaged_store", said.whole());
}

#[test]
fn what_is_not_understood_is_exit_code_2() {
    let place = Place::new();
    let wrong: [&[&str]; 9] = [
        &["nope"],
        &["call"],
        &["show"],
        &["log", "-n", "many"],
        &["tools", "--format", "xml"],
        &["ledger", "resolve", "key"],
        &["ledger", "resolve", "key", "--happened", "--did-not-happen"],
        &["log", "--session", ""],
        &["completions", "tcsh"],
    ];
    for arguments in wrong {
        let said = place.wink(arguments);
        assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}: {said:?}");
        assert!(said.err.starts_with("error: "), "{said:?}");
    }
    let said = place.wink(&["ledger", "resolve", "key", "--happened", "--value", "{"]);
    insta::assert_snapshot!("value_is_no_json", said.whole());
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let place = Place::new();
    for number in 0..3 {
        place.write(&format!("{number}.txt"), "x\n");
    }
    for arguments in [&["log"][..], &["log", "--json"], &["completions", "bash"], &["prompt"]] {
        let mut command = place.command(arguments);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let said = said(child.wait_with_output().unwrap());
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn output_that_cannot_be_written_is_exit_code_4() {
    let place = Place::new();
    place.write("a", "x\n");
    for arguments in [&["log"][..], &["log", "--json"], &["call", "list_directory"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let said = said(
            place.command(arguments).stdout(full).stderr(std::process::Stdio::piped()).output().unwrap(),
        );
        assert_eq!(said.code, Some(4), "{arguments:?}: {said:?}");
        assert!(said.err.contains("the output cannot be written: "), "{said:?}");
    }
}
