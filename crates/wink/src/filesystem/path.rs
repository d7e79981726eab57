//! The one place where paths are normalised.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use super::error::{FsError, shown};
use super::limits::FsLimits;

/// A normalised path relative to the root of a filesystem; the root itself is the empty path.
///
/// There is no `.`, no `..`, no empty segment and no leading slash in it, so two equal places have equal
/// paths. Ordered as text. Cloning does not copy.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct FsPath(Arc<str>);

impl FsPath {
    /// The root.
    pub fn root() -> Self {
        Self(Arc::default())
    }

    /// Normalises `text` and holds the result to `limits`.
    ///
    /// A leading `/` means the root of the workspace. `.` and empty segments are dropped; `..` removes the
    /// segment before it and is an error where there is none. A backslash is an ordinary character.
    pub fn parse(text: &str, limits: &FsLimits) -> Result<Self, FsError> {
        let clean = normalise(text)?;
        check(&clean, limits)?;
        Ok(Self(Arc::from(clean)))
    }

    /// The same where commands see the root at [`SHOWN_AT`]: `/workspace/a` is `a`, and `workspace/a` what it says.
    pub(crate) fn parse_shown(text: &str, limits: &FsLimits) -> Result<Self, FsError> {
        let clean = normalise(text)?;
        let inside = if text.starts_with('/') { below_shown(&clean) } else { None };
        let clean = inside.unwrap_or(&clean);
        check(clean, limits)?;
        Ok(Self(Arc::from(clean)))
    }

    /// The path as text; empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The segments, outermost first.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        segments(&self.0)
    }

    /// How many segments there are.
    pub fn depth(&self) -> usize {
        depth(&self.0)
    }

    /// The last segment; none for the root.
    pub fn name(&self) -> Option<&str> {
        self.split_last().map(|(_, name)| name)
    }

    /// The directory that holds this; none for the root.
    pub fn parent(&self) -> Option<Self> {
        self.split_last().map(|(parent, _)| Self(Arc::from(parent)))
    }

    /// Whether this is `other` or below it.
    pub fn starts_with(&self, other: &Self) -> bool {
        self.relative_to(other).is_some()
    }

    /// The part of this path below `base`: empty for `base` itself, none for what is not below it.
    pub fn relative_to(&self, base: &Self) -> Option<&str> {
        if base.is_root() {
            return Some(&self.0);
        }
        match self.0.strip_prefix(&*base.0)? {
            "" => Some(""),
            rest => rest.strip_prefix('/'),
        }
    }

    /// This path with `text` below it, normalised and checked like [`FsPath::parse`].
    pub fn join(&self, text: &str, limits: &FsLimits) -> Result<Self, FsError> {
        Self::parse(&format!("{}/{text}", self.0), limits)
    }

    /// Holds the path to `limits`: implementations check what they create, since a path may have been parsed
    /// under other limits than theirs.
    pub fn check(&self, limits: &FsLimits) -> Result<(), FsError> {
        check(&self.0, limits)
    }

    /// The entry `name` of this directory. `name` must be one segment of a path that was parsed before.
    pub(crate) fn child(&self, name: &str) -> Self {
        if self.is_root() { Self(Arc::from(name)) } else { Self(Arc::from(format!("{}/{name}", self.0))) }
    }

    /// Directory and name; none for the root.
    pub(crate) fn split_last(&self) -> Option<(&str, &str)> {
        if self.is_root() {
            return None;
        }
        match self.0.bytes().rposition(|byte| byte == b'/') {
            Some(at) => Some((self.0.get(..at)?, self.0.get(at + 1..)?)),
            None => Some(("", &self.0)),
        }
    }

    /// The path of the first `count` segments.
    pub(crate) fn prefix(&self, count: usize) -> Self {
        let Some(last) = count.checked_sub(1) else { return Self::root() };
        match self.0.match_indices('/').nth(last) {
            Some((end, _)) => Self(Arc::from(self.0.get(..end).unwrap_or_default())),
            None => self.clone(),
        }
    }
}

