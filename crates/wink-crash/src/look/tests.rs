use super::*;

/// A directory that is gone afterwards.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wink-crash-look-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_locked_is_read_and_stays_locked() {
    let Dir(root) = &Dir::new("locked");
    std::fs::create_dir_all(root.join("d/e")).unwrap();
    std::fs::write(root.join("d/e/f"), "text").unwrap();
    let modes = [("d/e/f", 0o200), ("d/e", 0o000), ("d", 0o600)];
    for (path, mode) in modes {
        std::fs::set_permissions(root.join(path), Permissions::from_mode(mode)).unwrap();
    }
    let group = rustix::process::getegid().as_raw();
    let rights = |mode| Rights::of(mode, group);
    let expected = BTreeMap::from([
        ("d".to_owned(), Node::Dir { rights: rights(0o600) }),
        ("d/e".to_owned(), Node::Dir { rights: rights(0o000) }),
        ("d/e/f".to_owned(), Node::File { content: "text".to_owned(), rights: rights(0o200) }),
    ]);
    // Twice the same: the first look has left everything as it was.
    assert_eq!(look(root).unwrap().tree, expected);
    assert_eq!(look(root).unwrap().tree, expected);
    for dir in ["d", "d/e"] {
        std::fs::set_permissions(root.join(dir), Permissions::from_mode(0o700)).unwrap();
    }
}

#[test]
fn times_and_second_names_are_seen() {
    let Dir(root) = &Dir::new("traces");
    std::fs::write(root.join("a"), "text").unwrap();
    std::fs::hard_link(root.join("a"), root.join("b")).unwrap();
    std::fs::write(root.join("c"), "text").unwrap();
    let before = look(root).unwrap().traces;
    assert_eq!(disturbed(&before, &before, |_| false), Vec::<String>::new());

    std::fs::remove_file(root.join("b")).unwrap();
    std::fs::write(root.join("b"), "text").unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(7);
    for path in ["b", "c"] {
        std::fs::File::options().write(true).open(root.join(path)).unwrap().set_modified(time).unwrap();
    }
    let after = look(root).unwrap().traces;
    let found = disturbed(&before, &after, |path| path == "c");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("b was modified at "), "{found:?}");
    assert_eq!(found[1], r#"{"a", "b"} were the names of one file"#);
    assert_eq!(disturbed(&before, &after, |path| path != "a"), Vec::<String>::new());
}

#[test]
fn odd_names_and_attributes_are_seen() {
    let Dir(root) = &Dir::new("odd");
    let odd = name_of(b"not \xff text\n-");
    let path = root.join(std::ffi::OsStr::from_bytes(&crate::script::bytes_of(&odd)));
    std::fs::write(&path, "text").unwrap();
    rustix::fs::lsetxattr(&path, "user.kit", b"value", rustix::fs::XattrFlags::empty()).unwrap();
    let seen = look(root).unwrap().tree;
    let Some(Node::File { rights, .. }) = seen.get(&odd) else { panic!("{seen:?}") };
    assert_eq!(rights.attributes, BTreeMap::from([("user.kit".to_owned(), "value".to_owned())]));
}
