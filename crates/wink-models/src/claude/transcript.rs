//! What was said, from what the program tells of it: pieces of responses, and results of tools, become the steps of a
//! conversation.

use std::collections::{HashMap, HashSet};
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
    /// What the program told the model of calls.
    answers: HashMap<Arc<str>, ToolAnswer>,
    /// What came of calls of our tools.
    own: HashMap<Arc<str>, ToolAnswer>,
    /// Calls of our tools that were answered since the response began.
    made: HashSet<Arc<str>>,
    endings: HashMap<Arc<str>, Ending>,
    expanded: bool,
}

#[derive(Default)]
struct Turn {
    id: String,
    text: String,
    /// What it hands over as the typed result, and the id of that.
    structured: Option<(String, Value)>,
    calls: Vec<Called>,
    usage: Usage,
    stop: Option<String>,
    /// It comes in pieces, the last of which says so.
    is_streamed: bool,
    is_whole: bool,
    /// The conversation has it.
    is_told: bool,
}

impl Turn {
    fn stop(&self) -> Stop {
        stopped_by(self.stop.as_deref())
    }

    fn has(&self, id: &str) -> bool {
        self.calls.iter().any(|call| &*call.id == id)
    }

    /// Whether it is a typed result, handed over with this.
    fn hands_over(&self, id: &str) -> bool {
        self.structured.as_ref().is_some_and(|(handed, _)| handed == id)
    }

    /// The calls that are executed: one that was cut off is not.
    fn executed(&self) -> &[Called] {
        match (self.stop(), &*self.calls) {
            (Stop::Truncated, [whole @ .., _]) => whole,
            (Stop::Refused, _) => &[],
            (_, all) => all,
        }
    }

    fn response(&self, stop: Stop) -> Said {
        Said::Responded(ModelResponse {
            text: self.text.as_str().into(),
            calls: self.calls.clone(),
            stop,
            usage: self.usage.tokens(),
            provider: None,
        })
    }
}

fn stopped_by(reason: Option<&str>) -> Stop {
    match reason {
        Some("refusal") => Stop::Refused,
        Some("max_tokens" | "model_context_window_exceeded") => Stop::Truncated,
        _ => Stop::Complete,
    }
}

/// Where a call of the model is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// In a response that is not whole yet, so that nobody knows what else is in it.
    Coming,
    /// In the response that the conversation has heard last.
    Heard,
    /// In none that is known: it is a sub-agent's, or was given up.
    Elsewhere,
}

