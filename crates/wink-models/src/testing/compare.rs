//! What came of a scenario, as far as it can be compared, and where two of them differ.

use serde_json::{Map, Value, json};
use wink::session::{Session, SnapshotScope};

use super::scenario::Ends;
use super::world::{Shown, World};
use crate::conversation::RetriesExhausted;
use crate::{ModelError, PromptResponse, StopReason, Stopped};

/// What is at least this long is a long text.
const LONG: usize = 200;

/// How many differences are worth reading.
const MAX_DIFFERENCES: usize = 12;

/// What came of a scenario.
pub(super) struct Found {
    /// In short.
    pub(super) ends: Ends,
    /// What was refused.
    pub(super) complaints: Vec<String>,
    /// What was shown on the way, and in how many pieces.
    shown: Vec<Shown>,
    /// All of it.
    all: Value,
}

impl Found {
    pub(super) fn new(
        world: &World,
        session: &Session,
        came: &[Result<PromptResponse, Stopped>],
        complaints: Vec<String>,
        ends: Ends,
    ) -> Self {
        let shown = world.watching.shown();
        let session = session.snapshot_of(SnapshotScope::IncludeAll).to_json().unwrap();
        let mut all = json!({
            "came": came.iter().map(in_short).collect::<Vec<_>>(),
            "shown": shown.iter().map(|shown| (shown.kind, &shown.text)).collect::<Vec<_>>(),
            "session": session,
        });
        let mut ids = Vec::new();
        collect_ids(&all, &mut ids);
        neutralise(&mut all, &ids);
        Self { ends, complaints, shown, all }
    }

    /// Long texts of which nothing was shown before all of it was.
    pub(super) fn at_once(&self) -> Vec<String> {
        let long = self.shown.iter().map(|shown| (shown, shown.text.chars().count()));
        let at_once =
            long.filter(|(shown, length)| shown.kind == "text" && shown.pieces < 2 && *length >= LONG);
        at_once.map(|(_, length)| format!("a text of {length} characters is shown in one piece")).collect()
    }

    /// Writes all arguments anew, so that only what they mean is compared.
    pub(super) fn rewrite_arguments(&mut self) {
        rewrite(&mut self.all);
    }
}

fn rewrite(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(rewrite),
        Value::Object(fields) => {
            for (name, value) in fields {
                let read = match (name.as_str(), &*value) {
                    ("arguments" | "accepted" | "raw", Value::String(text)) => {
                        serde_json::from_str(text).ok()
                    }
                    _ => None,
                };
                match read {
                    Some(Value::Object(read)) => *value = Value::Object(read).to_string().into(),
                    _ => rewrite(value),
                }
            }
        }
        _ => {}
    }
}

/// Where they differ, from the first on, but for places that end so. One of those that is the same is a difference, too: nobody has to
/// leave it open.
pub(super) fn differences(expected: &Found, found: &Found, left_open: &[&str]) -> Vec<String> {
    let mut found_there = Vec::new();
    compare("", &expected.all, &found.all, &mut found_there);
    let mut differences: Vec<String> = left_open
        .iter()
        .filter(|end| !found_there.iter().any(|(place, _)| ends_with(place, end)))
        .map(|end| format!("nothing differs at {end}"))
        .collect();
    let is_meant = |place: &str| left_open.iter().any(|end| ends_with(place, end));
    let others = found_there.into_iter().filter(|(place, _)| !is_meant(place));
    differences.extend(others.map(|(place, how)| format!("{place} {how}")));
    if expected.ends != found.ends {
        differences.push(format!("it came to {:?}, and not to {:?}", found.ends, expected.ends));
    }
    let more = differences.len().saturating_sub(MAX_DIFFERENCES);
    differences.truncate(MAX_DIFFERENCES);
    if more > 0 {
        differences.push(format!("and {more} more"));
    }
    differences
}

/// Whether a place ends so, without the numbers in it.
fn ends_with(place: &str, end: &str) -> bool {
    let names: Vec<&str> = place.split('/').filter(|name| name.parse::<usize>().is_err()).collect();
    format!("/{}", names.join("/")).ends_with(&format!("/{end}"))
}

