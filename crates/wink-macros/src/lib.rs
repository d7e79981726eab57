//! Sugar.
