//! Section bodies from anywhere: a template is refused at construction or renders, and renders to what a simple model
//! of placeholders says. What is inserted is never expanded again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wink::prompt::{PromptTemplate, Section};
use wink::session::Session;

/// Looks like placeholders itself.
const NAME: &str = "${count}$$name";

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Values {
    name: String,
    count: u32,
}

/// One input of the fuzzer, or of its corpus.
pub fn run(body: &str) {
    let section = Section::markdown("body", "Body").params::<Values>().body(body);
    let built = PromptTemplate::builder("fuzz", "templates").section(section).build();
    // Without indentation there is nothing to take away.
    let flat =
        body.trim() == body && !body.is_empty() && !body.split('\n').any(|line| line.trim_start() != line);
    let expected = flat.then(|| filled(body));
    if let Some(expected) = &expected {
        assert_eq!(built.is_ok(), expected.is_some(), "{body:?}");
    }
    let Ok(template) = built else { return };
    let prompt = template.bind(Values { name: NAME.to_owned(), count: 7 }).expect("the section takes these");
    let rendered = prompt.render(&Session::new()).expect("a template that was accepted renders");
    match expected.flatten() {
        Some(expected) => assert_eq!(rendered.text(), format!("## 1. Body\n\n{expected}")),
        None => assert!(rendered.text().starts_with("## 1. Body")),
    }
}

/// The body with its values; nothing when a `$` is neither doubled nor the start of a known name.
fn filled(body: &str) -> Option<String> {
    let (first, rest) = body.split_once('$').map_or((body, None), |(first, rest)| (first, Some(rest)));
    let Some(rest) = rest else { return Some(first.to_owned()) };
    let in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (value, rest) = if let Some(rest) = rest.strip_prefix('$') {
        ("$", rest)
    } else {
        let (name, rest) = match rest.strip_prefix('{') {
            Some(braced) => braced.split_once('}')?,
            None => rest.split_at(rest.find(|c| !in_name(c)).unwrap_or(rest.len())),
        };
        let value = match name {
            "name" => NAME,
            "count" => "7",
            _ => return None,
        };
        (value, rest)
    };
    Some(format!("{first}{value}{}", filled(rest)?))
}
