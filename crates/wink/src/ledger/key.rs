//! The whole key of a call: `scope[:session]:tool:text`.
//!
//! Tool names have no colon, and neither have scopes and sessions once they are written here, so a key can be taken
//! apart in one way only: no two scopes, sessions, tools or texts share one.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::{IdempotencyConfig, LedgerScope};
use crate::session::SessionId;
use crate::support::canonical::canonical_hash;

const SESSION: &str = "session";
const GLOBAL: &str = "global";

/// What [`KeyStrategy::Params`](super::KeyStrategy::Params) makes of arguments: the same text for the same values of these
/// parameters, and another for others. For keys of one's own that are made of several.
///
/// ```
/// use serde_json::json;
/// use wink::ledger::params_key;
///
/// let fields = ["a".to_owned(), "b".to_owned()];
/// assert_eq!(params_key(&json!({ "a": 1, "b": 2 }), &fields), params_key(&json!({ "b": 2, "a": 1, "c": 3 }), &fields));
/// assert_ne!(params_key(&json!({ "a": "1-2", "b": "3" }), &fields), params_key(&json!({ "a": "1", "b": "2-3" }), &fields));
/// ```
pub fn params_key(arguments: &Value, fields: &[String]) -> String {
    let picked = |field: &String| Some((field.clone(), arguments.get(field)?.clone()));
    canonical_hash(&Value::Object(fields.iter().filter_map(picked).collect()))
}

pub(super) fn key_of(config: &IdempotencyConfig, session: &SessionId, tool: &str, text: &str) -> Arc<str> {
    match &config.scope {
        LedgerScope::Session => format!("{SESSION}:{}:{tool}:{text}", part(session.as_str())),
        LedgerScope::Global => format!("{GLOBAL}:{tool}:{text}"),
        // A percent sign is otherwise always followed by digits.
        LedgerScope::Named(name) if name == SESSION || name == GLOBAL => format!("%{name}:{tool}:{text}"),
        LedgerScope::Named(name) => format!("{}:{tool}:{text}", part(name)),
    }
    .into()
}

/// `text` without colons, so that it can be read back.
fn part(text: &str) -> Cow<'_, str> {
    if text.contains([':', '%']) { text.replace('%', "%25").replace(':', "%3A").into() } else { text.into() }
}
