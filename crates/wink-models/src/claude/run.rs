//! One run of the program, from its first word to its last: it is told what to do, and reminded of what is missing.
//!
//! However a run ends, the program is ended first, then what it had begun is undone, and then nothing of it is left.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncRead;

use super::ending::{self, failure};
use super::serve::Server;
use super::wire;
use crate::conversation::{Completed, Ended, Input, Next, RunStats, Said, StopReason, Tally};
use crate::model::ModelErrorKind;

/// How long the program may take to stop what it does when it is told to.
const PATIENCE: Duration = Duration::from_secs(2);

impl<R: AsyncRead + Unpin + Send> Server<'_, R> {
    /// Runs to the end.
    pub(super) async fn run(mut self) -> (Result<Completed, StopReason>, RunStats) {
        let mut ended = self.go_on().await;
        let complaints = self.close(&ended).await;
        if let Err(reason) = &mut ended {
            if let StopReason::Request(error) = reason
                && let Some(complaints) = complaints
            {
                error.message = format!("{}: {complaints}", error.message);
            }
            if !self.conversation.has_ended() {
                let tally = Tally { usage: self.ground.spent.take(), ..self.transcript.tally() };
                // It has not ended, so that it can be stopped.
                let _ = self.conversation.take(Input::Stopped { reason: reason.clone(), tally });
            }
        }
        (ended, self.conversation.stats())
    }

    async fn go_on(&mut self) -> Result<Completed, StopReason> {
        self.ask(&wire::initialize());
        loop {
            self.turn().await?;
            let Next::Finish(text) = self.conversation.next() else {
                return Err(StopReason::Runtime(
                    "Claude Code is done, but the conversation is not".to_owned(),
                ));
            };
            let rendered = self.rendered()?;
            let left = self.conversation.reminders_left();
            let (input, parsed) = self.calls.beside(self.ground.judged(&rendered, left, text)).await;
            let reminder = match &input {
                Input::Said(Said::Reminded { missing }) => Arc::clone(missing),
                _ => Arc::default(),
            };
            self.calls.beside(self.ground.tell(&mut self.conversation, input, parsed)).await?;
            match self.conversation.next() {
                Next::Ended(Ended::Completed(completed)) => return Ok(completed),
                Next::Ended(Ended::Stopped(reason)) => return Err(reason),
                Next::Ask | Next::Wait(_) | Next::Execute(_) | Next::Finish(_) => {}
            }
            self.user(&reminder);
        }
    }

    /// Serves the program until it is done with what the user said last.
    async fn turn(&mut self) -> Result<(), StopReason> {
        let ground = self.ground.clone();
        let finished = ground.held(self.serve()).await.flatten().map_err(|reason| self.why(reason))?;
        let reason = ending::reason(&finished, &self.terms, |text| self.scrubber.text(text));
        let said = if reason.is_some() { Vec::new() } else { self.transcript.finish(&finished) };
        let mut came = reason.map_or(Ok(()), Err);
        for said in said {
            if came.is_ok() {
                came = self.tell(said).await;
            }
        }
        // After what was said, which is part of it.
        self.used(&finished);
        came?;
        self.ground.stop_if_used_up(&mut self.conversation)?;
        self.stopped()
    }

    /// A program whose tool was at work when the run had to stop was ended for that, and this may be seen first.
    fn why(&self, reason: StopReason) -> StopReason {
        match (&reason, self.ground.deadline) {
            (StopReason::Request(_), _) if self.ground.cancel.is_cancelled() => StopReason::Cancelled,
            (StopReason::Request(_), Some(deadline)) => {
                deadline.check(&**self.ground.clock()).map_or_else(StopReason::Deadline, |()| reason)
            }
            _ => reason,
        }
    }

    /// Ends the program, and waits until all that it had begun is undone. Gives what it complained of, if it died.
    async fn close(&mut self, ended: &Result<Completed, StopReason>) -> Option<String> {
        self.is_stopping = true;
        if ended.is_err() && !self.is_dead {
            self.interrupt().await;
        }
        self.writer.close();
        let clock = Arc::clone(self.ground.clock());
        let complaints = match self.program.take() {
            None => None,
            Some(program) => {
                let complaints = program.listener();
                match program.end(&*clock, ended.is_err()).await {
                    Ok(status) => self.is_dead.then(|| format!("{status}; {}", complaints.text())),
                    Err(error) => {
                        tracing::error!(%error, "Claude Code, or something that it started, may not have ended");
                        None
                    }
                }
            }
        };
        self.let_go().await;
        complaints.map(|text| self.scrubber.text(text.trim_end_matches("; ")))
    }

    /// Tells the program to stop what it does, so that it can say what it used. One that does nothing need not be told, and while one
    /// of its own tools works, it is ended instead.
    async fn interrupt(&mut self) {
        if self.has_begun() || self.is_idle {
            return;
        }
        self.ask(&json!({ "subtype": "interrupt" }));
        let clock = Arc::clone(self.ground.clock());
        let until = clock.monotonic().saturating_add(PATIENCE);
        let finished = tokio::select! {
            biased;
            finished = self.serve() => finished,
            () = clock.sleep_until(until) => return,
        };
        if let Ok(finished) = finished {
            self.used(&finished);
        }
    }

    /// Why there is nothing more to be got from a program that speaks another language, or not at all.
    pub(super) fn broken(&mut self, kind: ModelErrorKind, what: &str) -> StopReason {
        self.is_dead = true;
        StopReason::Request(failure(kind, self.scrubber.text(what), false))
    }
}
