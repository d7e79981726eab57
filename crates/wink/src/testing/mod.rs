//! (room: testing)
