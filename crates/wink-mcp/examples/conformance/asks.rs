//! The suite's tools that ask the client for something: by results that require input, and by requests before that.

#![expect(deprecated, reason = "the suite of 2025-11-25 still asks for sampling")]

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    CreateMessageRequestParams, ElicitRequestParams, ElicitationAction, ErrorData, InputRequest,
    InputRequests, InputRequiredResult, InputResponses, SamplingMessage, Tool,
};
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use wink_mcp::rmcp;

/// What states are sealed with. A fixture's secret is nobody's.
const KEY: &[u8; 32] = b"a key for the conformance suite.";

pub(crate) fn tools() -> Vec<Tool> {
    let names = [
        "test_input_required_result_elicitation",
        "test_input_required_result_sampling",
        "test_input_required_result_list_roots",
        "test_input_required_result_multiple_inputs",
        "test_input_required_result_multi_round",
        "test_input_required_result_capabilities",
        "test_missing_capability",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
    ];
    let mut tools: Vec<Tool> =
        names.into_iter().map(|name| tool(name, json!({ "type": "object" }))).collect();
    let text = |field: &str| json!({ "type": "object", "properties": { field: { "type": "string" } }, "required": [field] });
    tools.push(tool("test_sampling", text("prompt")));
    tools.push(tool("test_elicitation", text("message")));
    tools.push(tool("json_schema_2020_12_tool", schema_2020_12()));
    tools.push(tool("test_custom_header", header_schema()));
    tools
}

pub(crate) fn tool(name: &'static str, schema: Value) -> Tool {
    Tool::new(name, "For the test.", schema.as_object().cloned().unwrap_or_default())
}

/// Answers a call of one of them; none if it is not one of them.
pub(crate) async fn call(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let answers = request.input_responses.clone().unwrap_or_default();
    let state = request.request_state.as_deref();
    Some(match &*request.name {
        "test_input_required_result_elicitation" => Ok(match form(&answers, "user_name", "name") {
            Some(name) => said(&format!("Hello, {name}!")),
            None => required(&[("user_name", ask_text("What is your name?", "name"))], None),
        }),
        "test_input_required_result_sampling" => Ok(match sampled(&answers, "capital_question") {
            Some(text) => said(&text),
            None => required(&[("capital_question", ask_model("What is the capital of France?"))], None),
        }),
        "test_input_required_result_list_roots" => {
            Ok(match answers.get("client_roots").and_then(|roots| roots.get("roots")) {
                Some(roots) => said(&format!("roots: {roots}")),
                None => required(&[("client_roots", ask_roots())], None),
            })
        }
        "test_input_required_result_multiple_inputs" => match state {
            Some(state) => opened(state).map(|_| said("all of it")),
            None => Ok(required(
                &[
                    ("user_name", ask_text("What is your name?", "name")),
                    ("greeting", ask_model("Generate a greeting")),
                    ("client_roots", ask_roots()),
                ],
                Some("all"),
            )),
        },
        "test_input_required_result_multi_round" => match state.map(opened) {
            None => Ok(required(&[("step1", ask_text("Step 1: What is your name?", "name"))], Some("one"))),
            Some(Ok(round)) if round == "one" => Ok(required(
                &[("step2", ask_text("Step 2: What is your favorite color?", "color"))],
                Some("two"),
            )),
            Some(round) => round.map(|_| said("both of them")),
        },
        "test_input_required_result_capabilities" => {
            let can = context.client_capabilities().unwrap_or_default();
            let mut asks = Vec::new();
            if can.sampling.is_some() {
                asks.push(("greeting", ask_model("Generate a greeting")));
            }
            if can.elicitation.is_some() {
                asks.push(("user_name", ask_text("What is your name?", "name")));
            }
            Ok(if asks.is_empty() { said("nobody to ask") } else { required(&asks, None) })
        }
        "test_missing_capability" => match context.client_capabilities().and_then(|can| can.sampling) {
            Some(_) => Ok(said("it could be asked")),
            None => Err(ErrorData::missing_required_client_capability(
                ClientCapabilities::builder().enable_sampling().build(),
            )),
        },
        "test_sampling" => sample(request, context).await,
        "test_elicitation" => {
            let message = request.arguments.as_ref().and_then(|given| given.get("message")?.as_str());
            let field = |text: &str| json!({ "type": "string", "description": text });
            let properties =
                json!({ "username": field("User's response"), "email": field("User's email address") });
            elicit(context, message.unwrap_or_default(), &properties, &["username", "email"]).await
        }
        "test_elicitation_sep1034_defaults" => elicit(context, "Whatever you like", &defaults(), &[]).await,
        "test_elicitation_sep1330_enums" => elicit(context, "Choose", &choices(), &[]).await,
        "json_schema_2020_12_tool" | "test_custom_header" => Ok(said("done")),
        _ => return None,
    })
}

