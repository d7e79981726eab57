//! `evaluate_python` through the executor.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests panic when they fail")]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use support::{Desk, WORKER, brief};
use wink::BoxFuture;
use wink::executor::{CallOptions, ToolCall};
use wink::filesystem::FilesystemExt;
use wink::limits::Clock;
use wink::session::{InvocationId, Session};
use wink::testing::FakeClock;
use wink::tool::Progress;
use wink_eval::{Captured, Finished, Interpreter, Limits, Program, Success, WorkerProcess};

async fn desk(files: &[(&str, &str)]) -> Desk {
    Desk::with(WorkerProcess::new(WORKER), Limits::default(), files).await
}

#[tokio::test]
async fn a_program_shows_its_value_and_what_it_printed() {
    let desk = Desk::new().await;
    let mut texts = Vec::new();
    for code in [
        "1 + 1",
        "'a\\n' * 2",
        "print('one', 2)\nprint('three')",
        "print('x')\n{'a': [1, 2.5, None]}",
        "x = 1",
        "None",
        "import json, math\njson.dumps({'pi': round(math.pi, 3)})",
        "from collections import Counter\nsorted(Counter('hello').items())",
        "import re\nre.findall(r'\\d+', 'a1b22')",
        "class A:\n    def f(self):\n        return [n * n for n in range(4)]\nA().f()",
        "def open(x):\n    return x + 1\nopen(1)",
        "# é日本\n'é日本'\r\n",
        "\t",
    ] {
        texts.push(desk.runs(code).await);
    }
    insta::assert_snapshot!(texts.join("\n---\n"));
}

// case 179
#[tokio::test]
async fn what_is_no_program_is_rejected() {
    let desk = Desk::new().await;
    let long = format!("# {}", "é".repeat(1998));
    assert_eq!(desk.runs(&long).await, "The program ended well, without a value and without output.");
    let mut texts = vec![desk.runs(&format!("{long}x")).await, desk.runs("").await];
    for code in ["x = 1\ny = '\u{0}'", "print('\u{1b}[31m')", "'\u{7f}'", "'\u{85}'", "a\u{b}b"] {
        texts.push(desk.runs(code).await);
    }
    for code in ["def f(:", "x = (1,\n\n", "print('a'", "1 +* 2"] {
        texts.push(desk.runs(code).await);
    }
    for arguments in [
        json!({}),
        json!({ "code": "1", "reads": [{ "path": "a", "name": "not a name" }] }),
        json!({ "code": "1", "writes": [{ "path": "a", "name": "x", "mode": "delete" }] }),
    ] {
        texts.push(desk.says(arguments).await);
    }
    insta::assert_snapshot!(texts.join("\n---\n"));
}

// case 179
#[tokio::test]
async fn what_is_not_there_is_named_with_what_to_use_instead() {
    let desk = Desk::new().await;
    let mut texts = Vec::new();
    for code in [
        "import os",
        "import math, socket",
        "x = 1\n\ndef f():\n    import os.path as p",
        "from subprocess import run",
        "from . import x",
        "import numpy as np",
        "import requests",
        "import time",
        "try:\n    import sys\nexcept ImportError:\n    pass",
        "from pathlib import Path\nPath('/etc/passwd').read_text()",
        "open('/etc/passwd').read()",
        "f = open\nf('/etc/passwd').read()",
        "eval('1')",
        "__import__('os')",
        "().__class__.__bases__[0].__subclasses__()",
        "def g():\n    yield 1",
        "def g():\n    yield from [1]",
        "match 1:\n    case 1: pass",
        "a = [1]\ndel a[0]",
        "import datetime\ndatetime.datetime.now()",
        "1/0",
        "def f(n):\n    return g(n)\ndef g(n):\n    raise ValueError('no ' + n)\nprint('before')\nf('way')",
        "undefined_name",
        "1 + 2j",
    ] {
        texts.push(format!("{code}\n=> {}", desk.runs(code).await));
    }
    insta::assert_snapshot!(texts.join("\n---\n"));
}

