//! Glob and grep.

use super::*;
use crate::filesystem::{GrepMatch, GrepQuery};

pub(super) async fn check(make: Make<'_>) {
    globs(make).await;
    globs_are_checked(make).await;
    greps(make).await;
    greps_are_bounded(make).await;
}

async fn globbed(fs: &dyn Filesystem, base: &str, pattern: &str) -> Vec<String> {
    let found = fs.glob(&at(fs, base), pattern).await.expect("the pattern is valid");
    found.iter().map(|entry| entry.path.to_string()).collect()
}

async fn globs(make: Make<'_>) {
    let files: Vec<(&str, &str)> =
        ["a.py", "a/b.py", "a/c/d.py", "a/c/d.txt", "a-b.py", "é.py", ".hidden.py", "日本/本.txt"]
            .map(|path| (path, ""))
            .to_vec();
    let fs = seeded(make, &files);
    for (base, pattern, expected) in [
        ("", "*.py", &[".hidden.py", "a-b.py", "a.py", "é.py"][..]),
        ("", "**/*.py", &[".hidden.py", "a-b.py", "a.py", "a/b.py", "a/c/d.py", "é.py"]),
        ("", "a/**", &["a/b.py", "a/c", "a/c/d.py", "a/c/d.txt"]),
        ("", "/a/*.py", &["a/b.py"]),
        ("", "./a.py", &["a.py"]),
        ("", "a/**/d.*", &["a/c/d.py", "a/c/d.txt"]),
        ("", "a/**/b.py", &["a/b.py"]),
        ("", "*", &[".hidden.py", "a", "a-b.py", "a.py", "é.py", "日本"]),
        ("", "?.py", &["a.py", "é.py"]),
        ("", "[é-ê].py", &["é.py"]),
        ("", "日本/*", &["日本/本.txt"]),
        ("", "{a,日本}/*.{py,txt}", &["a/b.py", "日本/本.txt"]),
        ("", "**/a[!b]b.py", &["a-b.py"]),
        ("", "A.PY", &[]),
        ("a", "*.py", &["a/b.py"]),
        ("a", "**/*.py", &["a/b.py", "a/c/d.py"]),
        ("a/c", "../*.py", &[]),
    ] {
        if pattern.contains("..") {
            refused(fs.glob(&at(&*fs, base), pattern).await, FsErrorKind::InvalidPattern);
        } else {
            assert_eq!(globbed(&*fs, base, pattern).await, expected, "{pattern} from '{base}'");
        }
    }
    let everything = globbed(&*fs, "", "**").await;
    assert_eq!(everything.len(), 11);
    assert!(everything.is_sorted(), "sorted by path: {everything:?}");
    refused(fs.glob(&at(&*fs, "missing"), "*").await, FsErrorKind::NotFound);
    refused(fs.glob(&at(&*fs, "a.py"), "*").await, FsErrorKind::NotDirectory);
}

async fn globs_are_checked(make: Make<'_>) {
    let fs = seeded(make, &[("a{1", "")]);
    let nested = "{".repeat(400) + &"}".repeat(400);
    for pattern in ["", "/", "[a", "{a", "a}", "[z-a]", "\\", &nested, &"a".repeat(2000)] {
        refused(fs.glob(&FsPath::root(), pattern).await, FsErrorKind::InvalidPattern);
        let query = GrepQuery { glob: Some(pattern.to_owned()), ..GrepQuery::new("x") };
        refused(fs.grep(&FsPath::root(), &query).await, FsErrorKind::InvalidPattern);
    }
    assert_eq!(globbed(&*fs, "", r"a\{1").await, ["a{1"]);
}

fn hit(fs: &dyn Filesystem, path: &str, line: usize, text: &str) -> GrepMatch {
    GrepMatch { path: at(fs, path), line, text: text.to_owned() }
}

async fn greps(make: Make<'_>) {
    let fs = seeded(
        make,
        &[("a/x.py", "one\r\ntwo\nthree"), ("a.txt", "zero\none two\n"), ("b/y.py", "TWO\ntwo")],
    );
    write_bytes(&*fs, "binary", b"two\x00two").await;
    write_bytes(&*fs, "latin", b"two caf\xe9").await;
    let grep = |base: &str, query: GrepQuery| {
        let (fs, base) = (fs.clone(), at(&*fs, base));
        async move { fs.grep(&base, &query).await.expect("the query is valid") }
    };
    let all =
        [hit(&*fs, "a.txt", 2, "one two"), hit(&*fs, "a/x.py", 2, "two"), hit(&*fs, "b/y.py", 2, "two")];
    let outcome = grep("", GrepQuery::new("two")).await;
    assert_eq!((outcome.matches.as_slice(), outcome.truncated), (&all[..], false));
    let outcome = grep("", GrepQuery { max: Some(2), ..GrepQuery::new("two") }).await;
    assert_eq!((outcome.matches.as_slice(), outcome.truncated), (&all[..2], true));
    let outcome = grep("", GrepQuery { max: Some(3), ..GrepQuery::new("two") }).await;
    assert_eq!((outcome.matches.as_slice(), outcome.truncated), (&all[..], false));
    let outcome = grep("", GrepQuery { glob: Some("**/*.py".to_owned()), ..GrepQuery::new("two") }).await;
    assert_eq!(outcome.matches, all[1..]);
    let outcome = grep("", GrepQuery { glob: Some("*.txt".to_owned()), ..GrepQuery::new("two") }).await;
    assert_eq!(outcome.matches, all[..1]);
    assert_eq!(grep("b", GrepQuery::new("two")).await.matches, all[2..]);
    assert_eq!(grep("b/y.py", GrepQuery::new("(?i)two")).await.matches.len(), 2, "one file");
    let outcome = grep("", GrepQuery::new("^one$")).await;
    assert_eq!(outcome.matches, [hit(&*fs, "a/x.py", 1, "one")], "line endings are not part of a line");
    refused(fs.grep(&at(&*fs, "missing"), &GrepQuery::new("x")).await, FsErrorKind::NotFound);
    refused(fs.grep(&FsPath::root(), &GrepQuery::new("(")).await, FsErrorKind::InvalidPattern);
    let huge = GrepQuery::new("((a{1000}){1000}){1000}");
    refused(fs.grep(&FsPath::root(), &huge).await, FsErrorKind::InvalidPattern);
}

async fn greps_are_bounded(make: Make<'_>) {
    let fs = limited(make, FsLimits { max_grep_matches: 3, ..FsLimits::DEFAULT });
    fs.write_text("f", "x\nx\nx\nx\n").await.unwrap();
    let query = GrepQuery { max: Some(100), ..GrepQuery::new("x") };
    let outcome = fs.grep(&FsPath::root(), &query).await.unwrap();
    assert_eq!((outcome.matches.len(), outcome.truncated), (3, true));
    // A backtracking engine would not come back from this one.
    fs.write_text("f", &("a".repeat(5000) + "!")).await.unwrap();
    let outcome = fs.grep(&FsPath::root(), &GrepQuery::new("^(a+)+$")).await.unwrap();
    assert!(outcome.matches.is_empty());
}
