//! How the program ends, and what it says when something is in its way.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;

use crate::support::{Place, fed, has_commands, one_command, said};

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
        assert!(said.err.contains("\nhint: this user may not write there: "), "{arguments:?}: {said:?}");
        if arguments[0] == "call" {
            insta::assert_snapshot!("no_permission", said.whole());
        }
    }
    fs::set_permissions(place.outside(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_workspace_that_cannot_be_entered_is_told_so_by_every_command() {
    if !rustix::process::geteuid().is_root() {
        wink::testing::leave_out("somebody else's directory", "only the superuser can be two users");
        return;
    }
    let place = Place::new();
    fs::set_permissions(place.outside(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o700)).unwrap();
    let root = place.root();
    let root = root.to_str().unwrap();
    let expected = format!("the workspace {root} cannot be used: Permission denied (os error 13)");
    let hint = "hint: this user may not write there: ";
    for arguments in [
        &["call", "list_directory"][..],
        &["tools"],
        &["prompt"],
        &["log"],
        &["undo", "last"],
        &["policy", "check", "list_directory"],
        &["doctor"],
        &["init"],
    ] {
        let mut command = place.command(&[arguments, &["--workspace", root]].concat());
        command.current_dir("/").uid(61234).gid(61234);
        let Ok(output) = command.output() else {
            wink::testing::leave_out(
                "somebody else's directory",
                "the program cannot be started by another user",
            );
            return;
        };
        let said = said(output);
        match arguments[0] {
            "doctor" => {
                assert_eq!(said.code, Some(1), "{said:?}");
                assert!(said.out.contains(&format!("broken  workspace: {expected}")), "{said:?}");
                assert!(!said.out.contains("  agent: "), "{said:?}");
            }
            "init" => {
                assert_eq!(said.code, Some(2), "{said:?}");
                assert!(
                    said.err.starts_with(&format!("error: {root}/wink.toml cannot be written: ")),
                    "{said:?}"
                );
                assert!(said.err.contains(hint), "{said:?}");
            }
            _ => {
                assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}: {said:?}");
                assert!(
                    said.err.starts_with(&format!("error: {expected}\n{hint}")),
                    "{arguments:?}: {said:?}"
                );
            }
        }
    }
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

#[test]
fn more_than_can_be_meant_on_standard_input_is_exit_code_2() {
    let place = Place::new();
    let said = place.wink_with(&["call", "read_file", "-"], &" ".repeat((16 << 20) + 1));
    let told = "error: standard input has more than 16 MiB\nhint: nothing was done; put what is large into a file, and say which\n";
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (Some(2), "", told));
    assert_eq!(place.rows(&["log"]), Vec::<serde_json::Value>::new());
    assert_eq!(place.names(), Vec::<String>::new());
}

/// Runs the program in a directory that is mounted for it alone, from `below` it in the place.
#[cfg(target_os = "linux")]
fn mounted(place: &Place, mount: &str, arguments: &[&str]) -> Option<crate::support::Said> {
    let mut command = place.program("unshare");
    let script = format!("{mount} && cd there && exec \"$@\"");
    command.args(["-m", "sh", "-c", &script, "sh", env!("CARGO_BIN_EXE_wink")]).args(arguments);
    let tried = place.program("unshare").args(["-m", "sh", "-c", mount]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        wink::testing::leave_out("a mount of its own", "it takes the superuser, and programs that mount");
        return None;
    }
    Some(said(command.output().unwrap()))
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_system_that_is_read_only_is_told_so() {
    let place = Place::new();
    fs::create_dir(place.root().join("there")).unwrap();
    let mount = "mount -t tmpfs none there && mount -o remount,ro there";
    for arguments in [&["call", "list_directory"][..], &["doctor"]] {
        let Some(said) = mounted(&place, mount, arguments) else { return };
        let whole = said.whole();
        assert_ne!(said.code, Some(0), "{whole}");
        assert!(whole.contains("its file system is read-only: mount it for writing"), "{whole}");
        assert!(!whole.contains("give it the right"), "{whole}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn doctor_tries_the_file_system_of_a_workspace_that_is_none_yet() {
    let place = Place::new();
    for name in ["lower", "layers", "there"] {
        fs::create_dir(place.root().join(name)).unwrap();
    }
    // On a file system of its own, whatever the place is on.
    let mount = "mount -t tmpfs none layers && mkdir layers/upper layers/work && \
        mount -t overlay overlay -o lowerdir=lower,upperdir=layers/upper,workdir=layers/work there";
    let Some(first) = mounted(&place, mount, &["doctor", "--json"]) else { return };
    let check = |said: &crate::support::Said| {
        let told: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        told["checks"].as_array().unwrap().iter().find(|check| check["name"] == "commands").cloned().unwrap()
    };
    let told = check(&first);
    assert_eq!(told["status"], "missing", "{told}");
    let hint = told["hint"].as_str().unwrap();
    assert!(hint.starts_with("it is the file system of the workspace that takes no overlay"), "{told}");
    let listed = mounted(&place, mount, &["call", "list_directory"]).unwrap();
    assert!(!listed.out.contains("wink-"), "{listed:?}");
    // And nothing stays of trying.
    let after = format!(
        "{mount} && (cd there && {} doctor > ../doctor.txt; ls -A > ../left.txt)",
        env!("CARGO_BIN_EXE_wink")
    );
    assert!(place.program("unshare").args(["-m", "sh", "-c", &after]).status().unwrap().success());
    assert_eq!(place.text("left.txt").as_deref(), Some(""));
}

#[test]
fn what_cannot_be_taken_back_is_exit_code_4_and_the_log_can_be_read() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&one_command("change"));
    place.put("app/there", "old");
    place.put_script("change", "echo new > app/added; echo new > app/there");
    let chattr = |sign: &str| {
        let done = std::process::Command::new("chattr").arg(sign).arg(place.root().join("app")).status();
        done.is_ok_and(|done| done.success())
    };
    if !chattr("+a") {
        wink::testing::leave_out(
            "a merge that cannot be taken back",
            "it takes the superuser and attributes",
        );
        return;
    }
    let said = place.wink(&["call", "change", "--json"]);
    let later = place.wink(&["call", "change"]);
    let log = place.wink(&["log", "--json"]);
    let ledger = place.wink(&["ledger", "list"]);
    assert!(chattr("-a"));

    assert_eq!(said.code, Some(4), "{said:?}");
    let row: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&row["rolled_back"], &row["error"]["kind"]), (&false.into(), &"not_restored".into()));
    insta::assert_snapshot!("not_restored", crate::support::steady(row["message"].as_str().unwrap()));
    assert_eq!(later.code, Some(4), "{later:?}");
    insta::assert_snapshot!("not_restored_later", later.whole());
    assert_eq!(log.code, Some(0), "{log:?}");
    assert!(log.out.contains("not_restored") && log.err.contains("app/added"), "{log:?}");
    assert_eq!(ledger.code, Some(0), "{ledger:?}");

    assert_eq!(place.wink(&["log"]).code, Some(0));
    assert_eq!(place.text("app/added"), None);
    assert_eq!(place.text("app/there").as_deref(), Some("old"));
}

