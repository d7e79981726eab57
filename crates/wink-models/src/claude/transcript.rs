//! What was said, from what the program tells of it: pieces of responses, and results of tools, become the steps of a
//! conversation.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use wink::limits::TokenUsage;
use wink::session::Ending;

use super::mcp::PREFIX;
use super::native::Native;
use super::wire::{self, Event, Finished, Usage, text_of};
use crate::conversation::{Said, Tally};
use crate::message::{Called, ToolAnswer};
use crate::model::{ModelResponse, Piece, Stop, Stream};

/// The tool by which the program has the model hand over a typed result. It is no call: its input is the last word.
pub(super) const STRUCTURED: &str = "StructuredOutput";

/// What the program says itself in place of the model.
const SYNTHETIC: &str = "<synthetic>";

/// What is known of the response that the model is giving, or gave last.
#[derive(Default)]
pub(super) struct Transcript {
    turn: Option<Turn>,
    answers: HashMap<Arc<str>, ToolAnswer>,
    endings: HashMap<Arc<str>, Ending>,
    expanded: bool,
}

#[derive(Default)]
struct Turn {
    id: String,
    text: String,
    structured: Option<Value>,
    calls: Vec<Called>,
    usage: Usage,
    stop: Option<String>,
    is_whole: bool,
}

impl Transcript {
    /// The model said something. What this gives was said before.
    pub(super) fn heard(&mut self, said: &wire::Said) -> Vec<Said> {
        if said.parent_tool_use_id.is_some() || said.message.model == SYNTHETIC {
            return Vec::new();
        }
        let before = self.turn(&said.message.id);
        let Some(turn) = &mut self.turn else { return before };
        turn.usage = said.message.usage.updated(turn.usage);
        for block in said.message.blocks() {
            match block.kind.as_str() {
                "text" => turn.text.push_str(&block.text.unwrap_or_default()),
                "tool_use" if block.name == STRUCTURED => turn.structured = Some(block.input),
                "tool_use" => turn.calls.push(Called {
                    id: block.id.into(),
                    name: known_name(&block.name).into(),
                    arguments: block.input.to_string().into(),
                }),
                _ => {}
            }
        }
        before
    }

    /// A piece of a response arrived. What this gives was said before.
    pub(super) fn event(&mut self, event: &Event, stream: &(impl Stream + ?Sized)) -> Vec<Said> {
        let mut before = Vec::new();
        match event.kind.as_str() {
            "message_start" => {
                before = self.turn(&event.message.id);
                if let Some(turn) = &mut self.turn {
                    turn.usage = turn.usage.updated(event.message.usage);
                }
            }
            "content_block_start" if event.content_block.kind == "tool_use" => {
                stream.piece(Piece::Call { name: known_name(&event.content_block.name) });
            }
            "content_block_delta" => {
                if let Some(text) = &event.delta.text {
                    stream.piece(Piece::Text(text));
                }
                if let Some(thinking) = &event.delta.thinking {
                    stream.piece(Piece::Thinking(thinking));
                }
            }
            "message_delta" => {
                if let Some(turn) = &mut self.turn {
                    turn.usage = turn.usage.updated(event.usage);
                    turn.stop = event.delta.stop_reason.clone().or_else(|| turn.stop.take());
                }
            }
            "message_stop" => {
                if let Some(turn) = &mut self.turn {
                    turn.is_whole = true;
                }
            }
            _ => {}
        }
        before
    }

    /// The model is told what became of calls: their ids, and what it is told of those that failed.
    pub(super) fn told(&mut self, said: &wire::Said) -> Vec<(String, String)> {
        let mut failed = Vec::new();
        for block in said.message.blocks().into_iter().filter(|block| block.kind == "tool_result") {
            let text = text_of(&block.content);
            let success = !block.is_error.unwrap_or(false);
            if said.parent_tool_use_id.is_none() {
                let id: Arc<str> = block.tool_use_id.as_str().into();
                let text = text.as_str().into();
                let answer = ToolAnswer { id: Arc::clone(&id), name: Arc::default(), text, success };
                self.answers.insert(id, answer);
            }
            failed.push((block.tool_use_id, text));
        }
        failed
    }

