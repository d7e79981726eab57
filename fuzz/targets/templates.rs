//! Section bodies from anywhere: a template is refused at construction or renders, what is inserted is never
//! expanded again, and text without a placeholder comes out as it went in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wink::prompt::{PromptTemplate, Section};
use wink::session::Session;

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
struct Values {
    name: String,
    count: u32,
}

/// One input of the fuzzer, or of its corpus.
pub fn run(body: &str) {
    let section = Section::markdown("body", "Body").params::<Values>().body(body);
    let Ok(template) = PromptTemplate::builder("fuzz", "templates").section(section).build() else { return };
    // What is inserted looks like a placeholder itself.
    let values = Values { name: "${count}$$name".to_owned(), count: 7 };
    let prompt = template.bind(values).expect("the section takes these");
    let rendered = prompt.render(&Session::new()).expect("a template that was accepted renders");
    let text = rendered.text();
    let plain = !body.contains('$') && !body.contains(['\n', '\r', '\t']) && body.trim() == body;
    if plain && !body.is_empty() {
        assert_eq!(text, format!("## 1. Body\n\n{body}"));
    }
    if body.trim() == "$name" || body.trim() == "${name}" {
        assert!(text.ends_with("${count}$$name"), "{text}");
    }
}
