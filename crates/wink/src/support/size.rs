//! How large a value would be as JSON, without writing it: for bounds on values that are nearly always small.

use std::fmt::Display;

use serde::ser::{self, Serialize, Serializer};

/// Whether a value has at most `limit` bytes as JSON. It counts roughly (a number as its longest form, a text without
/// its escapes), and stops as soon as it knows. A value that cannot be serialised has no size.
pub(crate) fn is_within<T: Serialize + ?Sized>(value: &T, limit: usize) -> bool {
    !matches!(value.serialize(&mut Size { left: limit }), Err(Stop::Full))
}

struct Size {
    left: usize,
}

impl Size {
    fn take(&mut self, bytes: usize) -> Result<(), Stop> {
        self.left = self.left.checked_sub(bytes).ok_or(Stop::Full)?;
        Ok(())
    }
}

#[derive(Debug)]
enum Stop {
    Full,
    /// The value's own code failed.
    Failed,
}

impl Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("counting stopped")
    }
}

impl std::error::Error for Stop {}

impl ser::Error for Stop {
    fn custom<T: Display>(_: T) -> Self {
        Self::Failed
    }
}

/// Numbers and the like, as their longest form.
macro_rules! sized {
    ($($method:ident($type:ty) = $bytes:expr,)*) => {$(
        fn $method(self, _: $type) -> Result<(), Stop> {
            self.take($bytes)
        }
    )*};
}

impl Serializer for &mut Size {
    type Ok = ();
    type Error = Stop;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Self;
    type SerializeStructVariant = Self;

    sized! {
        serialize_bool(bool) = 5,
        serialize_i8(i8) = 4,
        serialize_i16(i16) = 6,
        serialize_i32(i32) = 11,
        serialize_i64(i64) = 20,
        serialize_i128(i128) = 40,
        serialize_u8(u8) = 3,
        serialize_u16(u16) = 5,
        serialize_u32(u32) = 10,
        serialize_u64(u64) = 20,
        serialize_u128(u128) = 39,
        serialize_f32(f32) = 16,
        serialize_f64(f64) = 24,
        serialize_char(char) = 6,
    }

    fn serialize_str(self, text: &str) -> Result<(), Stop> {
        self.take(text.len().saturating_add(2))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Stop> {
        self.take(bytes.len().saturating_mul(4).saturating_add(2))
    }

    fn serialize_none(self) -> Result<(), Stop> {
        self.take(4)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Stop> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Stop> {
        self.take(4)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Stop> {
        self.take(4)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, name: &'static str) -> Result<(), Stop> {
        self.serialize_str(name)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Result<(), Stop> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        value: &T,
    ) -> Result<(), Stop> {
        self.take(name.len() + 5)?;
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Stop> {
        self.take(2)?;
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Stop> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Stop> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Self, Stop> {
        self.take(name.len() + 7)?;
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Stop> {
        self.serialize_seq(None)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Stop> {
        self.serialize_seq(None)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Self, Stop> {
        self.take(name.len() + 7)?;
        Ok(self)
    }
}

/// One element and its comma.
macro_rules! elements {
    ($($trait:ident :: $method:ident,)*) => {$(
        impl ser::$trait for &mut Size {
            type Ok = ();
            type Error = Stop;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
                self.take(1)?;
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), Stop> {
                Ok(())
            }
        }
    )*};
}

elements! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}

/// One field with its name, colon and comma.
macro_rules! fields {
    ($($trait:ident,)*) => {$(
        impl ser::$trait for &mut Size {
            type Ok = ();
            type Error = Stop;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Stop> {
                self.take(name.len() + 4)?;
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), Stop> {
                Ok(())
            }
        }
    )*};
}

fields! { SerializeStruct, SerializeStructVariant, }

impl ser::SerializeMap for &mut Size {
    type Ok = ();
    type Error = Stop;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Stop> {
        self.take(1)?;
        key.serialize(&mut **self)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Stop> {
        self.take(1)?;
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<(), Stop> {
        Ok(())
    }
}
