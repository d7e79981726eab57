//! Sections as they are written. Whatever is wrong with one is reported when its prompt is built, with its path.

use std::any::Any;
use std::sync::Arc;

use serde_json::Value;

use super::params::{BoundParams, ParamsType, PromptParams};
use super::task::TaskExample;
use super::view::SessionView;
use super::visibility::Visibility;
use crate::policy::ToolPolicy;
use crate::resource::{AnyBinding, ResourceRegistry};
use crate::session::{Session, SessionError};
use crate::tool::{AnyTool, IntoTool, ToolValidationError};

/// The two plain kinds of section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SectionKind {
    /// Text, with the examples of its tools.
    Markdown,
    /// Tools, with a text that says little.
    Tools,
}

/// A part of a prompt: text, and the tools, policies and resources that belong to it.
///
/// ```
/// use wink::prelude::*;
/// use wink::prompt::{PromptTemplate, Section};
///
/// #[derive(Serialize, JsonSchema)]
/// struct Guidance { primary_tool: String }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let guidance = Section::markdown("guidance", "Guidance")
///     .params::<Guidance>()
///     .body("
///         Use ${primary_tool} for critical lookups.
///         Everything else can wait.
///     ")
///     .child(Section::markdown("style", "Style").body("Be brief."));
/// let prompt = PromptTemplate::builder("examples/tooling", "demo")
///     .section(guidance)
///     .build()?
///     .bind(Guidance { primary_tool: "lookup_entity".into() })?;
///
/// let rendered = prompt.render(&Session::new())?;
/// let lines: Vec<&str> = rendered.text().lines().filter(|line| !line.is_empty()).collect();
/// assert_eq!(
///     lines,
///     [
///         "## 1. Guidance",
///         "Use lookup_entity for critical lookups.",
///         "Everything else can wait.",
///         "### 1.1. Style",
///         "Be brief.",
///     ]
/// );
/// # Ok(())
/// # }
/// ```
#[must_use = "a section does nothing until a prompt has it"]
pub struct Section {
    pub(crate) kind: SectionKind,
    pub(crate) key: String,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) summary: Option<String>,
    pub(crate) body_from: Option<Arc<TextSource>>,
    pub(crate) summary_from: Option<Arc<TextSource>>,
    pub(crate) params: Vec<ParamsType>,
    pub(crate) defaults: Option<Result<Arc<BoundParams>, String>>,
    pub(crate) enabled: Option<Predicate>,
    pub(crate) visibility: Visibility,
    pub(crate) children: Vec<Section>,
    pub(crate) tools: Vec<(String, Result<AnyTool, ToolValidationError>)>,
    pub(crate) policies: Vec<Arc<dyn ToolPolicy>>,
    pub(crate) bindings: Vec<AnyBinding>,
    pub(crate) registries: Vec<ResourceRegistry>,
    pub(crate) installs: Vec<Arc<Install>>,
    pub(crate) accepts_overrides: bool,
    pub(crate) shows_examples: bool,
    pub(crate) task_examples: Vec<TaskExample>,
    pub(crate) invalid: Option<String>,
}

/// What a section does to a session before its prompt is used.
pub(crate) type Install = dyn Fn(&Session) -> Result<(), SessionError> + Send + Sync;

