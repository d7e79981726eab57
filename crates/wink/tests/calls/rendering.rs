//! What the model sees of a result.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test"
)]

use std::collections::BTreeMap;

use wink::executor::{Executor, ExecutorLimits, Outcome, ToolCall};
use wink::prelude::*;
use wink::tool::ToolData;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Person {
    name: String,
    age: Option<u8>,
    friend: Option<Box<Person>>,
}

impl SliceType for Person {
    const NAME: &'static str = "person";
}

fn ada() -> Person {
    Person { name: "Ada".into(), age: Some(36), friend: None }
}

fn bob() -> Person {
    Person { name: "Bob".into(), age: None, friend: None }
}

impl Render for Person {
    fn render(&self) -> Result<String, RenderError> {
        match self.age {
            Some(age) => Ok(format!("{} ({age})", self.name)),
            None => Err(RenderError("no age".into())),
        }
    }
}

/// Calls a tool that returns this result.
async fn shown<R: ToolData + JsonSchema + Clone>(
    result: ToolResult<R>,
    more: impl FnOnce(Tool<(), R>) -> Tool<(), R>,
) -> (Outcome, Session) {
    let returns = move |(): (), _: &mut ToolContext| std::future::ready(result.clone());
    let tool = more(Tool::new("tool", "Return it.", returns));
    let section = Section::tools("tools", "Tools").tool(tool);
    let prompt = PromptTemplate::builder("tests", "rendering").section(section).build().unwrap().prompt();
    let session = Session::new();
    let executor = Executor::open(&prompt, &session).await.unwrap();
    (executor.call(ToolCall::new("1", "tool", "")).await, session)
}

async fn text<R: ToolData + JsonSchema + Clone>(value: R) -> String {
    shown(ToolResult::value(value), |tool| tool).await.0.text().to_owned()
}

// cases 62, 66
#[tokio::test]
async fn a_value_with_its_own_rendering() {
    let (outcome, _) = shown(ToolResult::value(ada()), Tool::rendered).await;
    assert_eq!(outcome.text(), "Ada (36)");
    let twice = |tool: Tool<(), Person>| tool.render_with(|person| Ok(format!("<{}>", person.name)));
    assert_eq!(shown(ToolResult::value(ada()), twice).await.0.text(), "<Ada>");
    let (outcome, _) = shown(ToolResult::value(vec![ada(), ada()]), Tool::rendered).await;
    assert_eq!(outcome.text(), "Ada (36)\nAda (36)");
}

// cases 63, 65, 68
#[tokio::test]
async fn a_value_without_one_is_compact_json_without_nulls() {
    assert_eq!(text(bob()).await, r#"{"name":"Bob"}"#);
    let nested = Person { friend: Some(Box::new(bob())), ..ada() };
    assert_eq!(text(nested).await, r#"{"name":"Ada","age":36,"friend":{"name":"Bob"}}"#);
    assert_eq!(text(vec![ada(), bob()]).await, "{\"name\":\"Ada\",\"age\":36}\n{\"name\":\"Bob\"}");
    let people: BTreeMap<String, Person> = [("first".to_owned(), bob())].into();
    assert_eq!(text(people).await, r#"{"first":{"name":"Bob"}}"#);
    assert_eq!(text(vec!["a".to_owned(), "b c".to_owned()]).await, "a\nb c");
    assert_eq!(text("as it is".to_owned()).await, "as it is");
}

// case 64
#[tokio::test]
async fn a_rendering_that_fails_falls_back_to_json() {
    let (outcome, _) = shown(ToolResult::ok(bob(), "found"), Tool::rendered).await;
    assert_eq!((outcome.text(), outcome.is_success()), ("found\n\n{\"name\":\"Bob\"}", true));
    let panics = |tool: Tool<(), Person>| tool.render_with(|_| panic!("no ink"));
    let (outcome, _) = shown(ToolResult::value(bob()), panics).await;
    assert_eq!((outcome.text(), outcome.is_success()), ("{\"name\":\"Bob\"}", true));
}

// case 67
#[tokio::test]
async fn nothing_is_the_empty_string() {
    assert_eq!(text(Vec::<Person>::new()).await, "");
    assert_eq!(text(()).await, "");
    assert_eq!(text(Option::<Person>::None).await, "");
}

// case 69
#[tokio::test]
async fn message_and_value() {
    assert_eq!(
        shown(ToolResult::ok(bob(), "found"), |tool| tool).await.0.text(),
        "found\n\n{\"name\":\"Bob\"}"
    );
    assert_eq!(shown(ToolResult::ok(bob(), ""), |tool| tool).await.0.text(), "{\"name\":\"Bob\"}");
    assert_eq!(shown(ToolResult::<Person>::done("found"), |tool| tool).await.0.text(), "found");
    assert_eq!(shown(ToolResult::ok((), "found"), |tool| tool).await.0.text(), "found");
}

// case 70
#[tokio::test]
async fn an_excluded_value_is_in_event_and_session_only() {
    let result = ToolResult::ok(ada(), "found").exclude_value_from_context();
    let (outcome, session) = shown(result, Tool::publishes).await;
    assert_eq!((outcome.text(), &*outcome.event.rendered), ("found", "found"));
    assert_eq!((outcome.event.value.typed(), outcome.event.value_hidden), (Some(ada()), true));
    assert_eq!(session.slice::<Person>().latest().as_deref(), Some(&ada()));
}

// case 71
#[tokio::test]
async fn text_is_never_escaped() {
    let person = Person { name: "Zoë 日本 🦀".into(), age: None, friend: None };
    assert_eq!(text(person.clone()).await, r#"{"name":"Zoë 日本 🦀"}"#);
    assert_eq!(text(vec![person.name]).await, "Zoë 日本 🦀");
}

#[tokio::test]
async fn long_answers_are_cut_on_a_character_and_the_log_keeps_them() {
    let limits = ExecutorLimits::default();
    let long = "é".repeat(limits.max_answer_bytes);
    let (outcome, _) = shown(ToolResult::value(long.clone()), |tool| tool).await;
    assert!(outcome.text().len() <= limits.max_answer_bytes);
    assert!(outcome.text().ends_with("bytes in all]"), "a clear marker");
    assert!(outcome.text().starts_with("éé"));
    assert_eq!(*outcome.event.rendered, *long, "the log has it whole");
    let huge = "x".repeat(limits.max_logged_bytes + 1);
    let (outcome, _) = shown(ToolResult::value(huge), |tool| tool).await;
    assert!(outcome.event.rendered.len() <= limits.max_logged_bytes);
}
