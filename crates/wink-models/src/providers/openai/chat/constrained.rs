//! Tool calls of models that have none: every response is an object of one schema, which is either a call or the final answer.
//!
//! The schema goes as `response_format`, which servers enforce while the model writes. Tools are described in the prompt, and
//! answers of tools come as messages of the user. One call at a time: a choice between few forms is what small models can do.

use std::borrow::Cow;
use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::dialect::{Dialect, lower};
use crate::providers::api::Asked;
use crate::providers::arguments::Arguments;
use crate::providers::openai::made_up_id;
use crate::{Called, Message, ModelResponse, Stop};

/// Of the schema; a server may show it.
const NAME: &str = "wink_reply";

/// A response, as it is written.
#[derive(Serialize)]
struct Written<'a> {
    reply: Choice<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Choice<'a> {
    Call { tool: &'a str, arguments: Arguments<'a> },
    Text { text: &'a str },
}

/// A response, as it is read: a call, text, or the output that was asked for.
#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    reply: Chosen<'a>,
}

#[derive(Deserialize)]
struct Chosen<'a> {
    tool: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
    text: Option<String>,
    #[serde(borrow)]
    output: Option<&'a RawValue>,
}

/// What the model is told after the prompt.
pub(super) fn instructions(asked: &Asked<'_>) -> String {
    let finish = match asked.request.output {
        Some(_) => r#"{"reply": {"output": …}}"#,
        None => r#"{"reply": {"text": "…"}}"#,
    };
    let mut text = format!(
        "Answer with one JSON object. To call a tool: {{\"reply\": {{\"tool\": \"NAME\", \"arguments\": {{…}}}}}}. You are then told \
         its result. When you are done: {finish}.\n\nTools:"
    );
    for (tool, lowered) in asked.request.tools.iter().zip(&asked.lowered.tools) {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n\n{}: {}\nArguments: {}", tool.name, tool.description, lowered.schema);
        for example in tool.examples.iter() {
            let _ = write!(text, "\nExample: {example}");
        }
    }
    text
}

/// Says a message again, in the form that the model is held to.
pub(super) fn add<'a>(message: &'a Message, mut say: impl FnMut(&'static str, Cow<'a, str>)) {
    let written =
        |reply: Choice<'_>| Cow::Owned(serde_json::to_string(&Written { reply }).unwrap_or_default());
    match message {
        Message::User { text } => say("user", Cow::Borrowed(text)),
        Message::Assistant { text, calls, .. } if calls.is_empty() => {
            say("assistant", written(Choice::Text { text }))
        }
        Message::Assistant { calls, .. } => {
            for call in calls {
                let arguments = Arguments::new(&call.arguments);
                say("assistant", written(Choice::Call { tool: &call.name, arguments }));
            }
        }
        Message::Tools { answers } => {
            let mut text = String::new();
            for answer in answers {
                let end = if answer.success { "Result" } else { "Failure" };
                let gap = if text.is_empty() { "" } else { "\n\n" };
                let _ = write!(text, "{gap}{end} of {}:\n{}", answer.name, answer.text);
            }
            say("user", text.into());
        }
    }
}

/// The one schema.
pub(super) fn format(asked: &Asked<'_>) -> Value {
    let mut definitions = Map::new();
    let mut choices = Vec::new();
    let mut strict = true;
    for (number, (tool, lowered)) in asked.request.tools.iter().zip(&asked.lowered.tools).enumerate() {
        let arguments = moved(&lowered.schema, number, &mut definitions);
        choices.push(object(&[
            ("tool", json!({ "type": "string", "const": tool.name })),
            ("arguments", arguments),
        ]));
        strict &= lowered.strict;
    }
    choices.push(match &asked.lowered.output {
        Some(output) => {
            strict &= output.strict;
            object(&[("output", moved(&output.schema, choices.len(), &mut definitions))])
        }
        None => object(&[("text", json!({ "type": "string" }))]),
    });
    let mut schema = object(&[("reply", json!({ "anyOf": choices }))]);
    if let Some(fields) = schema.as_object_mut().filter(|_| !definitions.is_empty()) {
        fields.insert("$defs".to_owned(), definitions.into());
    }
    // Each part is within the dialect; together they may be too deep.
    let strict = strict && lower(&schema, Dialect::OpenAi).is_ok();
    json!({ "type": "json_schema", "json_schema": { "name": NAME, "schema": schema, "strict": strict } })
}

