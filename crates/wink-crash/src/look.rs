//! Reading a tree with nothing but the standard library: it shares no code with what it judges.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::model::{Node, Rights};
use crate::script::name_of;

/// Everything below a root.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// What the model knows.
    pub(crate) tree: BTreeMap<String, Node>,
    /// What it does not, of files: it must stay as it is where nobody changes something.
    pub(crate) traces: Traces,
}

/// By path.
pub(crate) type Traces = BTreeMap<String, Trace>;

/// What is left of how a file came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trace {
    /// Seconds and nanoseconds.
    modified: (i64, i64),
    inode: (u64, u64),
}

/// Everything below `root` but the runtime's own directory. What its owner may not read is made readable meanwhile, unless
/// that is no obstacle.
pub(crate) fn look(root: &Path) -> std::io::Result<Seen> {
    let mut locked = Vec::new();
    let seen = walk(root, &mut locked);
    // What is in a directory before the directory.
    for (path, permissions) in locked.into_iter().rev() {
        std::fs::set_permissions(path, permissions)?;
    }
    seen
}

fn walk(root: &Path, locked: &mut Vec<(PathBuf, Permissions)>) -> std::io::Result<Seen> {
    let mut found = Seen::default();
    let is_root = rustix::process::geteuid().is_root();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir)? {
            let path = entry?.path();
            let Ok(relative) = path.strip_prefix(root) else { continue };
            if relative == Path::new(".wink") {
                continue;
            }
            let name = name_of(relative.as_os_str().as_bytes());
            let meta = std::fs::symlink_metadata(&path)?;
            let mode = meta.permissions().mode() & 0o7777;
            let needed = if meta.is_dir() { 0o700 } else { 0o400 };
            if !is_root && !meta.is_symlink() && mode & needed != needed {
                std::fs::set_permissions(&path, Permissions::from_mode(mode | needed))?;
                locked.push((path.clone(), meta.permissions()));
            }
            let attributes = if meta.is_symlink() { BTreeMap::new() } else { attributes(&path)? };
            let rights = Rights { mode, group: meta.gid(), attributes };
            let node = if meta.is_dir() {
                dirs.push(path);
                Node::Dir { rights }
            } else if meta.is_symlink() {
                Node::Link { target: std::fs::read_link(&path)?.to_string_lossy().into_owned() }
            } else {
                let modified = (meta.mtime(), meta.mtime_nsec());
                found.traces.insert(name.clone(), Trace { modified, inode: (meta.dev(), meta.ino()) });
                let content = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
                Node::File { content, rights }
            };
            found.tree.insert(name, node);
        }
    }
    Ok(found)
}

/// The extended attributes of the namespace `user`.
fn attributes(path: &Path) -> std::io::Result<BTreeMap<String, String>> {
    let mut names = [0; 4096];
    let length = match rustix::fs::llistxattr(path, &mut names) {
        Err(rustix::io::Errno::NOTSUP) => return Ok(BTreeMap::new()),
        length => length?,
    };
    let mut attributes = BTreeMap::new();
    for name in names.get(..length).unwrap_or_default().split(|byte| *byte == 0) {
        let name = String::from_utf8_lossy(name).into_owned();
        // What overlayfs notes for itself stays on files that a command changed.
        if name.starts_with("user.") && !name.starts_with("user.overlay.") {
            let mut value = [0; 4096];
            let length = rustix::fs::lgetxattr(path, &*name, &mut value)?;
            let value = value.get(..length).unwrap_or_default();
            attributes.insert(name, String::from_utf8_lossy(value).into_owned());
        }
    }
    Ok(attributes)
}

/// What became of files that nobody changed, in a few lines: their times, and which of them are one file by several names.
pub(crate) fn disturbed(before: &Traces, after: &Traces, changed: impl Fn(&str) -> bool) -> Vec<String> {
    let stayed: Vec<(&String, Trace, Trace)> = before
        .iter()
        .filter(|(path, _)| !changed(path))
        .filter_map(|(path, before)| Some((path, *before, *after.get(path)?)))
        .collect();
    let groups = |inode: fn(&(&String, Trace, Trace)) -> (u64, u64)| {
        let mut groups: BTreeMap<(u64, u64), BTreeSet<String>> = BTreeMap::new();
        for file in &stayed {
            groups.entry(inode(file)).or_default().insert(file.0.clone());
        }
        groups.into_values().collect::<BTreeSet<_>>()
    };
    let mut lines: Vec<String> = stayed
        .iter()
        .filter(|(_, before, after)| before.modified != after.modified)
        .map(|(path, before, after)| {
            format!("{path} was modified at {:?}, and now {:?}", before.modified, after.modified)
        })
        .collect();
    let (was, is) = (groups(|(_, before, _)| before.inode), groups(|(_, _, after)| after.inode));
    lines.extend(was.difference(&is).map(|names| format!("{names:?} were the names of one file")));
    lines.truncate(5);
    lines
}

/// What one tree has and another has not, in a few lines.
pub(crate) fn difference(expected: &BTreeMap<String, Node>, found: &BTreeMap<String, Node>) -> String {
    let mut lines = Vec::new();
    for path in expected.keys().chain(found.keys().filter(|path| !expected.contains_key(*path))) {
        match (expected.get(path), found.get(path)) {
            (Some(expected), Some(found)) if expected == found => {}
            (expected, found) => {
                lines.push(format!("{path:?}: expected {}, found {}", shown(expected), shown(found)))
            }
        }
    }
    lines.truncate(5);
    lines.join("; ")
}

fn shown(node: Option<&Node>) -> String {
    let of = |Rights { mode, group, attributes }: &Rights| match attributes.is_empty() {
        true => format!("{mode:o}, group {group}"),
        false => format!("{mode:o}, group {group}, {attributes:?}"),
    };
    match node {
        None => "nothing".to_owned(),
        Some(Node::Dir { rights }) => format!("a directory, {}", of(rights)),
        Some(Node::Link { target }) => format!("a link to {target}"),
        Some(Node::File { content, rights }) => {
            let begin = content.get(..8).unwrap_or(content);
            format!("a file of {} bytes, {}, {begin:?}…", content.len(), of(rights))
        }
    }
}

#[cfg(test)]
mod tests;
