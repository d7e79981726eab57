//! What the child is asked to do, and the endless stream of it: mostly sensible calls, some that must fail.

use serde::{Deserialize, Serialize};
use wink::testing::Dice;

use crate::model::{Node, World};

/// A directory that no call touches.
pub(crate) const LEFT_ALONE: &str = "alone.d";

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
    /// The places that it changes, each with all that is below; none if that cannot be said.
    pub(crate) fn places(&self) -> Option<Vec<&str>> {
        Some(match self {
            Self::Write { path, .. }
            | Self::Edit { path, .. }
            | Self::Delete { path }
            | Self::Mkdir { path }
            | Self::Nested { path, .. }
            | Self::ByHand { path, .. } => vec![path],
            Self::Rename { from, to } => vec![from, to],
            Self::Command { first, lines, .. } => {
                first.iter().map(String::as_str).chain(lines.iter().flat_map(Line::places)).collect()
            }
            Self::Charge { .. } => vec!["receipts"],
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

/// A line of a script.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// `printf %s CONTENT > PATH`, in place.
    Put { path: String, content: String },
    /// `rm -rf PATH`.
    Remove { path: String },
    /// `mv FROM TO`.
    Move { from: String, to: String },
    /// `mkdir -p PATH`.
    MakeDir { path: String },
    /// `ln -s TARGET PATH`.
    Link { path: String, target: String },
    /// `chmod MODE PATH`.
    Mode { path: String, mode: u32 },
}

impl Line {
    fn places(&self) -> Vec<&str> {
        match self {
            Self::Put { path, .. }
            | Self::Remove { path }
            | Self::MakeDir { path }
            | Self::Link { path, .. }
            | Self::Mode { path, .. } => vec![path],
            Self::Move { from, to } => vec![from, to],
        }
    }

    /// The shell's form of it. Paths and contents are of letters, digits, `/`, `.` and `-` only.
    pub(crate) fn shell(&self) -> String {
        match self {
            Self::Put { path, content } => format!("printf %s '{content}' > '{path}'"),
            Self::Remove { path } => format!("rm -rf '{path}'"),
            Self::Move { from, to } => format!("mv '{from}' '{to}'"),
            Self::MakeDir { path } => format!("mkdir -p '{path}'"),
            Self::Link { path, target } => format!("ln -s '{target}' '{path}'"),
            Self::Mode { path, mode } => format!("chmod {mode:o} '{path}'"),
        }
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
            // Transactions by hand are not calls, and so not part of a batch.
            if several && !call.is_call() {
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
        let lines = (0..1 + self.dice.below(6)).map(|_| self.line(world)).collect();
        let first = (self.dice.below(3) == 0).then(|| self.path());
        Turn { calls: vec![(format!("c{}", self.next), Call::Command { first, lines, fail: false })] }
    }

    fn add(&mut self, call: Call, world: &mut World, calls: &mut Vec<(String, Call)>) {
        self.next += 1;
        let id = format!("c{}", self.next);
        world.apply(&id, &call);
        calls.push((id, call));
    }

    fn call(&mut self, world: &World) -> Call {
        let files: Vec<String> =
            world.files().into_iter().filter(|path| !path.starts_with(LEFT_ALONE)).collect();
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
            3 => Call::Delete { path: self.any_path(world) },
            4 => Call::Rename { from: self.movable(world), to: self.path() },
            5 => Call::Mkdir { path: self.path() },
            6..=8 => {
                let lines = (0..1 + self.dice.below(4)).map(|_| self.line(world)).collect();
                let first = (self.dice.below(3) == 0).then(|| self.path());
                Call::Command { first, lines, fail: self.dice.below(3) == 0 }
            }
            // Few keys, so that some come again.
            9 | 10 => Call::Charge { key: format!("k{}", world.next_key() + self.dice.below(2)) },
            11 => Call::Fail { path: self.path(), other: self.any_path(world) },
            12 => Call::Note { text: self.content() },
            13 => Call::Refused { path: self.path(), other: self.any_path(world) },
            14 => Call::ByHand { path: self.path(), content: self.content() },
            // Those that can be, and rarely one that never was.
            15 | 16 => match self.dice.pick(&world.undoable()) {
                Some(call) => Call::Undo { call: call.clone() },
                None => Call::Undo { call: "none".to_owned() },
            },
            _ => Call::Nested { path: self.path(), kept: self.content(), dropped: self.content() },
        }
    }

    fn line(&mut self, world: &World) -> Line {
        match self.dice.below(8) {
            0..=2 => Line::Put { path: self.path(), content: self.content() },
            3 => Line::Remove { path: self.any_path(world) },
            4 => Line::Move { from: self.movable(world), to: self.path() },
            5 => Line::MakeDir { path: self.path() },
            6 => Line::Link { path: format!("{}.l", self.path()), target: "nowhere".to_owned() },
            _ => {
                let path = self.any_path(world);
                let mode = match world.tree.get(&path) {
                    // One that its owner cannot use would change what later calls can do.
                    Some(Node::Dir { .. }) => one_of(&mut self.dice, [0o700, 0o750, 0o755]),
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

/// For a world's files.
pub(crate) fn is_file(node: &Node) -> bool {
    matches!(node, Node::File { .. })
}
