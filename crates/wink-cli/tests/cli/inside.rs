//! In a directory inside of a workspace: nobody is given an empty log, or another agent's tools, unasked.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use crate::support::{Place, Said, said};

/// The program, in a directory below the workspace.
fn below(place: &Place, dir: &str, arguments: &[&str]) -> Said {
    let mut command = place.command(arguments);
    let dir = place.root().join(dir);
    fs::create_dir_all(&dir).unwrap();
    said(command.current_dir(dir).stdin(std::process::Stdio::null()).output().unwrap())
}

/// Every command that works on a workspace.
const COMMANDS: [&[&str]; 13] = [
    &["log"],
    &["show", "last"],
    &["diff", "last"],
    &["undo", "last"],
    &["call", "list_directory"],
    &["policy", "check", "list_directory"],
    &["tools"],
    &["prompt"],
    &["serve"],
    &["ledger", "list"],
    &["ledger", "resolve", "x", "--happened"],
    &["ledger", "acknowledge-loss"],
    &["gc"],
];

#[test]
fn the_workspace_around_it_is_named_and_nothing_is_done() {
    let (with_state, with_agent) = (Place::new(), Place::new());
    with_state.write("a.txt", "one\n");
    with_agent.wink(&["init"]).ok();
    for place in [&with_state, &with_agent] {
        for arguments in COMMANDS {
            let said = below(place, "src/deep", arguments);
            assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{arguments:?}: {said:?}");
            let root = place.root().canonicalize().unwrap();
            let expected = format!("not a workspace, but inside of one: {}\n", root.display());
            assert!(said.err.contains(&expected), "{arguments:?}: {said:?}");
            assert_eq!(fs::read_dir(place.root().join("src/deep")).unwrap().count(), 0, "{arguments:?}");
        }
    }
    insta::assert_snapshot!("inside", below(&with_state, "src", &["log"]).whole());
    let doctor = below(&with_state, "src", &["doctor"]);
    assert_eq!(doctor.code, Some(1));
    assert!(doctor.out.contains("broken  workspace: this directory is not"), "{doctor:?}");
}

#[test]
fn whoever_names_a_workspace_gets_it() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    let above = below(&place, "src", &["log", "--workspace", ".."]).ok();
    assert_eq!(above, place.wink(&["log"]).ok());
    // One of its own, from then on.
    let own =
        below(&place, "own", &["call", "write_file", r#"{"path": "b", "content": ""}"#, "--workspace", "."]);
    assert_eq!(own.ok(), "Created b (0 bytes).\n");
    assert_eq!(below(&place, "own", &["log"]).ok().lines().count(), 2);
    let init = below(&place, "other", &["init"]);
    assert_eq!(init.code, Some(0), "{init:?}");
    assert!(
        init.err.starts_with("note: this directory becomes a workspace of its own, inside that of "),
        "{init:?}"
    );
    assert_eq!(below(&place, "other", &["tools"]).code, Some(0));
}

#[test]
fn what_somebody_else_may_have_put_there_is_not_looked_at() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    // Everybody may write there.
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(below(&place, "src", &["log"]).err, "note: session 'main' has no calls yet\n");
    fs::set_permissions(place.root(), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(below(&place, "src", &["log"]).code, Some(2));
    if !rustix::process::geteuid().is_root() {
        wink::testing::leave_out("a directory of another owner", "it takes the superuser to give one away");
        return;
    }
    // Not past a directory of somebody else's, and not to a state of theirs.
    fs::create_dir_all(place.root().join("theirs/mine")).unwrap();
    chown(place.root().join("theirs"), Some(61234), Some(61234)).unwrap();
    assert_eq!(below(&place, "theirs/mine", &["log"]).code, Some(0));
    assert_eq!(below(&place, "theirs", &["log"]).code, Some(2), "this one is around");
    chown(place.root().join(".wink"), Some(61234), Some(61234)).unwrap();
    assert_eq!(below(&place, "src", &["log"]).code, Some(0));
}
