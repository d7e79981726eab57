//! A call on its way, in a task of its own: a question may be answered by a later request than the one that began it, and
//! a task is looked at by many.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use wink::BoxFuture;
use wink::executor::{Approval, ApprovalRequest, Approver, CallOptions, Outcome, ToolCall};
use wink::limits::{CancelToken, Clock};
use wink::session::InvocationId;
use wink::tool::context::Progress;

use crate::room::Room;
use crate::session::ServedSession;

/// How many reports of progress wait to be sent. More are left out.
const REPORTS: usize = 64;
/// How much of a report's message is told.
const MESSAGE_CHARS: usize = 500;

/// A call that was begun. Whoever drops it cancels it.
pub(crate) struct Running {
    moments: mpsc::Receiver<Moment>,
    reports: mpsc::Receiver<Report>,
    cancel: CancelToken,
    known_as: Arc<OnceLock<InvocationId>>,
}

/// Something that whoever follows a call has to deal with.
pub(crate) enum Moment {
    /// It says how far it is.
    Report(Report),
    /// Somebody has to be asked.
    Question(Question),
    /// It is over.
    Done(Box<Outcome>),
}

/// A question that a call waits with.
pub(crate) struct Question {
    /// What is asked.
    pub(crate) about: ApprovalRequest,
    /// Where the answer goes.
    pub(crate) reply: oneshot::Sender<Approval>,
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Report {
    pub(crate) done: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: String,
}

/// Whether there is somebody to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// The client says that it can be asked.
    Client,
    /// Whomever the executor would ask.
    Executor,
}

impl Running {
    /// Begins a call. What it holds is given back when it is over.
    pub(crate) fn begin(
        session: &Arc<ServedSession>,
        call: ToolCall,
        asks: Asks,
        held: (OwnedSemaphorePermit, Room),
    ) -> Self {
        let (sender, moments) = mpsc::channel(1);
        let (reporter, reports) = mpsc::channel(REPORTS);
        let cancel = CancelToken::new();
        let known_as = Arc::default();
        let mut options = CallOptions::new()
            .cancel(cancel.clone())
            .progress(Arc::new(Reporter(reporter)))
            .note_id(Arc::clone(&known_as));
        if asks == Asks::Client {
            options = options.approver(Arc::new(Asker {
                moments: sender.clone(),
                clock: Arc::clone(session.executor.session().clock()),
                patience: session.options.answer_within,
            }));
        }
        let session = Arc::clone(session);
        tokio::spawn(async move {
            let outcome = session.executor.drive(call, options).await;
            drop(held);
            // Nobody follows it any more: the log has it.
            let _ = sender.send(Moment::Done(Box::new(outcome))).await;
        });
        Self { moments, reports, cancel, known_as }
    }

    /// What happens next. `None` once it is over.
    pub(crate) async fn next(&mut self) -> Option<Moment> {
        tokio::select! {
            biased;
            // What was said before the end is told before it.
            Some(report) = self.reports.recv() => Some(Moment::Report(report)),
            moment = self.moments.recv() => moment,
        }
    }

    /// What the call is known as in the log; nothing before it has begun.
    pub(crate) fn known_as(&self) -> Option<InvocationId> {
        self.known_as.get().copied()
    }

    /// Nobody wants the answer any more. The call still comes to its end.
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// Asks whoever follows the call.
struct Asker {
    moments: mpsc::Sender<Moment>,
    clock: Arc<dyn Clock>,
    patience: Duration,
}

impl Approver for Asker {
    fn ask<'a>(
        &'a self,
        request: &'a ApprovalRequest,
    ) -> BoxFuture<'a, Result<Approval, wink::resource::BoxError>> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let question = Moment::Question(Question { about: request.clone(), reply });
            self.moments.send(question).await.map_err(|_| "nobody follows the call any more")?;
            let late = self.clock.sleep_until(self.clock.monotonic().saturating_add(self.patience));
            let answered = async {
                match answer.await {
                    Ok(answer) => answer,
                    // Whoever drops a question has cancelled its call, which ends as cancelled and not as denied.
                    Err(_) => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                answer = answered => Ok(answer),
                () = late => Ok(Approval::Refused {
                    by: "nobody".into(),
                    reason: format!("there was no answer within {} seconds", self.patience.as_secs()),
                }),
            }
        })
    }
}

/// Hands reports on, as long as there is room.
struct Reporter(mpsc::Sender<Report>);

impl Progress for Reporter {
    fn progress(&self, _: InvocationId, done: f64, total: Option<f64>, message: &str) {
        let message = message.chars().take(MESSAGE_CHARS).collect();
        // A client that does not keep up misses some; the last one is the end of the call.
        let _ = self.0.try_send(Report { done, total, message });
    }

    fn partial(&self, _: InvocationId, _: &str) {
        // The protocol has no place for it.
    }
}
