//! An agent where nothing has happened yet: to ask what would happen there.

use std::path::Path;
use std::sync::Arc;

use wink::executor::Executor;
use wink::filesystem::host::{HostFilesystem, HostOptions};
use wink::resource::{Binding, ResourceRegistry};
use wink::session::Session;

use crate::agent::Agent;
use crate::open::{OpenError, OpenSession};
use crate::own_file;

impl Agent {
    /// Opens a new session of this agent over a directory that is no workspace yet. Nothing is made there, and nothing can be
    /// changed: it is for asking, as with [`Executor::dry_run`].
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub async fn open_untouched(&self, root: &Path, session: &str) -> Result<OpenSession, OpenError> {
        let options = HostOptions { read_only: true, ..HostOptions::default() };
        let files = HostFilesystem::open(root, options).map_err(OpenError::Files)?;
        let files = own_file::guarded(&files, self.origin(), &self.inner.held)?;
        let resources = ResourceRegistry::of([Binding::filesystem(Arc::new(files))]).unwrap_or_default();
        let (session, prompt) = (Session::builder().id(session).build(), self.prompt().clone());
        let builder = Executor::builder(&prompt, &session).resources(resources);
        let executor = self.inner.held.apply(builder, &**session.clock())?.open().await?;
        Ok(OpenSession { session, executor, prompt })
    }
}
