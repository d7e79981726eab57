//! What calls come to when they are run one after the other, in plain collections. Nothing of the runtime is in here.

use std::collections::{BTreeMap, BTreeSet};

use super::program::{End, Op, Program, SLICES, Verb};

/// A call, as a response has it.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) id: String,
    pub(crate) tool: &'static str,
    /// None for arguments that are no JSON.
    pub(crate) program: Option<Program>,
}

/// What is seen of a call afterwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) text: String,
    pub(crate) ending: &'static str,
}

/// Everything that calls can change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) slices: [Vec<i64>; SLICES.len()],
    /// None for a directory.
    pub(crate) files: BTreeMap<String, Option<String>>,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) state: State,
    /// LOG: whatever becomes of the call.
    pub(crate) trail: Vec<i64>,
    /// The world outside.
    pub(crate) outside: Vec<i64>,
    pub(crate) log: Vec<Seen>,
    successes: BTreeMap<&'static str, u64>,
    /// Calls of the remembering tool that its policy was told of.
    remembered: u64,
    effects: BTreeMap<(&'static str, Program), String>,
}

/// How a handler ended.
enum Ended {
    Well(String),
    Badly(&'static str, String),
    Escalated(String),
}

impl Model {
    pub(crate) fn batch(&mut self, calls: &[Made]) -> Vec<Seen> {
        let mut ids = BTreeSet::new();
        let mut ended_by = None;
        let mut answers = Vec::new();
        for call in calls {
            let (text, ending) = match ended_by {
                Some(by) => (format!("not run: {by} ended the turn before it"), "NotRun"),
                None if !ids.insert(call.id.as_str()) => {
                    let text = "was used twice in one response; only the first call was run";
                    (format!("call id '{}' {text}", call.id), "Rejected")
                }
                None => self.call(call),
            };
            if ending == "Escalated" {
                ended_by = Some(call.tool);
            }
            let seen = Seen { id: call.id.clone(), tool: call.tool.to_owned(), text, ending };
            self.log.push(seen.clone());
            answers.push(seen);
        }
        answers
    }

    fn call(&mut self, call: &Made) -> (String, &'static str) {
        if call.tool == "publish" {
            let text = "Unknown tool 'publish'. Did you mean 'publishing'?";
            return (text.to_owned(), "Unavailable");
        }
        let Some(program) = &call.program else { return (super::BROKEN.to_owned(), "Rejected") };
        if let Some(reason) = self.denied(call.tool) {
            return (reason.to_owned(), "Denied");
        }
        let once = call.tool.starts_with("once");
        let effect = (call.tool, program.clone());
        if once && let Some(text) = self.effects.get(&effect).cloned() {
            self.succeeded(call.tool);
            return (text, "Succeeded");
        }
        let before = self.state.clone();
        match self.run(call.tool, program) {
            Ended::Well(text) => {
                if call.tool == "publishing" {
                    self.state.slices[2].push(program.ops.len() as i64);
                }
                if once {
                    self.effects.insert(effect, text.clone());
                }
                self.succeeded(call.tool);
                (text, "Succeeded")
            }
            Ended::Badly(ending, text) => {
                self.state = before;
                (text, ending)
            }
            Ended::Escalated(text) => {
                self.state = before;
                (text, "Escalated")
            }
        }
    }

    fn succeeded(&mut self, tool: &'static str) {
        *self.successes.entry(tool).or_default() += 1;
        if tool == "remembering" {
            self.remembered += 1;
        }
    }

    fn count(&self, tool: &str) -> u64 {
        self.successes.get(tool).copied().unwrap_or_default()
    }

    fn denied(&self, tool: &str) -> Option<&'static str> {
        match tool {
            "guarded" if self.count("declared") % 2 == 1 => Some("an odd number of declared calls"),
            "watched" if self.state.slices[0].len() % 2 == 1 => Some("an odd number of red things"),
            "remembering" if self.remembered % 3 == 2 => Some("two were enough for now"),
            _ => None,
        }
    }

