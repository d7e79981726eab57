//! From a prompt as the code has it to one with its texts replaced.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::error::PromptValidationError;
use super::super::examples;
use super::super::placed::{PlacedSection, PlacedTool};
use super::super::tree::{Tree, compile};
use super::descriptor::{
    PromptDescriptor, body_path, description_path, examples_path, param_path, summary_path,
};
use super::{Overrides, PartState, PartValue};
use crate::tool::AnyTool;
use crate::tool::reword::{self, Words};

impl Overrides {
    /// The tree with everything replaced that is fresh; checked like the tree itself.
    pub(crate) fn apply(&self, of: &PromptDescriptor, tree: &Tree) -> Result<Tree, PromptValidationError> {
        if !self.is_for(&of.ns, &of.key) {
            let reason = format!("these overrides are for {}/{}", self.ns, self.key);
            return Err(PromptValidationError::in_prompt(reason));
        }
        let fresh = Fresh { parts: self.fresh(of) };
        let mut tree = tree.clone();
        for section in &mut tree.roots {
            *section = fresh.section(section)?;
        }
        let mut tools = Vec::with_capacity(tree.tools.len());
        for section in &tree.roots {
            section.each_tool(&mut |tool| tools.push(tool.clone()));
        }
        tree.tools = tools;
        Ok(tree)
    }

    /// Those that count and say something new.
    fn fresh<'a>(&'a self, of: &PromptDescriptor) -> HashMap<&'a str, &'a PartValue> {
        let mut fresh = HashMap::new();
        for (path, part) in self.parts() {
            match part.state(path, of) {
                PartState::Fresh if part.is_unchanged() => {}
                PartState::Fresh => drop(fresh.insert(path, &part.value)),
                // A copy of what was there once is nobody's wish.
                PartState::Stale | PartState::Unknown if part.is_unchanged() => {}
                state @ (PartState::Stale | PartState::Unknown) => {
                    let (ns, key, tag) = (&self.ns, &self.key, &self.tag);
                    tracing::warn!(ns, key, tag, path, ?state, "an override is left out");
                }
            }
        }
        fresh
    }
}

/// What is to be replaced, by path.
struct Fresh<'a> {
    parts: HashMap<&'a str, &'a PartValue>,
}

impl Fresh<'_> {
    fn text(&self, path: &str) -> Result<Option<&str>, String> {
        match self.parts.get(path) {
            None => Ok(None),
            Some(PartValue::Text(text)) => Ok(Some(text)),
            Some(PartValue::Examples(_)) => Err(format!("the override of {path} must be a text")),
        }
    }

    fn section(&self, section: &PlacedSection) -> Result<Arc<PlacedSection>, PromptValidationError> {
        let fault = |reason| PromptValidationError::in_section(&section.path, reason);
        let mut new = section.clone();
        if let Some(body) = self.text(&body_path(section)).map_err(fault)? {
            new.body = compile("overridden body", body, section.params.as_ref(), &section.path)?;
        }
        if let Some(summary) = self.text(&summary_path(section)).map_err(fault)? {
            new.summary =
                Some(compile("overridden summary", summary, section.params.as_ref(), &section.path)?);
        }
        for placed in &mut new.tools {
            let reworded = self
                .tool(placed)
                .map_err(|reason| fault(format!("its override: {reason}")).of_tool(placed.name()))?;
            if let Some(tool) = reworded {
                placed.tool = tool;
            }
        }
        if new.shows_examples {
            new.examples = examples::text(&new.tools);
        }
        for child in &mut new.children {
            *child = self.section(child)?;
        }
        Ok(Arc::new(new))
    }

    /// The tool in other words; none if it keeps its own.
    fn tool(&self, placed: &PlacedTool) -> Result<Option<AnyTool>, String> {
        let contract = placed.tool.contract();
        let mut params = Vec::new();
        let fields = reword::params(contract.schema());
        for (field, _) in &fields {
            if let Some(text) = self.text(&param_path(contract, field))? {
                params.push((field.as_str(), text));
            }
        }
        let path = examples_path(contract);
        let examples = match self.parts.get(path.as_str()) {
            None => None,
            Some(PartValue::Text(_)) => {
                return Err(format!("the override of {path} must be a list of examples"));
            }
            Some(PartValue::Examples(examples)) => Some(
                examples
                    .iter()
                    .map(|one| (one.description.as_str(), one.input.clone(), one.output.clone()))
                    .collect(),
            ),
        };
        let words = Words { description: self.text(&description_path(contract))?, params, examples };
        if words.description.is_none() && words.params.is_empty() && words.examples.is_none() {
            return Ok(None);
        }
        placed.tool.reworded(words).map(Some)
    }
}
