//! Where a walk is, and what it has found wrong.

use std::fmt;

use super::problem::{Problem, ProblemKind, Rejection, shorten};

/// A place in the arguments. It lives on the stack and becomes text only when there is something to say.
#[derive(Debug, Clone, Copy)]
pub(super) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
    /// Values here must not be shown.
    pub(super) hidden: bool,
}

#[derive(Debug, Clone, Copy)]
enum Step<'p> {
    Root,
    Key(&'p str),
    Index(usize),
}

impl<'p> Path<'p> {
    pub(super) const ROOT: Self = Self { parent: None, step: Step::Root, hidden: false };

    pub(super) fn key(&'p self, name: &'p str) -> Self {
        Self { parent: Some(self), step: Step::Key(name), hidden: self.hidden }
    }

    pub(super) fn index(&'p self, index: usize) -> Self {
        Self { parent: Some(self), step: Step::Index(index), hidden: self.hidden }
    }

    /// How much of either end of a very long path is shown.
    const KEPT: usize = 100;

    /// The path for a problem. A very long one keeps its ends.
    pub(super) fn text(&self) -> String {
        let text = self.to_string();
        let count = text.chars().count();
        if count <= 2 * Self::KEPT {
            return text;
        }
        let end = text.chars().skip(count - Self::KEPT);
        text.chars().take(Self::KEPT).chain(['…']).chain(end).collect()
    }

    pub(super) fn hide(&self) -> Self {
        Self { hidden: true, ..*self }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(name) => {
                let plain = !name.is_empty()
                    && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
                let top = self.parent.is_none_or(|parent| matches!(parent.step, Step::Root));
                match (plain, top) {
                    (true, true) => f.write_str(&shorten(name)),
                    (true, false) => write!(f, ".{}", shorten(name)),
                    (false, _) => write!(f, "[\"{}\"]", shorten(name)),
                }
            }
        }
    }
}

/// The problems found so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    problems: Vec<Problem>,
    /// Further problems, kept for a while to tell whether one of them comes again from another branch.
    others: Vec<Problem>,
    uncounted: usize,
}

impl Findings {
    const SHOWN: usize = 5;
    const COMPARED: usize = 64;

    pub(super) fn count(&self) -> usize {
        self.problems.len() + self.others.len() + self.uncounted
    }

    #[cold]
    pub(super) fn add(&mut self, problem: impl FnOnce() -> Problem) {
        if self.others.len() >= Self::COMPARED {
            // A million wrong items are counted, not described.
            self.uncounted += 1;
            return;
        }
        let problem = problem();
        if self.problems.iter().chain(&self.others).any(|known| same(known, &problem)) {
            return;
        }
        if self.problems.len() < Self::SHOWN {
            self.problems.push(problem);
        } else {
            self.others.push(problem);
        }
    }

    /// Whether a problem at `path` or inside it is known already.
    pub(super) fn concern(&self, path: &Path<'_>) -> bool {
        let path: String = path.to_string().chars().take(Path::KEPT).collect();
        let inside = |known: &Problem| {
            let rest = known.path.strip_prefix(path.as_str())?;
            (path.is_empty() || rest.is_empty() || rest.starts_with(['.', '[', '…'])).then_some(())
        };
        self.problems.iter().chain(&self.others).any(|known| inside(known).is_some())
    }

    #[cold]
    pub(super) fn duplicate(&mut self, path: &Path<'_>, key: &str) {
        self.add(|| Problem {
            path: path.key(key).text(),
            kind: ProblemKind::DuplicateKey,
            expected: "each key once".to_owned(),
            got: "the same key again".to_owned(),
            suggestion: None,
        });
    }

    pub(super) fn finish(self) -> Result<(), Rejection> {
        let more = self.others.len() + self.uncounted;
        if self.problems.is_empty() { Ok(()) } else { Err(Rejection { problems: self.problems, more }) }
    }
}

/// Whether two problems say the same thing. Branches that see one value word their expectations differently.
fn same(left: &Problem, right: &Problem) -> bool {
    let by_place = matches!(
        left.kind,
        ProblemKind::WrongType
            | ProblemKind::UnknownField
            | ProblemKind::MissingField
            | ProblemKind::DuplicateKey
            | ProblemKind::InexactNumber
    );
    left.path == right.path && left.kind == right.kind && (by_place || left.expected == right.expected)
}
