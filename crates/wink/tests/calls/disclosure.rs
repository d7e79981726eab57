//! Progressive disclosure: closed sections, and the two built-in tools that open and read them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests panic when they fail"
)]

use std::sync::Arc;

use wink::BoxFuture;
use wink::executor::{CallOptions, Escalation, Executor, ExpansionError, Outcome, ToolCall};
use wink::policy::{Decision, PolicyCall, PolicyContext, ToolPolicy};
use wink::prelude::*;
use wink::prompt::{Hidden, PromptValidationError, SectionVisibility, record_expansion};
use wink::resource::BoxError;
use wink::serde_json::{Value, json};
use wink::session::{Ending, PromptRendered, ToolInvoked};
use wink::testing::{ByteStore, FaultyStore, StoreOp};
use wink::tool::VisibilityExpansionRequired;
use wink::tool::secret::Secret;

async fn nothing(_: (), _: &mut ToolContext) -> ToolResult<()> {
    ToolResult::done("done")
}

fn tool(name: &str) -> Tool<(), ()> {
    Tool::new(name, "Does nothing.", nothing).example(format!("How to {name}"), (), ())
}

fn closed(key: &str, title: &str) -> Section {
    Section::markdown(key, title)
        .body(format!("All about {key}."))
        .summary(format!("{key} in short."))
        .visibility(Visibility::Summary)
}

/// A closed section without tools, a closed one with a closed one below it, and an open one.
fn template() -> Result<PromptTemplate, PromptValidationError> {
    PromptTemplate::builder("tests", "disclosure")
        .section(Section::markdown("off", "Off").enabled_when(|_| false).child(closed("in", "In")))
        .section(closed("manual", "Manual").child(Section::markdown("more", "More").body("And more.")))
        .section(
            closed("ops", "Operations")
                .tool(tool("restart"))
                .child(closed("deploy", "Deploy").tool(tool("deploy")))
                .child(Section::markdown("watch", "Watch").body("Keep watching.").tool(tool("watch"))),
        )
        .section(Section::markdown("task", "Task").body("Do it.").tool(tool("act")))
        .build()
}

async fn open() -> Executor {
    Executor::open(&template().unwrap().prompt(), &Session::new()).await.unwrap()
}

async fn call(executor: &Executor, tool: &str, arguments: Value) -> Outcome {
    executor.call(ToolCall::new("call", tool, arguments.to_string())).await
}

async fn open_sections(executor: &Executor, keys: &[&str]) -> Outcome {
    call(executor, "open_sections", json!({ "reason": "to see", "section_keys": keys })).await
}

fn asked(outcome: &Outcome) -> VisibilityExpansionRequired {
    match &outcome.escalation {
        Some(Escalation::Visibility(expansion)) => expansion.clone(),
        other => panic!("{other:?}: {}", outcome.text()),
    }
}

fn names(executor: &Executor) -> Vec<String> {
    executor.rendered().unwrap().tools().iter().map(|placed| placed.name().to_string()).collect()
}

/// Every STATE slice.
fn state(session: &Session) -> Value {
    session.snapshot().to_json().unwrap()["slices"].take()
}

// case 218
#[tokio::test]
async fn a_closed_section_shows_its_summary_and_how_to_open_it() {
    let executor = open().await;
    assert_eq!(
        executor.rendered().unwrap().text(),
        r#"## 1. Manual

manual in short.

[Closed. To read it, call `read_section` with section_key "manual".]

## 2. Operations

ops in short.

[Closed. To read it and use its tools, call `open_sections` with section_keys ["ops"].]

## 3. Task

Do it.

Examples of `act`:

- How to act
  call: `{}`
  result: (empty)"#
    );
    assert_eq!(names(&executor), ["act", "open_sections", "read_section"]);
    let why = Hidden::Closed { section: "ops".into() };
    for name in ["restart", "deploy", "watch"] {
        assert_eq!(executor.rendered().unwrap().hidden(name), Some(&why));
    }
    let refused = call(&executor, "deploy", json!({})).await;
    assert!(!refused.is_success());
    assert!(
        refused
            .text()
            .contains("section ops is closed; call open_sections with section_keys [\"ops\"] first"),
        "{}",
        refused.text()
    );
}

