//! Sections.

use serde_json::Value;
use wink::prompt::{Section, Text, Visibility};
use wink::tool::{AnyTool, IntoTool, Tool};

use super::{Build, DOLLAR_HINT, fault, key_hint};
use crate::file::{At, SectionTable, VisibilityName};
use crate::problem::Span;
use crate::read::did_you_mean;

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
        let mut tools: Vec<AnyTool> = Vec::new();
        for tool in &table.tool {
            let span = tool.name.as_ref().map_or(&tool.span, |name| &name.span);
            let is_taken = tool.name.as_ref().is_some_and(|name| !self.take_name(name, &path, span));
            match self.tool(tool) {
                // It is the other that is meant.
                _ if is_taken => {}
                Some(made) if self.is_placeable(&made, span) => {
                    self.know(made.clone(), &path, span);
                    tools.push(made);
                }
                // Whoever speaks of it means it, whatever is wrong with it.
                Some(_) => self.know_of(tool, &path, span),
                None => {
                    // What is wrong with it says nothing of its name.
                    let named = tool
                        .name
                        .as_ref()
                        .map(|name| Tool::<(), ()>::without_handler(name.value.clone(), "…"));
                    if let Some(Ok(named)) = named.map(IntoTool::into_tool) {
                        self.is_placeable(&named, span);
                    }
                    self.know_of(tool, &path, span);
                }
            }
        }
        let children = table.section.iter().map(|child| self.section(child, &path)).collect();
        Made { table: &table.value, path, suites, tools, children }
    }

    /// The section with the policies of it and of those below it.
    pub(super) fn with_policies(&mut self, made: Made<'_>) -> Section {
        let Made { table, path, suites, tools, children } = made;
        let text =
            |part: &Option<At<String>>| part.as_ref().map(|part| part.value.clone()).unwrap_or_default();
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
        section = self.tasks(table).into_iter().fold(section, Section::task_example);
        for policy in &table.policy {
            if let Some(policy) = self.policy(policy, &path) {
                section = section.policy(policy);
            }
        }
        let section = suites.into_iter().fold(section, Section::child);
        children.into_iter().fold(section, |section, child| section.child(self.with_policies(child)))
    }

    /// Whether a section can have this tool.
    fn is_placeable(&mut self, tool: &AnyTool, span: &Span) -> bool {
        let Some(reason) = fault(Section::markdown("key", "Title").with_tools([tool.clone()])) else {
            return true;
        };
        let (message, hint) = reason.split_once("; ").unwrap_or((&reason, "change it, or take it out"));
        self.problems.hint(span, message, hint);
        false
    }

    /// The path of a section; its own key after those above it.
    fn place(&mut self, table: &At<SectionTable>, above: &str) -> String {
        let Some(key) = &table.key else { return above.to_owned() };
        if let Some(reason) = fault(Section::markdown(key.value.clone(), "Title")) {
            self.problems.hint(&key.span, reason, key_hint(key));
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
        if let Some(title) = &table.title
            && let Some(reason) = fault(Section::markdown("key", title.value.clone()))
        {
            self.problems.hint(&title.span, reason, "say what it is about: `title = \"Deployment\"`");
        }
        for template in table.body.iter().chain(&table.summary) {
            self.template(template, table);
        }
        if let Some(visibility) = &table.visibility
            && visibility.value == VisibilityName::Summary
            && table.summary.is_none()
        {
            let hint = "say what is shown while it is closed: `summary = \"…\"`";
            self.problems.hint(&visibility.span, "the section is shown as a summary and has none", hint);
        }
    }

    /// A text taken apart, whatever is wrong with it.
    pub(super) fn compiled(&mut self, template: &At<String>) -> Text {
        let (text, strays) = Text::compile_all(template);
        for stray in strays {
            self.problems.hint(&template.span, format!("stray $ at {:?}", stray.near), DOLLAR_HINT);
        }
        text
    }

    /// Every placeholder stands for a param.
    fn template(&mut self, template: &At<String>, table: &SectionTable) {
        let text = self.compiled(template);
        let params = || table.params.iter().flat_map(|params| params.iter()).map(|(name, _)| name.as_str());
        for name in text.placeholders().filter(|name| !params().any(|param| param == *name)) {
            let hint = did_you_mean(name, Vec::from_iter(params()).into_iter());
            let hint =
                hint.unwrap_or_else(|| format!("say what it stands for: `params = {{ {name} = \"…\" }}`"));
            self.problems.hint(&template.span, format!("there is no param `{name}`"), hint);
        }
    }
}

/// What the placeholders of a section stand for.
fn values(table: &SectionTable) -> impl Iterator<Item = (String, Value)> {
    let given = table.params.iter().flat_map(|params| params.iter());
    given.map(|(name, value)| (name.value.clone(), value.0.clone()))
}
