//! What can go wrong with resources.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::name::ResourceName;

/// Any error of a provider, hook or snapshot: `?` converts into it.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The cause of a [`ResourceError`], shared by everyone who waited for the same instance.
pub type Cause = Arc<dyn Error + Send + Sync>;

/// The operation of a snapshotable resource that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotStep {
    /// Making a call's private copy.
    Fork,
    /// Bringing a call's changes into the original.
    Merge,
    /// Taking a snapshot.
    Snapshot,
    /// Going back to a snapshot.
    Restore,
    /// Reading or writing a snapshot's JSON form.
    Decode,
}

impl fmt::Display for SnapshotStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fork => "copied for a call",
            Self::Merge => "merged",
            Self::Snapshot => "snapshotted",
            Self::Restore => "restored",
            Self::Decode => "read from or written to JSON",
        })
    }
}

/// What went wrong with a resource.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum ResourceError {
    /// Nothing is bound for the type.
    #[error("No binding for {name}")]
    Unbound {
        /// The type asked for.
        name: ResourceName,
    },
    /// The same type is bound twice in one registry.
    #[error("{name} is bound twice; bind each type once, or merge registries with MergeMode::LaterWins")]
    Duplicate {
        /// The type bound twice.
        name: ResourceName,
    },
    /// A binding contradicts itself.
    #[error("the binding of {name} is not valid: {reason}")]
    InvalidBinding {
        /// The binding.
        name: ResourceName,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Resources that need each other.
    #[error("resources depend on each other: {}", Arrows(path))]
    Cycle {
        /// The way round, with the same name at both ends.
        path: Vec<ResourceName>,
    },
    /// A provider failed or panicked.
    #[error("{name} could not be built: {cause}")]
    Provider {
        /// What was being built.
        name: ResourceName,
        /// Why it could not be.
        #[source]
        cause: Cause,
    },
    /// A `post_construct` hook failed or panicked; the instance was closed.
    #[error("{name} failed in post_construct and was closed: {cause}")]
    PostConstruct {
        /// What was being built.
        name: ResourceName,
        /// Why it failed.
        #[source]
        cause: Cause,
    },
    /// An `on_close` hook failed or panicked.
    #[error("{name} could not be closed: {cause}")]
    Close {
        /// What was being closed.
        name: ResourceName,
        /// Why it failed.
        #[source]
        cause: Cause,
    },
    /// A longer-lived resource asked for one that lives for one call.
    #[error(
        "{holder} is a singleton and cannot hold {dependency}, which lives for one tool call; \
         bind {holder} with Scope::ToolCall"
    )]
    ScopeCaptured {
        /// The longer-lived one.
        holder: ResourceName,
        /// The one it asked for.
        dependency: ResourceName,
    },
    /// A longer-lived resource asked for a snapshotable one, and would write past the transaction.
    #[error(
        "{holder} is a singleton and cannot hold {dependency}: what it did there would escape the call's \
         transaction; bind {holder} with Scope::ToolCall, or use Resolver::get_original where nothing is written"
    )]
    TransactionEscape {
        /// The longer-lived one.
        holder: ResourceName,
        /// The snapshotable one it asked for.
        dependency: ResourceName,
    },
    /// What is built for a call asked for a snapshotable resource that the tool's footprint does not name.
    #[error(
        "{name} is outside the footprint that this tool declares (read): a resource of the call asked for it; \
         declare it with Footprint::share_resource or Footprint::use_resource"
    )]
    OutsideFootprint {
        /// The resource asked for.
        name: ResourceName,
    },
    /// A lazy resource was asked for before its registry was opened.
    #[error("{name} is built on demand; open the registry first")]
    NotOpen {
        /// The resource asked for.
        name: ResourceName,
    },
    /// The context was closed.
    #[error("{name} is not available: the resources are closed")]
    Closed {
        /// The resource asked for.
        name: ResourceName,
    },
    /// A call-scoped resource was asked for outside a call.
    #[error("{name} lives for one tool call; get it from the call's scope")]
    OutsideCall {
        /// The resource asked for.
        name: ResourceName,
    },
    /// The call has ended.
    #[error("{name} is not available: the call is over")]
    CallOver {
        /// The resource asked for.
        name: ResourceName,
    },
    /// A resolver was used after the build that it was for.
    #[error("{name} is not available here: a resolver serves only while its own resource is being built")]
    BuildOver {
        /// The resource asked for.
        name: ResourceName,
    },
    /// Somebody else changed a resource that this call changed, too.
    #[error("{name} was changed by somebody else meanwhile; nothing was overwritten")]
    Conflict {
        /// The resource.
        name: ResourceName,
    },
    /// A call that only looks changed its copy of a resource.
    #[error(
        "{name} was changed by a tool that may not: its handler takes a ReadContext and only looks; \
         take a ToolContext to change something"
    )]
    OnlyLooks {
        /// The resource.
        name: ResourceName,
    },
    /// An operation of a snapshotable resource failed.
    #[error("{name} could not be {step}: {cause}")]
    Snapshot {
        /// The resource.
        name: ResourceName,
        /// The operation.
        step: SnapshotStep,
        /// Why it failed.
        #[source]
        cause: Cause,
    },
    /// Something failed, and then putting things back failed as well: state may be inconsistent.
    #[error("{cause}; putting back what was already done failed as well: {failures}")]
    NotPutBack {
        /// What failed first.
        #[source]
        cause: Box<ResourceError>,
        /// What could not be put back.
        failures: ResourceErrors,
    },
}

impl ResourceError {
    /// Whether state could not be put back: a failure of the runtime's own ground.
    #[must_use]
    pub fn is_restore_failure(&self) -> bool {
        matches!(self, Self::NotPutBack { .. } | Self::Snapshot { step: SnapshotStep::Restore, .. })
    }
}

/// Several failures, none of which stopped the others.
#[derive(Debug, Clone)]
pub struct ResourceErrors(pub Vec<ResourceError>);

impl ResourceErrors {
    /// `Ok` when there is none.
    pub(crate) fn check(failures: Vec<ResourceError>) -> Result<(), Self> {
        if failures.is_empty() { Ok(()) } else { Err(Self(failures)) }
    }
}

impl fmt::Display for ResourceErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, failure) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("; ")?;
            }
            failure.fmt(f)?;
        }
        Ok(())
    }
}

impl Error for ResourceErrors {}

/// The text of a panic, as an error.
#[derive(Debug, Error)]
#[error("panicked: {0}")]
pub(crate) struct Panicked(pub(crate) String);

struct Arrows<'a>(&'a [ResourceName]);

impl fmt::Display for Arrows<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(" -> ")?;
            }
            name.fmt(f)?;
        }
        Ok(())
    }
}
