//! The suite's prompts and resources, and content that is no text.

use rmcp::model::{
    AudioContent, CallToolResult, ContentBlock, ErrorData, GetPromptRequestParams, GetPromptResult,
    JsonObject, Prompt, PromptArgument, PromptMessage, Resource, ResourceContents, ResourceTemplate, Role,
};
use wink_mcp::rmcp;

use crate::tools::{PICTURE, Part, Parts};

/// Shows the parts of a value as what they are.
pub(crate) fn shown(mut result: CallToolResult) -> CallToolResult {
    let value =
        result.structured_content.clone().and_then(|value| serde_json::from_value::<Parts>(value).ok());
    if let Some(value) = value {
        result.content = value.parts.into_iter().map(block).collect();
    }
    result
}

fn block(part: Part) -> ContentBlock {
    match part {
        Part::Text { text } => ContentBlock::text(text),
        Part::Picture { data } => ContentBlock::image(data, "image/png"),
        Part::Sound { data } => ContentBlock::Audio(AudioContent::new(data, "audio/wav")),
        Part::Resource { uri, mime, text } => {
            ContentBlock::resource(ResourceContents::text(text, uri).with_mime_type(mime))
        }
    }
}

pub(crate) fn prompts() -> Vec<Prompt> {
    let argument =
        |name: &str| PromptArgument::new(name).with_description("For the test.").with_required(true);
    let prompt = |name: &str, arguments: Vec<PromptArgument>| {
        Prompt::new(name, Some("For the test."), (!arguments.is_empty()).then_some(arguments))
    };
    vec![
        prompt("test_simple_prompt", Vec::new()),
        prompt("test_prompt_with_arguments", vec![argument("arg1"), argument("arg2")]),
        prompt("test_prompt_with_embedded_resource", vec![argument("resourceUri")]),
        prompt("test_prompt_with_image", Vec::new()),
        prompt("test_input_required_result_prompt", Vec::new()),
    ]
}

/// One of the suite's prompts; none if it is not one of them.
pub(crate) fn prompt(request: &GetPromptRequestParams) -> Option<Result<GetPromptResult, ErrorData>> {
    let argument = |name: &str| {
        let given = request.arguments.as_ref().and_then(|given: &JsonObject| given.get(name)?.as_str());
        given.ok_or_else(|| ErrorData::invalid_params(format!("argument {name} is missing"), None))
    };
    let text = |text: String| PromptMessage::new_text(Role::User, text);
    let messages = match request.name.as_str() {
        "test_simple_prompt" => Ok(vec![text("This is a simple prompt for testing.".to_owned())]),
        "test_prompt_with_arguments" => argument("arg1").and_then(|one| {
            let other = argument("arg2")?;
            Ok(vec![text(format!("Prompt with arguments: arg1='{one}', arg2='{other}'"))])
        }),
        "test_prompt_with_embedded_resource" => argument("resourceUri").map(|uri| {
            let resource = ResourceContents::text("Embedded resource content for testing.", uri);
            let resource = ContentBlock::resource(resource.with_mime_type("text/plain"));
            vec![
                PromptMessage::new(Role::User, resource),
                text("Please process the embedded resource above.".to_owned()),
            ]
        }),
        "test_prompt_with_image" => Ok(vec![
            PromptMessage::new(Role::User, ContentBlock::image(PICTURE, "image/png")),
            text("Please analyze the image above.".to_owned()),
        ]),
        _ => return None,
    };
    Some(messages.map(GetPromptResult::new))
}

pub(crate) fn resources() -> Vec<Resource> {
    let resource = |uri: &str, name: &str, mime: &str| {
        Resource::new(uri, name).with_description("For the test.").with_mime_type(mime)
    };
    vec![
        resource("test://static-text", "static-text", "text/plain"),
        resource("test://static-binary", "static-binary", "image/png"),
        resource("test://watched-resource", "watched-resource", "text/plain"),
    ]
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let template = ResourceTemplate::new("test://template/{id}/data", "template");
    vec![template.with_description("For the test.").with_mime_type("application/json")]
}

/// One of the suite's resources.
pub(crate) fn resource(uri: &str) -> Option<ResourceContents> {
    let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
    if let Some(id) = id {
        let text =
            serde_json::json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
        return Some(ResourceContents::text(text.to_string(), uri).with_mime_type("application/json"));
    }
    match uri {
        "test://static-text" => {
            let text = "This is the content of the static text resource.";
            Some(ResourceContents::text(text, uri).with_mime_type("text/plain"))
        }
        "test://static-binary" => Some(ResourceContents::blob(PICTURE, uri).with_mime_type("image/png")),
        "test://watched-resource" => {
            Some(ResourceContents::text("It does not change.", uri).with_mime_type("text/plain"))
        }
        _ => None,
    }
}
