//! The STATE that a run left, part by part, to be compared.

use std::collections::BTreeMap;

use serde_json::Value;

use super::images::digest;
use super::scrub::Scrubber;

/// The digests of a STATE's slices, and of what policies remember, by name. They are of what is left without secrets.
pub(super) type Ended = BTreeMap<String, String>;

/// The digests of a snapshot's JSON.
pub(super) fn digests(state: &Value, scrubber: &Scrubber) -> Ended {
    let digest = |part: &Value| digest(scrubber.value(part.clone()).to_string().as_bytes());
    let slices = state.get("slices").and_then(Value::as_array).into_iter().flatten();
    let slices = slices.filter_map(|slice| {
        let (name, items) = (slice.get("name")?.as_str()?, slice.get("items")?);
        Some((format!("slice {name}"), digest(items)))
    });
    let policies = state.get("policies").and_then(Value::as_object).into_iter().flatten();
    let policies = policies.map(|(key, memory)| (format!("memory of {key}"), digest(memory)));
    slices.chain(policies).collect()
}

/// How a STATE differs from the one that was left then, if it does.
pub(super) fn difference(then: &Ended, now: &Ended) -> Option<String> {
    let differs = |part: &&String| then.get(*part) != now.get(*part);
    let part = then.keys().chain(now.keys()).find(differs)?;
    Some(format!("the session's STATE is not what it was when the recorded run was over: its {part} differs"))
}
