//! The calculator: arithmetic over exact integers and binary64 floats.
//!
//! Integers are exact up to 38 digits (`i128`); beyond that the answer is an error, never a rounded one.

#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Access, Answer, Done, RetailTool};
use crate::database::Shop;
use crate::number::{float_text, round2};

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Calculate {
    /// The mathematical expression to calculate, such as '2 + 2': numbers, operators (+, -, *, /), parentheses and
    /// spaces.
    pub(crate) expression: String,
}

impl RetailTool for Calculate {
    const NAME: &'static str = "calculate";
    const DESCRIPTION: &'static str = "Calculate the result of a mathematical expression.";
    const ACCESS: Access = Access::Reads;

    fn run(&self, _shop: &dyn Shop) -> Answer {
        Done::text(float_text(evaluate(&self.expression)?))
    }
}

/// Why an expression has no value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpressionError {
    #[error("invalid characters in expression")]
    InvalidCharacters,
    #[error("division by zero")]
    DivisionByZero,
    #[error("float division by zero")]
    FloatDivisionByZero,
    #[error("the expression ends where a number was expected")]
    Incomplete,
    #[error("unexpected '{0}' in expression")]
    Unexpected(String),
    #[error("'{0}' is not a number; write it without leading zeros and with at most one point")]
    NotANumber(String),
    #[error("more than {MAX_DEPTH} levels of parentheses and powers in expression")]
    TooDeep,
    #[error("number too large; integers may have 38 digits and floats 308")]
    TooLarge,
    #[error("a negative number has no such power")]
    NoRealPower,
}

/// How deep parentheses and powers may nest, so that no expression can exhaust the stack.
const MAX_DEPTH: usize = 100;

/// The value of an expression, rounded to two decimals.
fn evaluate(expression: &str) -> Result<f64, ExpressionError> {
    if expression
        .chars()
        .any(|character| !matches!(character, '0'..='9' | '+' | '-' | '*' | '/' | '(' | ')' | '.' | ' '))
    {
        return Err(ExpressionError::InvalidCharacters);
    }
    let mut parser = Parser { rest: expression, depth: 0 };
    let value = parser.sum()?.as_f64();
    match parser.next() {
        Some(token) => Err(ExpressionError::Unexpected(token.to_owned())),
        None if value.is_finite() => Ok(round2(value)),
        None => Err(ExpressionError::TooLarge),
    }
}

/// Evaluates while it reads, one function for each level of precedence.
struct Parser<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn sum(&mut self) -> Result<Value, ExpressionError> {
        let mut value = self.product()?;
        loop {
            value = match self.take(&["+", "-"]) {
                Some("+") => value.plus(self.product()?)?,
                Some(_) => value.minus(self.product()?)?,
                None => return Ok(value),
            };
        }
    }

    fn product(&mut self) -> Result<Value, ExpressionError> {
        let mut value = self.signed()?;
        loop {
            value = match self.take(&["*", "/", "//"]) {
                Some("*") => value.times(self.signed()?)?,
                Some("/") => value.divided_by(self.signed()?)?,
                Some(_) => value.floor_divided_by(self.signed()?)?,
                None => return Ok(value),
            };
        }
    }

    fn signed(&mut self) -> Result<Value, ExpressionError> {
        let mut negative = false;
        while let Some(sign) = self.take(&["+", "-"]) {
            negative ^= sign == "-";
        }
        let value = self.power()?;
        if negative { value.negated() } else { Ok(value) }
    }

    fn power(&mut self) -> Result<Value, ExpressionError> {
        let base = self.atom()?;
        match self.take(&["**"]) {
            Some(_) => base.to_the(self.nested(Self::signed)?),
            None => Ok(base),
        }
    }

    fn atom(&mut self) -> Result<Value, ExpressionError> {
        match self.next() {
            None => Err(ExpressionError::Incomplete),
            Some("(") => {
                let value = self.nested(Self::sum)?;
                match self.next() {
                    Some(")") => Ok(value),
                    Some(other) => Err(ExpressionError::Unexpected(other.to_owned())),
                    None => Err(ExpressionError::Incomplete),
                }
            }
            Some(token) if token.starts_with(|first: char| first.is_ascii_digit() || first == '.') => {
                literal(token)
            }
            Some(token) => Err(ExpressionError::Unexpected(token.to_owned())),
        }
    }

    fn nested(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<Value, ExpressionError>,
    ) -> Result<Value, ExpressionError> {
        if self.depth == MAX_DEPTH {
            return Err(ExpressionError::TooDeep);
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// The next token, if it is one of `wanted`.
    fn take(&mut self, wanted: &[&str]) -> Option<&'a str> {
        let before = self.rest;
        let token = self.next().filter(|token| wanted.contains(token));
        if token.is_none() {
            self.rest = before;
        }
        token
    }

    /// Cuts the next token off: a run of digits and points, a doubled operator, or one character.
    fn next(&mut self) -> Option<&'a str> {
        let text = self.rest.trim_start_matches(' ');
        let length = match text.find(|character: char| !matches!(character, '0'..='9' | '.')) {
            None => text.len(),
            Some(0) if text.starts_with("**") || text.starts_with("//") => 2,
            Some(0) => 1,
            Some(length) => length,
        };
        let (token, rest) = text.split_at(length);
        self.rest = rest;
        (!token.is_empty()).then_some(token)
    }
}

