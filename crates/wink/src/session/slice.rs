//! Slices: typed collections that only events change.
//!
//! A slice's items are immutable and shared; a slice itself is a persistent collection, so a fork or a snapshot
//! of it is a handful of pointer copies whatever its size. Every change, however it was asked for, becomes a
//! [`Change`] first, and [`Cell::apply`] is the only code that applies one: in a call, at commit, and when a
//! stored session is read back.

use std::any::{Any, TypeId};
use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::items::Items;
use super::tally::Counted;
use crate::support::future::catch;
use crate::support::size;

/// A type whose values live in a slice of a session.
///
/// A value does not change once it was dispatched: what is in a slice changes by events only. So a type must not have
/// interior mutability that is serialised or that reducers read (`Arc<Mutex<_>>`, atomics, cells): a change through it is
/// neither rolled back nor stored, and is gone when the session is opened again. A durable session stores what a value
/// serialises to when its change is committed; a value that cannot be written as JSON (see [`ToolResult`](crate::tool::ToolResult)) fails that dispatch or call.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use wink::session::SliceType;
///
/// #[derive(Serialize, Deserialize)]
/// struct Note { text: String }
/// impl SliceType for Note {
///     const NAME: &'static str = "note";
/// }
/// ```
pub trait SliceType: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The stable name under which values are stored. Never change it.
    const NAME: &'static str;

    /// The version of the stored form. Raise it when the form changes, and say in [`SliceType::upgrade`] how to
    /// read the older ones.
    const VERSION: u32 = 1;

    /// Whether a failed call rolls the slice back.
    const KIND: SliceKind = SliceKind::State;

    /// Whether items have a [`SliceType::key`]. A keyed slice finds and replaces an item in flat time. LOG slices
    /// are never keyed, since nothing in them is replaced.
    const KEYED: bool = false;

    /// The item's key, in a keyed slice.
    fn key(&self) -> Option<SliceKey> {
        None
    }

    /// Whether the items of a LOG slice are counted. For the runtime's own events.
    #[doc(hidden)]
    const COUNTED: bool = false;

    /// Under what the item is counted.
    #[doc(hidden)]
    fn counted(&self) -> Option<Counted<'_>> {
        None
    }

    /// Turns a stored value of version `from` into the present form.
    fn upgrade(from: u32, value: Value) -> Result<Value, String> {
        let _ = value;
        Err(format!("no upgrade from version {from} to {}", Self::VERSION))
    }
}

/// Whether a slice is working state or record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SliceKind {
    /// Rolled back with the call that changed it.
    State,
    /// Never rolled back. It only grows.
    Log,
}

/// The key of an item in a keyed slice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SliceKey(Arc<str>);

impl<T: Into<Arc<str>>> From<T> for SliceKey {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl Borrow<str> for SliceKey {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SliceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a reducer asks for.
pub enum SliceOp<S> {
    /// Leave the slice as it is.
    Keep,
    /// Add one item at the end.
    Append(S),
    /// Add several items at the end.
    Extend(Vec<S>),
    /// Replace the item with the same key where it stands, or add it at the end. Keyed slices only.
    Upsert(S),
    /// Remove the item with the same key, and add this one at the end. Keyed slices only.
    ReplaceKey(S),
    /// Make these the only items.
    Replace(Vec<S>),
    /// Remove every item.
    Clear,
    /// Remove the items that match.
    ClearWhere(Arc<dyn Fn(&S) -> bool + Send + Sync>),
}

impl<S> fmt::Debug for SliceOp<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keep => "Keep",
            Self::Append(_) => "Append",
            Self::Extend(_) => "Extend",
            Self::Upsert(_) => "Upsert",
            Self::ReplaceKey(_) => "ReplaceKey",
            Self::Replace(_) => "Replace",
            Self::Clear => "Clear",
            Self::ClearWhere(_) => "ClearWhere",
        })
    }
}

/// A slice as it was at one moment: cheap to hold, never changing.
///
/// A LOG slice of a session that was opened from a durable store is in the store, and only what is not stored yet in memory:
/// the view reads it in pages as it is gone through, on the caller's thread, and holds one page at a time. How many items
/// there are is known without reading. What cannot be read is left out, and among
/// [`Session::problems`](super::Session::problems).
pub struct SliceView<T> {
    items: Items,
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for SliceView<T> {
    fn clone(&self) -> Self {
        Self { items: self.items.clone(), of: PhantomData }
    }
}

impl<T: SliceType> SliceView<T> {
    pub(crate) fn new(items: Items) -> Self {
        Self { items, of: PhantomData }
    }

