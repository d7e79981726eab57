use super::read;
use super::rules::rules;
use super::schema::{TEXT, of_types};
use crate::problem::Problems;

/// `WINK_WRITE_SCHEMA=1 cargo test -p wink-agent` writes it, for you to look at.
#[test]
fn the_schema_is_what_the_types_say() {
    let made = format!("{}\n", serde_json::to_string_pretty(&of_types()).expect("it is JSON"));
    if std::env::var_os("WINK_WRITE_SCHEMA").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/read/schema.json");
        std::fs::write(path, &made).expect("it can be written");
    }
    assert!(made == TEXT, "src/read/schema.json is not what the types say; WINK_WRITE_SCHEMA=1 writes it");
}

#[test]
fn the_walk_knows_every_keyword_that_the_schema_has() {
    let rules = rules().expect("it is refused where a keyword is not known");
    assert!(rules.properties.names().eq([
        "agent",
        "model",
        "limits",
        "sandbox",
        "guard",
        "output",
        "completion",
        "policy",
        "section"
    ]));
}

#[test]
fn what_fits_is_decoded_whatever_is_beside_it() {
    let text = "[agent]\nns = 1\nkey = \"k\"\n[[section]]\nkey = \"a\"\nsuites = [\"files\", \"nothing\", 3, \"planning\"]\n";
    let mut problems = Problems::default();
    let file = read(text, &mut problems);
    let agent = file.agent.expect("it is there");
    assert!(agent.ns.is_none());
    assert_eq!(agent.key.as_ref().map(|key| key.value.as_str()), Some("k"));
    let section = file.section.first().expect("it is there");
    assert_eq!(section.suites.iter().map(|suite| suite.name()).collect::<Vec<_>>(), ["files", "planning"]);
    assert_eq!(section.suites.first().map(|suite| &text[suite.span.clone()]), Some("\"files\""));
    // A number, a missing title, and two suites.
    assert_eq!(problems.count(), 4);
}
