//! A request, as Anthropic takes it.

use serde::Serialize;
use serde_json::{Value, json};

use super::response::kept_content;
use crate::dialect::LoweredTool;
use crate::providers::again::CalledAgain;
use crate::providers::api::{Asked, Prompt};
use crate::providers::arguments::Arguments;
use crate::providers::body::Body;
use crate::{Called, Message, ModelError, ToolSpec};

pub(super) fn body(model: &str, max_output_tokens: u32, asked: &Asked<'_>) -> Result<Vec<u8>, ModelError> {
    let request = asked.request;
    let settings = &request.settings;
    let mut turns = Turns::default();
    let system = match asked.prompt() {
        Prompt::System(text) => Some(text),
        Prompt::User(text) => {
            turns.say(Role::User, text);
            None
        }
    };
    for message in &request.messages {
        turns.add(message);
    }
    let tools: Vec<_> = request.tools.iter().zip(&asked.lowered.tools).map(Tool::new).collect();
    let output = asked.lowered.output.as_ref().filter(|output| output.strict);
    let output = output.map(|output| json!({ "format": { "type": "json_schema", "schema": output.schema } }));

    let mut body = Body::new(&settings.extra);
    body.field("model", model)?;
    body.field("max_tokens", &settings.max_output_tokens.unwrap_or(max_output_tokens))?;
    body.some("system", system.filter(|text| !text.trim().is_empty()))?;
    body.field("messages", &turns.turns)?;
    body.some("tools", Some(tools.as_slice()).filter(|tools| !tools.is_empty()))?;
    body.some("output_config", output.as_ref())?;
    body.some("temperature", settings.temperature.as_ref())?;
    body.field("stream", &asked.streamed)?;
    body.finish()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Role {
    User,
    Assistant,
}

/// Messages, with what one side says in a row in one of them.
#[derive(Default)]
struct Turns<'a> {
    turns: Vec<Turn<'a>>,
}

#[derive(Serialize)]
struct Turn<'a> {
    role: Role,
    content: Vec<Part<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Ours(Block<'a>),
    /// As it came from the provider.
    Kept(&'a Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Arguments<'a>,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

impl<'a> Turns<'a> {
    fn add(&mut self, message: &'a Message) {
        match message {
            Message::User { text } => self.say(Role::User, text),
            Message::Assistant { text, calls, provider } => match kept_content(provider.as_deref()) {
                Some(blocks) => {
                    let mut calls = CalledAgain::new(calls);
                    blocks.iter().for_each(|block| self.again(block, &mut calls));
                }
                None => {
                    self.say(Role::Assistant, text);
                    calls.iter().for_each(|call| self.call(call));
                }
            },
            Message::Tools { answers } => {
                for answer in answers {
                    let (tool_use_id, content) = (&*answer.id, &*answer.text);
                    let result = Block::ToolResult { tool_use_id, content, is_error: !answer.success };
                    self.push(Role::User, Part::Ours(result));
                }
            }
        }
    }

    /// A block that was kept.
    fn again(&mut self, block: &'a Value, calls: &mut CalledAgain<'a>) {
        if block.get("type").is_none_or(|name| name != "tool_use") {
            return self.push(Role::Assistant, Part::Kept(block));
        }
        if let Some(call) = block.get("id").and_then(Value::as_str).and_then(|id| calls.next(id)) {
            self.call(call);
        }
    }

    /// Text that is empty is not taken, and says nothing.
    fn say(&mut self, role: Role, text: &'a str) {
        if !text.trim().is_empty() {
            self.push(role, Part::Ours(Block::Text { text }));
        }
    }

    fn call(&mut self, call: &'a Called) {
        let (id, name, input) = (&*call.id, &*call.name, Arguments::new(&call.arguments));
        self.push(Role::Assistant, Part::Ours(Block::ToolUse { id, name, input }));
    }

    fn push(&mut self, role: Role, part: Part<'a>) {
        match self.turns.last_mut().filter(|turn| turn.role == role) {
            Some(turn) => turn.content.push(part),
            None => self.turns.push(Turn { role, content: vec![part] }),
        }
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    input_examples: Vec<&'a Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
}

impl<'a> Tool<'a> {
    fn new((tool, lowered): (&'a ToolSpec, &'a LoweredTool)) -> Self {
        Self {
            name: &tool.name,
            description: &tool.description,
            input_schema: &lowered.schema,
            input_examples: tool.examples.iter().filter(|example| example.is_object()).collect(),
            strict: lowered.strict,
        }
    }
}
