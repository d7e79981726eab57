//! What the two subjects of the contract have in common: one with the real program, one with a test in its place.

#![allow(unreachable_pub, reason = "shared by tests")]

use wink_models::claude::ClaudeAdapter;
use wink_models::testing::{Differs, Setup};

/// What the program does itself, so that no session can be the very same.
pub const DIFFERS: &[Differs] = &[
    Differs {
        scenario: "an unknown tool",
        places: &["answers/text"],
        why: "the program answers calls of tools that it does not know, in its own words",
    },
    Differs {
        scenario: "throttling",
        places: &["time", "items/id", "created_at", "note/last"],
        why: "the program waits between requests itself, by no clock of ours",
    },
    Differs {
        scenario: "throttled for too long",
        places: &["last/retry_after", "created_at", "slices/items"],
        why: "the program says how often it asked, and not how long the provider wanted it to wait",
    },
];

pub fn adapter(setup: Setup) -> ClaudeAdapter {
    ClaudeAdapter::new("scripted").terms(setup.terms).random(setup.random)
}
