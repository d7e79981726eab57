//! The hooks of the program: it says that a tool is about to run, and how it ended. Its own tools are calls of the executor like any other.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::AsyncRead;
use wink::BoxFuture;
use wink::executor::{Approval, ApprovalRequest, Approver, CallOptions, Outcome, ToolCall};
use wink::resource::BoxError;
use wink::session::Ending;
use wink::transaction::ToolEnd;

use super::mcp::PREFIX;
use super::native::Native;
use super::serve::{Done, Held, Server};
use super::transcript::STRUCTURED;
use super::wire::{self, Hook};
use super::working::arguments;
use crate::conversation::StopReason;
use crate::message::Called;

/// What a failed tool's answer has beside the program's words.
const UNDONE: &str = "What this call changed in the workspace is undone.";

/// A call of one of the program's own tools.
pub(super) struct NativeCall {
    /// The hook that waits for permission.
    before: Option<String>,
    /// The program has said how it ended.
    is_over: bool,
    /// The hook that said so, and its event.
    after: Option<(String, String)>,
}

impl<R: AsyncRead + Unpin + Send> Server<'_, R> {
    pub(super) fn hook(&mut self, request: String, hook: Hook) -> Result<(), StopReason> {
        match hook.event.as_str() {
            "PreToolUse" => return self.before(request, hook),
            "PostToolUse" => {
                let mut response = self.scrubber.value(hook.tool_response);
                // The whole file, as it was: the workspace remembers that.
                if let Some(response) = response.as_object_mut() {
                    response.remove("originalFile");
                }
                self.ended(&hook.tool_use_id, (ToolEnd::Succeeded, response), Some((request, hook.event)));
            }
            "PostToolUseFailure" => {
                let text = self.scrubber.text(&wire::text_of(&hook.error));
                self.ended(&hook.tool_use_id, (ToolEnd::Failed, text.into()), Some((request, hook.event)));
            }
            _ => self.writer.say(&wire::answer(&request, Ok(json!({})))),
        }
        Ok(())
    }

    /// A tool is about to run: ours are judged when they are called, the program's own are now.
    fn before(&mut self, request: String, hook: Hook) -> Result<(), StopReason> {
        if self.is_stopping {
            self.writer.say(&wire::answer(&request, Ok(wire::deny("the run is being stopped"))));
        } else if hook.tool_name.starts_with(PREFIX) {
            self.writer.say(&wire::answer(&request, Ok(wire::allow())));
        } else if hook.tool_name == STRUCTURED {
            return self.arrived(Held::Output { request, hook }, false);
        } else {
            return self.arrived(Held::Native { request, hook }, false);
        }
        Ok(())
    }

    /// Has one of the program's own tools run, if it may.
    pub(super) fn native(&mut self, request: String, hook: Hook) {
        let id: Arc<str> = hook.tool_use_id.into();
        let native = Native::by_name(&hook.tool_name).filter(|_| self.workspace.is_some());
        let (Some(native), false) = (native, self.natives.contains_key(&id)) else {
            let reason = format!("{} cannot be called here", hook.tool_name);
            self.writer.say(&wire::answer(&request, Ok(wire::deny(&reason))));
            return;
        };
        let input = self.scrubber.value(hook.tool_input);
        let (arguments, refusal) = arguments(native, &input, self.workspace.as_deref());
        self.pending.expect(&id, native, refusal);
        let call = NativeCall { before: Some(request), is_over: false, after: None };
        self.natives.insert(Arc::clone(&id), call);
        let call = self.keyed(ToolCall::new(id, native.tool(), arguments));
        self.spawn(call, CallOptions::new(), Done::Native);
    }

    /// The workspace is saved, and the program may begin.
    pub(super) fn begin(&mut self, id: &str) {
        if let Some(request) = self.natives.get_mut(id).and_then(|call| call.before.take()) {
            self.writer.say(&wire::answer(&request, Ok(wire::allow())));
        }
    }

    /// A tool has run.
    fn ended(&mut self, id: &str, (end, said): (ToolEnd, Value), after: Option<(String, String)>) {
        match self.natives.get_mut(id).filter(|call| !call.is_over) {
            // One whose handler has given up is answered when that is seen.
            Some(call) => {
                call.is_over = true;
                call.after = after;
                self.pending.ended(id, end, said);
            }
            None => {
                if let Some((request, _)) = after {
                    self.writer.say(&wire::answer(&request, Ok(json!({}))));
                }
            }
        }
    }

    /// The model was told what came of a call. One that ended without a hook saying so was stopped, whatever it says; and one that
    /// nobody here was asked about was refused by the program itself, and is in the log all the same.
    pub(super) fn told(&mut self, id: &str, text: String) -> Result<(), StopReason> {
        let text = self.scrubber.text(&text);
        if self.natives.contains_key(id) {
            self.ended(id, (ToolEnd::Failed, text.into()), None);
            return Ok(());
        }
        let Some(Called { id, name, arguments: input }) = self.transcript.not_asked(id).cloned() else {
            return Ok(());
        };
        let rendered = self.rendered()?;
        let call = match Native::by_tool(&name) {
            Some(native) => {
                let input = serde_json::from_str(&input).unwrap_or_default();
                let (arguments, _) = arguments(native, &input, self.workspace.as_deref());
                self.pending.expect(&id, native, Some(format!("Claude Code refused this: {text}")));
                ToolCall::new(id, name, arguments)
            }
            None if rendered.tools().iter().any(|placed| *placed.name() == name) => {
                // It is not to run after all.
                self.transcript.ended(&id, Ending::Rejected);
                return Ok(());
            }
            None => ToolCall::new(id, name, input),
        };
        let call = self.keyed(call);
        self.spawn(call, CallOptions::new().approver(Arc::new(NoNeed)), Done::Refused);
        Ok(())
    }

    pub(super) fn native_done(&mut self, outcome: &Outcome) {
        let id = &outcome.answer.call_id;
        self.pending.forget(id);
        let Some(call) = self.natives.remove(id) else { return };
        let text = outcome.text();
        if let Some(request) = call.before {
            self.writer.say(&wire::answer(&request, Ok(wire::deny(text))));
        }
        if let Some((request, event)) = call.after {
            let answer = match (outcome.is_success(), event.as_str()) {
                (true, _) => wire::more(&event, text),
                (false, "PostToolUse") => wire::undone(&format!("{text}\n{UNDONE}")),
                (false, _) => wire::more(&event, UNDONE),
            };
            self.writer.say(&wire::answer(&request, Ok(answer)));
        }
    }

    /// Whether one of the program's own tools may be at work.
    pub(super) fn has_begun(&self) -> bool {
        self.natives.values().any(|call| call.before.is_none() && call.after.is_none())
    }
}

/// Nobody need be asked about a call that is refused anyway.
struct NoNeed;

impl Approver for NoNeed {
    fn ask<'a>(&'a self, _: &'a ApprovalRequest) -> BoxFuture<'a, Result<Approval, BoxError>> {
        let (by, reason) = ("claude".into(), "Claude Code refused this itself".to_owned());
        Box::pin(std::future::ready(Ok(Approval::Refused { by, reason })))
    }
}
