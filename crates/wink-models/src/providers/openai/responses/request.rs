//! A request, as the Responses API takes it.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use super::response::{Kept, kept_items};
use super::{Reasoning, Responses};
use crate::dialect::LoweredTool;
use crate::providers::again::CalledAgain;
use crate::providers::api::{Asked, Prompt};
use crate::providers::arguments::Arguments;
use crate::providers::body::Body;
use crate::{Called, Message, ModelError, ToolSpec};

pub(super) fn body(api: &Responses, asked: &Asked<'_>) -> Result<Vec<u8>, ModelError> {
    let request = asked.request;
    let settings = &request.settings;
    let mut items = Vec::with_capacity(request.messages.len() + 1);
    let instructions = match asked.prompt() {
        Prompt::System(text) => Some(text),
        Prompt::User(text) => {
            items.push(Item::said("user", text));
            None
        }
    };
    for message in &request.messages {
        add(&mut items, message);
    }
    let tools = request.tools.iter().zip(&asked.lowered.tools);
    let tools: Vec<_> = tools.map(|(tool, lowered)| Tool::new(tool, lowered)).collect();

    let mut body = Body::new(&settings.extra);
    body.field("model", &api.model)?;
    body.some("instructions", instructions)?;
    body.field("input", &items)?;
    body.some("tools", Some(tools.as_slice()).filter(|tools| !tools.is_empty()))?;
    body.some("text", output_format(asked).as_ref())?;
    body.some("max_output_tokens", settings.max_output_tokens.as_ref())?;
    body.some("temperature", settings.temperature.as_ref())?;
    body.field("store", &false)?;
    match api.reasoning {
        Reasoning::Dropped => {}
        Reasoning::Kept => body.field("include", &["reasoning.encrypted_content"])?,
    }
    body.field("stream", &asked.streamed)?;
    body.finish()
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Said {
        role: &'static str,
        content: &'a str,
    },
    Call {
        r#type: &'static str,
        call_id: &'a str,
        name: &'a str,
        arguments: Cow<'a, str>,
    },
    Answer {
        r#type: &'static str,
        call_id: &'a str,
        output: &'a str,
    },
    /// As it came from the provider.
    Kept(&'a Value),
}

impl<'a> Item<'a> {
    fn said(role: &'static str, content: &'a str) -> Self {
        Self::Said { role, content }
    }

    fn call(call: &'a Called) -> Self {
        let arguments = Arguments::text(&call.arguments);
        Self::Call { r#type: "function_call", call_id: &call.id, name: &call.name, arguments }
    }
}

fn add<'a>(items: &mut Vec<Item<'a>>, message: &'a Message) {
    match message {
        Message::User { text } => items.push(Item::said("user", text)),
        Message::Assistant { text, calls, provider } => match kept_items(provider.as_deref()) {
            Some(kept) => {
                let mut calls = CalledAgain::new(calls);
                items.extend(kept.filter_map(|kept| match kept {
                    Kept::Item(item) => Some(Item::Kept(item)),
                    Kept::Text(text) => Some(Item::said("assistant", text)),
                    Kept::Call(id) => calls.next(id).map(Item::call),
                }));
            }
            None => {
                items.extend((!text.is_empty()).then(|| Item::said("assistant", text)));
                items.extend(calls.iter().map(Item::call));
            }
        },
        Message::Tools { answers } => items.extend(answers.iter().map(|answer| Item::Answer {
            r#type: "function_call_output",
            call_id: &answer.id,
            output: &answer.text,
        })),
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
    strict: bool,
}

impl<'a> Tool<'a> {
    fn new(tool: &'a ToolSpec, lowered: &'a LoweredTool) -> Self {
        let (name, description, parameters) = (&*tool.name, &*tool.description, &*lowered.schema);
        Self { r#type: "function", name, description, parameters, strict: lowered.strict }
    }
}

fn output_format(asked: &Asked<'_>) -> Option<Value> {
    let (output, lowered) = asked.request.output.as_ref().zip(asked.lowered.output.as_ref())?;
    Some(json!({ "format": {
        "type": "json_schema",
        "name": output.name,
        "schema": lowered.schema,
        "strict": lowered.strict,
    } }))
}
