//! Command tools.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::time::Duration;

use serde_json::{Map, Value, json};
use wink::filesystem::STATE;
use wink::ledger::{IdempotencyConfig, KeyStrategy, LedgerScope, WhenInDoubt, params_key};
use wink::tool::{Annotations, AnyTool, IntoTool, Isolation, Tool};

use super::limits::{count, time};
use super::{Binding, Build, entries, names_of, plain_name};
use crate::command::{CommandPlan, CommandTool, Confined, Passing, is_ours, variable};
use crate::file::{
    Arguments, At, DoubtName, ExampleTable, IdempotencyTable, IsolationName, OnFailure, Placed, ScopeName,
    StrategyName, TIME_HINT, ToolTable, Variables,
};
use crate::problem::Span;
use crate::programs::Startable;
use crate::read::meant;

/// Characters of each output of a command that are kept.
const OUTPUT: usize = 32_768;

const ZERO: &str = "there is a zero byte in it, which no program can be given";
const ZERO_HINT: &str = "take the \\u0000 out";

impl Build<'_> {
    /// The tool that a table describes; none if something is wrong with it.
    pub(super) fn tool(&mut self, table: &At<ToolTable>) -> Option<AnyTool> {
        let before = self.problems.count();
        if let Some(name) = &table.name
            && let Some(fault) = fault(Tool::<(), ()>::without_handler(name.value.clone(), "…"))
        {
            let plain = plain_name(name, |c| matches!(c, '_' | '-'), "run");
            let hint = format!("use 1 to 64 small letters, digits, `_` and `-`, such as {plain:?}");
            self.problems.hint(&name.span, fault, hint);
        }
        if let Some(description) = &table.description
            && let Some(fault) = fault(Tool::<(), ()>::without_handler("tool", description.value.clone()))
        {
            self.problems.hint(&description.span, fault, "say in one line what it does, for the model");
        }
        let written = table.params.as_ref().map(|params| params.json());
        let written = written.unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
        let plan = self.plan(table, &written);
        self.starts(table, &plan);
        let config = table.idempotency.as_ref().and_then(|config| self.idempotency(config, &plan, &written));
        let schema = self.schema(table.params.as_ref(), written)?;
        let mut tool = self.command(table, &plan, schema.clone());
        for field in &table.sensitive {
            let alone = self.command(table, &plan, schema.clone()).sensitive(field.value.clone());
            match fault(alone) {
                Some(fault) => {
                    let message = fault.split_once("; did you mean").map_or(&*fault, |(message, _)| message);
                    let hint = meant(field, names_of(&schema), "parameters");
                    self.problems.hint(&field.span, message, hint);
                }
                None => tool = tool.sensitive(field.value.clone()),
            }
        }
        if let (Some(idempotency), Some(config)) = (&table.idempotency, config) {
            let alone = self.command(table, &plan, schema.clone()).idempotency(config.clone());
            match fault(alone) {
                Some(fault) => {
                    let hint = "`{ strategy = \"auto\" }` makes the key of all parameters";
                    self.problems.hint(&idempotency.span, fault, hint);
                }
                None => tool = tool.idempotency(config),
            }
        }
        for example in &table.example {
            let (description, input, output) = example_of(example);
            let alone = self.command(table, &plan, schema.clone());
            match fault(alone.example(description.clone(), input.clone(), output.clone())) {
                Some(fault) => {
                    let hint = "its `input` is what `params` takes, and its `output` a text";
                    self.problems.hint(&example.span, fault, hint);
                }
                None => tool = tool.example(description, input, output),
            }
        }
        if self.problems.count() > before {
            return None;
        }
        let hint = "each part of it is right by itself: change one that is named";
        tool.into_tool().map_err(|error| self.problems.hint(&table.span, error.0, hint)).ok()
    }

    /// The tool without what is tried by itself.
    fn command(&self, table: &ToolTable, plan: &CommandPlan, schema: Value) -> Tool<Value, Value> {
        let text =
            |part: &Option<At<String>>| part.as_ref().map(|part| part.value.clone()).unwrap_or_default();
        #[cfg(target_os = "linux")]
        let handler = CommandTool::new(plan, &self.sandbox);
        #[cfg(not(target_os = "linux"))]
        let handler = CommandTool;
        let tool = Tool::dynamic(text(&table.name), text(&table.description), schema, handler)
            .timeout(plan.timeout)
            .isolation(isolation(table))
            .annotations(annotations(table, plan.confined));
        match &table.accepts_overrides {
            Some(accepts) if !accepts.value => tool.without_overrides(),
            Some(_) | None => tool,
        }
    }

    /// What there is to run. Without a command, which is told, the rest can be tried all the same.
    fn plan(&mut self, table: &ToolTable, schema: &Value) -> CommandPlan {
        let timeout = time(table.timeout.as_ref(), self.held.tool_timeout, self.problems);
        let passing = match table.arguments.as_ref().map(|arguments| arguments.value) {
            None | Some(Arguments::Both) => Passing::Both,
            Some(Arguments::Stdin) => Passing::Stdin,
        };
        if let (Passing::Both, Some(params)) = (passing, &table.params) {
            self.variables(params, schema);
        }
        let (env, passed) = self.environment(&table.env);
        let cwd = table.cwd.as_ref().map(|cwd| self.cwd(cwd)).unwrap_or_default();
        let words = table.command.as_ref().and_then(|command| self.words(command)).unwrap_or_default();
        let confined = table.sandbox.as_ref().is_some_and(|sandbox| sandbox.value);
        let confined = if confined { Confined::Yes } else { Confined::No };
        let output = count(table.output.as_ref(), OUTPUT);
        let (key_env, failure) = (self.key_env.clone(), on_failure(table, confined));
        CommandPlan { words, cwd, env, passed, key_env, passing, output, confined, timeout, failure }
    }

    /// Remembers what the tool would start. What there is in a sandbox is not known here.
    fn starts(&mut self, table: &ToolTable, plan: &CommandPlan) {
        let (Confined::No, Some(tool)) = (plan.confined, &table.name) else { return };
        let path = plan.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone());
        let probe = table.idempotency.as_ref().and_then(|table| table.probe.as_ref()?.first());
        let programs = plan.words.first().into_iter().chain(probe.map(|word| &word.value));
        self.programs.extend(programs.map(|program| Startable {
            tool: tool.value.clone(),
            program: program.clone(),
            path: path.clone(),
        }));
    }

    /// Parameters that would be one variable.
    fn variables(&mut self, params: &At<Placed>, schema: &Value) {
        let mut from: BTreeMap<String, &str> = BTreeMap::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        for name in properties.into_iter().flat_map(Map::keys) {
            let variable = variable(name);
            if let Some(other) = from.insert(variable.clone(), name) {
                let message = format!("parameters `{other}` and `{name}` would both be {variable}");
                let hint = "rename one of them, or say `arguments = \"stdin\"`";
                self.problems.hint(Self::parameter_place(params, name), message, hint);
            }
        }
    }

    /// The variables with a value, and the names of those that are passed on.
    fn environment(&mut self, env: &Variables) -> (Vec<(String, String)>, Vec<String>) {
        let (mut variables, mut passed) = (Vec::new(), Vec::new());
        match env {
            Variables::Values(values) => {
                for (name, value) in values.iter() {
                    if self.is_variable(name, &name.span) && self.has_no_zero(value, &value.span) {
                        variables.push((name.value.clone(), value.value.clone()));
                    }
                }
            }
            Variables::Names(names) => {
                for written in names {
                    let (name, value) = match written.split_once('=') {
                        Some((name, value)) => (name, Some(value)),
                        None => (written.as_str(), None),
                    };
                    if !self.is_variable(name, &written.span) {
                        continue;
                    }
                    match value {
                        None => passed.push(name.to_owned()),
                        Some(value) if self.has_no_zero(value, &written.span) => {
                            variables.push((name.to_owned(), value.to_owned()));
                        }
                        Some(_) => {}
                    }
                }
            }
        }
        (variables, passed)
    }

    fn is_variable(&mut self, name: &str, span: &Span) -> bool {
        let (message, hint) = if name.is_empty() || name.contains(['=', '\0']) {
            (format!("{name:?} is no name of a variable"), "use letters, digits and `_`, such as TARGET")
        } else if is_ours(name.as_bytes()) {
            (format!("`{name}` is set for each call"), "choose another name")
        } else {
            return true;
        };
        self.problems.hint(span, message, hint);
        false
    }

    fn has_no_zero(&mut self, value: &str, span: &Span) -> bool {
        let is_plain = !value.contains('\0');
        if !is_plain {
            self.problems.hint(span, ZERO, ZERO_HINT);
        }
        is_plain
    }

    /// A directory below the workspace, without anything in it that only stands for itself.
    fn cwd(&mut self, cwd: &At<String>) -> String {
        let inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(&cwd.value).components().all(inside) || cwd.contains('\0') {
            let message = format!("{:?} is not below the workspace", cwd.value);
            self.problems.hint(&cwd.span, message, "give a path from the workspace's root, without `..`");
        }
        let parts: Vec<&str> = cwd.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
        if parts.first() == Some(&STATE) {
            let message =
                format!("{:?} is where Wink keeps its own state, which commands never see", cwd.value);
            self.problems.hint(&cwd.span, message, "give another directory of the workspace");
        }
        parts.join("/")
    }

    fn words(&mut self, command: &At<Vec<At<String>>>) -> Option<Vec<String>> {
        let before = self.problems.count();
        for (at, word) in command.iter().enumerate() {
            if word.contains('\0') {
                self.problems.hint(&word.span, ZERO, ZERO_HINT);
            } else if at == 0 && word.trim().is_empty() {
                let hint = "name a program, as in [\"make\", \"test\"]";
                self.problems.hint(&word.span, "the name of the program is blank", hint);
            } else if at == 0
                && command.len() == 1
                && word.contains(char::is_whitespace)
                && !word.contains('/')
            {
                let message = format!("there is no shell to take {:?} apart", word.value);
                let hint = "write each word by itself, as in [\"make\", \"test\"], or run a shell: [\"sh\", \"-c\", \"…\"]";
                self.problems.hint(&word.span, message, hint);
            }
        }
        let fits = self.problems.count() == before && !command.is_empty();
        fits.then(|| command.iter().map(|word| word.value.clone()).collect())
    }

    fn idempotency(
        &mut self,
        table: &At<IdempotencyTable>,
        plan: &CommandPlan,
        schema: &Value,
    ) -> Option<IdempotencyConfig> {
        let before = self.problems.count();
        let strategy = self.strategy(table, schema);
        let ttl = self.ttl(table);
        let scope = self.scope(table);
        let probe = self.probe(table, plan);
        if self.problems.count() > before {
            return None;
        }
        let mut config = IdempotencyConfig::new(strategy?).scope(scope);
        if let Some(ttl) = ttl {
            config = config.ttl(ttl);
        }
        Some(match table.when_in_doubt.as_ref().map(|doubt| doubt.value) {
            None | Some(DoubtName::Fail) => config.when_in_doubt(WhenInDoubt::Fail),
            Some(DoubtName::RunAgain) => config.when_in_doubt(WhenInDoubt::RunAgain),
            Some(DoubtName::Ask) => config.when_in_doubt(WhenInDoubt::Ask),
            Some(DoubtName::Probe) => self.probed(config, &probe?),
        })
    }

    #[cfg(target_os = "linux")]
    fn probed(&mut self, config: IdempotencyConfig, probe: &CommandPlan) -> IdempotencyConfig {
        self.binding = Binding::PerWorkspace;
        crate::command::probed_by(config, probe, &self.sandbox, self.workspace)
    }

    /// Where no command can be run, nothing can be found out by one.
    #[cfg(not(target_os = "linux"))]
    fn probed(&mut self, config: IdempotencyConfig, _: &CommandPlan) -> IdempotencyConfig {
        let _ = (Binding::PerWorkspace, self.workspace);
        config.when_in_doubt(WhenInDoubt::Fail)
    }

    fn strategy(&mut self, table: &At<IdempotencyTable>, schema: &Value) -> Option<KeyStrategy> {
        let strategy = table.strategy.as_ref()?;
        let known = || names_of(schema);
        let mut unneeded = |given: Option<&crate::problem::Span>, what: &str, of: &str| {
            if let Some(span) = given {
                let hint = format!("say `strategy = \"{of}\"`, or remove it");
                self.problems.hint(span, format!("`{what}` is for the strategy `{of}`"), hint);
            }
        };
        if strategy.value != StrategyName::Params {
            unneeded(table.fields.as_ref().map(|fields| &fields.span), "fields", "params");
        }
        if strategy.value != StrategyName::Custom {
            unneeded(table.key.as_ref().map(|key| &key.span), "key", "custom");
        }
        match strategy.value {
            StrategyName::Auto => Some(KeyStrategy::Auto),
            StrategyName::None => Some(KeyStrategy::None),
            StrategyName::Params => {
                let Some(fields) = &table.fields else {
                    let hint = "say which parameters count: `fields = [\"…\"]`";
                    self.problems.hint(&strategy.span, "the strategy `params` needs `fields`", hint);
                    return None;
                };
                for field in fields.iter().filter(|field| !known().any(|name| name == field.value)) {
                    let message = format!("the tool has no parameter `{}`", field.value);
                    self.problems.hint(&field.span, message, meant(field, known(), "parameters"));
                }
                Some(KeyStrategy::Params(fields.iter().map(|field| field.value.clone()).collect()))
            }
            StrategyName::Custom => {
                let Some(key) = &table.key else {
                    let hint = "say how the key is made: `key = \"deploy-${environment}\"`";
                    self.problems.hint(&strategy.span, "the strategy `custom` needs `key`", hint);
                    return None;
                };
                let text = self.compiled(key);
                for name in text.placeholders().filter(|name| !known().any(|known| known == *name)) {
                    let message = format!("the tool has no parameter `{name}`");
                    self.problems.hint(&key.span, message, meant(name, known(), "parameters"));
                }
                let fields: Vec<String> = text.placeholders().map(str::to_owned).collect();
                Some(KeyStrategy::Custom(std::sync::Arc::new(move |arguments| {
                    let name = text.fill(arguments.as_object());
                    // The text is for people: "1-2" and "3" read like "1" and "2-3" in it.
                    Ok(if fields.is_empty() {
                        name
                    } else {
                        format!("{name}:{}", params_key(arguments, &fields))
                    })
                })))
            }
        }
    }

    fn ttl(&mut self, table: &IdempotencyTable) -> Option<Option<Duration>> {
        let ttl = table.ttl.as_ref()?;
        let duration = ttl.duration();
        if duration.is_none() {
            let message = format!("{:?} is no stretch of time", ttl.0);
            self.problems.hint(&ttl.span, message, format!("{TIME_HINT}; or \"forever\""));
        }
        duration
    }

    fn scope(&mut self, table: &At<IdempotencyTable>) -> LedgerScope {
        let scope = table.scope.as_ref().map_or(ScopeName::Session, |scope| scope.value);
        match (scope, &table.scope_name) {
            (ScopeName::Session, None) => LedgerScope::Session,
            (ScopeName::Global, None) => LedgerScope::Global,
            (ScopeName::Named, Some(name)) => LedgerScope::Named(name.value.clone()),
            (ScopeName::Named, None) => {
                let span = table.scope.as_ref().map_or(&table.span, |scope| &scope.span);
                self.problems.hint(span, "the scope has no name", "say which: `scope_name = \"…\"`");
                LedgerScope::Session
            }
            (ScopeName::Session | ScopeName::Global, Some(name)) => {
                self.problems.hint(
                    &name.span,
                    "`scope_name` is for the scope `named`",
                    "say `scope = \"named\"`",
                );
                LedgerScope::Session
            }
        }
    }

    /// The command that finds out whether an effect happened. It is like that of the tool, but for its words.
    fn probe(&mut self, table: &At<IdempotencyTable>, plan: &CommandPlan) -> Option<CommandPlan> {
        let doubt = table.when_in_doubt.as_ref().map(|doubt| doubt.value);
        match (doubt, &table.probe) {
            (Some(DoubtName::Probe), Some(probe)) => {
                let words = self.words(probe)?;
                Some(CommandPlan { words, ..plan.clone() })
            }
            (Some(DoubtName::Probe), None) => {
                let span = table.when_in_doubt.as_ref().map_or(&table.span, |doubt| &doubt.span);
                let hint = "say which command finds out: `probe = [\"…\"]`";
                self.problems.hint(span, "there is no command to probe with", hint);
                None
            }
            (_, Some(probe)) => {
                let hint = "say `when_in_doubt = \"probe\"`, or remove it";
                self.problems.hint(&probe.span, "this probe is never asked", hint);
                None
            }
            (_, None) => None,
        }
    }
}

