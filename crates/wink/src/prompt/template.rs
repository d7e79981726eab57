//! Templates: a prompt's sections, checked, with nothing bound to them.

use std::sync::Arc;

use super::bind::{Prompt, PromptBinding};
use super::disclosure;
use super::error::PromptValidationError;
use super::params::PromptParams;
use super::section::Section;
use super::tree::{Tree, check_key, one_registry};
use crate::policy::ToolPolicy;
use crate::resource::{AnyBinding, ResourceRegistry};

/// A checked prompt, to be bound and rendered. Cheap to clone.
///
/// ```
/// use wink::prompt::{PromptTemplate, Section};
///
/// # fn main() -> Result<(), wink::prompt::PromptValidationError> {
/// let template = PromptTemplate::builder("ops", "deploy")
///     .section(Section::markdown("task", "Task").body("Run the tests, then deploy."))
///     .build()?;
/// assert_eq!(&**template.name(), "ops/deploy");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct PromptTemplate {
    unbound: Prompt,
}

impl PromptTemplate {
    /// Starts a template. `ns` may have several parts, with slashes between them.
    pub fn builder(ns: impl Into<String>, key: impl Into<String>) -> PromptTemplateBuilder {
        PromptTemplateBuilder {
            ns: ns.into(),
            key: key.into(),
            display_name: None,
            sections: Vec::new(),
            policies: Vec::new(),
            bindings: Vec::new(),
            registries: Vec::new(),
        }
    }

    /// `ns/key`.
    pub fn name(&self) -> &Arc<str> {
        self.unbound.name()
    }

    /// The prompt with nothing bound to it.
    pub fn prompt(&self) -> Prompt {
        self.unbound.clone()
    }

    /// The prompt with params bound to it.
    ///
    /// # Errors
    /// As for [`PromptBinding::build`].
    pub fn bind<P: PromptParams>(&self, params: P) -> Result<Prompt, PromptValidationError> {
        self.unbound.bind(params)
    }

    /// Starts binding several things at once.
    pub fn binding(&self) -> PromptBinding {
        self.unbound.binding()
    }
}

/// Collects what a template consists of.
#[must_use = "nothing is checked before .build()"]
pub struct PromptTemplateBuilder {
    ns: String,
    key: String,
    display_name: Option<String>,
    sections: Vec<Section>,
    policies: Vec<Arc<dyn ToolPolicy>>,
    bindings: Vec<AnyBinding>,
    registries: Vec<ResourceRegistry>,
}

impl PromptTemplateBuilder {
    /// A name for people.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.display_name = Some(name.into());
        self
    }

    /// Adds a section.
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// Adds a policy that covers every tool. It is asked after those of the sections.
    pub fn policy(mut self, policy: impl ToolPolicy) -> Self {
        self.policies.push(Arc::new(policy));
        self
    }

    /// Adds a resource. A section's own, or a bound one, of the same type replaces it.
    pub fn resource(mut self, binding: impl Into<AnyBinding>) -> Self {
        self.bindings.push(binding.into());
        self
    }

    /// Adds resources. A section's own, or a bound one, of the same type replaces them.
    pub fn resources(mut self, registry: ResourceRegistry) -> Self {
        self.registries.push(registry);
        self
    }

    /// Checks everything.
    ///
    /// # Errors
    /// The first thing that is wrong, with its section, tool and params type.
    pub fn build(self) -> Result<PromptTemplate, PromptValidationError> {
        for part in self.ns.split('/') {
            check_key("each part of the namespace, here", part).map_err(PromptValidationError::in_prompt)?;
        }
        check_key("prompt key", &self.key).map_err(PromptValidationError::in_prompt)?;
        let mut tree = Tree::new(&self.policies);
        for section in self.sections {
            tree.add(section)?;
        }
        let resources =
            one_registry(self.bindings, &self.registries).map_err(PromptValidationError::in_prompt)?;
        let disclosure = disclosure::tools(&tree.policies)?;
        let unbound = Prompt::unbound(self.ns, self.key, self.display_name, tree, resources, disclosure);
        Ok(PromptTemplate { unbound })
    }
}
