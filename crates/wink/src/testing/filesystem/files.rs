//! Reading, writing and the shape of the tree.

use super::*;
use crate::filesystem::{
    DeleteMode, Edit, FsError, GrepMatch, GrepOutcome, GrepQuery, MkdirOptions, ReadWindow, TextRead,
    WriteMode,
};

pub(super) async fn check(make: Make<'_>) {
    paths_are_normalised(make).await;
    limits_hold(make).await;
    what_is_read_is_bounded(make).await;
    windows_are_clamped(make).await;
    contents_are_byte_exact(make).await;
    binary_is_not_text(make).await;
    write_modes(make).await;
    parents(make).await;
    edits(make).await;
    deletes(make).await;
    directories(make).await;
    renames(make).await;
    versions_tell_states_apart(make).await;
    concurrent_edits_lose_nothing(make).await;
    read_only_refuses_everything(make).await;
}

async fn paths_are_normalised(make: Make<'_>) {
    let fs = empty(make);
    fs.write_text("/a/./b//c/", "x").await.unwrap();
    assert_eq!(fs.read_text("a/b/c").await.unwrap(), "x");
    assert_eq!(fs.read_text("a/x/../b/c").await.unwrap(), "x", "'..' is resolved in the text");
    refused(fs.read_text("a/../../x").await, FsErrorKind::Outside);
    refused(fs.write_text("../x", "").await, FsErrorKind::Outside);
    refused(fs.read_text("a\0b").await, FsErrorKind::InvalidPath);
    for name in ["日本/é.txt", "with space", "back\\slash", "-dash", "*", "[x]", "a\nb"] {
        fs.write_text(name, name).await.unwrap();
        assert_eq!(fs.read_text(name).await.unwrap(), name, "{name:?} is an ordinary name");
    }
}

async fn limits_hold(make: Make<'_>) {
    let fs = empty(make);
    fs.write_text(&vec!["d"; 16].join("/"), "deep").await.unwrap();
    refused(fs.write_text(&vec!["d"; 17].join("/"), "").await, FsErrorKind::TooDeep);
    fs.write_text(&"é".repeat(80), "long").await.unwrap();
    refused(fs.write_text(&"é".repeat(81), "").await, FsErrorKind::SegmentTooLong);

    let limits = FsLimits { max_segments: 2, max_segment_chars: 3, max_write_bytes: 4, ..FsLimits::DEFAULT };
    let fs = limited(make, limits);
    assert_eq!(*fs.limits(), limits);
    fs.write_text("a/abc", "1234").await.unwrap();
    refused(fs.write_text("a/b/c", "").await, FsErrorKind::TooDeep);
    refused(fs.write_text("abcd", "").await, FsErrorKind::SegmentTooLong);
    refused(fs.write_text("a/abc", "12345").await, FsErrorKind::TooLarge);
    refused(fs.write_as("a/abc", "12345", WriteMode::Append).await, FsErrorKind::TooLarge);
    refused(fs.edit_text("a/abc", "1", "123").await, FsErrorKind::TooLarge);
    refused(fs.rename_to("a", "b/a").await, FsErrorKind::NotFound);
    fs.mkdir_all("b").await.unwrap();
    refused(fs.rename_to("a", "b/a").await, FsErrorKind::TooDeep);
    // Paths made under other limits are held to those of the filesystem.
    let deep = FsPath::parse("x/y/z", &FsLimits::DEFAULT).unwrap();
    refused(fs.write(&deep, b"", WriteOptions::default()).await, FsErrorKind::TooDeep);
    refused(fs.mkdir(&deep, MkdirOptions { parents: true, exist_ok: true }).await, FsErrorKind::TooDeep);
    assert_eq!(fs.read_text("a/abc").await.unwrap(), "1234");
}

