//! Histories that are right, and one for each thing that can be wrong.

use super::check;
use crate::history::{Event, History, Kind, Seen, Version};

const LIST: &str = "lists/a";
const OTHER: &str = "lists/b";
const COUNTER: &str = "counters/a";

/// A call that succeeded, with what it read and which of that it wrote.
fn call(
    session: &str,
    kind: Kind,
    id: &str,
    reads: &[(&str, usize, Option<&str>)],
    writes: &[&str],
) -> Event {
    let version =
        |length: &usize, last: &Option<&str>| Version { length: *length, last: last.map(str::to_owned) };
    let reads =
        reads.iter().map(|(path, length, last)| ((*path).to_owned(), version(length, last))).collect();
    let seen = Seen { reads, writes: writes.iter().map(|path| (*path).to_owned()).collect(), notes: None };
    Event {
        id: id.to_owned(),
        kind,
        session: session.to_owned(),
        success: true,
        ending: "Succeeded".to_owned(),
        text: String::new(),
        replayed: false,
        seen: Some(seen),
    }
}

fn history(events: Vec<Event>, lists: &[(&str, &[&str])], counter: usize) -> History {
    let mut history = History::default();
    for event in events {
        history.notes.entry(event.session.clone()).or_default();
        history.sessions.entry(event.session.clone()).or_default().push(event);
    }
    for (list, entries) in lists {
        history.lists.insert((*list).to_owned(), entries.iter().map(|entry| (*entry).to_owned()).collect());
    }
    history.counters.insert(COUNTER.to_owned(), counter);
    history
}

/// The kinds of what is found.
fn kinds(history: &History) -> Vec<String> {
    let mut kinds: Vec<String> =
        check(history).iter().filter_map(|what| what.split(':').next()).map(str::to_owned).collect();
    kinds.dedup();
    kinds
}

#[test]
fn a_history_in_order_is_right() {
    let events = vec![
        call("s", Kind::Append, "a", &[(LIST, 0, None)], &[LIST]),
        call("t", Kind::Command, "b", &[(LIST, 1, Some("a")), (COUNTER, 0, None)], &[LIST, COUNTER]),
        call("s", Kind::Peek, "c", &[(LIST, 2, Some("b"))], &[]),
    ];
    assert_eq!(check(&history(events, &[(LIST, &["a", "b"])], 1)), Vec::<String>::new());
}

#[test]
fn two_calls_that_count_from_one_number_are_found() {
    let count = |session: &str, id: &str| call(session, Kind::Command, id, &[(COUNTER, 0, None)], &[COUNTER]);
    assert_eq!(kinds(&history(vec![count("s", "a"), count("t", "b")], &[], 1)), ["lost"]);
}

#[test]
fn an_entry_that_is_missing_or_of_a_call_that_failed_is_found() {
    let wrote = call("s", Kind::Append, "a", &[(LIST, 0, None)], &[LIST]);
    assert_eq!(kinds(&history(vec![wrote.clone()], &[(LIST, &[])], 0)), ["lost"]);
    let text = "conflict".to_owned();
    let failed = Event { success: false, ending: "NotCommitted".to_owned(), text, seen: None, ..wrote };
    assert_eq!(kinds(&history(vec![failed], &[(LIST, &["a"])], 0)), ["half"]);
    assert_eq!(kinds(&history(Vec::new(), &[(LIST, &["x"])], 0)), ["unknown"]);
}

#[test]
fn a_write_over_a_version_that_was_not_read_is_found() {
    let events = vec![
        call("s", Kind::Append, "a", &[(LIST, 0, None)], &[LIST]),
        call("t", Kind::Append, "b", &[(LIST, 0, None)], &[LIST]),
    ];
    assert!(kinds(&history(events, &[(LIST, &["a", "b"])], 0)).contains(&"lost".to_owned()));
}

/// Each reads what the other writes: commands may, serial ones may not.
#[test]
fn write_skew_is_for_commands_without_the_turn_only() {
    for (kind, expected) in [(Kind::Command, &[][..]), (Kind::Serial, &["order"])] {
        let events = vec![
            call("s", kind, "a", &[(LIST, 0, None), (OTHER, 0, None)], &[LIST]),
            call("t", kind, "b", &[(LIST, 0, None), (OTHER, 0, None)], &[OTHER]),
        ];
        let history = history(events, &[(LIST, &["a"]), (OTHER, &["b"])], 0);
        assert_eq!(kinds(&history), expected, "{kind:?}");
    }
}

#[test]
fn a_session_that_goes_back_in_time_is_found() {
    let events = vec![
        call("s", Kind::Append, "a", &[(LIST, 0, None)], &[LIST]),
        call("s", Kind::Peek, "b", &[(LIST, 0, None)], &[]),
    ];
    assert!(kinds(&history(events, &[(LIST, &["a"])], 0)).contains(&"session".to_owned()));
}

#[test]
fn a_conflict_of_a_call_with_the_turn_is_found() {
    let met = call("s", Kind::Serial, "a", &[], &[]);
    let text = "was not committed: changed by another process".to_owned();
    let met = Event { success: false, ending: "NotCommitted".to_owned(), text, seen: None, ..met };
    assert_eq!(kinds(&history(vec![met], &[], 0)), ["turn"]);
}
