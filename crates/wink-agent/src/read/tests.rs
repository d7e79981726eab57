use serde_json::Value;

use super::walk::KNOWN;
use super::{read, schema};
use crate::problem::Problems;

/// Keywords that say something to people only.
const SAID: [&str; 6] = ["$schema", "title", "description", "format", "examples", "default"];

fn keywords(schema: &Value, found: &mut Vec<String>) {
    let Value::Object(fields) = schema else { return };
    for (keyword, value) in fields {
        found.push(keyword.clone());
        match (keyword.as_str(), value) {
            ("properties" | "$defs", Value::Object(schemas)) => {
                schemas.values().for_each(|schema| keywords(schema, found));
            }
            ("oneOf", Value::Array(schemas)) => schemas.iter().for_each(|schema| keywords(schema, found)),
            (_, schema) => keywords(schema, found),
        }
    }
}

#[test]
fn the_walk_knows_every_keyword_that_the_schema_has() {
    let mut found = Vec::new();
    keywords(&schema(), &mut found);
    found.sort();
    found.dedup();
    // Texts with a unit are taken apart later, which says more than that a pattern does not match.
    let unknown: Vec<_> = found
        .iter()
        .filter(|name| {
            !KNOWN.contains(&name.as_str()) && !SAID.contains(&name.as_str()) && *name != "pattern"
        })
        .collect();
    assert_eq!(unknown, Vec::<&String>::new());
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
