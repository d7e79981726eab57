//! A map that keeps its keys where they were first put, because the data's texts list them so.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// Text keys in stored order. Lookups scan: the maps kept in it have a few dozen keys at most.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ordered<V>(Vec<(String, V)>);

impl<V> Ordered<V> {
    pub(crate) fn get(&self, key: &str) -> Option<&V> {
        self.iter().find_map(|(name, value)| (name == key).then_some(value))
    }

    pub(crate) fn get_mut(&mut self, key: &str) -> Option<&mut V> {
        self.0.iter_mut().find_map(|(name, value)| (name == key).then_some(value))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl<V> FromIterator<(String, V)> for Ordered<V> {
    fn from_iter<I: IntoIterator<Item = (String, V)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl<V> IntoIterator for Ordered<V> {
    type Item = (String, V);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<V: Serialize> Serialize for Ordered<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Ordered<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

struct Entries<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for Entries<V> {
    type Value = Ordered<V>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Ordered(entries))
    }
}
