//! Opening: an agent on a session of a workspace.

use std::sync::Arc;

use wink::executor::{Executor, ExecutorBuilder, ExecutorLimits};
use wink::filesystem::FsError;
use wink::limits::InvalidDeadline;
use wink::prompt::Prompt;
use wink::resource::{Binding, ResourceRegistry};
use wink::session::{Session, SessionBuilder};
use wink::store::StoreError;
use wink::suites::WorkspaceDigest;
use wink_store::Workspace;

use crate::agent::Agent;
use crate::build::Digest;
use crate::own_file;

/// A session of an agent in a workspace, with the one executor that its calls go through. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OpenSession {
    pub(crate) session: Session,
    pub(crate) executor: Executor,
    pub(crate) prompt: Prompt,
}

/// What a session of an agent is opened with.
#[derive(Debug)]
pub struct Prepared {
    /// The session.
    pub session: Session,
    /// What the model is given, unrendered.
    pub prompt: Prompt,
    /// The workspace, with guarded paths and the agent's own file.
    pub resources: ResourceRegistry,
    /// What calls are held to.
    pub limits: ExecutorLimits,
}

/// A session could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The store cannot be read.
    #[error("the session cannot be opened: {0}")]
    Store(#[from] StoreError),
    /// The agent's deadline cannot be kept.
    #[error(transparent)]
    Deadline(#[from] InvalidDeadline),
    /// The directory cannot be read.
    #[error("the workspace cannot be read: {0}")]
    Files(#[source] FsError),
    /// Paths cannot be guarded.
    #[error("the paths that tools may not change cannot be guarded: {0}")]
    Guard(#[from] FsError),
    /// The executor cannot be opened.
    #[error(transparent)]
    Executor(#[from] wink::executor::OpenError),
}

impl OpenSession {
    /// The session.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// What its calls go through.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// What the model is given, unrendered.
    pub fn prompt(&self) -> &Prompt {
        &self.prompt
    }
}

impl Agent {
    /// Opens a session of this agent in a workspace. Nobody can be asked there: what needs an approval is denied.
    ///
    /// # Errors
    /// When the session cannot be read.
    pub async fn open(&self, workspace: &Arc<Workspace>, session: &str) -> Result<OpenSession, OpenError> {
        self.open_with(workspace, session, |builder| builder).await
    }

    /// As [`Agent::open`], with an approver, a progress listener and the like: whatever the surface brings along. The agent's
    /// own limits are set already.
    ///
    /// # Errors
    /// As [`Agent::open`].
    pub async fn open_with(
        &self,
        workspace: &Arc<Workspace>,
        session: &str,
        surface: impl FnOnce(ExecutorBuilder) -> ExecutorBuilder,
    ) -> Result<OpenSession, OpenError> {
        let clock = Arc::clone(workspace.store().clock());
        let prepared = self.prepare(workspace, workspace.session(session).clock(clock)).await?;
        let Prepared { session, prompt, resources, .. } = prepared;
        let builder = Executor::builder(&prompt, &session).resources(resources);
        let builder = self.inner.held.apply(builder, &**session.clock())?;
        let executor = surface(builder).open().await?;
        Ok(OpenSession { session, executor, prompt })
    }

    /// All that a session of this agent is opened with, for whoever opens it in another way: `session` is one of the workspace.
    ///
    /// # Errors
    /// As [`Agent::open`].
    pub async fn prepare(
        &self,
        workspace: &Arc<Workspace>,
        session: SessionBuilder,
    ) -> Result<Prepared, OpenError> {
        let session = session.open().await?;
        if self.inner.digest == Digest::Shown
            && let Err(error) = WorkspaceDigest::refresh(&session, &**workspace.files()).await
        {
            // The model is told that there is none, or what there was.
            tracing::warn!(%error, "the digest of the workspace could not be brought up to date");
        }
        let files = own_file::guarded(workspace.files(), self.origin(), &self.inner.held)?;
        let resources = ResourceRegistry::of([Binding::filesystem(Arc::new(files))]).unwrap_or_default();
        let (prompt, limits) = (self.prompt_in(workspace), self.inner.held.limits.clone());
        Ok(Prepared { session, prompt, resources, limits })
    }
}
