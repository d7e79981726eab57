//! One glob rule over paths, and what it says of everything below a path.

use crate::filesystem::{FsError, FsPath, GlobPattern};

/// A glob with what is known of it beyond matching. `dir/**` means `dir` too.
pub(super) struct Rule {
    text: String,
    glob: GlobPattern,
    /// For `base/**`: everything below what matches the base matches.
    whole: Option<Base>,
    /// The leading segments that are plain text.
    literal: String,
    /// Whether `literal` is all of the pattern.
    is_literal: bool,
}

enum Base {
    Root,
    Pattern(GlobPattern),
}

impl Rule {
    pub(super) fn new(pattern: &str) -> Result<Self, FsError> {
        let invalid = |reason: &str| FsError::InvalidPattern {
            pattern: crate::filesystem::shown(pattern),
            reason: reason.to_owned(),
        };
        let text = pattern.strip_prefix("./").unwrap_or(pattern);
        let text = text.strip_prefix('/').unwrap_or(text);
        let glob = GlobPattern::new(text)?;
        if text.ends_with('/') {
            return Err(invalid(
                "a path never ends in '/'; 'directory/**' is the directory with all that is in it",
            ));
        }
        // Paths are normalised, so such a rule would silently never match.
        if text.split('/').any(|segment| matches!(segment, "" | ".")) {
            return Err(invalid("no path has an empty or '.' segment, so it can never match"));
        }
        let whole = match text.strip_suffix("**") {
            Some("") => Some(Base::Root),
            Some(base) => match base.strip_suffix('/') {
                Some(base) => Some(Base::Pattern(GlobPattern::new(base)?)),
                None => None,
            },
            None => None,
        };
        let plain = |segment: &&str| !segment.contains(['*', '?', '[', ']', '{', '}', '\\']);
        let literal: Vec<&str> = text.split('/').take_while(plain).collect();
        let literal = literal.join("/");
        Ok(Self { text: text.to_owned(), glob, whole, is_literal: literal == text, literal })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn matches(&self, path: &FsPath) -> bool {
        self.glob.matches(path.as_str()) || self.is_base(path)
    }

    /// Whether the path and all that can be below it match.
    pub(super) fn matches_all_below(&self, path: &FsPath) -> bool {
        let mut at = Some(path.clone());
        std::iter::from_fn(|| {
            let here = at.take()?;
            at = here.parent();
            Some(here)
        })
        .any(|ancestor| self.is_base(&ancestor))
    }

    /// Whether the path or something below it can match. Says yes when in doubt.
    pub(super) fn may_match_below(&self, path: &FsPath) -> bool {
        let below = |path: &str, base: &str| {
            base.is_empty()
                || path.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.matches(path)
            || below(&self.literal, path.as_str())
            || (!self.is_literal && below(path.as_str(), &self.literal))
    }

    fn is_base(&self, path: &FsPath) -> bool {
        match &self.whole {
            None => false,
            Some(Base::Root) => true,
            Some(Base::Pattern(base)) => base.matches(path.as_str()),
        }
    }
}
