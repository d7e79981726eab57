//! Grep: files are read as streams, and never more of them is in memory than the longest line.

mod matcher;
mod reader;

use std::io::{self, Read};

use grep_searcher::{Searcher, SearcherBuilder, Sink, SinkMatch};

use self::matcher::LineMatcher;
use self::reader::{TextReader, is_binary};
use super::{GlobPattern, SearchStop};
use crate::filesystem::{FsLimits, FsPath, FsResult, GrepMatch, GrepOutcome, GrepQuery};

/// Files that are named as too large to be searched.
const MAX_TOO_LARGE: usize = 10;

/// A grep in progress: files are handed in sorted by path until it is full.
pub(crate) struct LineSearch {
    matcher: LineMatcher,
    searcher: Searcher,
    glob: Option<GlobPattern>,
    max: usize,
    max_bytes: usize,
    outcome: GrepOutcome,
    stop: SearchStop,
}

impl LineSearch {
    /// Checks the query. The search ends early when `stop` says so.
    pub(crate) fn new(query: &GrepQuery, limits: &FsLimits, stop: &SearchStop) -> FsResult<Self> {
        let matcher = LineMatcher::new(&query.pattern)?;
        // What is text is decided by `TextReader`; nothing is decoded, and a byte order mark is a character.
        let searcher = SearcherBuilder::new().line_number(true).bom_sniffing(false).build();
        let glob = query.glob.as_deref().map(GlobPattern::new).transpose()?;
        let max = query.max.map_or(limits.max_grep_matches, |max| max.min(limits.max_grep_matches));
        let max_bytes = limits.max_read_bytes;
        let stop = stop.clone();
        Ok(Self { matcher, searcher, glob, max, max_bytes, outcome: GrepOutcome::default(), stop })
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

    /// Searches one file to its end; there is nothing in a binary one. What was found counts when it is
    /// [added](Self::add): until then the file may turn out to have changed meanwhile.
    pub(crate) fn search(&mut self, path: &FsPath, content: impl Read) -> io::Result<Found> {
        let mut content = TextReader::new(content, self.stop.clone());
        let room = self.max - self.outcome.matches.len();
        let mut found = Collector { path, room, found: Found::default() };
        let searched = self.searcher.search_reader(&self.matcher, &mut content, &mut found);
        // It stops when there is no more room. Whether the file is text is known at its end only.
        match searched.and_then(|()| content.finish()) {
            Ok(()) => Ok(found.found),
            Err(error) if is_binary(&error) => Ok(Found::default()),
            Err(error) => Err(error),
        }
    }

    /// Takes over what was found in a file.
    pub(crate) fn add(&mut self, found: Found) {
        self.outcome.matches.extend(found.matches);
        self.outcome.truncated |= found.more;
    }

    /// What was found.
    pub(crate) fn finish(self) -> GrepOutcome {
        self.outcome
    }
}

/// What was found in one file.
#[derive(Default)]
pub(crate) struct Found {
    matches: Vec<GrepMatch>,
    more: bool,
}

/// Takes the matches of one file, until there is no more room.
struct Collector<'a> {
    path: &'a FsPath,
    room: usize,
    found: Found,
}

impl Sink for &mut Collector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> io::Result<bool> {
        if self.found.matches.len() == self.room {
            self.found.more = true;
            return Ok(false);
        }
        self.found.matches.push(GrepMatch {
            path: self.path.clone(),
            line: line.line_number().and_then(|number| usize::try_from(number).ok()).unwrap_or_default(),
            text: String::from_utf8_lossy(matcher::without_ending(line.bytes())).into_owned(),
        });
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
