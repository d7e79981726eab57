//! From checked text to typed parameters.

use serde::de::DeserializeOwned;

use super::findings::Path;
use super::problem::{Problem, ProblemKind, Rejection, shorten};
use super::scan::{Halt, Scanner};
use super::{CompiledSchema, ParseLimits};

impl CompiledSchema {
    /// Checks arguments and decodes them.
    ///
    /// What the type refuses although the schema accepts it (a date that does not exist, say) becomes a problem too,
    /// at its place in the arguments.
    pub fn decode<P: DeserializeOwned>(&self, text: &str, limits: &ParseLimits) -> Result<P, Rejection> {
        if let Some(params) = self.read(text, limits) {
            return Ok(params);
        }
        self.check(text, limits)?;
        let text = if text.trim_ascii().is_empty() { "{}" } else { text };
        match parse(text) {
            Ok(params) => Ok(params),
            // The empty object stands for `()` and unit structs, which serde writes as null.
            Err(error) if self.takes_nothing() => parse("null").map_err(|_| self.undecodable(text, &error)),
            Err(error) => Err(self.undecodable(text, &error)),
        }
    }

    fn undecodable(&self, text: &str, error: &serde_json::Error) -> Rejection {
        let offset = offset_of(text, error.line(), error.column());
        let path = path_at(text, offset).unwrap_or_default();
        // Errors of decoders like to quote what they could not read.
        let got = if self.has_sensitive() { "the value was not accepted".to_owned() } else { reason(error) };
        let expected = "a value that the parameter type accepts".to_owned();
        Rejection {
            problems: vec![Problem { path, kind: ProblemKind::Undecodable, expected, got, suggestion: None }],
            more: 0,
        }
    }
}

pub(crate) fn parse<P: DeserializeOwned>(text: &str) -> serde_json::Result<P> {
    let mut decoder = serde_json::Deserializer::from_str(text);
    // The check has bounded the depth already, at one level more than the parser's own limit.
    decoder.disable_recursion_limit();
    P::deserialize(&mut decoder)
}

/// The error's own words, without the position that the path replaces.
fn reason(error: &serde_json::Error) -> String {
    const LIMIT: usize = 400;
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason);
    if text.chars().count() <= LIMIT {
        return text.to_owned();
    }
    let start: String = text.chars().take(LIMIT).collect();
    format!("{start}…")
}

fn offset_of(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    before + column
}

/// The path of the value that a decoder stumbled over when it stopped just before `offset`.
///
/// A decoder that notices at once stops at the value's end, one that notices later has passed the comma after it,
/// and one that notices at the end of an object or list has passed its bracket: then it is that one as a whole.
fn path_at(text: &str, offset: usize) -> Option<String> {
    fn locate(
        scan: &mut Scanner<'_>,
        path: &Path<'_>,
        depth: usize,
        offset: usize,
    ) -> Result<Option<String>, Halt> {
        let object = match scan.peek() {
            Some(b'{') => true,
            Some(b'[') => false,
            _ => {
                scan.skip(depth)?;
                return Ok((scan.pos >= offset).then(|| path.text()));
            }
        };
        let close = if object { b'}' } else { b']' };
        let mut more = scan.open(depth, close)?;
        let mut index = 0;
        while more {
            let key = if object { Some(scan.key()?.text()) } else { None };
            let inner = key.as_deref().map_or_else(|| path.index(index), |key| path.key(key));
            if let Some(found) = locate(scan, &inner, depth + 1, offset)? {
                return Ok(Some(found));
            }
            index += 1;
            more = scan.more(close)?;
            scan.peek();
            if more && scan.pos >= offset {
                return Ok(Some(inner.text()));
            }
        }
        Ok((scan.pos >= offset).then(|| path.text()))
    }
    let mut scan = Scanner::new(text, ParseLimits::MAX_DEPTH);
    locate(&mut scan, &Path::ROOT, 0, offset).ok().flatten()
}

/// Why text could not be read, told to a model. `quiet`: the text must not be shown.
pub(super) fn unreadable(text: &str, broken: super::scan::Broken, limit: usize, quiet: bool) -> Rejection {
    use super::scan::Broken;
    let place = |at: usize| {
        let before = text.get(..at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or(before).chars().count() + 1;
        format!("line {line} column {column}")
    };
    match broken {
        Broken::TooDeep => {
            Rejection::only(ProblemKind::TooDeep, format!("at most {limit} levels of nesting"), "more")
        }
        Broken::Syntax { expected, at } => {
            let rest = text.get(at..).unwrap_or_default();
            let found = match rest.split_whitespace().next() {
                None => "the end of the text".to_owned(),
                Some(_) if quiet => "something else".to_owned(),
                Some(_) if expected.starts_with("control") => "a raw control character".to_owned(),
                Some(word) => {
                    let word: String = word.chars().take(12).collect();
                    format!("`{}`", shorten(&word))
                }
            };
            Rejection::only(ProblemKind::InvalidJson, expected, format!("{found} at {}", place(at)))
        }
    }
}
