//! Money as the data writes it: integers and binary64 floats are different kinds, stay so, and print so.

use serde::{Deserialize, Serialize};

/// A price, an amount or a balance.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Number {
    Integer(i64),
    Float(f64),
}

impl Number {
    pub(crate) const ZERO: Self = Self::Integer(0);

    pub(crate) fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Integer(left), Self::Integer(right)) => Self::Integer(left.saturating_add(right)),
            _ => Self::Float(self.as_f64() + other.as_f64()),
        }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Integer(left), Self::Integer(right)) => Self::Integer(left.saturating_sub(right)),
            _ => Self::Float(self.as_f64() - other.as_f64()),
        }
    }

    pub(crate) fn abs(self) -> Self {
        match self {
            Self::Integer(value) => Self::Integer(value.saturating_abs()),
            Self::Float(value) => Self::Float(value.abs()),
        }
    }

    /// Rounds a float to two decimals; an integer has none to round.
    pub(crate) fn round2(self) -> Self {
        match self {
            Self::Integer(_) => self,
            Self::Float(value) => Self::Float(round2(value)),
        }
    }

    pub(crate) fn is_below(self, other: Self) -> bool {
        self.as_f64() < other.as_f64()
    }

    fn as_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }
}

// By kind and bits, not by worth: `46` and `46.0`, `0.0` and `-0.0` print differently, so they are different.
impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Integer(left), Self::Integer(right)) => left == right,
            (Self::Float(left), Self::Float(right)) => left.to_bits() == right.to_bits(),
            _ => false,
        }
    }
}

/// Rounds the exact binary value to two decimals, ties to the even digit.
///
/// Goes through text because multiplying by 100 would round a second time: 36.125 must give 36.12.
pub(crate) fn round2(value: f64) -> f64 {
    format!("{value:.2}").parse().unwrap_or(value)
}

/// Writes a float with the shortest digits that read back, always with a fraction or an exponent.
pub(crate) fn float_text(value: f64) -> String {
    let text = format!("{value:?}");
    if let Some((digits, exponent)) = text.split_once('e') {
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    // Where two such texts are equally near, the even digit is meant; the standard library takes the upper one.
    let decimals = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let even = format!("{value:.decimals$}");
    if even.parse() == Ok(value) { even } else { text }
}
