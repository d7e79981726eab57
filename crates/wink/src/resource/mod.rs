//! (room: resource)
