//! A call as JSON: the one shape in which `call`, `log` and `show` tell of it. It is part of the program's interface, and
//! described by the schemas beside the sources.

use serde::Serialize;
use serde_json::{Value, json};
use wink::filesystem::UndoForce;
use wink::session::{Ending, LogEntry, LogEvent, LoggedAnswer, LoggedParams, ToolInvoked, UndoReach, Undone};
use wink::tool::schema::{CompiledSchema, ParseLimits, ProblemKind};

/// The outcome of a call about which somebody was to be asked, and did not agree.
pub(super) const REFUSED: &str = "refused";

/// What is told of every call.
#[derive(Debug, Serialize)]
pub(super) struct CallRow {
    call_id: Option<String>,
    invocation_id: String,
    tool: Option<String>,
    success: bool,
    message: String,
    value: Value,
    rendered: Option<String>,
    replayed: bool,
    rolled_back: bool,
    decision: Option<Decision>,
    error: Option<Problem>,
    duration_ms: f64,
}

/// What the policies came to.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Decision {
    pub(super) outcome: &'static str,
    pub(super) policy: Option<String>,
    pub(super) reason: Option<String>,
}

/// Why it did not succeed.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Problem {
    pub(super) kind: Value,
    pub(super) problems: Vec<String>,
}

/// What is told of an entry of the log.
#[derive(Debug, Serialize)]
pub(super) struct LogRow {
    seq: u64,
    kind: &'static str,
    time: String,
    session: String,
    #[serde(flatten)]
    call: CallRow,
    arguments: Value,
}

impl CallRow {
    /// A call, and what the model saw of it.
    pub(super) fn of(event: &ToolInvoked, rendered: &str) -> Self {
        Self {
            call_id: Some(event.call_id.to_string()),
            invocation_id: event.id.to_string(),
            tool: Some(event.tool.to_string()),
            success: event.success,
            message: event.message.to_string(),
            value: event.value.to_json(),
            rendered: Some(rendered.to_owned()),
            replayed: event.replayed,
            rolled_back: was_rolled_back(event.ending),
            decision: decision(event),
            error: problem(event),
            duration_ms: milliseconds(event.duration),
        }
    }

    fn of_undo(undone: &Undone) -> Self {
        Self {
            call_id: None,
            invocation_id: undone.id.to_string(),
            tool: None,
            success: true,
            message: undone.to_string(),
            value: serde_json::to_value(undone).unwrap_or_default(),
            rendered: None,
            replayed: false,
            rolled_back: false,
            decision: None,
            error: None,
            duration_ms: 0.0,
        }
    }
}

impl LogRow {
    pub(super) fn of(entry: &LogEntry, session: &str) -> Self {
        let (kind, time, call, arguments) = match &entry.event {
            LogEvent::Call(event) => {
                ("call", event.time, CallRow::of(event, &event.rendered), arguments(&event.params))
            }
            LogEvent::Undone(undone) => {
                let to = undone.reach == UndoReach::ToBefore;
                let force = undone.force == UndoForce::Anyway;
                let arguments = json!({ "call": undone.call.to_string(), "to": to, "force": force });
                ("undo", undone.time, CallRow::of_undo(undone), arguments)
            }
        };
        Self { seq: entry.seq, kind, time: time.to_string(), session: session.to_owned(), call, arguments }
    }
}

/// How a call ended, in a word or two.
pub(super) fn ended(event: &ToolInvoked) -> &'static str {
    match event.ending {
        Ending::Succeeded if event.replayed => "replayed",
        Ending::Succeeded => "ok",
        Ending::Unavailable => "unavailable",
        Ending::Rejected => "rejected",
        Ending::Denied => "denied",
        Ending::InDoubt => "in doubt",
        Ending::Failed => "failed",
        Ending::Errored => "error",
        Ending::Panicked => "panicked",
        Ending::TimedOut => "timed out",
        Ending::Exhausted => "exhausted",
        Ending::Cancelled => "cancelled",
        Ending::Expanded => "opened",
        Ending::Escalated => "escalated",
        Ending::NotCommitted => "not kept",
        Ending::NotRestored => "not restored",
        Ending::NotRun => "not run",
        Ending::Interrupted => "interrupted",
    }
}

