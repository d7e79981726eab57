//! Small shared parts that belong to no room: boxed futures, locks that outlive a panic, unwinding.

pub(crate) mod future;
pub(crate) mod lock;