async fn what_is_read_is_bounded(make: Make<'_>) {
    let limits = FsLimits { max_write_bytes: 4, max_read_bytes: 6, ..FsLimits::DEFAULT };
    let fs = limited(make, limits);
    fs.write_text("large", "123").await.unwrap();
    fs.write_as("large", "456", WriteMode::Append).await.unwrap();
    assert_eq!(fs.read_text("large").await.unwrap(), "123456");
    fs.write_as("large", "7", WriteMode::Append).await.unwrap();
    fs.write_text("small", "17").await.unwrap();
    let large = at(&*fs, "large");
    assert_eq!(
        fs.read_text("large").await.unwrap_err(),
        FsError::TooLargeToRead { path: large.clone(), bytes: 7, max: 6 }
    );
    for forked in [false, true] {
        let fs = if forked { fs.fork().unwrap() } else { fs.clone() };
        let window = ReadWindow::Lines { offset: 0, limit: 1 };
        refused(fs.read(&large, window).await, FsErrorKind::TooLargeToRead);
        refused(fs.read_bytes(&large).await, FsErrorKind::TooLargeToRead);
        refused(fs.edit_text("large", "1", "").await, FsErrorKind::TooLargeToRead);
        refused(fs.write_as("large", "8", WriteMode::Append).await, FsErrorKind::TooLargeToRead);
        refused(fs.grep(&large, &GrepQuery::new("1")).await, FsErrorKind::TooLargeToRead);
        let found = fs.grep(&FsPath::root(), &GrepQuery::new("7")).await.unwrap();
        let hit = GrepMatch { path: at(&*fs, "small"), line: 1, text: "17".to_owned() };
        let expected = GrepOutcome { matches: vec![hit], truncated: false, too_large: vec![large.clone()] };
        assert_eq!(found, expected, "what is too large is left out, and named");
        assert_eq!(fs.stat(&large).await.unwrap().len, 7);
    }
    fs.write_text("large", "1").await.unwrap();
    assert_eq!(fs.read_text("large").await.unwrap(), "1");
}

async fn windows_are_clamped(make: Make<'_>) {
    let fs = seeded(make, &[("f", "1\n2\r\n3\n4"), ("empty", "")]);
    let file = at(&*fs, "f");
    let version = fs.stat(&file).await.unwrap().version;
    let expected = |text: &str, offset, count, truncated| {
        let text = text.to_owned();
        TextRead { text, offset, count, total_lines: 4, truncated, version }
    };
    let lines = |offset, limit| ReadWindow::Lines { offset, limit };
    for (window, read) in [
        (ReadWindow::Default, expected("1\n2\r\n3\n4", 0, 4, false)),
        (ReadWindow::Entire, expected("1\n2\r\n3\n4", 0, 4, false)),
        (lines(0, 2), expected("1\n2\r\n", 0, 2, true)),
        (lines(1, 2), expected("2\r\n3\n", 1, 2, true)),
        (lines(2, 9), expected("3\n4", 2, 2, false)),
        (lines(3, usize::MAX), expected("4", 3, 1, false)),
        (lines(9, 9), expected("", 4, 0, false)),
        (lines(usize::MAX, usize::MAX), expected("", 4, 0, false)),
        (lines(1, 0), expected("", 1, 0, true)),
    ] {
        assert_eq!(fs.read(&file, window).await.unwrap(), read, "{window:?}");
    }
    let read = fs.read(&at(&*fs, "empty"), ReadWindow::Default).await.unwrap();
    assert_eq!((read.text.as_str(), read.count, read.total_lines, read.truncated), ("", 0, 0, false));

    let limits = FsLimits { default_window: 3, ..FsLimits::DEFAULT };
    let fs = limited(make, limits);
    fs.write_text("f", "1\n2\n3\n4\n").await.unwrap();
    let read = fs.read(&at(&*fs, "f"), ReadWindow::Default).await.unwrap();
    assert_eq!((read.text.as_str(), read.count, read.total_lines, read.truncated), ("1\n2\n3\n", 3, 4, true));
    assert_eq!(fs.read_text("f").await.unwrap(), "1\n2\n3\n4\n");
}

async fn contents_are_byte_exact(make: Make<'_>) {
    let fs = empty(make);
    for content in
        [&b""[..], b"\n", b"a", b"a\n", b"a\r\nb\r\n", b"\r", b"\n\n\n", b"\xff\x00\r\n", b"\xef\xbb\xbfx"]
    {
        write_bytes(&*fs, "f", content).await;
        assert_eq!(&*fs.read_bytes(&at(&*fs, "f")).await.unwrap().bytes, content);
        if !content.contains(&0) {
            assert_eq!(fs.read_text("f").await.unwrap().as_bytes(), content);
        }
        assert_eq!(fs.stat_at("f").await.unwrap().len, content.len() as u64);
    }
}

