//! Small shared parts that belong to no room: boxed futures, work that must be finished, stored JSON, locks
//! that outlive a panic.

pub(crate) mod background;
pub(crate) mod canonical;
pub(crate) mod future;
pub(crate) mod holding;
pub(crate) mod json;
pub(crate) mod lock;
pub(crate) mod names;
pub(crate) mod size;
pub(crate) mod steps;
