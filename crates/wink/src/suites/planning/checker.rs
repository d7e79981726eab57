//! Whether the plan is done.

use std::fmt::Write;

use super::plan::{Plan, one_line};
use crate::BoxFuture;
use crate::feedback::{Completion, CompletionChecker, CompletionContext};

/// How many open steps are named.
const NAMED: usize = 3;

/// The work is done when no step of the [`Plan`] is open. Without a plan there is nothing to wait for.
///
/// ```
/// use wink::feedback::{Completion, CompletionContext};
/// use wink::prelude::*;
/// use wink::suites::planning::{Plan, PlanChecker, SetupPlan};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let session = Session::new();
/// session.install::<Plan>()?;
/// let steps = vec!["Reproduce it".into(), "Fix it".into()];
/// assert!(session.dispatch(SetupPlan { objective: "No failing test".into(), initial_steps: steps }).is_ok());
///
/// let said = CompletionContext::new(&session, "Done!").ask(&PlanChecker).await?;
/// assert_eq!(
///     said,
///     Completion::Missing(
///         "The plan is not done: 0 of 2 steps are. Open: 1. Reproduce it; 2. Fix it. \
///          Finish them, or change the plan to what you did.".into()
///     )
/// );
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct PlanChecker;

impl CompletionChecker for PlanChecker {
    fn check<'a>(&'a self, cx: &'a CompletionContext<'a>) -> BoxFuture<'a, Completion> {
        let said = cx.slice::<Plan>().latest().map_or(Completion::Complete, |plan| said_of(&plan));
        Box::pin(std::future::ready(said))
    }
}

fn said_of(plan: &Plan) -> Completion {
    let (done, all) = (plan.done(), plan.steps.len());
    if done == all {
        return Completion::Complete;
    }
    let mut text = format!("The plan is not done: {done} of {all} steps are. Open: ");
    for (at, step) in plan.open_steps().take(NAMED).enumerate() {
        let between = if at == 0 { "" } else { "; " };
        // Writing to a string does not fail.
        let _ = write!(text, "{between}{}. {}", step.step_id, one_line(&step.title));
    }
    let more = (all - done).saturating_sub(NAMED);
    if more > 0 {
        let _ = write!(text, "; and {more} more");
    }
    text.push_str(". Finish them, or change the plan to what you did.");
    Completion::Missing(text)
}
