//! Overrides: texts of a prompt that are replaced without touching code.
//!
//! Bodies and summaries of sections, descriptions of tools and parameters, and examples can be replaced, from files that are
//! kept under version control beside the code. An override says by its [hash](Override::hash) which text it was written
//! for. When the code has another text there by now, it is stale: it is left out when a prompt is made, and refused when
//! it is written. Nothing here decides what is shown: an override changes what a part says, not whether it is seen.

mod apply;
mod descriptor;
mod error;
#[cfg(unix)]
mod local;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::tree::check_key;

pub use descriptor::{OverridePart, PromptDescriptor};
pub use error::OverrideError;
#[cfg(unix)]
pub use local::{LocalOverrides, Seeded};

/// The form that this library reads and writes.
const VERSION: u32 = 1;

/// What replaces texts of one prompt, under one tag.
///
/// ```
/// use wink::prelude::*;
/// use wink::prompt::Overrides;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let template = PromptTemplate::builder("examples", "greeting")
///     .section(Section::markdown("task", "Task").body("Greet the user."))
///     .build()?;
/// let prompt = template.prompt();
///
/// let mut overrides = Overrides::new(&prompt.descriptor(), "polite")?;
/// overrides.replace(&prompt.descriptor(), "sections/task/body", "Greet the user by name.")?;
/// let polite = prompt.with_overrides(overrides.clone())?;
/// assert_eq!(polite.render(&Session::new())?.text(), "## 1. Task\n\nGreet the user by name.");
///
/// // The code has another text now: the override was not written for that.
/// let template = PromptTemplate::builder("examples", "greeting")
///     .section(Section::markdown("task", "Task").body("Greet the user, briefly."))
///     .build()?;
/// let prompt = template.prompt().with_overrides(overrides)?;
/// assert_eq!(prompt.render(&Session::new())?.text(), "## 1. Task\n\nGreet the user, briefly.");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overrides {
    version: u32,
    ns: String,
    key: String,
    tag: String,
    parts: BTreeMap<String, Override>,
}

/// One part that is replaced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Override {
    /// The hash of what it replaces.
    pub hash: String,
    /// What is there instead.
    pub value: PartValue,
}

/// What a part of a prompt is: a text, or the examples of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PartValue {
    /// A body or a summary with its placeholders, or a description.
    Text(String),
    /// All examples of a tool.
    Examples(Vec<OverrideExample>),
}

/// An example of a tool, in JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverrideExample {
    /// What it shows.
    pub description: String,
    /// The arguments.
    pub input: Value,
    /// The value that comes of them.
    pub output: Value,
}

/// How an override stands to the prompt as the code has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartState {
    /// It replaces what it was written for.
    Fresh,
    /// The code has something else there by now.
    Stale,
    /// There is no such part, or it takes no overrides.
    Unknown,
}

impl Overrides {
    /// Without any, for a prompt and a tag.
    ///
    /// # Errors
    /// When the tag is no key: `^[a-z0-9][a-z0-9._-]{0,63}$`.
    pub fn new(of: &PromptDescriptor, tag: impl Into<String>) -> Result<Self, OverrideError> {
        let tag = checked_tag(tag.into())?;
        Ok(Self { version: VERSION, ns: of.ns.clone(), key: of.key.clone(), tag, parts: BTreeMap::new() })
    }

    /// The namespace of the prompt.
    pub fn ns(&self) -> &str {
        &self.ns
    }

    /// The key of the prompt.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Which of several sets for the prompt it is.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// What is replaced, by path, in order of the paths.
    pub fn parts(&self) -> impl Iterator<Item = (&str, &Override)> {
        self.parts.iter().map(|(path, part)| (path.as_str(), part))
    }

    /// What replaces this part.
    pub fn get(&self, path: &str) -> Option<&Override> {
        self.parts.get(path)
    }

    /// Replaces a part as the prompt has it now.
    ///
    /// # Errors
    /// When the prompt has no such part.
    pub fn replace(
        &mut self,
        of: &PromptDescriptor,
        path: &str,
        value: impl Into<PartValue>,
    ) -> Result<(), OverrideError> {
        let Some(part) = of.part(path) else {
            return Err(OverrideError::Unknown { paths: vec![path.to_owned()] });
        };
        self.parts.insert(path.to_owned(), Override { hash: part.hash.clone(), value: value.into() });
        Ok(())
    }

    /// Leaves a part as the code has it.
    pub fn remove(&mut self, path: &str) -> Option<Override> {
        self.parts.remove(path)
    }

    /// Whether it is for this prompt.
    fn is_for(&self, ns: &str, key: &str) -> bool {
        self.ns == ns && self.key == key
    }
}

impl Override {
    /// How it stands to the prompt.
    pub fn state(&self, path: &str, of: &PromptDescriptor) -> PartState {
        match of.part(path) {
            None => PartState::Unknown,
            Some(part) if part.hash == self.hash => PartState::Fresh,
            Some(_) => PartState::Stale,
        }
    }

    /// Whether it says what it replaces, as after seeding: somebody has yet to change it.
    pub fn is_unchanged(&self) -> bool {
        self.value.hash() == self.hash
    }
}

impl From<&str> for PartValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for PartValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Vec<OverrideExample>> for PartValue {
    fn from(examples: Vec<OverrideExample>) -> Self {
        Self::Examples(examples)
    }
}

fn checked_tag(tag: String) -> Result<String, OverrideError> {
    check_key("tag", &tag).map_err(|reason| OverrideError::Tag { reason })?;
    Ok(tag)
}
