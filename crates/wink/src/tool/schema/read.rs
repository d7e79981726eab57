//! Decoding while checking: one pass over arguments that are right, which almost all are.
//!
//! The reader hands a type's decoder one value after the other, and holds each to its schema as it comes by. It gives
//! up at the first thing that is not plainly right, or plainly simple: then the walk finds everything that is wrong,
//! and what it accepts is decoded by `serde_json`. So nothing is accepted here that would not be there, and nothing is
//! rejected here at all.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, Visitor};

use super::access::{List, Next, Object, Variant};
use super::fields::Fields;
use super::findings::Path;
use super::node::{Node, ObjectRules, Types};
use super::scan::{Halt, NumberToken, Str};
use super::walk::{Stop, Walker};
use super::{CompiledSchema, ParseLimits};

impl CompiledSchema {
    /// Decodes arguments that are right; none: they have to be looked at.
    pub(super) fn read<P: DeserializeOwned>(&self, text: &str, limits: &ParseLimits) -> Option<P> {
        if text.len() > limits.bytes {
            return None;
        }
        let mut walker = Walker::new(self.nodes(), text, limits.depth);
        walker.probing = true;
        if walker.scan.peek() != Some(b'{') {
            return None;
        }
        let root = walker.node(0);
        let params = P::deserialize(Value { walker: &mut walker, node: Some(root), depth: 0 }).ok()?;
        let right = walker.scan.peek().is_none() && walker.found.count() == 0;
        right.then_some(params)
    }
}

/// What is there has to be looked at.
#[derive(Debug)]
pub(super) struct GiveUp;

impl fmt::Display for GiveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the arguments have to be looked at")
    }
}

impl std::error::Error for GiveUp {}

impl serde::de::Error for GiveUp {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

impl From<Halt> for GiveUp {
    fn from(_: Halt) -> Self {
        Self
    }
}

impl From<Stop> for GiveUp {
    fn from(_: Stop) -> Self {
        Self
    }
}

/// The next value.
pub(super) struct Value<'r, 's, 't> {
    pub(super) walker: &'r mut Walker<'s, 't>,
    /// What it is held to; none: it was looked at already.
    pub(super) node: Option<&'s Node>,
    pub(super) depth: usize,
}

impl<'s, 't> Value<'_, 's, 't> {
    /// What the next value starts with. A schema that is not plain is seen to here.
    #[inline]
    fn first(&mut self) -> Result<u8, GiveUp> {
        let first = self.walker.scan.peek().ok_or(GiveUp)?;
        if let Some(node) = self.node {
            let plain = node.combine.is_none()
                && match first {
                    b'"' => true,
                    b'[' => node.allowed.is_none() && node.array.as_ref().is_some_and(|rules| !rules.unique),
                    b'{' => {
                        node.allowed.is_none() && node.object.as_ref().is_some_and(|rules| rules.by_name_only)
                    }
                    _ => node.allowed.is_none(),
                };
            if !plain {
                self.look(|walker, depth| walker.value_of(node, &Path::ROOT, depth))?;
            } else if !node.types.meets(Types::starting_with(first)) {
                return Err(GiveUp);
            }
        }
        Ok(first)
    }

    /// Looks at the whole value first, and comes back to it.
    fn look(
        &mut self,
        work: impl FnOnce(&mut Walker<'s, 't>, usize) -> Result<(), Stop>,
    ) -> Result<(), GiveUp> {
        let start = self.walker.scan.pos;
        work(self.walker, self.depth)?;
        self.walker.scan.pos = start;
        self.node = None;
        Ok(())
    }

    /// As [`Value::look`], for what no schema describes.
    pub(super) fn look_at_anything(&mut self) -> Result<(), GiveUp> {
        self.walker.scan.peek();
        self.look(|walker, depth| walker.skip(&Path::ROOT, depth))
    }

    #[inline]
    fn text(&mut self) -> Result<Str<'t>, GiveUp> {
        let text = self.walker.scan.string()?;
        if let Some(node) = self.node {
            self.walker.string(node, text, &Path::ROOT)?;
        }
        Ok(text)
    }

    #[inline]
    fn visit_text<V: Visitor<'t>>(mut self, visitor: V) -> Result<V::Value, GiveUp> {
        let ruled = self.node.is_some_and(|node| node.string.is_some() || node.allowed.is_some());
        let text = if ruled { self.text()?.text() } else { self.walker.scan.text()? };
        match text {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    #[inline]
    fn number(&mut self) -> Result<NumberToken<'t>, GiveUp> {
        let token = self.walker.scan.number()?;
        if let Some(node) = self.node {
            self.walker.number(node, token, &Path::ROOT)?;
        }
        Ok(token)
    }

    /// A number that is to have single precision: rounding it twice may give another one.
    fn visit_single<V: Visitor<'t>>(mut self, visitor: V) -> Result<V::Value, GiveUp> {
        let number: f32 = self.number()?.text.parse().map_err(|_| GiveUp)?;
        match number.is_finite() {
            true => visitor.visit_f32(number),
            false => Err(GiveUp),
        }
    }

    fn visit_number<V: Visitor<'t>>(mut self, visitor: V) -> Result<V::Value, GiveUp> {
        let token = self.number()?;
        if let Some(small) = token.small {
            return match u64::try_from(small) {
                Ok(small) => visitor.visit_u64(small),
                Err(_) => visitor.visit_i64(small),
            };
        }
        if token.integer {
            if let Ok(number) = token.text.parse() {
                return visitor.visit_u64(number);
            }
            if let Ok(number) = token.text.parse() {
                return visitor.visit_i64(number);
            }
        }
        visitor.visit_f64(token.text.parse().map_err(|_| GiveUp)?)
    }

    fn visit_list<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, GiveUp> {
        let rules = self.node.and_then(|node| node.array.as_deref());
        let more = self.walker.scan.open(self.depth, b']')?;
        let mut list = List { walker: self.walker, rules, depth: self.depth + 1, more, count: 0 };
        let visited = visitor.visit_seq(&mut list)?;
        let whole = !list.more && rules.is_none_or(|rules| rules.size.admits(list.count));
        whole.then_some(visited).ok_or(GiveUp)
    }

    fn visit_object<V: Visitor<'t>>(self, visitor: V) -> Result<V::Value, GiveUp> {
        let rules = self.node.and_then(|node| node.object.as_deref());
        let more = self.walker.scan.open(self.depth, b'}')?;
        let mut object = Object {
            walker: self.walker,
            held: rules.map(|rules| (rules, Fields::new(rules))),
            depth: self.depth + 1,
            more,
            next: Next::Known,
        };
        let visited = visitor.visit_map(&mut object)?;
        let fits = |(rules, fields): &(&ObjectRules, Fields<'_>)| {
            fields.required == rules.required && rules.size.admits(fields.count)
        };
        let whole = !object.more && object.held.as_ref().is_none_or(fits);
        whole.then_some(visited).ok_or(GiveUp)
    }
}

