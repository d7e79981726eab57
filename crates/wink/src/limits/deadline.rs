//! Deadlines: a moment by which an evaluation must be done.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::clock::Clock;

/// The moment by which an evaluation must be done, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Deadline(Timestamp);

impl Deadline {
    /// How far ahead a deadline must lie when it is set: with less, nothing could be done before it.
    pub const SHORTEST: Duration = Duration::from_secs(1);

    /// A deadline at `moment`.
    ///
    /// # Errors
    /// When it is past, or less than a second ahead.
    pub fn at(moment: Timestamp, clock: &dyn Clock) -> Result<Self, InvalidDeadline> {
        Self::seen_from(clock.now(), moment)
    }

    fn seen_from(now: Timestamp, moment: Timestamp) -> Result<Self, InvalidDeadline> {
        if moment <= now {
            return Err(InvalidDeadline::Past { deadline: moment, now });
        }
        if moment.duration_since(now).unsigned_abs() < Self::SHORTEST {
            return Err(InvalidDeadline::TooSoon { deadline: moment, now });
        }
        Ok(Self(moment))
    }

    /// A deadline `ahead` from now.
    ///
    /// # Errors
    /// When it is less than a second ahead, or too far to be a date.
    pub fn after(ahead: Duration, clock: &dyn Clock) -> Result<Self, InvalidDeadline> {
        // One look at the clock: a second ahead is a second ahead.
        let now = clock.now();
        let moment = now.checked_add(ahead).map_err(|_| InvalidDeadline::TooFar { ahead })?;
        Self::seen_from(now, moment)
    }

    /// A deadline from text such as `2026-03-01T12:00:00Z` or `…+02:00`.
    ///
    /// # Errors
    /// When the text is no timestamp, says no time zone, or [`Deadline::at`] refuses the moment.
    pub fn parse(text: &str, clock: &dyn Clock) -> Result<Self, InvalidDeadline> {
        match text.parse::<Timestamp>() {
            Ok(moment) => Self::at(moment, clock),
            Err(_) if text.parse::<jiff::civil::DateTime>().is_ok() => {
                Err(InvalidDeadline::Naive { text: text.to_owned() })
            }
            Err(cause) => Err(InvalidDeadline::NoTimestamp { text: text.to_owned(), cause }),
        }
    }

    /// The moment itself.
    #[must_use]
    pub fn timestamp(self) -> Timestamp {
        self.0
    }

    /// How long there is until then; zero when it is past.
    #[must_use]
    pub fn remaining(self, clock: &dyn Clock) -> Duration {
        Duration::try_from(self.0.duration_since(clock.now())).unwrap_or(Duration::ZERO)
    }

    /// Whether the moment has come.
    #[must_use]
    pub fn is_past(self, clock: &dyn Clock) -> bool {
        self.0 <= clock.now()
    }

    /// `Ok` while there is time left.
    ///
    /// # Errors
    /// When the moment has come.
    pub fn check(self, clock: &dyn Clock) -> Result<(), DeadlineExceededError> {
        if self.is_past(clock) { Err(self.exceeded()) } else { Ok(()) }
    }

    /// The error that says this deadline has passed.
    #[must_use]
    pub fn exceeded(self) -> DeadlineExceededError {
        DeadlineExceededError { deadline: self.0 }
    }
}

impl std::fmt::Display for Deadline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// A deadline has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("the deadline ({deadline}) has passed")]
pub struct DeadlineExceededError {
    /// The moment by which all should have been done.
    pub deadline: Timestamp,
}

/// Why a moment cannot be a deadline.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum InvalidDeadline {
    /// It has been.
    #[error("a deadline must lie ahead, but {deadline} is past (it is {now})")]
    Past {
        /// The moment.
        deadline: Timestamp,
        /// The time it was refused.
        now: Timestamp,
    },
    /// It is less than a second ahead.
    #[error("a deadline must lie at least 1 s ahead, but {deadline} does not (it is {now})")]
    TooSoon {
        /// The moment.
        deadline: Timestamp,
        /// The time it was refused.
        now: Timestamp,
    },
    /// It is further ahead than dates go.
    #[error("a deadline {ahead:?} ahead is further than dates go")]
    TooFar {
        /// How far.
        ahead: Duration,
    },
    /// It says no time zone, so it could be any of a day's moments.
    #[error("the deadline `{text}` says no time zone; write it with `Z` or an offset, such as `{text}Z`")]
    Naive {
        /// The text.
        text: String,
    },
    /// It is no timestamp.
    #[error("the deadline `{text}` is no timestamp ({cause}); expected something like 2026-03-01T12:00:00Z")]
    NoTimestamp {
        /// The text.
        text: String,
        /// What the parser said.
        #[source]
        cause: jiff::Error,
    },
}
