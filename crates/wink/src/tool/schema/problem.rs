//! What is wrong with a call's arguments, told so that a model can put it right in one go.

use serde::{Deserialize, Serialize};

/// Arguments that were not accepted, with everything that is wrong with them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// The first problems, in the order of the text; at most five.
    pub problems: Vec<Problem>,
    /// How many further problems there are.
    #[serde(default)]
    pub more: usize,
}

/// One thing wrong with the arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Where: `items[0].a`; empty for the arguments as a whole.
    pub path: String,
    /// What kind of problem it is.
    pub kind: ProblemKind,
    /// What would have been accepted.
    pub expected: String,
    /// What came instead. Values are echoed only where they help, and never for sensitive fields.
    pub got: String,
    /// The nearest real name, for an unknown field or a value outside a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
}

/// The kinds of problems arguments can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ProblemKind {
    /// The text is not JSON.
    InvalidJson,
    /// The text is JSON, but not an object.
    NotAnObject,
    /// The text is longer than the limit.
    TooLarge,
    /// The text is nested deeper than the limit.
    TooDeep,
    /// A key occurs twice in one object.
    DuplicateKey,
    /// A key that the schema does not know.
    UnknownField,
    /// A required key is absent.
    MissingField,
    /// A value of another type.
    WrongType,
    /// A value that is not among the listed ones.
    NotAllowed,
    /// A number outside its bounds, or not a multiple of its step.
    OutOfRange,
    /// A string, list or object with too few or too many characters, items or keys.
    WrongLength,
    /// A string that does not match its pattern.
    PatternMismatch,
    /// A list that must not repeat an item does.
    NotUnique,
    /// A value that fits none, or more than one, of the allowed forms.
    NoMatchingForm,
    /// A value that the schema rules out.
    Forbidden,
    /// The schema accepts the value, the parameter type does not.
    Undecodable,
}