    /// A call ended, of the model or of a sub-agent.
    pub(super) fn ended(&mut self, id: &Arc<str>, ending: Ending) {
        self.endings.insert(Arc::clone(id), ending);
    }

    /// Sections were opened.
    pub(super) fn expanded(&mut self) {
        self.expanded = true;
    }

    /// What was said, if the model is about to be asked again.
    pub(super) fn settled(&mut self) -> Vec<Said> {
        let is_settled = self.turn.as_ref().is_some_and(|turn| {
            turn.is_whole
                && !turn.calls.is_empty()
                && turn.calls.iter().all(|call| self.answers.contains_key(&call.id))
        });
        if is_settled { self.settle() } else { Vec::new() }
    }

    /// All that was said, now that the model is done: the last is its last word.
    pub(super) fn finish(&mut self, finished: &Finished) -> Vec<Said> {
        let last = self.turn.take_if(|turn| turn.calls.is_empty()).unwrap_or_default();
        let mut said = self.settle();
        let structured = finished.structured_output.as_ref().or(last.structured.as_ref());
        let text = match (structured, last.text.is_empty()) {
            (Some(output), _) => output.to_string(),
            (None, false) => last.text,
            (None, true) => finished.result.clone().unwrap_or_default(),
        };
        let stop = match last.stop.as_deref().or(finished.stop_reason.as_deref()) {
            Some("refusal") => Stop::Refused,
            Some("max_tokens" | "model_context_window_exceeded") => Stop::Truncated,
            _ => Stop::Complete,
        };
        said.push(Said::Responded(ModelResponse {
            text: text.into(),
            calls: Vec::new(),
            stop,
            usage: last.usage.tokens(),
            provider: None,
        }));
        said
    }

    /// How calls ended that belong to no response that is settled.
    pub(super) fn tally(&mut self) -> Tally {
        Tally::of(self.endings.drain().map(|(_, ending)| ending))
    }

    /// Goes on to a response, if it is another one.
    fn turn(&mut self, id: &str) -> Vec<Said> {
        if self.turn.as_ref().is_some_and(|turn| turn.id == id) {
            return Vec::new();
        }
        let said = self.settle();
        self.turn = Some(Turn { id: id.to_owned(), ..Turn::default() });
        said
    }

    /// What the last response was, and what its calls came to. One without calls after which the model went on was a pause.
    fn settle(&mut self) -> Vec<Said> {
        let Some(turn) = self.turn.take() else { return Vec::new() };
        let stop = if turn.calls.is_empty() { Stop::Paused } else { Stop::Complete };
        let answers: Vec<ToolAnswer> = turn
            .calls
            .iter()
            .map(|call| {
                let name = Arc::clone(&call.name);
                match self.answers.remove(&call.id) {
                    Some(answer) => ToolAnswer { name, ..answer },
                    None => ToolAnswer {
                        id: Arc::clone(&call.id),
                        name,
                        text: "Claude Code did not say what came of it".into(),
                        success: false,
                    },
                }
            })
            .collect();
        // What the program refused by itself never came here.
        for call in &turn.calls {
            self.endings.entry(Arc::clone(&call.id)).or_insert(Ending::Rejected);
        }
        let has_calls = !turn.calls.is_empty();
        let response = ModelResponse {
            text: turn.text.into(),
            calls: turn.calls,
            stop,
            usage: turn.usage.tokens(),
            provider: None,
        };
        let mut said = vec![Said::Responded(response)];
        if has_calls {
            let expanded = std::mem::take(&mut self.expanded);
            said.push(Said::Answered { answers, tally: self.tally(), expanded });
        }
        said
    }
}

/// What the program has spent beside what was said.
pub(super) fn beside(whole: TokenUsage, counted: TokenUsage) -> TokenUsage {
    TokenUsage {
        input_tokens: whole.input_tokens.saturating_sub(counted.input_tokens),
        output_tokens: whole.output_tokens.saturating_sub(counted.output_tokens),
        cached_tokens: whole.cached_tokens.saturating_sub(counted.cached_tokens),
    }
}

/// What the session calls a tool.
fn known_name(name: &str) -> &str {
    match name.strip_prefix(PREFIX) {
        Some(own) => own,
        None => Native::by_name(name).map_or(name, |native| native.tool()),
    }
}
