//! Resources: what tools work with beside the session, such as clients, stores and the workspace's files.
//!
//! A [`Binding`] says how one type (or trait object) is made and how long an instance lives; a
//! [`ResourceRegistry`] is a set of bindings; an opened [`ResourceContext`] holds the singletons; a
//! [`CallScope`] is one tool call's view of it. Inside a call, a snapshotable resource is seen through the
//! call's own fork: committing merges the fork into the original, rolling back forgets it.
//!
//! This room never runs tools, knows no session, and holds no lock while foreign code runs.

mod binding;
mod context;
mod core;
mod error;
mod files;
mod glance;
mod merge;
mod name;
mod registry;
mod resolve;
mod scope;
mod scope_inner;
mod shared;
mod slot;
mod snapshot;

pub use binding::{AnyBinding, Binding, BindingSet, Scope};
pub use context::{ResourceContext, RestoreReport};
pub use error::{BoxError, Cause, ResourceError, ResourceErrors, SnapshotStep};
pub(crate) use glance::Glance;
pub use merge::{CallEnd, MergeUndo};
pub use name::ResourceName;
pub use registry::{MergeMode, ResourceRegistry};
pub use resolve::Resolver;
pub(crate) use scope::MustWait;
pub use scope::{CallResources, CallScope};
pub use shared::Shared;
pub(crate) use slot::Closing as ResourceClosing;
pub use snapshot::{ResourceSnapshot, Snapshotable};
