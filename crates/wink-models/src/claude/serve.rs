//! Serves a running program: calls of our tools and of its own go to the executor, and what is said becomes a conversation.
//!
//! The program makes several calls at once; at the executor they take turns.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use wink::executor::{CallOptions, Escalation, Outcome, ToolCall};
use wink::limits::{CancelToken, TokenUsage};
use wink::prompt::RenderedPrompt;

use super::calls::Calls;
use super::ending;
use super::hooks::NativeCall;
use super::mcp::{self, Handled, SERVER};
use super::native::Pending;
use super::pipes::{Lines, Writer};
use super::process::Program;
use super::transcript::{Place, Transcript, beside};
use super::wire::{self, Asked, Finished, Frame, Hook};
use crate::conversation::{Conversation, Ended, Input, Next, RUN_LIFE, Said, StopReason, Terms};
use crate::driver::{Ground, Watch};
use crate::message::ToolAnswer;
use crate::model::ModelErrorKind;
use crate::recording::{Scrubber, Talk};

/// What the model is told to do when there is nothing but the prompt.
pub(super) const NO_TASK: &str = "Begin.";

/// A running program, and what is going on with it.
pub(super) struct Server<'a, R> {
    pub(super) ground: Ground<'a>,
    pub(super) conversation: Conversation,
    pub(super) terms: Terms,
    pub(super) transcript: Transcript,
    pub(super) scrubber: Scrubber,
    /// Where what is said is written down, or was.
    pub(super) talk: Option<Talk>,
    pub(super) writer: Writer,
    lines: Lines<R>,
    task: Option<Arc<str>>,
    /// The program runs its own tools here; nothing, if it has none.
    pub(super) workspace: Option<PathBuf>,
    pub(super) pending: Arc<Pending>,
    begun: mpsc::UnboundedReceiver<Arc<str>>,
    /// Calls of our tools that were not answered, and who can stop them, by the request that they came in.
    asked: HashMap<String, (Arc<str>, CancelToken)>,
    pub(super) natives: HashMap<Arc<str>, NativeCall>,
    /// Calls of a response that is not whole yet.
    held: Vec<Held>,
    /// Typed results that are to be judged, with the hooks that wait for that.
    pub(super) outputs: Vec<(String, String)>,
    asks: u64,
    /// What the program said that it used, so far as it was counted.
    counted: TokenUsage,
    /// It was told what to do.
    is_initialized: bool,
    /// It is done with what it was told, and waits for more.
    pub(super) is_idle: bool,
    /// Nothing new is begun.
    pub(super) is_stopping: bool,
    /// Nothing more comes from it.
    pub(super) is_dead: bool,
    /// Before the calls, so that it is ended before they are given up. Nothing, if the other side is no process.
    pub(super) program: Option<Program>,
    pub(super) calls: Calls<Done>,
}

/// A call that the program is about to make.
pub(super) enum Held {
    /// Of one of our tools.
    Ours { request: String, id: Value, call: ToolCall },
    /// Of one of its own.
    Native { request: String, hook: Hook },
    /// Of the one that hands over a typed result.
    Output { request: String, hook: Hook },
    /// The model was told what came of it.
    Told { id: String, text: String },
}

impl Held {
    fn call_id(&self) -> &str {
        match self {
            Self::Ours { call, .. } => &call.id,
            Self::Native { hook, .. } | Self::Output { hook, .. } => &hook.tool_use_id,
            Self::Told { id, .. } => id,
        }
    }
}

pub(super) enum Done {
    Ours {
        request: String,
        id: Value,
        outcome: Outcome,
    },
    Native(Outcome),
    /// One that the program refused by itself.
    Refused(Outcome),
}

/// What a program is served with.
pub(super) struct Setup<'a> {
    pub(super) ground: Ground<'a>,
    pub(super) conversation: Conversation,
    pub(super) terms: Terms,
    pub(super) task: Option<Arc<str>>,
    pub(super) workspace: Option<PathBuf>,
    pub(super) scrubber: Scrubber,
    pub(super) talk: Option<Talk>,
    pub(super) pending: (Arc<Pending>, mpsc::UnboundedReceiver<Arc<str>>),
}

