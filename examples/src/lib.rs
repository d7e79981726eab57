//! The examples are the programs beside this folder; the package has no library of its own.