/// Decoders that ask for one kind of value get that kind or nothing.
macro_rules! only {
    ($($method:ident: $first:pat => $visit:ident),* $(,)?) => {
        $(#[inline]
        fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, GiveUp> {
            match self.first()? {
                $first => self.$visit(visitor),
                _ => Err(GiveUp),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Value<'_, '_, 'de> {
    type Error = GiveUp;

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, GiveUp> {
        match self.first()? {
            b'"' => self.visit_text(visitor),
            b'-' | b'0'..=b'9' => self.visit_number(visitor),
            b'[' => self.visit_list(visitor),
            b'{' => self.visit_object(visitor),
            b't' | b'f' => self.deserialize_bool(visitor),
            b'n' => self.deserialize_unit(visitor),
            _ => Err(GiveUp),
        }
    }

    only! {
        deserialize_str: b'"' => visit_text,
        deserialize_string: b'"' => visit_text,
        deserialize_char: b'"' => visit_text,
        deserialize_i8: b'-' | b'0'..=b'9' => visit_number,
        deserialize_i16: b'-' | b'0'..=b'9' => visit_number,
        deserialize_i32: b'-' | b'0'..=b'9' => visit_number,
        deserialize_i64: b'-' | b'0'..=b'9' => visit_number,
        deserialize_u8: b'-' | b'0'..=b'9' => visit_number,
        deserialize_u16: b'-' | b'0'..=b'9' => visit_number,
        deserialize_u32: b'-' | b'0'..=b'9' => visit_number,
        deserialize_u64: b'-' | b'0'..=b'9' => visit_number,
        deserialize_f32: b'-' | b'0'..=b'9' => visit_single,
        deserialize_f64: b'-' | b'0'..=b'9' => visit_number,
        deserialize_seq: b'[' => visit_list,
        deserialize_map: b'{' => visit_object,
    }

    fn deserialize_bool<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, GiveUp> {
        match self.first()? {
            b't' => {
                self.walker.scan.literal("true").map_err(GiveUp::from).and_then(|()| visitor.visit_bool(true))
            }
            b'f' => self
                .walker
                .scan
                .literal("false")
                .map_err(GiveUp::from)
                .and_then(|()| visitor.visit_bool(false)),
            _ => Err(GiveUp),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, GiveUp> {
        self.first()?;
        self.walker.scan.literal("null")?;
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, GiveUp> {
        match self.first()? {
            b'n' => {
                self.walker.scan.literal("null")?;
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, GiveUp> {
        // What only the real decoder can give.
        if name.starts_with("$serde_json::") {
            return Err(GiveUp);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, GiveUp> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, GiveUp> {
        self.deserialize_seq(visitor)
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, GiveUp> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, GiveUp> {
        match self.first()? {
            b'"' => {
                let name = self.text()?.text();
                visitor.visit_enum(StrDeserializer::<GiveUp>::new(&name))
            }
            b'{' => {
                if let Some(node) = self.node {
                    self.look(|walker, depth| walker.value_of(node, &Path::ROOT, depth))?;
                }
                if !self.walker.scan.open(self.depth, b'}')? {
                    return Err(GiveUp);
                }
                let walker = self.walker;
                let name = walker.scan.key()?.text();
                let variant = Variant { walker: &mut *walker, name: &name, depth: self.depth + 1 };
                let visited = visitor.visit_enum(variant)?;
                match walker.scan.more(b'}')? {
                    false => Ok(visited),
                    true => Err(GiveUp),
                }
            }
            _ => Err(GiveUp),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, GiveUp> {
        self.first()?;
        match self.node {
            Some(node) => self.walker.value_of(node, &Path::ROOT, self.depth)?,
            None => self.walker.skip(&Path::ROOT, self.depth)?,
        }
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, GiveUp> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, GiveUp> {
        self.deserialize_str(visitor)
    }

    // Rare, and with rules of their own.
    fn deserialize_bytes<V: Visitor<'de>>(self, _: V) -> Result<V::Value, GiveUp> {
        Err(GiveUp)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, _: V) -> Result<V::Value, GiveUp> {
        Err(GiveUp)
    }

    fn deserialize_i128<V: Visitor<'de>>(self, _: V) -> Result<V::Value, GiveUp> {
        Err(GiveUp)
    }

    fn deserialize_u128<V: Visitor<'de>>(self, _: V) -> Result<V::Value, GiveUp> {
        Err(GiveUp)
    }
}
