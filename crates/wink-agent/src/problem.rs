//! What is wrong with an agent file: all of it, each thing with its place and what to do.

use std::fmt;
use std::io;
use std::ops::Range;

/// One thing wrong with an agent file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
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
            Self::Unreadable { .. } => &[],
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
            write!(f, "{file}:{line}:{column}: {message}")?;
            if let Some(hint) = hint {
                write!(f, "\n  hint: {hint}")?;
            }
        }
        Ok(())
    }
}

/// A place in the text, in bytes.
pub(crate) type Span = Range<usize>;

/// What was found so far.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: Vec<(usize, String, Option<String>)>,
    /// Where the text could not be read.
    broken: Vec<usize>,
}

impl Problems {
    /// Adds a problem.
    pub(crate) fn add(&mut self, at: &Span, message: impl Into<String>) {
        self.found.push((at.start, message.into(), None));
    }

    /// Adds a place where the text could not be read. What else is wrong with what is there came of that.
    pub(crate) fn broken(&mut self, at: &Span, message: impl Into<String>) {
        self.add(at, message);
        self.broken.push(at.start);
    }

    /// Adds a problem and what to do about it.
    pub(crate) fn hint(&mut self, at: &Span, message: impl Into<String>, hint: impl Into<String>) {
        self.found.push((at.start, message.into(), Some(hint.into())));
    }

    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// The error that tells all of it, in the order of the text; none if nothing was found.
    pub(crate) fn into_error(mut self, file: &str, text: &str) -> Option<LoadError> {
        if self.found.is_empty() {
            return None;
        }
        self.found.sort_by_key(|(at, ..)| *at);
        let mut places = Places { rest: text, line: 1, column: 1, offset: 0 };
        let problem = |(at, message, hint)| {
            let (line, column) = places.of(at);
            Problem { line, column, message, hint }
        };
        let mut kept: Vec<(usize, String, Option<String>)> = Vec::with_capacity(self.found.len());
        for found in self.found {
            let before = kept.last().filter(|(at, ..)| *at == found.0);
            if before.is_none_or(|before| *before != found && !self.broken.contains(&found.0)) {
                kept.push(found);
            }
        }
        let problems = kept.into_iter().map(problem).collect();
        Some(LoadError::Invalid { file: file.to_owned(), problems })
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
