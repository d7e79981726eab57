//! Serves a running program: calls of our tools and of its own go to the executor, and what is said becomes a conversation.
//!
//! The program makes several calls at once; at the executor they take turns.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::AsyncRead;
use tokio::sync::{mpsc, oneshot};
use wink::executor::{CallOptions, Escalation, Outcome, ToolCall};
use wink::limits::{CancelToken, TokenUsage};
use wink::prompt::RenderedPrompt;

use super::calls::Calls;
use super::ending;
use super::mcp::{self, Handled, PREFIX, SERVER};
use super::native::{End, Native, Pending};
use super::pipes::{Lines, Writer};
use super::process::Program;
use super::transcript::{STRUCTURED, Transcript, beside};
use super::wire::{self, Asked, Finished, Frame, Hook};
use super::working::arguments;
use crate::conversation::{Conversation, Ended, Input, Next, RUN_LIFE, Said, StopReason, Terms};
use crate::driver::{Ground, Watch};
use crate::model::ModelErrorKind;
use crate::recording::Scrubber;

/// What the model is told to do when there is nothing but the prompt.
const NO_TASK: &str = "Begin.";

/// What a failed tool's answer has beside the program's words.
const UNDONE: &str = "What this call changed in the workspace is undone.";

/// A running program, and what is going on with it.
pub(super) struct Server<'a, R> {
    pub(super) ground: Ground<'a>,
    pub(super) conversation: Conversation,
    pub(super) terms: Terms,
    pub(super) transcript: Transcript,
    pub(super) scrubber: Scrubber,
    pub(super) writer: Writer,
    lines: Lines<R>,
    task: Option<Arc<str>>,
    /// The program runs its own tools here; nothing, if it has none.
    workspace: Option<PathBuf>,
    pending: Arc<Pending>,
    begun: mpsc::UnboundedReceiver<Arc<str>>,
    /// Calls of our tools that were not answered, by the request that they came in.
    asked: HashMap<String, CancelToken>,
    natives: HashMap<Arc<str>, NativeCall>,
    asks: u64,
    /// What the program said that it used, so far as it was counted.
    counted: TokenUsage,
    /// It was told what to do.
    is_initialized: bool,
    /// Nothing new is begun.
    pub(super) is_stopping: bool,
    /// Nothing more comes from it.
    pub(super) is_dead: bool,
    /// Before the calls, so that it is ended before they are given up. Nothing, if the other side is no process.
    pub(super) program: Option<Program>,
    pub(super) calls: Calls<Done>,
}

/// A call of one of the program's own tools.
struct NativeCall {
    /// The hook that waits for permission.
    before: Option<String>,
    /// Takes how it ended.
    end: Option<oneshot::Sender<End>>,
    /// The hook that said how it ended, and its event.
    after: Option<(String, String)>,
}

pub(super) enum Done {
    Ours { request: String, id: Value, outcome: Outcome },
    Native(Outcome),
}

/// What a program is served with.
pub(super) struct Setup<'a> {
    pub(super) ground: Ground<'a>,
    pub(super) conversation: Conversation,
    pub(super) terms: Terms,
    pub(super) task: Option<Arc<str>>,
    pub(super) workspace: Option<PathBuf>,
    pub(super) scrubber: Scrubber,
    pub(super) pending: (Arc<Pending>, mpsc::UnboundedReceiver<Arc<str>>),
}

impl<'a, R: AsyncRead + Unpin + Send> Server<'a, R> {
    /// Serves whatever speaks on these pipes.
    pub(super) fn new(setup: Setup<'a>, lines: Lines<R>, writer: Writer, program: Option<Program>) -> Self {
        let Setup { ground, conversation, terms, task, workspace, scrubber, pending: (pending, begun) } =
            setup;
        Self {
            ground,
            conversation,
            terms,
            transcript: Transcript::default(),
            scrubber,
            writer,
            lines,
            task,
            workspace,
            pending,
            begun,
            asked: HashMap::new(),
            natives: HashMap::new(),
            asks: 0,
            counted: TokenUsage::default(),
            is_initialized: false,
            is_stopping: false,
            is_dead: false,
            program,
            calls: Calls::new(),
        }
    }

