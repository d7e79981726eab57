//! What each dialect can say.

use serde_json::Value;

use super::Dialect;

/// Formats of strings that both know.
const FORMATS: [&str; 9] =
    ["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// Properties of all objects together, values of all enumerations together, and levels of objects and arrays.
pub(super) const MAX_PROPERTIES: usize = 5_000;
pub(super) const MAX_VALUES: usize = 1_000;
pub(super) const MAX_LEVELS: usize = 10;
/// Schemas of all kinds together, and how deep they stand in each other. These bound our own work.
pub(super) const MAX_NODES: usize = 20_000;
pub(super) const MAX_NESTING: usize = 64;

/// What all strict tools of one request to Anthropic may have together, with the form of its output.
pub(super) const MAX_STRICT_TOOLS: usize = 20;
pub(super) const MAX_OPTIONAL: usize = 24;
pub(super) const MAX_UNIONS: usize = 16;

impl Dialect {
    /// Whether a keyword that narrows values of one type can be said.
    pub(super) fn says(self, keyword: &str, value: &Value) -> bool {
        match (self, keyword) {
            (_, "format") => value.as_str().is_some_and(|format| self.knows_format(format)),
            (Self::OpenAi, "pattern") => value.as_str().is_some_and(is_plain_pattern),
            (
                Self::OpenAi,
                "multipleOf" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "minItems"
                | "maxItems",
            ) => true,
            (Self::Anthropic, "minItems") => value.as_u64().is_some_and(|count| count <= 1),
            (Self::Anthropic, "default") => true,
            _ => false,
        }
    }

    /// Whether a schema may refer to itself.
    pub(super) fn recurses(self) -> bool {
        match self {
            Self::OpenAi => true,
            Self::Anthropic => false,
        }
    }

    /// Whether a value may be in an enumeration.
    pub(super) fn enumerates(self, value: &Value) -> bool {
        !matches!(value, Value::Array(_) | Value::Object(_))
    }

    fn knows_format(self, format: &str) -> bool {
        FORMATS.contains(&format) || (self == Self::Anthropic && format == "uri")
    }
}

/// Whether a pattern looks neither ahead nor behind, nor back at what a group has matched.
fn is_plain_pattern(pattern: &str) -> bool {
    let looks = ["(?=", "(?!", "(?<=", "(?<!", "(?P=", "\\k<"].iter().any(|look| pattern.contains(look));
    let refers = pattern.as_bytes().windows(2).any(|pair| matches!(pair, [b'\\', b'1'..=b'9']));
    !looks && !refers
}
