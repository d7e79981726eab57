//! (room: prompt)
