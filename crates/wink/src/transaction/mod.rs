//! (room: transaction)
