//! Feedback, as a step of a call: providers are asked, held to their time, and what they say is added to the answer.

use std::pin::pin;
use std::sync::Arc;

use super::call::Call;
use super::stop::{StopWhen, held_to};
use crate::feedback::Around;
use crate::support::future::Contained;
use crate::tool::render::bounded;

impl Call {
    /// Adds what providers have to say. Whatever they do, the result stands.
    pub(super) async fn feedback(&mut self) {
        let shared = Arc::clone(&self.shared);
        let Some(outcome) = &self.outcome else { return };
        // Who has to deal with an escalation does not read on.
        if shared.feedback.is_empty() || outcome.escalation.is_some() {
            return;
        }
        let around = Around {
            session: &shared.session,
            resources: &shared.resources,
            deadline: self.around.deadline,
            budget: self.around.budget.as_deref(),
        };
        let cancel = [Some(&self.around.cancel), self.cancel.as_ref()];
        // Not held to the deadline: that it has passed is one of the things to be said.
        let when = StopWhen { cancel, ..StopWhen::within(Some(shared.limits.policy_timeout)) };
        let clock = shared.session.clock();
        let event = Arc::clone(&outcome.event);
        let mut blocks = String::new();
        let due = held_to(&when, clock, pin!(shared.feedback.due(&around, &event))).await.unwrap_or_else(
            |stopped| {
                tracing::error!(?stopped, "it could not be found out who has feedback; the result stands");
                Vec::new()
            },
        );
        for due in due {
            let problem = match held_to(
                &when,
                clock,
                pin!(Contained::new(Box::pin(shared.feedback.ask(&due, &around, &event)))),
            )
            .await
            {
                Ok(Ok(None)) => continue,
                Ok(Ok(Some(feedback))) => {
                    blocks.push_str("\n\n");
                    blocks.push_str(&feedback.render(due.provider()));
                    let recorded = shared.session.dispatch(due.given(feedback, &event, clock.now()));
                    if !recorded.is_ok() {
                        tracing::warn!(
                            provider = &**due.provider(),
                            ?recorded,
                            "feedback was recorded with failures"
                        );
                    }
                    continue;
                }
                Ok(Err(error)) => error.to_string(),
                Err(stopped) => format!("{stopped:?}"),
            };
            tracing::error!(
                provider = &**due.provider(),
                problem,
                "a feedback provider failed; the result stands"
            );
        }
        if !blocks.is_empty() {
            self.append(&blocks);
        }
    }

    /// Adds `blocks` to the answer, which stays bounded: the tool's own text makes room, but keeps half.
    fn append(&mut self, blocks: &str) {
        let max = self.shared.limits.max_answer_bytes;
        let Some(outcome) = &mut self.outcome else { return };
        let text = &outcome.answer.text;
        let whole = if text.len() + blocks.len() <= max {
            format!("{text}{blocks}")
        } else {
            let blocks = bounded(blocks, max / 2);
            // From the log's text, so that the marker tells how much there really is.
            format!("{}{blocks}", bounded(&outcome.event.rendered, max - blocks.len()))
        };
        outcome.answer.text = whole.into();
    }
}
