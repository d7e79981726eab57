//! Numbers compared exactly: integers far beyond 2^53 must not be rounded on their way to a bound.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};

use super::scan::NumberToken;

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

    /// The value of a number as written, near enough for a comparison with a bound.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Ok(int) = text.parse::<i128>() {
            return Some(Self::Int(int));
        }
        text.parse::<f64>().ok().map(Self::Float)
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

/// How the type behind a schema holds numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    /// As JSON values do: integers of 64 bits, and doubles.
    Json,
    /// All of them as doubles.
    Double,
}

/// Why a number would not arrive as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// An integer that 64 bits do not hold.
    Wide,
    /// Beyond the largest double.
    Large,
    /// The nearest double is another decimal.
    Rounded,
}

impl Precision {
    /// Whether a number would be rounded. A double stands for the shortest decimal that is read as it.
    pub(super) fn loss(self, token: NumberToken<'_>) -> Option<Loss> {
        /// No two decimals that are written in so few characters are the same double.
        const SHORT: usize = 15;
        let text = token.text;
        if token.integer && self == Self::Json {
            let fits = token.small.is_some() || text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok();
            return (!fits).then_some(Loss::Wide);
        }
        if text.len() <= SHORT && !text.contains(['e', 'E']) {
            return None;
        }
        // Printed as everything that is handed on is: of two shortest decimals printers choose differently.
        match text.parse().ok().and_then(Number::from_f64) {
            Some(double) => (decimal(text) != decimal(&double.to_string())).then_some(Loss::Rounded),
            None => Some(Loss::Large),
        }
    }
}

impl Loss {
    /// What would arrive as it is written.
    pub(super) fn expected(self) -> String {
        match self {
            Self::Wide => format!("an integer from {} to {}", i64::MIN, u64::MAX),
            Self::Large => format!("a number from {:e} to {:e}", f64::MIN, f64::MAX),
            Self::Rounded => "a number that a double holds (15 significant digits always fit)".to_owned(),
        }
    }
}

/// The integer that a number with a fraction or an exponent is, if it is one exactly.
pub(crate) fn whole_number(text: &str) -> Option<i64> {
    let token = NumberToken { text, integer: false, small: None };
    match Precision::Json.loss(token) {
        None => whole_digits(text)?.parse().ok(),
        Some(_) => None,
    }
}

/// The digits of a number that is an integer of no more than 38 of them, whatever its spelling.
pub(super) fn whole_digits(text: &str) -> Option<String> {
    let (digits, point) = decimal(text);
    let length = usize::try_from(point).ok().filter(|length| (digits.len()..=38).contains(length))?;
    let digits = String::from_utf8(digits).ok()?;
    Some(match digits.as_str() {
        "" => "0".to_owned(),
        digits => format!("{}{digits:0<length$}", if text.starts_with('-') { "-" } else { "" }),
    })
}

/// The value of a number without its sign: its digits without zeros at the ends, and where the decimal point is from the
/// first of them.
fn decimal(text: &str) -> (Vec<u8>, i64) {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    // An exponent that no integer holds belongs to no float either, unless the number is zero.
    let far = if exponent.starts_with('-') { i64::MIN } else { i64::MAX };
    let exponent: i64 = exponent.parse().unwrap_or(far);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
    let Some(first) = digits.iter().position(|digit| *digit != b'0') else { return (Vec::new(), 0) };
    let end = digits.iter().rposition(|digit| *digit != b'0').map_or(first, |last| last + 1);
    let point = exponent.saturating_add(whole.len() as i64).saturating_sub(first as i64);
    (digits.get(first..end).unwrap_or_default().to_vec(), point)
}

/// The one text of a value: equal values, `1` and `1.0` included, have equal texts whatever the order of keys.
pub(super) fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write_canonical(value, &mut out);
    out
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Number(number) => {
            let text = number.to_string();
            out.push_str(&whole_digits(&text).unwrap_or(text));
        }
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
