//! Random choices that a seed repeats.

/// Numbers that look random, and are the same for the same seed: what a test did by chance can be done again.
///
/// ```
/// use wink::testing::Dice;
///
/// let (mut one, mut two) = (Dice::new(7), Dice::new(7));
/// assert_eq!(one.any(), two.any());
/// assert!(one.below(3) < 3);
/// assert_eq!(one.pick::<u8>(&[]), None);
/// ```
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice that fall the same way for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number (SplitMix64).
    pub fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `end`; 0, if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.any() % end.max(1) as u64).unwrap_or(0)
    }

    /// One of them, if there are any.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }
}
