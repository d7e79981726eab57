//! What a provider refuses.

mod anthropic;
mod chat;
mod responses;
mod strict;

use hyper::HeaderMap;
use serde_json::Value;

use crate::Api;

/// Whether OpenAI takes a schema in strict mode; otherwise what it would say.
///
/// # Errors
/// When it does not.
pub fn openai_strict(schema: &Value) -> Result<(), String> {
    strict::openai(schema)
}

/// Whether Anthropic takes a schema in strict mode; otherwise what it would say.
///
/// # Errors
/// When it does not.
pub fn anthropic_strict(schema: &Value) -> Result<(), String> {
    strict::anthropic(schema).map(|_| ())
}

/// Whether a request is one that the provider takes; otherwise what it would say.
pub(crate) fn request(api: Api, headers: &HeaderMap, body: &Value) -> Result<(), String> {
    ensure(body.is_object(), || "the body is not a JSON object".to_owned())?;
    ensure(text(body, "model").is_some_and(|name| !name.is_empty()), || "model: field required".to_owned())?;
    match api {
        Api::Anthropic => {
            ensure(headers.contains_key("anthropic-version"), || {
                "anthropic-version: header is required".to_owned()
            })?;
            anthropic::check(body)
        }
        Api::Chat => chat::check(body),
        Api::Responses => responses::check(body),
    }
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name)?.as_str()
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Nothing that the API does not know.
fn only(body: &Value, known: &[&str]) -> Result<(), String> {
    let unknown =
        body.as_object().and_then(|fields| fields.keys().find(|name| !known.contains(&name.as_str())));
    unknown.map_or(Ok(()), |name| Err(format!("{name}: Extra inputs are not permitted")))
}

/// Names of tools: of the right form, and each once.
fn names<'v>(tools: impl Iterator<Item = &'v Value>) -> Result<(), String> {
    let mut seen = Vec::new();
    for tool in tools {
        let name = text(tool, "name").unwrap_or_default();
        let sound = (1..=64).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        ensure(sound, || format!("tools: name `{name}` does not match '^[a-zA-Z0-9_-]{{1,64}}$'"))?;
        ensure(!seen.contains(&name), || format!("tools: names must be unique; `{name}` is not"))?;
        seen.push(name);
    }
    Ok(())
}

fn number_within(body: &Value, name: &str, most: f64) -> Result<(), String> {
    let Some(value) = body.get(name).filter(|value| !value.is_null()) else { return Ok(()) };
    let fits = value.as_f64().is_some_and(|number| (0.0..=most).contains(&number));
    ensure(fits, || format!("{name}: must be a number between 0 and {most}"))
}
