//! Glob and grep: patterns and line matching, the same for every implementation.

use globset::GlobBuilder;
use regex::{Regex, RegexBuilder};

use super::error::shown;
use super::text::as_text;
use super::{FsError, FsLimits, FsPath, FsResult, GrepMatch, GrepOutcome, GrepQuery};

/// Bounds the automaton of one pattern, and with it the cost of matching one character.
const MAX_PATTERN_MEMORY: usize = 2 * 1024 * 1024;
/// No reasonable glob is longer; the bound keeps nested alternatives shallow.
const MAX_GLOB_BYTES: usize = 1024;

/// Files that are named as too large to be searched.
const MAX_TOO_LARGE: usize = 10;

/// A checked glob.
pub(crate) struct GlobPattern {
    regex: Regex,
    max_depth: usize,
}

impl GlobPattern {
    /// Compiles `pattern`, which is relative to the base of the search.
    pub(crate) fn new(pattern: &str) -> FsResult<Self> {
        let invalid = |reason: String| FsError::InvalidPattern { pattern: shown(pattern), reason };
        let relative = pattern.trim_start_matches('/');
        let relative = relative.strip_prefix("./").unwrap_or(relative);
        if relative.is_empty() {
            return Err(invalid("it is empty; '**' matches everything".to_owned()));
        }
        if relative.len() > MAX_GLOB_BYTES {
            return Err(invalid(format!("it is longer than {MAX_GLOB_BYTES} bytes")));
        }
        if relative.split('/').any(|segment| segment == "..") {
            return Err(invalid("'..' cannot be matched; search from another directory".to_owned()));
        }
        let glob = GlobBuilder::new(relative)
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| invalid(error.kind().to_string()))?;
        let regex = RegexBuilder::new(&by_characters(glob.regex()))
            .dot_matches_new_line(true)
            .size_limit(MAX_PATTERN_MEMORY)
            .build()
            .map_err(|_| invalid("it is too large or nested too deeply".to_owned()))?;
        // Without `**` nothing below this depth can match, so a search need not go there.
        let slashes = relative.matches('/').count();
        let max_depth = if relative.contains("**") { usize::MAX } else { slashes + 1 };
        Ok(Self { regex, max_depth })
    }

    /// Whether a path relative to the base matches.
    pub(crate) fn matches(&self, relative: &str) -> bool {
        self.regex.is_match(relative)
    }

    /// How many segments a match can have.
    pub(crate) fn max_depth(&self) -> usize {
        self.max_depth
    }
}

/// Turns the byte-wise regular expression of a glob into one over characters, so that `?` and classes work
/// in every script: the UTF-8 bytes of a literal come as `\xNN` escapes and become the character again.
/// Negated classes exclude `/`, which only a `/` or `**` may match.
fn by_characters(regex: &str) -> String {
    let regex = regex.strip_prefix("(?-u)").unwrap_or(regex);
    let mut bytes = Vec::with_capacity(regex.len());
    let mut rest = regex.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        match (byte, tail) {
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
                bytes.push(digit(*high) << 4 | digit(*low));
                rest = tail;
            }
            (b'\\', [escaped, tail @ ..]) => {
                bytes.extend([b'\\', *escaped]);
                rest = tail;
            }
            (b'[', [b'^', tail @ ..]) => {
                bytes.extend(b"[^/");
                rest = tail;
            }
            _ => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A grep in progress: files are handed in sorted by path until it is full.
pub(crate) struct LineSearch {
    regex: Regex,
    glob: Option<GlobPattern>,
    max: usize,
    max_bytes: usize,
    outcome: GrepOutcome,
}

impl LineSearch {
    /// Checks the query.
    pub(crate) fn new(query: &GrepQuery, limits: &FsLimits) -> FsResult<Self> {
        let regex =
            RegexBuilder::new(&query.pattern).size_limit(MAX_PATTERN_MEMORY).build().map_err(|error| {
                FsError::InvalidPattern { pattern: shown(&query.pattern), reason: shown(&error.to_string()) }
            })?;
        let glob = query.glob.as_deref().map(GlobPattern::new).transpose()?;
        let max = query.max.map_or(limits.max_grep_matches, |max| max.min(limits.max_grep_matches));
        let max_bytes = limits.max_read_bytes;
        Ok(Self { regex, glob, max, max_bytes, outcome: GrepOutcome::default() })
    }

    /// Whether a file with this path relative to the base is to be searched.
    pub(crate) fn wants(&self, relative: &str) -> bool {
        self.glob.as_ref().is_none_or(|glob| glob.matches(relative))
    }

    /// How deep below the base there can be files to search.
    pub(crate) fn max_depth(&self) -> usize {
        self.glob.as_ref().map_or(usize::MAX, GlobPattern::max_depth)
    }

    /// Whether there is nothing left to find out.
    pub(crate) fn is_full(&self) -> bool {
        self.outcome.truncated
    }

    /// Whether a file of so many bytes can be searched; one that is too large is remembered as such.
    pub(crate) fn takes(&mut self, path: &FsPath, bytes: u64) -> bool {
        let is_fine = bytes <= self.max_bytes as u64;
        if !is_fine && self.outcome.too_large.len() < MAX_TOO_LARGE {
            self.outcome.too_large.push(path.clone());
        }
        is_fine
    }

    /// Searches one file; a binary one is skipped.
    pub(crate) fn search(&mut self, path: &FsPath, content: &[u8]) {
        let Some(text) = as_text(content) else { return };
        for (index, line) in text.lines().enumerate() {
            if self.regex.is_match(line) {
                if self.outcome.matches.len() == self.max {
                    self.outcome.truncated = true;
                    return;
                }
                self.outcome.matches.push(GrepMatch {
                    path: path.clone(),
                    line: index + 1,
                    text: line.to_owned(),
                });
            }
        }
    }

    /// What was found.
    pub(crate) fn finish(self) -> GrepOutcome {
        self.outcome
    }
}
