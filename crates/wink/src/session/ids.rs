//! Identifiers: sessions and invocations. Ours, always unique; a provider's call ids are not.

use std::fmt;
use std::sync::Arc;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Session;

/// A session's name in the store.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// A fresh id, unique in this and every other process.
    pub fn fresh(now: Timestamp) -> Self {
        Self(fresh_uuid(now).to_string().into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SessionId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for SessionId {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One tool invocation. Every call that reaches the runtime gets its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InvocationId(Uuid);

impl InvocationId {
    /// A fresh id, ordered by time.
    pub fn fresh(now: Timestamp) -> Self {
        Self(fresh_uuid(now))
    }

    /// The id of what was recorded before it had one.
    pub(crate) fn unknown() -> Self {
        Self(Uuid::nil())
    }

    /// Reads the form that [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::parse_str(text).ok().map(Self)
    }
}

impl fmt::Display for InvocationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// Where the ids of a session's calls and renderings come from.
///
/// By chance, unless a run is to be repeated: with the same seed, the same clock and the same calls, a session comes to be the
/// same byte for byte.
#[derive(Debug, Clone, Default)]
pub struct IdSource(Option<Arc<Seeded>>);

#[derive(Debug)]
struct Seeded {
    seed: u64,
    next: AtomicU64,
}

impl IdSource {
    /// Ids that nobody can foretell, unique in this and every other process.
    pub fn random() -> Self {
        Self::default()
    }

    /// Ids that a seed decides. They are unique within what shares this source, and as rare as the seed elsewhere.
    pub fn seeded(seed: u64) -> Self {
        Self(Some(Arc::new(Seeded { seed, next: AtomicU64::new(0) })))
    }

    pub(crate) fn invocation(&self, now: Timestamp) -> InvocationId {
        match &self.0 {
            None => InvocationId::fresh(now),
            Some(seeded) => {
                let count = seeded.next.fetch_add(1, Ordering::Relaxed);
                InvocationId(uuid_of(now, (mix(seeded.seed), mix(!seeded.seed)), count))
            }
        }
    }
}

impl Session {
    /// Where the ids of its calls come from, for a session that is to share it.
    pub fn ids(&self) -> &IdSource {
        &self.core.ids
    }

    /// The id of something that begins now.
    pub(crate) fn fresh_id(&self, now: Timestamp) -> InvocationId {
        self.core.ids.invocation(now)
    }
}

/// A version 7 UUID. The random part is a process-wide random start and a counter, mixed: as unique as drawing
/// fresh bytes each time, without asking the system for some on every call.
pub(crate) fn fresh_uuid(now: Timestamp) -> Uuid {
    static START: LazyLock<(u64, u64)> = LazyLock::new(|| {
        use std::hash::{BuildHasher, RandomState};
        let mut hasher = blake3::Hasher::new();
        for _ in 0..4 {
            hasher.update(&RandomState::new().hash_one(std::process::id()).to_le_bytes());
        }
        let mut words = [[0u8; 8]; 2];
        hasher.finalize_xof().fill(words.as_flattened_mut());
        let [low, high] = words.map(u64::from_be_bytes);
        (low, high)
    });
    static NEXT: AtomicU64 = AtomicU64::new(0);

    uuid_of(now, *START, NEXT.fetch_add(1, Ordering::Relaxed))
}

fn uuid_of(now: Timestamp, (low, high): (u64, u64), count: u64) -> Uuid {
    let first = mix(low.wrapping_add(count)).to_be_bytes();
    let second = high.wrapping_add(count).to_be_bytes();
    let [a, b, c, d, e, f, g, h] = first;
    let [i, j, ..] = second;
    let random = [a, b, c, d, e, f, g, h, i, j];
    let millis = u64::try_from(now.as_millisecond()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
}

/// A bijection on 64 bits (splitmix64's finaliser): distinct counts stay distinct.
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