async fn binary_is_not_text(make: Make<'_>) {
    let fs = empty(make);
    for content in [&b"\xff\xfe"[..], b"text\x00text", b"caf\xe9"] {
        write_bytes(&*fs, "f", content).await;
        refused(fs.read_text("f").await, FsErrorKind::Binary);
        refused(fs.edit_text("f", "t", "T").await, FsErrorKind::Binary);
        assert_eq!(&*fs.read_bytes(&at(&*fs, "f")).await.unwrap().bytes, content);
    }
}

async fn write_modes(make: Make<'_>) {
    let fs = empty(make);
    let receipt = fs.write_as("f", "one", WriteMode::Create).await.unwrap();
    assert_eq!((receipt.bytes_written, receipt.created), (3, true));
    assert_eq!(receipt.version, fs.stat_at("f").await.unwrap().version);
    refused(fs.write_as("f", "two", WriteMode::Create).await, FsErrorKind::Exists);
    assert_eq!(fs.read_text("f").await.unwrap(), "one");
    let receipt = fs.write_as("f", "é", WriteMode::Append).await.unwrap();
    assert_eq!((receipt.bytes_written, receipt.created), (2, false), "bytes of this write");
    assert_eq!(fs.read_text("f").await.unwrap(), "oneé");
    let receipt = fs.write_as("f", "new", WriteMode::Overwrite).await.unwrap();
    assert_eq!((receipt.bytes_written, receipt.created), (3, false));
    assert_eq!(fs.read_text("f").await.unwrap(), "new");
    assert!(fs.write_as("g", "x", WriteMode::Append).await.unwrap().created, "append creates");
    assert!(fs.write_as("h", "x", WriteMode::Overwrite).await.unwrap().created, "overwrite creates");
}

async fn parents(make: Make<'_>) {
    let fs = empty(make);
    let options = WriteOptions::default().without_parents();
    refused(fs.write(&at(&*fs, "a/b/f"), b"x", options).await, FsErrorKind::NotFound);
    assert!(filesystem_tree(&*fs).await.is_empty(), "a refused write makes no directories");
    fs.write_text("a/b/f", "x").await.unwrap();
    fs.write(&at(&*fs, "a/b/g"), b"x", options).await.unwrap();
    refused(fs.write_text("a/b/f/g", "x").await, FsErrorKind::NotDirectory);
    refused(fs.write_text("a/b", "x").await, FsErrorKind::IsDirectory);
    refused(fs.write_as("a/b", "x", WriteMode::Create).await, FsErrorKind::IsDirectory);
    refused(fs.write_text("", "x").await, FsErrorKind::IsDirectory);
    refused(fs.read_text("a").await, FsErrorKind::IsDirectory);
    refused(fs.read_text("missing").await, FsErrorKind::NotFound);
    refused(fs.read_bytes(&at(&*fs, "missing/f")).await, FsErrorKind::NotFound);
    refused(fs.stat_at("missing").await, FsErrorKind::NotFound);
    for (path, there) in [("a/b/f", true), ("a", true), ("", true), ("missing", false), ("a/b/f/g", false)] {
        assert_eq!(fs.exists_at(path).await.unwrap(), there, "{path}");
    }
}