    /// Serves the program until it is done with what the user said last.
    pub(super) async fn serve(&mut self) -> Result<Box<Finished>, StopReason> {
        loop {
            tokio::select! {
                biased;
                Some(id) = self.begun.recv() => self.begin(&id),
                Some(done) = self.calls.next() => self.done(done)?,
                () = exited(&mut self.program) => {}
                line = self.lines.next() => {
                    let frame = match line {
                        Ok(Some(line)) => Frame::read(&line).map_err(|error| error.0),
                        Ok(None) => {
                            return Err(self.broken(ModelErrorKind::Unavailable, "Claude Code ended before it was done"));
                        }
                        Err(error) => Err(error.to_string()),
                    };
                    let frame = frame.map_err(|error| self.broken(ModelErrorKind::Malformed, &error))?;
                    if let Some(finished) = self.frame(frame).await? {
                        return Ok(finished);
                    }
                }
            }
        }
    }

    async fn frame(&mut self, frame: Frame) -> Result<Option<Box<Finished>>, StopReason> {
        let mut before = Vec::new();
        match frame {
            Frame::Asked { id, asked: Asked::Hook(hook) } => self.hook(id, hook),
            Frame::Asked { id, asked: Asked::Mcp { server, message } } => {
                let message = self.scrubber.value(message);
                self.mcp(id, &server, &message)?;
            }
            Frame::Asked { id, asked: Asked::Unknown(what) } => {
                self.writer.say(&wire::answer(&id, Err(format!("{what} is not known here"))));
            }
            Frame::NeverMind { id } => {
                if let Some(cancel) = self.asked.get(&id) {
                    cancel.cancel();
                }
            }
            Frame::Answered { id, answer } if id == "1" && !self.is_initialized => {
                self.initialized(answer)?
            }
            Frame::Answered { .. } | Frame::Other => {}
            Frame::Assistant(said) => before = self.transcript.heard(&said),
            Frame::Event { of_sub_agent: false, event } => {
                before = self.transcript.event(&event, &self.ground.watch);
            }
            Frame::Event { of_sub_agent: true, .. } => {}
            Frame::User(said) => {
                for (id, text) in self.transcript.told(&said) {
                    // One that ended without a hook saying so was stopped, whatever it says.
                    self.ended(&id, End::Failed(text), None);
                }
            }
            Frame::Retried { status, error, delay } => {
                let error = ending::retried(status, &self.scrubber.text(&error), delay);
                self.ground.watch.failed(&error);
                self.ground.watch.waiting(delay.unwrap_or_default());
            }
            Frame::Result(finished) => return Ok(Some(finished)),
        }
        before.append(&mut self.transcript.settled());
        for said in before {
            self.tell(said).await?;
        }
        Ok(None)
    }

    /// Adds to the conversation.
    pub(super) async fn tell(&mut self, said: Said) -> Result<(), StopReason> {
        if self.is_stopping {
            return Ok(());
        }
        let said = self.scrubbed(said);
        if let Said::Responded(response) = &said {
            self.counted = self.counted.plus(response.usage);
        }
        let told = self.ground.tell(&mut self.conversation, Input::Said(said), None);
        self.calls.beside(told).await?;
        self.ground.watch.stats(self.conversation.stats());
        self.stopped()
    }

    /// Without secrets: the model may have got them from a command, which has the program's environment.
    fn scrubbed(&self, said: Said) -> Said {
        let scrub = |text: &mut Arc<str>| *text = self.scrubber.text(text).into();
        match said {
            Said::Responded(mut response) => {
                scrub(&mut response.text);
                response.calls.iter_mut().for_each(|call| scrub(&mut call.arguments));
                Said::Responded(response)
            }
            Said::Answered { mut answers, tally, expanded } => {
                answers.iter_mut().for_each(|answer| scrub(&mut answer.text));
                Said::Answered { answers, tally, expanded }
            }
            other => other,
        }
    }

