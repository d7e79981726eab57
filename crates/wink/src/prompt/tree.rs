//! From sections as they are written to a checked tree. The one place where a section is checked, whether it comes
//! with its template or is bound later.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::disclosure::is_reserved;
use super::error::PromptValidationError;
use super::examples;
use super::params::ParamsType;
use super::placed::{PlacedSection, PlacedTool};
use super::section::{Install, Section};
use super::task::{PlacedTask, TaskExample};
use super::text::Text;
use super::visibility::Visibility;
use crate::policy::{PlacedPolicy, ToolPolicy};
use crate::resource::{AnyBinding, MergeMode, ResourceRegistry};

/// A checked section tree, and what was collected on the way, all of it in order of declaration.
#[derive(Clone, Default)]
pub(crate) struct Tree {
    pub(crate) roots: Vec<Arc<PlacedSection>>,
    pub(crate) tools: Vec<PlacedTool>,
    pub(crate) params: Vec<ParamsType>,
    pub(crate) resources: Vec<ResourceRegistry>,
    pub(crate) installs: Vec<Arc<Install>>,
    /// The template's own policies; they cover every tool.
    pub(crate) policies: Vec<PlacedPolicy>,
    /// How tasks are done, by the section that shows it.
    pub(crate) tasks: HashMap<Arc<str>, Vec<PlacedTask>>,
    /// Examples that were not checked yet: they may speak of tools of sections that are still to come.
    unchecked: Vec<(Arc<str>, TaskExample)>,
    paths: HashSet<Arc<str>>,
    /// Which section has a tool.
    homes: HashMap<Arc<str>, Arc<str>>,
}

impl Tree {
    pub(crate) fn new(policies: &[Arc<dyn ToolPolicy>]) -> Self {
        Self { policies: place_policies("", policies), ..Self::default() }
    }

    /// Adds a section at the end of the top level.
    pub(crate) fn add(&mut self, section: Section) -> Result<(), PromptValidationError> {
        let placed = self.place(section, "", &[])?;
        self.roots.push(placed);
        Ok(())
    }

    /// Checks what needs to know all tools, once all sections are there.
    pub(crate) fn finish(&mut self) -> Result<(), PromptValidationError> {
        for (path, example) in std::mem::take(&mut self.unchecked) {
            let placed = example.place(&path, &self.tools)?;
            self.tasks.entry(path).or_default().push(placed);
        }
        Ok(())
    }

    fn place(
        &mut self,
        section: Section,
        above: &str,
        outer: &[PlacedPolicy],
    ) -> Result<Arc<PlacedSection>, PromptValidationError> {
        let path: Arc<str> = if above.is_empty() {
            section.key.as_str().into()
        } else {
            format!("{above}.{}", section.key).into()
        };
        let fault = |reason: String| PromptValidationError::in_section(&path, reason);

        check_key("section key", &section.key).map_err(fault)?;
        check_title(&section.title).map_err(fault)?;
        if !self.paths.insert(Arc::clone(&path)) {
            return Err(fault(
                "another section has this path already; give siblings different keys, and keep dots in keys \
                 from spelling the path of a section below another"
                    .to_owned(),
            ));
        }
        if let Some(reason) = section.invalid {
            return Err(fault(reason));
        }
        let params = one_params_type(&section.params).map_err(fault)?;
        let defaults = section.defaults.transpose().map_err(fault)?;
        let body = compile("body", &section.body, params.as_ref(), &path)?;
        let summary = section
            .summary
            .map(|summary| compile("summary", &summary, params.as_ref(), &path))
            .transpose()?;
        if section.visibility == Visibility::Summary && summary.is_none() {
            return Err(fault("it is shown as a summary and has none; say .summary(\"…\")".to_owned()));
        }
        if section.summary_from.is_some() && summary.is_none() {
            let reason = "its summary comes from the session, and there is none to show before that; say .summary(\"…\")";
            return Err(fault(reason.to_owned()));
        }
        self.params.extend(params.clone());
        let resources = one_registry(section.bindings, &section.registries).map_err(fault)?;
        self.resources.push(resources);
        self.installs.extend(section.installs);
        self.unchecked.extend(section.task_examples.into_iter().map(|example| (Arc::clone(&path), example)));

        let mut covering = outer.to_vec();
        covering.extend(place_policies(&path, &section.policies));
        let policies: Arc<[PlacedPolicy]> = covering.iter().chain(&self.policies).cloned().collect();
        let mut tools = Vec::with_capacity(section.tools.len());
        for (name, tool) in section.tools {
            let of_tool = |reason: &str| fault(reason.to_owned()).of_tool(&name);
            let tool = tool.map_err(|error| {
                let prefix = format!("tool {name}: ");
                of_tool(error.0.strip_prefix(&prefix).unwrap_or(&error.0))
            })?;
            if is_reserved(&name) {
                return Err(of_tool("the name belongs to a built-in tool; choose another"));
            }
            if let Some(home) = self.homes.insert(Arc::clone(tool.name()), Arc::clone(&path)) {
                return Err(of_tool(&format!(
                    "section {home} has a tool of this name already; names are unique in a prompt"
                )));
            }
            tools.push(PlacedTool::new(tool, Arc::clone(&path), Arc::clone(&policies)));
        }
        self.tools.extend(tools.iter().cloned());

        let mut children = Vec::with_capacity(section.children.len());
        for child in section.children {
            children.push(self.place(child, &path, &covering)?);
        }
        let examples = if section.shows_examples { examples::text(&tools) } else { None };
        Ok(Arc::new(PlacedSection {
            path,
            key: section.key,
            title: section.title,
            kind: section.kind,
            body,
            summary,
            body_from: section.body_from,
            summary_from: section.summary_from,
            params,
            defaults,
            enabled: section.enabled,
            visibility: section.visibility,
            accepts_overrides: section.accepts_overrides,
            shows_examples: section.shows_examples,
            examples,
            tools,
            children,
        }))
    }
}

