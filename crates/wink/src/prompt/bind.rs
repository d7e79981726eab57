//! Prompts: templates with params, resources and further sections bound to them.

use std::fmt;
use std::sync::Arc;

use super::error::{PromptRenderError, PromptValidationError};
use super::output::OutputContract;
use super::overrides::{Overrides, PromptDescriptor};
use super::params::{BoundParams, ParamsType, PromptParams};
use super::placed::{PlacedSection, PlacedTool};
use super::render::Renderer;
use super::rendered::RenderedPrompt;
use super::section::Section;
use super::task::PlacedTask;
use super::tree::Tree;
use super::view::SessionView;
use super::visibility::{SectionVisibility, Visibility};
use crate::feedback::CompletionChecker;
use crate::resource::ResourceRegistry;
use crate::session::{Session, SessionError};
use crate::tool::AnyTool;

/// A prompt. Cheap to clone; binding gives a new one and leaves this as it is.
#[derive(Clone)]
pub struct Prompt {
    inner: Arc<Inner>,
}

/// What a template has beside its sections. Binding does not change it.
pub(crate) struct Ground {
    pub(crate) ns: String,
    pub(crate) key: String,
    pub(crate) display_name: Option<String>,
    pub(crate) disclosure: Arc<[PlacedTool]>,
    /// The template's own resources.
    pub(crate) base: ResourceRegistry,
    pub(crate) completion: Option<Arc<dyn CompletionChecker>>,
    pub(crate) output: Option<OutputContract>,
}

#[derive(Clone)]
struct Inner {
    name: Arc<str>,
    ground: Arc<Ground>,
    /// As the code has it.
    written: Arc<Tree>,
    overrides: Option<Arc<Overrides>>,
    /// With the overrides in place.
    tree: Arc<Tree>,
    params: Vec<Arc<BoundParams>>,
    bound: ResourceRegistry,
    declared: ResourceRegistry,
    resources: ResourceRegistry,
}

impl Prompt {
    pub(crate) fn unbound(ground: Ground, tree: Tree) -> Self {
        let written = Arc::new(tree);
        let mut inner = Inner {
            name: format!("{}/{}", ground.ns, ground.key).into(),
            ground: Arc::new(ground),
            overrides: None,
            tree: Arc::clone(&written),
            written,
            params: Vec::new(),
            bound: ResourceRegistry::default(),
            declared: ResourceRegistry::default(),
            resources: ResourceRegistry::default(),
        };
        inner.layer_resources();
        Self { inner: Arc::new(inner) }
    }

    /// `ns/key`.
    pub fn name(&self) -> &Arc<str> {
        &self.inner.name
    }

    /// The namespace.
    pub fn ns(&self) -> &str {
        &self.inner.ground.ns
    }

    /// The key.
    pub fn key(&self) -> &str {
        &self.inner.ground.key
    }

    /// The name for people, if it was given one.
    pub fn display_name(&self) -> Option<&str> {
        self.inner.ground.display_name.as_deref()
    }

    /// The unrendered sections of the top level, in order.
    pub fn sections(&self) -> impl Iterator<Item = &PlacedSection> {
        self.inner.tree.roots.iter().map(Arc::as_ref)
    }

    /// Every tool anywhere in the prompt, shown or not, in order of declaration; without the built-in ones.
    pub fn placed_tools(&self) -> impl Iterator<Item = &PlacedTool> {
        self.inner.tree.tools.iter()
    }

    /// The resources: the template's, then the sections' depth first, then those that were bound; later ones win.
    pub fn resources(&self) -> &ResourceRegistry {
        &self.inner.resources
    }

    /// The resources of template and sections, for whoever puts layers of its own under the bound ones.
    pub fn declared_resources(&self) -> &ResourceRegistry {
        &self.inner.declared
    }

    /// The resources that were bound.
    pub fn bound_resources(&self) -> &ResourceRegistry {
        &self.inner.bound
    }

