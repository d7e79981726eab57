//! What the workspace, the session and the effects are after each call, worked out without the runtime.

use std::collections::BTreeMap;

use crate::calls::{Call, is_file};
use crate::script::Line;

/// Something in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// A file.
    File { content: String, rights: Rights },
    /// A directory.
    Dir { rights: Rights },
    /// A symbolic link.
    Link { target: String },
}

/// What a file or directory has beside its contents.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// The permission bits, with setgid.
    pub(crate) mode: u32,
    /// The number of the group.
    pub(crate) group: u32,
    /// Extended attributes of the namespace `user`.
    pub(crate) attributes: BTreeMap<String, String>,
}

impl Rights {
    /// With this mode and group, and no attributes.
    pub(crate) fn of(mode: u32, group: u32) -> Self {
        Self { mode, group, ..Self::default() }
    }
}

/// New entries of a directory with this bit get its group.
pub(crate) const SETGID: u32 = 0o2000;

/// The user whose calls are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The group of what it makes.
    pub(crate) group: u32,
    /// Whether modes are no obstacle.
    pub(crate) is_root: bool,
}

/// What comes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It succeeds.
    Done,
    /// It fails, and nothing changes.
    Failed,
    /// It succeeds or fails: the modes of what it touches forbid it to its user, and the runtime may lift them.
    Barred,
}

/// Everything that a call may change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct World {
    /// By path.
    pub(crate) tree: BTreeMap<String, Node>,
    /// The slice of notes, in order.
    pub(crate) notes: Vec<String>,
    /// Keys whose effect is known to have happened and is recorded.
    pub(crate) charged: Vec<String>,
    /// How many calls were undone, each perhaps with what came after it.
    pub(crate) undone: usize,
    /// What a snapshot was taken of.
    mark: Option<Box<World>>,
    /// The last calls that changed something, and what was before each.
    past: Vec<Past>,
    /// On whose behalf calls are made.
    pub(crate) caller: Caller,
}

/// A call that can be undone.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Past {
    id: String,
    tree: BTreeMap<String, Node>,
    notes: Vec<String>,
    /// How many undo points there may be by now that are newer.
    newer: usize,
}

/// How many undo points are kept: few, so that there is often something to be removed.
pub(crate) const UNDO_POINTS: usize = 5;
/// How many calls are held ready to be undone.
const UNDOABLE: usize = 2;
/// Where the end of a sparse file begins.
pub(crate) const SPARSE: usize = 1 << 16;
/// The extended attribute that commands set.
pub(crate) const ATTRIBUTE: &str = "user.kit";

/// A path and all that it is in, the outermost first.
pub(crate) fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').filter_map(|(at, _)| path.get(..at)).chain([path])
}

impl World {
    /// A world that is found.
    pub(crate) fn found(
        tree: BTreeMap<String, Node>,
        notes: Vec<String>,
        charged: Vec<String>,
        undone: usize,
        caller: Caller,
    ) -> Self {
        Self { tree, notes, charged, undone, caller, ..Self::default() }
    }

    /// What comes of a call.
    pub(crate) fn outcome(&self, call: &Call) -> Outcome {
        match self.clone().run(call) {
            true if self.bars(call) => Outcome::Barred,
            true => Outcome::Done,
            false => Outcome::Failed,
        }
    }

    /// Does what the call does, if it can succeed; says whether it can.
    pub(crate) fn apply(&mut self, id: &str, call: &Call) -> bool {
        let mut next = self.clone();
        let done = next.run(call);
        if done {
            let was = std::mem::replace(self, next);
            self.remember(id, call, was);
        }
        done
    }

    /// Whether modes forbid a call what it does through the filesystem itself. Scripts give themselves the rights that they
    /// need, and what is taken back is taken back whatever the modes are.
    fn bars(&self, call: &Call) -> bool {
        match call {
            Call::Write { path, .. }
            | Call::Edit { path, .. }
            | Call::Mkdir { path }
            | Call::Nested { path, .. }
            | Call::ByHand { path, .. } => self.is_barred(path),
            Call::Delete { path } => self.is_barred(path) || self.is_barred_below(path),
            Call::Rename { from, to } => {
                self.is_barred(from) || self.is_barred_below(from) || self.is_barred(to)
            }
            Call::Command { first, .. } => first.as_ref().is_some_and(|path| self.is_barred(path)),
            Call::Charge { key } => self.is_barred(&format!("receipts/{key}")),
            Call::Fail { .. }
            | Call::Refused { .. }
            | Call::Note { .. }
            | Call::Mark
            | Call::GoBack
            | Call::Undo { .. } => false,
        }
    }

