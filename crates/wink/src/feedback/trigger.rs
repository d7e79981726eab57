//! When a provider is asked.

use std::sync::Arc;
use std::time::Duration;

/// When a provider is asked: after so many calls, after so much time, when a file is first there, or any of these.
///
/// Calls and time are counted from when the provider was last asked. Every call of the prompt counts, whatever came
/// of it.
///
/// ```
/// use std::time::Duration;
/// use wink::feedback::Trigger;
///
/// let trigger = Trigger::every_calls(10).or(Trigger::every(Duration::from_secs(60))).or(Trigger::file("REPORT.md"));
/// # let _ = trigger;
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use = "a trigger does nothing without a provider"]
pub struct Trigger {
    pub(super) calls: Option<u64>,
    pub(super) interval: Option<Duration>,
    pub(super) files: Vec<Arc<str>>,
}

impl Trigger {
    /// After every `count` calls; 0 counts as 1.
    pub fn every_calls(count: u64) -> Self {
        Self { calls: Some(count.max(1)), ..Self::default() }
    }

    /// At the first call, then at the first one after each `interval`.
    pub fn every(interval: Duration) -> Self {
        Self { interval: Some(interval), ..Self::default() }
    }

    /// After the first call that finds something at this path of the workspace. Once, also when it goes and comes
    /// back.
    pub fn file(path: impl Into<Arc<str>>) -> Self {
        Self { files: vec![path.into()], ..Self::default() }
    }

    /// Whichever comes first. Of two counts or intervals the shorter one stays.
    pub fn or(mut self, other: Self) -> Self {
        self.calls = self.calls.into_iter().chain(other.calls).min();
        self.interval = self.interval.into_iter().chain(other.interval).min();
        self.files.extend(other.files);
        self
    }
}
