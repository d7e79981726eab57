//! The lines of scripts that commands run: what the shell is told, and which places a line changes.

use serde::{Deserialize, Serialize};

use crate::model::{SPARSE, World, ancestors};

/// What a call changes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// This alone, and nothing that is in it.
    Only(&'a str),
    /// This, and all that is in it.
    Below(&'a str),
}

impl Place<'_> {
    /// Whether it has this path.
    pub(crate) fn has(self, path: &str) -> bool {
        match self {
            Self::Only(place) => path == place,
            Self::Below(place) => {
                path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        }
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
    /// `truncate -s SPARSE PATH`, and a text behind what that leaves out.
    Sparse { path: String, tail: String },
    /// `ln PATH OTHER`: another name of a file.
    Name { path: String, other: String },
    /// Gives a file an extended attribute.
    Attribute { path: String, value: String },
    /// `chgrp GROUP PATH`.
    Group { path: String, group: u32 },
    /// Sets the time of the last change to one long past.
    Age { path: String },
}

impl Line {
    pub(crate) fn places(&self) -> Vec<Place<'_>> {
        match self {
            Self::Put { path, .. }
            | Self::Remove { path }
            | Self::MakeDir { path }
            | Self::Link { path, .. }
            | Self::Sparse { path, .. } => vec![Place::Below(path)],
            Self::Mode { path, .. }
            | Self::Attribute { path, .. }
            | Self::Group { path, .. }
            | Self::Age { path } => vec![Place::Only(path)],
            Self::Move { from, to } => vec![Place::Below(from), Place::Below(to)],
            Self::Name { path, other } => vec![Place::Only(path), Place::Only(other)],
        }
    }

    /// The shell's form of it. Contents are of letters, digits and `-` only. `kit` is the kit's own program.
    pub(crate) fn shell(&self, kit: &str) -> String {
        match self {
            Self::Put { path, content } => format!("printf %s '{content}' > {}", quoted(path)),
            Self::Remove { path } => format!("rm -rf {}", quoted(path)),
            Self::Move { from, to } => format!("mv {} {}", quoted(from), quoted(to)),
            Self::MakeDir { path } => format!("mkdir -p {}", quoted(path)),
            Self::Link { path, target } => format!("ln -s '{target}' {}", quoted(path)),
            Self::Mode { path, mode } => format!("chmod {mode:o} {}", quoted(path)),
            Self::Sparse { path, tail } => {
                let path = quoted(path);
                format!("truncate -s {SPARSE} {path} && printf %s '{tail}' >> {path}")
            }
            Self::Name { path, other } => format!("ln {} {}", quoted(path), quoted(other)),
            Self::Attribute { path, value } => format!("'{kit}' mark {} '{value}'", quoted(path)),
            Self::Group { path, group } => format!("chgrp {group} {}", quoted(path)),
            Self::Age { path } => format!("touch -c -d @1000000000 {}", quoted(path)),
        }
    }
}

/// Stands for a byte that is no part of a text in the name of a file: the byte is added to it.
const RAW_BYTE: u32 = 0xf700;

/// The text by which the model knows a name.
pub(crate) fn name_of(bytes: &[u8]) -> String {
    let mut name = String::new();
    for chunk in bytes.utf8_chunks() {
        name.push_str(chunk.valid());
        let raw = chunk.invalid().iter().map(|byte| RAW_BYTE + u32::from(*byte));
        name.extend(raw.filter_map(char::from_u32));
    }
    name
}

/// The bytes of a name that the model knows by this text.
pub(crate) fn bytes_of(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for letter in name.chars() {
        match u32::from(letter).checked_sub(RAW_BYTE).and_then(|byte| u8::try_from(byte).ok()) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

/// A path, quoted for the shell.
fn quoted(path: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._".contains(letter);
    if path.chars().all(is_plain) {
        return format!("'{path}'");
    }
    let octal: String = bytes_of(path).iter().map(|byte| format!("\\{byte:03o}")).collect();
    format!("\"$(printf './{octal}')\"")
}

/// The lines that give the owner of everything the rights that a line needs: to get where it works, and to use what it finds there.
pub(crate) fn lifts(world: &World, line: &Line) -> Vec<Line> {
    let mut paths: Vec<&str> = Vec::new();
    let mut below: Vec<String> = Vec::new();
    match line {
        Line::Put { path, .. }
        | Line::MakeDir { path }
        | Line::Link { path, .. }
        | Line::Sparse { path, .. }
        | Line::Age { path }
        | Line::Attribute { path, .. } => paths.extend(ancestors(path)),
        Line::Mode { path, .. } | Line::Group { path, .. } => {
            paths.extend(ancestors(path).filter(|above| above != path));
        }
        Line::Name { path, other } => paths.extend(ancestors(path).chain(ancestors(other))),
        Line::Remove { path } => {
            paths.extend(ancestors(path));
            below.extend(world.children(path));
        }
        Line::Move { from, to } => {
            paths.extend(ancestors(from).chain(ancestors(to)));
            below.extend(world.children(from));
            // What is in a directory of that name is replaced, or in the way.
            below.extend(world.children(to));
        }
    }
    let mut lines: Vec<Line> = Vec::new();
    for path in paths.into_iter().chain(below.iter().map(String::as_str)) {
        if let Some(mode) = world.lifted(path)
            && !lines.iter().any(|line| matches!(line, Line::Mode { path: lifted, .. } if lifted == path))
        {
            lines.push(Line::Mode { path: path.to_owned(), mode });
        }
    }
    lines
}

/// Whether a tool can be told of a path: it is text, and no part of it is longer than a tool may name.
pub(crate) fn can_be_said(path: &str) -> bool {
    let is_raw = |letter: char| (RAW_BYTE..RAW_BYTE + 256).contains(&u32::from(letter));
    !path.chars().any(is_raw) && path.split('/').all(|segment| segment.chars().count() <= 80)
}
