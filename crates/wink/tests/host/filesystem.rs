//! The in-memory filesystem through the public API.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use wink::BoxFuture;
use wink::filesystem::{
    DeleteMode, Edit, EntryKind, FileVersion, Filesystem, FilesystemExt, FsError, FsErrorKind, FsLimits,
    FsPath, GrepMatch, GrepOutcome, GrepQuery, MemoryFilesystem, Metadata, MkdirOptions, ReadWindow,
    TextRead, WriteMode, WriteOptions, WriteReceipt,
};
use wink::limits::Clock;
use wink::testing::{FilesystemSeed, filesystem_contract, filesystem_tree};

struct FixedClock(Timestamp);

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        self.0
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn path(text: &str) -> FsPath {
    parse(text).unwrap()
}

fn parse(text: &str) -> Result<FsPath, FsError> {
    FsPath::parse(text, &FsLimits::DEFAULT)
}

fn memory<C: AsRef<[u8]>>(files: impl IntoIterator<Item = (&'static str, C)>) -> MemoryFilesystem {
    MemoryFilesystem::from_files(files).unwrap()
}

async fn globbed(fs: &dyn Filesystem, base: &str, pattern: &str) -> Vec<String> {
    fs.glob(&path(base), pattern).await.unwrap().iter().map(|entry| entry.path.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_keeps_the_contract() {
    filesystem_contract(|FilesystemSeed { files, limits, read_only }| {
        let fs = MemoryFilesystem::new().with_limits(limits).with_files(files.iter().copied()).unwrap();
        Arc::new(if read_only { fs.read_only() } else { fs })
    })
    .await;
}

// case 139
#[test]
fn paths_are_normalised() {
    for (text, expected) in [
        ("a/./b//c/", "a/b/c"),
        ("a/../b", "b"),
        ("/a/b", "a/b"),
        ("a/b/../../c", "c"),
        ("./././a", "a"),
        ("a/b/..", "a"),
        ("a/..", ""),
        ("", ""),
        ("/", ""),
        (".", ""),
        ("a/...", "a/..."),
        ("a\\..\\b", "a\\..\\b"),
        (" a ", " a "),
    ] {
        assert_eq!(parse(text).unwrap().as_str(), expected, "{text:?}");
    }
    for text in ["a/../../x", "..", "/..", "a/../..", "./.."] {
        assert_eq!(parse(text), Err(FsError::Outside { path: text.to_owned() }));
    }
    assert_eq!(parse("a/\0"), Err(FsError::InvalidPath { path: "a/\0".to_owned() }));
    assert_eq!(
        parse("a/../../x").unwrap_err().to_string(),
        "'a/../../x' leads outside the workspace; paths are relative to its root"
    );
}

#[test]
fn paths_know_their_parts() {
    let file = path("a/b/c");
    assert_eq!(file.name(), Some("c"));
    assert_eq!(file.parent(), Some(path("a/b")));
    assert_eq!(file.depth(), 3);
    assert_eq!(file.segments().collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_eq!(file.relative_to(&path("a")), Some("b/c"));
    assert_eq!(file.relative_to(&path("")), Some("a/b/c"));
    assert_eq!(file.relative_to(&file), Some(""));
    assert_eq!(path("ab").relative_to(&path("a")), None, "a prefix of the text is not a parent");
    assert_eq!(path("a").join("../b/./c", &FsLimits::DEFAULT), Ok(path("b/c")));
    assert_eq!((FsPath::root().name(), FsPath::root().parent(), FsPath::root().depth()), (None, None, 0));
    assert_eq!((FsPath::root().to_string(), file.to_string()), ("/".to_owned(), "a/b/c".to_owned()));
    assert_eq!(serde_json::to_value(&file).unwrap(), json!("a/b/c"));
    assert_eq!(serde_json::from_value::<FsPath>(json!("a/./b/c")).unwrap(), file);
    assert!(serde_json::from_value::<FsPath>(json!("../a")).is_err());
}

// case 140
#[test]
fn paths_have_limits() {
    let deep = |segments| vec!["d"; segments].join("/");
    assert_eq!(parse(&deep(16)).unwrap().depth(), 16);
    assert_eq!(parse(&deep(17)), Err(FsError::TooDeep { path: deep(17), depth: 17, max: 16 }));
    assert_eq!(parse(&format!("{}/..", deep(17))).unwrap().depth(), 16, "what counts is the result");
    for letter in ["a", "é", "日"] {
        assert!(parse(&letter.repeat(80)).is_ok());
        let segment = letter.repeat(81);
        let error = FsError::SegmentTooLong { segment: segment.clone(), chars: 81, max: 80 };
        assert_eq!(parse(&format!("x/{segment}")), Err(error));
    }
    let shown = parse(&"x".repeat(1_000_000)).unwrap_err().to_string();
    assert!(shown.len() < 300, "a huge path is not repeated whole");
}

// case 141
#[tokio::test]
async fn names_in_any_script_round_trip() {
    let fs = MemoryFilesystem::new();
    let name = "docs/日本語/naïve ☃.txt";
    fs.write_text(name, "雪\n").await.unwrap();
    assert_eq!(fs.read_text(name).await.unwrap(), "雪\n");
    assert_eq!(fs.names("docs/日本語").await.unwrap(), ["naïve ☃.txt"]);
    assert_eq!(globbed(&fs, "", "docs/???/naïve*").await, [name]);
}

// case 142
#[tokio::test]
async fn windows_say_what_they_hold() {
    let fs = memory([("f", "1\n2\n3\n4\n5\n")]);
    let version = fs.stat_at("f").await.unwrap().version;
    let read = |offset, limit| fs.read(&path("f"), ReadWindow::Lines { offset, limit }).await_now();
    assert_eq!(
        read(1, 3).unwrap(),
        TextRead {
            text: "2\n3\n4\n".to_owned(),
            offset: 1,
            count: 3,
            total_lines: 5,
            truncated: true,
            version
        }
    );
    assert_eq!(
        read(99, 3).unwrap(),
        TextRead { text: String::new(), offset: 5, count: 0, total_lines: 5, truncated: false, version }
    );
    assert_eq!(
        read(3, 99).unwrap().numbered().collect::<Vec<_>>(),
        [(4, "4"), (5, "5")],
        "numbers are those of the file"
    );
}

// case 143
#[tokio::test]
async fn default_window_is_2000_lines() {
    let text: String = (0..2500).map(|line| format!("{line}\n")).collect();
    let fs = memory([("f", &text)]);
    let read = fs.read(&path("f"), ReadWindow::Default).await.unwrap();
    assert_eq!((read.offset, read.count, read.total_lines, read.truncated), (0, 2000, 2500, true));
    assert!(read.text.ends_with("\n1999\n"));
    let read = fs.read(&path("f"), ReadWindow::Entire).await.unwrap();
    assert_eq!((read.text, read.count, read.truncated), (text, 2500, false));
}

// case 144
#[tokio::test]
async fn binary_files_are_read_as_bytes() {
    let fs = memory([("image", b"\x89PNG\x00\xff")]);
    let error = fs.read_text("image").await.unwrap_err();
    assert_eq!(error, FsError::Binary { path: path("image") });
    assert_eq!(error.to_string(), "'image' is a binary file, not UTF-8 text; read it as bytes");
    assert_eq!(&*fs.read_bytes(&path("image")).await.unwrap().bytes, b"\x89PNG\x00\xff");
}

// case 145
#[tokio::test]
async fn write_modes() {
    let fs = memory([("f", "old")]);
    let stat = |name: &'static str| fs.stat_at(name).await_now().unwrap().version;
    let error = fs.write_as("f", "x", WriteMode::Create).await.unwrap_err();
    assert_eq!(
        (error.to_string().as_str(), error),
        ("'f' already exists", FsError::Exists { path: path("f") })
    );
    let receipt = fs.write_as("g", "ab", WriteMode::Append).await.unwrap();
    assert_eq!(receipt, WriteReceipt { bytes_written: 2, created: true, version: stat("g") });
    let receipt = fs.write_as("g", "cde", WriteMode::Append).await.unwrap();
    assert_eq!(receipt, WriteReceipt { bytes_written: 3, created: false, version: stat("g") });
    let receipt = fs.write_as("f", "n", WriteMode::Overwrite).await.unwrap();
    assert_eq!(receipt, WriteReceipt { bytes_written: 1, created: false, version: stat("f") });
    assert_eq!(fs.read_text("f").await.unwrap() + &fs.read_text("g").await.unwrap(), "nabcde");
}

// case 146
#[tokio::test]
async fn missing_parents_can_be_refused() {
    let fs = memory([("a/f", "")]);
    let options = WriteOptions::new(WriteMode::Create).without_parents();
    let error = fs.write(&path("a/b/c/f"), b"x", options).await.unwrap_err();
    assert_eq!(error, FsError::NotFound { path: path("a/b") });
    assert_eq!(globbed(&fs, "", "**").await, ["a", "a/f"]);
}

// case 147
#[tokio::test]
async fn writes_are_bounded() {
    let fs = MemoryFilesystem::new();
    let max = 32 * 1024 * 1024;
    let content = vec![b'x'; max + 1];
    for mode in [WriteMode::Create, WriteMode::Overwrite, WriteMode::Append] {
        let error = fs.write(&path("f"), &content, WriteOptions::new(mode)).await.unwrap_err();
        assert_eq!(error, FsError::TooLarge { path: path("f"), bytes: max + 1, max });
    }
    assert!(!fs.exists_at("f").await.unwrap());
    let receipt = fs.write(&path("f"), &content[1..], WriteOptions::default()).await.unwrap();
    assert_eq!(receipt.bytes_written, max);
    // A few bytes may not become gigabytes by replacing each of them.
    fs.write(&path("f"), &content[..100_000], WriteOptions::default()).await.unwrap();
    let error = fs.edit(&path("f"), &Edit::all("x", "y".repeat(1_000_000))).await.unwrap_err();
    assert_eq!(error, FsError::TooLarge { path: path("f"), bytes: 100_000_000_000, max });
}

// case 148
#[tokio::test]
async fn directories_are_not_overwritten() {
    let fs = memory([("d/f", "x")]);
    for mode in [WriteMode::Create, WriteMode::Overwrite, WriteMode::Append] {
        let error = fs.write_as("d", "x", mode).await.unwrap_err();
        assert_eq!(error, FsError::IsDirectory { path: path("d") });
        let error = fs.write_as("d/f/g", "x", mode).await.unwrap_err();
        assert_eq!(error, FsError::NotDirectory { path: path("d/f") });
    }
    assert_eq!(globbed(&fs, "", "**").await, ["d", "d/f"]);
}

// case 149
#[tokio::test]
async fn deleting_directories() {
    let fs = memory([("d/e/f", "x"), ("g", "y")]);
    let error = fs.delete(&path("d"), DeleteMode::Single).await.unwrap_err();
    assert_eq!(error, FsError::NotEmpty { path: path("d") });
    fs.delete(&path("d"), DeleteMode::Recursive).await.unwrap();
    assert_eq!(globbed(&fs, "", "**").await, ["g"]);
    for mode in [DeleteMode::Single, DeleteMode::Recursive] {
        assert_eq!(fs.delete(&FsPath::root(), mode).await, Err(FsError::RootProtected));
    }
}

// case 150
#[tokio::test]
async fn making_directories() {
    let fs = memory([("f", "x"), ("d/f", "")]);
    let mkdir = |at: &'static str, exist_ok| {
        fs.mkdir(&path(at), MkdirOptions { parents: false, exist_ok }).await_now()
    };
    assert_eq!(mkdir("f", false), Err(FsError::NotDirectory { path: path("f") }));
    assert_eq!(mkdir("f", true), Err(FsError::NotDirectory { path: path("f") }));
    assert_eq!(mkdir("d", false), Err(FsError::Exists { path: path("d") }));
    assert_eq!(mkdir("d", true), Ok(()));
    assert_eq!(mkdir("x/y", true), Err(FsError::NotFound { path: path("x") }));
    assert_eq!(fs.read_text("f").await.unwrap(), "x");
}

// case 151
#[tokio::test]
async fn stars_do_not_cross_directories() {
    let fs = memory([("top.py", ""), ("src/a.py", ""), ("src/deep/b.py", ""), ("src/a.rs", "")]);
    assert_eq!(globbed(&fs, "", "**/*.py").await, ["src/a.py", "src/deep/b.py", "top.py"]);
    assert_eq!(globbed(&fs, "", "*.py").await, ["top.py"]);
    assert_eq!(globbed(&fs, "src", "*.py").await, ["src/a.py"]);
    assert_eq!(globbed(&fs, "src", "**/*.py").await, ["src/a.py", "src/deep/b.py"]);
    let error = fs.glob(&FsPath::root(), "src/[a").await.unwrap_err();
    assert_eq!(error.kind(), FsErrorKind::InvalidPattern);
}

// case 152
#[tokio::test]
async fn grep_is_sorted_and_bounded() {
    let fs = memory([
        ("b.py", &b"no\nfind me\nfind me too\n"[..]),
        ("a/z.py", b"find me\r\n"),
        ("a.txt", b"find me"),
        ("bin", b"find me\x00"),
    ]);
    let grep = |query: GrepQuery| fs.grep(&FsPath::root(), &query).await_now();
    let hit = |file, line, text: &str| GrepMatch { path: path(file), line, text: text.to_owned() };
    let all = vec![
        hit("a.txt", 1, "find me"),
        hit("a/z.py", 1, "find me"),
        hit("b.py", 2, "find me"),
        hit("b.py", 3, "find me too"),
    ];
    assert_eq!(
        grep(GrepQuery::new("find")).unwrap(),
        GrepOutcome { matches: all.clone(), truncated: false, too_large: vec![] }
    );
    let query = GrepQuery { max: Some(3), ..GrepQuery::new("find") };
    assert_eq!(
        grep(query).unwrap(),
        GrepOutcome { matches: all[..3].to_vec(), truncated: true, too_large: vec![] }
    );
    let query = GrepQuery { glob: Some("**/*.py".to_owned()), ..GrepQuery::new("me$") };
    assert_eq!(
        grep(query).unwrap(),
        GrepOutcome { matches: all[1..3].to_vec(), truncated: false, too_large: vec![] }
    );
    let error = grep(GrepQuery::new("(unclosed")).unwrap_err();
    assert_eq!(error.kind(), FsErrorKind::InvalidPattern);
    assert!(error.to_string().contains("unclosed group"), "{error}");

    let fs = memory([("f", "x\n".repeat(1001))]);
    let outcome = fs.grep(&FsPath::root(), &GrepQuery::new("x")).await.unwrap();
    assert_eq!((outcome.matches.len(), outcome.truncated), (1000, true));
}

// case 155
#[tokio::test]
async fn read_only_refuses_every_mutation() {
    let fs = memory([("d/f", "x")]).read_only();
    let file = path("d/f");
    let before = filesystem_tree(&fs).await;
    assert!(fs.is_read_only());
    assert_eq!(fs.write(&file, b"y", WriteOptions::default()).await, Err(FsError::ReadOnly));
    assert_eq!(fs.write_as("new", "y", WriteMode::Create).await, Err(FsError::ReadOnly));
    assert_eq!(fs.write_as("d/f", "y", WriteMode::Append).await, Err(FsError::ReadOnly));
    assert_eq!(fs.edit(&file, &Edit::once("x", "y")).await, Err(FsError::ReadOnly));
    assert_eq!(fs.delete(&file, DeleteMode::Single).await, Err(FsError::ReadOnly));
    assert_eq!(fs.mkdir(&path("e"), MkdirOptions::default()).await, Err(FsError::ReadOnly));
    assert_eq!(fs.rename(&file, &path("g")).await, Err(FsError::ReadOnly));
    let elsewhere = memory([("other", "")]).snapshot().unwrap();
    assert_eq!(fs.restore(&elsewhere), Err(FsError::ReadOnly));
    assert_eq!(filesystem_tree(&fs).await, before);
}

// case 156
#[tokio::test]
async fn snapshots_bring_everything_back() {
    let fs = memory([("modified", "old\r\n"), ("deleted", "still here"), ("dir/inner/file", "x")]);
    fs.mkdir_all("empty").await.unwrap();
    let before = filesystem_tree(&fs).await;
    let stat = fs.stat_at("modified").await.unwrap();
    let mark = fs.snapshot().unwrap();
    fs.write_text("new/file", "x").await.unwrap();
    fs.delete_all("deleted").await.unwrap();
    fs.write_text("modified", "new").await.unwrap();
    fs.delete_all("dir").await.unwrap();
    fs.rename_to("empty", "full").await.unwrap();
    fs.restore(&mark).unwrap();
    assert_eq!(filesystem_tree(&fs).await, before);
    assert_eq!(fs.stat_at("modified").await.unwrap(), stat);
}

// case 157
#[tokio::test]
async fn any_of_several_snapshots_can_be_restored() {
    let fs = MemoryFilesystem::new();
    let mut marks = Vec::new();
    for turn in 0..5 {
        fs.write_text("f", &turn.to_string()).await.unwrap();
        fs.write_text(&format!("only/{turn}"), "").await.unwrap();
        marks.push((fs.snapshot().unwrap(), filesystem_tree(&fs).await));
    }
    for turn in [1, 4, 0, 3, 2, 0] {
        fs.restore(&marks[turn].0).unwrap();
        assert_eq!(filesystem_tree(&fs).await, marks[turn].1);
    }
}

#[tokio::test]
async fn edits_leave_every_other_byte_alone() {
    let fs = memory([("f", "\u{feff}one\r\ntwo\n\n\tthree \r\nfour")]);
    fs.edit_text("f", "two\n", "2\n").await.unwrap();
    assert_eq!(fs.read_text("f").await.unwrap(), "\u{feff}one\r\n2\n\n\tthree \r\nfour");
    let error = fs.edit_text("f", "one\n2", "x").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        r"the text to replace does not occur in 'f'; its lines end in CRLF (\r\n), so the text to replace must as well"
    );
    let error = fs.edit_text("f", "o", "x").await.unwrap_err();
    assert_eq!(error, FsError::AmbiguousMatch { path: path("f"), count: 2 });
    assert_eq!(
        error.to_string(),
        "the text to replace occurs 2 times in 'f'; give more of its surroundings, or replace all"
    );
}

#[tokio::test]
async fn times_come_from_the_clock() {
    let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let fs =
        MemoryFilesystem::new().with_clock(Arc::new(FixedClock(now))).with_files([("d/f", "abc")]).unwrap();
    let Metadata { kind, len, mode, modified, .. } = fs.stat_at("d/f").await.unwrap();
    assert_eq!((kind, len, mode, modified), (EntryKind::File, 3, 0o644, now));
    let Metadata { kind, len, mode, modified, .. } = fs.stat_at("d").await.unwrap();
    assert_eq!((kind, len, mode, modified), (EntryKind::Directory, 0, 0o755, now));
}

#[tokio::test]
async fn modes_survive_snapshots_and_writes() {
    let fs = memory([("run.sh", "echo 1")]);
    let mut json = fs.snapshot().unwrap().to_json();
    json["entries"][1]["mode"] = json!(0o755);
    fs.restore(&fs.decode_snapshot(&json).unwrap()).unwrap();
    fs.edit_text("run.sh", "1", "2").await.unwrap();
    fs.write_as("run.sh", "\n", WriteMode::Append).await.unwrap();
    fs.rename_to("run.sh", "go.sh").await.unwrap();
    assert_eq!(fs.stat_at("go.sh").await.unwrap().mode, 0o755);
}

#[tokio::test]
async fn damaged_snapshots_say_what_is_wrong() {
    let fs = memory([("d/f", &b"\xff"[..]), ("g", b"text")]);
    let good = fs.snapshot().unwrap().to_json();
    let damage = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut json = good.clone();
        change(&mut json);
        fs.decode_snapshot(&json).unwrap_err().to_string()
    };
    for (error, expected) in [
        (damage(&|json| json["format"] = json!(2)), "snapshot format 2 is not supported; 1 is"),
        (
            damage(&|json| json["entries"] = json!({})),
            "malformed filesystem snapshot: 'entries' is not a list",
        ),
        (
            damage(&|json| json["entries"] = json!([])),
            "malformed filesystem snapshot: there is no root directory",
        ),
        (
            damage(&|json| json["entries"][2]["hex"] = json!("f")),
            "malformed filesystem snapshot: entry 2: 'hex' is not hexadecimal",
        ),
        (
            damage(&|json| json["entries"][3]["path"] = json!("../g")),
            "malformed filesystem snapshot: entry 3: '../g' leads outside the workspace; paths are relative to its root",
        ),
        (
            damage(&|json| json["entries"][3]["path"] = json!("d/f")),
            "malformed filesystem snapshot: entry 3: the path occurs twice",
        ),
        (
            damage(&|json| json["entries"][3]["path"] = json!("no/g")),
            "malformed filesystem snapshot: entry 3: the directory that it is in does not come before it",
        ),
        (
            damage(&|json| json["entries"][3]["path"] = json!("d/f/g")),
            "malformed filesystem snapshot: entry 3: the directory that it is in does not come before it",
        ),
        (
            damage(&|json| json["entries"][0]["path"] = json!("x")),
            "malformed filesystem snapshot: entry 0: the first entry is not the root directory",
        ),
        (
            damage(&|json| json["entries"][1]["text"] = json!("x")),
            "malformed filesystem snapshot: entry 1: a file has 'text' or 'hex', a link 'target', a directory neither, and there is nothing else",
        ),
        (
            damage(&|json| json["entries"][1]["version"] = json!("x")),
            "malformed filesystem snapshot: entry 1: not a file version: five hexadecimal numbers joined by '-' are expected",
        ),
    ] {
        assert_eq!(error, expected);
    }
}

#[test]
fn versions_are_text_elsewhere() {
    let version = FileVersion::new([0xab, 1, 0, 0, u64::MAX]);
    assert_eq!(version.to_string(), "ab-1-0-0-ffffffffffffffff");
    assert_eq!(serde_json::to_value(version).unwrap(), json!("ab-1-0-0-ffffffffffffffff"));
    assert_eq!(serde_json::from_value::<FileVersion>(json!("ab-1-0-0-ffffffffffffffff")).unwrap(), version);
    for text in ["", "1-2-3-4", "1-2-3-4-5-6", "1-2-3-4-x"] {
        assert!(text.parse::<FileVersion>().is_err(), "{text}");
    }
}

#[tokio::test]
async fn versions_of_two_filesystems_never_meet() {
    let (one, two) = (memory([("f", "1")]), memory([("f", "2")]));
    assert_ne!(one.stat_at("f").await.unwrap().version, two.stat_at("f").await.unwrap().version);
    one.restore(&two.snapshot().unwrap()).unwrap();
    assert_eq!(one.stat_at("f").await.unwrap(), two.stat_at("f").await.unwrap());
}

#[test]
fn threads_merge_without_losing_anything() {
    let fs = Arc::new(MemoryFilesystem::new());
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let fs = fs.clone();
            std::thread::spawn(move || {
                for turn in 0..50 {
                    let fork = fs.fork().unwrap();
                    fork.write_text(&format!("out/{thread}/{turn}"), "x").await_now().unwrap();
                    let _ = fs.merge(&*fork).unwrap();
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let files = fs.glob(&FsPath::root(), "out/*/*").await_now().unwrap();
    assert_eq!(files.len(), 200);
}

#[test]
fn conflicts_are_named() {
    let paths = (0..12).map(|number| path(&format!("f{number:02}"))).collect();
    assert_eq!(
        FsError::Conflict { paths }.to_string(),
        "changed by somebody else meanwhile: f00, f01, f02, f03, f04, f05, f06, f07, f08, f09 and 2 more; \
         nothing was applied, look again and retry"
    );
}

/// In memory everything is complete at its first poll, so no runtime is needed to wait for it.
trait AwaitNow {
    type Output;
    fn await_now(self) -> Self::Output;
}

impl<T> AwaitNow for BoxFuture<'_, T> {
    type Output = T;

    fn await_now(mut self) -> T {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match self.as_mut().poll(&mut context) {
            std::task::Poll::Ready(value) => value,
            std::task::Poll::Pending => panic!("an in-memory operation did not complete at once"),
        }
    }
}

/// What a fork has merged and the base has given back, it can merge again.
#[tokio::test]
async fn a_merge_that_was_taken_back_can_be_repeated() {
    let base = MemoryFilesystem::from_files([("a", "one"), ("b", "one")]).unwrap();
    let fork = base.fork().unwrap();
    fork.write_text("b", "two").await.unwrap();
    let receipt = base.merge(&*fork).unwrap();
    base.unmerge(receipt).unwrap();
    assert_eq!(base.read_text("b").await.unwrap(), "one");
    let _receipt = base.merge(&*fork).unwrap();
    assert_eq!(base.read_text("b").await.unwrap(), "two");
    assert_eq!(fork.changes().iter().map(|path| path.as_str().to_owned()).collect::<Vec<_>>(), ["b"]);
    // Again, it has nothing new to say, and what came since stays.
    base.write_text("a", "three").await.unwrap();
    let _receipt = base.merge(&*fork).unwrap();
    assert_eq!(
        (base.read_text("a").await.unwrap(), base.read_text("b").await.unwrap()),
        ("three".to_owned(), "two".to_owned())
    );
}

#[tokio::test]
async fn a_fork_in_memory_does_not_see_what_comes_later() {
    let fs = memory([("a", "1")]);
    let fork = fs.fork().unwrap();
    fs.write_text("later", "x").await.unwrap();
    assert!(!fork.exists_at("later").await.unwrap());
}

#[tokio::test]
async fn in_memory_a_merge_that_others_built_on_is_not_taken_back() {
    let fs = memory([("a", "1")]);
    let before = fs.stat_at("a").await.unwrap();
    let fork = fs.fork().unwrap();
    fork.write_text("a", "x").await.unwrap();
    let receipt = fs.merge(&*fork).unwrap();
    fs.unmerge(receipt).unwrap();
    assert_eq!(fs.stat_at("a").await.unwrap(), before, "the version comes back as well");
    let receipt = fs.merge(&*fork).unwrap();
    fs.write_text("later", "x").await.unwrap();
    let after = filesystem_tree(&fs).await;
    assert_eq!(fs.unmerge(receipt).unwrap_err().kind(), FsErrorKind::Moved);
    assert_eq!(filesystem_tree(&fs).await, after);
}
