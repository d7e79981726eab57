//! Finding JSON in what a model wrote: alone, in a block between fences, or inside prose.
//!
//! The scanner decides what JSON is, here as everywhere. Nothing is taken out of the inside of an object that is itself
//! broken: half of an answer is none.

use super::decode::unreadable;
use super::problem::{ProblemKind, Rejection};
use super::scan::{Halt, Scanner};
use super::{CompiledSchema, ParseLimits};

impl CompiledSchema {
    /// The objects and lists that a text offers, in order.
    ///
    /// If all of the text is one, that is it. Else blocks between fences that are marked `json` count, and each must be one;
    /// else those without a mark that are one; else whatever stands outside of blocks.
    pub(crate) fn find<'t>(&self, text: &'t str, limits: &ParseLimits) -> Result<Vec<&'t str>, Rejection> {
        if text.len() > limits.bytes {
            let expected = format!("at most {} bytes", limits.bytes);
            return Err(Rejection::only(ProblemKind::TooLarge, expected, format!("{} bytes", text.len())));
        }
        let finder = Finder { depth: limits.depth, quiet: self.has_sensitive() };
        let whole = text.trim();
        if finder.read(whole).is_ok() {
            return Ok(vec![whole]);
        }
        let pieces = pieces(text);
        let blocks = |of: Mark| {
            let of_mark = move |piece: &&Piece<'t>| piece.mark == Some(of);
            pieces.iter().filter(of_mark).map(|piece| piece.text.trim())
        };
        let marked: Vec<&str> = blocks(Mark::Json).collect();
        if !marked.is_empty() {
            return marked.into_iter().map(|block| finder.read(block)).collect();
        }
        let unmarked: Vec<&str> = blocks(Mark::None).filter(|block| finder.read(block).is_ok()).collect();
        if !unmarked.is_empty() {
            return Ok(unmarked);
        }
        let mut found = Vec::new();
        for prose in pieces.iter().filter(|piece| piece.mark.is_none()) {
            finder.collect(prose.text, &mut found)?;
        }
        Ok(found)
    }
}

struct Finder {
    depth: usize,
    /// The text must not be shown in errors.
    quiet: bool,
}

impl Finder {
    /// The text, if it is one object or list and nothing else.
    fn read<'t>(&self, text: &'t str) -> Result<&'t str, Rejection> {
        let mut scan = Scanner::new(text, self.depth);
        match read(&mut scan) {
            Ok(()) => Ok(text),
            Err(Halt) => Err(self.unreadable(&scan)),
        }
    }

    /// Adds the objects and lists that stand in a text, outermost ones only.
    fn collect<'t>(&self, prose: &'t str, found: &mut Vec<&'t str>) -> Result<(), Rejection> {
        let mut scan = Scanner::new(prose, self.depth);
        while let Some(start) = next_bracket(prose, scan.pos) {
            scan.pos = start;
            match scan.skip(0) {
                Ok(()) => found.push(scan.slice(start, scan.pos)),
                Err(Halt) if self.begins_object(prose, start) => return Err(self.unreadable(&scan)),
                // A bracket of the prose itself. However often that happens, no text is read more often than values
                // can be nested.
                Err(Halt) => {
                    scan.pos = start + 1;
                    scan.broken = None;
                }
            }
        }
        Ok(())
    }

    /// Whether what begins here is meant to be an object, or a list of them: it has a key.
    fn begins_object(&self, prose: &str, start: usize) -> bool {
        let mut scan = Scanner::new(prose, self.depth);
        scan.pos = start;
        for _ in 0..self.depth {
            match scan.peek() {
                Some(b'[') => scan.pos += 1,
                Some(b'{') => {
                    scan.pos += 1;
                    return scan.key().is_ok();
                }
                _ => return false,
            }
        }
        false
    }

    fn unreadable(&self, scan: &Scanner<'_>) -> Rejection {
        match scan.broken {
            Some(broken) => unreadable(scan.text, broken, self.depth, self.quiet),
            None => Rejection::only(ProblemKind::InvalidJson, "JSON", "something else"),
        }
    }
}

fn read(scan: &mut Scanner<'_>) -> Result<(), Halt> {
    match scan.peek() {
        Some(b'{' | b'[') => scan.skip(0)?,
        _ => return scan.fail("a JSON object or list"),
    }
    match scan.peek() {
        None => Ok(()),
        Some(_) => scan.fail("nothing after the JSON value"),
    }
}

fn next_bracket(text: &str, from: usize) -> Option<usize> {
    text.get(from..)?.find(['{', '[']).map(|at| from + at)
}

/// Part of a text: prose, or what is between two fences.
struct Piece<'t> {
    text: &'t str,
    /// None: prose.
    mark: Option<Mark>,
}

/// What a block says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Json,
    None,
    Other,
}

struct Fence {
    with: u8,
    length: usize,
    mark: Mark,
    /// Where the block's text begins.
    content: usize,
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut open: Option<Fence> = None;
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        let next = at + line.len();
        match &open {
            None => {
                if let Some(fence) = Fence::opened_by(line, at) {
                    pieces.push(Piece { text: text.get(start..at).unwrap_or_default(), mark: None });
                    start = fence.content;
                    open = Some(fence);
                }
            }
            Some(fence) if fence.is_closed_by(line) => {
                pieces.push(Piece { text: text.get(start..at).unwrap_or_default(), mark: Some(fence.mark) });
                start = next;
                open = None;
            }
            Some(_) => {}
        }
        at = next;
    }
    // A block that is never closed goes to the end.
    pieces.push(Piece { text: text.get(start..).unwrap_or_default(), mark: open.map(|fence| fence.mark) });
    pieces
}

impl Fence {
    /// The line stands at byte `at`.
    fn opened_by(line: &str, at: usize) -> Option<Self> {
        let fence = line.trim_start();
        let (with, length) = run(fence)?;
        let info = fence.get(length..)?;
        let said = info.trim();
        // Three backticks that are closed on the same line are a piece of the prose.
        if with == b'`' && said.contains('`') {
            return None;
        }
        let before = at + (line.len() - fence.len()) + length;
        let word = said.split_whitespace().next().unwrap_or_default();
        if word.eq_ignore_ascii_case("json") {
            let blank = info.len() - info.trim_start().len();
            return Some(Self { with, length, mark: Mark::Json, content: before + blank + word.len() });
        }
        let mark = if word.is_empty() { Mark::None } else { Mark::Other };
        Some(Self { with, length, mark, content: at + line.len() })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        run(line)
            .is_some_and(|(with, length)| with == self.with && length >= self.length && length == line.len())
    }
}

/// The backticks or tildes that a line begins with, if they are enough for a fence.
fn run(line: &str) -> Option<(u8, usize)> {
    let with = line.bytes().next().filter(|byte| matches!(byte, b'`' | b'~'))?;
    let length = line.bytes().take_while(|byte| *byte == with).count();
    (length >= 3).then_some((with, length))
}

#[cfg(test)]
mod tests;