    /// Whether a mode forbids the caller to use what is at a path, or to get there.
    pub(crate) fn is_barred(&self, path: &str) -> bool {
        !self.caller.is_root && ancestors(path).any(|path| self.lifted(path).is_some())
    }

    fn is_barred_below(&self, path: &str) -> bool {
        !self.caller.is_root && self.children(path).iter().any(|path| self.lifted(path).is_some())
    }

    /// The mode with which the owner can use what is at a path, if it has another.
    pub(crate) fn lifted(&self, path: &str) -> Option<u32> {
        let (mode, needed) = match self.tree.get(path)? {
            Node::File { rights, .. } => (rights.mode, 0o600),
            Node::Dir { rights } => (rights.mode, 0o700),
            Node::Link { .. } => return None,
        };
        (mode & needed != needed).then_some(mode | needed)
    }

    /// The calls that can be undone.
    pub(crate) fn undoable(&self) -> Vec<String> {
        self.past.iter().map(|past| past.id.clone()).collect()
    }

    /// Remembers a call that was done, with what was before it.
    fn remember(&mut self, id: &str, call: &Call, was: World) {
        // Whatever is done may make an undo point, an undo too, and the oldest one goes.
        self.past.iter_mut().for_each(|past| past.newer += 1);
        self.past.retain(|past| past.newer < UNDO_POINTS);
        if matches!(call, Call::Undo { .. } | Call::Mark) {
            return;
        }
        let World { tree, notes, .. } = was;
        if !call.is_call() {
            // What is not a call of this session is in the way of an undo.
            self.past.clear();
        } else if (&tree, &notes) != (&self.tree, &self.notes) {
            self.past.push(Past { id: id.to_owned(), tree, notes, newer: 0 });
            self.past.drain(..self.past.len().saturating_sub(UNDOABLE));
        }
    }

    /// Does what a call of another session does.
    pub(crate) fn apply_anothers(&mut self, call: &Call) {
        self.run(call);
        self.past.clear();
    }

    /// The files, by path.
    pub(crate) fn files(&self) -> Vec<String> {
        self.tree.iter().filter(|(_, node)| is_file(node)).map(|(path, _)| path.clone()).collect()
    }

    /// What is in a file.
    pub(crate) fn content(&self, path: &str) -> Option<&str> {
        match self.tree.get(path) {
            Some(Node::File { content, .. }) => Some(content),
            Some(Node::Dir { .. } | Node::Link { .. }) | None => None,
        }
    }

    /// The number of the key that may be charged next.
    pub(crate) fn next_key(&self) -> usize {
        self.charged.len()
    }

