//! Every shape that a handler and its types can have, and what a tool's definition is held to.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic when they fail"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use wink::executor::{Executor, Outcome, ToolCall};
use wink::filesystem::MemoryFilesystem;
use wink::prelude::*;
use wink::prompt::PromptValidationError;
use wink::resource::Binding;
use wink::session::{Ending, ToolInvoked};
use wink::tool::{Annotations, Handler, HandlerKind, IntoTool};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Text {
    text: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Entry {
    name: String,
    size: Option<u32>,
}

fn text(text: &str) -> Text {
    Text { text: text.to_owned() }
}

fn entry(name: &str) -> Entry {
    Entry { name: name.to_owned(), size: None }
}

fn prompt(tool: impl IntoTool) -> Result<Prompt, PromptValidationError> {
    let files = Arc::new(MemoryFilesystem::new());
    let section = Section::tools("shapes", "Shapes").tool(tool).resource(Binding::filesystem(files));
    Ok(PromptTemplate::builder("tests", "handlers").section(section).build()?.prompt())
}

/// Runs one call in a session of its own.
async fn run(tool: impl IntoTool, arguments: &str) -> Outcome {
    let name = tool.declared_name().to_owned();
    let executor = Executor::open(&prompt(tool).unwrap(), &Session::new()).await.unwrap();
    let outcome = executor.call(ToolCall::new("1", name, arguments)).await;
    assert!(outcome.escalation.is_none(), "{:?}", outcome.escalation);
    outcome
}

async fn shown(tool: impl IntoTool, arguments: &str) -> (bool, String) {
    let outcome = run(tool, arguments).await;
    (outcome.is_success(), outcome.text().to_owned())
}

fn yes(text: &str) -> (bool, String) {
    (true, text.to_owned())
}

fn no(text: &str) -> (bool, String) {
    (false, text.to_owned())
}

/// What is wrong with a tool.
fn refusal(tool: impl IntoTool) -> String {
    tool.into_tool().expect_err("the tool is refused").to_string()
}

mod shapes {
    use super::*;

    async fn plain(params: Text, _cx: &mut ToolContext) -> ToolResult<String> {
        ToolResult::value(params.text)
    }

    async fn fallible(params: Text, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
        if params.text.is_empty() {
            return Err(ToolError::new("say something"));
        }
        cx.filesystem().await?.write_text("said.txt", &params.text).await?;
        let said = cx.filesystem().await?.read_text("said.txt").await?;
        Ok(ToolResult::ok(said, "said"))
    }

    /// Any error that is one can be returned, and `?` turns others into it.
    async fn own_error(
        params: Text,
        _cx: &mut ToolContext,
    ) -> Result<ToolResult<i32>, std::num::ParseIntError> {
        Ok(ToolResult::value(params.text.parse()?))
    }

    async fn any_error(params: Text, _cx: &mut ToolContext) -> Result<ToolResult<i32>, ToolError> {
        let number: i32 = params.text.parse()?;
        let checked = u8::try_from(number).or_tell("only 0 to 255")?;
        Ok(ToolResult::value(checked.into()))
    }

    async fn reading(_: (), cx: &mut ReadContext) -> Result<ToolResult<bool>, ToolError> {
        Ok(ToolResult::value(cx.filesystem().await?.exists("said.txt").await?))
    }

    async fn reading_plainly(_: (), cx: &mut ReadContext) -> ToolResult<String> {
        ToolResult::value(cx.tool().name().to_string())
    }

    #[tokio::test]
    async fn an_async_fn_returns_a_result_or_an_error() {
        assert_eq!(shown(Tool::new("t", "Plain.", plain), r#"{"text":"hi"}"#).await, yes("hi"));
        let tool = || Tool::new("t", "Fallible.", fallible);
        assert_eq!(shown(tool(), r#"{"text":"hi"}"#).await, yes("said\n\nhi"));
        assert_eq!(shown(tool(), r#"{"text":""}"#).await, no("say something"));
    }

    #[tokio::test]
    async fn any_error_converts() {
        let tool = || Tool::new("t", "Its own error.", own_error);
        assert_eq!(shown(tool(), r#"{"text":"7"}"#).await, yes("7"));
        assert_eq!(shown(tool(), r#"{"text":"x"}"#).await, no("invalid digit found in string"));
        let tool = || Tool::new("t", "Any error.", any_error);
        assert_eq!(shown(tool(), r#"{"text":"7"}"#).await, yes("7"));
        assert_eq!(shown(tool(), r#"{"text":"x"}"#).await, no("invalid digit found in string"));
        let outcome = run(tool(), r#"{"text":"300"}"#).await;
        assert_eq!(outcome.text(), "only 0 to 255");
        assert_eq!(
            outcome.event.error_chain,
            ["only 0 to 255", "out of range integral type conversion attempted"]
        );
    }

    #[tokio::test]
    async fn a_read_context_makes_a_read_only_tool() {
        let tool = Tool::new("t", "Looks.", reading);
        assert_eq!(shown(tool, "").await, yes("false"));
        let tool = Tool::new("t", "Looks.", reading_plainly).into_tool().unwrap();
        let expected =
            Annotations { read_only: true, destructive: false, idempotent: true, open_world: true };
        assert_eq!(tool.contract().annotations(), expected);
        assert_eq!(shown(tool, "").await, yes("t"));
    }

    fn blocking(params: Text, cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
        let said = cx.block_on(async {
            let files = cx.filesystem().await?;
            files.write_text("said.txt", &params.text).await?;
            Ok::<_, ToolError>(files.read_text("said.txt").await?)
        })?;
        Ok(ToolResult::value(said))
    }

    fn blocking_plainly(_: (), cx: &mut ReadContext) -> ToolResult<String> {
        ToolResult::value(cx.tool().name().to_string())
    }

    #[tokio::test]
    async fn a_plain_fn_is_a_blocking_handler() {
        let tool = Tool::blocking("t", "Blocks.", blocking).into_tool().unwrap();
        assert_eq!(tool.contract().handler(), HandlerKind::Blocking);
        assert_eq!(shown(tool, r#"{"text":"hi"}"#).await, yes("hi"));
        let tool = Tool::blocking("t", "Blocks and looks.", blocking_plainly).into_tool().unwrap();
        assert!(tool.contract().annotations().read_only);
        assert_eq!(shown(tool, "").await, yes("t"));
        let prefix = "dear ".to_owned();
        let closure =
            move |params: Text, _: &mut ToolContext| ToolResult::value(prefix.clone() + &params.text);
        assert_eq!(
            shown(Tool::blocking("t", "Closes over.", closure), r#"{"text":"me"}"#).await,
            yes("dear me")
        );
    }

    /// A handler with state of its own.
    struct Counter(Arc<AtomicU32>);

    #[allow(refining_impl_trait, reason = "what it returns is plain to see")]
    impl Handler<ToolContext, Text, u32> for Counter {
        async fn call(&self, params: Text, _cx: &mut ToolContext) -> Result<ToolResult<u32>, ToolError> {
            let before = self.0.fetch_add(1, Ordering::SeqCst);
            Ok(ToolResult::ok(before + 1, params.text))
        }
    }

    #[tokio::test]
    async fn a_type_with_state_is_a_handler() {
        let count = Arc::new(AtomicU32::new(0));
        let tool = Tool::new("t", "Counts.", Counter(Arc::clone(&count))).into_tool().unwrap();
        assert_eq!(shown(tool.clone(), r#"{"text":"once"}"#).await, yes("once\n\n1"));
        assert_eq!(shown(tool, r#"{"text":"twice"}"#).await, yes("twice\n\n2"));
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }

    async fn echo(params: Value, _cx: &mut ToolContext) -> ToolResult<Value> {
        ToolResult::value(params)
    }

    #[tokio::test]
    async fn a_dynamic_tool_takes_its_schema_at_run_time() {
        let schema = json!({
            "type": "object",
            "properties": { "count": { "type": "integer", "minimum": 1 } },
            "required": ["count"],
        });
        let tool = Tool::dynamic("t", "Echoes.", schema, echo).into_tool().unwrap();
        assert_eq!(shown(tool.clone(), r#"{"count":2}"#).await, yes(r#"{"count":2}"#));
        let (success, text) = shown(tool, r#"{"count":0}"#).await;
        assert!(!success && text.contains("count"), "{text}");
    }
}

mod values {
    use super::*;

    async fn nothing(_: (), _cx: &mut ToolContext) -> ToolResult<()> {
        ToolResult::done("done")
    }

    async fn nothing_said(_: (), _cx: &mut ToolContext) -> ToolResult<()> {
        ToolResult::value(())
    }

    async fn string(_: (), _cx: &mut ToolContext) -> ToolResult<String> {
        ToolResult::value("日本 \"é\"".to_owned())
    }

    async fn structure(_: (), _cx: &mut ToolContext) -> ToolResult<Entry> {
        ToolResult::value(entry("a"))
    }

    async fn map(_: (), _cx: &mut ToolContext) -> ToolResult<BTreeMap<String, u32>> {
        ToolResult::value(BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]))
    }

    async fn strings(_: (), _cx: &mut ToolContext) -> ToolResult<Vec<String>> {
        ToolResult::value(vec!["a".to_owned(), "b".to_owned()])
    }

    async fn structures(_: (), _cx: &mut ToolContext) -> ToolResult<Vec<Entry>> {
        ToolResult::value(vec![entry("a"), Entry { name: "b".to_owned(), size: Some(2) }])
    }

    async fn maps(_: (), _cx: &mut ToolContext) -> ToolResult<Vec<BTreeMap<String, u32>>> {
        ToolResult::value(vec![BTreeMap::from([("a".to_owned(), 1)]), BTreeMap::new()])
    }

    async fn nothings(_: (), _cx: &mut ToolContext) -> ToolResult<Vec<()>> {
        ToolResult::ok(vec![(), ()], "twice")
    }

    #[tokio::test]
    async fn a_value_may_be_nothing_a_string_a_struct_a_map_or_a_list_of_them() {
        assert_eq!(shown(Tool::new("t", "T.", nothing), "").await, yes("done"));
        assert_eq!(shown(Tool::new("t", "T.", nothing_said), "").await, yes(""));
        assert_eq!(shown(Tool::new("t", "T.", string), "").await, yes("日本 \"é\""));
        assert_eq!(shown(Tool::new("t", "T.", structure), "").await, yes(r#"{"name":"a"}"#));
        assert_eq!(shown(Tool::new("t", "T.", map), "").await, yes(r#"{"a":1,"b":2}"#));
        assert_eq!(shown(Tool::new("t", "T.", strings), "").await, yes("a\nb"));
        assert_eq!(
            shown(Tool::new("t", "T.", structures), "").await,
            yes("{\"name\":\"a\"}\n{\"name\":\"b\",\"size\":2}")
        );
        assert_eq!(shown(Tool::new("t", "T.", maps), "").await, yes("{\"a\":1}\n{}"));
        let outcome = run(Tool::new("t", "T.", nothings), "").await;
        assert_eq!(outcome.value::<Vec<()>>(), Some(vec![(), ()]));
    }

    #[tokio::test]
    async fn the_value_comes_back_in_its_own_type() {
        let outcome = run(Tool::new("t", "T.", structures), "{}").await;
        let expected = vec![entry("a"), Entry { name: "b".to_owned(), size: Some(2) }];
        assert_eq!(outcome.value::<Vec<Entry>>(), Some(expected));
        assert_eq!(outcome.value::<Entry>(), None);
    }
}

async fn say(params: Text, _cx: &mut ToolContext) -> ToolResult<Vec<Text>> {
    ToolResult::value(vec![params])
}

async fn ping(_: (), _cx: &mut ToolContext) -> ToolResult<()> {
    ToolResult::done("pong")
}

async fn answer(_: Value, _cx: &mut ToolContext) -> ToolResult<Value> {
    ToolResult::value(json!([]))
}

fn named(name: impl Into<String>) -> Tool<Text, Vec<Text>> {
    Tool::new(name, "Say it.", say)
}

fn described(description: impl Into<String>) -> Tool<Text, Vec<Text>> {
    Tool::new("say", description, say)
}

/// A dynamic tool without parameters whose value is a list of numbers.
fn dynamic() -> Tool<Value, Value> {
    Tool::dynamic("numbers", "Numbers.", json!({ "type": "object" }), answer)
        .output_schema(json!({ "type": "array", "items": { "type": "integer" } }))
}

// case 1
#[test]
fn a_name_is_held_to_its_pattern() {
    for name in ["read_file-2", "a", "7", &"x".repeat(64)] {
        assert_eq!(&**named(name).into_tool().unwrap().name(), name);
    }
    let too_long = "x".repeat(65);
    for name in ["Read", "a b", "", too_long.as_str(), "läs", "読む", "a.b", "a\n"] {
        let error = refusal(named(name));
        assert!(error.contains("tool name"), "{error}");
        assert!(error.contains("^[a-z0-9_-]{1,64}$") || name == "a\n", "{error}");
    }
    let error = prompt(named("Read")).unwrap_err();
    assert_eq!((error.section.as_str(), error.tool.as_deref()), ("shapes", Some("Read")));
    assert!(error.to_string().contains("^[a-z0-9_-]{1,64}$"), "{error}");
}

// case 2
#[test]
fn a_name_is_never_trimmed() {
    for name in [" say", "say ", "\tsay", "say\n"] {
        let expected = format!("tool name {name:?} has whitespace around it; names are never trimmed");
        assert_eq!(refusal(named(name)), expected);
    }
}

// case 3
#[test]
fn a_description_has_1_to_200_characters_and_is_trimmed() {
    let longest = "é".repeat(200);
    let tool = described(format!("  {longest}\n")).into_tool().unwrap();
    assert_eq!(tool.contract().description(), longest);
    let error = refusal(described("é".repeat(201)));
    assert_eq!(error, "tool say: its description must have 1 to 200 characters, not 201");
    for blank in ["", "  ", "\n\t"] {
        assert_eq!(
            refusal(described(blank)),
            "tool say: its description must have 1 to 200 characters, not 0"
        );
    }
}

// case 4
#[test]
fn a_description_may_be_in_any_script_but_has_no_control_characters() {
    for description in ["Sagt é.", "日本", "Скажи", "👋"] {
        assert_eq!(described(description).into_tool().unwrap().contract().description(), description);
    }
    for description in ["a\u{0}b", "a\u{7}b", "a\u{1b}[31mb", "a\nb", "a\u{85}b"] {
        let error = refusal(described(description));
        assert_eq!(error, "tool say: its description must not contain control characters");
    }
}

// case 7
#[test]
fn an_example_whose_input_is_of_another_type_is_refused() {
    let schema = json!({
        "type": "object",
        "properties": { "text": { "type": "string" } },
        "required": ["text"],
    });
    let tool = || Tool::dynamic("say", "Say it.", schema.clone(), answer);
    let built = tool().example("It fits.", json!({ "text": "hi" }), json!(null)).into_tool().unwrap();
    assert_eq!(built.contract().examples()[0].input, json!({ "text": "hi" }));
    for wrong in [json!({ "text": 7 }), json!({ "other": "hi" }), json!([1]), json!("hi")] {
        let error = refusal(tool().example("It does not.", wrong, json!(null)));
        assert!(error.starts_with("tool say: example \"It does not.\": its input: "), "{error}");
    }
}

// case 8
#[test]
fn an_examples_description_has_1_to_200_characters() {
    let tool = |description: String| described("Say it.").example(description, text("hi"), vec![]);
    assert!(tool("x".repeat(200)).into_tool().is_ok());
    for (description, count) in [("x".repeat(201), 201), (String::new(), 0), ("  ".to_owned(), 0)] {
        let expected =
            format!("tool say: the description of an example must have 1 to 200 characters, not {count}");
        assert_eq!(refusal(tool(description)), expected);
    }
}

// case 9
#[test]
fn an_example_of_a_parameterless_tool_has_no_input() {
    let tool =
        Tool::new("ping", "Ping.", ping).example("Nothing in, nothing out.", (), ()).into_tool().unwrap();
    assert_eq!(tool.contract().examples()[0].input, json!({}));
    for input in [json!(null), json!({})] {
        assert!(dynamic().example("Nothing in.", input, json!([])).into_tool().is_ok());
    }
    for input in [json!({ "text": "hi" }), json!(7), json!("")] {
        let error = refusal(dynamic().example("Something in.", input, json!([])));
        assert!(error.starts_with("tool numbers: example \"Something in.\": its input: "), "{error}");
    }
}

// case 10
#[test]
fn an_example_of_an_array_tool_shows_an_array() {
    assert!(dynamic().example("A list.", json!({}), json!([1, 2])).into_tool().is_ok());
    for output in [json!({ "number": 1 }), json!(1), json!(null), json!(["one"])] {
        let error = refusal(dynamic().example("No list.", json!({}), output));
        assert!(error.starts_with("tool numbers: example \"No list.\": its output: "), "{error}");
    }
}

// case 14
#[tokio::test]
async fn a_tool_without_a_handler_suggests_the_nearest_that_can_be_called() {
    async fn echo(text: Text, _: &mut ToolContext) -> ToolResult<String> {
        ToolResult::value(text.text)
    }
    let section = Section::tools("tools", "Tools")
        .tool(Tool::<Text, String>::without_handler("send_mail", "Somebody else's."))
        .tool(Tool::<Text, String>::without_handler("send_mails", "Somebody else's."))
        .tool(Tool::new("send_email", "Ours.", echo));
    let prompt = PromptTemplate::builder("tests", "nearest").section(section).build().unwrap().prompt();
    let executor = Executor::open(&prompt, &Session::new()).await.unwrap();
    for (name, why) in [
        ("send_mail", "Tool 'send_mail' has no handler here and cannot be called"),
        ("send_mals", "Unknown tool 'send_mals'"),
    ] {
        let outcome = executor.call(ToolCall::new("1", name, r#"{"text":"hi"}"#)).await;
        assert_eq!(outcome.text(), format!("{why}. Did you mean 'send_email'?"));
        assert_eq!(outcome.event.ending, Ending::Unavailable);
    }
}

// case 14
#[tokio::test]
async fn a_tool_without_a_handler_is_listed_and_calling_it_fails() {
    let tool = Tool::<Text, String>::without_handler("elsewhere", "Somebody else's.");
    let prompt = prompt(tool).unwrap();
    let session = Session::new();
    let executor = Executor::open(&prompt, &session).await.unwrap();
    let listed: Vec<String> =
        prompt.tools(&session).unwrap().iter().map(|tool| tool.name().to_string()).collect();
    assert_eq!(listed, ["elsewhere"]);
    let outcome = executor.call(ToolCall::new("1", "elsewhere", r#"{"text":"hi"}"#)).await;
    assert!(!outcome.is_success() && outcome.escalation.is_none());
    assert!(outcome.text().contains("elsewhere"), "{}", outcome.text());
    assert_ne!(outcome.event.ending, Ending::Succeeded);
    let events: Vec<Arc<ToolInvoked>> = session.slice::<ToolInvoked>().iter().collect();
    assert_eq!(events.iter().map(|event| event.id).collect::<Vec<_>>(), [outcome.event.id]);
}

#[test]
fn a_tool_is_what_it_was_said_to_be() {
    async fn echo(text: Text, _: &mut ToolContext) -> ToolResult<Text> {
        ToolResult::value(text)
    }
    let said = |tool: Tool<Text, Text>| {
        let tool = tool.into_tool().unwrap();
        let contract = tool.contract();
        (contract.annotations(), contract.accepts_overrides(), contract.timeout())
    };
    let unknown = Annotations { read_only: false, destructive: true, idempotent: false, open_world: true };
    assert_eq!(said(Tool::new("echo", "Echo.", echo)), (unknown, true, None));
    let harmless = Annotations { read_only: true, destructive: false, idempotent: true, open_world: false };
    let minute = Duration::from_secs(60);
    let tool = Tool::new("echo", "Echo.", echo).annotations(harmless).timeout(minute).without_overrides();
    assert_eq!(said(tool), (harmless, false, Some(minute)));
}

#[test]
fn a_result_is_what_it_was_made_as() {
    let said = |result: ToolResult<u8>| {
        let (message, value) = (result.message().to_owned(), result.payload().copied());
        (message, value, result.is_success(), result.is_value_excluded())
    };
    let hidden = ToolResult::ok(7, "seven").exclude_value_from_context();
    assert_eq!(said(ToolResult::ok(7, "seven")), ("seven".to_owned(), Some(7), true, false));
    assert_eq!(said(ToolResult::value(7)), (String::new(), Some(7), true, false));
    assert_eq!(said(ToolResult::done("done")), ("done".to_owned(), None, true, false));
    assert_eq!(said(ToolResult::error("no")), ("no".to_owned(), None, false, false));
    assert_eq!(said(ToolResult::failed(7, "no")), ("no".to_owned(), Some(7), false, false));
    assert_eq!(said(hidden), ("seven".to_owned(), Some(7), true, true));
}
