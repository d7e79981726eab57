//! What the child is asked to do, and the endless stream of it: mostly sensible calls, some that must fail.

use serde::{Deserialize, Serialize};
use wink::testing::Dice;

use crate::model::{Node, Outcome, World, ancestors};
use crate::script::{Line, Place, can_be_said, lifts, name_of};

/// A directory that no call touches.
pub(crate) const LEFT_ALONE: &str = "alone.d";
/// A file that two processes write at once.
pub(crate) const RACED: &str = "raced.t";
/// A group that the ordinary user is in, beside its own.
pub(crate) const OTHER_GROUP: u32 = 61235;

/// One thing for the child to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "tool", content = "arguments", rename_all = "snake_case")]
pub(crate) enum Call {
    /// Writes a file, and notes it.
    Write { path: String, content: String },
    /// Replaces a text in a file.
    Edit { path: String, old: String, new: String },
    /// Deletes a file or a directory with all that is in it.
    Delete { path: String },
    /// Moves a file or directory.
    Rename { from: String, to: String },
    /// Makes a directory.
    Mkdir { path: String },
    /// Runs a shell script over the workspace: a few lines, each of which the model knows; and writes a file before, perhaps.
    Command { first: Option<String>, lines: Vec<Line>, fail: bool },
    /// Has an effect outside, once for each key, and leaves a receipt.
    Charge { key: String },
    /// Writes two files and a note, then fails.
    Fail { path: String, other: String },
    /// Writes and deletes, and the store refuses the commit.
    Refused { path: String, other: String },
    /// Notes something, and touches no file.
    Note { text: String },
    /// A transaction by hand with two inside it: the first is kept, the second rolled back.
    Nested { path: String, kept: String, dropped: String },
    /// Writes a file of the workspace itself, outside of any transaction: no store knows of it.
    ByHand { path: String, content: String },
    /// Takes a snapshot. The first of a turn that ends with going back to it.
    Mark,
    /// Goes back to the snapshot that this turn took.
    GoBack,
    /// Undoes an earlier call and all that came after it.
    Undo { call: String },
}

impl Call {
    /// The places that it changes; none if that cannot be said.
    pub(crate) fn places(&self) -> Option<Vec<Place<'_>>> {
        Some(match self {
            Self::Write { path, .. }
            | Self::Edit { path, .. }
            | Self::Delete { path }
            | Self::Mkdir { path }
            | Self::Nested { path, .. }
            | Self::ByHand { path, .. } => vec![Place::Below(path)],
            Self::Rename { from, to } => vec![Place::Below(from), Place::Below(to)],
            Self::Command { first, lines, .. } => {
                let first = first.iter().map(|path| Place::Below(path));
                first.chain(lines.iter().flat_map(Line::places)).collect()
            }
            Self::Charge { .. } => vec![Place::Below("receipts")],
            Self::Fail { .. } | Self::Refused { .. } | Self::Note { .. } | Self::Mark => Vec::new(),
            // What it takes back was done in the same turn.
            Self::GoBack => Vec::new(),
            Self::Undo { .. } => return None,
        })
    }

    /// Whether it is a call of a tool, which has an event, and may be part of a batch.
    pub(crate) fn is_call(&self) -> bool {
        !matches!(
            self,
            Self::Nested { .. } | Self::ByHand { .. } | Self::Mark | Self::GoBack | Self::Undo { .. }
        )
    }
}

/// Calls together, as one turn of a model: one alone, or a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Turn {
    /// Each with an id that is used once.
    pub(crate) calls: Vec<(String, Call)>,
}

impl Turn {
    /// Whether it undoes something that can be undone.
    pub(crate) fn undoes(&self) -> bool {
        matches!(self.calls.as_slice(), [(_, Call::Undo { call })] if call != "none")
    }
}

/// One of these.
fn one_of<T: Default + Copy, const N: usize>(dice: &mut Dice, all: [T; N]) -> T {
    dice.pick(&all).copied().unwrap_or_default()
}

