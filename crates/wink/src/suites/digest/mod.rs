//! The workspace digest: what is known about the workspace, kept in the session and shown as a closed section.
//!
//! [`WorkspaceDigest::refresh`] surveys the tree when the one in the session is out of date; whoever knows more than
//! a survey tells dispatches a [`WorkspaceDigest`] of their own. From then on every prompt with the section shows the
//! summary, and the model can read the rest. Rendering never looks at the workspace: a digest is refreshed where a
//! session is opened, by whoever ran calls that changed files, or by the model, if it is given [`refresh_digest`].

mod known;
mod survey;
mod tool;
mod walk;

use serde::{Deserialize, Serialize};

use crate::filesystem::{Filesystem, FsError, FsResult};
use crate::prompt::{Section, SessionView, Visibility};
use crate::session::{DeclarativeSlice, DispatchResult, Reducers, Session, SessionError, SliceType};
use survey::Survey;
use walk::Walk;

pub use tool::{DigestShown, RefreshDigest, refresh_digest};

/// The most characters that a summary taken from the body has.
const SUMMARY_CHARS: usize = 240;

/// What is known about the workspace. A session keeps the latest.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkspaceDigest {
    /// One or two lines, always shown.
    pub summary: String,
    /// All of it, shown when asked for.
    pub body: String,
    /// What the workspace looked like when it was surveyed; none for a digest that somebody wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

/// What [`WorkspaceDigest::refresh`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refreshed {
    /// The workspace was surveyed, and this is what came of handing the session the new digest.
    Surveyed(DispatchResult),
    /// The session's digest is still good.
    Current,
    /// The session's digest was written by somebody, not surveyed: it is theirs to replace.
    Written,
}

/// A digest could not be refreshed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefreshError {
    /// The workspace could not be looked at.
    #[error("the workspace could not be surveyed: {0}")]
    Files(#[from] FsError),
    /// The session cannot keep a digest.
    #[error(transparent)]
    Session(#[from] SessionError),
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
        Self { summary, body, mark: None }
    }

    /// Surveys a workspace: languages, layout, key files. `.git`, `target`, `node_modules` and their like are named,
    /// not walked.
    ///
    /// The same tree gives the same text, whatever keeps it. At most 20,000 entries are looked at and 40 small key
    /// files read; where that was not all, the text says so.
    ///
    /// ```
    /// use wink::filesystem::MemoryFilesystem;
    /// use wink::suites::WorkspaceDigest;
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// # runtime.block_on(async {
    /// let files = MemoryFilesystem::from_files([("README.md", "# Parser\n"), ("src/lex.rs", "")])?;
    /// let digest = WorkspaceDigest::of(&files).await?;
    /// assert_eq!(digest.summary, "2 files, 9 bytes: Markdown 1, Rust 1. README.md says: Parser");
    /// # Ok::<(), wink::filesystem::FsError>(())
    /// # }).unwrap();
    /// ```
    pub async fn of(files: &dyn Filesystem) -> FsResult<Self> {
        let walk = Walk::through(files).await?;
        // Marked first: a key file that changes before it is read makes the digest look old, not fresh.
        let mark = walk.mark(files).await;
        let survey = Survey::of(files, &walk).await;
        Ok(Self { summary: survey.summary(), body: survey.body(), mark: Some(mark) })
    }

    /// Whether a survey of the workspace would still say the same.
    ///
    /// Asked are the same entries that a survey looks at (names, kinds and sizes, of at most 20,000), and the versions of the
    /// key files. Nothing is read. What is beyond that, in a larger tree, is not noticed, nor would a survey tell of it.
    pub async fn is_current(&self, files: &dyn Filesystem) -> FsResult<bool> {
        let Some(mark) = &self.mark else { return Ok(true) };
        Ok(*mark == Walk::through(files).await?.mark(files).await)
    }

    /// Brings the session's digest up to date: surveys the workspace if there is none yet, or if the one there is no
    /// longer [current](WorkspaceDigest::is_current). For where a session is opened, and after calls that changed
    /// files. A prompt that was rendered before shows the new one when it is rendered again.
    pub async fn refresh(session: &Session, files: &dyn Filesystem) -> Result<Refreshed, RefreshError> {
        session.install::<Self>()?;
        let known = session.slice::<Self>().latest().filter(|digest| !digest.is_blank());
        if let Some(digest) = known {
            if digest.mark.is_none() {
                return Ok(Refreshed::Written);
            }
            if digest.is_current(files).await? {
                return Ok(Refreshed::Current);
            }
        }
        Ok(Refreshed::Surveyed(session.dispatch(Self::of(files).await?)))
    }

    fn is_blank(&self) -> bool {
        self.body.trim().is_empty() && self.summary.trim().is_empty()
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
