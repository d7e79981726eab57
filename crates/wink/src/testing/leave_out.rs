//! Tests that a machine cannot run: said, not passed over.

use std::io::Write;

/// The variable that lets tests be left out.
const ALLOWED: &str = "WINK_TEST_LEAVE_OUT";

/// For a test that needs what this machine does not have: fails it. Where the environment variable `WINK_TEST_LEAVE_OUT` is set (to
/// anything), says on the terminal that it was not run, and returns. So nobody takes for tested what was not.
///
/// # Panics
///
/// Unless the variable is set.
pub fn leave_out(what: &str, why: &str) {
    assert!(
        std::env::var_os(ALLOWED).is_some(),
        "cannot be run on this machine: {what}: {why}. To leave out what it cannot run, and be told, set {ALLOWED}=1"
    );
    // Not by a macro: what those print is kept back while a test passes.
    let _ = writeln!(std::io::stderr(), "NOT RUN: {what}: {why}");
}
