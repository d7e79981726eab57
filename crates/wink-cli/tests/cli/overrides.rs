//! `wink override`: files that replace texts of the agent's prompt and tools.

use serde_json::Value;

use crate::json::check;
use crate::support::Place;

const AGENT: &str = r#"
[agent]
ns = "ops"
key = "notes"

[[section]]
key = "notes"
title = "Notes"
body = "Keep notes."
suites = ["files"]
"#;

const FILE: &str = "wink-overrides/ops/notes/latest.json";

fn seeded() -> Place {
    let place = Place::with_agent(AGENT);
    let said = place.wink(&["override", "seed"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), format!("./{FILE}\n").as_str()), "{said:?}");
    place
}

fn edit(place: &Place, from: &str, to: &str) {
    let text = place.text(FILE).unwrap();
    assert!(text.contains(from), "{text}");
    place.put(FILE, &text.replacen(from, to, 1));
}

/// The parts in this state.
fn in_state(place: &Place, state: &str) -> Vec<(String, bool)> {
    let rows = place.rows(&["override", "list"]);
    rows.iter().for_each(|row| check("override-list", row));
    let of_state = rows.iter().filter(|row| row["state"] == state);
    of_state
        .map(|row| (row["path"].as_str().unwrap().to_owned(), row["changed"] == Value::Bool(true)))
        .collect()
}

// case 223
#[test]
fn a_text_that_is_edited_is_what_the_model_is_given() {
    let place = seeded();
    assert_eq!(place.wink(&["prompt"]).ok(), Place::with_agent(AGENT).wink(&["prompt"]).ok());
    edit(&place, "\"Keep notes.\"", "\"Keep few notes.\"");
    edit(&place, "\"Read a text file", "\"Look into a text file");
    assert!(place.wink(&["prompt"]).ok().contains("Keep few notes."));
    let tools = place.json(&["tools"]);
    let read = tools.as_array().unwrap().iter().find(|tool| tool["name"] == "read_file").unwrap();
    assert!(read["description"].as_str().unwrap().starts_with("Look into a text file"), "{read:#}");

    let diff = place.json(&["override", "diff"]);
    check("override-diff", &diff);
    let body = &diff["parts"][0];
    assert_eq!(body["path"], "sections/notes/body");
    assert_eq!(
        body["diff"],
        "--- agent/sections/notes/body\n+++ override/sections/notes/body\n@@ -1 +1 @@\n-Keep notes.\n+Keep few notes.\n"
    );
    let said = place.wink(&["override", "diff"]).ok();
    assert!(said.starts_with(body["diff"].as_str().unwrap()), "{said}");
    assert!(said.contains("+Look into a text file"), "{said}");
}

/// A set of overrides that says this of notes.
fn tagged(place: &Place, tag: &str, text: &str) {
    let file = format!("wink-overrides/ops/notes/{tag}.json");
    assert_eq!(place.wink(&["override", "seed", "--tag", tag]).out, format!("./{file}\n"));
    let seeded = place.text(&file).unwrap();
    place.put(&file, &seeded.replacen("\"Keep notes.\"", &format!("{text:?}"), 1));
}