/// Makes turns that fit the world as it is.
pub(crate) struct Generator {
    dice: Dice,
    next: u64,
}

impl Generator {
    /// The same turns for the same seed and the same worlds.
    pub(crate) fn new(seed: u64) -> Self {
        Self { dice: Dice::new(seed), next: 0 }
    }

    /// The next turn for `world`.
    pub(crate) fn turn(&mut self, world: &World) -> Turn {
        let mut calls = Vec::new();
        let mut world = world.clone();
        let (several, goes_back) = match self.dice.below(16) {
            0 | 1 => (true, false),
            2 => (true, true),
            _ => (false, false),
        };
        if goes_back {
            self.add(Call::Mark, &mut world, &mut calls);
        }
        for _ in 0..if several { 3 } else { 1 } {
            let call = self.call(&world);
            // Transactions by hand are not calls, and so not part of a batch; and what follows must be known to be there.
            if several && (!call.is_call() || world.outcome(&call) == Outcome::Barred) {
                continue;
            }
            self.add(call, &mut world, &mut calls);
        }
        if goes_back {
            self.add(Call::GoBack, &mut world, &mut calls);
        }
        match calls.is_empty() {
            true => self.turn(&world),
            false => Turn { calls },
        }
    }

    /// A turn of one command for `world`.
    pub(crate) fn command(&mut self, world: &World) -> Turn {
        self.next += 1;
        let call = self.script(world, 6, false);
        Turn { calls: vec![(format!("c{}", self.next), call)] }
    }

    /// A command of up to `most` lines, beside those that give it the rights for them and take some away in the end.
    fn script(&mut self, world: &World, most: usize, fail: bool) -> Call {
        let first = (self.dice.below(3) == 0).then(|| self.path()).filter(|path| !world.is_barred(path));
        let mut world = world.clone();
        if let Some(path) = &first {
            let content = "first".to_owned();
            world.apply("first", &Call::ByHand { path: path.clone(), content });
        }
        let mut lines = Vec::new();
        let mut opened = Vec::new();
        for _ in 0..1 + self.dice.below(most) {
            let line = match self.dice.below(4) {
                0 => self.line_in_closed(&world),
                _ => None,
            };
            let line = line.unwrap_or_else(|| self.line(&world));
            for lift in lifts(&world, &line) {
                opened.extend(closing(&world, &lift));
                world.apply_line(&lift);
                lines.push(lift);
            }
            world.apply_line(&line);
            lines.push(line);
        }
        match self.dice.below(3) {
            0 => lines.extend(self.lock(&world)),
            // As programs do that keep read-only trees.
            1 => {
                for line in opened.into_iter().rev() {
                    if closing(&world, &line).is_some() && lifts(&world, &line).is_empty() {
                        world.apply_line(&line);
                        lines.push(line);
                    }
                }
            }
            _ => {}
        }
        Call::Command { first, lines, fail }
    }

    /// Takes rights away from something, with which a script may end.
    fn lock(&mut self, world: &World) -> Option<Line> {
        let path = self.any_path(world);
        if path.starts_with("receipts") {
            // An effect whose receipt cannot be written is one that failed after it happened.
            return None;
        }
        let mode = match world.tree.get(&path)? {
            Node::Dir { .. } => one_of(&mut self.dice, [0o555, 0o500, 0o000]),
            // In the workspace itself a mode belongs to all names of a file, on an overlay to one.
            Node::File { .. } if path.ends_with(".h") => return None,
            Node::File { .. } => one_of(&mut self.dice, [0o444, 0o000]),
            Node::Link { .. } => return None,
        };
        let is_open = ancestors(&path).all(|above| above == path || world.lifted(above).is_none());
        is_open.then_some(Line::Mode { path, mode })
    }

