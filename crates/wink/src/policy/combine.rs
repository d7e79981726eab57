//! Policies made of policies. Each part keeps its state under a key of its own below that of the whole. A part
//! that has no say in a call is not asked; a part that fails or panics makes the whole fail, which denies: nothing
//! turns a failure into an answer.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::guard::{ask, tell};
use super::{Decision, PolicyCall, PolicyContext, PolicyMemory, ResultView, ToolPolicy};
use crate::BoxFuture;
use crate::resource::BoxError;
use crate::tool::footprint::Footprint;

/// Allows what all of its parts allow.
///
/// The first denial wins. Where nobody denies and some ask, all their questions are asked as one, so that no
/// approval of one part stands for another's.
#[derive(Debug, Default)]
#[must_use = "a policy does nothing until a section or template has it"]
pub struct AllOf {
    parts: Parts,
}

/// Allows what one of its parts allows: the first that allows wins, else the first question is asked, else it is
/// denied with all the reasons. Without a part that has a say in the call, it has none either.
#[derive(Debug, Default)]
#[must_use = "a policy does nothing until a section or template has it"]
pub struct AnyOf {
    parts: Parts,
}

/// Allows what its part denies, and the other way round. A question stays a question. It has a say in the same
/// calls as its part.
#[derive(Debug)]
#[must_use = "a policy does nothing until a section or template has it"]
pub struct Not {
    parts: Parts,
    reason: Option<String>,
}

impl AllOf {
    /// Without parts: allows everything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a part.
    pub fn and(mut self, policy: impl ToolPolicy) -> Self {
        self.parts.push(policy);
        self
    }

    async fn decide(&self, call: &PolicyCall<'_>, cx: &PolicyContext<'_>) -> Result<Decision, BoxError> {
        let mut questions = Vec::new();
        for (policy, key) in self.parts.placed(cx.key()).iter() {
            match ask(policy, call, &cx.part(key)).await? {
                None | Some(Decision::Allow) => {}
                Some(Decision::Ask(question)) => questions.push(question),
                Some(denial @ Decision::Deny(_)) => return Ok(denial),
            }
        }
        if questions.is_empty() { Ok(Decision::Allow) } else { Ok(Decision::Ask(questions.join("\n"))) }
    }
}

impl AnyOf {
    /// Without parts: has a say in nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a part.
    pub fn or(mut self, policy: impl ToolPolicy) -> Self {
        self.parts.push(policy);
        self
    }

    async fn decide(&self, call: &PolicyCall<'_>, cx: &PolicyContext<'_>) -> Result<Decision, BoxError> {
        let mut question = None;
        let mut reasons = Vec::new();
        for (policy, key) in self.parts.placed(cx.key()).iter() {
            match ask(policy, call, &cx.part(key)).await? {
                None => {}
                Some(Decision::Allow) => return Ok(Decision::Allow),
                Some(Decision::Ask(text)) => question = question.or(Some(text)),
                Some(Decision::Deny(reason)) => reasons.push(reason),
            }
        }
        Ok(match (question, reasons.as_slice()) {
            (Some(question), _) => Decision::Ask(question),
            (None, []) => Decision::Allow,
            (None, [reason]) => Decision::Deny(reason.clone()),
            (None, reasons) => {
                Decision::deny(format!("One of these must be settled first:\n- {}", reasons.join("\n- ")))
            }
        })
    }
}

impl Not {
    /// The opposite of `policy`.
    pub fn new(policy: impl ToolPolicy) -> Self {
        let mut parts = Parts::default();
        parts.push(policy);
        Self { parts, reason: None }
    }

    /// What the model is told when the part allows.
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    async fn decide(&self, call: &PolicyCall<'_>, cx: &PolicyContext<'_>) -> Result<Decision, BoxError> {
        let placed = self.parts.placed(cx.key());
        let Some((policy, key)) = placed.iter().next() else { return Ok(Decision::Allow) };
        Ok(match ask(policy, call, &cx.part(key)).await? {
            None | Some(Decision::Deny(_)) => Decision::Allow,
            Some(Decision::Ask(question)) => Decision::Ask(question),
            Some(Decision::Allow) => Decision::deny(match &self.reason {
                Some(reason) => reason.clone(),
                None => {
                    let (tool, kind) = (call.tool.name(), policy.kind());
                    format!("Cannot call '{tool}' - it may run only where policy '{kind}' would refuse it")
                }
            }),
        })
    }
}