#[test]
fn another_set_counts_where_it_is_asked_for() {
    let place = seeded();
    edit(&place, "\"Keep notes.\"", "\"Keep few notes.\"");
    tagged(&place, "exp", "Keep experiments.");
    tagged(&place, "own", "Keep your own.");
    let says = |arguments: &[&str], text: &str| {
        let said = place.wink(arguments);
        assert!(said.code == Some(0) && said.out.contains(text), "{arguments:?}: {said:?}");
    };
    says(&["prompt"], "Keep few notes.");
    says(&["prompt", "--tag", "exp"], "Keep experiments.");
    // What a model is asked with, too.
    let script = "{\"text\": \"Done.\"}\n";
    std::fs::write(place.outside("script.jsonl"), script).unwrap();
    let run = ["run", "x", "--model", "script:../script.jsonl", "--record", "../run.jsonl", "--tag", "exp"];
    assert_eq!(place.wink(&run).code, Some(0));
    let recorded = std::fs::read_to_string(place.outside("run.jsonl")).unwrap();
    assert!(recorded.contains("Keep experiments.") && !recorded.contains("Keep few notes."), "{recorded}");
    // A recording knows which.
    says(&["replay", "../run.jsonl"], "Done.");
    says(&["replay", "../run.jsonl", "--tag", "exp"], "Done.");
    assert_eq!(place.wink(&["replay", "../run.jsonl", "--tag", "own"]).code, Some(1), "another prompt");

    place.put("wink.toml", &AGENT.replace("key = \"notes\"\n\n", "key = \"notes\"\noverrides = \"own\"\n\n"));
    says(&["prompt"], "Keep your own.");
    says(&["prompt", "--tag", "latest"], "Keep few notes.");
    says(&["override", "diff"], "+Keep your own.");
    assert_eq!(place.json(&["override", "seed"])["tag"], "own");
    let said = place.wink(&["prompt", "--tag", "nothing"]);
    assert_eq!(
        (said.code, said.err.as_str()),
        (
            Some(2),
            "error: there are no overrides with the tag nothing: ./wink-overrides/ops/notes/nothing.json is not there\n\
             hint: `wink override seed --tag nothing` writes them, to be edited\n"
        )
    );
}

// case 222
#[test]
fn states_are_listed() {
    let place = Place::with_agent(AGENT);
    let said = place.wink(&["override", "list"]);
    assert_eq!(said.err, "note: there is no file of overrides; `wink override seed` writes one\n");
    let place = seeded();
    assert!(in_state(&place, "none").is_empty());
    assert!(in_state(&place, "fresh").iter().all(|(_, changed)| !changed));
    check("override-seed", &place.json(&["override", "seed"]));

    edit(&place, "\"Keep notes.\"", "\"Keep few notes.\"");
    edit(&place, "\"tools/grep/description\"", "\"tools/grab/description\"");
    place.put("wink.toml", &AGENT.replace("Keep notes.", "Keep all notes."));
    assert_eq!(in_state(&place, "stale"), [("sections/notes/body".to_owned(), true)]);
    assert_eq!(in_state(&place, "unknown"), [("tools/grab/description".to_owned(), false)]);
    assert_eq!(in_state(&place, "none"), [("tools/grep/description".to_owned(), false)]);
    assert!(place.wink(&["prompt"]).ok().contains("Keep all notes."), "a stale one is left out");
    let diff = place.wink(&["override", "diff"]).ok();
    assert_eq!(
        diff,
        "--- agent/sections/notes/body\n+++ override/sections/notes/body (stale: left out)\n@@ -1 +1 @@\n-Keep all notes.\n\
         +Keep few notes.\n"
    );
    let said = place.wink(&["override", "seed"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("stale overrides of sections/notes/body"), "{}", said.err);
    assert!(said.err.contains("hint: `wink override diff` shows both texts"), "{}", said.err);
}

#[test]
fn a_table_for_people() {
    let place = seeded();
    edit(&place, "\"Keep notes.\"", "\"Keep few notes.\"");
    let said = place.wink(&["override", "list"]).ok();
    let lines: Vec<Vec<&str>> = said.lines().take(3).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["STATE", "TEXT", "PART"]);
    assert_eq!(lines[1], ["fresh", "replaced", "sections/notes/body"]);
    assert_eq!(lines[2][..2], ["fresh", "unchanged"]);
}

#[test]
fn what_cannot_be_used_is_told_and_can_be_looked_after() {
    let place = seeded();
    place.put(FILE, "{");
    let said = place.wink(&["prompt"]);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("the overrides of the agent's texts cannot be used"), "{}", said.err);
    assert_eq!(place.wink(&["override", "list"]).code, Some(2));
    assert_eq!(place.wink(&["override", "list", "--tag", "other"]).code, Some(0));
    let said = place.wink(&["override", "seed", "--tag", "../x"]);
    assert_eq!(said.code, Some(2), "{said:?}");
}
