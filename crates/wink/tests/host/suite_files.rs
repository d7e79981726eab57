//! The file suite, through the executor.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

use std::sync::Arc;

use serde_json::{Value, json};
use wink::executor::{Executor, Outcome, ToolCall};
use wink::filesystem::{Filesystem, FilesystemExt, MemoryFilesystem};
use wink::prelude::*;
use wink::suites::{VfsConfig, VfsToolsSection};

struct Desk {
    executor: Executor,
    files: Arc<dyn Filesystem>,
}

impl Desk {
    async fn new(files: &[(&str, &str)]) -> Self {
        Self::with(files, VfsConfig::default()).await
    }

    async fn with(files: &[(&str, &str)], config: VfsConfig) -> Self {
        let files: Arc<dyn Filesystem> =
            Arc::new(MemoryFilesystem::from_files(files.iter().copied()).expect("valid files"));
        let section = VfsToolsSection::new().config(config).over(Arc::clone(&files)).section();
        let prompt =
            PromptTemplate::builder("tests", "files").section(section).build().expect("valid").prompt();
        let executor = Executor::open(&prompt, &Session::new()).await.expect("opens");
        Self { executor, files }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.executor.call(ToolCall::new("c", tool, arguments.to_string())).await
    }

    async fn says(&self, tool: &str, arguments: Value) -> String {
        let outcome = self.call(tool, arguments).await;
        format!("{}{}", if outcome.is_success() { "" } else { "FAILED: " }, outcome.text())
    }

    async fn text(&self, path: &str) -> String {
        self.files.read_text(path).await.expect("a text file")
    }
}

// case 264
#[tokio::test]
async fn a_window_after_the_end_is_no_reading() {
    let desk = Desk::new(&[("a.txt", "one\ntwo\n"), ("empty.txt", "")]).await;
    let write = |path: &str| json!({ "path": path, "content": "new" });
    for offset in [2, 100] {
        let read = desk.says("read_file", json!({ "path": "a.txt", "offset": offset })).await;
        assert_eq!(read, "a.txt: no lines after the first 2; the file has 2 lines.", "offset {offset}");
        let refused = "FAILED: Cannot write to a.txt without reading it first";
        assert_eq!(desk.says("write_file", write("a.txt")).await, refused);
    }
    // What was read before stays read.
    desk.says("read_file", json!({ "path": "a.txt", "offset": 1 })).await;
    desk.says("read_file", json!({ "path": "a.txt", "offset": 2 })).await;
    assert_eq!(desk.says("write_file", write("a.txt")).await, "Replaced a.txt (3 bytes).");
    // Of an empty file there is nothing more to see.
    desk.says("read_file", json!({ "path": "empty.txt", "offset": 3 })).await;
    assert_eq!(desk.says("write_file", write("empty.txt")).await, "Replaced empty.txt (3 bytes).");
}

// case 258
#[tokio::test]
async fn a_pattern_that_is_too_long_or_too_large_is_refused() {
    let desk = Desk::new(&[("a.txt", "one\n")]).await;
    for pattern in ["a".repeat(1 << 20), "(a|b)".repeat(1000), "[a-z".repeat(2000)] {
        for tool in ["grep", "glob"] {
            let refused = desk.says(tool, json!({ "pattern": pattern })).await;
            assert!(refused.starts_with("FAILED: ") && refused.contains("it is longer than "), "{refused}");
            assert!(refused.len() < 400, "{} bytes", refused.len());
        }
        let refused = desk.says("grep", json!({ "pattern": "a", "glob": pattern })).await;
        assert!(
            refused.starts_with("FAILED: ") && refused.contains("it is longer than 1024 bytes"),
            "{refused}"
        );
    }
    for pattern in [
        "(((a{1000}){1000}){1000})",
        r"(\pL{100}){100}",
        "((((((((((a{9}){9}){9}){9}){9}){9}){9}){9}){9}){9})",
    ] {
        let refused = desk.says("grep", json!({ "pattern": pattern })).await;
        assert!(refused.starts_with("FAILED: ") && refused.contains("size limit"), "{refused}");
    }
    // One that is as long as may be is searched for.
    assert_eq!(desk.says("grep", json!({ "pattern": "o".repeat(4096) })).await, "No line matches.");
}

// case 258
#[tokio::test]
async fn a_long_search_does_not_keep_its_thread() {
    let text = "abcdefghij klmnop qrstuv\n".repeat(200_000);
    let desk = Desk::new(&[("long.txt", &text)]).await;
    let query = wink::filesystem::GrepQuery::new("[a-q][^u-z]{13}x");
    let root = wink::filesystem::FsPath::root();
    let mut searching = desk.files.grep(&root, &query);
    let mut polls = 0;
    let found = std::future::poll_fn(|cx| {
        polls += 1;
        searching.as_mut().poll(cx)
    });
    assert!(found.await.expect("searched").matches.is_empty());
    assert!(polls > 1, "all of it was done in one poll");
}

