//! What is wrong with an agent file: all of it, each thing with its place and what to do.

use std::fmt;
use std::io;
use std::ops::Range;

/// One thing wrong with an agent file.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// An agent could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{file}: cannot be read: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// The overrides of its texts cannot be used.
    #[error("the overrides of the agent's texts cannot be used: {0}")]
    Overrides(#[from] wink::prompt::OverrideError),
    /// There are none of the overrides that its file, or whoever looked for it, wants to be in place.
    #[error("there are no overrides with the tag {tag}: {} is not there", file.display())]
    NoOverrides {
        /// The tag.
        tag: String,
        /// Where they would be.
        file: std::path::PathBuf,
    },
    /// Something is wrong with it.
    #[error("{}", Listed(file, problems))]
    Invalid {
        /// The file.
        file: String,
        /// Everything that is wrong, in the order of the text.
        problems: Vec<Problem>,
    },
}

impl LoadError {
    /// Everything that is wrong with the text, in its order; nothing if it could not be read.
    pub fn problems(&self) -> &[Problem] {
        match self {
            Self::Unreadable { .. } | Self::Overrides(_) | Self::NoOverrides { .. } => &[],
            Self::Invalid { problems, .. } => problems,
        }
    }
}

/// All problems, each `file:line:column: message`, with its hint below.
struct Listed<'a>(&'a str, &'a [Problem]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(file, problems) = self;
        for (at, Problem { line, column, message, hint }) in problems.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{file}:{line}:{column}: {message}\n  hint: {hint}")?;
        }
        Ok(())
    }
}

/// A place in the text, in bytes.
pub(crate) type Span = Range<usize>;

/// What was found so far.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: Vec<Found>,
}

#[derive(Debug, PartialEq, Eq)]
struct Found {
    at: usize,
    message: String,
    hint: String,
    cause: Cause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// What is written there is wrong.
    Wrong,
    /// It could not be read. What else is wrong at the same place came of that.
    Broken,
}

impl Problems {
    /// Adds a problem and what to do about it.
    pub(crate) fn hint(&mut self, at: &Span, message: impl Into<String>, hint: impl Into<String>) {
        self.push(at, message.into(), hint.into(), Cause::Wrong);
    }

    /// Adds a place where the text could not be read, and what to do about it.
    pub(crate) fn broken(&mut self, at: &Span, message: impl Into<String>, hint: impl Into<String>) {
        self.push(at, message.into(), hint.into(), Cause::Broken);
    }

    fn push(&mut self, at: &Span, message: String, hint: String, cause: Cause) {
        self.found.push(Found { at: at.start, message, hint, cause });
    }

    /// Adds those that were found elsewhere.
    pub(crate) fn extend(&mut self, others: Self) {
        self.found.extend(others.found);
    }

    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// The error that tells all of it, in the order of the text.
    pub(crate) fn into_error(mut self, file: &str, text: &str) -> LoadError {
        // Where the text could not be read, that comes first.
        self.found.sort_by_key(|found| (found.at, found.cause == Cause::Wrong));
        let implied = |found: &mut Found, before: &mut Found| {
            found.at == before.at && (before.cause == Cause::Broken || found == before)
        };
        self.found.dedup_by(implied);
        let mut places = Places { rest: text, line: 1, column: 1, offset: 0 };
        let problem = |Found { at, message, hint, .. }| {
            let (line, column) = places.of(at);
            Problem { line, column, message, hint }
        };
        let problems = self.found.into_iter().map(problem).collect();
        LoadError::Invalid { file: file.to_owned(), problems }
    }
}

/// Tells lines and columns of places that come one after the other.
struct Places<'t> {
    rest: &'t str,
    line: usize,
    column: usize,
    offset: usize,
}

impl Places<'_> {
    fn of(&mut self, at: usize) -> (usize, usize) {
        for (index, character) in self.rest.char_indices() {
            if self.offset + index >= at {
                self.rest = self.rest.get(index..).unwrap_or_default();
                self.offset += index;
                return (self.line, self.column);
            }
            if character == '\n' {
                self.line += 1;
                self.column = 1;
            } else {
                self.column += 1;
            }
        }
        self.offset += self.rest.len();
        self.rest = "";
        (self.line, self.column)
    }
}
