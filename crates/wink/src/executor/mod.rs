//! (room: executor)
