//! Glob and grep: patterns and line matching, the same for every implementation.

mod lines;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use globset::GlobBuilder;
use regex::{Regex, RegexBuilder};

use super::error::shown;
use super::{FsError, FsPath, FsResult};

pub(crate) use lines::LineSearch;

/// Bounds the automaton of one pattern, and with it the cost of matching one character.
const MAX_PATTERN_MEMORY: usize = 2 * 1024 * 1024;
/// No reasonable glob is longer; the bound keeps nested alternatives shallow.
const MAX_GLOB_BYTES: usize = 1024;
/// No reasonable regular expression is longer. Parsing one takes time and memory before any other bound holds.
const MAX_REGEX_BYTES: usize = 4096;

/// Tells a search that runs on another thread that its caller has stopped waiting. Every clone is the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct SearchStop(Arc<AtomicBool>);

impl SearchStop {
    /// Stops the search when it is dropped.
    pub(crate) fn on_drop(&self) -> StopOnDrop {
        StopOnDrop(self.clone())
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// An error once the search is to stop. No caller reads it.
    pub(crate) fn check(&self) -> FsResult<()> {
        match self.is_stopped() {
            false => Ok(()),
            true => Err(FsError::Io {
                path: FsPath::root(),
                kind: io::ErrorKind::Interrupted,
                message: "the search was stopped".to_owned(),
            }),
        }
    }
}

/// Stops a search when it is dropped.
pub(crate) struct StopOnDrop(SearchStop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

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