/// Where sandboxes show the workspace to commands.
pub const SHOWN_AT: &str = "/workspace";

/// The part of a normalised path that is below where sandboxes show the workspace.
fn below_shown(path: &str) -> Option<&str> {
    match path.strip_prefix(SHOWN_AT.trim_start_matches('/'))? {
        "" => Some(""),
        rest => rest.strip_prefix('/'),
    }
}

/// What a text may mean as a path, before it is known how the workspace is shown.
pub(crate) fn meanings(text: &str) -> Result<Vec<FsPath>, FsError> {
    let path = FsPath::parse(text, &FsLimits::DEFAULT)?;
    let shown = FsPath::parse_shown(text, &FsLimits::DEFAULT)?;
    Ok(if path == shown { vec![path] } else { vec![path, shown] })
}

/// The segments of a normalised path. They are short: looking at byte after byte is quickest.
pub(crate) fn segments(path: &str) -> impl Iterator<Item = &str> {
    let mut rest = path;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.bytes().position(|byte| byte == b'/').unwrap_or(rest.len());
        let segment = rest.get(..end)?;
        rest = rest.get(end + 1..).unwrap_or_default();
        Some(segment)
    })
}

/// How many segments a normalised path has.
fn depth(path: &str) -> usize {
    if path.is_empty() { 0 } else { 1 + path.bytes().filter(|byte| *byte == b'/').count() }
}

/// Holds a normalised path to `limits`.
fn check(path: &str, limits: &FsLimits) -> Result<(), FsError> {
    // It has at most half as many segments as bytes, and a segment at most as many characters as the path has bytes:
    // most paths need no counting.
    if path.len() <= limits.max_segment_chars && path.len() < 2 * limits.max_segments {
        return Ok(());
    }
    let depth = depth(path);
    if depth > limits.max_segments {
        return Err(FsError::TooDeep { path: shown(path), depth, max: limits.max_segments });
    }
    for segment in path.split('/').filter(|segment| segment.len() > limits.max_segment_chars) {
        let chars = segment.chars().count();
        if chars > limits.max_segment_chars {
            let max = limits.max_segment_chars;
            return Err(FsError::SegmentTooLong { segment: shown(segment), chars, max });
        }
    }
    Ok(())
}

/// Whether there is nothing to normalise: no segment is empty, starts with a dot or has a NUL in it.
fn is_plain(text: &str) -> bool {
    // What may not follow a slash is next to it in the table of characters, and so are the two after a NUL.
    let mut after_slash = true;
    for byte in text.bytes() {
        if byte <= b'/' && (byte == 0 || (after_slash && byte >= b'.')) {
            return false;
        }
        after_slash = byte == b'/';
    }
    !after_slash
}

fn normalise(text: &str) -> Result<Cow<'_, str>, FsError> {
    if is_plain(text) {
        return Ok(Cow::Borrowed(text));
    }
    if text.contains('\0') {
        return Err(FsError::InvalidPath { path: shown(text) });
    }
    if text.split('/').all(|segment| !matches!(segment, "" | "." | "..")) {
        return Ok(Cow::Borrowed(text));
    }
    let mut clean = String::with_capacity(text.len());
    for segment in text.split('/') {
        match segment {
            "" | "." => {}
            ".." if clean.is_empty() => return Err(FsError::Outside { path: shown(text) }),
            ".." => clean.truncate(clean.rfind('/').unwrap_or(0)),
            _ => {
                if !clean.is_empty() {
                    clean.push('/');
                }
                clean.push_str(segment);
            }
        }
    }
    Ok(Cow::Owned(clean))
}

impl fmt::Display for FsPath {
    /// The path, or `/` for the root.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "/" } else { &self.0 })
    }
}

impl fmt::Debug for FsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl AsRef<str> for FsPath {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for FsPath {
    /// Accepts what was serialised. Limits are those of the filesystem that the path is then used with.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let clean = normalise(&text).map_err(serde::de::Error::custom)?;
        Ok(Self(Arc::from(clean)))
    }
}
