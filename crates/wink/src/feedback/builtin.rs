//! Providers that come with the runtime.

use std::time::Duration;

use super::{Feedback, FeedbackContext, FeedbackProvider};
use crate::BoxFuture;
use crate::resource::BoxError;

/// Says how much time has gone and how much is left. Silent without a deadline.
#[derive(Debug, Clone)]
#[must_use = "a provider does nothing until an executor has it"]
pub struct DeadlineFeedback {
    threshold: Duration,
}

impl DeadlineFeedback {
    /// Warns when less than a minute is left.
    pub fn new() -> Self {
        Self { threshold: Duration::from_secs(60) }
    }

    /// Warns when less than `threshold` is left.
    pub fn warn_below(mut self, threshold: Duration) -> Self {
        self.threshold = threshold;
        self
    }

    /// What there is to say when this much time has gone and this much is left.
    pub fn says(&self, elapsed: Duration, remaining: Duration) -> Feedback {
        let gone = format!("{} have passed since the start.", human(elapsed));
        if remaining.is_zero() {
            return Feedback::warning("The time is up.")
                .observe(gone)
                .suggest("Call no further tools; answer with what you have.");
        }
        let left = format!("{} left.", human(remaining));
        if remaining < self.threshold {
            return Feedback::warning(left).observe(gone).suggest("Finish what you have begun, and answer.");
        }
        Feedback::info(left).observe(gone)
    }
}

impl Default for DeadlineFeedback {
    fn default() -> Self {
        Self::new()
    }
}

impl FeedbackProvider for DeadlineFeedback {
    fn name(&self) -> &str {
        "deadline"
    }

    fn feedback<'a>(
        &'a self,
        cx: &'a FeedbackContext<'a>,
    ) -> BoxFuture<'a, Result<Option<Feedback>, BoxError>> {
        let says = cx.deadline().map(|deadline| {
            let elapsed = between(cx.started(), cx.now());
            self.says(elapsed, between(cx.now(), deadline.timestamp()))
        });
        Box::pin(std::future::ready(Ok(says)))
    }
}

fn between(from: jiff::Timestamp, to: jiff::Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or(Duration::ZERO)
}

/// `1 h 5 min`, `2 min 30 s`, `45 s`: the two largest units are all that matters.
fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (hours, minutes, rest) = (seconds / 3600, seconds % 3600 / 60, seconds % 60);
    match (hours, minutes, rest) {
        (0, 0, 0) if !duration.is_zero() => "less than 1 s".to_owned(),
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, 0, _) => format!("{hours} h"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// Says the same every time.
#[derive(Debug, Clone)]
#[must_use = "a provider does nothing until an executor has it"]
pub struct StaticFeedback {
    name: String,
    feedback: Feedback,
}

impl StaticFeedback {
    /// `name` says `feedback`.
    pub fn new(name: impl Into<String>, feedback: Feedback) -> Self {
        Self { name: name.into(), feedback }
    }
}

impl FeedbackProvider for StaticFeedback {
    fn name(&self) -> &str {
        &self.name
    }

    fn feedback<'a>(
        &'a self,
        _: &'a FeedbackContext<'a>,
    ) -> BoxFuture<'a, Result<Option<Feedback>, BoxError>> {
        Box::pin(std::future::ready(Ok(Some(self.feedback.clone()))))
    }
}

/// A provider made of a function.
#[derive(Debug, Clone)]
#[must_use = "a provider does nothing until an executor has it"]
pub struct FnFeedback<F> {
    name: String,
    says: F,
}

/// `name` says what `says` makes of the context.
///
/// ```
/// use wink::feedback::{Feedback, feedback_fn};
///
/// let failures = feedback_fn("failures", |cx| {
///     (!cx.event().success).then(|| Feedback::info("That failed.").suggest("Read the message before you retry."))
/// });
/// # let _ = failures;
/// ```
pub fn feedback_fn<F>(name: impl Into<String>, says: F) -> FnFeedback<F>
where
    F: Fn(&FeedbackContext<'_>) -> Option<Feedback> + Send + Sync + 'static,
{
    FnFeedback { name: name.into(), says }
}

impl<F> FeedbackProvider for FnFeedback<F>
where
    F: Fn(&FeedbackContext<'_>) -> Option<Feedback> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn feedback<'a>(
        &'a self,
        cx: &'a FeedbackContext<'a>,
    ) -> BoxFuture<'a, Result<Option<Feedback>, BoxError>> {
        Box::pin(async move { Ok((self.says)(cx)) })
    }
}
