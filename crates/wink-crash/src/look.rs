//! Reading a tree with nothing but the standard library: it shares no code with what it judges.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::model::Node;

/// Everything below `root` but the runtime's own directory.
pub(crate) fn tree(root: &Path) -> std::io::Result<BTreeMap<String, Node>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir)? {
            let entry = entry?;
            let path = entry.path();
            let Ok(relative) = path.strip_prefix(root) else { continue };
            if relative == Path::new(".wink") {
                continue;
            }
            let meta = std::fs::symlink_metadata(&path)?;
            let node = if meta.is_dir() {
                dirs.push(path.clone());
                Node::Dir
            } else if meta.is_symlink() {
                Node::Link { target: std::fs::read_link(&path)?.to_string_lossy().into_owned() }
            } else {
                let content = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
                Node::File { content, mode: meta.permissions().mode() & 0o7777 }
            };
            found.insert(relative.to_string_lossy().into_owned(), node);
        }
    }
    Ok(found)
}

/// What one tree has and another has not, in a few lines.
pub(crate) fn difference(expected: &BTreeMap<String, Node>, found: &BTreeMap<String, Node>) -> String {
    let mut lines = Vec::new();
    for path in expected.keys().chain(found.keys().filter(|path| !expected.contains_key(*path))) {
        match (expected.get(path), found.get(path)) {
            (Some(expected), Some(found)) if expected == found => {}
            (expected, found) => {
                lines.push(format!("{path}: expected {}, found {}", shown(expected), shown(found)))
            }
        }
    }
    lines.truncate(5);
    lines.join("; ")
}

fn shown(node: Option<&Node>) -> String {
    match node {
        None => "nothing".to_owned(),
        Some(Node::Dir) => "a directory".to_owned(),
        Some(Node::Link { target }) => format!("a link to {target}"),
        Some(Node::File { content, mode }) => {
            format!("a file of {} bytes, {mode:o}, {}…", content.len(), content.get(..8).unwrap_or(content))
        }
    }
}
