//! A pattern as it is matched against single lines, without their endings.

use grep_matcher::{LineMatchKind, LineTerminator, Match, Matcher, NoCaptures, NoError};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};

use super::super::{MAX_PATTERN_MEMORY, MAX_REGEX_BYTES};
use crate::filesystem::error::shown;
use crate::filesystem::{FsError, FsResult};

/// Decides about a line by itself, and finds lines that are worth looking at in many at once where that is possible.
pub(super) struct LineMatcher {
    exact: RegexMatcher,
    /// Finds a place in every line that matches, and maybe in others; it never looks beyond the end of a line.
    quick: Option<RegexMatcher>,
}

impl LineMatcher {
    pub(super) fn new(pattern: &str) -> FsResult<Self> {
        if pattern.len() > MAX_REGEX_BYTES {
            let reason = format!(
                "it is longer than {MAX_REGEX_BYTES} bytes; search for a part of it, or for several patterns one by one"
            );
            return Err(FsError::InvalidPattern { pattern: shown(pattern), reason });
        }
        let invalid = |error: grep_regex::Error| FsError::InvalidPattern {
            pattern: shown(pattern),
            reason: shown(&error.to_string()),
        };
        let mut builder = RegexMatcherBuilder::new();
        builder.size_limit(MAX_PATTERN_MEMORY).dfa_size_limit(MAX_PATTERN_MEMORY);
        let exact = builder.build(pattern).map_err(invalid)?;
        // An anchor or a word boundary means something else where there are more lines than one, before `\r\n` too.
        // Every one of them is written with one of these characters.
        let looks_around = pattern.contains(['^', '$', '\\']);
        let quick =
            if looks_around { None } else { builder.line_terminator(Some(b'\n')).build(pattern).ok() };
        Ok(Self { exact, quick })
    }
}

/// A line without its ending.
pub(super) fn without_ending(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

impl Matcher for &LineMatcher {
    type Captures = NoCaptures;
    type Error = NoError;

    fn find_at(&self, line: &[u8], at: usize) -> Result<Option<Match>, NoError> {
        let line = without_ending(line);
        if at > line.len() { Ok(None) } else { self.exact.find_at(line, at) }
    }

    fn new_captures(&self) -> Result<NoCaptures, NoError> {
        Ok(NoCaptures::new())
    }

    fn shortest_match_at(&self, line: &[u8], at: usize) -> Result<Option<usize>, NoError> {
        let line = without_ending(line);
        if at > line.len() { Ok(None) } else { self.exact.shortest_match_at(line, at) }
    }

    fn line_terminator(&self) -> Option<LineTerminator> {
        self.quick.as_ref().and_then(|quick| quick.line_terminator())
    }

    fn find_candidate_line(&self, lines: &[u8]) -> Result<Option<LineMatchKind>, NoError> {
        let Some(quick) = &self.quick else {
            return Ok(Some(LineMatchKind::Candidate(0)));
        };
        Ok(quick.find_candidate_line(lines)?.map(|found| match found {
            // It may have used the `\r` of the ending, which is no part of the line.
            LineMatchKind::Confirmed(at) | LineMatchKind::Candidate(at) => LineMatchKind::Candidate(at),
        }))
    }
}
