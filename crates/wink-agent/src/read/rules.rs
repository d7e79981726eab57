//! The schema of agent files as the walk goes along it: read from its text once, without a copy of what it says.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::LazyLock;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::schema::TEXT;

/// The rules of agent files.
pub(super) fn rules() -> Result<&'static Rules<'static>, &'static serde_json::Error> {
    static RULES: LazyLock<serde_json::Result<Rules<'static>>> = LazyLock::new(|| serde_json::from_str(TEXT));
    RULES.as_ref()
}

/// What a schema says: the keywords that the walk goes by, and those for people. There are no others.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct Rules<'s> {
    #[serde(rename = "$ref")]
    reference: Option<&'s str>,
    #[serde(rename = "type", borrow)]
    pub(super) kind: Option<Kind<'s>>,
    #[serde(borrow)]
    pub(super) properties: Entries<'s, Schema<'s>>,
    pub(super) required: Vec<&'s str>,
    pub(super) additional_properties: Option<Schema<'s>>,
    pub(super) min_properties: Option<u64>,
    pub(super) max_properties: Option<u64>,
    pub(super) items: Option<Schema<'s>>,
    pub(super) min_items: Option<u64>,
    pub(super) minimum: Option<f64>,
    maximum: Option<f64>,
    #[serde(rename = "enum")]
    values: Option<Vec<&'s str>>,
    #[serde(rename = "const")]
    value: Option<&'s str>,
    one_of: Option<Vec<Rules<'s>>>,
    #[serde(rename = "$defs")]
    definitions: Entries<'s, Schema<'s>>,
    /// Also what fits into the type that the schema was made for.
    format: Option<&'s str>,
    /// Empty if there is none.
    #[serde(borrow)]
    pub(super) description: Cow<'s, str>,
    #[serde(rename = "$schema")]
    _dialect: IgnoredAny,
    #[serde(rename = "title")]
    _title: IgnoredAny,
    #[serde(rename = "examples")]
    _examples: IgnoredAny,
    #[serde(rename = "default")]
    _default: IgnoredAny,
    /// Texts with a unit are taken apart later, which says more than that a pattern does not match.
    #[serde(rename = "pattern")]
    _pattern: IgnoredAny,
}

/// The type of a value: one, or a table or a list.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind<'s> {
    Only(&'s str),
    TableOrList,
}

/// A schema: rules, or whether anything fits.
#[derive(Debug)]
pub(super) enum Schema<'s> {
    Any(bool),
    Rules(Box<Rules<'s>>),
}

/// An object of JSON, in its order.
#[derive(Debug)]
pub(super) struct Entries<'s, T>(Vec<(&'s str, T)>);

impl<'s> Rules<'s> {
    /// What a schema says, behind a reference too; nothing if anything fits.
    pub(super) fn resolve<'r>(&'r self, schema: &'r Schema<'s>) -> Option<&'r Rules<'s>> {
        let Schema::Rules(rules) = schema else { return None };
        let name = rules.reference.and_then(|reference| reference.strip_prefix("#/$defs/"));
        match name.and_then(|name| self.definitions.get(name)) {
            Some(Schema::Rules(definition)) => Some(definition),
            Some(Schema::Any(_)) => None,
            None => Some(rules),
        }
    }

    /// The texts that can be chosen from, if that is what it says.
    pub(super) fn choices(&self) -> Option<Vec<&'s str>> {
        match (&self.values, &self.one_of) {
            (Some(values), _) => Some(values.clone()),
            (None, Some(branches)) => {
                let mut names = Vec::new();
                for branch in branches {
                    match (branch.value, &branch.values) {
                        (Some(name), _) => names.push(name),
                        (None, Some(values)) => names.extend(values),
                        (None, None) => return None,
                    }
                }
                Some(names)
            }
            (None, None) => None,
        }
    }

    /// The largest number that fits.
    pub(super) fn largest(&self) -> Option<f64> {
        self.maximum.or((self.format == Some("uint32")).then_some(f64::from(u32::MAX)))
    }
}

impl<'s, T> Entries<'s, T> {
    pub(super) fn get(&self, name: &str) -> Option<&T> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'s str> + Clone {
        self.0.iter().map(|(name, _)| *name)
    }
}

impl<T> Default for Entries<'_, T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de: 's, 's> Deserialize<'de> for Kind<'s> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrTwo<'s>(PhantomData<&'s ()>);
        impl<'de: 's, 's> Visitor<'de> for OneOrTwo<'s> {
            type Value = Kind<'s>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a type, or \"object\" and \"array\"")
            }

            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(Kind::Only(name))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut names: Vec<&'de str> = Vec::new();
                while let Some(name) = seq.next_element()? {
                    names.push(name);
                }
                match names.as_slice() {
                    ["object", "array"] => Ok(Kind::TableOrList),
                    other => Err(A::Error::custom(format!("{other:?} is not known to the walk"))),
                }
            }
        }
        deserializer.deserialize_any(OneOrTwo(PhantomData))
    }
}

impl<'de: 's, 's> Deserialize<'de> for Schema<'s> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either<'s>(PhantomData<&'s ()>);
        impl<'de: 's, 's> Visitor<'de> for Either<'s> {
            type Value = Schema<'s>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a schema")
            }

            fn visit_bool<E>(self, fits: bool) -> Result<Self::Value, E> {
                Ok(Schema::Any(fits))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                Rules::deserialize(MapAccessDeserializer::new(map))
                    .map(|rules| Schema::Rules(Box::new(rules)))
            }
        }
        deserializer.deserialize_any(Either(PhantomData))
    }
}

impl<'de: 's, 's, T: Deserialize<'de>> Deserialize<'de> for Entries<'s, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each<'s, T>(PhantomData<(&'s (), T)>);
        impl<'de: 's, 's, T: Deserialize<'de>> Visitor<'de> for Each<'s, T> {
            type Value = Entries<'s, T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Each(PhantomData))
    }
}
