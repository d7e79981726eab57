//! The section.

use std::sync::Arc;

use wink::prompt::Section;

use crate::interpreter::{Interpreter, Limits};
use crate::tool::evaluate_python;

/// The suite: the tool `evaluate_python` and how to use it.
#[derive(Clone)]
#[must_use = "a suite does nothing until its section is in a prompt"]
pub struct AstevalSection {
    interpreter: Arc<dyn Interpreter>,
    limits: Limits,
}

impl AstevalSection {
    /// The suite with this interpreter, usually a [`WorkerProcess`](crate::WorkerProcess).
    pub fn new(interpreter: impl Interpreter) -> Self {
        Self { interpreter: Arc::new(interpreter), limits: Limits::default() }
    }

    /// What programs are held to.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The section, under key `python`. Its tool needs a workspace only for calls that read or write files.
    pub fn section(self) -> Section {
        Section::markdown("python", "Python").body(BODY).tool(evaluate_python(self.interpreter, self.limits))
    }
}

impl From<AstevalSection> for Section {
    fn from(suite: AstevalSection) -> Self {
        suite.section()
    }
}

impl std::fmt::Debug for AstevalSection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AstevalSection").field("limits", &self.limits).finish_non_exhaustive()
    }
}

const BODY: &str = "\
`evaluate_python` runs a short program (2000 characters at most) and shows the value of its last expression and what \
it printed. Use it to compute, to transform text and to check results.

- Every program starts anew: nothing stays from one call to the next.
- It has no files, network, processes or clock. A text file of the workspace that is named in `reads` is there as a \
variable; a variable that is named in `writes` is written to its file when the program has ended well.
- These modules can be imported: base64, binascii, collections, dataclasses, datetime, functools, itertools, json, \
math, re, typing, unicodedata. `yield`, `match` and `del` are not supported.
- A program that fails or takes too long has written nothing.";
