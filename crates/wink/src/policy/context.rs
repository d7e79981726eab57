//! What a policy may look at, and where it may remember.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::filesystem::{FileVersion, Filesystem, FilesystemExt, FsError, FsPath, Metadata};
use crate::limits::{Clock, Deadline};
use crate::resource::{CallResources, Glance, ResourceContext, ResourceError};
use crate::session::{CallStat, Session, SliceType, SliceView};
use crate::tool::context::Invocation;
use crate::transaction::{AccessError, Work};

/// The world as a policy sees it: nothing here changes anything.
pub struct PolicyContext<'a> {
    pub(crate) key: &'a Arc<str>,
    pub(crate) session: &'a Session,
    pub(crate) files: PolicyFiles<'a>,
    pub(crate) work: Option<&'a Work>,
    pub(crate) invocation: &'a Invocation,
    pub(crate) deadline: Option<Deadline>,
}

/// Where a policy's view of the workspace comes from: before the call from what is committed, after it from what
/// the call did.
#[derive(Clone, Copy)]
pub(crate) enum PolicyFiles<'a> {
    Committed(&'a ResourceContext, &'a Glance),
    InCall(&'a CallResources),
}

impl PolicyContext<'_> {
    /// The policy's own stable key.
    pub fn key(&self) -> &Arc<str> {
        self.key
    }

    /// The slice of `T`. Of a LOG slice that cannot be read as a whole when it is gone through, what there is; the policy
    /// then could not decide, whatever it says.
    ///
    /// # Errors
    /// When what is stored of it cannot be read.
    pub fn slice<T: SliceType>(&self) -> Result<SliceView<T>, AccessError> {
        match self.work {
            Some(work) => work.slice_for_policy(),
            None => {
                self.session.readable_slot::<T>()?;
                Ok(self.session.slice())
            }
        }
    }

    /// How often `tool` succeeded in this session, and when last. Flat, however long the history.
    pub fn calls(&self, tool: &str) -> Option<CallStat> {
        self.session.calls(tool)
    }

    /// How many calls succeeded in this session, over all tools.
    pub fn total_calls(&self) -> u64 {
        self.session.total_calls()
    }

    /// What this policy remembered under `item`.
    pub fn remembered(&self, item: &str) -> Option<Arc<Value>> {
        match self.work {
            Some(work) => work.policy_get(self.key, item).ok().flatten(),
            None => self.session.policy_item(self.key, item),
        }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.session.clock().now()
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        self.session.clock()
    }

    /// When everything must be over.
    pub fn deadline(&self) -> Option<Deadline> {
        self.deadline
    }

    /// The call.
    pub fn invocation(&self) -> &Invocation {
        self.invocation
    }

    /// The path that `text` means in the workspace; none without a workspace.
    pub async fn path(&self, text: &str) -> Result<Option<FsPath>, PolicyFilesError> {
        match self.files().await? {
            Some(files) => Ok(Some(files.path(text)?)),
            None => Ok(None),
        }
    }

    /// The places that a path of a call may reach, itself among them: where symbolic links lead to, as they are now. None
    /// without a workspace.
    pub async fn places(&self, text: &str) -> Result<Option<Vec<FsPath>>, PolicyFilesError> {
        match self.files().await? {
            Some(files) => Ok(Some(files.places(&files.path(text)?).await?)),
            None => Ok(None),
        }
    }

    /// What is known about a path; none if there is nothing there.
    pub async fn stat(&self, path: &FsPath) -> Result<Option<Metadata>, PolicyFilesError> {
        let Some(files) = self.files().await? else { return Ok(None) };
        match files.stat(path).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_absence() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The version of the file at a path; none if there is nothing there.
    pub async fn version(&self, path: &FsPath) -> Result<Option<FileVersion>, PolicyFilesError> {
        Ok(self.stat(path).await?.map(|metadata| metadata.version))
    }

    /// The same for a policy inside this one, which keeps its state under a key of its own.
    pub(crate) fn part<'b>(&'b self, key: &'b Arc<str>) -> PolicyContext<'b> {
        PolicyContext {
            key,
            session: self.session,
            files: self.files,
            work: self.work,
            invocation: self.invocation,
            deadline: self.deadline,
        }
    }

    async fn files(&self) -> Result<Option<Arc<dyn Filesystem>>, ResourceError> {
        match self.files {
            PolicyFiles::Committed(resources, glance) => glance.files(resources).await,
            PolicyFiles::InCall(resources) => resources.get_optional::<dyn Filesystem>().await,
        }
    }
}

/// A policy could not look at the workspace.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PolicyFilesError {
    /// The workspace could not be had.
    #[error(transparent)]
    Resource(#[from] ResourceError),
    /// The filesystem says why.
    #[error(transparent)]
    Fs(#[from] FsError),
}

/// Where a policy remembers: its own state in the session, part of the call's transaction.
pub struct PolicyMemory<'a> {
    pub(crate) key: &'a Arc<str>,
    pub(crate) work: &'a Work,
}

impl PolicyMemory<'_> {
    /// Remembers `value` under `item`.
    pub fn remember(&self, item: impl Into<Arc<str>>, value: Value) -> Result<(), AccessError> {
        self.work.policy_set(self.key, item.into(), Some(Arc::new(value)))
    }

    /// The memory of a policy inside this one.
    pub(crate) fn part<'b>(&'b self, key: &'b Arc<str>) -> PolicyMemory<'b> {
        PolicyMemory { key, work: self.work }
    }

    /// Forgets `item`.
    pub fn forget(&self, item: impl Into<Arc<str>>) -> Result<(), AccessError> {
        self.work.policy_set(self.key, item.into(), None)
    }
}

/// A successful result, as `on_result` sees it.
pub struct ResultView<'a> {
    /// The message.
    pub message: &'a str,
    /// Whether it was taken from the ledger.
    pub replayed: bool,
    pub(crate) value: Option<&'a dyn crate::session::ErasedValue>,
}

impl ResultView<'_> {
    /// The value as JSON.
    pub fn json(&self) -> Option<Value> {
        self.value.and_then(|value| value.to_json().ok())
    }

    /// The value in its own type.
    pub fn typed<R: 'static>(&self) -> Option<&R> {
        let value: &dyn std::any::Any = self.value?;
        value.downcast_ref()
    }
}