// cases 166, 188
#[tokio::test]
async fn an_existing_file_is_read_before_it_is_written() {
    let desk = Desk::new(&[("config.json", "{}"), ("other.txt", "x")]).await;
    let write = json!({ "path": "config.json", "content": "{\"a\":1}" });
    assert_eq!(
        desk.says("write_file", write.clone()).await,
        "FAILED: Cannot write to config.json without reading it first"
    );
    assert_eq!(desk.text("config.json").await, "{}");
    assert_eq!(
        desk.says("read_file", json!({ "path": "/config.json" })).await,
        "config.json, lines 1-1 of 1:\n1 | {}"
    );
    assert_eq!(desk.says("write_file", write).await, "Replaced config.json (7 bytes).");
    assert_eq!(desk.text("config.json").await, "{\"a\":1}");

    // What the session wrote it knows; what somebody else changed it does not.
    let edit = json!({ "path": "./config.json", "old_string": "1", "new_string": "2" });
    assert_eq!(desk.says("edit_file", edit.clone()).await, "Edited config.json (1 replacement).");
    desk.files.write_text("config.json", "{\"a\":1, \"b\":2}").await.expect("written");
    assert_eq!(
        desk.says("edit_file", edit).await,
        "FAILED: Cannot write to config.json without reading it first"
    );

    // New files are free, and what is new is known.
    let new = json!({ "path": "deep/er/new.txt", "content": "n" });
    assert_eq!(desk.says("write_file", new).await, "Created deep/er/new.txt (1 byte).");
    assert_eq!(
        desk.says("delete_file", json!({ "path": "deep/er/new.txt" })).await,
        "Deleted deep/er/new.txt."
    );
    assert_eq!(
        desk.says("delete_file", json!({ "path": "other.txt" })).await,
        "FAILED: Cannot write to other.txt without reading it first"
    );
}

