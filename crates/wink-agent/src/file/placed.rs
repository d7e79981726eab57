//! Anything that JSON can say as well, with the place of every part of it.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Number, Value};

use super::At;
use crate::problem::Span;

/// A value that knows where each of its parts stands.
#[derive(Debug, Clone)]
pub(crate) enum Placed {
    /// It has no parts.
    Plain(Value),
    /// In the order of the text.
    Table(Vec<(At<String>, At<Placed>)>),
    /// A list.
    List(Vec<At<Placed>>),
}

impl Placed {
    /// The value itself.
    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Plain(value) => value.clone(),
            Self::Table(fields) => {
                Value::Object(fields.iter().map(|(name, value)| (name.value.clone(), value.json())).collect())
            }
            Self::List(items) => Value::Array(items.iter().map(|item| item.json()).collect()),
        }
    }

    /// What a step leads to, a name or a number from 0, and where that begins: at the name, if it has one.
    fn step(&self, step: &str) -> Option<(&Span, &At<Self>)> {
        match self {
            Self::Plain(_) => None,
            Self::Table(fields) => {
                let (name, value) = fields.iter().find(|(name, _)| name.value == step)?;
                Some((&name.span, value))
            }
            Self::List(items) => {
                let item = items.get(step.parse::<usize>().ok()?)?;
                Some((&item.span, item))
            }
        }
    }
}

impl At<Placed> {
    /// Where the value at the end of these steps stands; or the last before it that is there.
    pub(crate) fn value_at<'p>(&self, steps: impl IntoIterator<Item = &'p str>) -> &Span {
        let mut at = self;
        for step in steps {
            match at.value.step(step) {
                Some((_, value)) => at = value,
                None => break,
            }
        }
        &at.span
    }

    /// Where the name of the value at the end of these steps stands; or the last value before it that is there.
    pub(crate) fn name_at<'p>(&self, steps: impl IntoIterator<Item = &'p str>) -> &Span {
        let (mut at, mut name) = (self, &self.span);
        for step in steps {
            match at.value.step(step) {
                Some((span, value)) => (at, name) = (value, span),
                None => return &at.span,
            }
        }
        name
    }
}

impl<'de> Deserialize<'de> for Placed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Parts;
        impl<'de> Visitor<'de> for Parts {
            type Value = Placed;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything that JSON can say")
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Placed, E> {
                Ok(Placed::Plain(value.into()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Placed, E> {
                Ok(Placed::Plain(value.into()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Placed, E> {
                Ok(Placed::Plain(value.into()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Placed, E> {
                let number = Number::from_f64(value).ok_or_else(|| E::custom("no number of JSON"))?;
                Ok(Placed::Plain(Value::Number(number)))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Placed, E> {
                Ok(Placed::Plain(value.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Placed, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Placed::List(items))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Placed, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Placed::Table(fields))
            }
        }
        deserializer.deserialize_any(Parts)
    }
}
