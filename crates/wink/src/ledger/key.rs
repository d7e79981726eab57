//! The whole key of a call: `scope[:session]:tool:text`.
//!
//! Tool names have no colon, and neither have scopes and sessions once they are written here, so a key can be taken
//! apart in one way only: no two scopes, sessions, tools or texts share one.

use std::borrow::Cow;
use std::sync::Arc;

use super::{IdempotencyConfig, LedgerScope};
use crate::session::SessionId;

const SESSION: &str = "session";
const GLOBAL: &str = "global";

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
