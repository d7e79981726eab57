//! A scripted caller: the calls a model would make, and what is expected of each.

#![allow(clippy::panic, reason = "a script says what came out differently by panicking")]

use serde_json::Value;

use crate::executor::{CallOptions, Escalation, Executor, Outcome, ToolCall};

/// Calls to make in order, each with what is expected of it.
///
/// It drives the executor as a loop does: an expansion that a call asks for is recorded right after it, and the
/// prompt is rendered again.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use serde_json::json;
/// use wink::executor::Executor;
/// use wink::prelude::*;
/// use wink::testing::Script;
///
/// #[derive(Serialize, Deserialize, JsonSchema)]
/// struct Greet { name: String }
/// async fn greet(greet: Greet, _: &mut ToolContext) -> ToolResult<String> {
///     ToolResult::value(format!("Hello, {}!", greet.name))
/// }
/// let section = Section::tools("manners", "Manners")
///     .summary("How to be polite.")
///     .visibility(Visibility::Summary)
///     .tool(Tool::new("greet", "Greet somebody.", greet));
/// let prompt = PromptTemplate::builder("examples", "script").section(section).build()?.prompt();
/// let executor = Executor::open(&prompt, &Session::new()).await?;
///
/// let outcomes = Script::new()
///     .call("greet", json!({ "name": "Ada" })).expect_failed("closed")
///     .call("open_sections", json!({ "reason": "to greet", "section_keys": ["manners"] })).expect_expansion()
///     .call("greet", json!({ "name": "Ada" })).expect_ok().expect_text("Hello, Ada!")
///     .run(&executor)
///     .await;
/// assert_eq!(outcomes.len(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a script does nothing until it is run"]
pub struct Script {
    lines: Vec<Line>,
}

#[derive(Debug, Clone)]
struct Line {
    call: ToolCall,
    expected: Vec<Expected>,
}

#[derive(Debug, Clone)]
enum Expected {
    Ok,
    Failed(String),
    Text(String),
    Expansion,
    Escalation,
}

impl Script {
    /// An empty script.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls a tool. Call ids are `1`, `2`, `3` and so on.
    pub fn call(self, tool: &str, arguments: Value) -> Self {
        let arguments = arguments.to_string();
        self.raw(tool, &arguments)
    }

    /// Calls a tool with arguments as a model might write them.
    pub fn raw(mut self, tool: &str, arguments: &str) -> Self {
        let id = (self.lines.len() + 1).to_string();
        self.lines.push(Line { call: ToolCall::new(id, tool, arguments), expected: Vec::new() });
        self
    }

    /// The last call succeeds.
    pub fn expect_ok(self) -> Self {
        self.expect(Expected::Ok)
    }

    /// The last call fails without escalating, and its answer has this text in it.
    pub fn expect_failed(self, text: &str) -> Self {
        self.expect(Expected::Failed(text.to_owned()))
    }

    /// The last call's answer is exactly this.
    pub fn expect_text(self, text: &str) -> Self {
        self.expect(Expected::Text(text.to_owned()))
    }

    /// The last call asks for sections to be opened.
    pub fn expect_expansion(self) -> Self {
        self.expect(Expected::Expansion)
    }

    /// The last call escalates, in whatever way.
    pub fn expect_escalation(self) -> Self {
        self.expect(Expected::Escalation)
    }

    fn expect(mut self, expected: Expected) -> Self {
        if let Some(line) = self.lines.last_mut() {
            line.expected.push(expected);
        }
        self
    }

    /// Makes the calls one after the other, and returns what came of each.
    ///
    /// # Panics
    ///
    /// When a call does not come to what is expected, or sections that it asks for cannot be opened.
    pub async fn run(self, executor: &Executor) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(self.lines.len());
        for line in self.lines {
            let what = format!("call {} ({})", line.call.id, line.call.tool);
            let outcome = executor.drive(line.call, CallOptions::new()).await;
            if let Some(Escalation::NotOpened(error)) = &outcome.escalation {
                panic!("{what} was to open sections, but: {error}");
            }
            line.expected.iter().for_each(|expected| expected.check(&what, &outcome));
            outcomes.push(outcome);
        }
        outcomes
    }
}

impl Expected {
    fn check(&self, what: &str, outcome: &Outcome) {
        let text = outcome.text();
        let escalation = &outcome.escalation;
        match self {
            Self::Ok => assert!(outcome.is_success(), "{what} was to succeed, but: {text}"),
            Self::Failed(part) => {
                assert!(!outcome.is_success(), "{what} was to fail, but: {text}");
                assert!(escalation.is_none(), "{what} was not to escalate, but: {escalation:?}");
                assert!(text.contains(part), "{what} was to say {part:?}, but: {text}");
            }
            Self::Text(whole) => assert_eq!(text, whole, "{what} said something else"),
            Self::Expansion => {
                let asked = matches!(escalation, Some(Escalation::Visibility(_)));
                assert!(asked, "{what} was to open sections, but: {text}");
            }
            Self::Escalation => assert!(escalation.is_some(), "{what} was to escalate, but: {text}"),
        }
    }
}