/// What the suite's prompt that asks first has been told, or what it asks.
pub(crate) fn context_of(answers: Option<&InputResponses>) -> Result<String, InputRequiredResult> {
    let answers = answers.cloned().unwrap_or_default();
    form(&answers, "user_context", "context").ok_or_else(|| {
        let asks = requests(&[("user_context", ask_text("What context should the prompt use?", "context"))]);
        InputRequiredResult::from_input_requests(asks)
    })
}

/// The name that a job was told, or what it asks.
pub(crate) fn name_of(answers: Option<&InputResponses>) -> Result<String, InputRequiredResult> {
    let answers = answers.cloned().unwrap_or_default();
    form(&answers, "user_name", "name").ok_or_else(|| {
        let asks = requests(&[("user_name", ask_text("What is your name?", "name"))]);
        InputRequiredResult::from_input_requests(asks)
    })
}

/// What the suite says for yes, in the field that the server asks for. It never reads what the field is called.
pub(crate) fn understood(answers: &mut InputResponses) {
    for answer in answers.values_mut() {
        let Some(content) = answer.get_mut("content").and_then(Value::as_object_mut) else { continue };
        if ["ok", "confirm"].iter().any(|yes| content.get(*yes) == Some(&Value::Bool(true))) {
            content.insert("approve".to_owned(), Value::Bool(true));
        }
    }
}

fn said(text: &str) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

fn required(asks: &[(&str, Value)], state: Option<&str>) -> CallToolResponse {
    InputRequiredResult::new(Some(requests(asks)), state.map(sealed)).into()
}

fn requests(asks: &[(&str, Value)]) -> InputRequests {
    let read = |ask: &Value| serde_json::from_value::<InputRequest>(ask.clone()).ok();
    asks.iter().filter_map(|(key, ask)| Some(((*key).to_owned(), read(ask)?))).collect()
}

fn ask_form(message: &str, properties: &Value, needed: &[&str]) -> Value {
    let schema = json!({ "type": "object", "properties": properties, "required": needed });
    json!({ "method": "elicitation/create", "params": { "mode": "form", "message": message, "requestedSchema": schema } })
}

fn ask_text(message: &str, field: &str) -> Value {
    ask_form(message, &json!({ field: { "type": "string" } }), &[field])
}

pub(crate) fn ask_yes(message: &str) -> Value {
    ask_form(message, &json!({ "ok": { "type": "boolean" } }), &["ok"])
}

fn ask_model(text: &str) -> Value {
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    json!({ "method": "sampling/createMessage", "params": { "messages": [message], "maxTokens": 100 } })
}

fn ask_roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

/// A field of a form that was filled in.
fn form(answers: &InputResponses, key: &str, field: &str) -> Option<String> {
    let answer = answers.get(key)?;
    let accepted = answer.get("action")?.as_str()? == "accept";
    let value = answer.get("content")?.get(field)?.as_str()?;
    accepted.then(|| value.to_owned())
}

