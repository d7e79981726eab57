//! Reading JSON text that was stored somewhere: what this library wrote comes back, and no text can exhaust the stack.

use serde::de::DeserializeOwned;

/// The deepest nesting that is read. Twice what arguments may have, so that what is made of them fits as well.
const MAX_DEPTH: usize = 256;

/// Reads a value that makes up all of `text`.
pub(crate) fn read<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    if !is_shallow(text.as_bytes()) {
        return Err(format!("it is nested more than {MAX_DEPTH} levels deep"));
    }
    let mut decoder = serde_json::Deserializer::from_str(text);
    // Its own limit is less than arguments may have.
    decoder.disable_recursion_limit();
    let value = T::deserialize(&mut decoder).map_err(|error| error.to_string())?;
    decoder.end().map_err(|error| error.to_string())?;
    Ok(value)
}

/// Whether a decoder would never be more than [`MAX_DEPTH`] levels deep. Text that is no JSON may get any answer that
/// keeps the decoder safe.
fn is_shallow(text: &[u8]) -> bool {
    let (mut depth, mut in_string) = (0_usize, false);
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => drop(bytes.next()),
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return false;
        }
    }
    true
}
