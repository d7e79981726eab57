//! Policies.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use wink::policy::{
    AllOf, AnyOf, ApprovalPolicy, Not, PathPolicy, QuotaPolicy, RateLimitPolicy, ReadBeforeWritePolicy,
    SequentialDependencyPolicy, ToolPolicy,
};
use wink::tool::Params;

use super::limits::duration;
use super::{Build, KnownTool};
use crate::file::{
    ApprovalTable, At, Named, NotTable, PathsTable, PolicyTable, QuotaTable, RateLimitTable, RateScope,
    ReadBeforeWriteTable,
};
use crate::read::meant;

type Policy = Arc<dyn ToolPolicy>;

impl Build<'_> {
    /// The policy that a table describes, for the section with this path; none if something is wrong with it.
    pub(super) fn policy(&mut self, table: &At<PolicyTable>, section: &str) -> Option<Policy> {
        // The schema says that there is one. Whoever has more was told so.
        let PolicyTable {
            sequential,
            read_before_write,
            quota,
            rate_limit,
            paths,
            approval,
            all_of,
            any_of,
            not,
        } = &table.value;
        if let Some(sequential) = sequential {
            return Some(self.sequential(sequential, section));
        }
        if let Some(table) = read_before_write {
            return Some(self.read_before_write(table, section));
        }
        if let Some(table) = quota {
            return Some(self.quota(table, section));
        }
        if let Some(table) = rate_limit {
            return self.rate_limit(table, section);
        }
        if let Some(table) = paths {
            return self.paths(table, section);
        }
        if let Some(table) = approval {
            return Some(self.approval(table, section));
        }
        if let Some(parts) = all_of {
            let parts = self.parts(parts, section);
            return Some(Arc::new(parts.into_iter().fold(AllOf::new(), AllOf::and)));
        }
        if let Some(parts) = any_of {
            let parts = self.parts(parts, section);
            return Some(Arc::new(parts.into_iter().fold(AnyOf::new(), AnyOf::or)));
        }
        not.as_ref().and_then(|table| self.opposite(table, section))
    }

    fn parts(&mut self, parts: &At<Vec<At<PolicyTable>>>, section: &str) -> Vec<Policy> {
        if parts.is_empty() {
            let hint = "put policies into it, as in [{ quota = { session = 10 } }]";
            self.problems.hint(&parts.span, "there is no policy in it", hint);
        }
        parts.iter().filter_map(|part| self.policy(part, section)).collect()
    }

    fn opposite(&mut self, table: &NotTable, section: &str) -> Option<Policy> {
        let policy = self.policy(table.policy.as_ref()?, section)?;
        let not = Not::new(policy);
        Some(match &table.because {
            Some(reason) => Arc::new(not.because(reason.value.clone())),
            None => Arc::new(not),
        })
    }

    fn sequential(&mut self, order: &Named<At<Vec<At<String>>>>, section: &str) -> Policy {
        let mut policy = SequentialDependencyPolicy::new();
        for (tool, first) in order.iter() {
            self.find_covered(tool, section);
            if first.is_empty() {
                let message = format!("nothing has to come before `{}`", tool.value);
                self.problems.hint(&first.span, message, "name the tools that have to, or remove it");
            }
            for name in first.iter() {
                self.find(name);
                if name.value == tool.value {
                    let message = format!("`{}` would wait for itself", tool.value);
                    self.problems.hint(&name.span, message, "take it out");
                }
            }
            policy = policy.require(tool.value.clone(), first.iter().map(|name| name.value.clone()));
        }
        Arc::new(policy)
    }

    fn read_before_write(&mut self, table: &ReadBeforeWriteTable, section: &str) -> Policy {
        let mut policy = ReadBeforeWritePolicy::new();
        for (tool, parameter) in table.reads.iter() {
            self.parameter(tool, parameter, section);
            policy = policy.reads(tool.value.clone(), parameter.value.clone());
        }
        for (tool, parameter) in table.writes.iter() {
            self.parameter(tool, parameter, section);
            policy = policy.writes(tool.value.clone(), parameter.value.clone());
        }
        Arc::new(policy)
    }

    fn quota(&mut self, table: &QuotaTable, section: &str) -> Policy {
        let mut policy = QuotaPolicy::new();
        for (tool, limit) in table.tools.iter() {
            self.find_covered(tool, section);
            policy = policy.tool(tool.value.clone(), u64::from(limit.value));
        }
        if let Some(limit) = &table.session {
            policy = policy.session(u64::from(limit.value));
        }
        Arc::new(policy)
    }

    fn rate_limit(&mut self, table: &RateLimitTable, section: &str) -> Option<Policy> {
        let tools = self.covered_tools(table.tools.as_ref(), section);
        let window = duration(table.window.as_ref()?, self.problems)?;
        let max = table.max.as_ref()?.value;
        let policy = match table.per.as_ref().map(|per| per.value) {
            None | Some(RateScope::Tool) => RateLimitPolicy::per_tool(max, window),
            Some(RateScope::All) => RateLimitPolicy::overall(max, window),
        };
        Some(match tools {
            Some(tools) => Arc::new(policy.only(tools)),
            None => Arc::new(policy),
        })
    }

    fn paths(&mut self, table: &At<PathsTable>, section: &str) -> Option<Policy> {
        let before = self.problems.count();
        let mut policy = PathPolicy::builder();
        // Each rule is tried by itself first, so that all that are wrong are found.
        for glob in table.allow.iter().chain(&table.deny) {
            if let Err(error) = PathPolicy::builder().deny(glob.value.clone()).build() {
                let hint = "a pattern is a path, with `*`, `**`, `?` or `[…]` in it, such as \"src/**\"";
                self.problems.hint(&glob.span, error.to_string(), hint);
            }
        }
        policy = table.allow.iter().fold(policy, |policy, glob| policy.allow(glob.value.clone()));
        policy = table.deny.iter().fold(policy, |policy, glob| policy.deny(glob.value.clone()));
        for (tool, parameters) in table.tools.iter() {
            let found = self.find_covered(tool, section);
            for parameter in parameters.iter() {
                found.into_iter().for_each(|tool| self.find_parameter(tool, parameter));
            }
            let parameters = parameters.iter().map(|parameter| parameter.value.clone());
            policy = policy.tool(tool.value.clone(), parameters);
        }
        for (tool, parameter) in table.trees.iter() {
            self.parameter(tool, parameter, section);
            policy = policy.tree(tool.value.clone(), parameter.value.clone());
        }
        policy = table.parameters.iter().fold(policy, |policy, name| policy.parameter(name.value.clone()));
        if table.only_named_tools.as_ref().is_some_and(|only| only.value) {
            policy = policy.only_named_tools();
        }
        if self.problems.count() > before {
            return None;
        }
        for path in &table.example_allowed {
            if let Err(error) = policy.clone().example_allowed(path.value.clone()).build() {
                let hint = "change the rules, or make it one of `example_denied`";
                self.problems.hint(&path.span, error.to_string(), hint);
            }
        }
        for path in &table.example_denied {
            if let Err(error) = policy.clone().example_denied(path.value.clone()).build() {
                let hint = "change the rules, or make it one of `example_allowed`";
                self.problems.hint(&path.span, error.to_string(), hint);
            }
        }
        match policy.build() {
            Ok(policy) => Some(Arc::new(policy)),
            Err(error) => {
                let hint = "add a rule: `allow = [\"src/**\"]`, or `deny = [\"secrets/**\"]`";
                self.problems.hint(&table.span, error.to_string(), hint);
                None
            }
        }
    }

    fn approval(&mut self, table: &ApprovalTable, section: &str) -> Policy {
        let tools = self.covered_tools(table.tools.as_ref(), section);
        let policy = match &tools {
            Some(tools) => ApprovalPolicy::new(tools.clone()),
            None => ApprovalPolicy::all_tools(),
        };
        let mut conditions = Vec::new();
        for (parameter, values) in table.when.iter() {
            self.known_parameter(parameter, tools.as_deref(), section);
            let values: Vec<Value> = values.iter().map(|value| value.0.clone()).collect();
            conditions.push((parameter.value.clone(), values));
        }
        if conditions.is_empty() {
            return Arc::new(policy);
        }
        Arc::new(
            policy.when(move |arguments| {
                conditions.iter().all(|(name, values)| may_be(arguments, name, values))
            }),
        )
    }

    /// A condition on a parameter that no tool has would never hold.
    fn known_parameter(&mut self, parameter: &At<String>, tools: Option<&[String]>, section: &str) {
        let covered = |tool: &&KnownTool| match tools {
            Some(names) => names.contains(&tool.name),
            None => tool.is_below(section),
        };
        let covered = self.tools.iter().filter(covered).map(KnownTool::parameters);
        // Of one that could not be read nobody knows what it has.
        let Some(names) = covered.collect::<Option<Vec<_>>>() else { return };
        let names: BTreeSet<&str> = names.into_iter().flatten().collect();
        if names.contains(parameter.as_str()) {
            return;
        }
        let message = format!("no tool that this policy covers has a parameter `{}`", parameter.value);
        let hint = meant(parameter, names.iter().copied(), "parameters");
        self.problems.hint(&parameter.span, message, hint);
    }

    fn parameter(&mut self, tool: &At<String>, parameter: &At<String>, section: &str) {
        if let Some(tool) = self.find_covered(tool, section) {
            self.find_parameter(tool, parameter);
        }
    }

    fn covered_tools(&mut self, tools: Option<&At<Vec<At<String>>>>, section: &str) -> Option<Vec<String>> {
        let tools = tools?;
        if tools.is_empty() {
            self.problems.hint(&tools.span, "no tool is named", "remove it to cover all of them");
        }
        for name in tools.iter() {
            self.find_covered(name, section);
        }
        Some(tools.iter().map(|name| name.value.clone()).collect())
    }
}

/// Whether an argument has one of the values. One that was left out may stand for any of them: whoever is asked to look at a
/// value has to be asked then, too.
fn may_be(arguments: &Params, name: &str, values: &[Value]) -> bool {
    match arguments.get(name) {
        None => true,
        Some(argument) => values.iter().any(|value| same(argument, value)),
    }
}

/// Whether two values are the same; `1` and `1.0` are.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, left)| right.get(name).is_some_and(|right| same(left, right)))
        }
        (left, right) => left == right,
    }
}
