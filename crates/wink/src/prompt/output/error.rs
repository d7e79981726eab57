//! Why an answer could not be read: for the model, which is sent the text and answers again.

use std::fmt;
use std::sync::Arc;

use super::contract::{Container, OutputContract};
use crate::tool::schema::Rejection;

/// An answer that does not fit its contract. Its text tells the model what was wrong and what to send instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputError {
    /// What was wrong.
    pub kind: OutputErrorKind,
    /// The answer as it came.
    pub text: Arc<str>,
    /// What would have been accepted.
    pub expected: String,
}

/// What can be wrong with an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputErrorKind {
    /// There is no JSON object or list in it.
    NoJson,
    /// Its JSON, or a block that says it is JSON, cannot be read.
    Unreadable(Rejection),
    /// It is a list where an object is wanted, or the other way round.
    WrongContainer {
        /// What came.
        found: Container,
    },
    /// There are several that would do, and they differ.
    Ambiguous {
        /// How many there are.
        count: usize,
    },
    /// It does not fit the schema.
    Rejected(Rejection),
}

impl OutputError {
    pub(super) fn new(kind: OutputErrorKind, text: &str, contract: &OutputContract) -> Self {
        let (container, name) = (contract.container(), contract.name());
        let expected =
            format!("one JSON {container} that fits the schema `{name}`, in a block marked `json`");
        Self { kind, text: text.into(), expected }
    }
}

impl fmt::Display for OutputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, expected, .. } = self;
        match kind {
            OutputErrorKind::Rejected(_) => write!(f, "{kind}\nAnswer again with {expected}."),
            _ => write!(f, "{kind} Answer again with {expected}."),
        }
    }
}

impl fmt::Display for OutputErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoJson => f.write_str("There is no JSON in the answer."),
            Self::Unreadable(rejection) => {
                f.write_str("The JSON of the answer cannot be read:")?;
                for problem in &rejection.problems {
                    write!(f, " expected {}, got {}.", problem.expected, problem.got)?;
                }
                Ok(())
            }
            Self::WrongContainer { found } => {
                let article = if *found == Container::Object { "an" } else { "a" };
                write!(f, "The JSON of the answer is {article} {found}.")
            }
            Self::Ambiguous { count } => {
                write!(f, "There are {count} different JSON values in the answer, and each could be meant.")
            }
            Self::Rejected(Rejection { problems, more }) => {
                match problems.as_slice() {
                    [only] if *more == 0 => return write!(f, "The JSON of the answer does not fit: {only}"),
                    _ => {
                        write!(f, "The JSON of the answer does not fit, {} problems:", problems.len() + more)?
                    }
                }
                for problem in problems {
                    write!(f, "\n- {problem}")?;
                }
                if *more > 0 { write!(f, "\n- and {more} more") } else { Ok(()) }
            }
        }
    }
}

impl std::error::Error for OutputError {}