    /// Whether the conversation has been stopped.
    pub(super) fn stopped(&self) -> Result<(), StopReason> {
        self.ground.watch.check()?;
        match self.conversation.next() {
            Next::Ended(Ended::Stopped(reason)) => Err(reason),
            _ => Ok(()),
        }
    }

    /// Counts what the program used beside what was said.
    pub(super) fn used(&mut self, finished: &Finished) {
        let beside = beside(finished.usage(), self.counted);
        self.counted = self.counted.plus(beside);
        self.ground.count(beside);
    }

    /// Asks the program for something.
    pub(super) fn ask(&mut self, request: &Value) {
        self.asks += 1;
        self.writer.say(&wire::ask(&self.asks.to_string(), request));
    }

    /// The prompt as it is.
    pub(super) fn rendered(&self) -> Result<Arc<RenderedPrompt>, StopReason> {
        self.ground
            .executor
            .rendered()
            .ok_or_else(|| StopReason::Runtime("the prompt was not rendered".to_owned()))
    }

    /// The program knows our hooks; it is told what to do, unless its own tools would run without them.
    fn initialized(&mut self, answer: Result<Value, String>) -> Result<(), StopReason> {
        let answer = answer.map_err(|error| self.broken(ModelErrorKind::Rejected, &error))?;
        let is_so = |name| answer.get(name).and_then(Value::as_bool) == Some(true);
        if self.workspace.is_some() && !(is_so("hooks_applied") && is_so("hook_on_failure_supported")) {
            let text = "this version of Claude Code does not promise to run its tools past hooks only: install a newer one, or \
                        leave its tools out of the prompt";
            return Err(self.broken(ModelErrorKind::Rejected, text));
        }
        self.is_initialized = true;
        let task = self.task.take();
        self.writer.say(&wire::user(task.as_deref().unwrap_or(NO_TASK)));
        Ok(())
    }

    fn mcp(&mut self, request: String, server: &str, message: &Value) -> Result<(), StopReason> {
        let handled = match server {
            SERVER => mcp::handle(message, &*self.rendered()?),
            other => Handled::Now(mcp::unknown_server(message, other)),
        };
        match handled {
            Handled::Now(answer) => self.writer.say(&wire::answer(&request, Ok(answer))),
            Handled::Call { .. } if self.is_stopping => {
                self.writer.say(&wire::answer(&request, Err("the run is being stopped".to_owned())));
            }
            Handled::Call { id, call } => {
                let cancel = CancelToken::new();
                self.asked.insert(request.clone(), cancel.clone());
                let key = format!("{}/{}", self.ground.run_id(), call.id);
                let call = self.ground.keyed(call.request_key(key).request_ttl(RUN_LIFE));
                self.spawn(call, CallOptions::new().cancel(cancel), |outcome| Done::Ours {
                    request,
                    id,
                    outcome,
                });
            }
        }
        Ok(())
    }

    fn spawn(
        &mut self,
        call: ToolCall,
        options: CallOptions,
        done: impl FnOnce(Outcome) -> Done + Send + 'static,
    ) {
        self.ground.watch.calls(std::slice::from_ref(&call));
        let executor = self.ground.executor.clone();
        self.calls.add(async move { done(executor.drive(call, options).await) });
    }

    fn hook(&mut self, request: String, hook: Hook) {
        match hook.event.as_str() {
            "PreToolUse" => self.before(request, hook),
            "PostToolUse" => {
                let mut response = self.scrubber.value(hook.tool_response);
                // The whole file, as it was: the workspace remembers that.
                if let Some(response) = response.as_object_mut() {
                    response.remove("originalFile");
                }
                self.ended(&hook.tool_use_id, End::Succeeded(response), Some((request, hook.event)));
            }
            "PostToolUseFailure" => {
                let text = self.scrubber.text(&wire::text_of(&hook.error));
                self.ended(&hook.tool_use_id, End::Failed(text), Some((request, hook.event)));
            }
            _ => self.writer.say(&wire::answer(&request, Ok(json!({})))),
        }
    }

