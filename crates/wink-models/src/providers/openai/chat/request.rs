//! A request, as Chat Completions take it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use super::{Chat, LengthField, ToolMode, constrained};
use crate::dialect::LoweredTool;
use crate::providers::api::{Asked, Prompt};
use crate::providers::arguments::Arguments;
use crate::providers::body::Body;
use crate::{Called, Message, ModelError, ToolSpec};

pub(super) fn body(chat: &Chat, asked: &Asked<'_>) -> Result<Vec<u8>, ModelError> {
    let request = asked.request;
    let settings = &request.settings;
    let mode = chat.mode(asked);
    let mut said = Vec::with_capacity(request.messages.len() + 1);
    let (role, prompt) = match asked.prompt() {
        Prompt::System(text) => ("system", text),
        Prompt::User(text) => ("user", text),
    };
    said.push(Said::text(
        role,
        match mode {
            ToolMode::Native => Cow::Borrowed(prompt),
            ToolMode::Constrained => format!("{prompt}\n\n{}", constrained::instructions(asked)).into(),
        },
    ));
    for message in &request.messages {
        match mode {
            ToolMode::Native => add(&mut said, message),
            ToolMode::Constrained => {
                constrained::add(message, |role, text| said.push(Said::text(role, text)))
            }
        }
    }
    let (tools, format) = match mode {
        ToolMode::Native => (tools(asked), output_format(asked)),
        ToolMode::Constrained => (Vec::new(), Some(constrained::format(asked))),
    };

    let mut body = Body::new(&settings.extra);
    body.field("model", &chat.model)?;
    body.field("messages", &said)?;
    body.some("tools", Some(tools.as_slice()).filter(|tools| !tools.is_empty()))?;
    body.some("response_format", format.as_ref())?;
    let length = match chat.length {
        LengthField::MaxCompletionTokens => "max_completion_tokens",
        LengthField::MaxTokens => "max_tokens",
    };
    body.some(length, settings.max_output_tokens.as_ref())?;
    body.some("temperature", settings.temperature.as_ref())?;
    body.field("stream", &asked.streamed)?;
    if asked.streamed {
        body.field("stream_options", &json!({ "include_usage": true }))?;
    }
    body.finish()
}

#[derive(Serialize)]
struct Said<'a> {
    role: &'static str,
    content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Call<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

impl<'a> Said<'a> {
    fn text(role: &'static str, text: Cow<'a, str>) -> Self {
        Self { role, content: Some(text), tool_calls: Vec::new(), tool_call_id: None }
    }
}

#[derive(Serialize)]
struct Call<'a> {
    id: &'a str,
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    arguments: Cow<'a, str>,
}

impl<'a> Call<'a> {
    fn new(call: &'a Called) -> Self {
        let function = Function { name: &call.name, arguments: Arguments::text(&call.arguments) };
        Self { id: &call.id, r#type: "function", function }
    }
}

fn add<'a>(said: &mut Vec<Said<'a>>, message: &'a Message) {
    match message {
        Message::User { text } => said.push(Said::text("user", Cow::Borrowed(text))),
        Message::Assistant { text, calls, .. } => {
            // Some servers want the field also where there is nothing to say.
            let content = (!text.is_empty() || calls.is_empty()).then_some(Cow::Borrowed(&**text));
            let tool_calls = calls.iter().map(Call::new).collect();
            said.push(Said { role: "assistant", content, tool_calls, tool_call_id: None });
        }
        Message::Tools { answers } => said.extend(answers.iter().map(|answer| Said {
            tool_call_id: Some(&answer.id),
            ..Said::text("tool", Cow::Borrowed(&answer.text))
        })),
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Declared<'a>,
}

#[derive(Serialize)]
struct Declared<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    strict: bool,
}

fn tools<'a>(asked: &'a Asked<'_>) -> Vec<Tool<'a>> {
    let tool = |(tool, lowered): (&'a ToolSpec, &'a LoweredTool)| {
        let (name, description, parameters) = (&*tool.name, &*tool.description, &*lowered.schema);
        Tool {
            r#type: "function",
            function: Declared { name, description, parameters, strict: lowered.strict },
        }
    };
    asked.request.tools.iter().zip(&asked.lowered.tools).map(tool).collect()
}

fn output_format(asked: &Asked<'_>) -> Option<Value> {
    let (output, lowered) = asked.request.output.as_ref().zip(asked.lowered.output.as_ref())?;
    let schema = json!({ "name": output.name, "schema": lowered.schema, "strict": lowered.strict });
    Some(json!({ "type": "json_schema", "json_schema": schema }))
}
