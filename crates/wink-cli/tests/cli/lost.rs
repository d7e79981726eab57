//! A store that lost its last commits: nothing is paid twice, and the operator is told what to type.

use crate::json::check;
use crate::killed::paying;
use crate::support::{Place, has_commands};

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