// case 167
#[tokio::test]
async fn an_edit_needs_one_match_unless_all_are_meant() {
    let desk = Desk::new(&[("a.txt", "one two one\r\n")]).await;
    let _ = desk.call("read_file", json!({ "path": "a.txt" })).await;
    let edit = |old: &str, all: bool| json!({ "path": "a.txt", "old_string": old, "new_string": "1", "replace_all": all });
    let texts = [
        desk.says("edit_file", edit("one", false)).await,
        desk.says("edit_file", edit("three", false)).await,
        desk.says("edit_file", edit("one\n", false)).await,
        desk.says("edit_file", edit("", false)).await,
        desk.says("edit_file", edit("", true)).await,
    ];
    assert_eq!(desk.text("a.txt").await, "one two one\r\n");
    insta::assert_snapshot!(texts.join("\n"), @r"
    FAILED: old_string occurs 2 times in 'a.txt'; give more of the lines around it, or set replace_all
    FAILED: old_string does not occur in 'a.txt'; read it and copy the text exactly, whitespace included
    FAILED: old_string does not occur in 'a.txt'; its lines end in CRLF (\r\n), so the text to replace must as well
    FAILED: Invalid arguments: `old_string`: expected at least 1 character, got 0
    FAILED: Invalid arguments: `old_string`: expected at least 1 character, got 0
    ");
    assert_eq!(desk.says("edit_file", edit("one", true)).await, "Edited a.txt (2 replacements).");
    assert_eq!(desk.text("a.txt").await, "1 two 1\r\n");
}

// case 168
#[tokio::test]
async fn an_edit_leaves_every_other_byte() {
    for (before, after) in [
        ("a\r\nold\r\n\r\nz\r\n", "a\r\nnew\r\n\r\nz\r\n"),
        ("a\nold", "a\nnew"),
        ("old\n\n\n", "new\n\n\n"),
        ("\u{feff}old\r", "\u{feff}new\r"),
    ] {
        let desk = Desk::new(&[("f", before)]).await;
        let _ = desk.call("read_file", json!({ "path": "f" })).await;
        let edit = json!({ "path": "f", "old_string": "old", "new_string": "new" });
        assert!(desk.call("edit_file", edit).await.is_success());
        assert_eq!(desk.text("f").await, after);
    }
}

// case 169
#[tokio::test]
async fn an_edit_of_a_long_file_keeps_all_of_it() {
    let text: String = (1..=2500).map(|line| format!("line {line}\n")).collect();
    let desk = Desk::new(&[("long.txt", &text)]).await;
    let read = desk.says("read_file", json!({ "path": "long.txt" })).await;
    assert!(
        read.starts_with("long.txt, lines 1-2000 of 2500; go on with offset 2000:\n   1 | line 1\n"),
        "{read}"
    );
    assert!(read.ends_with("\n2000 | line 2000"), "{read}");
    let edit = json!({ "path": "long.txt", "old_string": "line 2400\n", "new_string": "changed\n" });
    assert!(desk.call("edit_file", edit).await.is_success());
    assert_eq!(desk.text("long.txt").await, text.replace("line 2400\n", "changed\n"));
}

// case 170
#[tokio::test]
async fn lines_are_numbered_from_1_under_a_header() {
    let desk = Desk::new(&[
        ("ten.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\nten"),
        ("crlf.txt", "a\r\n\r\n"),
        ("empty.txt", ""),
        ("dir/x", ""),
    ])
    .await;
    let binary = desk.files.path("bin").expect("a path");
    desk.files.write(&binary, b"\0", Default::default()).await.expect("written");
    let mut texts = Vec::new();
    for arguments in [
        json!({ "path": "ten.txt", "offset": 8 }),
        json!({ "path": "ten.txt", "offset": 1, "limit": 2 }),
        json!({ "path": "ten.txt", "offset": 10 }),
        json!({ "path": "ten.txt", "offset": 4294967295u32, "limit": 4294967295u32 }),
        json!({ "path": "ten.txt", "limit": 0 }),
        json!({ "path": "crlf.txt" }),
        json!({ "path": "empty.txt" }),
        json!({ "path": "empty.txt", "offset": 3 }),
        json!({ "path": "missing.txt" }),
        json!({ "path": "dir" }),
        json!({ "path": "bin" }),
    ] {
        texts.push(desk.says("read_file", arguments).await);
    }
    insta::assert_snapshot!(texts.join("\n---\n"));
}

#[tokio::test]
async fn a_read_stops_where_it_fits_and_goes_on() {
    let text: String = (0..100).map(|_| format!("{}\n", "x".repeat(99))).collect();
    let config = VfsConfig { max_read_bytes: 1000, ..VfsConfig::default() };
    let desk = Desk::with(&[("wide.txt", &text), ("line.txt", &"y".repeat(5000))], config).await;
    let first = desk.says("read_file", json!({ "path": "wide.txt" })).await;
    assert!(first.starts_with("wide.txt, lines 1-10 of 100; go on with offset 10:\n"), "{first}");
    let next = desk.says("read_file", json!({ "path": "wide.txt", "offset": 10, "limit": 15 })).await;
    assert!(next.starts_with("wide.txt, lines 11-20 of 100; go on with offset 20:\n"), "{next}");
    // One line is always shown, so that reading comes to an end.
    let line = desk.says("read_file", json!({ "path": "line.txt" })).await;
    assert_eq!(line, format!("line.txt, lines 1-1 of 1:\n1 | {}", "y".repeat(5000)));
}

// case 171
#[tokio::test]
async fn paths_stay_inside_and_within_limits() {
    let desk = Desk::new(&[("in/a.txt", "a")]).await;
    let deep = vec!["d"; 17].join("/");
    let long = "n".repeat(81);
    for path in ["../x", "in/../../x", "/..", deep.as_str(), long.as_str(), "nul\0"] {
        for (tool, arguments) in [
            ("read_file", json!({ "path": path })),
            ("write_file", json!({ "path": path, "content": "" })),
            ("edit_file", json!({ "path": path, "old_string": "a", "new_string": "b" })),
            ("delete_file", json!({ "path": path })),
            ("list_directory", json!({ "path": path })),
            ("glob", json!({ "path": path, "pattern": "*" })),
            ("grep", json!({ "path": path, "pattern": "a" })),
        ] {
            let outcome = desk.call(tool, arguments).await;
            assert!(!outcome.is_success(), "{tool} {path}");
        }
    }
    let outside = desk.says("read_file", json!({ "path": "../x" })).await;
    assert_eq!(outside, "FAILED: '../x' leads outside the workspace; paths are relative to its root");

    assert_eq!(
        desk.says("read_file", json!({ "path": "/in/../in//a.txt" })).await,
        "in/a.txt, lines 1-1 of 1:\n1 | a"
    );
    let name = format!("{}/é日本.txt", vec!["d"; 15].join("/"));
    let written = desk.says("write_file", json!({ "path": name, "content": "ß" })).await;
    assert_eq!(written, format!("Created {name} (2 bytes)."));
    assert_eq!(
        desk.says("read_file", json!({ "path": name })).await,
        format!("{name}, lines 1-1 of 1:\n1 | ß")
    );
    let longest = "日".repeat(80);
    assert!(desk.call("write_file", json!({ "path": longest, "content": "" })).await.is_success());
}

#[tokio::test]
async fn listing_and_searching() {
    let files = [("a.py", "import os\nx = 1\n"), ("src/b.py", "import re\n"), ("src/deep/c.txt", "import\n")];
    let config = VfsConfig { max_entries: 2, max_match_chars: 8, ..VfsConfig::default() };
    let desk = Desk::with(&files, config).await;
    let mut texts = Vec::new();
    for (tool, arguments) in [
        ("list_directory", json!({})),
        ("list_directory", json!({ "path": "src" })),
        ("list_directory", json!({ "path": "a.py" })),
        ("glob", json!({ "pattern": "**/*.py" })),
        ("glob", json!({ "pattern": "*.py", "path": "/src" })),
        ("glob", json!({ "pattern": "**" })),
        ("glob", json!({ "pattern": "*.rs" })),
        ("glob", json!({ "pattern": "[" })),
        ("grep", json!({ "pattern": "^import" })),
        ("grep", json!({ "pattern": "import", "glob": "**/*.py", "path": "src" })),
        ("grep", json!({ "pattern": "nowhere" })),
        ("grep", json!({ "pattern": "(" })),
        ("delete_file", json!({ "path": "src" })),
        ("delete_file", json!({ "path": "gone" })),
        ("write_file", json!({ "path": "src", "content": "" })),
        ("write_file", json!({ "path": "a.py/x", "content": "" })),
    ] {
        texts.push(format!("{tool} {arguments}\n{}", desk.says(tool, arguments.clone()).await));
    }
    insta::assert_snapshot!(texts.join("\n---\n"));
}

#[tokio::test]
async fn read_before_write_can_be_left_out() {
    let config = VfsConfig { read_before_write: false, ..VfsConfig::default() };
    let desk = Desk::with(&[("a", "x"), ("dir/b", "")], config).await;
    assert_eq!(desk.says("write_file", json!({ "path": "a", "content": "y" })).await, "Replaced a (1 byte).");
    assert_eq!(
        desk.says("delete_file", json!({ "path": "dir" })).await,
        "FAILED: 'dir' is a directory; a file was expected. list_directory shows what is in it"
    );
}

#[tokio::test]
async fn a_batch_on_different_files_answers_in_order() {
    let desk = Desk::new(&[("a.txt", "a"), ("b.txt", "b")]).await;
    let call = |id: &str, tool: &str, arguments: Value| ToolCall::new(id, tool, arguments.to_string());
    let outcomes = desk
        .executor
        .batch(vec![
            call("1", "read_file", json!({ "path": "a.txt" })),
            call("2", "read_file", json!({ "path": "b.txt" })),
            call("3", "write_file", json!({ "path": "a.txt", "content": "A" })),
            call("4", "write_file", json!({ "path": "new/n.txt", "content": "N" })),
            call("5", "write_file", json!({ "path": "new/m.txt", "content": "M" })),
            call("6", "grep", json!({ "pattern": "." })),
        ])
        .await;
    let texts = Vec::from_iter(outcomes.iter().map(Outcome::text));
    assert_eq!(
        texts,
        [
            "a.txt, lines 1-1 of 1:\n1 | a",
            "b.txt, lines 1-1 of 1:\n1 | b",
            "Replaced a.txt (1 byte).",
            "Created new/n.txt (1 byte).",
            "Created new/m.txt (1 byte).",
            "a.txt:1: A\nb.txt:1: b\nnew/m.txt:1: M\nnew/n.txt:1: N",
        ]
    );
}

#[tokio::test]
async fn the_section_brings_a_workspace_of_its_own() {
    let section: Section = VfsToolsSection::new().into();
    let prompt = PromptTemplate::builder("tests", "files").section(section).build().expect("valid").prompt();
    let executor = Executor::open(&prompt, &Session::new()).await.expect("opens");
    insta::assert_snapshot!(executor.rendered().expect("rendered").text());
    let write = ToolCall::new("c", "write_file", r#"{"path":"a","content":"x"}"#);
    assert!(executor.call(write).await.is_success());
    let files = executor.resources().get::<dyn Filesystem>().await.expect("bound");
    assert_eq!(files.read_text("a").await.expect("written"), "x");
    let schemas = executor.rendered().expect("rendered");
    let schemas =
        Vec::from_iter(schemas.tools().iter().map(|tool| tool.tool.contract().schema_text().to_owned()));
    insta::assert_snapshot!(schemas.join("\n"));
}
