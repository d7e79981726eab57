//! Templates: a prompt's sections, checked, with nothing bound to them.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::bind::{Ground, Prompt, PromptBinding};
use super::disclosure;
use super::error::PromptValidationError;
use super::output::{Output, OutputContract, ParsedOutput};
use super::params::PromptParams;
use super::section::Section;
use super::tree::{Tree, check_key, one_registry};
use crate::feedback::{AllComplete, CompletionChecker};
use crate::policy::ToolPolicy;
use crate::resource::{AnyBinding, ResourceRegistry};

/// A checked prompt, to be bound and rendered. Cheap to clone. `Out` is the type of its answer; `()` if that is just text.
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
pub struct PromptTemplate<Out = ()> {
    unbound: Prompt,
    of: PhantomData<fn() -> Out>,
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
            checkers: AllComplete::new(),
            output: None,
            of: PhantomData,
        }
    }
}

impl<Out> PromptTemplate<Out> {
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

    /// What its answer must be, unless that is just text.
    pub fn output_contract(&self) -> Option<&OutputContract> {
        self.unbound.output()
    }

    /// An answer in its own type; none for one of another prompt.
    pub fn output(&self, parsed: &ParsedOutput) -> Option<Arc<Out>>
    where
        Out: Send + Sync + 'static,
    {
        parsed.value()
    }
}

impl<Out> Clone for PromptTemplate<Out> {
    fn clone(&self) -> Self {
        Self { unbound: self.unbound.clone(), of: PhantomData }
    }
}

impl<Out> fmt::Debug for PromptTemplate<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PromptTemplate").field("name", self.name()).finish_non_exhaustive()
    }
}

/// Collects what a template consists of.
#[must_use = "nothing is checked before .build()"]
pub struct PromptTemplateBuilder<Out = ()> {
    ns: String,
    key: String,
    display_name: Option<String>,
    sections: Vec<Section>,
    policies: Vec<Arc<dyn ToolPolicy>>,
    bindings: Vec<AnyBinding>,
    registries: Vec<ResourceRegistry>,
    checkers: AllComplete,
    output: Option<Result<OutputContract, String>>,
    of: PhantomData<fn() -> Out>,
}

impl<Out> PromptTemplateBuilder<Out> {
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

    /// Says what the model's answer must be, and tells the model so in a last section.
    pub fn output<T>(self, output: Output<T>) -> PromptTemplateBuilder<T> {
        PromptTemplateBuilder {
            ns: self.ns,
            key: self.key,
            display_name: self.display_name,
            sections: self.sections,
            policies: self.policies,
            bindings: self.bindings,
            registries: self.registries,
            checkers: self.checkers,
            output: Some(OutputContract::new(output)),
            of: PhantomData,
        }
    }

    /// Adds somebody to be asked when the model says that it is done. Of several, all must agree.
    pub fn completion(mut self, checker: impl CompletionChecker) -> Self {
        self.checkers = self.checkers.and(checker);
        self
    }

    /// Checks everything.
    ///
    /// # Errors
    /// The first thing that is wrong, with its section, tool and params type.
    pub fn build(self) -> Result<PromptTemplate<Out>, PromptValidationError> {
        for part in self.ns.split('/') {
            check_key("each part of the namespace, here", part).map_err(PromptValidationError::in_prompt)?;
        }
        check_key("prompt key", &self.key).map_err(PromptValidationError::in_prompt)?;
        let output = self.output.transpose().map_err(PromptValidationError::in_prompt)?;
        let mut tree = Tree::new(&self.policies);
        for section in self.sections {
            tree.add(section)?;
        }
        tree.finish()?;
        let ground = Ground {
            ns: self.ns,
            key: self.key,
            display_name: self.display_name,
            disclosure: disclosure::tools(&tree.policies)?,
            base: one_registry(self.bindings, &self.registries).map_err(PromptValidationError::in_prompt)?,
            completion: self.checkers.into_checker(),
            output,
        };
        Ok(PromptTemplate { unbound: Prompt::unbound(ground, tree), of: PhantomData })
    }
}
