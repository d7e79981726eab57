//! Takes known secrets out of what is written down.

use serde_json::Value;
use wink::tool::secret::{MASK, Secret};

/// The shortest secret that can be told from ordinary text.
const SHORTEST: usize = 6;

/// Knows secrets, and replaces them wherever they occur in texts, keys and numbers: as they are, and as they look inside of JSON.
#[derive(Clone, Default)]
pub struct Scrubber {
    forms: Vec<Secret<String>>,
}

/// A secret is too short to be found: replacing it would replace half of what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a secret of fewer than {SHORTEST} characters cannot be kept out of a recording")]
pub struct TooShort;

impl Scrubber {
    /// A scrubber that knows no secrets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Knows one more.
    ///
    /// # Errors
    /// When it is too short.
    pub fn knowing(mut self, secret: &Secret<String>) -> Result<Self, TooShort> {
        let mut form = secret.expose().trim().to_owned();
        if form.chars().count() < SHORTEST {
            return Err(TooShort);
        }
        // Texts are found in JSON in texts in JSON: arguments, and what tools show of them.
        for _ in 0..3 {
            if !self.forms.iter().any(|known| *known.expose() == form) {
                self.forms.push(Secret::new(form.clone()));
            }
            form = escaped(&form);
        }
        // The longest first: a secret may be part of another's form.
        self.forms.sort_by_key(|form| std::cmp::Reverse(form.expose().len()));
        Ok(self)
    }

    /// A text without the secrets.
    pub fn text(&self, text: &str) -> String {
        self.forms.iter().fold(text.to_owned(), |text, form| match text.contains(form.expose()) {
            true => text.replace(form.expose(), MASK),
            false => text,
        })
    }

    /// A value without the secrets.
    pub fn value(&self, value: Value) -> Value {
        if self.forms.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(key, value)| (self.text(&key), self.value(value))).collect()
            }
            Value::Number(number) => {
                let text = number.to_string();
                let scrubbed = self.text(&text);
                if scrubbed == text { Value::Number(number) } else { Value::String(scrubbed) }
            }
            other => other,
        }
    }
}

/// As it looks inside of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

impl std::fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scrubber").field("forms", &self.forms.len()).finish()
    }
}