    /// A tool is about to run: ours are judged when they are called, the program's own are now.
    fn before(&mut self, request: String, hook: Hook) {
        let decision = if self.is_stopping {
            Some(wire::deny("the run is being stopped"))
        } else if hook.tool_name.starts_with(PREFIX) || hook.tool_name == STRUCTURED {
            Some(wire::allow())
        } else {
            None
        };
        if let Some(decision) = decision {
            self.writer.say(&wire::answer(&request, Ok(decision)));
            return;
        }
        let id: Arc<str> = hook.tool_use_id.into();
        let native = Native::by_name(&hook.tool_name).filter(|_| self.workspace.is_some());
        let (Some(native), false) = (native, self.natives.contains_key(&id)) else {
            let reason = format!("{} cannot be called here", hook.tool_name);
            self.writer.say(&wire::answer(&request, Ok(wire::deny(&reason))));
            return;
        };
        let input = self.scrubber.value(hook.tool_input);
        let (arguments, refusal) = arguments(native, &input, self.workspace.as_deref());
        let end = self.pending.expect(&id, native, refusal);
        self.natives
            .insert(Arc::clone(&id), NativeCall { before: Some(request), end: Some(end), after: None });
        self.spawn(ToolCall::new(id, native.tool(), arguments), CallOptions::new(), Done::Native);
    }

    /// The workspace is saved, and the program may begin.
    fn begin(&mut self, id: &str) {
        if let Some(request) = self.natives.get_mut(id).and_then(|call| call.before.take()) {
            self.writer.say(&wire::answer(&request, Ok(wire::allow())));
        }
    }

    /// A tool has run.
    fn ended(&mut self, id: &str, end: End, after: Option<(String, String)>) {
        let call = self.natives.get_mut(id);
        match call.and_then(|call| call.end.take().map(|ended| (call, ended))) {
            Some((call, ended)) => {
                call.after = after;
                // One whose handler has given up is answered when that is seen.
                let _ = ended.send(end);
            }
            None => {
                if let Some((request, _)) = after {
                    self.writer.say(&wire::answer(&request, Ok(json!({}))));
                }
            }
        }
    }

    /// A call is over, and the program is told.
    fn done(&mut self, done: Done) -> Result<(), StopReason> {
        let outcome = match done {
            Done::Ours { request, id, outcome } => {
                self.asked.remove(&request);
                let opened = match outcome.escalation {
                    Some(Escalation::Visibility(_)) => {
                        self.transcript.expanded();
                        self.ask(&mcp::list_changed());
                        Some(self.rendered()?)
                    }
                    _ => None,
                };
                self.writer.say(&wire::answer(&request, Ok(mcp::result(&id, &outcome, opened.as_deref()))));
                outcome
            }
            Done::Native(outcome) => {
                // It was allowed to begin before it ended.
                while let Ok(id) = self.begun.try_recv() {
                    self.begin(&id);
                }
                self.native_done(&outcome);
                outcome
            }
        };
        self.transcript.ended(&outcome.answer.call_id, outcome.event.ending);
        self.ground.watch.outcomes(std::slice::from_ref(&outcome));
        match outcome.escalation {
            None | Some(Escalation::Visibility(_)) => Ok(()),
            // The program gave up this one call.
            Some(Escalation::Cancelled) if !self.ground.cancel.is_cancelled() => Ok(()),
            Some(escalation) => self.ground.escalated(escalation).map(drop),
        }
    }

    fn native_done(&mut self, outcome: &Outcome) {
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

    /// Lets all calls end: the program is gone.
    pub(super) async fn let_go(&mut self) {
        self.natives.clear();
        self.asked.values().for_each(CancelToken::cancel);
        while let Some(Done::Ours { outcome, .. } | Done::Native(outcome)) = self.calls.next().await {
            self.transcript.ended(&outcome.answer.call_id, outcome.event.ending);
            self.ground.watch.outcomes(std::slice::from_ref(&outcome));
        }
    }
}

/// Waits until the program has exited, and ends what it left: that may hold the pipe open, whose end is waited for.
async fn exited(program: &mut Option<Program>) {
    match program {
        Some(program) => program.exited().await,
        None => std::future::pending().await,
    }
}
