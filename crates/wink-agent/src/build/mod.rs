//! From the file to a prompt: what a schema cannot say is checked here, and everything that is wrong is reported.
//!
//! Rules belong to the library. Each part is tried there by itself, so that one mistake does not hide another, and the whole
//! is built in the end.

mod answer;
mod guard;
mod limits;
mod model;
mod native;
mod order;
mod policy;
mod schema;
mod section;
mod suite;
mod tool;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use wink::prompt::{
    LocalOverrides, OPEN_SECTIONS, Prompt, PromptTemplate, PromptValidationError, READ_SECTION, Section,
};
use wink::suites::PlanChecker;
use wink::tool::AnyTool;
use wink_store::Workspace;

use crate::file::{At, File, Json, Named, SuiteName, ToolTable};
use crate::model::ModelConfig;
use crate::problem::{Problems, Span};
use crate::programs::Startable;
use crate::read::meant;

use answer::Done;

pub(crate) use limits::{Held, Shown};

/// What is made of a file.
pub(crate) struct Built {
    /// What the model is given; none if something is wrong.
    pub(crate) prompt: Option<Prompt>,
    /// What calls are held to.
    pub(crate) held: Held,
    /// The tag of the overrides that are in place, if the file says that.
    pub(crate) tag: Option<String>,
    /// Who answers.
    pub(crate) model: Option<ModelConfig>,
    /// Whether the prompt has to be built again for each workspace.
    pub(crate) binding: Binding,
    /// Whether the model is told what the workspace looks like.
    pub(crate) digest: Digest,
    /// What its commands would start.
    pub(crate) programs: Vec<Startable>,
}

/// Whether an agent has the suite `digest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Digest {
    Shown,
    Absent,
}

/// Whether an agent's prompt depends on the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binding {
    /// It is the same everywhere.
    Free,
    /// Something in it has to know the workspace: a command that probes outside of a call.
    PerWorkspace,
}

/// Whether a prompt has the tools of the program `claude` that its file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Natives {
    /// The program is to answer, and runs them.
    Given,
    /// Nobody could run them.
    LeftOut,
}

/// Builds the prompt of a file, for the workspace that it is opened in, if it is.
pub(crate) fn build(
    file: &File,
    workspace: Option<&Arc<Workspace>>,
    natives: Natives,
    problems: &mut Problems,
) -> Built {
    let guard = guard::guard(file.guard.as_ref(), problems);
    let held = limits::held(file.limits.as_ref(), guard, Shown::of(&file.section), problems);
    let sandbox = limits::sandbox(file.sandbox.as_ref(), problems);
    let model = model::model(file.model.as_ref(), problems);
    let mut build = Build {
        problems,
        workspace,
        held: &held,
        key_env: model.as_ref().and_then(|model| model.key_env.clone()),
        sandbox,
        binding: Binding::Free,
        tools: Vec::new(),
        names: HashMap::new(),
        suites: Vec::new(),
        places: HashMap::new(),
        programs: Vec::new(),
    };
    let made: Vec<_> = file.section.iter().map(|section| build.section(section, "")).collect();
    let native = build.native_tools(file.model.as_ref());
    // Policies speak of tools, wherever those are, and of those that are left out.
    let sections: Vec<_> = made.into_iter().map(|made| build.with_policies(made)).collect();
    let policies: Vec<_> = file.policy.iter().filter_map(|policy| build.policy(policy, "")).collect();
    order::check(file, build.problems);
    let (output, done) = (build.output(file), build.done(file));
    let (ns, key, name) = build.identity(file);
    let mut builder = PromptTemplate::builder(ns, key);
    if let Some(name) = name {
        builder = builder.name(name);
    }
    if done == Done::Planned {
        builder = builder.completion(PlanChecker);
    }
    let builder = sections.into_iter().fold(builder, |builder, section| builder.section(section));
    let builder = native
        .filter(|_| natives == Natives::Given)
        .into_iter()
        .fold(builder, |builder, section| builder.section(section));
    let builder = policies.into_iter().fold(builder, |builder, policy| builder.policy(policy));
    let (binding, programs) = (build.binding, std::mem::take(&mut build.programs));
    let digest = match build.suites.iter().any(|(suite, _)| *suite == SuiteName::Digest) {
        true => Digest::Shown,
        false => Digest::Absent,
    };
    let prompt = match (build.problems.count(), output) {
        (0, None) => build.whole(builder.build().map(|template| template.prompt())),
        (0, Some(output)) => build.whole(builder.output(output).build().map(|template| template.prompt())),
        _ => None,
    };
    let tag = file.agent.as_ref().and_then(|agent| agent.overrides.as_ref()).map(|tag| tag.value.clone());
    Built { prompt, held, tag, model, binding, digest, programs }
}

