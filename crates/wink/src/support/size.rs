//! Whether a value can be JSON, and how large it would be, without writing it.

use std::fmt::Display;

use serde::ser::{self, Serialize, Serializer};

/// Whether a value has at most `limit` bytes as JSON. It counts roughly: a number as its longest form, a text without its
/// escapes.
///
/// # Errors
/// When the value cannot be written, or would be read back as another one: its own code fails, a number is not finite or
/// has more than 64 bits, or a key of a map is no text.
pub(crate) fn is_within<T: Serialize + ?Sized>(value: &T, limit: usize) -> Result<bool, String> {
    let mut size = Size { bytes: 0, is_key: false };
    value.serialize(&mut size).map_err(|unwritable| unwritable.0)?;
    Ok(size.bytes <= limit)
}

struct Size {
    bytes: usize,
    /// The key of a map comes next.
    is_key: bool,
}

impl Size {
    fn take(&mut self, bytes: usize) -> Result<(), Unwritable> {
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    fn no_key(&self) -> Result<(), Unwritable> {
        match self.is_key {
            false => Ok(()),
            true => Err(Unwritable("a key of a map is not a text".to_owned())),
        }
    }

    fn finite(&mut self, is_finite: bool, bytes: usize) -> Result<(), Unwritable> {
        match is_finite {
            true => self.take(bytes),
            false => Err(Unwritable("JSON has no NaN and no infinite numbers".to_owned())),
        }
    }

    fn narrow(&mut self, fits: bool) -> Result<(), Unwritable> {
        match fits {
            true => self.take(20),
            false => Err(Unwritable("an integer has more than 64 bits".to_owned())),
        }
    }
}

/// Why a value cannot be written.
#[derive(Debug)]
struct Unwritable(String);

impl Display for Unwritable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unwritable {}

impl ser::Error for Unwritable {
    fn custom<T: Display>(reason: T) -> Self {
        Self(reason.to_string())
    }
}

/// Numbers and the like, as their longest form.
macro_rules! sized {
    ($($method:ident($type:ty) = $bytes:expr,)*) => {$(
        fn $method(self, _: $type) -> Result<(), Unwritable> {
            self.take($bytes)
        }
    )*};
}

impl Serializer for &mut Size {
    type Ok = ();
    type Error = Unwritable;
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
        serialize_u8(u8) = 3,
        serialize_u16(u16) = 5,
        serialize_u32(u32) = 10,
        serialize_u64(u64) = 20,
        serialize_char(char) = 6,
    }

    fn serialize_i128(self, number: i128) -> Result<(), Unwritable> {
        self.narrow(i64::try_from(number).is_ok() || u64::try_from(number).is_ok())
    }

    fn serialize_u128(self, number: u128) -> Result<(), Unwritable> {
        self.narrow(u64::try_from(number).is_ok())
    }

    fn serialize_f32(self, number: f32) -> Result<(), Unwritable> {
        self.finite(number.is_finite(), 16)
    }

    fn serialize_f64(self, number: f64) -> Result<(), Unwritable> {
        self.finite(number.is_finite(), 24)
    }

    fn serialize_str(self, text: &str) -> Result<(), Unwritable> {
        self.take(text.len().saturating_add(2))
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Unwritable> {
        self.no_key()?;
        self.take(bytes.len().saturating_mul(4).saturating_add(2))
    }

    fn serialize_none(self) -> Result<(), Unwritable> {
        self.no_key()?;
        self.take(4)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Unwritable> {
        self.no_key()?;
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Unwritable> {
        self.no_key()?;
        self.take(4)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Unwritable> {
        self.no_key()?;
        self.take(4)
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, name: &'static str) -> Result<(), Unwritable> {
        self.serialize_str(name)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Unwritable> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        value: &T,
    ) -> Result<(), Unwritable> {
        self.no_key()?;
        self.take(name.len() + 5)?;
        value.serialize(self)
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Self, Unwritable> {
        self.no_key()?;
        self.take(2)?;
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Unwritable> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Unwritable> {
        self.serialize_seq(None)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Self, Unwritable> {
        self.no_key()?;
        self.take(name.len() + 7)?;
        Ok(self)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Self, Unwritable> {
        self.serialize_seq(None)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Self, Unwritable> {
        self.serialize_seq(None)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        name: &'static str,
        _: usize,
    ) -> Result<Self, Unwritable> {
        self.no_key()?;
        self.take(name.len() + 7)?;
        Ok(self)
    }
}

/// One element and its comma.
macro_rules! elements {
    ($($trait:ident :: $method:ident,)*) => {$(
        impl ser::$trait for &mut Size {
            type Ok = ();
            type Error = Unwritable;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
                self.take(1)?;
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), Unwritable> {
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
            type Error = Unwritable;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Unwritable> {
                self.take(name.len() + 4)?;
                value.serialize(&mut **self)
            }

            fn end(self) -> Result<(), Unwritable> {
                Ok(())
            }
        }
    )*};
}

fields! { SerializeStruct, SerializeStructVariant, }

impl ser::SerializeMap for &mut Size {
    type Ok = ();
    type Error = Unwritable;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Unwritable> {
        self.take(1)?;
        self.is_key = true;
        key.serialize(&mut **self)?;
        self.is_key = false;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Unwritable> {
        self.take(1)?;
        value.serialize(&mut **self)
    }

    fn end(self) -> Result<(), Unwritable> {
        Ok(())
    }
}
