//! Both ways to resolve a path do the same.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use rustix::fs::{FileType as Kind, mknodat};
use tempfile::TempDir;

use super::*;

/// An empty root in a directory with a secret beside it, once for each way.
fn everywhere(test: impl Fn(&HostDisk, &Path)) {
    for open in [HostDisk::open, HostDisk::open_walking] {
        let outer = TempDir::new().unwrap();
        fs::write(outer.path().join("secret"), "outside").unwrap();
        let root = outer.path().join("root");
        fs::create_dir(&root).unwrap();
        test(&open(&root).unwrap(), &root);
        assert_eq!(fs::read_to_string(outer.path().join("secret")).unwrap(), "outside");
    }
}

fn p(text: &str) -> &Path {
    Path::new(text)
}

fn code<T: std::fmt::Debug>(result: io::Result<T>) -> Option<Errno> {
    Errno::from_io_error(&result.unwrap_err())
}

/// What we make is ours.
fn ours() -> Option<OwnedBy> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Some(OwnedBy { user, group })
}

#[test]
fn what_is_made_is_there_with_its_mode_and_time() {
    everywhere(|disk, root| {
        disk.make_dir(p("d"), 0o751).unwrap();
        disk.make_dir(p("d/e"), 0o777).unwrap();
        disk.create(p("d/e/f"), b"text", 0o666).unwrap();
        disk.make_link(p("d/l"), p("e/f")).unwrap();
        let meta = Meta { mode: 0o4755, modified: 1_234_567_890_123_456_789, owner: ours() };
        disk.set_meta(p("d/e/f"), meta).unwrap();
        disk.set_meta(p("d/l"), Meta { mode: 0o777, modified: -5, owner: None }).unwrap();
        disk.sync_file(p("d/e/f")).unwrap();
        for dir in ["", "d", "d/e"] {
            disk.sync_dir(p(dir)).unwrap();
        }

        let real = fs::metadata(root.join("d/e/f")).unwrap();
        let expected = Entry {
            kind: EntryKind::File,
            dev: 0,
            ino: real.ino(),
            links: 1,
            len: 4,
            meta,
            changed: i128::from(real.ctime()) * 1_000_000_000 + i128::from(real.ctime_nsec()),
        };
        assert_eq!(disk.look(p("d/e/f")).unwrap(), Some(expected));
        assert_eq!(disk.look(p("d")).unwrap().unwrap().meta.mode, 0o751);
        assert_eq!(disk.look(p("d/e")).unwrap().unwrap().meta.mode, 0o777);
        assert_eq!(disk.look(p("d/l")).unwrap().unwrap().meta.modified, -5);
        assert_eq!(disk.look(p("")).unwrap().unwrap().kind, EntryKind::Directory);
        assert_eq!(disk.read(p("d/e/f")).unwrap(), b"text");
        assert_eq!(disk.read_link(p("d/l")).unwrap(), p("e/f"));
        let mut listed = disk.read_dir(p("d")).unwrap();
        listed.sort();
        assert_eq!(listed, [("e".into(), EntryKind::Directory), ("l".into(), EntryKind::Symlink)]);
        assert_eq!(disk.read_dir(p("")).unwrap(), [("d".into(), EntryKind::Directory)]);
    });
}

#[test]
fn nothing_is_at_a_path_through_a_file_or_nothing() {
    everywhere(|disk, _| {
        disk.create(p("f"), b"", 0o644).unwrap();
        for path in ["nothing", "nothing/below", "f/below", "f/below/that"] {
            assert_eq!(disk.look(p(path)).unwrap(), None, "{path}");
        }
        assert_eq!(code(disk.read(p("f/below"))), Some(Errno::NOTDIR));
        assert_eq!(code(disk.read(p("nothing/below"))), Some(Errno::NOENT));
        assert_eq!(code(disk.create(p("f"), b"", 0o644)), Some(Errno::EXIST));
        assert_eq!(code(disk.read_dir(p("f"))), Some(Errno::NOTDIR));
        assert_eq!(code(disk.read(p(""))), None);
    });
}