#[test]
fn a_file_that_may_not_grow_is_an_error_like_any_other() {
    let place = Place::new();
    place.write("a", "");
    // In blocks of 512 or of 1024 bytes, as the shell has it.
    let mut command = place.program("sh");
    command.args(["-c", "ulimit -f 800; exec \"$0\" call write_file -", env!("CARGO_BIN_EXE_wink")]);
    let input = serde_json::json!({ "path": "large", "content": "x".repeat(900 * 1024) }).to_string();
    let said = fed(command, &input);
    // What the call is to do does not fit into the store.
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(said.out.contains("File too large (os error 27); nothing was changed"), "{said:?}");
    assert_eq!(place.names(), ["a"]);
    place.write("b", "");
}

#[test]
fn commands_are_killed_by_a_file_that_may_not_grow_as_ever() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&one_command("mask"));
    place.put_script("mask", "grep '^SigIgn:' /proc/self/status");
    let mut command = place.program("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$0\" call mask", env!("CARGO_BIN_EXE_wink")]);
    let said = fed(command, "");
    assert_eq!(said.code, Some(0), "{said:?}");
    let mask = said.out.lines().find_map(|line| line.trim().strip_prefix("SigIgn:")).unwrap();
    let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
    assert_eq!(mask & 1 << (rustix::process::Signal::XFSZ.as_raw() - 1), 0, "{said:?}");
}
