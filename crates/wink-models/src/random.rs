//! Chance, which is injected like time: a run that is to be repeated brings its own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

/// A source of numbers that nobody can foretell, or of the same ones every time. Clones draw from the same source.
#[derive(Clone)]
pub struct Random(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Random {
    /// The machine's.
    pub fn system() -> Self {
        Self(Arc::new(|| {
            // A few bits of each half are fixed, and not the same.
            let (high, low) = Uuid::new_v4().as_u64_pair();
            high ^ low.rotate_left(32)
        }))
    }

    /// What a seed decides.
    pub fn seeded(seed: u64) -> Self {
        let state = AtomicU64::new(seed);
        Self(Arc::new(move || {
            // SplitMix64.
            let step = 0x9e37_79b9_7f4a_7c15u64;
            let mut word = state.fetch_add(step, Ordering::Relaxed).wrapping_add(step);
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        }))
    }

    /// Any number.
    pub fn any(&self) -> u64 {
        (self.0)()
    }

    /// A name that nothing else has.
    pub(crate) fn name(&self) -> Arc<str> {
        uuid::Builder::from_random_bytes(
            ((u128::from(self.any()) << 64) | u128::from(self.any())).to_be_bytes(),
        )
        .into_uuid()
        .to_string()
        .into()
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random")
    }
}
