//! Tables by tool name, looked into at every call: a cheap hash, and nothing allocated.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// A map whose keys are the names of tools that exist. They are not a model's choice, so nobody can make
/// them collide, and the hash may be a cheap one.
pub(crate) type ByName<T> = HashMap<Arc<str>, T, BuildHasherDefault<NameHasher>>;

/// No tool has a longer name, so a longer one need not be hashed.
pub(crate) const LONGEST_NAME: usize = 64;

/// Hashes eight bytes at a time by multiplication and folding.
#[derive(Default)]
pub(crate) struct NameHasher(u64);

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            self.mix(chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
        self.mix(chunks.remainder().iter().fold(1, |word, byte| word << 8 | u64::from(*byte)));
    }

    fn write_u8(&mut self, byte: u8) {
        // The end of a text; texts of different lengths differ already.
        let _ = byte;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl NameHasher {
    fn mix(&mut self, word: u64) {
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        let product = u128::from(self.0 ^ word) * u128::from(ODD);
        self.0 = (product as u64) ^ ((product >> 64) as u64) ^ ODD;
    }
}