#[test]
fn no_link_is_followed_on_the_way_or_at_the_end() {
    everywhere(|disk, root| {
        symlink("..", root.join("up")).unwrap();
        symlink("../secret", root.join("link")).unwrap();
        symlink(root.parent().unwrap(), root.join("absolute")).unwrap();
        symlink("inside", root.join("within")).unwrap();
        fs::create_dir(root.join("inside")).unwrap();
        fs::write(root.join("inside/secret"), "x").unwrap();
        disk.create(p("mine"), b"mine", 0o644).unwrap();

        for way in ["up", "absolute", "within"] {
            let below = p(way).join("secret");
            assert_eq!(code(disk.look(&below)), Some(Errno::LOOP), "{way}");
            assert_eq!(code(disk.read(&below)), Some(Errno::LOOP));
            assert_eq!(code(disk.open_file(&below)), Some(Errno::LOOP));
            assert_eq!(code(disk.open_or_create(&below, 0o644)), Some(Errno::LOOP));
            assert_eq!(code(disk.read_dir(p(way))), Some(Errno::LOOP));
            assert_eq!(code(disk.sync_dir(p(way))), Some(Errno::LOOP));
            assert_eq!(code(disk.read_link(&below)), Some(Errno::LOOP));
            assert_eq!(code(disk.create(&p(way).join("new"), b"", 0o644)), Some(Errno::LOOP));
            assert_eq!(code(disk.make_dir(&p(way).join("new"), 0o755)), Some(Errno::LOOP));
            assert_eq!(code(disk.make_link(&p(way).join("new"), p("x"))), Some(Errno::LOOP));
            assert_eq!(code(disk.copy(&below, p("new"))), Some(Errno::LOOP));
            assert_eq!(code(disk.copy(p("mine"), &p(way).join("new"))), Some(Errno::LOOP));
            assert_eq!(code(disk.link(&below, p("new"))), Some(Errno::LOOP));
            assert_eq!(code(disk.link(p("mine"), &p(way).join("new"))), Some(Errno::LOOP));
            for replace in [Replace::Allowed, Replace::Refused] {
                assert_eq!(code(disk.rename(&below, p("new"), replace)), Some(Errno::LOOP));
                assert_eq!(code(disk.rename(p("mine"), &below, replace)), Some(Errno::LOOP));
            }
            assert_eq!(code(disk.unlink(&below)), Some(Errno::LOOP));
            assert_eq!(code(disk.remove_dir(&below)), Some(Errno::LOOP));
            assert_eq!(
                code(disk.set_meta(&below, Meta { mode: 0, modified: 0, owner: None })),
                Some(Errno::LOOP)
            );
            assert_eq!(code(disk.sync_file(&below)), Some(Errno::LOOP));
        }
        for operation in [
            code(disk.read(p("link"))),
            code(disk.open_file(p("link"))),
            code(disk.open_or_create(p("link"), 0o644)),
            code(disk.sync_file(p("link"))),
        ] {
            assert_eq!(operation, Some(Errno::LOOP));
        }
        disk.link(p("link"), p("second")).unwrap();
        assert_eq!(disk.read_link(p("second")).unwrap(), p("../secret"));
        disk.copy(p("link"), p("copy")).unwrap();
        assert_eq!(disk.read_link(p("copy")).unwrap(), p("../secret"));
        disk.rename(p("mine"), p("link"), Replace::Allowed).unwrap();
        assert_eq!(disk.read(p("link")).unwrap(), b"mine");
        disk.unlink(p("second")).unwrap();
    });
}

