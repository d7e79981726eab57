//! The two JSON texts that the data is compared by, and their hash: the wire form a tool answers with, and the
//! canonical form a database is hashed in.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

use crate::number::float_text;

/// Keys as stored, `", "` and `": "` between, everything outside printable ASCII escaped.
pub(crate) fn wire(value: &impl Serialize) -> serde_json::Result<String> {
    write(value, Wire)
}

/// Keys sorted at every level, no spaces, text beyond ASCII as it is.
pub(crate) fn canonical(value: &impl Serialize) -> serde_json::Result<String> {
    let mut value = serde_json::to_value(value)?;
    value.sort_all_objects();
    write(&value, Canonical)
}

/// The lower-case hex of bytes.
pub(crate) fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn write(value: &impl Serialize, formatter: impl Formatter) -> serde_json::Result<String> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, formatter))?;
    String::from_utf8(text).map_err(serde::ser::Error::custom)
}

struct Canonical;

impl Formatter for Canonical {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(float_text(value).as_bytes())
    }
}

struct Wire;

impl Formatter for Wire {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        Canonical.write_f64(writer, value)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.begin_array_value(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let mut units = [0; 2];
        for character in fragment.chars() {
            if matches!(character, ' '..='~') {
                write!(writer, "{character}")?;
            } else {
                for unit in character.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}