    fn run(&mut self, tool: &str, program: &Program) -> Ended {
        let mut said = Vec::new();
        let ops = if tool == "idle" { &[][..] } else { &program.ops };
        for op in ops {
            if tool == "lying"
                && let Some((what, access)) = op.undeclared()
            {
                let text = format!("{what} is outside the footprint that this tool declares ({access})");
                return Ended::Badly("Errored", text);
            }
            said.extend(self.step(op));
        }
        match program.end {
            End::Well => Ended::Well(said.join(";")),
            End::Error => Ended::Badly("Errored", "it failed".to_owned()),
            End::Refuse => Ended::Badly("Failed", "it refused".to_owned()),
            End::Escalate => Ended::Escalated(format!("{tool} was stopped: enough; nothing was changed")),
        }
    }

    fn step(&mut self, op: &Op) -> Option<String> {
        let slice = op.on % SLICES.len();
        match op.verb {
            Verb::Look => Some(format!("{}={:?}", SLICES[slice], self.state.slices[slice])),
            Verb::Push => {
                self.state.slices[slice].push(op.value);
                None
            }
            Verb::Clear => {
                self.state.slices[slice].clear();
                None
            }
            Verb::Read => {
                let text = match self.state.files.get(op.path()) {
                    None => "nothing",
                    Some(None) => "refused",
                    Some(Some(text)) => text,
                };
                Some(format!("{}={text}", op.path()))
            }
            Verb::Write => {
                let written = self.state.write(op.path(), op.value);
                refused(written)
            }
            Verb::Delete => {
                let deleted = self.state.delete(op.path());
                refused(deleted)
            }
            Verb::DeleteAll => {
                let there = self.state.files.contains_key(op.path());
                self.state.files.retain(|path, _| !within(path, op.path()));
                refused(there)
            }
            Verb::Mkdir => {
                let made = self.state.mkdir(op.path());
                refused(made)
            }
            Verb::Rename => {
                let moved = self.state.rename(op.path(), op.target());
                refused(moved)
            }
            Verb::Trail => {
                self.trail.push(op.value);
                None
            }
            Verb::Outside => {
                self.outside.push(op.value);
                None
            }
            Verb::History => Some(format!("declared={}", self.count("declared"))),
            Verb::Log => Some(format!("log={}", self.log.len())),
        }
    }
}

fn refused(done: bool) -> Option<String> {
    (!done).then(|| "refused".to_owned())
}

/// Whether `path` is `base` or below it.
fn within(path: &str, base: &str) -> bool {
    path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The directories that a path is in, outermost first.
fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(end, _)| &path[..end])
}

/// Every operation works or changes nothing; true when it worked.
impl State {
    fn write(&mut self, path: &str, value: i64) -> bool {
        let blocked = parents(path).any(|dir| matches!(self.files.get(dir), Some(Some(_))));
        if blocked || matches!(self.files.get(path), Some(None)) {
            return false;
        }
        for dir in parents(path) {
            self.files.insert(dir.to_owned(), None);
        }
        self.files.insert(path.to_owned(), Some(value.to_string()));
        true
    }

    fn delete(&mut self, path: &str) -> bool {
        let full = self.files.keys().any(|other| other != path && within(other, path));
        if !full {
            self.files.remove(path);
        }
        !full
    }

    fn mkdir(&mut self, path: &str) -> bool {
        let free = self.is_free(path);
        if free {
            self.files.insert(path.to_owned(), None);
        }
        free
    }

    fn rename(&mut self, from: &str, to: &str) -> bool {
        if !self.files.contains_key(from) || within(to, from) || !self.is_free(to) {
            return false;
        }
        let moved: Vec<_> = self.files.extract_if(.., |path, _| within(path, from)).collect();
        self.files.extend(moved.into_iter().map(|(path, node)| (path.replacen(from, to, 1), node)));
        true
    }

    /// Whether there is nothing at a path, and a directory for it.
    fn is_free(&self, path: &str) -> bool {
        let has_parent = parents(path).all(|dir| matches!(self.files.get(dir), Some(None)));
        has_parent && !self.files.contains_key(path)
    }
}