    /// A turn of one command that leaves a file of the same contents and time.
    pub(crate) fn same_write(&mut self) -> Turn {
        self.next += 1;
        let (path, content) = (RACED.to_owned(), format!("raced-{}", self.next));
        let lines = vec![Line::Put { path: path.clone(), content }, Line::Age { path }];
        let call = Call::Command { first: None, lines, fail: false };
        Turn { calls: vec![(format!("c{}", self.next), call)] }
    }

    fn add(&mut self, call: Call, world: &mut World, calls: &mut Vec<(String, Call)>) {
        self.next += 1;
        let id = format!("c{}", self.next);
        world.apply(&id, &call);
        calls.push((id, call));
    }

    fn call(&mut self, world: &World) -> Call {
        let files: Vec<String> = world
            .files()
            .into_iter()
            .filter(|path| !path.starts_with(LEFT_ALONE) && can_be_said(path))
            .collect();
        match self.dice.below(18) {
            0 | 1 => Call::Write { path: self.path(), content: self.content() },
            2 => match self.dice.pick(&files).cloned() {
                Some(path) => {
                    let old =
                        world.content(&path).and_then(|text| text.get(..8)).unwrap_or("none").to_owned();
                    Call::Edit { path, old, new: self.content() }
                }
                None => Call::Write { path: self.path(), content: self.content() },
            },
            3 => Call::Delete { path: self.said_path(world) },
            4 => {
                let from = self.movable(world);
                let from = if can_be_said(&from) { from } else { self.path() };
                Call::Rename { from, to: self.path() }
            }
            5 => Call::Mkdir { path: self.path() },
            6..=8 => {
                let fail = self.dice.below(3) == 0;
                self.script(world, 4, fail)
            }
            // Few keys, so that some come again.
            9 | 10 => Call::Charge { key: format!("k{}", world.next_key() + self.dice.below(2)) },
            11 => Call::Fail { path: self.path(), other: self.said_path(world) },
            12 => Call::Note { text: self.content() },
            13 => Call::Refused { path: self.path(), other: self.said_path(world) },
            14 => Call::ByHand { path: self.path(), content: self.content() },
            // Those that can be, and rarely one that never was.
            15 | 16 => match self.dice.pick(&world.undoable()) {
                Some(call) => Call::Undo { call: call.clone() },
                None => Call::Undo { call: "none".to_owned() },
            },
            _ => Call::Nested { path: self.path(), kept: self.content(), dropped: self.content() },
        }
    }

    /// A change in a directory that its owner may not change, if there is one.
    fn line_in_closed(&mut self, world: &World) -> Option<Line> {
        let is_dir = |path: &&String| matches!(world.tree.get(*path), Some(Node::Dir { .. }));
        let paths = world.tree.keys().filter(|path| !path.starts_with(LEFT_ALONE));
        let closed = paths.filter(|path| world.lifted(path).is_some()).filter(is_dir);
        let dir = self.dice.pick(&closed.collect::<Vec<_>>()).copied()?;
        Some(Line::Put { path: format!("{dir}/{}.t", self.dice.below(3)), content: self.content() })
    }

