//! (room: tool)
