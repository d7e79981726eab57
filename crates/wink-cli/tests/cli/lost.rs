//! A store that lost its last commits: nothing is paid twice, and the operator is told what to type.

use std::process::Stdio;

use crate::json::check;
use crate::killed::paying;
use crate::looking::tree;
use crate::support::{Place, has_commands, said};

// case 256
#[test]
fn what_the_store_has_lost_is_told_and_acknowledged() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&paying());
    place.put_script("pay", &format!("echo paid; echo one >> {}", place.outside("payments").display()));
    assert_eq!(place.call("pay", r#"{"order": 1}"#), "paid\n");
    let state = place.root().join(".wink");
    let fold = rusqlite::Connection::open(state.join("wink.db")).unwrap();
    fold.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(fold);
    assert_eq!(place.call("pay", r#"{"order": 2}"#), "paid\n");
    std::fs::remove_file(state.join("wink.db-wal")).unwrap();

    let refused = place.wink(&["call", "pay", r#"{"order": 2}"#]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let whole = format!("{}{}", refused.out, refused.err);
    assert!(whole.contains("pay was not run: the store has lost commits"), "{refused:?}");
    assert!(whole.contains("type `wink ledger acknowledge-loss`"), "{refused:?}");
    assert!(refused.err.contains("note: the store has lost commits: commit"), "{refused:?}");
    let payments = || std::fs::read_to_string(place.outside("payments")).unwrap().lines().count();
    let replayed = place.wink(&["call", "pay", r#"{"order": 1}"#]);
    assert_eq!((replayed.code, replayed.out.as_str(), payments()), (Some(0), "paid\n", 2), "{replayed:?}");
    let deep = place.wink(&["doctor", "--deep"]);
    assert_eq!(deep.code, Some(1), "{deep:?}");
    assert!(deep.out.contains("is missing: "), "{deep:?}");

    let acknowledged = place.json(&["ledger", "acknowledge-loss"]);
    check("ledger-acknowledge-loss", &acknowledged);
    assert!(place.wink(&["ledger", "acknowledge-loss"]).err.contains("note: nothing is lost"));
    assert_eq!((place.call("pay", r#"{"order": 2}"#).as_str(), payments()), ("paid\n", 3));
    assert_eq!(place.wink(&["doctor", "--deep"]).code, Some(0));
}

/// The database with another message in its one effect than was committed.
fn damage_effect(place: &Place) {
    let conn = rusqlite::Connection::open(place.root().join(".wink/wink.db")).unwrap();
    let changed = conn.execute("UPDATE ledger SET row = replace(row, 'paid', 'PAID')", []).unwrap();
    assert_eq!(changed, 1);
}

// case 256
#[test]
fn only_a_repair_changes_a_damaged_store_and_it_keeps_a_copy() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(&paying());
    place.put_script("pay", "echo paid");
    assert_eq!(place.call("pay", r#"{"order": 1}"#), "paid\n");
    damage_effect(&place);
    let before = tree(&place.root());
    let deep = place.wink(&["doctor", "--deep"]);
    assert_eq!(deep.code, Some(1), "{deep:?}");
    assert!(deep.out.contains("it does not have the bytes that were committed"), "{deep:?}");
    assert!(tree(&place.root()) == before, "nothing was changed");
    let alone = place.wink(&["doctor", "--repair"]);
    assert_eq!(alone.code, Some(2), "{alone:?}");

    let repaired = place.wink(&["doctor", "--deep", "--repair"]);
    assert!(repaired.out.contains(".wink/wink.db-before-repair-"), "{repaired:?}");
    let state = place.root().join(".wink");
    let copies = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path());
    let copies: Vec<_> = copies.filter(|path| path.to_string_lossy().contains("before-repair")).collect();
    assert_eq!(copies.len(), 1, "{copies:?}");
    assert_eq!(Some(&std::fs::read(copies[0].join("wink.db")).unwrap()), before.get(&state.join("wink.db")));
    place.wink(&["ledger", "acknowledge-loss"]);
    assert_eq!(place.rows(&["ledger", "list"])[0]["state"], "in_doubt");
    assert_eq!(place.wink(&["doctor", "--deep"]).code, Some(0));
}

// case 256
#[test]
fn a_command_of_a_call_decides_nothing_about_the_store() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    let decisions: [&[&str]; 3] =
        [&["ledger", "acknowledge-loss"], &["doctor", "--deep"], &["doctor", "--deep", "--repair"]];
    for arguments in decisions {
        let mut command = place.command(arguments);
        let said = said(command.env("WINK_INVOCATION_ID", "x").stdin(Stdio::null()).output().unwrap());
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.err.contains("inside a call"), "{said:?}");
    }
}