impl Transcript {
    /// The model said something. What this gives was said before.
    pub(super) fn heard(&mut self, said: &wire::Said, stream: &(impl Stream + ?Sized)) -> Vec<Said> {
        if said.parent_tool_use_id.is_some() || said.message.model == SYNTHETIC {
            return Vec::new();
        }
        let before = self.turn(&said.message.id, false);
        let Some(turn) = &mut self.turn else { return before };
        turn.usage = said.message.usage.updated(turn.usage);
        for block in said.message.blocks() {
            match block.kind.as_str() {
                "text" => turn.text.push_str(&block.text.unwrap_or_default()),
                "tool_use" if block.name == STRUCTURED => {
                    stream.piece(Piece::Text(&block.input.to_string()));
                    turn.structured = Some((block.id, block.input));
                }
                "tool_use" => turn.calls.push(Called {
                    id: block.id.into(),
                    name: known_name(&block.name).into(),
                    arguments: wire::written(&block.input).into(),
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
                before = self.turn(&event.message.id, true);
                if let Some(turn) = &mut self.turn {
                    turn.usage = turn.usage.updated(event.message.usage);
                }
            }
            "content_block_start"
                if event.content_block.kind == "tool_use" && event.content_block.name != STRUCTURED =>
            {
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
            // Of a response that came as a whole, all is here by now.
            self.place(&block.tool_use_id);
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

    /// A call of one of our tools was answered.
    pub(super) fn answered(&mut self, answer: ToolAnswer) {
        self.made.insert(Arc::clone(&answer.id));
        self.own.insert(Arc::clone(&answer.id), answer);
    }

    /// Whether one of our tools has answered a call of this id since the response began.
    pub(super) fn is_answered(&self, id: &str) -> bool {
        self.made.contains(id)
    }

    /// Sections were opened.
    pub(super) fn expanded(&mut self) {
        self.expanded = true;
    }

    /// Where a call is that the program is about to make. It makes none of a response that comes as a whole before all of that is here.
    pub(super) fn place(&mut self, id: &str) -> Place {
        let turn = self.turn.as_mut().filter(|turn| turn.hands_over(id) || turn.has(id));
        match turn {
            None => Place::Elsewhere,
            Some(turn) if turn.is_told || turn.is_whole && !turn.has(id) => Place::Heard,
            Some(turn) => {
                turn.is_whole |= !turn.is_streamed;
                Place::Coming
            }
        }
    }

    /// The call of the response that the conversation has heard last, if the program has answered it and nobody here was asked.
    pub(super) fn not_asked(&self, id: &str) -> Option<&Called> {
        let turn = self.turn.as_ref().filter(|turn| turn.is_told)?;
        let is_new = !self.endings.contains_key(id) && !self.own.contains_key(id);
        turn.executed().iter().find(|call| &*call.id == id && is_new)
    }

    /// The response that is whole now, and that the conversation must have before any of its calls is made. One without calls may be
    /// a pause, or the last word: what comes next says which.
    pub(super) fn responded(&mut self) -> Option<Said> {
        let turn = self.turn.as_mut().filter(|turn| turn.is_whole && !turn.is_told)?;
        let stop = turn.stop();
        if turn.calls.is_empty() && stop == Stop::Complete {
            return None;
        }
        turn.is_told = true;
        Some(turn.response(stop))
    }

    /// The typed result that is handed over with this, if that is all that the response is.
    pub(super) fn handed_over(&self, id: &str) -> Option<String> {
        let turn = self.turn.as_ref().filter(|turn| turn.calls.is_empty() && turn.hands_over(id))?;
        let (_, output) = turn.structured.as_ref().filter(|_| turn.stop() == Stop::Complete)?;
        Some(output.to_string())
    }

    /// The response that is a typed result, which is not taken.
    pub(super) fn refused(&mut self, text: String) -> Said {
        let turn = self.turn.take().unwrap_or_default();
        Turn { text, ..turn }.response(Stop::Complete)
    }

    /// What came of the calls of the last response, when that is known of all of them.
    pub(super) fn settled(&mut self) -> Option<Said> {
        let turn = self.turn.as_ref().filter(|turn| turn.is_told && !turn.executed().is_empty())?;
        let is_known = |call: &Called| {
            let (id, told) = (&call.id, self.answers.contains_key(&call.id));
            self.own.contains_key(id) || told && self.endings.contains_key(id)
        };
        if !turn.executed().iter().all(is_known) {
            return None;
        }
        let turn = self.turn.take()?;
        Some(self.answers_of(&turn))
    }

    /// All that was said, now that the model is done: the last is its last word.
    pub(super) fn finish(&mut self, finished: &Finished) -> Vec<Said> {
        let last = self.turn.take_if(|turn| turn.calls.is_empty()).unwrap_or_default();
        let mut said = self.settle();
        let structured = finished.structured_output.as_ref().or(last.structured.as_ref().map(|(_, it)| it));
        let text = match (structured, last.text.is_empty()) {
            (Some(output), _) => output.to_string(),
            (None, false) => last.text,
            (None, true) => finished.result.clone().unwrap_or_default(),
        };
        said.push(Said::Responded(ModelResponse {
            text: text.into(),
            calls: Vec::new(),
            stop: stopped_by(last.stop.as_deref().or(finished.stop_reason.as_deref())),
            usage: last.usage.tokens(),
            provider: None,
        }));
        said
    }

    /// What was said before nothing more came. A response in the middle of which that was is none.
    pub(super) fn broken_off(&mut self) -> Vec<Said> {
        drop(self.turn.take_if(|turn| turn.is_streamed && !turn.is_whole));
        self.settle()
    }

    /// How calls ended that belong to no response that is settled.
    pub(super) fn tally(&mut self) -> Tally {
        Tally::of(self.endings.drain().map(|(_, ending)| ending))
    }

    /// Goes on to a response, if it is another one.
    fn turn(&mut self, id: &str, is_streamed: bool) -> Vec<Said> {
        if self.turn.as_ref().is_some_and(|turn| turn.id == id) {
            return Vec::new();
        }
        // One that broke off in the middle was never said: the program asks again.
        let said = self.broken_off();
        self.answers.clear();
        self.own.clear();
        self.made.clear();
        self.turn = Some(Turn { id: id.to_owned(), is_streamed, ..Turn::default() });
        said
    }

    /// What the last response was, and what its calls came to. One without calls after which the model went on was a pause.
    fn settle(&mut self) -> Vec<Said> {
        let Some(turn) = self.turn.take() else { return Vec::new() };
        let mut said = Vec::new();
        if !turn.is_told {
            said.push(turn.response(if turn.calls.is_empty() { Stop::Paused } else { turn.stop() }));
        }
        if !turn.executed().is_empty() {
            said.push(self.answers_of(&turn));
        }
        said
    }

    fn answers_of(&mut self, turn: &Turn) -> Said {
        let mut answers = Vec::new();
        for Called { id, name, .. } in turn.executed() {
            let (id, name) = (Arc::clone(id), Arc::clone(name));
            // What the program refused by itself never came here.
            self.endings.entry(Arc::clone(&id)).or_insert(Ending::Rejected);
            answers.push(match self.own.remove(&id).or_else(|| self.answers.remove(&id)) {
                Some(answer) => ToolAnswer { name, ..answer },
                None => {
                    let text = "Claude Code did not say what came of it".into();
                    ToolAnswer { id, name, text, success: false }
                }
            });
        }
        let expanded = std::mem::take(&mut self.expanded);
        Said::Answered { answers, tally: self.tally(), expanded }
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
pub(crate) fn known_name(name: &str) -> &str {
    match name.strip_prefix(PREFIX) {
        Some(own) => own,
        None => Native::by_name(name).map_or(name, |native| native.tool()),
    }
}
