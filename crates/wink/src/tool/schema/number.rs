//! Numbers compared exactly: integers far beyond 2^53 must not be rounded on their way to a bound.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};

/// A number of a schema or of an argument.
#[derive(Debug, Clone, Copy)]
pub(super) enum Num {
    Int(i128),
    Float(f64),
}

impl Num {
    pub(super) fn from_json(number: &Number) -> Self {
        match (number.as_i64(), number.as_u64()) {
            (Some(int), _) => Self::Int(int.into()),
            (None, Some(int)) => Self::Int(int.into()),
            (None, None) => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    /// The value of a number as written. Integers of more than 38 digits are rounded: no bound is that large.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Ok(int) = text.parse::<i128>() {
            return Some(Self::Int(int));
        }
        text.parse::<f64>().ok().filter(|float| float.is_finite()).map(Self::Float)
    }

    pub(super) fn is_multiple_of(self, step: Self) -> bool {
        if let (Self::Int(value), Self::Int(step)) = (self, step) {
            return step != 0 && value % step == 0;
        }
        let quotient = self.as_f64() / step.as_f64();
        if quotient.abs() < 0.5 {
            return quotient == 0.0;
        }
        // 0.3 / 0.1 is not quite 3: what a human calls a multiple is one within rounding.
        (quotient - quotient.round()).abs() <= f64::EPSILON * quotient.abs().max(1.0)
    }

    fn as_f64(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }
}

impl PartialEq for Num {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Num {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (*self, *other) {
            (Self::Int(left), Self::Int(right)) => Some(left.cmp(&right)),
            (Self::Float(left), Self::Float(right)) => left.partial_cmp(&right),
            (Self::Int(left), Self::Float(right)) => compare(left, right),
            (Self::Float(left), Self::Int(right)) => compare(right, left).map(Ordering::reverse),
        }
    }
}

impl fmt::Display for Num {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(int) => int.fmt(f),
            Self::Float(float) => float.fmt(f),
        }
    }
}

/// The one text of a value: equal values, `1` and `1.0` included, have equal texts whatever the order of keys.
pub(super) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => match Num::from_json(number) {
            Num::Float(float) if float.fract() == 0.0 && float.abs() < LIMIT => {
                out.push_str(&(float as i128).to_string());
            }
            number => out.push_str(&number.to_string()),
        },
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.iter().collect();
            keys.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (key, item) in keys {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(item, out);
                out.push(',');
            }
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

/// Just below the largest `i128`.
const LIMIT: f64 = 1.7e38;

/// Compares without rounding the integer.
fn compare(int: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    if float >= LIMIT {
        return Some(Ordering::Less);
    }
    if float <= -LIMIT {
        return Some(Ordering::Greater);
    }
    let floor = float.floor();
    Some(int.cmp(&(floor as i128)).then(if float > floor { Ordering::Less } else { Ordering::Equal }))
}