// case 219
#[tokio::test]
async fn what_cannot_be_opened_is_a_failed_result() {
    let executor = open().await;
    for (keys, text) in [
        (vec![], "No section was named. Closed sections: \"manual\", \"ops\"."),
        (vec!["nope"], "Unknown sections: \"nope\". Closed sections: \"manual\", \"ops\"."),
        (vec!["ops", "off.in"], "Unknown sections: \"off.in\". Closed sections: \"manual\", \"ops\"."),
        (vec!["ops."], "Unknown sections: \"ops.\". Closed sections: \"manual\", \"ops\"."),
        (vec!["task"], "These sections are open already. Closed sections: \"manual\", \"ops\"."),
    ] {
        let outcome = open_sections(&executor, &keys).await;
        assert!(!outcome.is_success() && outcome.escalation.is_none(), "{keys:?}");
        assert_eq!(outcome.text(), text);
    }
}

// case 219
#[tokio::test]
async fn only_closed_sections_are_asked_for() {
    let executor = open().await;
    let before = state(executor.session());
    let outcome = open_sections(&executor, &["task", "ops", "manual", "ops"]).await;
    let expected =
        VisibilityExpansionRequired { keys: vec!["ops".into(), "manual".into()], reason: "to see".into() };
    assert_eq!(asked(&outcome), expected);
    assert!(outcome.text().to_lowercase().contains("opened"), "{}", outcome.text());
    assert_eq!(state(executor.session()), before);
    assert_eq!(executor.session().slice::<ToolInvoked>().len(), 1);
    // What is closed above a section is in its way.
    assert_eq!(asked(&open_sections(&executor, &["ops.deploy"]).await).keys, ["ops", "ops.deploy"]);
    assert_eq!(asked(&open_sections(&executor, &["manual.more"]).await).keys, ["manual"]);
}

/// Whoever hands the answer on and dies at once has told no lie: what is said to be open is.
#[tokio::test]
async fn what_a_driven_call_opened_is_stored_before_it_is_answered() {
    let store = Arc::new(ByteStore::new());
    let prompt = template().unwrap().prompt();
    let session = Session::builder().id("s").store(store.clone()).open().await.unwrap();
    let executor = Executor::open(&prompt, &session).await.unwrap();
    let arguments = json!({ "section_keys": ["ops"], "reason": "to see" }).to_string();
    let outcome = executor.drive(ToolCall::new("1", "open_sections", arguments), CallOptions::new()).await;
    assert_eq!(asked(&outcome).keys, ["ops"]);
    let open = ["restart", "watch", "act", "open_sections", "read_section"];
    assert_eq!(names(&executor), open);
    let store = Arc::new(store.reopen().unwrap());
    let session = Session::builder().id("s").store(store).open().await.unwrap();
    let again = Executor::open(&prompt, &session).await.unwrap();
    assert_eq!(names(&again), open);
}

#[tokio::test]
async fn what_could_not_be_stored_is_not_said_to_be_open() {
    let store = Arc::new(FaultyStore::new(Arc::new(ByteStore::new())));
    let session = Session::builder().store(store.clone()).open().await.unwrap();
    let executor = Executor::open(&template().unwrap().prompt(), &session).await.unwrap();
    // The first is the call's own.
    store.fail(StoreOp::Commit, 2);
    let arguments = json!({ "section_keys": ["ops"], "reason": "to see" }).to_string();
    let outcome = executor.drive(ToolCall::new("1", "open_sections", arguments), CallOptions::new()).await;
    let Some(Escalation::NotOpened(error @ ExpansionError::Store(_))) = &outcome.escalation else {
        panic!("{:?}", outcome.escalation);
    };
    assert_eq!(outcome.text(), format!("open_sections failed: {error}"));
}

#[tokio::test]
async fn an_expansion_opens_the_section_and_its_tools() {
    let executor = open().await;
    let expansion = asked(&open_sections(&executor, &["ops"]).await);
    executor.expand(&expansion).unwrap();
    assert_eq!(
        executor.rendered().unwrap().text(),
        r#"## 1. Manual

manual in short.

[Closed. To read it, call `read_section` with section_key "manual".]

## 2. Operations

All about ops.

Examples of `restart`:

- How to restart
  call: `{}`
  result: (empty)

### 2.1. Deploy

deploy in short.

[Closed. To read it and use its tools, call `open_sections` with section_keys ["ops.deploy"].]

### 2.2. Watch

Keep watching.

Examples of `watch`:

- How to watch
  call: `{}`
  result: (empty)

## 3. Task

Do it.

Examples of `act`:

- How to act
  call: `{}`
  result: (empty)"#
    );
    assert_eq!(names(&executor), ["restart", "watch", "act", "open_sections", "read_section"]);
    assert!(call(&executor, "restart", json!({})).await.is_success());
    let again = open_sections(&executor, &["ops"]).await;
    assert_eq!(again.text(), "These sections are open already. Closed sections: \"manual\", \"ops.deploy\".");

    let expansion = asked(&open_sections(&executor, &["manual", "ops.deploy"]).await);
    assert!(record_expansion(executor.session(), &expansion).is_ok());
    executor.refresh().unwrap();
    // Nothing is closed any more, so there is nothing to open or read.
    assert_eq!(names(&executor), ["restart", "deploy", "watch", "act"]);
    assert_eq!(executor.rendered().unwrap().hidden("read_section"), Some(&Hidden::NothingClosed));
    let useless = open_sections(&executor, &["ops"]).await;
    assert!(!useless.is_success() && useless.escalation.is_none());
    assert!(useless.text().contains("no section is closed"), "{}", useless.text());
    let recorded: Vec<String> =
        executor.session().slice::<SectionVisibility>().iter().map(|item| item.key.clone()).collect();
    assert_eq!(recorded, ["ops", "manual", "ops.deploy"]);
}

