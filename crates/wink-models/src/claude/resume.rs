//! A run that is taken up again: the program gets what was said so far as one of its own transcripts, and goes on from there.
//!
//! What was said is in the session's log, and is all that counts: the program's own notes end with it, and may be behind. So what was
//! to be executed is executed first, here ([`take_up`]), with the keys that it had; the program never makes those calls again.

use std::sync::Arc;

use imbl::Vector;
use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;
use wink::executor::ToolCall;

use super::mcp::PREFIX;
use super::native::Native;
use super::serve::NO_TASK;
use super::working::arguments;
use crate::conversation::{Completed, Conversation, Ended, Next, StopReason};
use crate::driver::Ground;
use crate::message::{Called, Message};

/// What the model is told when it is its turn, and nobody has anything to say.
const GO_ON: &str = "Go on.";

/// What a program goes on from.
pub(super) struct GoesOn {
    /// One line for each message, as the program writes them down.
    pub(super) transcript: String,
    /// What it is told then.
    pub(super) say: Arc<str>,
}

impl GoesOn {
    /// After these messages; nothing if the model has said nothing yet.
    pub(super) fn after(messages: &Vector<Arc<Message>>, model: &str, now: Timestamp) -> Option<Self> {
        if !messages.iter().any(|message| matches!(**message, Message::Assistant { .. })) {
            return None;
        }
        let (say, told) = match messages.last().map(|message| &**message) {
            Some(Message::User { text }) => (Arc::clone(text), messages.len().saturating_sub(1)),
            _ => (GO_ON.into(), messages.len()),
        };
        let mut lines = Lines { text: String::new(), before: None, session: Uuid::new_v4(), now };
        if !matches!(messages.front().map(|message| &**message), Some(Message::User { .. })) {
            lines.user(&json!(NO_TASK));
        }
        for message in messages.iter().take(told) {
            match &**message {
                Message::User { text } => lines.user(&json!(&**text)),
                Message::Assistant { text, calls, .. } => lines.assistant(model, text, calls),
                Message::Tools { answers } => {
                    let result = |id: &str, text: &str, success: bool| json!({ "type": "tool_result", "tool_use_id": id, "content": text, "is_error": !success });
                    let results = answers.iter().map(|it| result(&it.id, &it.text, it.success));
                    lines.user(&results.collect());
                }
            }
        }
        Some(Self { transcript: lines.text, say })
    }
}

/// A transcript as it is written.
struct Lines {
    text: String,
    before: Option<Uuid>,
    session: Uuid,
    now: Timestamp,
}

impl Lines {
    fn user(&mut self, content: &Value) {
        self.line("user", &json!({ "role": "user", "content": content }));
    }

    fn assistant(&mut self, model: &str, text: &str, calls: &[Called]) {
        let mut content = Vec::new();
        // A message has to have something.
        if !text.is_empty() || calls.is_empty() {
            content.push(json!({ "type": "text", "text": if text.trim().is_empty() { "…" } else { text } }));
        }
        content.extend(calls.iter().map(|call| {
            let name = match Native::by_tool(&call.name) {
                Some(native) => native.name().to_owned(),
                None => format!("{PREFIX}{}", call.name),
            };
            let input: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            let input = if input.is_object() { input } else { json!({}) };
            json!({ "type": "tool_use", "id": call.id, "name": name, "input": input })
        }));
        let id = format!("msg_{}", Uuid::new_v4().simple());
        let usage = json!({ "input_tokens": 0, "output_tokens": 0 });
        self.line(
            "assistant",
            &json!({
                "id": id, "type": "message", "role": "assistant", "model": model, "content": content,
                "stop_reason": null, "stop_sequence": null, "usage": usage,
            }),
        );
    }

    fn line(&mut self, kind: &str, message: &Value) {
        let id = Uuid::new_v4();
        let line = json!({
            "parentUuid": self.before, "isSidechain": false, "type": kind, "message": message, "uuid": id,
            "timestamp": format!("{:.3}", self.now), "sessionId": self.session,
        });
        self.text.push_str(&line.to_string());
        self.text.push('\n');
        self.before = Some(id);
    }
}

/// Brings a run that was stopped to where the model is asked again, without the program: what its calls came to is looked up or made
/// up for. Gives what it came to, if it is at its end.
pub(super) async fn take_up(
    ground: &Ground<'_>,
    conversation: &mut Conversation,
    workspace: Option<&std::path::Path>,
) -> Result<Option<Completed>, StopReason> {
    ground.take_up(conversation)?;
    // What somebody may have begun.
    let mut attempt = 2;
    loop {
        let mut parsed = None;
        let input = match conversation.next() {
            Next::Ended(Ended::Completed(completed)) => return Ok(Some(completed)),
            Next::Ended(Ended::Stopped(reason)) => return Err(reason),
            Next::Ask => return Ok(None),
            Next::Wait(wait) => ground.wait(wait).await,
            Next::Execute(calls) => {
                let tried = std::mem::replace(&mut attempt, 1);
                let calls = calls.into_iter().map(|call| as_it_was(call, workspace).attempt(tried)).collect();
                ground.execute(calls).await.0
            }
            Next::Finish(text) => {
                let rendered = ground.executor.rendered();
                let rendered =
                    rendered.ok_or_else(|| StopReason::Runtime("the prompt was not rendered".to_owned()))?;
                let (input, output) = ground.judged(&rendered, conversation.reminders_left(), text).await;
                parsed = output;
                input
            }
        };
        ground.tell(conversation, input, parsed).await?;
    }
}

/// A call as it was made at first: one of the program's own tools has its arguments in our form.
fn as_it_was(call: ToolCall, workspace: Option<&std::path::Path>) -> ToolCall {
    let Some(native) = Native::by_tool(&call.tool) else { return call };
    let input = serde_json::from_str(&call.arguments).unwrap_or_default();
    ToolCall { arguments: arguments(native, &input, workspace).0.into(), ..call }
}

#[cfg(test)]
mod tests;
