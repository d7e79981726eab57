//! A tool that is told in other words: its description, those of its parameters and its examples. What it takes and does
//! stays as it is.

use std::any::TypeId;
use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::context::CallContext;
use super::contract::{Contract, ToolExample, check_description};
use super::erased::{AnyTool, Erased, ErasedResult, KeyParts, Params};
use super::error::ToolError;
use super::footprint::Footprint;
use super::schema::{ParseLimits, Rejection};
use super::shown::Shown;
use crate::BoxFuture;
use crate::session::{ErasedValue, Item, Session, SessionError};

/// What is said in other words. What is not named stays.
#[derive(Default)]
pub(crate) struct Words<'a> {
    pub(crate) description: Option<&'a str>,
    /// By the path that [`params`] gives.
    pub(crate) params: Vec<(&'a str, &'a str)>,
    /// Description, arguments and value of each.
    pub(crate) examples: Option<Vec<(&'a str, Value, Value)>>,
}

impl AnyTool {
    /// The same tool in other words.
    pub(crate) fn reworded(&self, words: Words<'_>) -> Result<Self, String> {
        let mut contract = Contract::clone(self.contract());
        if let Some(description) = words.description {
            let checked = check_description("its description", description).map_err(|error| error.0)?;
            contract.description = checked.into();
        }
        if !words.params.is_empty() {
            let mut schema = contract.schema().clone();
            each_param(&mut schema, "", &mut |path, fields| {
                if let Some((_, text)) = words.params.iter().find(|(named, _)| *named == path) {
                    fields.insert("description".to_owned(), Value::from(*text));
                }
            });
            contract.shown = Shown::made(contract.shown.whole().clone().with_schema(schema));
        }
        if let Some(examples) = words.examples {
            let check = |(description, input, output): (&str, Value, Value)| {
                self.inner.example(description, input, output)
            };
            let examples = examples.into_iter().map(check).collect::<Result<_, _>>()?;
            contract.shown = Shown::made(contract.shown.whole().clone().with_examples(examples));
        }
        Ok(Self { inner: Arc::new(Reworded { contract, inner: Arc::clone(&self.inner) }) })
    }
}

/// The parameters that a schema names, and what it says about each: `a`, `a.b` for a field of an object, `a[].b` for one of the
/// objects in a list. Those behind references are not among them.
pub(crate) fn params(schema: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut schema = schema.clone();
    each_param(&mut schema, "", &mut |path, fields| {
        let said = fields.get("description").and_then(Value::as_str).unwrap_or_default();
        found.push((path.to_owned(), said.to_owned()));
    });
    found
}

fn each_param(schema: &mut Value, above: &str, visit: &mut impl FnMut(&str, &mut Map<String, Value>)) {
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (name, property) in properties.into_iter().flatten() {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        if let Value::Object(fields) = property {
            visit(&path, fields);
        }
        each_param(property, &path, visit);
        if let Some(items) = property.get_mut("items") {
            each_param(items, &format!("{path}[]"), visit);
        }
    }
}

struct Reworded {
    contract: Contract,
    inner: Arc<dyn Erased>,
}

impl Erased for Reworded {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn parse(&self, text: &Arc<str>, limits: &ParseLimits) -> Result<Params, Rejection> {
        self.inner.parse(text, limits)
    }

    fn footprint(&self, params: &Params) -> Option<Footprint> {
        self.inner.footprint(params)
    }

    fn run(&self, params: Params, cx: CallContext) -> BoxFuture<'static, Result<ErasedResult, ToolError>> {
        self.inner.run(params, cx)
    }

    fn run_blocking(&self, params: Params, cx: CallContext) -> Result<ErasedResult, ToolError> {
        self.inner.run_blocking(params, cx)
    }

    fn render<'a>(&self, value: &'a dyn ErasedValue) -> Cow<'a, str> {
        self.inner.render(value)
    }

    fn example(&self, description: &str, input: Value, output: Value) -> Result<ToolExample, String> {
        self.inner.example(description, input, output)
    }

    fn revive(&self, json: &Value) -> Result<Arc<dyn ErasedValue>, String> {
        self.inner.revive(json)
    }

    fn key(&self, params: &Params) -> Result<Option<KeyParts>, String> {
        self.inner.key(params)
    }

    fn params_hash(&self, params: &Params) -> Result<String, String> {
        self.inner.params_hash(params)
    }

    fn published(&self, session: &Session, value: &Arc<dyn ErasedValue>) -> Vec<(TypeId, Item)> {
        self.inner.published(session, value)
    }

    fn published_kinds(&self, session: &Session) -> Vec<TypeId> {
        self.inner.published_kinds(session)
    }

    fn prepare(&self, session: &Session) -> Result<(), SessionError> {
        self.inner.prepare(session)
    }
}
