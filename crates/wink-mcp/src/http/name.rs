//! Which sessions have a path, and which one.

use wink::session::SessionId;

/// Below this sessions are.
pub(super) const PLACE: &str = "/mcp/";
/// How many characters a name in a path may have.
const LONGEST: usize = 128;

/// A session cannot be served over HTTP: its name is none that a path can have as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("session {:?} cannot be served over HTTP: no path has such a name", .0.as_str())]
pub struct NoPath(pub SessionId);

impl NoPath {
    /// What a name has to be.
    pub const RULE: &'static str = "over HTTP a name has ASCII letters, digits, dots, underscores and hyphens, at most 128, and begins with a letter or digit";
}

/// The path of a session on a server over HTTP.
///
/// # Errors
/// When it has none: [`NoPath::RULE`].
pub fn path_of(session: &SessionId) -> Result<String, NoPath> {
    let name = session.as_str();
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let starts = name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    match starts && name.len() <= LONGEST && name.bytes().all(fits) {
        true => Ok(format!("{PLACE}{name}")),
        false => Err(NoPath(session.clone())),
    }
}