    fn line(&mut self, world: &World) -> Line {
        match self.dice.below(12) {
            0..=2 => Line::Put { path: self.odd_path(), content: self.content() },
            3 => Line::Remove { path: self.any_path(world) },
            4 => Line::Move { from: self.movable(world), to: self.odd_path() },
            5 => Line::MakeDir { path: self.odd_path() },
            6 => Line::Link { path: format!("{}.l", self.odd_path()), target: "nowhere".to_owned() },
            7 => Line::Sparse { path: self.odd_path(), tail: self.content() },
            8 => {
                let names: Vec<String> = world
                    .files()
                    .into_iter()
                    .filter(|path| path.starts_with("h.d/") && path.ends_with(".h"))
                    .collect();
                match self.dice.pick(&names).cloned() {
                    Some(path) => Line::Name { path, other: format!("{}.h", self.path()) },
                    None => Line::MakeDir { path: self.path() },
                }
            }
            9 => {
                let files: Vec<String> = world.files().into_iter().filter(|path| is_alone(path)).collect();
                match self.dice.pick(&files).cloned() {
                    Some(path) => Line::Attribute { path, value: self.content() },
                    None => Line::Put { path: self.path(), content: self.content() },
                }
            }
            10 if world.caller.is_root => {
                let path = self.any_path(world);
                match world.tree.get(&path) {
                    Some(Node::Dir { .. }) => {
                        let group = one_of(&mut self.dice, [0, OTHER_GROUP]);
                        Line::Group { path, group }
                    }
                    Some(Node::File { .. }) if is_alone(&path) => Line::Group { path, group: OTHER_GROUP },
                    Some(_) | None => Line::MakeDir { path: self.path() },
                }
            }
            _ => {
                let path = self.any_path(world);
                let mode = match world.tree.get(&path) {
                    Some(Node::Dir { .. }) => one_of(&mut self.dice, [0o700, 0o750, 0o755, 0o2755]),
                    // In the workspace itself a mode belongs to all names of a file, on an overlay to one.
                    _ if path.ends_with(".h") => {
                        return Line::Put { path: self.path(), content: self.content() };
                    }
                    _ => one_of(&mut self.dice, [0o600, 0o644, 0o755]),
                };
                Line::Mode { path, mode }
            }
        }
    }

    /// A place in a small tree, so that calls meet.
    fn path(&mut self) -> String {
        let depth = 1 + self.dice.below(3);
        let segments: Vec<_> = (0..depth).map(|_| one_of(&mut self.dice, ["a", "b", "c", "d"])).collect();
        format!("{}.{}", segments.join("/"), if self.dice.below(3) == 0 { "d" } else { "t" })
    }

    /// A place that may have a name which only commands can say, or which programs take for something else.
    fn odd_path(&mut self) -> String {
        let path = self.path();
        match self.dice.below(12) {
            0 => format!("-{path}"),
            1 => format!("new\nline-{path}"),
            2 => format!("{}{path}", name_of(b"\xff\xfe")),
            3 => format!("{}-{path}", "long".repeat(50)),
            4 => format!("it's \"odd\" $HOME *-{path}"),
            _ => path,
        }
    }

    /// A place where something is that a tool can be told of.
    fn said_path(&mut self, world: &World) -> String {
        let path = self.any_path(world);
        if can_be_said(&path) { path } else { self.path() }
    }

    /// A place where something is, if there is something.
    fn any_path(&mut self, world: &World) -> String {
        let all: Vec<&String> = world.tree.keys().filter(|path| !path.starts_with(LEFT_ALONE)).collect();
        match self.dice.pick(&all) {
            Some(path) => (*path).clone(),
            None => self.path(),
        }
    }

    /// A place where something other than a link is: links keep their names, by which they are told from files; and so do
    /// files that have several names.
    fn movable(&mut self, world: &World) -> String {
        let path = self.any_path(world);
        if path.ends_with(".l") || path.ends_with(".h") { self.path() } else { path }
    }

    fn content(&mut self) -> String {
        let parts = 1 + self.dice.below(6);
        (0..parts).map(|_| format!("{:08x}-", self.dice.any() as u32)).collect()
    }
}

/// What closes again what this line is about to open.
fn closing(world: &World, lift: &Line) -> Option<Line> {
    let Line::Mode { path, .. } = lift else { return None };
    // In the workspace itself a mode belongs to all names of a file, on an overlay to one.
    if path.ends_with(".h") {
        return None;
    }
    let mode = match world.tree.get(path)? {
        Node::File { rights, .. } | Node::Dir { rights } => rights.mode,
        Node::Link { .. } => return None,
    };
    Some(Line::Mode { path: path.clone(), mode })
}

/// Whether a file has one name only.
fn is_alone(path: &str) -> bool {
    !path.ends_with(".h") && !path.starts_with(LEFT_ALONE)
}

/// For a world's files.
pub(crate) fn is_file(node: &Node) -> bool {
    matches!(node, Node::File { .. })
}