#[test]
fn paths_that_are_not_plain_are_refused() {
    everywhere(|disk, root| {
        let absolute = root.join("x");
        for path in [p(".."), p("../secret"), p("a/../../secret"), p("./.."), p("/"), &absolute] {
            assert_eq!(disk.look(path).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{path:?}");
            assert_eq!(disk.read_dir(path).unwrap_err().kind(), io::ErrorKind::InvalidInput);
            assert_eq!(disk.create(path, b"", 0o644).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        assert_eq!(disk.unlink(p("")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(disk.read(p("a\0b")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    });
}

#[test]
fn a_pipe_is_listed_and_moved_but_never_opened() {
    everywhere(|disk, root| {
        let dir = File::open(root).unwrap();
        mknodat(&dir, "pipe", Kind::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(disk.look(p("pipe")).unwrap().unwrap().kind, EntryKind::Other);
        assert_eq!(disk.read_dir(p("")).unwrap(), [("pipe".into(), EntryKind::Other)]);
        for refused in [
            disk.read(p("pipe")).map(drop),
            disk.open_file(p("pipe")).map(drop),
            disk.open_or_create(p("pipe"), 0o644).map(drop),
            disk.copy(p("pipe"), p("new")),
            disk.sync_file(p("pipe")),
        ] {
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        disk.rename(p("pipe"), p("moved"), Replace::Refused).unwrap();
        disk.set_meta(p("moved"), Meta { mode: 0o620, modified: 7, owner: None }).unwrap();
        assert_eq!(
            disk.look(p("moved")).unwrap().unwrap().meta,
            Meta { mode: 0o620, modified: 7, owner: ours() }
        );
    });
}

#[test]
fn a_rename_that_may_not_replace_does_not() {
    everywhere(|disk, root| {
        let handle = File::open(root).unwrap();
        let looking = |from: &str, to: &str| {
            rename_looking(handle.as_fd(), OsStr::new(from), handle.as_fd(), OsStr::new(to))
        };
        let asking = |from: &str, to: &str| disk.rename(p(from), p(to), Replace::Refused);
        for rename in [&looking as &dyn Fn(&str, &str) -> io::Result<()>, &asking] {
            disk.create(p("a"), b"a", 0o644).unwrap();
            disk.create(p("b"), b"b", 0o644).unwrap();
            disk.make_dir(p("d"), 0o755).unwrap();
            disk.make_dir(p("e"), 0o755).unwrap();
            for (from, to) in [("a", "b"), ("a", "d"), ("d", "e"), ("d", "b"), ("a", "a")] {
                assert_eq!(code(rename(from, to)), Some(Errno::EXIST), "{from} {to}");
            }
            rename("a", "c").unwrap();
            rename("d", "f").unwrap();
            assert_eq!(disk.read(p("c")).unwrap(), b"a");
            let mut listed = disk.read_dir(p("")).unwrap();
            listed.sort();
            let names: Vec<_> = listed.iter().map(|(name, _)| name.to_str().unwrap()).collect();
            assert_eq!(names, ["b", "c", "e", "f"]);
            for file in ["b", "c"] {
                disk.unlink(p(file)).unwrap();
            }
            for dir in ["e", "f"] {
                disk.remove_dir(p(dir)).unwrap();
            }
        }
        disk.create(p("a"), b"a", 0o644).unwrap();
        disk.link(p("a"), p("b")).unwrap();
        disk.rename(p("a"), p("b"), Replace::Allowed).unwrap();
        assert_eq!(disk.look(p("a")).unwrap().unwrap().links, 2);
    });
}

#[test]
fn a_copy_has_mode_and_time_and_is_another_file() {
    everywhere(|disk, _| {
        disk.create(p("a"), b"content", 0o640).unwrap();
        disk.set_meta(p("a"), Meta { mode: 0o640, modified: 99_000_000_001, owner: None }).unwrap();
        disk.copy(p("a"), p("b")).unwrap();
        let (a, b) = (disk.look(p("a")).unwrap().unwrap(), disk.look(p("b")).unwrap().unwrap());
        assert_ne!(a.ino, b.ino);
        assert_eq!(Entry { ino: 0, changed: 0, ..a }, Entry { ino: 0, changed: 0, ..b });
        assert_eq!(disk.read(p("b")).unwrap(), b"content");
        assert_eq!(code(disk.copy(p("a"), p("b"))), Some(Errno::EXIST));
        assert_eq!(disk.read(p("b")).unwrap(), b"content");
    });
}

#[test]
fn names_need_not_be_text_and_files_need_not_be_readable() {
    everywhere(|disk, root| {
        let name = Path::new(OsStr::from_bytes(b"\xff\xfe"));
        disk.create(name, b"x", 0).unwrap();
        disk.set_meta(name, Meta { mode: 0o200, modified: 3, owner: None }).unwrap();
        disk.sync_file(name).unwrap();
        assert_eq!(disk.read_dir(p("")).unwrap(), [(name.into(), EntryKind::File)]);
        assert_eq!(fs::metadata(root.join(name)).unwrap().permissions().mode() & 0o7777, 0o200);
    });
}
