//! What can be replaced in a prompt, part by part, each with the hash of what is there.

use serde_json::Value;

use super::super::placed::PlacedSection;
use super::super::tree::Tree;
use super::{OverrideExample, PartValue};
use crate::support::canonical::canonical_hash;
use crate::tool::{Contract, ToolExample, reword};

/// Every part of a prompt that can be replaced, in order of declaration.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptDescriptor {
    /// The namespace of the prompt.
    pub ns: String,
    /// Its key.
    pub key: String,
    /// The parts.
    pub parts: Vec<OverridePart>,
}

/// A part that can be replaced.
#[derive(Debug, Clone, PartialEq)]
pub struct OverridePart {
    /// `sections/PATH/body`, `sections/PATH/summary`, `tools/NAME/description`, `tools/NAME/params/FIELD` or
    /// `tools/NAME/examples`.
    pub path: String,
    /// The hash of its value.
    pub hash: String,
    /// What the code has there.
    pub value: PartValue,
}

impl PromptDescriptor {
    pub(crate) fn of(ns: &str, key: &str, tree: &Tree) -> Self {
        let mut parts = Vec::new();
        for section in &tree.roots {
            collect(section, &mut parts);
        }
        Self { ns: ns.to_owned(), key: key.to_owned(), parts }
    }

    /// The part with this path.
    pub fn part(&self, path: &str) -> Option<&OverridePart> {
        self.parts.iter().find(|part| part.path == path)
    }
}

impl OverridePart {
    fn new(path: String, value: PartValue) -> Self {
        Self { path, hash: value.hash(), value }
    }
}

impl PartValue {
    pub(super) fn hash(&self) -> String {
        canonical_hash(&match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Examples(examples) => examples.iter().map(OverrideExample::to_json).collect(),
        })
    }
}

impl OverrideExample {
    fn of(example: &ToolExample) -> Self {
        let ToolExample { description, input, output, .. } = example.clone();
        Self { description, input, output }
    }

    fn to_json(&self) -> Value {
        let Self { description, input, output } = self;
        serde_json::json!({ "description": description, "input": input, "output": output })
    }
}

/// Where the texts of sections and tools are found.
pub(super) fn body_path(section: &PlacedSection) -> String {
    format!("sections/{}/body", section.path)
}

pub(super) fn summary_path(section: &PlacedSection) -> String {
    format!("sections/{}/summary", section.path)
}

pub(super) fn description_path(tool: &Contract) -> String {
    format!("tools/{}/description", tool.name)
}

pub(super) fn param_path(tool: &Contract, field: &str) -> String {
    format!("tools/{}/params/{field}", tool.name)
}

pub(super) fn examples_path(tool: &Contract) -> String {
    format!("tools/{}/examples", tool.name)
}

fn collect(section: &PlacedSection, parts: &mut Vec<OverridePart>) {
    if section.accepts_overrides {
        parts.push(OverridePart::new(body_path(section), section.body().into()));
        parts.extend(section.summary().map(|text| OverridePart::new(summary_path(section), text.into())));
    }
    for tool in
        section.tools.iter().map(|placed| placed.tool.contract()).filter(|tool| tool.accepts_overrides)
    {
        parts.push(OverridePart::new(description_path(tool), tool.description().into()));
        for (field, said) in reword::params(tool.schema()) {
            parts.push(OverridePart::new(param_path(tool, &field), said.into()));
        }
        let examples: Vec<_> = tool.examples().iter().map(OverrideExample::of).collect();
        parts.push(OverridePart::new(examples_path(tool), examples.into()));
    }
    for child in section.children() {
        collect(child, parts);
    }
}