    fn run(&mut self, call: &Call) -> bool {
        match call {
            Call::Write { path, content } => {
                self.note(&format!("wrote {path}"));
                self.write(path, content)
            }
            Call::Edit { path, old, new } => self.edit(path, old, new),
            Call::Delete { path } => self.tree.contains_key(path) && self.remove(path),
            Call::Rename { from, to } => match self.tree.contains_key(to) {
                // What stays where it is has been moved there.
                true => from == to,
                false => self.has_parent(to) && self.rename(from, to),
            },
            Call::Mkdir { path } => !self.tree.contains_key(path) && self.make_dirs(path),
            Call::Command { first, lines, fail } => {
                if first.as_ref().is_some_and(|path| !self.write(path, "first")) {
                    return false;
                }
                // A script goes on after a line that fails; only its end counts.
                for line in lines {
                    self.apply_line(line);
                }
                !fail
            }
            Call::Charge { key } => {
                // A key that was charged is answered from the ledger, and changes nothing.
                if !self.charged.contains(key) {
                    self.charged.push(key.clone());
                    self.note(&format!("charged {key}"));
                    return self.write(&format!("receipts/{key}"), key);
                }
                true
            }
            Call::Fail { .. } | Call::Refused { .. } => false,
            Call::Note { text } => {
                self.note(text);
                true
            }
            Call::Nested { path, kept, dropped: _ } => {
                self.note("nested");
                self.write(path, kept)
            }
            Call::ByHand { path, content } => self.write(path, content),
            Call::Mark => {
                self.mark = None;
                self.mark = Some(Box::new(self.clone()));
                true
            }
            Call::GoBack => match self.mark.take() {
                // What happened outside is not taken back.
                Some(mark) => {
                    (self.tree, self.notes) = (mark.tree, mark.notes);
                    true
                }
                None => false,
            },
            Call::Undo { call } => match self.past.iter().position(|past| past.id == *call) {
                Some(at) => {
                    if let Some(past) = self.past.drain(at..).next() {
                        (self.tree, self.notes) = (past.tree, past.notes);
                    }
                    self.undone += 1;
                    true
                }
                None => false,
            },
        }
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    /// Does what a line does, if it succeeds.
    pub(crate) fn apply_line(&mut self, line: &Line) {
        let mut next = self.clone();
        if next.line(line) {
            *self = next;
        }
    }

    fn line(&mut self, line: &Line) -> bool {
        match line {
            Line::Put { path, content } => match self.tree.get_mut(path) {
                Some(Node::File { content: there, .. }) => {
                    content.clone_into(there);
                    true
                }
                Some(Node::Dir { .. } | Node::Link { .. }) => false,
                None => self.has_parent(path) && self.put_new(path, content.clone()),
            },
            Line::Sparse { path, tail } => {
                let sparse = |content: &str| {
                    let mut bytes = content.as_bytes().to_vec();
                    bytes.resize(SPARSE, 0);
                    String::from_utf8_lossy(&bytes).into_owned() + tail
                };
                match self.tree.get_mut(path) {
                    Some(Node::File { content, .. }) => {
                        *content = sparse(content);
                        true
                    }
                    Some(Node::Dir { .. } | Node::Link { .. }) => false,
                    None => self.has_parent(path) && self.put_new(path, sparse("")),
                }
            }
            Line::Name { path, other } => match (self.tree.get(path).cloned(), self.tree.get(other)) {
                (Some(file @ Node::File { .. }), None) => self.has_parent(other) && self.put(other, file),
                _ => false,
            },
            Line::Attribute { path, value } => match self.tree.get_mut(path) {
                Some(Node::File { rights, .. }) => {
                    rights.attributes.insert(ATTRIBUTE.to_owned(), value.clone());
                    true
                }
                Some(Node::Dir { .. } | Node::Link { .. }) | None => false,
            },
            Line::Group { path, group } => match self.tree.get_mut(path) {
                Some(Node::File { rights, .. } | Node::Dir { rights }) => {
                    rights.group = *group;
                    true
                }
                Some(Node::Link { .. }) | None => false,
            },
            Line::Age { path } => self.tree.contains_key(path),
            Line::Remove { path } => self.remove(path),
            Line::Move { from, to } => match self.tree.get(to) {
                // Into the directory.
                Some(Node::Dir { .. }) => {
                    let name = from.rsplit('/').next().unwrap_or(from);
                    let inside = format!("{to}/{name}");
                    match (self.tree.get(from), self.tree.get(&inside)) {
                        (Some(Node::Dir { .. }), Some(Node::Dir { .. })) => {
                            self.children(&inside).is_empty() && inside != *from && {
                                self.tree.remove(&inside);
                                self.rename(from, &inside)
                            }
                        }
                        (Some(Node::Dir { .. }), Some(_)) | (Some(_), Some(Node::Dir { .. })) | (None, _) => {
                            false
                        }
                        (Some(_), _) => inside != *from && self.rename(from, &inside),
                    }
                }
                Some(_) => match self.tree.get(from) {
                    Some(Node::Dir { .. }) | None => false,
                    Some(_) => from != to && self.rename(from, to),
                },
                None => self.has_parent(to) && self.rename(from, to),
            },
            Line::MakeDir { path } => match self.tree.get(path) {
                Some(Node::Dir { .. }) => true,
                Some(_) => false,
                None => self.make_dirs(path),
            },
            Line::Link { path, target } => match self.tree.get(path) {
                Some(Node::Dir { .. }) => {
                    let inside = format!("{path}/{target}");
                    !self.tree.contains_key(&inside)
                        && self.put(&inside, Node::Link { target: target.clone() })
                }
                Some(_) => false,
                None => self.has_parent(path) && self.put(path, Node::Link { target: target.clone() }),
            },
            Line::Mode { path, mode } => match self.tree.get_mut(path) {
                // A mode of four digits leaves the setgid of a directory.
                Some(Node::Dir { rights }) => {
                    rights.mode = *mode | (rights.mode & SETGID);
                    true
                }
                Some(Node::File { rights, .. }) => {
                    rights.mode = *mode;
                    true
                }
                // A link leads nowhere.
                Some(Node::Link { .. }) | None => false,
            },
        }
    }

    fn write(&mut self, path: &str, content: &str) -> bool {
        match self.tree.get_mut(path) {
            Some(Node::Dir { .. } | Node::Link { .. }) => return false,
            Some(Node::File { content: there, .. }) => {
                content.clone_into(there);
                return true;
            }
            None => {}
        }
        let parent = path.rsplit_once('/').map(|(parent, _)| parent);
        parent.is_none_or(|parent| self.make_dirs(parent)) && self.put_new(path, content.to_owned())
    }

    /// A new file.
    fn put_new(&mut self, path: &str, content: String) -> bool {
        let (group, _) = self.inherited(path);
        self.put(path, Node::File { content, rights: Rights::of(0o644, group) })
    }

    /// The group of what is made at a path, and whether it is that of the directory, as directories in it pass it on.
    fn inherited(&self, path: &str) -> (u32, u32) {
        let parent = path.rsplit_once('/').and_then(|(parent, _)| self.tree.get(parent));
        match parent {
            Some(Node::Dir { rights }) if rights.mode & SETGID != 0 => (rights.group, SETGID),
            _ => (self.caller.group, 0),
        }
    }

    fn edit(&mut self, path: &str, old: &str, new: &str) -> bool {
        match self.tree.get_mut(path) {
            // What has zeros in it is no text.
            Some(Node::File { content, .. })
                if !content.contains('\0') && content.matches(old).count() == 1 =>
            {
                *content = content.replacen(old, new, 1);
                true
            }
            Some(_) | None => false,
        }
    }

    fn put(&mut self, path: &str, node: Node) -> bool {
        self.tree.insert(path.to_owned(), node);
        true
    }

    /// Makes the directory and those above it, unless something else is in the way.
    fn make_dirs(&mut self, path: &str) -> bool {
        let mut upto = String::new();
        for segment in path.split('/') {
            if !upto.is_empty() {
                upto.push('/');
            }
            upto.push_str(segment);
            match self.tree.get(&upto) {
                Some(Node::Dir { .. }) => {}
                Some(_) => return false,
                None => {
                    let (group, setgid) = self.inherited(&upto);
                    self.tree.insert(upto.clone(), Node::Dir { rights: Rights::of(0o755 | setgid, group) });
                }
            }
        }
        true
    }

    fn has_parent(&self, path: &str) -> bool {
        match path.rsplit_once('/') {
            Some((parent, _)) => matches!(self.tree.get(parent), Some(Node::Dir { .. })),
            None => true,
        }
    }

    pub(crate) fn children(&self, path: &str) -> Vec<String> {
        let below = format!("{path}/");
        self.tree.keys().filter(|key| key.starts_with(&below)).cloned().collect()
    }

    fn remove(&mut self, path: &str) -> bool {
        for child in self.children(path) {
            self.tree.remove(&child);
        }
        self.tree.remove(path);
        true
    }

    fn rename(&mut self, from: &str, to: &str) -> bool {
        if to == from || to.starts_with(&format!("{from}/")) {
            return false;
        }
        let Some(node) = self.tree.remove(from) else { return false };
        for child in self.children(from) {
            if let (Some(moved), Some(rest)) = (self.tree.remove(&child), child.strip_prefix(from)) {
                self.tree.insert(format!("{to}{rest}"), moved);
            }
        }
        self.tree.insert(to.to_owned(), node);
        true
    }
}