#[tokio::test]
async fn files_are_given_and_taken_as_declared() {
    let desk = desk(&[("in/a.csv", "x,1\ny,2\n"), ("log.txt", "old\n")]).await;
    let said = desk
        .says(json!({
            "code": "total = str(sum(int(row.split(',')[1]) for row in a.splitlines()))\nline = log.upper()",
            "reads": [{ "path": "in/a.csv", "name": "a" }, { "path": "/log.txt", "name": "log" }],
            "writes": [
                { "path": "out/total.txt", "name": "total" },
                { "path": "log.txt", "name": "line", "mode": "append" },
                { "path": "out/total.txt", "name": "line", "mode": "overwrite" },
                { "path": "./new.txt", "name": "a", "mode": "overwrite" },
            ],
        }))
        .await;
    insta::assert_snapshot!(said, @r"
    Created out/total.txt (1 byte).
    Wrote to log.txt (4 bytes).
    Wrote to out/total.txt (4 bytes).
    Created new.txt (8 bytes).
    ");
    assert_eq!(desk.files.read_text("log.txt").await.expect("there"), "old\nOLD\n");
    assert_eq!(desk.files.read_text("out/total.txt").await.expect("there"), "OLD\n");
    assert_eq!(desk.files.read_text("new.txt").await.expect("there"), "x,1\ny,2\n");
}

// case 180
#[tokio::test]
async fn a_write_that_violates_its_mode_is_reported_and_nothing_is_written() {
    let desk = desk(&[("a.txt", "old"), ("dir/x", "")]).await;
    let before = desk.files.snapshot().expect("a snapshot").to_json();
    let write = |path: &str, name: &str, mode: &str| json!({ "path": path, "name": name, "mode": mode });
    let mut texts = Vec::new();
    for writes in [
        json!([write("first.txt", "t", "create"), write("a.txt", "t", "create")]),
        json!([write("b.txt", "t", "create"), write("b.txt", "t", "create")]),
        json!([write("first.txt", "t", "create"), write("dir", "t", "overwrite")]),
        json!([write("a.txt/x", "t", "append")]),
        json!([write("../x", "t", "overwrite")]),
        json!([write("first.txt", "t", "overwrite"), write("n.txt", "number", "create")]),
        json!([write("first.txt", "missing", "create")]),
        json!([write("first.txt", "local", "create")]),
    ] {
        let code = "t = 'text'\nnumber = 7\ndef f():\n    local = 'x'\nf()";
        texts.push(desk.says(json!({ "code": code, "writes": writes })).await);
    }
    let read = |path: &str| json!({ "code": "1", "reads": [{ "path": path, "name": "x" }] });
    for path in ["gone.txt", "dir", "../x"] {
        texts.push(desk.says(read(path)).await);
    }
    texts.push(desk.says(json!({ "code": "1", "reads": [{ "path": "a.txt", "name": "lambda" }] })).await);
    assert_eq!(desk.files.snapshot().expect("a snapshot").to_json(), before);
    insta::assert_snapshot!(texts.join("\n---\n"));
}

// case 179
#[tokio::test]
async fn a_program_that_is_out_of_time_has_written_nothing() {
    assert_eq!(Limits::default().time, std::time::Duration::from_secs(5));
    let desk = Desk::with(WorkerProcess::new(WORKER), brief(), &[("a.txt", "old")]).await;
    let said = desk
        .says(json!({
            "code": "t = 'new'\nprint('started')\nwhile True:\n    pass",
            "writes": [{ "path": "a.txt", "name": "t", "mode": "overwrite" }, { "path": "b.txt", "name": "t" }],
        }))
        .await;
    assert_eq!(
        said,
        "FAILED: the program was stopped after 500 ms; nothing it did counts. Do less in one call\n\nOutput before that:\nstarted"
    );
    assert_eq!(desk.files.read_text("a.txt").await.expect("there"), "old");
    assert!(!desk.files.exists_at("b.txt").await.expect("looked"));
}

#[tokio::test]
async fn texts_are_bounded() {
    let limits = Limits { text: 100, output: 40, ..Limits::default() };
    let desk = Desk::with(
        WorkerProcess::new(WORKER),
        limits,
        &[("big", &"x".repeat(60)), ("big2", &"x".repeat(60))],
    )
    .await;
    let read = |path: &str| json!({ "path": path, "name": path });
    let mut texts = vec![
        desk.says(json!({ "code": "len(big)", "reads": [read("big")] })).await,
        desk.says(json!({ "code": "1", "reads": [read("big"), read("big2")] })).await,
        desk.says(json!({ "code": "t = 'x' * 101", "writes": [{ "path": "o", "name": "t" }] })).await,
    ];
    texts.push(desk.runs("for n in range(20):\n    print('é', n)").await);
    texts.push(desk.runs("'y' * 50").await);
    insta::assert_snapshot!(texts.join("\n---\n"));
}

/// Anything that runs programs will do.
struct Echo;

impl Interpreter for Echo {
    fn run<'a>(&'a self, program: Program, _: &'a Limits, _: &'a Arc<dyn Clock>) -> BoxFuture<'a, Finished> {
        let success = Success { value: Some(program.code), outputs: program.outputs };
        let stdout = Captured { text: format!("{:?}", program.inputs), dropped: 0 };
        Box::pin(async move { Finished { stdout, outcome: Ok(success) } })
    }
}

