//! (room: session)