// case 220
#[tokio::test]
async fn reading_changes_nothing() {
    let executor = open().await;
    let before = (state(executor.session()), executor.rendered().unwrap().shared_text());
    let read = async |key: &str| call(&executor, "read_section", json!({ "section_key": key })).await;
    let manual = read("manual").await;
    assert!(manual.is_success());
    assert_eq!(manual.text(), "## 1. Manual\n\nAll about manual.\n\n### 1.1. More\n\nAnd more.");
    assert_eq!(
        read("ops").await.text(),
        r#"The section stays closed: to use its tools, call open_sections with "ops".

## 2. Operations

All about ops.

Examples of `restart`:

- How to restart
  call: `{}`
  result: (empty)

### 2.1. Deploy

deploy in short.

[Closed. To read it and use its tools, call `open_sections` with section_keys ["ops.deploy"].]

### 2.2. Watch

Keep watching.

Examples of `watch`:

- How to watch
  call: `{}`
  result: (empty)"#
    );
    assert_eq!(read("manual.more").await.text(), "### 1.1. More\n\nAnd more.");
    assert!(read("task").await.text().starts_with("## 3. Task\n\nDo it."));
    let unknown = read("off").await;
    assert!(!unknown.is_success() && unknown.escalation.is_none());
    assert_eq!(unknown.text(), "Unknown section \"off\". Closed sections: \"manual\", \"ops\".");

    executor.refresh().unwrap();
    let after = (state(executor.session()), executor.rendered().unwrap().shared_text());
    assert_eq!(after, before);
    assert!(executor.session().slice::<SectionVisibility>().is_empty());
}

#[test]
fn a_session_can_close_a_section_that_has_a_summary() {
    let template = PromptTemplate::builder("tests", "closing")
        .section(Section::markdown("a", "A").body("All.").summary("Short."))
        .section(Section::markdown("b", "B").body("All."))
        .build()
        .unwrap();
    let session = Session::new();
    for key in ["a", "b", "not.there"] {
        let said = SectionVisibility { key: key.into(), visibility: Visibility::Summary };
        assert!(session.dispatch(said).is_ok());
    }
    assert_eq!(
        template.prompt().render(&session).unwrap().text(),
        "## 1. A\n\nShort.\n\n[Closed. To read it, call `read_section` with section_key \"a\".]\n\n## 2. B\n\nAll."
    );
}

#[test]
fn the_built_in_tools_say_that_they_change_nothing() {
    let rendered = template().unwrap().prompt().render(&Session::new()).unwrap();
    for name in ["open_sections", "read_section"] {
        let contract = rendered.find(name).unwrap().tool.contract();
        assert!(contract.annotations().read_only && !contract.accepts_overrides());
    }
    assert_eq!(
        rendered.find("open_sections").unwrap().tool.contract().schema()["required"],
        json!(["reason", "section_keys"])
    );
}

struct Never;

impl ToolPolicy for Never {
    fn kind(&self) -> &'static str {
        "never"
    }

    fn check<'a>(
        &'a self,
        _: &'a PolicyCall<'a>,
        _: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(std::future::ready(Ok(Decision::deny("not here"))))
    }
}

#[tokio::test]
async fn the_templates_policies_cover_the_built_in_tools() {
    let template =
        PromptTemplate::builder("tests", "denied").policy(Never).section(closed("a", "A")).build().unwrap();
    let executor = Executor::open(&template.prompt(), &Session::new()).await.unwrap();
    let denied = open_sections(&executor, &["a"]).await;
    assert!(!denied.is_success() && denied.escalation.is_none());
    assert_eq!(denied.text(), "not here");
}