fn sampled(answers: &InputResponses, key: &str) -> Option<String> {
    Some(answers.get(key)?.get("content")?.get("text")?.as_str()?.to_owned())
}

fn sealed(text: &str) -> String {
    format!("{text}.{}", blake3::keyed_hash(KEY, text.as_bytes()).to_hex())
}

fn opened(state: &str) -> Result<String, ErrorData> {
    let parts = state.split_once('.');
    let good = parts.filter(|(text, seal)| {
        blake3::Hash::from_hex(seal).is_ok_and(|seal| seal == blake3::keyed_hash(KEY, text.as_bytes()))
    });
    let refused = || ErrorData::invalid_params("requestState was not made here", None);
    good.map(|(text, _)| text.to_owned()).ok_or_else(refused)
}

async fn sample(
    request: &CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let prompt = request.arguments.as_ref().and_then(|given| given.get("prompt")?.as_str());
    let message = SamplingMessage::user_text(prompt.unwrap_or_default());
    let answer = context.peer.create_message(CreateMessageRequestParams::new(vec![message], 100)).await;
    let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let text =
        answer.message.content.first().and_then(|content| content.as_text()).map(|text| text.text.clone());
    Ok(said(&format!("LLM response: {}", text.unwrap_or_default())))
}

async fn elicit(
    context: &RequestContext<RoleServer>,
    message: &str,
    properties: &Value,
    needed: &[&str],
) -> Result<CallToolResponse, ErrorData> {
    let wrong = |error: serde_json::Error| ErrorData::internal_error(error.to_string(), None);
    let mut schema = json!({ "type": "object", "properties": properties });
    if let (false, Some(schema)) = (needed.is_empty(), schema.as_object_mut()) {
        schema.insert("required".to_owned(), json!(needed));
    }
    let requested_schema = serde_json::from_value(schema).map_err(wrong)?;
    let asked = ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: message.to_owned(),
        requested_schema,
    };
    let answer = context.peer.create_elicitation(asked).await;
    let answer = answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
    let action = match answer.action {
        ElicitationAction::Accept => "accept",
        ElicitationAction::Decline => "decline",
        _ => "cancel",
    };
    let content = answer.content.unwrap_or_default();
    Ok(said(&format!("Elicitation completed: action={action}, content={content}")))
}

fn defaults() -> Value {
    json!({
        "name": { "type": "string", "description": "A name.", "default": "John Doe" },
        "age": { "type": "integer", "description": "An age.", "default": 30 },
        "score": { "type": "number", "description": "A score.", "default": 95.5 },
        "status": { "type": "string", "enum": ["active", "inactive", "pending"], "default": "active" },
        "verified": { "type": "boolean", "description": "Whether it is.", "default": true },
    })
}

fn choices() -> Value {
    let titled = |title: &str| {
        let one = |number: u32, word: &str| json!({ "const": format!("value{number}"), "title": format!("{word} {title}") });
        json!([one(1, "First"), one(2, "Second"), one(3, "Third")])
    };
    let plain = json!(["option1", "option2", "option3"]);
    json!({
        "untitledSingle": { "type": "string", "enum": plain },
        "titledSingle": { "type": "string", "oneOf": titled("Option") },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": { "type": "array", "items": { "type": "string", "enum": plain } },
        "titledMulti": { "type": "array", "items": { "anyOf": titled("Choice") } },
    })
}

/// Keywords that must arrive as they are.
fn schema_2020_12() -> Value {
    let text = || json!({ "type": "string" });
    let needs = |field: &str| json!({ "required": [field] });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": text(), "city": text() },
            },
        },
        "properties": {
            "name": text(),
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": text(),
            "email": text(),
        },
        "allOf": [{ "anyOf": [needs("phone"), needs("email")] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": needs("phone"),
        "else": needs("email"),
        "additionalProperties": false,
    })
}

fn header_schema() -> Value {
    json!({
        "type": "object",
        "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
        "required": ["region"],
    })
}