/// What a session has to say in place of a template.
pub(crate) type TextSource = dyn Fn(&SessionView<'_>) -> Option<String> + Send + Sync;

type SessionPredicate = dyn Fn(&SessionView<'_>) -> bool + Send + Sync;
type ParamsPredicate = dyn Fn(&dyn Any, &SessionView<'_>) -> bool + Send + Sync;

/// Whether a section is there.
#[derive(Clone)]
pub(crate) enum Predicate {
    OfSession(Arc<SessionPredicate>),
    OfParams(Arc<ParamsPredicate>),
}

impl Section {
    /// A section that is mainly text.
    #[doc(alias = "MarkdownSection")]
    pub fn markdown(key: impl Into<String>, title: impl Into<String>) -> Self {
        Self::new(SectionKind::Markdown, key.into(), title.into())
    }

    /// A section that is mainly tools. The examples of its tools are not shown.
    #[doc(alias = "ToolsSection")]
    pub fn tools(key: impl Into<String>, title: impl Into<String>) -> Self {
        Self::new(SectionKind::Tools, key.into(), title.into())
    }

    fn new(kind: SectionKind, key: String, title: String) -> Self {
        Self {
            kind,
            key,
            title,
            body: String::new(),
            summary: None,
            body_from: None,
            summary_from: None,
            params: Vec::new(),
            defaults: None,
            enabled: None,
            visibility: Visibility::Full,
            children: Vec::new(),
            tools: Vec::new(),
            policies: Vec::new(),
            bindings: Vec::new(),
            registries: Vec::new(),
            installs: Vec::new(),
            accepts_overrides: true,
            shows_examples: kind == SectionKind::Markdown,
            task_examples: Vec::new(),
            invalid: None,
        }
    }

    /// The text. `${field}` and `$field` stand for the fields of the params type, `$$` for a dollar sign;
    /// indentation that all lines share goes.
    pub fn body(mut self, template: impl Into<String>) -> Self {
        self.body = template.into();
        self
    }

    /// The params type. Its fields, as serde writes them, are the placeholders.
    pub fn params<P: PromptParams>(mut self) -> Self {
        self.params.push(ParamsType::of::<P>());
        self
    }

    /// The params type, and the values that count as long as none are bound.
    pub fn default_params<P: PromptParams>(mut self, params: P) -> Self {
        self.defaults = Some(BoundParams::new(params));
        self.params::<P>()
    }

    /// Values for the placeholders of this section alone, for texts that are known at run time only.
    ///
    /// ```
    /// use wink::prelude::*;
    /// use wink::prompt::{PromptTemplate, Section};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let section = Section::markdown("task", "Task").body("Reach ${goal}.").values([("goal".into(), "the top".into())]);
    /// let prompt = PromptTemplate::builder("examples", "task").section(section).build()?.prompt();
    /// assert_eq!(prompt.render(&Session::new())?.text(), "## 1. Task\n\nReach the top.");
    /// # Ok(())
    /// # }
    /// ```
    pub fn values(mut self, values: impl IntoIterator<Item = (String, Value)>) -> Self {
        let given = BoundParams::given(values.into_iter().collect());
        self.params.push(given.of.clone());
        self.defaults = Some(Ok(given));
        self
    }

    /// Its key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The tools that it has itself, but for those that are wrong.
    pub fn own_tools(&self) -> impl Iterator<Item = &AnyTool> {
        self.tools.iter().filter_map(|(_, tool)| tool.as_ref().ok())
    }

    /// Adds a section below this one.
    pub fn child(mut self, section: Section) -> Self {
        self.children.push(section);
        self
    }

    /// Adds a tool.
    pub fn tool(mut self, tool: impl IntoTool) -> Self {
        let name = tool.declared_name().to_owned();
        self.tools.push((name, tool.into_tool()));
        self
    }

    /// Adds several tools of one type, such as finished ones.
    pub fn with_tools<T: IntoTool>(self, tools: impl IntoIterator<Item = T>) -> Self {
        tools.into_iter().fold(self, Self::tool)
    }

    /// Adds a policy: it covers the tools of this section and of those below it.
    pub fn policy(mut self, policy: impl ToolPolicy) -> Self {
        self.policies.push(Arc::new(policy));
        self
    }

    /// Adds a resource that its tools need.
    pub fn resource(mut self, binding: impl Into<AnyBinding>) -> Self {
        self.bindings.push(binding.into());
        self
    }

    /// Adds resources that its tools need.
    pub fn resources(mut self, registry: ResourceRegistry) -> Self {
        self.registries.push(registry);
        self
    }

    /// Shows the section only when `predicate` says so. A section that is not shown takes everything below it and
    /// its tools with it.
    ///
    /// ```
    /// use wink::prelude::*;
    /// use wink::prompt::{PromptTemplate, Section, SessionView};
    ///
    /// #[derive(Serialize, JsonSchema)]
    /// struct Mode { verbose: bool }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let template = PromptTemplate::builder("examples", "modes")
    ///     .section(Section::markdown("task", "Task").body("Do it."))
    ///     .section(
    ///         Section::markdown("detail", "Detail")
    ///             .body("Say why.")
    ///             .enabled_if(|mode: &Mode, _session: &SessionView<'_>| mode.verbose),
    ///     )
    ///     .build()?;
    /// let rendered = template.bind(Mode { verbose: false })?.render(&Session::new())?;
    /// assert_eq!(rendered.text(), "## 1. Task\n\nDo it.");
    /// # Ok(())
    /// # }
    /// ```
    pub fn enabled_if<P: PromptParams>(
        mut self,
        predicate: impl Fn(&P, &SessionView<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.enabled = Some(Predicate::OfParams(Arc::new(move |params, session| {
            params.downcast_ref().is_some_and(|params| predicate(params, session))
        })));
        self.params::<P>()
    }

    /// As [`Section::enabled_if`], for a predicate that asks only the session.
    pub fn enabled_when(
        mut self,
        predicate: impl Fn(&SessionView<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.enabled = Some(Predicate::OfSession(Arc::new(predicate)));
        self
    }

    /// How much of the section is shown, until the session says otherwise.
    pub fn visibility(mut self, visibility: Visibility) -> Self {
        self.visibility = visibility;
        self
    }

    /// What is shown while the section is closed: a template like the body.
    pub fn summary(mut self, template: impl Into<String>) -> Self {
        self.summary = Some(template.into());
        self
    }

    /// Shows what `text` finds in the session in place of the body; none, and the body is shown. The text is taken
    /// as it is: nothing in it is a placeholder.
    ///
    /// ```
    /// # use wink::prelude::*;
    /// # use wink::prompt::{PromptTemplate, Section};
    /// # #[derive(Serialize, Deserialize)] struct Note { text: String }
    /// # impl SliceType for Note { const NAME: &'static str = "note"; }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let section = Section::markdown("note", "Note")
    ///     .body("Nothing was noted yet.")
    ///     .body_from(|session| session.slice::<Note>().latest().map(|note| note.text.clone()));
    /// let prompt = PromptTemplate::builder("examples", "notes").section(section).build()?.prompt();
    /// let session = Session::new();
    /// assert_eq!(prompt.render(&session)?.text(), "## 1. Note\n\nNothing was noted yet.");
    /// assert!(session.dispatch(Note { text: "Buy milk: $2".into() }).is_ok());
    /// assert_eq!(prompt.render(&session)?.text(), "## 1. Note\n\nBuy milk: $2");
    /// # Ok(())
    /// # }
    /// ```
    pub fn body_from(
        mut self,
        text: impl Fn(&SessionView<'_>) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.body_from = Some(Arc::new(text));
        self
    }

    /// As [`Section::body_from`], for the summary. The section needs a [`summary`](Section::summary) as well.
    pub fn summary_from(
        mut self,
        text: impl Fn(&SessionView<'_>) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.summary_from = Some(Arc::new(text));
        self
    }

    /// Keeps body and summary from being replaced without touching code.
    pub fn without_overrides(mut self) -> Self {
        self.accepts_overrides = false;
        self
    }

    /// Leaves out the examples of the section's tools.
    pub fn without_examples(mut self) -> Self {
        self.shows_examples = false;
        self
    }

    /// Shows how a whole task is done, with tools of any section of the prompt.
    pub fn task_example(mut self, example: TaskExample) -> Self {
        self.task_examples.push(example);
        self
    }

    /// Says what is wrong with the section: for whoever makes sections, and could not make this one. Building a prompt
    /// with it fails with this reason.
    ///
    /// ```
    /// use wink::prompt::{PromptTemplate, Section};
    ///
    /// let section = Section::markdown("data", "Data").invalid("the table is empty; load it first");
    /// let error = PromptTemplate::builder("docs", "demo").section(section).build().unwrap_err();
    /// assert_eq!(error.to_string(), "section data: the table is empty; load it first");
    /// ```
    pub fn invalid(mut self, reason: impl Into<String>) -> Self {
        self.invalid = self.invalid.or_else(|| Some(reason.into()));
        self
    }

    /// Does something to a session before the prompt is used there, such as installing a slice. It may run more
    /// than once for one session, and must be a no-op then.
    ///
    /// ```
    /// # use wink::prelude::*;
    /// # use wink::prompt::Section;
    /// # use wink::session::{DeclarativeSlice, Reducers};
    /// # #[derive(Serialize, Deserialize)] struct Plan;
    /// # impl SliceType for Plan { const NAME: &'static str = "plan"; }
    /// # impl DeclarativeSlice for Plan { fn reducers(_: &mut Reducers<Self>) {} }
    /// let section = Section::tools("planning", "Planning").install(|session| session.install::<Plan>());
    /// # let _ = section;
    /// ```
    pub fn install(
        mut self,
        install: impl Fn(&Session) -> Result<(), SessionError> + Send + Sync + 'static,
    ) -> Self {
        self.installs.push(Arc::new(install));
        self
    }
}

impl std::fmt::Debug for Section {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Section").field("key", &self.key).field("title", &self.title).finish_non_exhaustive()
    }
}