#[tokio::test]
async fn another_interpreter_can_be_used() {
    let desk = Desk::with(Echo, Limits::default(), &[("a", "text")]).await;
    let said = desk
        .says(json!({ "code": "c", "reads": [{ "path": "a", "name": "x" }], "writes": [{ "path": "b", "name": "y" }] }))
        .await;
    assert_eq!(said, "Value: c\n\nOutput:\n[(\"x\", \"text\")]\n\nCreated b (1 byte).");
    insta::assert_snapshot!(desk.executor.rendered().expect("rendered").text());
}

/// A program that takes so long.
struct Slow(Duration);

impl Interpreter for Slow {
    fn run<'a>(&'a self, _: Program, _: &'a Limits, clock: &'a Arc<dyn Clock>) -> BoxFuture<'a, Finished> {
        Box::pin(async move {
            clock.sleep_until(clock.monotonic() + self.0).await;
            Finished {
                stdout: Captured::default(),
                outcome: Ok(Success { value: Some("1".to_owned()), outputs: Vec::new() }),
            }
        })
    }
}

/// What a call said of how far it was.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Progress for Told {
    fn progress(&self, _: InvocationId, done: f64, total: Option<f64>, message: &str) {
        self.0.lock().expect("whole").push(format!("{done} {total:?} {message}"));
    }

    fn partial(&self, _: InvocationId, _: &str) {}
}

#[tokio::test]
async fn a_program_that_takes_long_says_so_every_second() {
    let clock = Arc::new(FakeClock::new("2026-03-01T12:00:00Z".parse().expect("a time")));
    let session = Session::builder().clock(Arc::clone(&clock) as _).build();
    let desk = Desk::of(&session, Slow(Duration::from_millis(3500)), Limits::default(), &[]).await;
    let told = Arc::new(Told::default());
    let options = CallOptions::new().progress(Arc::clone(&told) as _);
    let call = ToolCall::new("c", "evaluate_python", json!({ "code": "1" }).to_string());
    let mut calling = std::pin::pin!(desk.executor.call_with(call, options));
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut calling => break outcome,
            () = tokio::task::yield_now() => clock.advance(Duration::from_millis(500)),
        }
    };
    assert_eq!(outcome.text(), "Value: 1");
    let told = told.0.lock().expect("whole");
    assert_eq!(*told, ["1 None running for 1 s", "2 None running for 2 s", "3 None running for 3 s"]);
}