    /// A slice that has nothing.
    pub(crate) fn empty() -> Self {
        Self::new(Items::empty(T::KEYED))
    }

    /// How many items there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The item added last.
    pub fn latest(&self) -> Option<Arc<T>> {
        self.items.last().and_then(typed)
    }

    /// The item with this key, in a keyed slice.
    pub fn get(&self, key: &str) -> Option<Arc<T>> {
        self.items.get(key).cloned().and_then(typed)
    }

    /// Every item, oldest first, without copying.
    pub fn iter(&self) -> impl Iterator<Item = Arc<T>> + '_ {
        self.items.iter().filter_map(typed)
    }

    /// Every item, newest first, without going through the others.
    pub fn newest(&self) -> impl Iterator<Item = Arc<T>> + '_ {
        self.items.newest().filter_map(typed)
    }

    /// Every item, oldest first.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.iter().collect()
    }

    /// The items that match, oldest first. (`where` is a keyword of the language.)
    pub fn filter(&self, matches: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        self.iter().filter(|item| matches(item)).collect()
    }
}

impl<T: SliceType + fmt::Debug> fmt::Debug for SliceView<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One immutable item, its type known to the slice's [`SliceDef`].
pub(crate) type Item = Arc<dyn Any + Send + Sync>;

fn typed<T: Send + Sync + 'static>(item: Item) -> Option<Arc<T>> {
    item.downcast().ok()
}

/// A concrete, repeatable change of a slice: what a reducer's wish comes down to, and what the store keeps.
#[derive(Clone)]
pub(crate) enum Change {
    Append(Item),
    Extend(Vec<Item>),
    Upsert(Item),
    ReplaceKey(Item),
    Replace(Vec<Item>),
    Remove(Vec<usize>),
}

impl Change {
    /// Whether everything that was there stays as it is.
    pub(crate) fn only_adds(&self) -> bool {
        matches!(self, Self::Append(_) | Self::Extend(_))
    }

    /// The items that come to the end of a LOG slice.
    pub(crate) fn into_added(self) -> Vec<Item> {
        match self {
            Self::Append(item) => vec![item],
            Self::Extend(items) => items,
            Self::Upsert(_) | Self::ReplaceKey(_) | Self::Replace(_) | Self::Remove(_) => Vec::new(),
        }
    }

    /// How many items come to the end of a LOG slice.
    pub(crate) fn added(&self) -> usize {
        match self {
            Self::Append(_) => 1,
            Self::Extend(items) => items.len(),
            Self::Upsert(_) | Self::ReplaceKey(_) | Self::Replace(_) | Self::Remove(_) => 0,
        }
    }
}

/// A slice's contents, and which of the session's publications last changed them.
#[derive(Clone)]
pub(crate) struct Cell {
    pub(crate) items: Items,
    pub(crate) version: u64,
}

impl Cell {
    /// What a slice that nobody knows has.
    pub(crate) fn nothing() -> Self {
        Self { items: Items::empty(false), version: 0 }
    }

    pub(crate) fn empty(def: &SliceDef) -> Self {
        Self { items: Items::empty(def.keyed), version: 0 }
    }

    /// Applies `change`. The one place where a slice changes.
    pub(crate) fn apply(&mut self, def: &SliceDef, change: &Change) {
        match change {
            Change::Append(item) => self.push(def, item),
            Change::Extend(items) => items.iter().for_each(|item| self.push(def, item)),
            Change::Upsert(item) => self.upsert(def, item),
            Change::ReplaceKey(item) => self.push(def, item),
            Change::Replace(items) => {
                self.items = Items::empty(def.keyed);
                items.iter().for_each(|item| self.push(def, item));
            }
            Change::Remove(positions) => self.remove(def, positions),
        }
    }

    /// Takes the last items off a slice without keys.
    pub(crate) fn take_last(&mut self, count: usize) -> imbl::Vector<Item> {
        match &mut self.items {
            Items::List(list) | Items::Stored { tail: list, .. } => {
                list.split_off(list.len().saturating_sub(count))
            }
            Items::Keyed { .. } => imbl::Vector::new(),
        }
    }

