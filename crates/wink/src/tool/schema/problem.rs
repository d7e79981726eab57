//! What is wrong with a call's arguments, told so that a model can put it right in one go.

use std::fmt;

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
    /// A number that would be rounded on its way to the handler: an integer of more than 64 bits, or a decimal whose
    /// double, printed with as few digits as possible, has another value.
    InexactNumber,
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

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.problems.as_slice()
            && self.more == 0
        {
            return match only.kind {
                ProblemKind::InvalidJson => {
                    write!(
                        f,
                        "The arguments are not valid JSON: expected {}, got {}.",
                        only.expected, only.got
                    )
                }
                ProblemKind::NotAnObject => {
                    write!(f, "The arguments must be a JSON object, got {}.", only.got)
                }
                ProblemKind::TooLarge | ProblemKind::TooDeep => {
                    write!(f, "The arguments are too large: expected {}, got {}.", only.expected, only.got)
                }
                _ => write!(f, "Invalid arguments: {only}"),
            };
        }
        write!(f, "Invalid arguments, {} problems:", self.problems.len() + self.more)?;
        for problem in &self.problems {
            write!(f, "\n- {problem}")?;
        }
        if self.more > 0 {
            write!(f, "\n- and {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Rejection {}

impl Rejection {
    /// A rejection for a single reason.
    pub(super) fn only(kind: ProblemKind, expected: impl Into<String>, got: impl Into<String>) -> Self {
        let problem = Problem {
            path: String::new(),
            kind,
            expected: expected.into(),
            got: got.into(),
            suggestion: None,
        };
        Self { problems: vec![problem], more: 0 }
    }

    /// The type's decoder broke down.
    pub(crate) fn undecodable() -> Self {
        Self::only(
            ProblemKind::Undecodable,
            "arguments that the parameter type can decode",
            "some on which its decoder broke down",
        )
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        let Self { expected, got, .. } = self;
        match (self.kind, &self.suggestion) {
            (ProblemKind::UnknownField, Some(near)) => {
                write!(f, "unknown field; nearest known field is `{near}` (known: {expected})")
            }
            (ProblemKind::UnknownField, None) => write!(f, "unexpected field; expected {expected}"),
            (ProblemKind::MissingField, _) => write!(f, "missing; expected {expected}"),
            (ProblemKind::DuplicateKey, _) => write!(f, "the key occurs twice; send it once"),
            (ProblemKind::InexactNumber, _) => {
                write!(f, "{got} would be rounded; expected {expected}, or a string if the field takes one")
            }
            (ProblemKind::Undecodable, _) => write!(f, "{got}"),
            (_, Some(near)) => write!(f, "expected {expected}, got {got}; did you mean \"{near}\"?"),
            (_, None) => write!(f, "expected {expected}, got {got}"),
        }
    }
}

/// The candidate that `name` was most likely meant to be: the one with the fewest edits; none without candidates.
///
/// ```
/// use wink::tool::schema::nearest;
///
/// assert_eq!(nearest("raed_file", ["write_file", "read_file"]), Some("read_file"));
/// ```
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = folded(name);
    candidates.into_iter().min_by_key(|candidate| distance(&name, &folded(candidate)))
}

/// Whether a name may be a misspelling of another. Says yes when in doubt: it is used where that is the safe side, and to
/// leave out what nobody can have meant.
///
/// ```
/// use wink::tool::schema::may_mean;
///
/// assert!(may_mean("titel", "title"));
/// assert!(!may_mean("timeout", "key"));
/// ```
pub fn may_mean(name: &str, other: &str) -> bool {
    let (name, other) = (folded(name), folded(other));
    let contains = |long: &[char], short: &[char]| {
        short.len() > 2 && long.windows(short.len()).any(|window| window == short)
    };
    contains(&name, &other)
        || contains(&other, &name)
        || distance(&name, &other) <= (name.len().max(other.len()) / 3).max(1)
}

/// At most forty characters of a text, on one line.
pub(super) fn shorten(text: &str) -> String {
    const LIMIT: usize = 40;
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    let mut short: String = text.chars().take(LIMIT).map(clean).collect();
    if text.chars().nth(LIMIT).is_some() {
        short.push('…');
    }
    short
}

/// How a name is compared: case and separators rarely carry meaning. Long names are cut, so that comparing
/// stays cheap whatever a model sends.
fn folded(name: &str) -> Vec<char> {
    let letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' ' | '.'));
    letters.take(64).flat_map(char::to_lowercase).collect()
}

/// Edits between two names; swapping two neighbours counts as one.
fn distance(left: &[char], right: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    let mut above: Option<char> = None;
    for (row, &a) in left.iter().enumerate() {
        let mut line = vec![row + 1];
        let mut beside: Option<char> = None;
        for (column, &b) in right.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX - 1);
            let mut best = (at(&last, column) + usize::from(a != b))
                .min(at(&last, column + 1) + 1)
                .min(at(&line, column) + 1);
            if above == Some(b) && beside == Some(a) && column > 0 {
                best = best.min(at(&before, column - 1) + 1);
            }
            line.push(best);
            beside = Some(b);
        }
        before = std::mem::replace(&mut last, line);
        above = Some(a);
    }
    last.last().copied().unwrap_or(0)
}
