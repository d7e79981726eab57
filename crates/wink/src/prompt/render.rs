//! Rendering: which sections are there, how they are numbered, and what is shown of them.
//!
//! A walk over the tree decides once what is enabled and what is closed; text, tools and the answers of the
//! disclosure tools all come from that walk.

use std::collections::HashSet;
use std::sync::Arc;

use super::bind::Prompt;
use super::disclosure;
use super::error::PromptRenderError;
use super::params::BoundParams;
use super::placed::{PlacedSection, PlacedTool};
use super::rendered::{Hidden, RenderedPrompt};
use super::section::{Predicate, TextSource};
use super::text::Text;
use super::view::SessionView;
use super::visibility::{SectionVisibility, Visibility};
use crate::session::SliceView;
use crate::support::future::catch;
use crate::tool::AnyTool;

/// Renders one prompt for one session.
pub(crate) struct Renderer<'a> {
    prompt: &'a Prompt,
    session: &'a SessionView<'a>,
    said: SliceView<SectionVisibility>,
}

/// A section that is shown, in its place.
pub(crate) struct Shown<'a> {
    section: &'a PlacedSection,
    params: Option<&'a BoundParams>,
    /// `1.2.`
    number: String,
    depth: usize,
    visibility: Visibility,
}

/// What a walk found, in order.
#[derive(Default)]
struct Outline<'a> {
    shown: Vec<Shown<'a>>,
    tools: Vec<PlacedTool>,
    hidden: Vec<(Arc<str>, Hidden)>,
    closed: Vec<Arc<str>>,
}

/// A section that was looked for.
pub(crate) struct Located<'a> {
    shown: Shown<'a>,
    /// Itself and the sections above it, as far as they are closed; outermost first.
    pub(crate) closed: Vec<Arc<str>>,
}

impl Located<'_> {
    pub(crate) fn has_tools(&self) -> bool {
        self.shown.section.has_tools()
    }
}

impl<'a> Renderer<'a> {
    pub(crate) fn new(prompt: &'a Prompt, session: &'a SessionView<'a>) -> Self {
        Self { prompt, session, said: session.slice() }
    }

    pub(crate) fn render(&self) -> Result<RenderedPrompt, PromptRenderError> {
        let outline = self.outline()?;
        let callable: HashSet<&str> = match self.prompt.has_task_examples() {
            true => outline.tools.iter().map(|placed| &**placed.name()).collect(),
            false => HashSet::new(),
        };
        let text = self.text(&outline.shown, |tool| callable.contains(tool))?;
        let sections = outline.shown.iter().filter(|one| one.depth == 0).count();
        let rendered = RenderedPrompt::new(text, outline.tools, outline.hidden, outline.closed);
        let Some(output) = self.prompt.output() else { return Ok(rendered) };
        let between = if rendered.text().is_empty() { "" } else { "\n\n" };
        let told = format!("{between}## {}. Response format\n\n{}", sections + 1, output.instructions());
        Ok(rendered.with_output(output.clone(), &told))
    }

    pub(crate) fn tools(&self) -> Result<Vec<AnyTool>, PromptRenderError> {
        Ok(self.outline()?.tools.into_iter().map(|placed| placed.tool).collect())
    }

    /// The sections that are shown closed.
    pub(crate) fn closed(&self) -> Result<Vec<Arc<str>>, PromptRenderError> {
        Ok(self.outline()?.closed)
    }

