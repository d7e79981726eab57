//! What a model is asked: what was said so far, and what it is shown beside that.

use std::sync::Arc;

use wink::prompt::{PlacedTool, RenderedPrompt};

use crate::conversation::Conversation;
use crate::finish;
use crate::model::{ModelRequest, OutputSpec, Settings, ToolSpec};

/// What a model is shown beside what was said: the prompt as it is rendered, its tools, the form of its result, and how it is asked.
/// Made once for each rendering, so that a request costs the same however long the conversation is.
///
/// With it, anybody can drive a [`Conversation`] who has a model and something that executes calls. This is all that there is to it:
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use wink::prelude::*;
/// use wink_models::conversation::{Conversation, Ended, Input, Next, Said, Tally, Terms};
/// use wink_models::{ModelRequest, ModelResponse, Settings, Shown, ToolAnswer};
///
/// /// Adds two numbers.
/// #[tool]
/// async fn add(a: i64, b: i64) -> ToolResult<i64> {
///     ToolResult::value(a + b)
/// }
///
/// /// Asks somewhere, by any means.
/// fn ask(request: &ModelRequest) -> serde_json::Result<ModelResponse> {
///     serde_json::from_str(match request.messages.len() {
///         1 => r#"{"tool_calls": [{"id": "1", "name": "add", "arguments": "{\"a\": 2, \"b\": 40}"}]}"#,
///         _ => r#"{"text": "It is 42."}"#,
///     })
/// }
///
/// let section = Section::markdown("sums", "Sums").body("Add with the tool.").tool(add_tool());
/// let prompt = PromptTemplate::builder("examples", "sums").section(section).build()?.prompt();
/// let session = Session::new();
/// let executor = Executor::open(&prompt, &session).await?;
/// let shown = Shown::new(executor.rendered().ok_or("it is rendered")?, Arc::new(Settings::default()));
///
/// let mut conversation = Conversation::begin("run-1", Some("What is 2 + 40?".into()), Terms::default());
/// let completed = loop {
///     let said = match conversation.next() {
///         Next::Ask => Said::Responded(ask(&shown.request(&conversation))?),
///         Next::Execute(calls) => {
///             let outcomes = executor.batch(calls).await;
///             let tally = Tally::of(outcomes.iter().map(|outcome| outcome.event.ending));
///             let answers = outcomes.iter().map(ToolAnswer::from).collect();
///             Said::Answered { answers, tally, expanded: false }
///         }
///         Next::Finish(_) => Said::Finished { output: None, missing: None },
///         Next::Wait(_) => unreachable!("no request failed"),
///         Next::Ended(Ended::Completed(completed)) => break completed,
///         Next::Ended(Ended::Stopped(reason)) => return Err(reason.into()),
///     };
///     conversation.take(Input::Said(said))?;
///     // It can be saved after any step, and goes on the same.
///     let saved = serde_json::to_string(&conversation)?;
///     conversation = serde_json::from_str(&saved)?;
/// };
/// assert_eq!(&*completed.text, "It is 42.");
/// assert_eq!(conversation.stats().calls, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Shown {
    rendered: Arc<RenderedPrompt>,
    prompt: Arc<str>,
    tools: Arc<[ToolSpec]>,
    output: Option<Arc<OutputSpec>>,
    settings: Arc<Settings>,
}

impl Shown {
    /// A prompt, as it is rendered now.
    pub fn new(rendered: Arc<RenderedPrompt>, settings: Arc<Settings>) -> Self {
        Self {
            prompt: rendered.shared_text(),
            tools: rendered.tools().iter().map(spec).collect(),
            output: finish::output_spec(&rendered),
            rendered,
            settings,
        }
    }

    /// The prompt.
    pub fn rendered(&self) -> &Arc<RenderedPrompt> {
        &self.rendered
    }

    /// What the model is to be asked when the conversation says so ([`Next::Ask`](crate::conversation::Next::Ask)).
    pub fn request(&self, conversation: &Conversation) -> ModelRequest {
        ModelRequest {
            prompt: Arc::clone(&self.prompt),
            messages: conversation.messages().clone(),
            tools: Arc::clone(&self.tools),
            output: self.output.clone(),
            settings: Arc::clone(&self.settings),
        }
    }
}

fn spec(placed: &PlacedTool) -> ToolSpec {
    let contract = placed.tool.contract();
    ToolSpec {
        name: Arc::clone(contract.name()),
        description: contract.description().into(),
        parameters: Arc::new(contract.schema().clone()),
        examples: contract.examples().iter().map(|example| example.input.clone()).collect(),
    }
}
