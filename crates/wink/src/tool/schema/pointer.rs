//! Places in a schema document, and the references between them.

use std::fmt;

use serde_json::Value;

use super::error::SchemaError;

/// A place in a schema document; becomes text (`#/properties/a`) only for an error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pointer<'p> {
    parent: Option<&'p Pointer<'p>>,
    step: &'p str,
}

impl<'p> Pointer<'p> {
    pub(super) const ROOT: Self = Self { parent: None, step: "#" };

    /// The place that a reference names.
    pub(super) fn at(reference: &'p str) -> Self {
        Self { parent: None, step: reference }
    }

    pub(super) fn key(&'p self, step: &'p str) -> Self {
        Self { parent: Some(self), step }
    }

    /// The error that the keyword at this place has an impossible value.
    pub(super) fn invalid(&self, reason: &str) -> SchemaError {
        let parent = self.parent.map_or_else(|| "#".to_owned(), |parent| parent.to_string());
        SchemaError::InvalidKeyword { keyword: self.step.to_owned(), path: parent, reason: reason.to_owned() }
    }
}

impl fmt::Display for Pointer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parent {
            None => f.write_str(self.step),
            Some(parent) => write!(f, "{parent}/{}", self.step.replace('~', "~0").replace('/', "~1")),
        }
    }
}

/// What a `$ref` points to. Only places inside the document are ever looked at.
pub(super) fn resolve<'v>(
    root: &'v Value,
    reference: &str,
    place: &Pointer<'_>,
) -> Result<&'v Value, SchemaError> {
    let inside =
        reference == "#" || reference.starts_with("#/$defs/") || reference.starts_with("#/definitions/");
    let (reference, path) = (reference.to_owned(), place.to_string());
    if !inside {
        return Err(SchemaError::RemoteRef { reference, path });
    }
    let pointer = percent_decoded(reference.trim_start_matches('#'));
    root.pointer(&pointer).ok_or(SchemaError::UnresolvedRef { reference, path })
}

/// The name of the definition that a reference points to directly.
pub(super) fn definition(reference: &str) -> Option<String> {
    let name = reference.strip_prefix("#/$defs/").or_else(|| reference.strip_prefix("#/definitions/"))?;
    let name = percent_decoded(name);
    (!name.contains('/')).then(|| name.replace("~1", "/").replace("~0", "~"))
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(code) if *first == b'%' => {
                bytes.push(code);
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
