//! What the two subjects of the contract have in common: one with the real program, one with a test in its place.

#![allow(unreachable_pub, reason = "shared by tests")]

use wink_models::claude::ClaudeAdapter;
use wink_models::testing::{LeftOut, Setup};

/// What the program does itself, so that no session can be the same.
pub const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        scenario: "an unknown tool",
        why: "the program answers calls of tools that it does not know, in its own words; that they are in the log is tested in \
              `what_the_program_refuses_by_itself_is_in_the_log_and_changes_nothing`",
    },
    LeftOut {
        scenario: "a typed result at the second try",
        why: "the program checks typed results itself, and asks for another one without a word to us",
    },
    LeftOut {
        scenario: "no typed result",
        why: "the program checks typed results itself, and gives up by its own count",
    },
    LeftOut {
        scenario: "throttling",
        why: "the program waits between requests itself, by no clock of ours; the log has other times",
    },
    LeftOut {
        scenario: "throttled for too long",
        why: "the program says how often it asked, and not how long the provider wanted it to wait",
    },
];

pub fn adapter(setup: Setup) -> ClaudeAdapter {
    ClaudeAdapter::new("scripted").terms(setup.terms).random(setup.random)
}