/// What a failure says of the effect outside. An exit code is no word about it from a command that reaches outside; without a
/// key, nothing is made of it.
fn on_failure(table: &ToolTable, confined: Confined) -> OnFailure {
    let strategy = table.idempotency.as_ref().and_then(|idempotency| idempotency.strategy.as_ref());
    let has_key = strategy.is_some_and(|strategy| strategy.value != StrategyName::None);
    match &table.on_failure {
        Some(said) => said.value,
        None if has_key && annotations(table, confined).open_world => OnFailure::InDoubt,
        None => OnFailure::NoEffect,
    }
}

fn isolation(table: &ToolTable) -> Isolation {
    match table.isolation.as_ref().map(|isolation| isolation.value) {
        None | Some(IsolationName::FirstCommitter) => Isolation::FirstCommitter,
        Some(IsolationName::Serial) => Isolation::Serial,
    }
}

fn annotations(table: &ToolTable, confined: Confined) -> Annotations {
    // A sandbox has no network, and nothing but the workspace to write to.
    let usual = Annotations { open_world: confined == Confined::No, ..Annotations::default() };
    let Some(said) = &table.annotations else { return usual };
    let or = |said: &Option<At<bool>>, usual: bool| said.as_ref().map_or(usual, |said| said.value);
    let read_only = or(&said.read_only, usual.read_only);
    Annotations {
        read_only,
        // What only looks destroys nothing, unless it is said to.
        destructive: or(&said.destructive, usual.destructive && !read_only),
        idempotent: or(&said.idempotent, usual.idempotent || read_only),
        open_world: or(&said.open_world, usual.open_world),
    }
}

/// An example with all that it has to have. What was not there, or could not be read, is told elsewhere.
fn example_of(example: &ExampleTable) -> (String, Value, Value) {
    let text = |part: &Option<At<String>>| part.as_ref().map(|part| part.value.clone());
    let description = text(&example.description).unwrap_or_else(|| "…".to_owned());
    let input = example.input.as_ref().map(|input| entries(input)).unwrap_or_default();
    (description, Value::Object(input), Value::String(text(&example.output).unwrap_or_default()))
}

/// What is wrong with a tool that has nothing but what is tried.
fn fault(tool: impl IntoTool) -> Option<String> {
    let name = format!("tool {}: ", tool.declared_name());
    let error = tool.into_tool().err()?.0;
    Some(error.strip_prefix(&name).map(str::to_owned).unwrap_or(error))
}
