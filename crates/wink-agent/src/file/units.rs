//! Stretches of time and amounts of bytes, as texts with a unit.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// A stretch of time: `250ms`, `5m`, `1h 30m`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Time(pub(crate) String);

/// A stretch of time, or `forever`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct TimeOrForever(pub(crate) String);

/// An amount of bytes: `512 MiB`, `64KiB`, `100 B`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct Size(pub(crate) String);

/// What is meant instead.
pub(crate) const TIME_HINT: &str =
    "write a number and a unit (ms, s, m, h, d), such as \"90s\" or \"1h 30m\"";
/// What is meant instead.
pub(crate) const SIZE_HINT: &str = "write a number and a unit (B, KiB, MiB, GiB), such as \"512 MiB\"";

const TIMES: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60 * 1000), ("h", 60 * 60 * 1000), ("d", 24 * 60 * 60 * 1000)];
const SIZES: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

impl Time {
    /// How long that is; none if the text does not say, or says nothing or more than ten years.
    pub(crate) fn duration(&self) -> Option<Duration> {
        const TEN_YEARS: u64 = 10 * 366 * 24 * 60 * 60 * 1000;
        let millis = sum(&self.0, &TIMES)?;
        (1..=TEN_YEARS).contains(&millis).then(|| Duration::from_millis(millis))
    }
}

/// A stretch of time as agent files have it: `250ms`, `5m`, `1h 30m`. The error says what is meant.
///
/// # Errors
/// When the text does not say, or says nothing or more than ten years.
pub fn duration(text: &str) -> Result<Duration, &'static str> {
    Time(text.to_owned()).duration().ok_or(TIME_HINT)
}

impl TimeOrForever {
    /// How long that is, none inside being for ever; none if the text does not say.
    pub(crate) fn duration(&self) -> Option<Option<Duration>> {
        match self.0.as_str() {
            "forever" => Some(None),
            text => Time(text.to_owned()).duration().map(Some),
        }
    }
}

impl Size {
    /// How many bytes that is; none if the text does not say, or says none.
    pub(crate) fn bytes(&self) -> Option<u64> {
        sum(&self.0, &SIZES).filter(|bytes| *bytes > 0)
    }
}

/// The sum of `number unit`, one after the other.
fn sum(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let mut rest = text.trim();
    let mut whole: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at_checked(digits)?;
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at_checked(letters)?;
        let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
        whole = whole.checked_add(number.parse::<u64>().ok()?.checked_mul(*factor)?)?;
        rest = after.trim_start();
    }
    (!text.trim().is_empty()).then_some(whole)
}

macro_rules! text_with_unit {
    ($of:ty, $name:literal, $description:literal, $pattern:literal, $($example:literal),+) => {
        impl JsonSchema for $of {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": "string",
                    "description": $description,
                    "pattern": $pattern,
                    "examples": [$($example),+],
                })
            }
        }
    };
}

text_with_unit!(
    Time,
    "Time",
    "A stretch of time, with a unit: ms, s, m, h or d.",
    r"^\s*([0-9]+\s*(ms|s|m|h|d)\s*)+$",
    "90s",
    "5m",
    "1h 30m"
);
text_with_unit!(
    TimeOrForever,
    "TimeOrForever",
    "A stretch of time, with a unit: ms, s, m, h or d; or `forever`.",
    r"^(forever|\s*([0-9]+\s*(ms|s|m|h|d)\s*)+)$",
    "1h",
    "forever"
);
text_with_unit!(
    Size,
    "Size",
    "An amount of bytes, with a unit: B, KiB, MiB or GiB.",
    r"^\s*([0-9]+\s*(B|KiB|MiB|GiB)\s*)+$",
    "512 MiB",
    "64KiB"
);

#[cfg(test)]
mod tests;