/// Whether it had begun, and what it had done by then was taken back.
pub(super) fn was_rolled_back(ending: Ending) -> bool {
    match ending {
        Ending::Failed
        | Ending::Errored
        | Ending::Panicked
        | Ending::TimedOut
        | Ending::Exhausted
        | Ending::Cancelled
        | Ending::Escalated
        | Ending::NotCommitted
        | Ending::Interrupted => true,
        Ending::Succeeded
        | Ending::Unavailable
        | Ending::Rejected
        | Ending::Denied
        | Ending::InDoubt
        | Ending::Expanded
        | Ending::NotRestored
        | Ending::NotRun => false,
    }
}

/// The first policy that did not simply allow it; that all did, if none; nothing, if none was asked.
pub(super) fn decision(event: &ToolInvoked) -> Option<Decision> {
    let first = event.decisions.iter().find(|decision| decision.answer != LoggedAnswer::Allow);
    if let Some(decided) = first {
        let (outcome, reason) = match &decided.answer {
            LoggedAnswer::Allow => ("allow", None),
            LoggedAnswer::Deny(reason) => ("deny", Some(reason.to_string())),
            LoggedAnswer::Ask { question, approved: true } => ("approved", Some(question.to_string())),
            LoggedAnswer::Ask { question, approved: false } => (REFUSED, Some(question.to_string())),
        };
        return Some(Decision { outcome, policy: Some(decided.policy.to_string()), reason });
    }
    match event.ending {
        Ending::Unavailable | Ending::Rejected | Ending::NotRun | Ending::Interrupted => None,
        Ending::Denied => {
            Some(Decision { outcome: "deny", policy: None, reason: Some(event.message.to_string()) })
        }
        _ => Some(Decision { outcome: "allow", policy: None, reason: None }),
    }
}

fn problem(event: &ToolInvoked) -> Option<Problem> {
    if event.success {
        return None;
    }
    let problems = match &event.params {
        LoggedParams::Rejected { problems, .. } if !problems.is_empty() => each(problems),
        LoggedParams::Rejected { .. } | LoggedParams::Accepted(_) => event.error_chain.clone(),
    };
    Some(Problem { kind: serde_json::to_value(event.ending).unwrap_or_default(), problems })
}

/// The problems that a rejection lists, or its one text.
fn each(problems: &str) -> Vec<String> {
    let listed: Vec<String> =
        problems.lines().filter_map(|line| line.strip_prefix("- ")).map(str::to_owned).collect();
    if listed.is_empty() { vec![problems.to_owned()] } else { listed }
}

/// The arguments as JSON; as the text that they are, if they are not, or if a number in them would be printed as another one.
pub(super) fn arguments(params: &LoggedParams) -> Value {
    let is_exact = |text: &str| match params {
        LoggedParams::Accepted(_) => true,
        LoggedParams::Rejected { .. } => keeps_numbers(text),
    };
    match params.text() {
        "" => json!({}),
        text => match serde_json::from_str(text) {
            Ok(value) if is_exact(text) => value,
            _ => Value::String(text.to_owned()),
        },
    }
}

/// Whether each number of a JSON text is the same once it was decoded, by the rule that arguments are refused by.
fn keeps_numbers(json: &str) -> bool {
    let Ok(any) = CompiledSchema::compile(&json!({ "type": "object" })) else { return false };
    // What was rejected may be no object.
    match any.check(&format!("{{\"arguments\":{json}}}"), &ParseLimits::default()) {
        Ok(()) => true,
        Err(rejection) => {
            !rejection.problems.iter().any(|problem| problem.kind == ProblemKind::InexactNumber)
        }
    }
}

fn milliseconds(duration: std::time::Duration) -> f64 {
    // To the microsecond: what is finer is noise.
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