/// Opens a section in its own call, renders, and fails.
async fn peek(_: (), cx: &mut ToolContext) -> Result<ToolResult<String>, ToolError> {
    let opened = SectionVisibility { key: "manual".into(), visibility: Visibility::Full };
    let _ = cx.session().dispatch(opened)?;
    let text = cx.prompt().render(cx.session())?.text().to_owned();
    Ok(ToolResult::failed(text.clone(), text))
}

#[tokio::test]
async fn rendering_in_a_call_sees_what_the_call_did() {
    let template = PromptTemplate::builder("tests", "inside")
        .section(closed("manual", "Manual"))
        .section(Section::tools("peek", "Peek").tool(Tool::new("peek", "Peeks.", peek)))
        .build()
        .unwrap();
    let session = Session::new();
    let executor = Executor::open(&template.prompt(), &session).await.unwrap();
    let outcome = call(&executor, "peek", json!({})).await;
    assert!(
        outcome.text().starts_with("## 1. Manual\n\nAll about manual.\n\n## 2. Peek"),
        "{}",
        outcome.text()
    );
    assert!(executor.refresh().unwrap().text().starts_with("## 1. Manual\n\nmanual in short."));
}

async fn render(_: (), cx: &mut ReadContext) -> Result<ToolResult<String>, ToolError> {
    Ok(ToolResult::value(cx.prompt().render(cx.session())?.text().to_owned()))
}

#[tokio::test]
async fn rendering_in_a_call_keeps_to_its_footprint() {
    let narrow = Tool::new("narrow", "Renders.", render).footprint(|_| Footprint::nothing());
    let fitting = Tool::new("fitting", "Renders.", render)
        .footprint(|_| Footprint::nothing().read_slice::<SectionVisibility>());
    let template = PromptTemplate::builder("tests", "footprint")
        .section(Section::tools("tools", "Tools").tool(narrow).tool(fitting))
        .build()
        .unwrap();
    let executor = Executor::open(&template.prompt(), &Session::new()).await.unwrap();
    let refused = call(&executor, "narrow", json!({})).await;
    assert!(!refused.is_success());
    assert_eq!(
        refused.text(),
        "prompt: slice wink.section_visibility is outside the footprint that this tool declares (read)"
    );
    assert_eq!(call(&executor, "fitting", json!({})).await.text(), "## 1. Tools");
}

/// A key may have dots of its own, beside those that stand between the keys of a path.
#[tokio::test]
async fn keys_with_dots_are_opened_and_read() {
    let template = PromptTemplate::builder("tests", "dots")
        .section(
            closed("v1.2", "Version").tool(tool("old")).child(closed("notes.md", "Notes").tool(tool("new"))),
        )
        .build()
        .unwrap();
    let executor = Executor::open(&template.prompt(), &Session::new()).await.unwrap();
    let read = call(&executor, "read_section", json!({ "section_key": "v1.2" })).await;
    assert!(read.is_success() && read.text().contains("All about v1.2."), "{}", read.text());
    let expansion = asked(&open_sections(&executor, &["v1.2.notes.md"]).await);
    assert_eq!(expansion.keys, ["v1.2", "v1.2.notes.md"]);
    executor.expand(&expansion).unwrap();
    assert_eq!(names(&executor), ["old", "new"]);
}

#[tokio::test]
async fn the_log_says_what_the_model_sees_also_when_it_is_only_another_text() {
    let executor = open().await;
    let seen =
        || executor.session().slice::<PromptRendered>().iter().map(|event| event.text.clone()).collect();
    let text = || executor.rendered().unwrap().text().to_owned();
    let before = text();
    executor.expand(&asked(&open_sections(&executor, &["manual"]).await)).unwrap();
    let seen: Vec<Arc<str>> = seen();
    assert_eq!(seen, [before.into(), text().into()]);
}

#[tokio::test]
async fn what_is_secret_is_masked_also_in_a_call_of_a_tool_that_is_not_open() {
    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Login {
        password: Secret<String>,
    }
    async fn login(_: Login, _: &mut ToolContext) -> ToolResult<()> {
        ToolResult::done("in")
    }
    let template = PromptTemplate::builder("tests", "secrets")
        .section(Section::markdown("task", "Task").body("Do it.").tool(tool("act")))
        .section(closed("door", "Door").tool(Tool::new("login", "Log in.", login)))
        .build()
        .unwrap();
    let executor = Executor::open(&template.prompt(), &Session::new()).await.unwrap();
    let outcome = call(&executor, "login", json!({ "password": "hunter2" })).await;
    let logged = (outcome.event.ending, outcome.event.params.text().to_owned());
    assert_eq!(logged, (Ending::Unavailable, r#"{"password":"***"}"#.to_owned()));
}
