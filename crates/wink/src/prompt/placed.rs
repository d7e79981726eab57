//! Sections and tools in their places: what a checked prompt consists of.

use std::fmt;
use std::sync::Arc;

use super::params::{BoundParams, ParamsType};
use super::section::{Predicate, SectionKind, TextSource};
use super::text::Text;
use super::visibility::Visibility;
use crate::policy::PlacedPolicy;
use crate::session::{LoggedAnswer, LoggedDecision};
use crate::support::future::catch;
use crate::tool::AnyTool;

/// A tool in its place.
#[derive(Debug, Clone)]
pub struct PlacedTool {
    /// The tool.
    pub tool: AnyTool,
    /// The section that has it, by dotted path; empty for the built-in tools.
    pub section: Arc<str>,
    /// The policies that cover it, in the order in which they are asked: outermost section first, the template's
    /// last.
    pub policies: Arc<[PlacedPolicy]>,
    /// Whether one of them wants to hear of successes.
    pub(crate) is_listened_to: bool,
    /// What the log says when all of them allow.
    pub(crate) allowed: Arc<[LoggedDecision]>,
}

impl PlacedTool {
    pub(crate) fn new(tool: AnyTool, section: Arc<str>, policies: Arc<[PlacedPolicy]>) -> Self {
        let allow = |placed: &PlacedPolicy| LoggedDecision {
            policy: Arc::clone(&placed.key),
            answer: LoggedAnswer::Allow,
        };
        // A policy that cannot say is told.
        let listens = |placed: &PlacedPolicy| catch(|| placed.policy.wants_results()).unwrap_or(true);
        let is_listened_to = policies.iter().any(listens);
        Self { tool, section, is_listened_to, allowed: policies.iter().map(allow).collect(), policies }
    }

    /// The tool's name.
    pub fn name(&self) -> &Arc<str> {
        self.tool.name()
    }
}

/// A section in its place, checked and unrendered.
#[derive(Clone)]
pub struct PlacedSection {
    pub(crate) path: Arc<str>,
    pub(crate) key: String,
    pub(crate) title: String,
    pub(crate) kind: SectionKind,
    pub(crate) body: Text,
    pub(crate) summary: Option<Text>,
    pub(crate) body_from: Option<Arc<TextSource>>,
    pub(crate) summary_from: Option<Arc<TextSource>>,
    pub(crate) params: Option<ParamsType>,
    pub(crate) defaults: Option<Arc<BoundParams>>,
    pub(crate) enabled: Option<Predicate>,
    pub(crate) visibility: Visibility,
    pub(crate) accepts_overrides: bool,
    pub(crate) shows_examples: bool,
    /// The examples of its tools, if it shows them.
    pub(crate) examples: Option<String>,
    pub(crate) tools: Vec<PlacedTool>,
    pub(crate) children: Vec<Arc<PlacedSection>>,
}

impl PlacedSection {
    /// Its dotted path: its own key after those of the sections above it.
    pub fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// Its key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Which kind it is.
    pub fn kind(&self) -> SectionKind {
        self.kind
    }

    /// Its body, with placeholders.
    pub fn body(&self) -> &str {
        self.body.source()
    }

    /// Its summary, with placeholders.
    pub fn summary(&self) -> Option<&str> {
        self.summary.as_ref().map(Text::source)
    }

    /// The name of its params type.
    pub fn params(&self) -> Option<&'static str> {
        self.params.as_ref().map(|params| params.name)
    }

    /// How much of it is shown, until a session says otherwise.
    pub fn visibility(&self) -> Visibility {
        self.visibility
    }

    /// Whether body and summary may be replaced without touching code.
    pub fn accepts_overrides(&self) -> bool {
        self.accepts_overrides
    }

    /// Its own tools, in order.
    pub fn tools(&self) -> &[PlacedTool] {
        &self.tools
    }

    /// The sections below it, in order.
    pub fn children(&self) -> impl Iterator<Item = &PlacedSection> {
        self.children.iter().map(Arc::as_ref)
    }

    /// Whether it or a section below it has a tool.
    pub(crate) fn has_tools(&self) -> bool {
        !self.tools.is_empty() || self.children().any(Self::has_tools)
    }

    /// Does something with every tool of it and below it, in order of declaration.
    pub(crate) fn each_tool<'a>(&'a self, visit: &mut impl FnMut(&'a PlacedTool)) {
        self.tools.iter().for_each(&mut *visit);
        self.children().for_each(|child| child.each_tool(visit));
    }
}

impl fmt::Debug for PlacedSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlacedSection")
            .field("path", &self.path)
            .field("title", &self.title)
            .field("visibility", &self.visibility)
            .field("tools", &self.tools)
            .field("children", &self.children)
            .finish_non_exhaustive()
    }
}