/// A file on its way to a prompt.
struct Build<'b> {
    problems: &'b mut Problems,
    workspace: Option<&'b Arc<Workspace>>,
    held: &'b Held,
    /// The variable that has the model's key.
    key_env: Option<String>,
    sandbox: suite::SandboxPlan,
    binding: Binding,
    /// Every tool, in order, also those that something is wrong with: whoever speaks of one means it.
    tools: Vec<KnownTool>,
    /// The names that tools have, and in which section.
    names: HashMap<String, String>,
    /// Which sections have which suites.
    suites: Vec<(SuiteName, String)>,
    /// Where sections are, by path.
    places: HashMap<String, Span>,
    /// What commands would start outside of a sandbox.
    programs: Vec<Startable>,
}

/// A tool that the agent has.
struct KnownTool {
    name: String,
    /// None if something is wrong with it.
    tool: Option<AnyTool>,
    /// The names of the parameters of one that something is wrong with; none if they could not be read.
    written: Option<Vec<String>>,
    /// The section that has it, by dotted path.
    section: String,
    span: Span,
}

impl KnownTool {
    /// The names of its parameters; none if they could not be read, or it takes whatever it is given.
    fn parameters(&self) -> Option<Vec<&str>> {
        match (&self.tool, &self.written) {
            (Some(tool), _) if takes_anything(tool.contract().schema()) => None,
            (Some(tool), _) => Some(names_of(tool.contract().schema()).collect()),
            (None, written) => Some(written.as_ref()?.iter().map(String::as_str).collect()),
        }
    }