fn literal(token: &str) -> Result<Value, ExpressionError> {
    if token.contains('.') {
        // The standard parser reads `5.` and `.5` too, and refuses a lone or second point.
        return token.parse().map(Value::Float).map_err(|_| ExpressionError::NotANumber(token.to_owned()));
    }
    if token.starts_with('0') && token.contains(|digit| digit != '0') {
        return Err(ExpressionError::NotANumber(token.to_owned()));
    }
    token.parse().map(Value::Integer).map_err(|_| ExpressionError::TooLarge)
}

#[derive(Clone, Copy)]
enum Value {
    Integer(i128),
    Float(f64),
}

impl Value {
    fn as_f64(self) -> f64 {
        match self {
            Self::Integer(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    fn negated(self) -> Result<Self, ExpressionError> {
        match self {
            Self::Integer(value) => integer(value.checked_neg()),
            Self::Float(value) => Ok(Self::Float(-value)),
        }
    }

    fn plus(self, other: Self) -> Result<Self, ExpressionError> {
        match (self, other) {
            (Self::Integer(left), Self::Integer(right)) => integer(left.checked_add(right)),
            _ => Ok(Self::Float(self.as_f64() + other.as_f64())),
        }
    }

    fn minus(self, other: Self) -> Result<Self, ExpressionError> {
        match (self, other) {
            (Self::Integer(left), Self::Integer(right)) => integer(left.checked_sub(right)),
            _ => Ok(Self::Float(self.as_f64() - other.as_f64())),
        }
    }

    fn times(self, other: Self) -> Result<Self, ExpressionError> {
        match (self, other) {
            (Self::Integer(left), Self::Integer(right)) => integer(left.checked_mul(right)),
            _ => Ok(Self::Float(self.as_f64() * other.as_f64())),
        }
    }

    fn divided_by(self, other: Self) -> Result<Self, ExpressionError> {
        match (self, other) {
            (Self::Integer(_), Self::Integer(0)) => Err(ExpressionError::DivisionByZero),
            (Self::Integer(left), Self::Integer(right)) => Ok(Self::Float(quotient(left, right))),
            _ if other.as_f64() == 0.0 => Err(ExpressionError::FloatDivisionByZero),
            _ => Ok(Self::Float(self.as_f64() / other.as_f64())),
        }
    }

    fn floor_divided_by(self, other: Self) -> Result<Self, ExpressionError> {
        match (self, other) {
            (Self::Integer(_), Self::Integer(0)) => Err(ExpressionError::DivisionByZero),
            (Self::Integer(left), Self::Integer(right)) => {
                let exact = left.checked_rem(right) == Some(0);
                let down = i128::from(!exact && (left < 0) != (right < 0));
                integer(left.checked_div(right).and_then(|quotient| quotient.checked_sub(down)))
            }
            _ if other.as_f64() == 0.0 => Err(ExpressionError::FloatDivisionByZero),
            _ => Ok(Self::Float(floor_quotient(self.as_f64(), other.as_f64()))),
        }
    }

    fn to_the(self, other: Self) -> Result<Self, ExpressionError> {
        if let (Self::Integer(base), Self::Integer(exponent @ 0..)) = (self, other) {
            return integer(match base {
                0 | 1 if exponent > 0 => Some(base),
                -1 => Some(if exponent % 2 == 0 { 1 } else { -1 }),
                _ => u32::try_from(exponent).ok().and_then(|exponent| base.checked_pow(exponent)),
            });
        }
        let (base, exponent) = (self.as_f64(), other.as_f64());
        if base == 0.0 && exponent < 0.0 {
            return Err(ExpressionError::DivisionByZero);
        }
        let power = base.powf(exponent);
        match power {
            _ if power.is_nan() => Err(ExpressionError::NoRealPower),
            _ if power.is_infinite() => Err(ExpressionError::TooLarge),
            _ => Ok(Self::Float(power)),
        }
    }
}

fn integer(value: Option<i128>) -> Result<Value, ExpressionError> {
    value.map(Value::Integer).ok_or(ExpressionError::TooLarge)
}

/// The float nearest to the exact quotient. Converting both sides first would round three times.
fn quotient(left: i128, right: i128) -> f64 {
    let (dividend, divisor) = (left.unsigned_abs(), right.unsigned_abs());
    let (mut bits, mut rest) = (dividend / divisor, dividend % divisor);
    let mut scale = 1.0;
    // 64 bits, the last of them telling whether anything is left, decide how the 53 of a float are rounded.
    while bits < 1 << 63 && rest != 0 {
        rest <<= 1;
        bits = bits << 1 | u128::from(rest >= divisor);
        rest %= divisor;
        scale *= 2.0;
    }
    let magnitude = (bits | u128::from(rest != 0)) as f64 / scale;
    if (left < 0) == (right < 0) { magnitude } else { -magnitude }
}

/// The quotient rounded down, from the exact remainder: `left / right` may already have been rounded up past it.
fn floor_quotient(left: f64, right: f64) -> f64 {
    let remainder = left % right;
    let mut quotient = (left - remainder) / right;
    if remainder != 0.0 && (remainder < 0.0) != (right < 0.0) {
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return 0.0_f64.copysign(left / right);
    }
    // All but whole already; a little below a whole number still means that number.
    let floor = quotient.floor();
    if quotient - floor > 0.5 { floor + 1.0 } else { floor }
}
