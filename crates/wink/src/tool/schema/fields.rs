//! Which fields of an object have come.

use std::borrow::Cow;

use super::node::{ObjectRules, Property};
use super::scan::KeySet;

/// The fields of one object so far.
pub(super) struct Fields<'t> {
    pub(super) seen: Seen,
    others: KeySet<'t>,
    pub(super) count: usize,
    pub(super) required: usize,
    /// Which property is expected to come next.
    pub(super) next: usize,
}

impl<'t> Fields<'t> {
    pub(super) fn new(rules: &ObjectRules) -> Self {
        let (seen, others) = (Seen::new(rules.properties.len()), KeySet::default());
        Self { seen, others, count: 0, required: 0, next: 0 }
    }

    /// Notes a field that the schema knows. False: it was there already.
    #[inline]
    pub(super) fn known(&mut self, index: usize, property: &Property) -> bool {
        let fresh = self.seen.insert(index);
        self.count += usize::from(fresh);
        self.required += usize::from(fresh && property.required);
        self.next = index + 1;
        fresh
    }

    /// Notes any other field. False: it was there already.
    pub(super) fn other(&mut self, name: Cow<'t, str>) -> bool {
        let fresh = self.others.insert(name);
        self.count += usize::from(fresh);
        fresh
    }
}

/// Which of the known properties have come.
pub(super) enum Seen {
    Few(u64),
    Many(Vec<bool>),
}

impl Seen {
    fn new(properties: usize) -> Self {
        if properties <= 64 { Self::Few(0) } else { Self::Many(vec![false; properties]) }
    }

    /// False: it was there already.
    fn insert(&mut self, index: usize) -> bool {
        match self {
            Self::Few(bits) => {
                let bit = 1_u64.checked_shl(index as u32).unwrap_or(0);
                let fresh = *bits & bit == 0;
                *bits |= bit;
                fresh
            }
            Self::Many(flags) => flags.get_mut(index).is_some_and(|flag| !std::mem::replace(flag, true)),
        }
    }

    pub(super) fn contains(&self, index: usize) -> bool {
        match self {
            Self::Few(bits) => bits & 1_u64.checked_shl(index as u32).unwrap_or(0) != 0,
            Self::Many(flags) => flags.get(index).copied().unwrap_or(false),
        }
    }
}