async fn edits(make: Make<'_>) {
    let fs = seeded(make, &[("f", "one two\r\ntwo\nthree")]);
    let file = at(&*fs, "f");
    refused(fs.edit_text("f", "two", "2").await, FsErrorKind::AmbiguousMatch);
    refused(fs.edit_text("f", "four", "4").await, FsErrorKind::NoMatch);
    refused(fs.edit_text("f", "", "x").await, FsErrorKind::EmptyOld);
    refused(fs.edit(&file, &Edit::all("", "x")).await, FsErrorKind::EmptyOld);
    refused(fs.edit(&file, &Edit::all("four", "x")).await, FsErrorKind::NoMatch);
    refused(fs.edit_text("missing", "a", "b").await, FsErrorKind::NotFound);
    refused(fs.edit_text("f", "two\ntwo", "x").await, FsErrorKind::NoMatch);
    assert_eq!(fs.read_text("f").await.unwrap(), "one two\r\ntwo\nthree");
    let receipt = fs.edit_text("f", "one two\r\n", "1 2\r\n").await.unwrap();
    assert_eq!((receipt.replacements, receipt.version), (1, fs.stat_at("f").await.unwrap().version));
    assert_eq!(fs.read_text("f").await.unwrap(), "1 2\r\ntwo\nthree");
    assert_eq!(fs.edit(&file, &Edit::all("t", "T")).await.unwrap().replacements, 2);
    assert_eq!(fs.read_text("f").await.unwrap(), "1 2\r\nTwo\nThree", "no final newline appears");

    fs.write_text("f", "aaa").await.unwrap();
    refused(fs.edit_text("f", "aa", "b").await, FsErrorKind::AmbiguousMatch);
    assert_eq!(fs.edit(&file, &Edit::all("aa", "b")).await.unwrap().replacements, 1);
    assert_eq!(fs.read_text("f").await.unwrap(), "ba");

    let long: String = (0..2500).map(|line| format!("line {line}\n")).collect();
    fs.write_text("f", &long).await.unwrap();
    fs.edit_text("f", "line 2400\n", "edited\n").await.unwrap();
    assert_eq!(fs.read_text("f").await.unwrap(), long.replace("line 2400\n", "edited\n"));
}

async fn deletes(make: Make<'_>) {
    let fs = seeded(make, &[("d/e/f", "x"), ("d/g", "y"), ("h", "z")]);
    let delete = |path: &str, mode| {
        let path = at(&*fs, path);
        let fs = fs.clone();
        async move { fs.delete(&path, mode).await }
    };
    refused(delete("d", DeleteMode::Single).await, FsErrorKind::NotEmpty);
    refused(delete("", DeleteMode::Recursive).await, FsErrorKind::RootProtected);
    refused(delete("missing", DeleteMode::Recursive).await, FsErrorKind::NotFound);
    refused(delete("d/g/x", DeleteMode::Single).await, FsErrorKind::NotDirectory);
    assert_eq!(filesystem_tree(&*fs).await.len(), 5, "refused deletes change nothing");
    delete("h", DeleteMode::Single).await.unwrap();
    delete("d/e/f", DeleteMode::Single).await.unwrap();
    assert_eq!(fs.names("d").await.unwrap(), ["e/", "g"], "the empty directory stays");
    delete("d/e", DeleteMode::Single).await.unwrap();
    delete("d", DeleteMode::Recursive).await.unwrap();
    assert!(filesystem_tree(&*fs).await.is_empty());
}

async fn directories(make: Make<'_>) {
    let fs = seeded(make, &[("f", "x")]);
    let mkdir = |path: &str, parents, exist_ok| {
        let path = at(&*fs, path);
        let fs = fs.clone();
        async move { fs.mkdir(&path, MkdirOptions { parents, exist_ok }).await }
    };
    mkdir("d", false, false).await.unwrap();
    refused(mkdir("d", false, false).await, FsErrorKind::Exists);
    mkdir("d", false, true).await.unwrap();
    refused(mkdir("f", false, true).await, FsErrorKind::NotDirectory);
    refused(mkdir("f/d", true, true).await, FsErrorKind::NotDirectory);
    refused(mkdir("x/y", false, true).await, FsErrorKind::NotFound);
    refused(mkdir("", true, false).await, FsErrorKind::Exists);
    mkdir("", false, true).await.unwrap();
    mkdir("x/y", true, false).await.unwrap();
    assert_eq!(fs.names("").await.unwrap(), ["d/", "f", "x/"]);
    assert_eq!(fs.names("x/y").await.unwrap(), [""; 0]);
    refused(fs.names("f").await, FsErrorKind::NotDirectory);
    refused(fs.names("missing").await, FsErrorKind::NotFound);
    let found = fs.stat_at("x").await.unwrap();
    assert_eq!((found.kind, found.len), (EntryKind::Directory, 0));
    let found = fs.stat_at("f").await.unwrap();
    assert_eq!((found.kind, found.len), (EntryKind::File, 1));
}