    pub(crate) fn put_last(&mut self, last: imbl::Vector<Item>) {
        if let Items::List(list) | Items::Stored { tail: list, .. } = &mut self.items {
            list.append(last);
        }
    }

    fn upsert(&mut self, def: &SliceDef, item: &Item) {
        if let (Items::Keyed { order, places, .. }, Some(key)) = (&mut self.items, (def.key)(item.as_ref()))
            && let Some(place) = places.get(&key)
        {
            order.insert(*place, Arc::clone(item));
        } else {
            self.push(def, item);
        }
    }

    /// Adds at the end; in a keyed slice the key's older item goes.
    fn push(&mut self, def: &SliceDef, item: &Item) {
        match &mut self.items {
            Items::List(list) | Items::Stored { tail: list, .. } => list.push_back(Arc::clone(item)),
            Items::Keyed { order, places, next } => {
                if let Some(key) = (def.key)(item.as_ref())
                    && let Some(older) = places.insert(key, *next)
                {
                    order.remove(&older);
                }
                order.insert(*next, Arc::clone(item));
                *next += 1;
            }
        }
    }

    fn remove(&mut self, def: &SliceDef, positions: &[usize]) {
        let gone: std::collections::HashSet<usize> = positions.iter().copied().collect();
        let kept: Vec<Item> = self
            .items
            .iter()
            .enumerate()
            .filter(|(at, _)| !gone.contains(at))
            .map(|(_, item)| item)
            .collect();
        self.items = Items::empty(def.keyed);
        kept.iter().for_each(|item| self.push(def, item));
    }
}

/// Runs a slice type's own code. Its panic is a failure like any other.
fn contained<T>(what: &str, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch(work).unwrap_or_else(|panic| Err(format!("its {what} panicked: {panic}")))
}

/// What the session knows of a slice type once its Rust type is erased.
pub(crate) struct SliceDef {
    pub(crate) name: &'static str,
    pub(crate) version: u32,
    pub(crate) kind: SliceKind,
    pub(crate) keyed: bool,
    pub(crate) type_id: TypeId,
    pub(crate) type_name: &'static str,
    /// Whether the session keeps a tally of its items.
    pub(crate) is_counted: bool,
    key: fn(&dyn Any) -> Option<SliceKey>,
    counted: fn(&dyn Any) -> Option<Counted<'_>>,
    encode: fn(&dyn Any) -> Result<Value, String>,
    decode: fn(u32, Value) -> Result<Item, String>,
}

impl SliceDef {
    pub(crate) fn of<T: SliceType>() -> Self {
        Self {
            name: T::NAME,
            version: T::VERSION,
            kind: T::KIND,
            keyed: T::KEYED && T::KIND == SliceKind::State,
            type_id: TypeId::of::<T>(),
            type_name: std::any::type_name::<T>(),
            is_counted: T::COUNTED && T::KIND == SliceKind::Log,
            counted: |item| item.downcast_ref::<T>().and_then(T::counted),
            key: |item| item.downcast_ref::<T>().and_then(|item| catch(|| item.key()).ok().flatten()),
            encode: |item| match item.downcast_ref::<T>() {
                Some(item) => contained("Serialize", || {
                    size::is_within(item, usize::MAX)?;
                    serde_json::to_value(item).map_err(|error| error.to_string())
                }),
                None => Err(format!("an item of slice {} has another type", T::NAME)),
            },
            decode: |version, value| {
                contained("Deserialize or upgrade", || {
                    let value = if version == T::VERSION { value } else { T::upgrade(version, value)? };
                    let item = serde_json::from_value::<T>(value).map_err(|error| error.to_string())?;
                    Ok(Arc::new(item) as Item)
                })
            },
        }
    }

    pub(crate) fn encode(&self, item: &Item) -> Result<Value, String> {
        (self.encode)(item.as_ref())
    }

    pub(crate) fn decode(&self, version: u32, value: Value) -> Result<Item, String> {
        (self.decode)(version, value)
    }

    pub(super) fn counted<'a>(&self, item: &'a Item) -> Option<Counted<'a>> {
        (self.counted)(item.as_ref())
    }

    pub(crate) fn has_key(&self, item: &Item) -> bool {
        (self.key)(item.as_ref()).is_some()
    }
}
