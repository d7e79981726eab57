//! (room: filesystem)
