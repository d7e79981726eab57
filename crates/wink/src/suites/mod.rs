//! Suites: sections with everything wired, ready to be added to a prompt.
//!
//! A suite is written with the same public parts that anybody can use: tools, slices, policies and bindings. Nothing
//! in the runtime knows that suites exist.

pub mod digest;
pub mod files;
mod plain;
pub mod planning;

pub use digest::{RefreshError, Refreshed, WorkspaceDigest, WorkspaceDigestSection};
pub use files::{HostMount, MountError, VfsConfig, VfsToolsSection};
pub use planning::{Plan, PlanStatus, PlanStep, PlanningStrategy, PlanningToolsSection, StepStatus};
