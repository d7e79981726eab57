//! The workspace digest: what is known about the workspace, kept in the session and shown as a closed section.
//!
//! Whoever studies the workspace dispatches a [`WorkspaceDigest`]; from then on every prompt with the section shows
//! its summary, and the model can read the rest. Making a digest is not the section's business.

use serde::{Deserialize, Serialize};

use crate::prompt::{Section, SessionView, Visibility};
use crate::session::{DeclarativeSlice, Reducers, SliceType};

/// The most characters that a summary taken from the body has.
const SUMMARY_CHARS: usize = 240;

/// What is known about the workspace. A session keeps the latest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkspaceDigest {
    /// One or two lines, always shown.
    pub summary: String,
    /// All of it, shown when asked for.
    pub body: String,
}

impl WorkspaceDigest {
    /// A digest whose summary is the first line of text in it.
    pub fn new(body: impl Into<String>) -> Self {
        let body = body.into();
        let mut lines = body.lines().map(|line| line.trim_start_matches(['#', ' ', '\t']).trim_end());
        let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
        let summary = match first.char_indices().nth(SUMMARY_CHARS) {
            Some((end, _)) => format!("{}…", first.get(..end).unwrap_or_default()),
            None => first.to_owned(),
        };
        Self { summary, body }
    }

    /// The digest with a summary of its own.
    #[must_use]
    pub fn summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = summary.into();
        self
    }
}

impl SliceType for WorkspaceDigest {
    const NAME: &'static str = "wink.workspace_digest";
}

impl DeclarativeSlice for WorkspaceDigest {
    fn initial() -> Option<Self> {
        Some(Self::default())
    }

    fn reducers(on: &mut Reducers<Self>) {
        on.on(|_, digest: &Self| Ok(digest.clone()));
    }
}

/// The section that shows the session's digest.
///
/// ```
/// use wink::prelude::*;
/// use wink::suites::{WorkspaceDigest, WorkspaceDigestSection};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let prompt = PromptTemplate::builder("examples", "digest")
///     .section(WorkspaceDigestSection::new().section())
///     .build()?
///     .prompt();
/// let session = Session::new();
/// assert!(session.dispatch(WorkspaceDigest::new("A parser for TOML.\n\nsrc/lex.rs has the lexer.")).is_ok());
/// assert!(prompt.render(&session)?.text().contains("A parser for TOML."));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "a suite does nothing until its section is in a prompt"]
pub struct WorkspaceDigestSection {}

impl WorkspaceDigestSection {
    /// The suite.
    pub fn new() -> Self {
        Self::default()
    }

    /// The section, under key `workspace-digest`.
    pub fn section(self) -> Section {
        Section::markdown("workspace-digest", "Workspace digest")
            .visibility(Visibility::Summary)
            .summary("There is no digest of the workspace yet.")
            .summary_from(|session| shown(session, |digest| &digest.summary))
            .body("There is no digest of the workspace yet. Look at the files themselves.")
            .body_from(|session| shown(session, |digest| &digest.body))
            .install(|session| session.install::<WorkspaceDigest>())
    }
}

impl From<WorkspaceDigestSection> for Section {
    fn from(suite: WorkspaceDigestSection) -> Self {
        suite.section()
    }
}

fn shown(session: &SessionView<'_>, part: impl Fn(&WorkspaceDigest) -> &String) -> Option<String> {
    let digest = session.slice::<WorkspaceDigest>().latest()?;
    let text = part(&digest).trim();
    (!text.is_empty()).then(|| text.to_owned())
}
