//! What the model said in a run of the program, from what the program told of it: for whoever says it again without the program.

use serde_json::Value;

use super::transcript::Transcript;
use super::wire::Frame;
use crate::conversation::Said;
use crate::model::ModelResponse;

/// The responses in lines of the program, in order.
pub(crate) fn responses<'a>(heard: impl IntoIterator<Item = &'a Value>) -> Vec<ModelResponse> {
    let mut transcript = Transcript::default();
    let mut said = Vec::new();
    for line in heard {
        // What cannot be read was not understood when it was heard, either.
        let Ok(frame) = Frame::read(line.to_string().as_bytes()) else { continue };
        match frame {
            Frame::Assistant(message) => said.extend(transcript.heard(&message, &())),
            Frame::Event { of_sub_agent: false, event } => said.extend(transcript.event(&event, &())),
            Frame::Result(finished) => said.extend(transcript.finish(&finished)),
            _ => {}
        }
    }
    said.extend(transcript.broken_off());
    let responses = said.into_iter().filter_map(|said| match said {
        Said::Responded(response) => Some(response),
        _ => None,
    });
    responses.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::message::Called;
    use crate::model::Stop;

    fn said(id: &str, block: &Value) -> Value {
        json!({ "type": "assistant", "message": { "id": id, "model": "m", "content": [block] } })
    }

    #[test]
    fn what_a_model_said_is_put_together_and_the_typed_result_is_its_last_word() {
        let call = json!({ "type": "tool_use", "id": "1", "name": "mcp__wink__write_file", "input": { "path": "a" } });
        let typed = json!({ "type": "tool_use", "id": "2", "name": "StructuredOutput", "input": { "n": 1 } });
        let mut of_sub_agent = said("s", &json!({ "type": "text", "text": "aside" }));
        of_sub_agent["parent_tool_use_id"] = json!("1");
        let heard = [
            said("a", &json!({ "type": "text", "text": "I write." })),
            said("a", &call),
            of_sub_agent,
            said("b", &typed),
            json!({ "type": "result", "subtype": "success", "structured_output": { "n": 1 } }),
        ];
        let told: Vec<(Arc<str>, Vec<Called>, Stop)> =
            responses(&heard).into_iter().map(|said| (said.text, said.calls, said.stop)).collect();
        let call = Called { id: "1".into(), name: "write_file".into(), arguments: r#"{"path":"a"}"#.into() };
        let expected = [
            ("I write.".into(), vec![call], Stop::Complete),
            (r#"{"n":1}"#.into(), Vec::new(), Stop::Complete),
        ];
        assert_eq!(told, expected);
        assert_eq!(responses(heard.iter().take(2)).len(), 1, "also where nothing more came");
    }
}