fn in_short(came: &Result<PromptResponse, Stopped>) -> Value {
    match came {
        Ok(PromptResponse { run_id, prompt, text, output, missing, stats }) => {
            json!({ "run_id": run_id, "prompt": prompt, "text": text, "output": output, "missing": missing, "stats": stats })
        }
        Err(Stopped { run_id, reason, stats }) => {
            json!({ "run_id": run_id, "stopped_by": reason.name(), "reason": why(reason), "stats": stats })
        }
    }
}

/// Why, without the provider's words.
fn why(reason: &StopReason) -> Value {
    let failure = |error: &ModelError| {
        let after = error.retry_after.map(|after| after.as_secs_f64());
        json!({ "kind": error.kind, "retry_safe": error.retry_safe, "retry_after": after })
    };
    match reason {
        StopReason::Request(error) => failure(error),
        StopReason::Retries(exhausted) => match exhausted {
            RetriesExhausted::Attempts { attempts, last } => {
                json!({ "attempts": attempts, "last": failure(last) })
            }
            RetriesExhausted::Window { elapsed, wait, window, last } => {
                json!({ "elapsed": elapsed, "wait": wait, "window": window, "last": failure(last) })
            }
            RetriesExhausted::Deadline { wait, left, last } => {
                json!({ "wait": wait, "left": left, "last": failure(last) })
            }
        },
        other => other.to_string().into(),
    }
}

/// A response of the model, in the log.
fn response_in(fields: &mut Map<String, Value>) -> Option<&mut Map<String, Value>> {
    fields.get_mut("responded")?.as_object_mut()
}

/// The ids of calls, in the order in which the model made them.
fn collect_ids(value: &Value, ids: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect_ids(value, ids)),
        Value::Object(fields) => {
            let calls = fields.get("responded").and_then(|response| response.get("tool_calls"));
            for call in calls.and_then(Value::as_array).into_iter().flatten() {
                ids.extend(call.get("id").and_then(Value::as_str).map(str::to_owned));
            }
            fields.values().for_each(|value| collect_ids(value, ids));
        }
        _ => {}
    }
}

/// Takes out what must differ.
fn neutralise(value: &mut Value, ids: &[String]) {
    match value {
        Value::String(text) => {
            if let Some(number) = ids.iter().position(|id| id == text) {
                *text = format!("call {number}");
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| neutralise(value, ids)),
        Value::Object(fields) => {
            if let Some(name) = fields.get_mut("adapter") {
                *name = Value::Null;
            }
            if let Some(response) = response_in(fields) {
                response.remove("provider");
                let cut = response.get("stop").is_some_and(|stop| stop == "truncated");
                let calls = response.get_mut("tool_calls").and_then(Value::as_array_mut);
                if let Some(last) = calls.filter(|_| cut).and_then(|calls| calls.last_mut()) {
                    // One provider leaves it out where an answer comes as a whole.
                    last["arguments"] = Value::Null;
                }
            }
            fields.values_mut().for_each(|value| neutralise(value, ids));
        }
        _ => {}
    }
}

fn compare(place: &str, expected: &Value, found: &Value, differences: &mut Vec<(String, String)>) {
    match (expected, found) {
        (Value::Object(expected), Value::Object(found)) => {
            for name in expected.keys().chain(found.keys().filter(|name| !expected.contains_key(*name))) {
                let value = |fields: &Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                compare(&format!("{place}/{name}"), &value(expected), &value(found), differences);
            }
        }
        (Value::Array(expected), Value::Array(found)) => {
            for at in 0..expected.len().max(found.len()) {
                let value = |values: &[Value]| values.get(at).cloned().unwrap_or_default();
                compare(&format!("{place}/{at}"), &value(expected), &value(found), differences);
            }
        }
        _ if expected == found => {}
        _ => differences.push((place.to_owned(), format!("is {found}, and not {expected}"))),
    }
}
