//! Asking and telling policies, which are foreign code: a panic is an error like any other, and what a policy that
//! failed had begun to remember is forgotten.

use super::{Decision, PlacedPolicy, PolicyCall, PolicyContext, PolicyMemory, ResultView, ToolPolicy};
use crate::resource::BoxError;
use crate::session::Mark;
use crate::support::future::{CatchPanic, catch};
use crate::tool::footprint::Footprint;

/// A policy panicked. It has denied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy {key} panicked: {panic}")]
pub(crate) struct PolicyPanicked {
    key: String,
    panic: String,
}

/// What `policy` says to the call; none if it has no say in it.
pub(crate) async fn ask(
    policy: &dyn ToolPolicy,
    call: &PolicyCall<'_>,
    cx: &PolicyContext<'_>,
) -> Result<Option<Decision>, BoxError> {
    match ask_now(policy, call, cx)? {
        Some(answer) => Ok(answer),
        None => {
            let unread = cx.session.unread();
            let panicked = |panic| PolicyPanicked { key: cx.key().to_string(), panic };
            let answer = catch(|| policy.check(call, cx)).map_err(panicked)?;
            let answer = CatchPanic::new(answer).await.map_err(panicked)??;
            has_read_all(cx, unread)?;
            Ok(Some(answer))
        }
    }
}

/// As [`ask`]; none if the policy has to be waited for.
pub(crate) fn ask_now(
    policy: &dyn ToolPolicy,
    call: &PolicyCall<'_>,
    cx: &PolicyContext<'_>,
) -> Result<Option<Option<Decision>>, BoxError> {
    let unread = cx.session.unread();
    let asked = catch(|| match policy.covers(call) {
        true => policy.check_now(call, cx).map(|answer| answer.map(Some)),
        false => Some(Ok(None)),
    });
    let answer = asked.map_err(|panic| PolicyPanicked { key: cx.key().to_string(), panic })?.transpose()?;
    has_read_all(cx, unread)?;
    Ok(answer)
}

/// A view of the log leaves out what cannot be read. Nothing is to be allowed on account of that.
fn has_read_all(cx: &PolicyContext<'_>, unread: u64) -> Result<(), BoxError> {
    match cx.session.unread() == unread {
        true => Ok(()),
        false => Err("a part of the log could not be read".into()),
    }
}

/// What answering for the call reads and writes. A declaration that panics declares nothing that can be relied on.
pub(crate) fn declared_by(placed: &PlacedPolicy, call: &PolicyCall<'_>) -> Footprint {
    catch(|| placed.policy.footprint(call, &placed.key)).unwrap_or_else(|_| Footprint::everything())
}

/// Tells `policy` of a success, if it listens. Its failing is contained.
pub(crate) async fn tell(
    policy: &dyn ToolPolicy,
    call: &PolicyCall<'_>,
    result: &ResultView<'_>,
    cx: &PolicyContext<'_>,
    memory: &PolicyMemory<'_>,
) {
    let told = match memory.work.mark() {
        Ok(mark) => memory.or_forget(mark, try_tell(policy, call, result, cx, memory).await),
        Err(error) => Err(error.into()),
    };
    if let Err(error) = told {
        tracing::warn!(policy = &**cx.key(), tool = &**call.tool.name(), %error, "a policy failed on a result, which stands");
    }
}

/// As [`tell`]; whoever calls it forgets what a policy that failed had begun to remember.
pub(crate) async fn try_tell(
    policy: &dyn ToolPolicy,
    call: &PolicyCall<'_>,
    result: &ResultView<'_>,
    cx: &PolicyContext<'_>,
    memory: &PolicyMemory<'_>,
) -> Result<(), BoxError> {
    let panicked = |panic| PolicyPanicked { key: cx.key().to_string(), panic };
    if !catch(|| policy.wants_results() && policy.covers(call)).map_err(panicked)? {
        return Ok(());
    }
    let telling = catch(|| policy.on_result(call, result, cx, memory)).map_err(panicked)?;
    CatchPanic::new(telling).await.map_err(panicked)?
}

impl PolicyMemory<'_> {
    /// Half of what a failing policy wanted to remember is worse than nothing.
    pub(crate) fn or_forget(&self, mark: Mark, told: Result<(), BoxError>) -> Result<(), BoxError> {
        if told.is_err() {
            self.work.roll_back_to(mark)?;
        }
        told
    }
}