    /// The section with this path, if it and everything above it is enabled.
    pub(crate) fn locate(&self, path: &str) -> Result<Option<Located<'a>>, PromptRenderError> {
        let found = self.locate_in(self.prompt.sections(), "", 0, path)?;
        self.check_looks()?;
        Ok(found)
    }

    /// The full text of a section; what is closed below it stays closed.
    pub(crate) fn section_text(&self, located: Located<'a>) -> Result<String, PromptRenderError> {
        let mut outline = Outline::default();
        let shown = Shown { visibility: Visibility::Full, ..located.shown };
        let (section, number, depth) = (shown.section, shown.number.clone(), shown.depth);
        outline.shown.push(shown);
        self.walk(section.children(), &number, depth + 1, &mut outline)?;
        self.check_looks()?;
        // Whoever reads a closed section wants to know what its tools are good for.
        self.text(&outline.shown, |_| true)
    }

    fn outline(&self) -> Result<Outline<'a>, PromptRenderError> {
        let mut outline = Outline::default();
        self.walk(self.prompt.sections(), "", 0, &mut outline)?;
        self.check_looks()?;
        let disclosure = self.prompt.disclosure();
        if outline.closed.is_empty() {
            let absent = |tool: &PlacedTool| (Arc::clone(tool.name()), Hidden::NothingClosed);
            outline.hidden.extend(disclosure.iter().map(absent));
        } else {
            outline.tools.extend(disclosure.iter().cloned());
        }
        Ok(outline)
    }

    fn walk(
        &self,
        siblings: impl Iterator<Item = &'a PlacedSection>,
        above: &str,
        depth: usize,
        outline: &mut Outline<'a>,
    ) -> Result<(), PromptRenderError> {
        let mut position = 0;
        for section in siblings {
            if !self.is_enabled(section)? {
                let why = Hidden::Disabled { section: Arc::clone(&section.path) };
                section.each_tool(&mut |tool| outline.hidden.push((Arc::clone(tool.name()), why.clone())));
                continue;
            }
            position += 1;
            let shown = self.show(section, format!("{above}{position}."), depth)?;
            match shown.visibility {
                Visibility::Full => {
                    outline.tools.extend(section.tools.iter().cloned());
                    let number = shown.number.clone();
                    outline.shown.push(shown);
                    self.walk(section.children(), &number, depth + 1, outline)?;
                }
                Visibility::Summary => {
                    let why = Hidden::Closed { section: Arc::clone(&section.path) };
                    section
                        .each_tool(&mut |tool| outline.hidden.push((Arc::clone(tool.name()), why.clone())));
                    outline.closed.push(Arc::clone(&section.path));
                    outline.shown.push(shown);
                }
            }
        }
        Ok(())
    }

    fn locate_in(
        &self,
        siblings: impl Iterator<Item = &'a PlacedSection>,
        above: &str,
        depth: usize,
        path: &str,
    ) -> Result<Option<Located<'a>>, PromptRenderError> {
        let mut position = 0;
        for section in siblings {
            if !self.is_enabled(section)? {
                continue;
            }
            position += 1;
            let Some(below) = path.strip_prefix(&*section.path) else { continue };
            if !below.is_empty() && !below.starts_with('.') {
                continue;
            }
            let number = format!("{above}{position}.");
            let own = (self.visibility(section) == Visibility::Summary).then(|| Arc::clone(&section.path));
            if below.is_empty() {
                let shown = self.show(section, number, depth)?;
                return Ok(Some(Located { shown, closed: own.into_iter().collect() }));
            }
            // Keys may have dots, so a path that begins like this one need not go on below it.
            if let Some(mut found) = self.locate_in(section.children(), &number, depth + 1, path)? {
                found.closed.splice(0..0, own);
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn show(
        &self,
        section: &'a PlacedSection,
        number: String,
        depth: usize,
    ) -> Result<Shown<'a>, PromptRenderError> {
        let params = self.params(section)?;
        Ok(Shown { section, params, number, depth, visibility: self.visibility(section) })
    }

    fn params(&self, section: &'a PlacedSection) -> Result<Option<&'a BoundParams>, PromptRenderError> {
        let Some(of) = &section.params else { return Ok(None) };
        match self.prompt.bound_params(of).or(section.defaults.as_ref()) {
            Some(bound) => Ok(Some(bound)),
            None => Err(PromptRenderError {
                section: section.path.to_string(),
                params: Some(of.name),
                reason: "no params of this type are bound; pass them to .bind(..)".to_owned(),
            }),
        }
    }

    fn is_enabled(&self, section: &'a PlacedSection) -> Result<bool, PromptRenderError> {
        let Some(predicate) = &section.enabled else { return Ok(true) };
        let says = match predicate {
            Predicate::OfSession(predicate) => catch(|| predicate(self.session)),
            Predicate::OfParams(predicate) => {
                let Some(params) = self.params(section)? else { return Ok(false) };
                catch(|| predicate(params.typed.as_ref(), self.session))
            }
        };
        says.map_err(|panic| {
            PromptRenderError::in_section(&section.path, format!("its enabled predicate panicked: {panic}"))
        })
    }

    /// What the session says, else what the section says. Without a summary there is nothing else to show.
    fn visibility(&self, section: &PlacedSection) -> Visibility {
        if section.summary.is_none() {
            return Visibility::Full;
        }
        self.said.get(&section.path).map_or(section.visibility, |said| said.visibility)
    }

    fn check_looks(&self) -> Result<(), PromptRenderError> {
        match self.session.refused() {
            None => Ok(()),
            Some(error) => Err(PromptRenderError::in_section("", error.to_string())),
        }
    }

    fn text(
        &self,
        shown: &[Shown<'_>],
        is_callable: impl Fn(&str) -> bool,
    ) -> Result<String, PromptRenderError> {
        let mut out = String::new();
        for one in shown {
            // Markdown knows six levels.
            let level = "#".repeat((one.depth + 2).min(6));
            block(&mut out, &format!("{level} {} {}", one.number, one.section.title));
            let section = one.section;
            match (one.visibility, &section.summary) {
                (Visibility::Summary, Some(summary)) => {
                    block(&mut out, &self.filled(one, summary, section.summary_from.as_deref())?);
                    block(&mut out, &disclosure::invitation(section));
                }
                (Visibility::Full | Visibility::Summary, _) => {
                    block(&mut out, &self.filled(one, &section.body, section.body_from.as_deref())?);
                    block(&mut out, section.examples.as_deref().unwrap_or_default());
                    let tasks = self.prompt.task_examples(&section.path);
                    for task in tasks.iter().filter(|task| task.tools.iter().all(|tool| is_callable(tool))) {
                        block(&mut out, &task.text);
                    }
                }
            }
        }
        self.check_looks()?;
        Ok(out)
    }

    /// What the session has to say, else the template with its params in place.
    fn filled(
        &self,
        one: &Shown<'_>,
        template: &Text,
        source: Option<&TextSource>,
    ) -> Result<String, PromptRenderError> {
        let Some(source) = source else { return Ok(template.fill(one.params.map(|params| &params.values))) };
        let said = catch(|| source(self.session)).map_err(|panic| {
            PromptRenderError::in_section(
                &one.section.path,
                format!("its text from the session panicked: {panic}"),
            )
        })?;
        Ok(said.unwrap_or_else(|| template.fill(one.params.map(|params| &params.values))))
    }
}

/// Adds a block after a blank line; nothing for a blank one.
fn block(out: &mut String, text: &str) {
    if text.trim().is_empty() {
        return;
    }
    if !out.is_empty() {
        out.push_str("\n\n");
    }
    out.push_str(text);
}