    /// This prompt with params bound to it, in place of older ones of their type.
    ///
    /// # Errors
    /// As for [`PromptBinding::build`].
    pub fn bind<P: PromptParams>(&self, params: P) -> Result<Prompt, PromptValidationError> {
        self.binding().params(params).build()
    }

    /// Starts binding several things at once.
    pub fn binding(&self) -> PromptBinding {
        PromptBinding {
            prompt: self.clone(),
            params: Vec::new(),
            resources: Vec::new(),
            sections: Vec::new(),
        }
    }

    /// What the model's answer must be, unless it is just text.
    pub fn output(&self) -> Option<&OutputContract> {
        self.inner.ground.output.as_ref()
    }

    /// Who is to be asked when the model says that it is done.
    pub fn completion(&self) -> Option<&Arc<dyn CompletionChecker>> {
        self.inner.ground.completion.as_ref()
    }

    /// This prompt with texts replaced, in place of older overrides. Those that are stale or speak of parts that it does not have
    /// are left out, which diagnostics say.
    ///
    /// # Errors
    /// When they are another prompt's, or one that counts is wrong: a placeholder that is no field, a description that is
    /// too long, an example that the tool would refuse.
    pub fn with_overrides(&self, overrides: Overrides) -> Result<Prompt, PromptValidationError> {
        let mut inner = Inner::clone(&self.inner);
        inner.overrides = Some(Arc::new(overrides));
        inner.override_texts()?;
        Ok(Prompt { inner: Arc::new(inner) })
    }

    /// Every part that can be replaced, as the code has it: overrides that are in place do not change it.
    pub fn descriptor(&self) -> PromptDescriptor {
        PromptDescriptor::of(&self.inner.ground.ns, &self.inner.ground.key, &self.inner.written)
    }

