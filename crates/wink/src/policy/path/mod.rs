//! Which paths tools may name.

mod rule;

use std::collections::HashMap;
use std::sync::Arc;

use self::rule::Rule;
use super::context::PolicyFilesError;
use super::covered::{named_paths, with_paths};
use super::{Decision, PolicyCall, PolicyContext, ToolPolicy};
use crate::BoxFuture;
use crate::filesystem::{FsError, FsLimits, FsPath, shown};
use crate::resource::BoxError;
use crate::tool::footprint::Footprint;

/// Allows and denies by the paths that a call names.
///
/// A denying rule wins. Where there is an allowing rule, what none of them matches is denied. Rules are globs over
/// normalised paths: `*` does not cross `/`, `**` stands for zero or more directories, and `dir/**` means `dir`
/// too. Every spelling of a path is that path.
///
/// A symbolic link is both: the path that it is found at, and where it leads when the call is decided on. Both have to be
/// allowed. In the handler the path leads to the same place: if another process changes a link in between, the handler's
/// operation is an [`FsError::Conflict`].
///
/// ```
/// use wink::policy::PathPolicy;
///
/// let policy = PathPolicy::builder()
///     .allow("src/**")
///     .deny("**/*.key")
///     .example_allowed("src/main.rs")
///     .example_denied("src/server.key")
///     .example_denied("src/../secrets/token")
///     .build()?;
/// # Ok::<(), wink::policy::PathPolicyError>(())
/// ```
#[must_use = "a policy does nothing until a section or template has it"]
pub struct PathPolicy {
    allow: Vec<Rule>,
    deny: Vec<Rule>,
    tools: HashMap<String, Named>,
    parameters: Vec<String>,
    others: Others,
}

/// Where a tool names its paths.
struct Named {
    parameters: Vec<String>,
    reach: Reach,
}

/// How far a tool reaches from a path that it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Path,
    /// Everything below it too.
    Tree,
}

/// What becomes of tools that are not named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    /// Those with one of the policy's parameters are covered.
    ByParameter,
    Ignored,
}

/// A path policy's rules are wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathPolicyError {
    /// A rule cannot be used.
    #[error(transparent)]
    Rule(#[from] FsError),
    /// There is no rule.
    #[error("a path policy needs at least one rule to allow or deny")]
    NoRules,
    /// An example does not come out as it says.
    #[error("example {path:?} should be {expected} by the rules, but is {found}")]
    Example {
        /// The example.
        path: String,
        /// What it says of itself.
        expected: &'static str,
        /// What the rules say.
        found: String,
    },
}

/// Makes a [`PathPolicy`], and checks its rules against their own examples.
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until built"]
pub struct PathPolicyBuilder {
    allow: Vec<String>,
    deny: Vec<String>,
    tools: Vec<(String, Vec<String>, Reach)>,
    parameters: Vec<String>,
    others: Others,
    examples: Vec<(String, Expected)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Allowed,
    Denied,
}

impl PathPolicyBuilder {
    /// Allows what matches; with it, everything that no allowing rule matches is denied.
    pub fn allow(mut self, glob: impl Into<String>) -> Self {
        self.allow.push(glob.into());
        self
    }

    /// Denies what matches, whatever else allows it.
    pub fn deny(mut self, glob: impl Into<String>) -> Self {
        self.deny.push(glob.into());
        self
    }

    /// A path that the rules must allow, or the policy is not built.
    pub fn example_allowed(mut self, path: impl Into<String>) -> Self {
        self.examples.push((path.into(), Expected::Allowed));
        self
    }

    /// A path that the rules must deny, or the policy is not built.
    pub fn example_denied(mut self, path: impl Into<String>) -> Self {
        self.examples.push((path.into(), Expected::Denied));
        self
    }

    /// Says which parameters of a tool are paths. A call without one of them is denied. `list[].field` stands for the
    /// field of each object in a list, which may be empty or missing; `evaluate_python` is known to have `reads[].path`
    /// and `writes[].path`.
    pub fn tool(
        mut self,
        tool: impl Into<String>,
        parameters: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        self.tools.push((tool.into(), parameters.into_iter().map(Into::into).collect(), Reach::Path));
        self
    }