    /// Whether a policy of this section covers it.
    fn is_below(&self, section: &str) -> bool {
        let rest = self.section.strip_prefix(section);
        section.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

impl Build<'_> {
    fn identity(&mut self, file: &File) -> (String, String, Option<String>) {
        let Some(agent) = &file.agent else { return ("agent".to_owned(), "agent".to_owned(), None) };
        let text = |part: &Option<At<String>>| part.as_ref().map(|part| part.value.clone());
        if let Some(ns) = &agent.ns
            && let Err(error) = PromptTemplate::builder(ns.value.clone(), "key").build()
        {
            let plain = ns.split('/').map(plain_key).collect::<Vec<_>>().join("/");
            let hint = format!("{KEYS}, and `/` between parts, such as {plain:?}");
            self.problems.hint(&ns.span, error.reason, hint);
        }
        if let Some(key) = &agent.key
            && let Err(error) = PromptTemplate::builder("ns", key.value.clone()).build()
        {
            self.problems.hint(&key.span, error.reason, key_hint(key));
        }
        if let Some(tag) = &agent.overrides
            && let Ok(template) = PromptTemplate::builder("ns", "key").build()
            && let Err(error) = LocalOverrides::new("").file(&template.prompt(), tag)
        {
            self.problems.hint(&tag.span, error.to_string(), key_hint(tag));
        }
        let (ns, key) = (text(&agent.ns), text(&agent.key));
        (ns.unwrap_or_default(), key.unwrap_or_default(), text(&agent.name))
    }

    /// The whole, or what the parts did not show.
    fn whole(&mut self, built: Result<Prompt, PromptValidationError>) -> Option<Prompt> {
        let error = match built {
            Ok(prompt) => return Some(prompt),
            Err(error) => error,
        };
        let tool = error.tool.as_ref().and_then(|name| self.tools.iter().find(|tool| *tool.name == **name));
        let span = tool.map(|tool| &tool.span).or_else(|| self.places.get(&error.section));
        let span = span.cloned().unwrap_or(0..0);
        let hint = "each part is right by itself: change this one, or what it does not go with";
        self.problems.hint(&span, error.to_string(), hint);
        None
    }

    /// Gives a name to a tool, if no other has it. One that something is wrong with has its name all the same.
    fn take_name(&mut self, name: &str, section: &str, span: &Span) -> bool {
        if let Some(other) = self.names.get(name) {
            let message = format!("there is a tool `{name}` already, in section `{other}`");
            self.problems.hint(span, message, "names are unique in an agent: choose another");
            return false;
        }
        self.names.insert(name.to_owned(), section.to_owned());
        true
    }

    /// Adds a tool to those that the agent has.
    fn know(&mut self, tool: AnyTool, section: &str, span: &Span) {
        let (name, tool) = (tool.name().to_string(), Some(tool));
        self.tools.push(KnownTool {
            name,
            tool,
            written: None,
            section: section.to_owned(),
            span: span.clone(),
        });
    }

    /// Adds one that something is wrong with, as far as it is known.
    fn know_of(&mut self, table: &ToolTable, section: &str, span: &Span) {
        let Some(name) = &table.name else { return };
        let parameters = table.params.as_ref().map(|params| params.json());
        let written = parameters.map(|schema| names_of(&schema).map(str::to_owned).collect());
        let (name, section) = (name.value.clone(), section.to_owned());
        self.tools.push(KnownTool { name, tool: None, written, section, span: span.clone() });
    }

    /// A tool by its name, which has to be there.
    fn find(&mut self, name: &At<String>) -> Option<usize> {
        let found = self.tools.iter().position(|tool| tool.name == name.value);
        // Two are there for every agent with closed sections.
        if found.is_none() && ![OPEN_SECTIONS, READ_SECTION].contains(&name.as_str()) {
            let message = format!("there is no tool `{}`", name.value);
            let names = self.tools.iter().map(|tool| tool.name.as_str());
            self.problems.hint(&name.span, message, meant(name, names, "tools"));
        }
        found
    }

    /// A tool by its name, which has to be covered by the policies of a section.
    fn find_covered(&mut self, name: &At<String>, section: &str) -> Option<usize> {
        if [OPEN_SECTIONS, READ_SECTION].contains(&name.as_str()) && !section.is_empty() {
            let message =
                format!("a policy of a section does not cover `{}`, which belongs to none", name.value);
            self.problems.hint(&name.span, message, "move it to the top, as [[policy]]");
        }
        let found = self.find(name)?;
        let tool = self.tools.get(found)?;
        if !tool.is_below(section) {
            let message = format!("a policy of this section does not cover `{}`", name.value);
            let hint = format!(
                "move it to section `{}`, which has the tool, or to the top, as [[policy]]",
                tool.section
            );
            self.problems.hint(&name.span, message, hint);
        }
        Some(found)
    }

    /// A parameter of a tool, which has to be there.
    fn find_parameter(&mut self, tool: usize, parameter: &At<String>) {
        let Some(tool) = self.tools.get(tool) else { return };
        // `list[].field` is the field of each object in a list.
        let name = parameter.split_once("[].").map_or(parameter.as_str(), |(list, _)| list);
        let Some(parameters) = tool.parameters() else { return };
        if parameters.contains(&name) {
            return;
        }
        let message = format!("`{}` has no parameter `{name}`", tool.name);
        let hint = meant(name, parameters.iter().copied(), "parameters");
        self.problems.hint(&parameter.span, message, hint);
    }
}

const KEYS: &str = "use small letters, digits, `.`, `_` and `-`";
const SCHEMA_HINT: &str =
    "it is a JSON Schema, such as { type = \"object\", properties = { name = { type = \"string\" } } }";
const DOLLAR_HINT: &str = "write $$ for a dollar sign, or ${name} for a value";

/// What a key can be, and what this one could be.
fn key_hint(written: &str) -> String {
    format!("{KEYS}, such as {:?}", plain_key(written))
}

/// A key like this text.
fn plain_key(written: &str) -> String {
    plain_name(written, |c| matches!(c, '.' | '_' | '-'), "main")
}

/// A name of small letters, digits and what else is kept, like this text; another, if nothing of it is left.
fn plain_name(written: &str, kept: impl Fn(char) -> bool, otherwise: &str) -> String {
    let small = |c: char| if c.is_ascii_alphanumeric() || kept(c) { c.to_ascii_lowercase() } else { '_' };
    let name: String = written.chars().map(small).take(64).collect();
    match name.trim_matches(|c: char| !c.is_ascii_alphanumeric()) {
        "" => otherwise.to_owned(),
        name => name.to_owned(),
    }
}

/// The names of the parameters that a schema describes.
fn names_of(schema: &Value) -> impl Iterator<Item = &str> + Clone {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(|properties| properties.keys().map(String::as_str))
}

/// Whether a schema describes no parameter, and forbids none.
fn takes_anything(schema: &Value) -> bool {
    let others = schema.get("additionalProperties");
    others == Some(&Value::Bool(true)) && names_of(schema).next().is_none()
}

/// A table of the user's as JSON.
fn entries(named: &Named<Json>) -> Map<String, Value> {
    named.iter().map(|(name, value)| (name.value.clone(), value.0.clone())).collect()
}

/// What is wrong with a section that has nothing but what is tried.
fn fault(section: Section) -> Option<String> {
    PromptTemplate::builder("ns", "key").section(section).build().err().map(|error| error.reason)
}