/// Keys of sections and prompts: `^[a-z0-9][a-z0-9._-]{0,63}$`.
pub(crate) fn check_key(what: &str, key: &str) -> Result<(), String> {
    let start = |c: char| matches!(c, 'a'..='z' | '0'..='9');
    let fits = |c: char| start(c) || matches!(c, '.' | '_' | '-');
    if key.len() <= 64 && key.starts_with(start) && key.chars().all(fits) {
        return Ok(());
    }
    Err(format!("{what} {key:?} must match ^[a-z0-9][a-z0-9._-]{{0,63}}$"))
}

fn check_title(title: &str) -> Result<(), String> {
    if title.trim().is_empty() || title.chars().any(char::is_control) {
        return Err(format!("its title {title:?} must be one line of text"));
    }
    Ok(())
}

/// Params, defaults and predicate must speak of one type.
fn one_params_type(named: &[ParamsType]) -> Result<Option<ParamsType>, String> {
    let Some(first) = named.first() else { return Ok(None) };
    match named.iter().find(|other| other.id != first.id) {
        None => Ok(Some(first.clone())),
        Some(other) => Err(format!("it names two params types, {} and {}", first.name, other.name)),
    }
}

/// Takes a template of a section apart and holds its placeholders to the section's params.
pub(super) fn compile(
    what: &str,
    template: &str,
    params: Option<&ParamsType>,
    section: &str,
) -> Result<Text, PromptValidationError> {
    let fault = |reason: String| PromptValidationError::in_section(section, reason);
    let text = Text::compile(template).map_err(|stray| {
        fault(format!("stray $ in its {what}, at {:?}; write $$ for a dollar sign", stray.near))
    })?;
    let Some(first) = text.placeholders().next() else { return Ok(text) };
    let Some(params) = params else {
        return Err(fault(format!(
            "placeholder ${{{first}}} in its {what}, but it has no params; say .params::<P>(), or write $$ for a \
             dollar sign"
        )));
    };
    let fields = params.fields();
    let Some(unknown) = text.placeholders().find(|name| !fields.contains(*name)) else { return Ok(text) };
    let known = if fields.is_empty() {
        "it has none".to_owned()
    } else {
        format!("its fields are {}", Vec::from_iter(fields.iter().map(String::as_str)).join(", "))
    };
    let reason = format!("placeholder ${{{unknown}}} in its {what} is no field of the params; {known}");
    Err(fault(reason).of_params(params.name))
}

pub(crate) fn one_registry(
    bindings: Vec<AnyBinding>,
    registries: &[ResourceRegistry],
) -> Result<ResourceRegistry, String> {
    let mut whole = ResourceRegistry::of(bindings).map_err(|error| error.to_string())?;
    for registry in registries {
        whole = whole.merge(registry, MergeMode::Strict).map_err(|error| error.to_string())?;
    }
    Ok(whole)
}

/// Gives policies their keys. The position counts policies of one kind, so adding one of another kind leaves the
/// state of the others where it is.
fn place_policies(path: &str, policies: &[Arc<dyn ToolPolicy>]) -> Vec<PlacedPolicy> {
    let mut seen: HashMap<&'static str, usize> = HashMap::new();
    let place = |policy: &Arc<dyn ToolPolicy>| {
        let kind = policy.kind();
        let position = seen.entry(kind).or_default();
        let key = format!("{path}/{kind}/{position}").into();
        *position += 1;
        PlacedPolicy { key, policy: Arc::clone(policy) }
    };
    policies.iter().map(place).collect()
}
