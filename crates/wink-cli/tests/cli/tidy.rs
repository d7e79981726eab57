//! `wink gc`: what is removed, and what cannot be had any more afterwards.

use serde_json::json;

use crate::support::{Place, has_commands};

#[test]
fn what_is_old_is_forgotten_and_says_so() {
    let place = Place::new();
    place.write("a.txt", "one\n");
    place.write("b.txt", "one\n");
    assert_eq!(
        place.json(&["gc"]),
        json!({ "journals": 0, "effects": 0, "recordings": 0 }),
        "nothing is old"
    );
    // The last change stays: by it the store is known again.
    insta::assert_snapshot!("gc", place.wink(&["gc", "--keep-days", "0"]).whole());
    insta::assert_snapshot!("gc_again", place.wink(&["gc", "--keep-days", "0"]).whole());
    insta::assert_snapshot!("undo_forgotten", place.wink(&["undo", "1"]).whole());
    insta::assert_snapshot!("diff_forgotten", place.wink(&["diff", "1"]).whole());
    assert_eq!(place.json(&["show", "1"])["changes"]["forgotten"], true);
    // The log is kept for good, and what is not old can be undone.
    assert_eq!(place.rows(&["log"]).len(), 2);
    place.wink(&["undo", "2"]).ok();
    assert_eq!(place.names(), ["a.txt"]);
}

#[test]
fn effects_that_no_longer_count_are_removed() {
    if !has_commands() {
        return;
    }
    let place = Place::with_agent(
        "[agent]\nns = \"t\"\nkey = \"t\"\n\n[[section]]\nkey = \"s\"\ntitle = \"S\"\n\n[[section.tool]]\nname = \"pay\"\ndescription = \"Pay.\"\ncommand = [\"./pay\"]\nidempotency = { strategy = \"auto\", ttl = \"1ms\" }\n",
    );
    place.put_script("pay", "echo paid");
    place.call("pay", "{}");
    assert_eq!(place.rows(&["ledger", "list"]).len(), 1);
    assert_eq!(place.wink(&["gc"]).ok(), "removed 1 expired effect and 0 old undo points\n");
    assert_eq!(place.wink(&["ledger", "list"]).out, "");
}
