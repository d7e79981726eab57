use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Index, Protected, Tree};
use crate::filesystem::EntryKind;
use crate::filesystem::host::disk::{Disk, Entry, Meta};
use crate::filesystem::host::host_disk::HostDisk;

fn entry(ino: u64) -> Entry {
    let meta = Meta { mode: 0o644, modified: i128::from(ino) << 65, owner: None };
    Entry { kind: EntryKind::File, dev: 1, ino, links: 1, len: 3, meta, changed: -5 }
}

#[test]
fn what_is_saved_is_read_back_and_half_a_line_is_nothing() {
    use std::os::unix::ffi::OsStringExt;
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(HostDisk::open(dir.path()).unwrap());
    let at = Path::new("index");
    let odd = PathBuf::from(std::ffi::OsString::from_vec(b"a\n\xff\\\"/b".to_vec()));
    let mut index = Index::default();
    let one = Tree::from([(odd.clone(), entry(1)), (PathBuf::from("b"), entry(2))]);
    index.save(&disk, at, one.clone(), Protected::new()).unwrap();
    assert_eq!(*Index::load(&disk, at).unwrap().tree, one);
    let whole = disk.read(at).unwrap().len();

    // Another line at the end, which counts, and one that was not finished, which does not.
    let two = Tree::from([(odd.clone(), entry(3))]);
    index.save(&disk, at, two.clone(), Protected::new()).unwrap();
    assert!(disk.read(at).unwrap().len() > whole);
    assert_eq!(*Index::load(&disk, at).unwrap().tree, two);
    assert!(index.is_current(&disk, at).unwrap());
    let text = disk.read(at).unwrap();
    std::fs::write(dir.path().join("index"), &text[..text.len() - 2]).unwrap();
    assert!(!index.is_current(&disk, at).unwrap());
    let mut torn = Index::load(&disk, at).unwrap();
    assert!(!torn.is_current(&disk, at).unwrap());
    torn.save(&disk, at, two.clone(), Protected::new()).unwrap();
    assert_eq!(*Index::load(&disk, at).unwrap().tree, two);

    // What has changed often is written anew.
    for number in 0..500 {
        index = Index::load(&disk, at).unwrap();
        index.save(&disk, at, Tree::from([(odd.clone(), entry(number))]), Protected::new()).unwrap();
    }
    assert!(disk.read(at).unwrap().split(|byte| *byte == b'\n').count() < 110);
}

#[test]
fn what_is_forgotten_is_told_to_whoever_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let disk = HostDisk::open(dir.path()).unwrap();
    let at = Path::new("index");
    let path = |name: &str| PathBuf::from(name);
    let mut index = Index::default();
    // The first time nothing is known, and whatever there is may be anything.
    index.forget(&disk, at, &[path(""), path("a"), path("b")]).unwrap();
    assert_eq!(Index::load(&disk, at).unwrap().take_unsure(), [path("")].into());
    let tree = Tree::from([(path(""), entry(1)), (path("a"), entry(2)), (path("b"), entry(3))]);
    index.save(&disk, at, tree.clone(), Protected::new()).unwrap();
    let mut read = Index::load(&disk, at).unwrap();
    assert_eq!((read.take_unsure(), &*read.tree), (Default::default(), &tree));
    index.forget(&disk, at, &[path("b"), path("new")]).unwrap();
    let mut read = Index::load(&disk, at).unwrap();
    assert_eq!(read.take_unsure(), [path("b"), path("new")].into());
    assert_eq!(*read.tree, Tree::from([(path(""), entry(1)), (path("a"), entry(2))]));
    assert_eq!(read.tree, index.tree);
}