impl<'a, R: AsyncRead + Unpin + Send> Server<'a, R> {
    /// Serves whatever speaks on these pipes.
    pub(super) fn new(setup: Setup<'a>, lines: Lines<R>, writer: Writer, program: Option<Program>) -> Self {
        let Setup { ground, conversation, terms, task, workspace, scrubber, talk, pending: (pending, begun) } =
            setup;
        Self {
            ground,
            conversation,
            terms,
            transcript: Transcript::default(),
            scrubber,
            calls: Calls::new(talk.is_some()),
            talk,
            writer,
            lines,
            task,
            workspace,
            pending,
            begun,
            asked: HashMap::new(),
            natives: HashMap::new(),
            held: Vec::new(),
            outputs: Vec::new(),
            asks: 0,
            counted: TokenUsage::default(),
            is_initialized: false,
            is_idle: true,
            is_stopping: false,
            is_dead: false,
            program,
        }
    }

    /// Serves the program until it is done with what the user said last.
    pub(super) async fn serve(&mut self) -> Result<Box<Finished>, StopReason> {
        loop {
            let is_busy = !self.calls.is_empty();
            tokio::select! {
                biased;
                Some(id) = self.begun.recv() => self.begin(&id),
                Some(done) = self.calls.next() => {
                    self.done(done)?;
                    self.advance().await?;
                }
                () = exited(&mut self.program) => {}
                line = heard(&mut self.lines, self.talk.as_ref(), is_busy) => {
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
            Frame::Asked { id, asked: Asked::Hook(hook) } => self.hook(id, hook)?,
            Frame::Asked { id, asked: Asked::Mcp { server, message } } => {
                let message = self.scrubber.value(message);
                self.mcp(id, &server, &message)?;
            }
            Frame::Asked { id, asked: Asked::Unknown(what) } => {
                self.writer.say(&wire::answer(&id, Err(format!("{what} is not known here"))));
            }
            Frame::NeverMind { id } => {
                if let Some((_, cancel)) = self.asked.get(&id) {
                    cancel.cancel();
                }
            }
            Frame::Answered { id, answer } if id == "1" && !self.is_initialized => {
                self.initialized(answer)?
            }
            Frame::Answered { .. } | Frame::Other => {}
            // What is said after the end is not part of it.
            Frame::Assistant(_) | Frame::Event { .. } | Frame::User(_) if self.is_stopping => {}
            Frame::Assistant(said) => before = self.transcript.heard(&said, &self.ground.watch),
            Frame::Event { of_sub_agent: false, event } => {
                before = self.transcript.event(&event, &self.ground.watch);
            }
            Frame::Event { of_sub_agent: true, .. } => {}
            Frame::User(said) => {
                let told = self.transcript.told(&said);
                self.advance().await?;
                for (id, text) in told {
                    self.arrived(Held::Told { id, text }, false)?;
                }
            }
            Frame::Retried { status, error, delay } => {
                let error = ending::retried(status, &self.scrubber.text(&error), delay);
                self.ground.watch.failed(&error);
                self.ground.watch.waiting(delay.unwrap_or_default());
            }
            Frame::Result(finished) => {
                self.is_idle = true;
                return Ok(Some(finished));
            }
        }
        for said in before {
            self.tell(said).await?;
        }
        self.advance().await?;
        Ok(None)
    }

    /// Tells the conversation what is known of the response by now: that it is whole, before any of its calls is made, and
    /// what came of them.
    async fn advance(&mut self) -> Result<(), StopReason> {
        if self.is_stopping {
            return Ok(());
        }
        if let Some(said) = self.transcript.responded() {
            self.tell(said).await?;
        }
        for held in std::mem::take(&mut self.held) {
            self.arrived(held, true)?;
        }
        for (request, id) in std::mem::take(&mut self.outputs) {
            self.judge_output(&request, &id).await?;
        }
        match self.transcript.settled() {
            Some(said) => self.tell(said).await,
            None => Ok(()),
        }
    }

    /// A call is about to be made: now, or when all of the response is here that it belongs to.
    pub(super) fn arrived(&mut self, held: Held, was_held: bool) -> Result<(), StopReason> {
        match (self.transcript.place(held.call_id()), was_held) {
            (Place::Coming, _) if !self.is_stopping => {
                self.held.push(held);
                Ok(())
            }
            // The response was given up, and the call with it.
            (Place::Elsewhere, true) => {
                self.refuse(held, "the response that this call belongs to was given up");
                Ok(())
            }
            _ if self.is_stopping => {
                self.refuse(held, "the run is being stopped");
                Ok(())
            }
            _ => self.make(held),
        }
    }

    fn refuse(&self, held: Held, reason: &str) {
        let (request, answer) = match held {
            Held::Ours { request, .. } => (request, Err(reason.to_owned())),
            Held::Native { request, .. } | Held::Output { request, .. } => (request, Ok(wire::deny(reason))),
            Held::Told { .. } => return,
        };
        self.writer.say(&wire::answer(&request, answer));
    }

    /// Makes a call.
    fn make(&mut self, held: Held) -> Result<(), StopReason> {
        match held {
            Held::Native { request, hook } => self.native(request, hook),
            Held::Output { request, hook } => self.outputs.push((request, hook.tool_use_id)),
            Held::Told { id, text } => self.told(&id, text)?,
            Held::Ours { request, id, call } => {
                if self.transcript.is_answered(&call.id)
                    || self.asked.values().any(|(asked, _)| *asked == call.id)
                {
                    self.refuse(Held::Ours { request, id, call }, "this call was made already");
                    return Ok(());
                }
                let cancel = CancelToken::new();
                self.asked.insert(request.clone(), (Arc::clone(&call.id), cancel.clone()));
                let call = self.keyed(call);
                self.spawn(call, CallOptions::new().cancel(cancel), |outcome| Done::Ours {
                    request,
                    id,
                    outcome,
                });
            }
        }
        Ok(())
    }

    /// A call, with all that the conversation knows of it: whoever takes up the run makes the same one.
    pub(super) fn keyed(&self, call: ToolCall) -> ToolCall {
        let known = match self.conversation.next() {
            Next::Execute(calls) => calls.into_iter().find(|known| known.id == call.id),
            _ => None,
        };
        let call = match known {
            Some(known) => ToolCall { arguments: call.arguments, ..known },
            // A sub-agent's.
            None => {
                let key = format!("{}/{}", self.ground.run_id(), call.id);
                call.request_key(key).request_ttl(RUN_LIFE)
            }
        };
        self.ground.keyed(call)
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
            Said::Responded(response) => Said::Responded(self.scrubber.said(response)),
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
        self.user(task.as_deref().unwrap_or(NO_TASK));
        Ok(())
    }

    /// Tells the program what to do.
    pub(super) fn user(&mut self, text: &str) {
        self.is_idle = false;
        self.writer.say(&wire::user(text));
    }

    fn mcp(&mut self, request: String, server: &str, message: &Value) -> Result<(), StopReason> {
        let handled = match server {
            SERVER => mcp::handle(message, &*self.rendered()?),
            other => Handled::Now(mcp::unknown_server(message, other)),
        };
        match handled {
            Handled::Now(answer) => self.writer.say(&wire::answer(&request, Ok(answer))),
            Handled::Call { id, call } => self.arrived(Held::Ours { request, id, call }, false)?,
        }
        Ok(())
    }

    pub(super) fn spawn(
        &mut self,
        call: ToolCall,
        options: CallOptions,
        done: impl FnOnce(Outcome) -> Done + Send + 'static,
    ) {
        self.ground.watch.calls(std::slice::from_ref(&call));
        let executor = self.ground.executor.clone();
        self.calls.add(async move { done(executor.drive(call, options).await) });
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
                self.transcript.answered(ToolAnswer::from(&outcome));
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
            Done::Refused(outcome) => outcome,
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

    /// Lets all calls end: the program is gone.
    pub(super) async fn let_go(&mut self) {
        if let Some(Talk::Replayed(talk)) = &self.talk {
            talk.close();
        }
        self.natives.clear();
        self.held.clear();
        self.pending.let_go().await;
        self.asked.values().for_each(|(_, cancel)| cancel.cancel());
        while let Some(Done::Ours { outcome, .. } | Done::Native(outcome) | Done::Refused(outcome)) =
            self.calls.next().await
        {
            self.transcript.ended(&outcome.answer.call_id, outcome.event.ending);
            self.ground.watch.outcomes(std::slice::from_ref(&outcome));
        }
    }
}

/// The next line of the program, or of what it said when this was recorded.
async fn heard<R: AsyncRead + Unpin>(
    lines: &mut Lines<R>,
    talk: Option<&Talk>,
    is_busy: bool,
) -> std::io::Result<Option<Vec<u8>>> {
    let talk = match talk {
        Some(Talk::Replayed(talk)) => return Ok(talk.next(is_busy).await),
        talk => talk,
    };
    let line = lines.next().await;
    match (talk, &line) {
        (Some(talk), Ok(Some(line))) if Frame::matters(line) => talk.heard(line),
        (Some(talk), Ok(None) | Err(_)) => talk.gone(),
        (Some(_), Ok(Some(_))) | (None, _) => {}
    }
    line
}

/// Waits until the program has exited, and ends what it left: that may hold the pipe open, whose end is waited for.
async fn exited(program: &mut Option<Program>) {
    match program {
        Some(program) => program.exited().await,
        None => std::future::pending().await,
    }
}