/// One key per part.
type Keys = Arc<[Arc<str>]>;

/// The parts of a combined policy.
#[derive(Default)]
struct Parts {
    policies: Vec<Arc<dyn ToolPolicy>>,
    /// The parts' keys below the key that was asked for first. A policy has one place as a rule.
    keys: OnceLock<(Arc<str>, Keys)>,
}

/// The parts with their keys.
struct Placed<'a> {
    policies: &'a [Arc<dyn ToolPolicy>],
    keys: Keys,
}

impl Placed<'_> {
    fn iter(&self) -> impl Iterator<Item = (&dyn ToolPolicy, &Arc<str>)> {
        self.policies.iter().map(|policy| &**policy).zip(self.keys.iter())
    }
}

impl Parts {
    fn push(&mut self, policy: impl ToolPolicy) {
        self.policies.push(Arc::new(policy));
        self.keys = OnceLock::new();
    }

    fn placed(&self, key: &Arc<str>) -> Placed<'_> {
        let make = || {
            let parts = self.policies.iter().enumerate();
            parts.map(|(at, policy)| Arc::from(format!("{key}/{at}/{}", policy.kind()))).collect::<Keys>()
        };
        let (of, keys) = self.keys.get_or_init(|| (Arc::clone(key), make()));
        let keys = if of == key { Arc::clone(keys) } else { make() };
        Placed { policies: &self.policies, keys }
    }

    fn cover(&self, call: &PolicyCall<'_>) -> bool {
        self.policies.iter().any(|policy| policy.covers(call))
    }

    fn want_results(&self) -> bool {
        self.policies.iter().any(|policy| policy.wants_results())
    }

    async fn told(
        &self,
        call: &PolicyCall<'_>,
        result: &ResultView<'_>,
        cx: &PolicyContext<'_>,
        memory: &PolicyMemory<'_>,
    ) -> Result<(), BoxError> {
        for (policy, key) in self.placed(cx.key()).iter() {
            tell(policy, call, result, &cx.part(key), &memory.part(key)).await;
        }
        Ok(())
    }

    fn footprint(&self, call: &PolicyCall<'_>, key: &Arc<str>) -> Footprint {
        let placed = self.placed(key);
        placed
            .iter()
            .fold(Footprint::nothing(), |whole, (policy, key)| whole.and(policy.footprint(call, key)))
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.policies.iter().map(|policy| policy.kind())).finish()
    }
}

macro_rules! combined {
    ($policy:ty, $kind:literal) => {
        impl ToolPolicy for $policy {
            fn kind(&self) -> &'static str {
                $kind
            }

            fn covers(&self, call: &PolicyCall<'_>) -> bool {
                self.parts.cover(call)
            }

            fn check<'a>(
                &'a self,
                call: &'a PolicyCall<'a>,
                cx: &'a PolicyContext<'a>,
            ) -> BoxFuture<'a, Result<Decision, BoxError>> {
                Box::pin(self.decide(call, cx))
            }

            fn on_result<'a>(
                &'a self,
                call: &'a PolicyCall<'a>,
                result: &'a ResultView<'a>,
                cx: &'a PolicyContext<'a>,
                memory: &'a PolicyMemory<'a>,
            ) -> BoxFuture<'a, Result<(), BoxError>> {
                Box::pin(self.parts.told(call, result, cx, memory))
            }

            fn wants_results(&self) -> bool {
                self.parts.want_results()
            }

            fn footprint(&self, call: &PolicyCall<'_>, key: &Arc<str>) -> Footprint {
                self.parts.footprint(call, key)
            }
        }
    };
}

combined!(AllOf, "all_of");
combined!(AnyOf, "any_of");
combined!(Not, "not");