fn object(properties: &[(&str, Value)]) -> Value {
    let required: Vec<_> = properties.iter().map(|(name, _)| *name).collect();
    let properties: Map<_, _> =
        properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// A schema that stands inside of another: it becomes a definition if it refers to itself, and its definitions move to the root,
/// under names of their own.
fn moved(schema: &Value, number: usize, definitions: &mut Map<String, Value>) -> Value {
    let mut whole = schema.clone();
    let own = whole.as_object_mut().and_then(|fields| fields.shift_remove("$defs"));
    let whole_name = format!("s{number}");
    let mut refers_to_root = renamed(&mut whole, &whole_name);
    for (name, mut definition) in own.and_then(|own| own.as_object().cloned()).into_iter().flatten() {
        refers_to_root |= renamed(&mut definition, &whole_name);
        definitions.insert(format!("{whole_name}_{name}"), definition);
    }
    if !refers_to_root {
        return whole;
    }
    let reference = json!({ "$ref": format!("#/$defs/{whole_name}") });
    definitions.insert(whole_name, whole);
    reference
}

/// Renames what a schema refers to, and tells whether it is the root.
fn renamed(schema: &mut Value, whole: &str) -> bool {
    match schema {
        Value::Array(schemas) => {
            schemas.iter_mut().fold(false, |found, schema| renamed(schema, whole) | found)
        }
        Value::Object(fields) => fields.iter_mut().fold(false, |found, (keyword, value)| {
            let reference = if keyword == "$ref" { value.as_str() } else { None };
            let new = match reference {
                Some("#") => Some(format!("#/$defs/{whole}")),
                Some(reference) => {
                    reference.strip_prefix("#/$defs/").map(|name| format!("#/$defs/{whole}_{name}"))
                }
                None => return renamed(value, whole) | found,
            };
            let root = reference == Some("#");
            if let Some(new) = new {
                *value = new.into();
            }
            root | found
        }),
        _ => false,
    }
}

/// What the response means, as far as it got. One that is in no form at all is the text that it is, and no last word; but whoever
/// looks at the typed result judges that, where there is to be one.
pub(super) fn read(mut response: ModelResponse, is_typed: bool) -> ModelResponse {
    let meant = match response.stop {
        Stop::Refused => None,
        Stop::Truncated => meaning(&response.text).or_else(|| beginning(&response.text)),
        Stop::Complete | Stop::Paused | Stop::Formless => meaning(&response.text),
    };
    match meant {
        Some((text, call)) => {
            response.text = text.into();
            response.calls.extend(call);
        }
        None if response.stop == Stop::Complete && !is_typed => response.stop = Stop::Formless,
        None => {}
    }
    response
}

fn meaning(text: &str) -> Option<(String, Option<Called>)> {
    Some(match serde_json::from_str::<Reply<'_>>(text).ok()?.reply {
        Chosen { tool: Some(tool), arguments, .. } => {
            let arguments = arguments.map_or("{}", RawValue::get).into();
            (String::new(), Some(Called { id: made_up_id(), name: tool.into(), arguments }))
        }
        Chosen { output: Some(output), .. } => (output.get().to_owned(), None),
        Chosen { text, .. } => (text?, None),
    })
}

/// What a reply that was cut off begins with: a text, or a call of which the tool is known.
fn beginning(text: &str) -> Option<(String, Option<Called>)> {
    let inner = ["{", "\"reply\"", ":", "{"].iter().try_fold(text, |rest, token| after(rest, token))?;
    let value_of = |name: &str, rest| after(after(rest, name)?, ":");
    if let Some(written) = value_of("\"text\"", inner).and_then(|rest| after(rest, "\"")) {
        return Some((unescaped(written), None));
    }
    let (tool, rest) = first::<String>(value_of("\"tool\"", inner)?)?;
    let rest = value_of("\"arguments\"", after(rest, ",")?)?;
    let arguments = first::<&RawValue>(rest).map_or(rest, |(whole, _)| whole.get());
    Some((String::new(), Some(Called { id: made_up_id(), name: tool.into(), arguments: arguments.into() })))
}

fn after<'a>(text: &'a str, token: &str) -> Option<&'a str> {
    text.trim_start().strip_prefix(token).map(str::trim_start)
}

/// The value that a text begins with, and what follows it.
fn first<'a, T: Deserialize<'a>>(text: &'a str) -> Option<(T, &'a str)> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<T>();
    let value = values.next()?.ok()?;
    Some((value, text.get(values.byte_offset()..)?))
}

/// The inside of a JSON string of which the end is missing: all of it but an escape that was cut, or what closes it.
fn unescaped(written: &str) -> String {
    /// Two halves of a character outside the first plane.
    const LONGEST_ESCAPE: usize = r"\ud83d\ude00".len();
    let shorter = |cut| written.get(..written.len().checked_sub(cut)?);
    let read = |cut| serde_json::from_str(&format!("\"{}\"", shorter(cut)?)).ok();
    (0..=LONGEST_ESCAPE).find_map(read).unwrap_or_default()
}

#[cfg(test)]
mod tests;
