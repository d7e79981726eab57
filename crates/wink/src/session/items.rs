//! What a slice holds.

use super::paged::Older;
use super::slice::{Item, SliceKey};

/// The items of a slice. Keyed slices pay for an index; the others do not.
#[derive(Clone)]
pub(crate) enum Items {
    List(imbl::Vector<Item>),
    Keyed {
        order: imbl::OrdMap<u64, Item>,
        places: imbl::HashMap<SliceKey, u64>,
        next: u64,
    },
    /// A LOG slice that the store keeps: what it has, and after that what it has not been given yet.
    Stored {
        older: Older,
        tail: imbl::Vector<Item>,
    },
}

impl Items {
    pub(super) fn empty(keyed: bool) -> Self {
        if keyed {
            Self::Keyed { order: imbl::OrdMap::new(), places: imbl::HashMap::new(), next: 0 }
        } else {
            Self::List(imbl::Vector::new())
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::List(list) => list.len(),
            Self::Keyed { order, .. } => order.len(),
            Self::Stored { older, tail } => older.len().saturating_add(tail.len()),
        }
    }

    /// How many items are in memory.
    pub(super) fn held(&self) -> usize {
        match self {
            Self::List(list) | Self::Stored { tail: list, .. } => list.len(),
            Self::Keyed { order, .. } => order.len(),
        }
    }

    /// The items that are in memory, oldest first.
    pub(super) fn in_memory(&self) -> Box<dyn Iterator<Item = Item> + '_> {
        match self {
            Self::List(list) | Self::Stored { tail: list, .. } => Box::new(list.iter().cloned()),
            Self::Keyed { order, .. } => Box::new(order.values().cloned()),
        }
    }

    pub(super) fn last(&self) -> Option<Item> {
        match self {
            Self::List(list) => list.last().cloned(),
            Self::Keyed { order, .. } => order.get_max().map(|(_, item)| item.clone()),
            Self::Stored { .. } => self.newest().next(),
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Item> {
        match self {
            Self::List(_) | Self::Stored { .. } => None,
            Self::Keyed { order, places, .. } => places.get(key).and_then(|place| order.get(place)),
        }
    }

    /// Whether both are the same collection. False may also mean equal contents.
    pub(crate) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::List(one), Self::List(other)) => one.ptr_eq(other),
            (Self::Keyed { order: one, .. }, Self::Keyed { order: other, .. }) => one.ptr_eq(other),
            _ => false,
        }
    }

    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = Item> + '_> {
        match self {
            Self::List(list) => Box::new(list.iter().cloned()),
            Self::Keyed { order, .. } => Box::new(order.values().cloned()),
            Self::Stored { older, tail } => Box::new(older.oldest().chain(tail.iter().cloned())),
        }
    }

    pub(super) fn newest(&self) -> Box<dyn Iterator<Item = Item> + '_> {
        match self {
            Self::List(list) => Box::new(list.iter().rev().cloned()),
            Self::Keyed { order, .. } => Box::new(order.values().rev().cloned()),
            Self::Stored { older, tail } => Box::new(tail.iter().rev().cloned().chain(older.newest())),
        }
    }
}
