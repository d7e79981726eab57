//! What is undone where somebody else was at work too, and that hints can be followed.

use crate::support::{Place, Said};

/// What was refused, and what is said to do about it.
fn hint(said: &Said) -> &str {
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{said:?}");
    said.err.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap_or_else(|| panic!("{said:?}"))
}

const LOOK: &str = "look at it before --force overwrites it";

#[test]
fn what_a_forced_undo_gave_up_is_not_in_the_way_later() {
    let place = Place::new();
    for name in ["f1", "f2", "f3"] {
        place.write(name, "one\n");
    }
    place.put("f2", "by hand, and longer\n");
    place.wink(&["undo", "2", "--force"]).ok();
    assert_eq!(place.names(), ["f1", "f3"]);
    let back = place.wink(&["undo", "--to", "1"]).ok();
    assert_eq!(back, "undid 2 calls: 2 files are as before\n  f1\n  f3\n");
    assert_eq!(place.names(), Vec::<String>::new());
    // Also where something was there before the call that was undone.
    let place = Place::new();
    place.write("f", "one\n");
    place.call("edit_file", r#"{"path": "f", "old_string": "one", "new_string": "two"}"#);
    place.put("f", "by hand, and longer\n");
    place.wink(&["undo", "2", "--force"]).ok();
    assert_eq!(place.text("f").as_deref(), Some("one\n"));
    place.wink(&["undo", "--to", "1"]).ok();
    assert_eq!(place.names(), Vec::<String>::new());
}

#[test]
fn what_was_given_up_and_came_back_is_in_the_way() {
    let place = Place::new();
    place.write("f", "one\n");
    place.put("f", "by hand, and longer\n");
    place.wink(&["undo", "1", "--force"]).ok();
    place.wink(&["undo", "2"]).ok();
    assert_eq!(place.text("f").as_deref(), Some("by hand, and longer\n"));
    let refused = place.wink(&["undo", "--to", "1"]);
    assert_eq!(hint(&refused), format!("no later call of this session did that; {LOOK}"));
    assert_eq!(place.text("f").as_deref(), Some("by hand, and longer\n"));
}

/// A change of somebody else's that a later call went on from is part of what is there now.
#[test]
fn what_a_later_call_went_on_from_is_in_the_way() {
    let place = Place::new();
    place.write("f", "one\n");
    place.put("f", "one, by hand\n");
    place.call("read_file", r#"{"path": "f"}"#);
    place.call("edit_file", r#"{"path": "f", "old_string": "one", "new_string": "two"}"#);
    let refused = place.wink(&["undo", "--to", "1"]);
    assert_eq!(hint(&refused), format!("no later call of this session did that; {LOOK}"));
    assert_eq!(place.text("f").as_deref(), Some("two, by hand\n"));
}

#[test]
fn only_what_can_be_undone_is_said_to_be_undone_first() {
    let place = Place::new();
    place.write("f", "one\n");
    for (old, new) in [("one", "two"), ("two", "three"), ("three", "four")] {
        let arguments = serde_json::json!({ "path": "f", "old_string": old, "new_string": new });
        place.call("edit_file", &arguments.to_string());
    }
    place.wink(&["undo", "4"]).ok();
    // Neither what is undone already nor its undo.
    let refused = place.wink(&["undo", "1"]);
    assert_eq!(
        hint(&refused),
        "call 3 (edit_file), call 2 (edit_file): undo these, in this order, first, or use --force, or --to to go back to \
         before call 1 (write_file)"
    );
    for call in ["3", "2", "1"] {
        place.wink(&["undo", call]).ok();
    }
    assert_eq!(place.names(), Vec::<String>::new());
    // An undo of what came before is there to be undone.
    place.write("g", "one\n");
    place.call("edit_file", r#"{"path": "g", "old_string": "one", "new_string": "two"}"#);
    place.wink(&["undo", "9", "--force"]).ok();
    let refused = place.wink(&["undo", "10"]);
    assert!(hint(&refused).starts_with("undo 11: undo that first, or "), "{refused:?}");
    place.wink(&["undo", "11"]).ok();
    place.wink(&["undo", "10"]).ok();
}

#[test]
fn what_is_in_no_log_and_what_others_did_is_said_to_be_looked_at() {
    let place = Place::new();
    place.write("f", "one\n");
    place.call("edit_file", r#"{"path": "f", "old_string": "one", "new_string": "two"}"#);
    place.put("f", "by hand, and longer\n");
    let refused = place.wink(&["undo", "1"]);
    assert_eq!(
        hint(&refused),
        format!("call 2 (edit_file) changed it as well, and then something that is in no log: {LOOK}")
    );
    let theirs = |tool: &str, arguments: &str| place.wink(&["call", tool, arguments, "--session", "b"]).ok();
    theirs("read_file", r#"{"path": "f"}"#);
    theirs("edit_file", r#"{"path": "f", "old_string": "by hand", "new_string": "by b"}"#);
    let by_b = format!("call 2 (edit_file) of session 'b' did that: {LOOK}");
    assert_eq!(hint(&place.wink(&["undo", "--to", "1"])), by_b);
    assert_eq!(hint(&place.wink(&["undo", "1"])), format!("call 2 (edit_file), {by_b}"));
    assert_eq!(place.text("f").as_deref(), Some("by b, and longer\n"));
}

#[test]
fn sections_that_were_opened_are_closed_by_going_back() {
    let place = Place::with_agent(
        "[agent]\nns = \"t\"\nkey = \"t\"\n\n[[section]]\nkey = \"more\"\ntitle = \"More\"\nbody = \"All of it.\"\nsummary = \"There is more.\"\nvisibility = \"summary\"\nsuites = [\"planning\"]\n",
    );
    place.call("open_sections", r#"{"section_keys": ["more"], "reason": "to plan"}"#);
    let refused = place.wink(&["undo", "last"]);
    assert_eq!(
        refused.err,
        "error: call 1 (open_sections) opened sections, which the undo of one call does not close\nhint: `wink undo --to 1` goes \
         back to before it, and closes them\n"
    );
    place.wink(&["undo", "--to", "1"]).ok();
    assert!(place.wink(&["tools"]).ok().contains("closed  more"));
}