    /// Says that a tool reaches everything below the path that it is given: it is allowed where all of that is.
    /// `glob` and `grep` are such tools unless told.
    pub fn tree(mut self, tool: impl Into<String>, parameter: impl Into<String>) -> Self {
        self.tools.push((tool.into(), vec![parameter.into()], Reach::Tree));
        self
    }

    /// Another parameter that is a path in every tool that has it, beside `path`.
    pub fn parameter(mut self, name: impl Into<String>) -> Self {
        self.parameters.push(name.into());
        self
    }

    /// Has a say in the tools named with [`PathPolicyBuilder::tool`] and [`PathPolicyBuilder::tree`] only.
    pub fn only_named_tools(mut self) -> Self {
        self.others = Others::Ignored;
        self
    }

    /// The policy.
    ///
    /// # Errors
    /// When there is no rule, a rule is no glob or can never match, or an example comes out differently.
    pub fn build(self) -> Result<PathPolicy, PathPolicyError> {
        let rules =
            |globs: Vec<String>| globs.iter().map(|glob| Rule::new(glob)).collect::<Result<Vec<_>, _>>();
        let mut tools = HashMap::new();
        if self.others == Others::ByParameter {
            let mut know = |tool: &str, parameters: &[&str], reach| {
                let parameters = parameters.iter().map(|parameter| (*parameter).to_owned()).collect();
                tools.insert(tool.to_owned(), Named { parameters, reach });
            };
            // Ours, and those of Claude Code.
            for search in ["glob", "grep", "claude_glob", "claude_grep"] {
                know(search, &["path"], Reach::Tree);
            }
            know("evaluate_python", &["reads[].path", "writes[].path"], Reach::Path);
        }
        tools.extend(
            self.tools.into_iter().map(|(tool, parameters, reach)| (tool, Named { parameters, reach })),
        );
        let policy = PathPolicy {
            allow: rules(self.allow)?,
            deny: rules(self.deny)?,
            tools,
            parameters: self.parameters,
            others: self.others,
        };
        if policy.allow.is_empty() && policy.deny.is_empty() {
            return Err(PathPolicyError::NoRules);
        }
        for (path, expected) in self.examples {
            policy.check_example(path, expected)?;
        }
        Ok(policy)
    }
}

impl PathPolicy {
    /// A policy without rules, to be added.
    pub fn builder() -> PathPolicyBuilder {
        PathPolicyBuilder {
            allow: Vec::new(),
            deny: Vec::new(),
            tools: Vec::new(),
            parameters: vec!["path".to_owned()],
            others: Others::ByParameter,
            examples: Vec::new(),
        }
    }

    fn check_example(&self, path: String, expected: Expected) -> Result<(), PathPolicyError> {
        let decision = match FsPath::parse(&path, &FsLimits::default()) {
            Ok(parsed) => self.decide_path(&parsed, Reach::Path),
            Err(error) => Decision::deny(error.to_string()),
        };
        let (expected, found) = match (expected, decision) {
            (Expected::Allowed, Decision::Allow)
            | (Expected::Denied, Decision::Deny(_) | Decision::Ask(_)) => {
                return Ok(());
            }
            (Expected::Allowed, Decision::Deny(reason)) => ("allowed", format!("denied: {reason}")),
            (Expected::Allowed, Decision::Ask(question)) => ("allowed", format!("asked about: {question}")),
            (Expected::Denied, Decision::Allow) => ("denied", "allowed".to_owned()),
        };
        Err(PathPolicyError::Example { path, expected, found })
    }

