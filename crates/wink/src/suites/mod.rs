//! Suites: sections with everything wired, ready to be added to a prompt.
//!
//! A suite is written with the same public parts that anybody can use: tools, slices, policies and bindings. Nothing
//! in the runtime knows that suites exist.

pub mod digest;
pub mod files;
mod plain;
pub mod planning;

use crate::prompt::SectionVisibility;
use crate::session::{Session, SessionError};

pub use digest::{RefreshError, Refreshed, WorkspaceDigest, WorkspaceDigestSection};
pub use files::{HostMount, MountError, VfsConfig, VfsToolsSection};
pub use planning::{
    Plan, PlanChecker, PlanStatus, PlanStep, PlanningStrategy, PlanningToolsSection, StepStatus,
};

/// Makes the slices of every suite known to a session, and what says which sections are open: for a program that has none
/// of their sections at hand, and undoes what their tools did.
///
/// # Errors
/// When another type has one of their names.
pub fn know_slices(session: &Session) -> Result<(), SessionError> {
    session.know::<Plan>()?;
    session.know::<WorkspaceDigest>()?;
    session.know::<SectionVisibility>()
}
