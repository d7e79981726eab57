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
        let path = Self(Arc::from(normalise(text)?));
        path.check(limits)?;
        Ok(path)
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
        self.0.split('/').filter(|segment| !segment.is_empty())
    }

    /// How many segments there are.
    pub fn depth(&self) -> usize {
        if self.is_root() { 0 } else { 1 + self.0.bytes().filter(|byte| *byte == b'/').count() }
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
        let depth = self.depth();
        if depth > limits.max_segments {
            return Err(FsError::TooDeep { path: shown(&self.0), depth, max: limits.max_segments });
        }
        for segment in self.segments() {
            // A segment has at most as many characters as bytes, so most need no counting.
            if segment.len() > limits.max_segment_chars {
                let chars = segment.chars().count();
                if chars > limits.max_segment_chars {
                    let max = limits.max_segment_chars;
                    return Err(FsError::SegmentTooLong { segment: shown(segment), chars, max });
                }
            }
        }
        Ok(())
    }

    /// The entry `name` of this directory. `name` must be one segment of a path that was parsed before.
    pub(crate) fn child(&self, name: &str) -> Self {
        if self.is_root() { Self(Arc::from(name)) } else { Self(Arc::from(format!("{}/{name}", self.0))) }
    }

    /// Directory and name; none for the root.
    pub(crate) fn split_last(&self) -> Option<(&str, &str)> {
        if self.is_root() { None } else { Some(self.0.rsplit_once('/').unwrap_or(("", &self.0))) }
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

fn normalise(text: &str) -> Result<Cow<'_, str>, FsError> {
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
