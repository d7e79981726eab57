//! (room: ledger)
