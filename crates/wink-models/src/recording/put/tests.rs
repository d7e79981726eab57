//! Changes that are put in place, and taken back.

use std::collections::BTreeMap;

use super::super::images::{FilesChanged, digest};
use super::*;
use wink::filesystem::FsLimits;
use wink::session::InvocationId;

fn path(text: &str) -> FsPath {
    FsPath::parse(text, &FsLimits::default()).unwrap()
}

fn file(text: &str, mode: u32) -> Option<FileImage> {
    let content = Some(Content::Bytes(text.as_bytes().to_vec()));
    Some(FileImage { kind: EntryKind::File, mode, digest: Some(digest(text.as_bytes())), len: None, content })
}

fn link(target: &str) -> Option<FileImage> {
    file(target, 0o777).map(|image| FileImage { kind: EntryKind::Symlink, ..image })
}

fn directory() -> Option<FileImage> {
    Some(FileImage { kind: EntryKind::Directory, mode: 0o755, digest: None, len: None, content: None })
}

fn change(at: &str, before: Option<FileImage>, after: Option<FileImage>) -> FileChange {
    FileChange { path: path(at), from: None, before, after }
}

fn moved(from: &str, to: &str, what: &Option<FileImage>) -> FileChange {
    FileChange { path: path(to), from: Some(path(from)), before: what.clone(), after: what.clone() }
}

/// All that is in a directory: modes, and contents or targets.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, String)> {
    let mut found = BTreeMap::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let at = entry.unwrap().path();
            let about = at.symlink_metadata().unwrap();
            let inside = match () {
                () if about.is_symlink() => fs::read_link(&at).unwrap().display().to_string(),
                () if about.is_dir() => {
                    left.push(at.clone());
                    String::new()
                }
                () => fs::read_to_string(&at).unwrap(),
            };
            let mode = about.permissions().mode() & 0o777;
            found.insert(at.strip_prefix(root).unwrap().to_owned(), (mode, inside));
        }
    }
    found
}

#[test]
fn what_was_put_is_taken_back() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let start = [
        change("a", None, file("one", 0o644)),
        change("d", None, directory()),
        change("d/x", None, file("x", 0o600)),
        change("d/y", None, file("y", 0o644)),
        change("l", None, link("a")),
        change("old", None, file("old", 0o644)),
    ];
    assert_eq!(put(root, &start).unwrap(), Put::Whole);
    let before = tree(root);
    let names: Vec<&str> = before.keys().filter_map(|path| path.to_str()).collect();
    assert_eq!(names, ["a", "d", "d/x", "d/y", "l", "old"]);
    let changes = vec![
        // Another file takes the place of one, which goes.
        change("a", file("one", 0o644), None),
        moved("old", "a", &file("old", 0o644)),
        // A directory goes elsewhere, and something in it changes there.
        moved("d", "e", &directory()),
        FileChange { from: Some(path("d/x")), ..change("e/x", file("x", 0o600), file("other", 0o600)) },
        change("d", None, directory()),
        change("d/new", None, file("new", 0o755)),
        // Kinds change.
        change("l", link("a"), directory()),
        change("l/in", None, link("nowhere")),
    ];
    assert_eq!(put(root, &changes).unwrap(), Put::Whole);
    let text = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    assert_eq!(
        (text("a"), text("e/x"), text("e/y"), text("d/new")),
        ("old".into(), "other".into(), "y".into(), "new".into())
    );
    let call = InvocationId::parse("00000000-0000-7000-8000-000000000000").unwrap();
    let changed = FilesChanged { call, changes, forgotten: false };
    assert!(changed.can_be_taken_back());
    assert_eq!(put(root, &changed.taken_back()).unwrap(), Put::Whole);
    assert_eq!(tree(root), before);
}

#[test]
fn nothing_is_put_outside_or_into_the_state() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(outside.path(), dir.path().join("out")).unwrap();
    fs::create_dir(dir.path().join(STATE)).unwrap();
    let state = format!("{STATE}/file");
    for name in ["out/file", &state] {
        assert_eq!(put(dir.path(), &[change(name, None, file("text", 0o644))]).unwrap(), Put::Partly);
    }
    // Not through a link that it makes itself, either.
    let changes = [
        change("l", None, link(outside.path().to_str().unwrap())),
        change("l/file", None, file("text", 0o644)),
    ];
    assert_eq!(put(dir.path(), &changes).unwrap(), Put::Partly);
    assert_eq!(tree(outside.path()), BTreeMap::new());
    assert_eq!(tree(&dir.path().join(STATE)), BTreeMap::new());
}

#[test]
fn what_somebody_else_put_there_stays() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("d/theirs")).unwrap();
    assert_eq!(put(dir.path(), &[change("d", directory(), file("text", 0o644))]).unwrap(), Put::Partly);
    assert_eq!(put(dir.path(), &[change("d", directory(), None)]).unwrap(), Put::Whole);
    assert!(dir.path().join("d/theirs").is_dir());
}
