//! (room: tool)

pub mod schema;
pub mod secret;