async fn renames(make: Make<'_>) {
    let fs = seeded(make, &[("d/e/f", "x"), ("g", "y")]);
    refused(fs.rename_to("missing", "m").await, FsErrorKind::NotFound);
    refused(fs.rename_to("g", "d").await, FsErrorKind::Exists);
    refused(fs.rename_to("g", "n/m").await, FsErrorKind::NotFound);
    refused(fs.rename_to("d", "d/e/d").await, FsErrorKind::IntoItself);
    refused(fs.rename_to("", "r").await, FsErrorKind::RootProtected);
    refused(fs.rename_to("g", "").await, FsErrorKind::RootProtected);
    refused(fs.rename_to("d", "g/d").await, FsErrorKind::NotDirectory);
    let before = filesystem_tree(&*fs).await;
    fs.rename_to("d", "./d").await.unwrap();
    assert_eq!(filesystem_tree(&*fs).await, before, "onto itself nothing happens");
    fs.rename_to("d", "moved").await.unwrap();
    fs.rename_to("g", "moved/g").await.unwrap();
    let tree = filesystem_tree(&*fs).await;
    let paths: Vec<&str> = tree.keys().map(FsPath::as_str).collect();
    assert_eq!(paths, ["moved", "moved/e", "moved/e/f", "moved/g"]);
    assert_eq!(fs.read_text("moved/e/f").await.unwrap(), "x");
}

async fn versions_tell_states_apart(make: Make<'_>) {
    let fs = seeded(make, &[("f", "x"), ("g", "x")]);
    let first = fs.stat_at("f").await.unwrap();
    fs.read_text("f").await.unwrap();
    fs.write_text("g", "y").await.unwrap();
    assert_eq!(fs.stat_at("f").await.unwrap(), first, "reading, or writing elsewhere, changes nothing");
    let written = fs.write_text("f", "x").await.unwrap().version;
    assert_ne!(written, first.version, "each write makes a version, even of equal contents");
    let edited = fs.edit_text("f", "x", "y").await.unwrap().version;
    assert_ne!(edited, written);
    assert_eq!(fs.stat_at("f").await.unwrap().mode, first.mode, "modes survive");
    assert_eq!(edited.to_string().parse(), Ok(edited));
}

async fn concurrent_edits_lose_nothing(make: Make<'_>) {
    let fs = seeded(make, &[("f", "END")]);
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let fs = fs.clone();
            tokio::spawn(async move {
                for turn in 0..8 {
                    let text = format!("{task}.{turn}\nEND");
                    fs.edit_text("f", "END", &text).await.expect("every edit finds its place");
                    fs.write_as("log", "x", WriteMode::Append).await.expect("appending goes through");
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no task panics");
    }
    assert_eq!(fs.read_text("log").await.unwrap(), "x".repeat(64));
    let text = fs.read_text("f").await.unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.pop(), Some("END"));
    lines.sort_unstable();
    let expected: Vec<String> =
        (0..8).flat_map(|task| (0..8).map(move |turn| format!("{task}.{turn}"))).collect();
    assert_eq!(lines, expected);
}

async fn read_only_refuses_everything(make: Make<'_>) {
    let files: &[(&str, &[u8])] = &[("d/f", b"x"), ("e/g", b"y")];
    let fs = make(FilesystemSeed { files, limits: FsLimits::DEFAULT, read_only: true });
    let fork = fs.fork().unwrap();
    for fs in [&fs, &fork] {
        assert!(fs.is_read_only());
        let before = filesystem_tree(&**fs).await;
        for mode in [WriteMode::Create, WriteMode::Overwrite, WriteMode::Append] {
            refused(fs.write_as("d/f", "y", mode).await, FsErrorKind::ReadOnly);
            refused(fs.write_as("new", "y", mode).await, FsErrorKind::ReadOnly);
        }
        refused(fs.edit_text("d/f", "x", "y").await, FsErrorKind::ReadOnly);
        refused(fs.delete_all("d").await, FsErrorKind::ReadOnly);
        refused(fs.mkdir_all("new").await, FsErrorKind::ReadOnly);
        refused(fs.rename_to("d", "new").await, FsErrorKind::ReadOnly);
        assert_eq!(filesystem_tree(&**fs).await, before);
    }
    let mark = fs.snapshot().unwrap();
    fs.restore(&mark).expect("going nowhere is not a change");
    fs.keep(fs.merge(&*fork).expect("nothing is not a change"));
    assert_eq!(fs.read_text("d/f").await.unwrap(), "x");
}
