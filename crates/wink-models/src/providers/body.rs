//! The body of a request: fields in order, with those that the settings add.

use serde::Serialize;
use serde_json::{Map, Value};

use super::error;
use crate::{ModelError, ModelErrorKind};

/// Writes an object. A field that the settings have is taken from there.
pub(super) struct Body<'a> {
    bytes: Vec<u8>,
    extra: &'a Map<String, Value>,
}

impl<'a> Body<'a> {
    pub(super) fn new(extra: &'a Map<String, Value>) -> Self {
        Self { bytes: vec![b'{'], extra }
    }

    pub(super) fn field(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), ModelError> {
        if self.extra.contains_key(name) { Ok(()) } else { self.write(name, value) }
    }

    pub(super) fn some(
        &mut self,
        name: &str,
        value: Option<&(impl Serialize + ?Sized)>,
    ) -> Result<(), ModelError> {
        value.map_or(Ok(()), |value| self.field(name, value))
    }

    pub(super) fn finish(mut self) -> Result<Vec<u8>, ModelError> {
        for (name, value) in self.extra {
            self.write(name, value)?;
        }
        self.bytes.push(b'}');
        Ok(self.bytes)
    }

    fn write(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<(), ModelError> {
        if self.bytes.len() > 1 {
            self.bytes.push(b',');
        }
        let written = serde_json::to_writer(&mut self.bytes, name).and_then(|()| {
            self.bytes.push(b':');
            serde_json::to_writer(&mut self.bytes, value)
        });
        written.map_err(|reason| {
            error::new(ModelErrorKind::Rejected, format!("`{name}` cannot be written: {reason}"))
        })
    }
}
