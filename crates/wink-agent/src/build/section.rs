//! Sections.

use serde_json::Value;
use wink::prompt::{Section, Visibility};
use wink::tool::AnyTool;

use super::{Build, fault};
use crate::file::{At, SectionTable, VisibilityName};
use crate::problem::Span;

/// A section without its policies, which wait until every tool is known.
pub(super) struct Made<'f> {
    table: &'f SectionTable,
    path: String,
    suites: Vec<Section>,
    tools: Vec<AnyTool>,
    children: Vec<Made<'f>>,
}

impl Build<'_> {
    /// A section with its tools and what is below it.
    pub(super) fn section<'f>(&mut self, table: &'f At<SectionTable>, above: &str) -> Made<'f> {
        let path = self.place(table, above);
        self.texts(table);
        let suites: Vec<Section> =
            table.suites.iter().filter_map(|suite| self.suite(suite, table, &path)).collect();
        self.settings(table);
        let tools: Vec<AnyTool> = table.tool.iter().filter_map(|tool| self.tool(tool)).collect();
        for tool in &tools {
            let written = table.tool.iter().find(|table| {
                table.name.as_ref().is_some_and(|name| *name.value == **tool.name())
            });
            let name = written.and_then(|table| table.name.as_ref());
            let span = name.map_or_else(|| table.span.clone(), |name| name.span.clone());
            self.know(tool.clone(), &path, &span);
        }
        let children = table.section.iter().map(|child| self.section(child, &path)).collect();
        Made { table: &table.value, path, suites, tools, children }
    }

    /// The section with the policies of it and of those below it.
    pub(super) fn with_policies(&mut self, made: Made<'_>) -> Section {
        let Made { table, path, suites, tools, children } = made;
        let text = |part: &Option<At<String>>| part.as_ref().map(|part| part.value.clone()).unwrap_or_default();
        let mut section = Section::markdown(text(&table.key), text(&table.title)).body(text(&table.body));
        section = section.values(values(table)).with_tools(tools);
        if let Some(summary) = &table.summary {
            section = section.summary(summary.value.clone());
        }
        if table.visibility.as_ref().is_some_and(|shown| shown.value == VisibilityName::Summary) {
            section = section.visibility(Visibility::Summary);
        }
        if table.examples.as_ref().is_some_and(|examples| !examples.value) {
            section = section.without_examples();
        }
        for policy in &table.policy {
            if let Some(policy) = self.policy(policy, &path) {
                section = section.policy(policy);
            }
        }
        let section = suites.into_iter().fold(section, Section::child);
        children.into_iter().fold(section, |section, child| section.child(self.with_policies(child)))
    }

    /// The path of a section; its own key after those above it.
    fn place(&mut self, table: &At<SectionTable>, above: &str) -> String {
        let Some(key) = &table.key else { return above.to_owned() };
        if let Some(reason) = fault(Section::markdown(key.value.clone(), "Title")) {
            self.problems.add(&key.span, reason);
        }
        let path = if above.is_empty() { key.value.clone() } else { format!("{above}.{}", key.value) };
        self.take_path(&path, &key.span);
        path
    }

    /// Gives a path to a section, if no other has it.
    pub(super) fn take_path(&mut self, path: &str, span: &Span) {
        if self.places.contains_key(path) {
            let message = format!("there is a section with the path `{path}` already");
            self.problems.hint(span, message, "give siblings different keys");
            return;
        }
        self.places.insert(path.to_owned(), span.clone());
    }

    fn texts(&mut self, table: &SectionTable) {
        let bare = || Section::markdown("key", "Title").values(values(table));
        if let Some(title) = &table.title
            && let Some(reason) = fault(Section::markdown("key", title.value.clone()))
        {
            self.problems.add(&title.span, reason);
        }
        if let Some(body) = &table.body
            && let Some(reason) = fault(bare().body(body.value.clone()))
        {
            self.problems.add(&body.span, reason);
        }
        if let Some(summary) = &table.summary
            && let Some(reason) = fault(bare().summary(summary.value.clone()))
        {
            self.problems.add(&summary.span, reason);
        }
        if let Some(visibility) = &table.visibility
            && visibility.value == VisibilityName::Summary
            && table.summary.is_none()
        {
            let hint = "say what is shown while it is closed: `summary = \"…\"`";
            self.problems.hint(&visibility.span, "the section is shown as a summary and has none", hint);
        }
    }
}

/// What the placeholders of a section stand for.
fn values(table: &SectionTable) -> impl Iterator<Item = (String, Value)> {
    let given = table.params.iter().flat_map(|params| params.iter());
    given.map(|(name, value)| (name.value.clone(), value.0.clone()))
}
