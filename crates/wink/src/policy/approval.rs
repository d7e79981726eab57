//! Somebody has to say yes.

use std::fmt::{self, Write};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::covered::Tools;
use super::{Decision, PolicyCall, PolicyContext, ToolPolicy};
use crate::resource::BoxError;
use crate::tool::Params;
use crate::tool::footprint::Footprint;

/// How much of one argument a question shows.
const MAX_ARGUMENT: usize = 200;
/// How many arguments a question shows.
const MAX_ARGUMENTS: usize = 20;

type Condition = dyn Fn(&Params) -> bool + Send + Sync;

/// Asks before a tool runs: always, or when its arguments call for it.
///
/// The question names the tool and its arguments, sensitive ones masked. Each argument is cut by itself, so that a
/// long one cannot push another out of sight, and characters that would change how the rest is displayed are
/// escaped.
#[derive(Clone)]
#[must_use = "a policy does nothing until a section or template has it"]
pub struct ApprovalPolicy {
    tools: Tools,
    when: Option<Arc<Condition>>,
}

impl ApprovalPolicy {
    /// Asks before every call of these tools.
    pub fn new(tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { tools: Tools::these(tools), when: None }
    }

    /// Asks before every call of every tool.
    pub fn all_tools() -> Self {
        Self { tools: Tools::All, when: None }
    }

    /// Asks only when the condition holds for the arguments; other calls are allowed.
    pub fn when(mut self, condition: impl Fn(&Params) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(Arc::new(condition));
        self
    }

    fn decide(&self, call: &PolicyCall<'_>) -> Decision {
        if self.covers(call) && self.when.as_ref().is_none_or(|when| when(call.params)) {
            Decision::Ask(question(call))
        } else {
            Decision::Allow
        }
    }
}

impl fmt::Debug for ApprovalPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApprovalPolicy").field("tools", &self.tools).finish_non_exhaustive()
    }
}

impl ToolPolicy for ApprovalPolicy {
    fn kind(&self) -> &'static str {
        "approval"
    }

    fn covers(&self, call: &PolicyCall<'_>) -> bool {
        self.tools.include(call.tool.name())
    }

    fn check_now(&self, call: &PolicyCall<'_>, _: &PolicyContext<'_>) -> Option<Result<Decision, BoxError>> {
        Some(Ok(self.decide(call)))
    }

    fn footprint(&self, call: &PolicyCall<'_>, _: &Arc<str>) -> Footprint {
        // Nobody is asked about a call that is not run after all, or twice because an earlier one ended meanwhile.
        if self.covers(call) { Footprint::nothing().outside() } else { Footprint::nothing() }
    }
}

/// What the approver is asked. Made from the parsed arguments: the model's own spelling may hide things in
/// whitespace.
fn question(call: &PolicyCall<'_>) -> String {
    let masked = call.tool.contract().compiled().mask(call.params.text());
    let arguments: Map<String, Value> = match serde_json::from_str(&masked) {
        Ok(Value::Object(arguments)) => arguments,
        Ok(_) | Err(_) if masked.trim().is_empty() => Map::new(),
        // What cannot be shown must not look like nothing.
        Ok(_) | Err(_) => Map::from_iter([("arguments".to_owned(), Value::String(masked.into_owned()))]),
    };
    let mut text = format!("Allow '{}'", call.tool.name());
    for (at, (name, value)) in arguments.iter().take(MAX_ARGUMENTS).enumerate() {
        text.push_str(if at == 0 { " with " } else { ", " });
        show(&mut text, name);
        text.push('=');
        show(&mut text, &value.to_string());
    }
    if arguments.len() > MAX_ARGUMENTS {
        _ = write!(text, " and {} more arguments", arguments.len() - MAX_ARGUMENTS);
    }
    text.push('?');
    text
}

/// Appends the beginning of `shown`, escaping what is not plainly visible.
fn show(text: &mut String, shown: &str) {
    for character in shown.chars().take(MAX_ARGUMENT) {
        match character {
            // Controls, invisible ones and those that change the direction of what follows.
            '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}' => text.extend(character.escape_unicode()),
            other if other.is_control() => text.extend(other.escape_unicode()),
            other => text.push(other),
        }
    }
    let hidden = shown.chars().skip(MAX_ARGUMENT).count();
    if hidden > 0 {
        _ = write!(text, "… ({hidden} more characters)");
    }
}