    /// The path parameters of this call, and how far it reaches. None when the policy has no say in it.
    fn named<'a>(&'a self, call: &PolicyCall<'_>) -> Option<(Vec<&'a str>, Reach)> {
        if let Some(named) = self.tools.get(&**call.tool.name()) {
            return Some((named.parameters.iter().map(String::as_str).collect(), named.reach));
        }
        if self.others == Others::Ignored {
            return None;
        }
        let declared = call.tool.contract().schema().get("properties");
        let has = |name: &&str| {
            declared.is_some_and(|properties| properties.get(name).is_some())
                || call.params.get(name).is_some()
        };
        let parameters: Vec<&str> = self.parameters.iter().map(String::as_str).filter(has).collect();
        if parameters.is_empty() { None } else { Some((parameters, Reach::Path)) }
    }

    async fn decide(&self, call: &PolicyCall<'_>, cx: &PolicyContext<'_>) -> Result<Decision, BoxError> {
        let Some((parameters, reach)) = self.named(call) else { return Ok(Decision::Allow) };
        let tool = call.tool.name();
        for parameter in parameters {
            let Some(paths) = named_paths(call.params, parameter) else {
                return Ok(Decision::deny(format!(
                    "Cannot call '{tool}' - parameter '{parameter}' names no path, so it is unknown what would be \
                     used\nGive a path in '{parameter}'."
                )));
            };
            for text in paths {
                let decision = match cx.places(text).await {
                    Ok(Some(places)) => self.decide_places(&places, reach),
                    Ok(None) => Decision::deny(format!(
                        "Cannot use {}: there is no filesystem, so it is unknown what this path means",
                        shown(text)
                    )),
                    Err(PolicyFilesError::Fs(error)) => {
                        Decision::deny(format!("Cannot use {}: {error}", shown(text)))
                    }
                    Err(error) => return Err(error.into()),
                };
                if decision != Decision::Allow {
                    return Ok(decision);
                }
            }
        }
        Ok(Decision::Allow)
    }

    /// The first refusal of a place that would be reached.
    fn decide_places(&self, places: &[FsPath], reach: Reach) -> Decision {
        let mut decisions = places.iter().map(|place| self.decide_path(place, reach));
        decisions.find(|decision| *decision != Decision::Allow).unwrap_or(Decision::Allow)
    }

    fn decide_path(&self, path: &FsPath, reach: Reach) -> Decision {
        let denied = |rule: &&Rule| match reach {
            Reach::Path => rule.matches(path),
            Reach::Tree => rule.may_match_below(path),
        };
        if let Some(rule) = self.deny.iter().find(denied) {
            return Decision::deny(match reach {
                Reach::Path => format!("Cannot use {path}: rule '{}' denies it", rule.text()),
                Reach::Tree => format!(
                    "Cannot use {path} with all that is below it: rule '{}' denies some of it\nChoose a narrower path.",
                    rule.text()
                ),
            });
        }
        let allowed = |rule: &Rule| match reach {
            Reach::Path => rule.matches(path),
            Reach::Tree => rule.matches_all_below(path),
        };
        if self.allow.is_empty() || self.allow.iter().any(allowed) {
            return Decision::Allow;
        }
        let rules: Vec<&str> = self.allow.iter().map(Rule::text).collect();
        let what = match reach {
            Reach::Path => "",
            Reach::Tree => " with all that is below it",
        };
        Decision::deny(format!("Cannot use {path}{what}: only {} is allowed", rules.join(", ")))
    }
}

impl std::fmt::Debug for PathPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let texts = |rules: &[Rule]| rules.iter().map(|rule| rule.text().to_owned()).collect::<Vec<_>>();
        f.debug_struct("PathPolicy")
            .field("allow", &texts(&self.allow))
            .field("deny", &texts(&self.deny))
            .finish_non_exhaustive()
    }
}

impl ToolPolicy for PathPolicy {
    fn kind(&self) -> &'static str {
        "path"
    }

    fn covers(&self, call: &PolicyCall<'_>) -> bool {
        self.named(call).is_some()
    }

    fn check<'a>(
        &'a self,
        call: &'a PolicyCall<'a>,
        cx: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(self.decide(call, cx))
    }

    fn footprint(&self, call: &PolicyCall<'_>, _: &Arc<str>) -> Footprint {
        let (parameters, _) = self.named(call).unwrap_or((Vec::new(), Reach::Path));
        parameters.into_iter().fold(Footprint::nothing(), |footprint, parameter| {
            with_paths(footprint, call.params, parameter, |footprint, path| {
                footprint.read_path(path.as_str())
            })
        })
    }
}
