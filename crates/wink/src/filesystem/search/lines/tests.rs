use std::io::{self, Read};

use proptest::prelude::*;

use super::{LineSearch, SearchStop};
use crate::filesystem::text::as_text;
use crate::filesystem::{FsLimits, FsPath, GrepMatch, GrepOutcome, GrepQuery};

/// Gives a few bytes at a time.
struct Bits<'a>(&'a [u8], usize);

impl Read for Bits<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.1.min(buffer.len()).min(self.0.len());
        let (now, later) = self.0.split_at(count);
        buffer[..count].copy_from_slice(now);
        self.0 = later;
        Ok(count)
    }
}

fn file(name: &str) -> FsPath {
    FsPath::parse(name, &FsLimits::DEFAULT).unwrap()
}

fn grep(pattern: &str, max: usize, files: &[&[u8]], bits: usize) -> GrepOutcome {
    let query = GrepQuery { max: Some(max), ..GrepQuery::new(pattern) };
    let mut search = LineSearch::new(&query, &FsLimits::DEFAULT, &SearchStop::default()).unwrap();
    for (index, content) in files.iter().enumerate() {
        if !search.is_full() {
            let found = search.search(&file(&index.to_string()), Bits(content, bits)).unwrap();
            search.add(found);
        }
    }
    search.finish()
}

/// The same by way of whole files and single lines.
fn plainly(pattern: &str, max: usize, files: &[&[u8]]) -> GrepOutcome {
    let regex = regex::Regex::new(pattern).unwrap();
    let mut matches = Vec::new();
    for (index, content) in files.iter().enumerate() {
        for (line, text) in as_text(content).into_iter().flat_map(str::lines).enumerate() {
            if regex.is_match(text) {
                let text = text.to_owned();
                matches.push(GrepMatch { path: file(&index.to_string()), line: line + 1, text });
            }
        }
    }
    let truncated = matches.len() > max;
    matches.truncate(max);
    GrepOutcome { matches, truncated, too_large: Vec::new() }
}

const PATTERNS: &[&str] = &[
    "",
    "a",
    "a.",
    ".a",
    "a*",
    "b+c",
    "(?s)a.b",
    "[^a]",
    "^a",
    "a$",
    "^$",
    "\\Aa",
    "a\\z",
    "\\bb",
    "\\s",
    "\\n",
    "é",
    "(?i)É",
    "\u{feff}a",
    "a\r",
    "\r$",
    "(?m)^b",
    "a|c",
    "[\n]",
    "a\nb",
    "[[:space:]]",
    "(?s).",
];

fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => prop::sample::select(vec!["a", "b", "c", "é", "€", "😀", "\u{feff}", " "]).prop_map(|text| text.as_bytes().to_vec()),
        6 => prop::sample::select(vec!["\n", "\r\n"]).prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::sample::select(vec![vec![b'\r'], vec![0], vec![0xff], vec![0xe2, 0x82], vec![0xc0, 0x80]]),
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    // case 152
    #[test]
    fn streams_are_searched_like_whole_files(
        pattern in prop::sample::select(PATTERNS.to_vec()),
        max in 0..6_usize,
        files in prop::collection::vec(content(), 1..4),
        bits in 1..5_usize,
    ) {
        let mut files: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
        files.sort_unstable();
        // `str::lines` takes a carriage return at the very end for a part of the line.
        prop_assume!(files.iter().all(|content| !content.ends_with(b"\r")));
        prop_assert_eq!(grep(pattern, max, &files, bits), plainly(pattern, max, &files));
    }
}

// case 152
#[test]
fn a_file_that_turns_out_to_be_binary_has_no_matches() {
    let mut content = b"needle\n".repeat(100_000);
    let found = |content: &[u8]| grep("needle", 3, &[content], 4096);
    assert_eq!((found(&content).matches.len(), found(&content).truncated), (3, true));
    // At the very end, long after there was room for another match.
    content.push(0);
    assert_eq!(found(&content), GrepOutcome::default());
    content.pop();
    content.push(0xc3);
    assert_eq!(found(&content), GrepOutcome::default());
    content.push(0xa9);
    assert_eq!(found(&content).matches.len(), 3);
}

#[test]
fn what_cannot_be_read_is_no_match() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::PermissionDenied))
        }
    }
    let mut search =
        LineSearch::new(&GrepQuery::new("a"), &FsLimits::DEFAULT, &SearchStop::default()).unwrap();
    let failed = search.search(&file("f"), Failing).map(|_| ()).unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::PermissionDenied);
}

/// A file of lines without end, whose search is stopped after a while.
struct Endless(SearchStop, usize);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 += 1;
        if self.1 == 100 {
            drop(self.0.on_drop());
        }
        buffer.fill(b'a');
        if let Some(last) = buffer.last_mut() {
            *last = b'\n';
        }
        Ok(buffer.len())
    }
}

// case 258
#[test]
fn a_search_that_is_stopped_reads_no_further() {
    let stop = SearchStop::default();
    let mut search = LineSearch::new(&GrepQuery::new("b"), &FsLimits::DEFAULT, &stop).unwrap();
    let mut endless = Endless(stop, 0);
    assert!(search.search(&file("a"), &mut endless).is_err());
    assert_eq!(endless.1, 100);
}
