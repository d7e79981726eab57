//! The parts of arguments that are read while being checked: items of lists, fields of objects, contents of variants.

use serde::Deserializer;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::fields::Fields;
use super::node::{Additional, ArrayRules, Node, ObjectRules};
use super::read::{GiveUp, Value};
use super::walk::Walker;

/// The items of a list.
pub(super) struct List<'r, 's, 't> {
    pub(super) walker: &'r mut Walker<'s, 't>,
    pub(super) rules: Option<&'s ArrayRules>,
    pub(super) depth: usize,
    pub(super) more: bool,
    pub(super) count: usize,
}

impl<'de> SeqAccess<'de> for List<'_, '_, 'de> {
    type Error = GiveUp;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, GiveUp> {
        if !self.more {
            return Ok(None);
        }
        let mut item = Value { walker: &mut *self.walker, node: None, depth: self.depth };
        if let Some(rules) = self.rules {
            match rules.prefix.get(self.count).copied().or(rules.items) {
                Some(node) => item.node = Some(item.walker.node(node)),
                None => item.look_at_anything()?,
            }
        }
        let item = seed.deserialize(item)?;
        self.count += 1;
        self.more = self.walker.scan.more(b']')?;
        Ok(Some(item))
    }
}

/// The fields of an object.
pub(super) struct Object<'r, 's, 't> {
    pub(super) walker: &'r mut Walker<'s, 't>,
    pub(super) held: Option<(&'s ObjectRules, Fields<'t>)>,
    pub(super) depth: usize,
    pub(super) more: bool,
    pub(super) next: Next<'s>,
}

/// What is known of the next field's value.
#[derive(Clone, Copy)]
pub(super) enum Next<'s> {
    /// It was looked at already.
    Known,
    /// It is held to this.
    Held(&'s Node),
    /// It may be anything.
    Anything,
}

impl<'de> MapAccess<'de> for Object<'_, '_, 'de> {
    type Error = GiveUp;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, GiveUp> {
        if !self.more {
            return Ok(None);
        }
        let Some((rules, fields)) = &mut self.held else {
            let name = self.walker.scan.key()?.text();
            return seed.deserialize(StrDeserializer::new(&name)).map(Some);
        };
        let index = fields.next;
        let expected = rules.properties.get(index).filter(|property| property.declared);
        if let Some(property) = expected
            && self.walker.scan.plain_key(property)
        {
            if !fields.known(index, property) {
                return Err(GiveUp);
            }
            self.next = Next::Held(self.walker.node(property.node));
            return seed.deserialize(StrDeserializer::new(&property.name)).map(Some);
        }
        let name = self.walker.scan.key()?.text();
        let known = rules.find(&name).and_then(|index| Some((index, rules.properties.get(index)?)));
        let fresh = match known {
            Some((index, property)) => fields.known(index, property),
            None => fields.other(name.clone()),
        };
        self.next = match (known.filter(|(_, property)| property.declared), rules.additional) {
            (Some((_, property)), _) => Next::Held(self.walker.node(property.node)),
            (None, Additional::Checked(node)) => Next::Held(self.walker.node(node)),
            (None, Additional::Allowed) => Next::Anything,
            (None, Additional::Forbidden) => return Err(GiveUp),
        };
        match fresh {
            true => seed.deserialize(StrDeserializer::new(&name)).map(Some),
            false => Err(GiveUp),
        }
    }

    #[inline]
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, GiveUp> {
        let mut value = Value { walker: &mut *self.walker, node: None, depth: self.depth };
        match self.next {
            Next::Known => {}
            Next::Held(node) => value.node = Some(node),
            Next::Anything => value.look_at_anything()?,
        }
        let value = seed.deserialize(value)?;
        self.more = self.walker.scan.more(b'}')?;
        Ok(value)
    }
}

/// A variant with something in it, which was looked at already.
pub(super) struct Variant<'r, 's, 't, 'n> {
    pub(super) walker: &'r mut Walker<'s, 't>,
    pub(super) name: &'n str,
    pub(super) depth: usize,
}

impl<'r, 's, 'de> EnumAccess<'de> for Variant<'r, 's, 'de, '_> {
    type Error = GiveUp;
    type Variant = Content<'r, 's, 'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self::Variant), GiveUp> {
        let variant = seed.deserialize(StrDeserializer::<GiveUp>::new(self.name))?;
        Ok((variant, Content(Value { walker: self.walker, node: None, depth: self.depth })))
    }
}

pub(super) struct Content<'r, 's, 't>(Value<'r, 's, 't>);

impl<'de> VariantAccess<'de> for Content<'_, '_, 'de> {
    type Error = GiveUp;

    fn unit_variant(self) -> Result<(), GiveUp> {
        serde::Deserialize::deserialize(self.0)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, GiveUp> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, GiveUp> {
        self.0.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, GiveUp> {
        self.0.deserialize_map(visitor)
    }
}