    /// The prompt as the model is given it in this session. Pure: no I/O, no clock, nothing changes.
    ///
    /// # Errors
    /// When params are missing, or a section's predicate panics.
    pub fn render<'a>(
        &self,
        session: impl Into<SessionView<'a>>,
    ) -> Result<RenderedPrompt, PromptRenderError> {
        Renderer::new(self, &session.into()).render()
    }

    /// The tools that the model can call in this session, in order of declaration; the built-in ones last.
    ///
    /// # Errors
    /// As for [`Prompt::render`].
    pub fn tools<'a>(&self, session: impl Into<SessionView<'a>>) -> Result<Vec<AnyTool>, PromptRenderError> {
        Renderer::new(self, &session.into()).tools()
    }

    /// Makes a session know what the sections and tools need there. Again is a no-op.
    ///
    /// # Errors
    /// When a slice cannot be installed.
    pub fn prepare(&self, session: &Session) -> Result<(), SessionError> {
        session.know::<SectionVisibility>()?;
        for install in &self.inner.tree.installs {
            install(session)?;
        }
        for placed in self.placed_tools() {
            placed.tool.inner.prepare(session)?;
        }
        self.output().map_or(Ok(()), |output| output.prepare(session))
    }

    /// Every tool that a session can come to offer: those of [`Prompt::placed_tools`], and the built-in ones if there is a
    /// section that may be closed.
    pub fn possible_tools(&self) -> impl Iterator<Item = &PlacedTool> {
        fn may_close(section: &PlacedSection) -> bool {
            section.visibility() == Visibility::Summary || section.children().any(may_close)
        }
        let built_in = if self.sections().any(may_close) { self.disclosure() } else { &[] };
        self.placed_tools().chain(built_in)
    }

    /// The tools for opening and reading sections.
    pub(crate) fn disclosure(&self) -> &[PlacedTool] {
        &self.inner.ground.disclosure
    }

    pub(crate) fn has_task_examples(&self) -> bool {
        !self.inner.tree.tasks.is_empty()
    }

    pub(crate) fn task_examples(&self, section: &str) -> &[PlacedTask] {
        self.inner.tree.tasks.get(section).map(Vec::as_slice).unwrap_or_default()
    }

    pub(crate) fn bound_params(&self, of: &ParamsType) -> Option<&Arc<BoundParams>> {
        self.inner.params.iter().find(|bound| bound.of.id == of.id)
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

impl Inner {
    fn override_texts(&mut self) -> Result<(), PromptValidationError> {
        self.tree = match &self.overrides {
            None => Arc::clone(&self.written),
            Some(overrides) => {
                let descriptor = PromptDescriptor::of(&self.ground.ns, &self.ground.key, &self.written);
                Arc::new(overrides.apply(&descriptor, &self.written)?)
            }
        };
        Ok(())
    }

    fn layer_resources(&mut self) {
        self.declared =
            ResourceRegistry::layered(std::iter::once(&self.ground.base).chain(&self.tree.resources));
        self.resources = ResourceRegistry::layered([&self.declared, &self.bound]);
    }
}

/// What is about to be bound to a prompt.
///
/// ```
/// use wink::prelude::*;
/// use wink::prompt::{PromptTemplate, Section};
///
/// #[derive(Serialize, JsonSchema)]
/// struct Task { goal: String }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let template = PromptTemplate::builder("examples", "task")
///     .section(Section::markdown("task", "Task").params::<Task>().body("Reach ${goal}."))
///     .build()?;
/// let prompt = template
///     .binding()
///     .params(Task { goal: "the top".into() })
///     .section(Section::markdown("hint", "Hint").body("Go up."))
///     .build()?;
/// assert_eq!(prompt.render(&Session::new())?.text(), "## 1. Task\n\nReach the top.\n\n## 2. Hint\n\nGo up.");
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is bound before .build()"]
pub struct PromptBinding {
    prompt: Prompt,
    params: Vec<(ParamsType, Result<Arc<BoundParams>, String>)>,
    resources: Vec<ResourceRegistry>,
    sections: Vec<Section>,
}

impl PromptBinding {
    /// Binds params, by their type.
    pub fn params<P: PromptParams>(mut self, params: P) -> Self {
        self.params.push((ParamsType::of::<P>(), BoundParams::new(params)));
        self
    }

    /// Binds resources. They replace those of template, sections and earlier binds.
    pub fn resources(mut self, registry: ResourceRegistry) -> Self {
        self.resources.push(registry);
        self
    }

    /// Adds a section after the others. It is checked as at construction.
    pub fn section(mut self, section: Section) -> Self {
        self.sections.push(section);
        self
    }

    /// The prompt with everything bound.
    ///
    /// # Errors
    /// When two params have one type, no section takes them, they are no struct, or a section is wrong.
    pub fn build(self) -> Result<Prompt, PromptValidationError> {
        let mut inner = Inner::clone(&self.prompt.inner);
        if !self.sections.is_empty() {
            let mut tree = Tree::clone(&inner.written);
            for section in self.sections {
                tree.add(section)?;
            }
            tree.finish()?;
            inner.written = Arc::new(tree);
            inner.override_texts()?;
        }
        let mut fresh: Vec<Arc<BoundParams>> = Vec::with_capacity(self.params.len());
        for (of, params) in self.params {
            let fault = |reason: String| PromptValidationError::in_prompt(reason).of_params(of.name);
            let params = params.map_err(fault)?;
            if fresh.iter().any(|other| other.of.id == of.id) {
                return Err(fault("two params of one type are bound at once; bind one".to_owned()));
            }
            if !inner.tree.params.iter().any(|known| known.id == of.id) {
                return Err(fault("no section takes params of this type".to_owned()));
            }
            fresh.push(params);
        }
        inner.params.retain(|old| fresh.iter().all(|new| new.of.id != old.of.id));
        inner.params.extend(fresh);
        inner.bound = ResourceRegistry::layered(std::iter::once(&inner.bound).chain(&self.resources));
        inner.layer_resources();
        Ok(Prompt { inner: Arc::new(inner) })
    }
}
