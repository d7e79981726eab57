//! What a tool shows beside its name and description: the schemas of its parameters and of its value, and its examples.
//!
//! It is made and checked when the tool is. Only that of this crate's own tools, which are known to be right, is made when it
//! is first wanted: a program that calls one of them does not pay for the others.

use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::{Map, Value, json};

use super::build::{Rendering, SchemaSource, decoded, rendered};
use super::contract::{ToolExample, check_description};
use super::schema::{self, CompiledSchema, ParseLimits};
use super::{ToolData, ToolValidationError};

/// What a tool shows. Every clone is the same one.
#[derive(Clone)]
pub(crate) struct Shown(Arc<When>);

enum When {
    Made(Whole),
    Wanted(LazyLock<Whole, Box<dyn FnOnce() -> Whole + Send>>),
}

/// All of it.
#[derive(Clone)]
pub(crate) struct Whole {
    schema: Value,
    text: OnceLock<Box<str>>,
    compiled: CompiledSchema,
    output_schema: Option<Value>,
    examples: Vec<ToolExample>,
}

impl Shown {
    /// What was made already.
    pub(crate) fn made(whole: Whole) -> Self {
        Self(Arc::new(When::Made(whole)))
    }

    /// What is made when it is first wanted, and is known to be right.
    pub(super) fn wanted<P: ToolData, R: ToolData>(making: Making<P, R>) -> Self {
        let make = move || match making.make() {
            Ok(whole) => whole,
            #[expect(clippy::panic, reason = "such tools are part of the program, and every one is tested")]
            Err(error) => panic!("{error}"),
        };
        Self(Arc::new(When::Wanted(LazyLock::new(Box::new(make)))))
    }

    pub(crate) fn whole(&self) -> &Whole {
        match &*self.0 {
            When::Made(whole) => whole,
            When::Wanted(whole) => whole,
        }
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.whole();
        f.debug_struct("Shown").field("schema", &whole.schema).finish_non_exhaustive()
    }
}

impl Whole {
    /// The schema of the parameters, as the model is told and as arguments are held to.
    pub(crate) fn schema(&self) -> &Value {
        &self.schema
    }

    /// The same as text.
    pub(crate) fn text(&self) -> &str {
        self.text.get_or_init(|| self.schema.to_string().into())
    }

    /// The same, ready for checking.
    pub(crate) fn compiled(&self) -> &CompiledSchema {
        &self.compiled
    }

    /// The schema of the value.
    pub(crate) fn output_schema(&self) -> Option<&Value> {
        self.output_schema.as_ref()
    }

    /// The same with a schema that takes the same arguments and tells of them in other words.
    pub(crate) fn with_schema(self, schema: Value) -> Self {
        Self { schema, text: OnceLock::new(), ..self }
    }

    /// Representative calls.
    pub(crate) fn examples(&self) -> &[ToolExample] {
        &self.examples
    }

    /// The same with other examples.
    pub(crate) fn with_examples(self, examples: Vec<ToolExample>) -> Self {
        Self { examples, ..self }
    }

    /// Holds an example to the rules of a real call; `render` shows its value.
    pub(super) fn example<P: ToolData>(
        &self,
        tool: &str,
        description: &str,
        input: Value,
        output: Value,
        render: impl FnOnce(&Value) -> Result<String, String>,
    ) -> Result<ToolExample, String> {
        let description =
            check_description("the description of an example", description).map_err(|error| error.0)?;
        let fault = |text: String| format!("example {description:?}: {text}");
        let input = if input.is_null() { Value::Object(Map::new()) } else { input };
        let text: Arc<str> = input.to_string().into();
        decoded::<P>(tool, &self.compiled, &text, &ParseLimits::default())
            .map_err(|rejection| fault(format!("its input: {rejection}")))?;
        if let Some(schema) = &self.output_schema {
            check_output(schema, &output).map_err(|text| fault(format!("its output: {text}")))?;
        }
        let rendered = render(&output).map_err(|text| fault(format!("its output: {text}")))?;
        let input = serde_json::from_str(&self.compiled.mask(&text)).unwrap_or(input);
        Ok(ToolExample { description, input, output, rendered })
    }
}

/// Where the schema of a tool's value comes from.
pub(crate) enum OutputSource {
    Typed(fn() -> Option<Value>),
    Given(Option<Value>),
}

/// What is shown of a tool, before it was checked.
pub(super) struct Making<P, R> {
    pub(super) tool: Arc<str>,
    pub(super) schema: SchemaSource,
    pub(super) sensitive: Vec<String>,
    /// The parameters that an idempotency config names.
    pub(super) keyed_by: Option<Vec<String>>,
    pub(super) output_schema: OutputSource,
    pub(super) examples: Vec<(String, P, R)>,
    pub(super) render: Option<Rendering<R>>,
}

impl<P: ToolData, R: ToolData> Making<P, R> {
    pub(super) fn make(self) -> Result<Whole, ToolValidationError> {
        let fault = |text: String| ToolValidationError(format!("tool {}: {text}", self.tool));
        let mut schema = self.schema.resolve().map_err(|error| fault(error.to_string()))?;
        for field in &self.sensitive {
            schema::mark_sensitive(&mut schema, field).map_err(|error| fault(error.to_string()))?;
        }
        let compiled = CompiledSchema::compile(&schema).map_err(|error| fault(error.to_string()))?;
        if let Some(fields) = &self.keyed_by {
            check_fields(&schema, fields).map_err(fault)?;
        }
        let output_schema = match self.output_schema {
            OutputSource::Typed(make) => make(),
            OutputSource::Given(schema) => schema,
        };
        let text = OnceLock::new();
        let mut whole = Whole { schema, text, compiled, output_schema, examples: Vec::new() };
        for (description, input, output) in self.examples {
            let json = |error: serde_json::Error| fault(format!("example {description:?}: {error}"));
            let (input, value) =
                (serde_json::to_value(&input).map_err(json)?, serde_json::to_value(&output).map_err(json)?);
            let render = |_: &Value| Ok(rendered(&self.tool, self.render.as_ref(), &output).into_owned());
            let example = whole.example::<P>(&self.tool, &description, input, value, render);
            whole.examples.push(example.map_err(fault)?);
        }
        Ok(whole)
    }
}

fn check_fields(schema: &Value, fields: &[String]) -> Result<(), String> {
    let known =
        |field: &String| schema.get("properties").is_some_and(|properties| properties.get(field).is_some());
    match fields.iter().find(|field| !known(field)) {
        None if fields.is_empty() => Err("its idempotency config names no parameter".to_owned()),
        None => Ok(()),
        Some(field) => {
            Err(format!("its idempotency config names parameter {field:?}, which it does not have"))
        }
    }
}

/// Holds a value to a schema whose root may be anything, by making it the one property of an object.
fn check_output(schema: &Value, value: &Value) -> Result<(), String> {
    let mut inner = schema.clone();
    let defs = inner.as_object_mut().and_then(|schema| schema.remove("$defs")).unwrap_or(json!({}));
    let whole =
        json!({ "type": "object", "properties": { "value": inner }, "required": ["value"], "$defs": defs });
    // A schema that the walk does not know (a foreign type's own) is not held against the example.
    let Ok(compiled) = CompiledSchema::compile(&whole) else { return Ok(()) };
    let text = json!({ "value": value }).to_string();
    compiled.check(&text, &ParseLimits::default()).map_err(|rejection| rejection.to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

    use crate::prompt::{PromptTemplate, Section, Visibility};
    use crate::suites::{PlanningToolsSection, VfsToolsSection};
    use crate::tool::{IntoTool, Tool};

    #[test]
    fn vouched_tools_are_right() {
        let suites = [PlanningToolsSection::new().section(), VfsToolsSection::new().section()];
        let closed = Section::markdown("closed", "Closed").body("Text.").summary("Short.");
        let closed = closed.visibility(Visibility::Summary);
        let builder = PromptTemplate::builder("tests", "vouched").section(closed);
        let builder = suites.into_iter().fold(builder, |builder, suite| builder.section(suite));
        let prompt = builder.build().unwrap().prompt();
        let mut names: Vec<String> = Vec::new();
        // Whatever is not right panics here.
        for placed in prompt.placed_tools().chain(prompt.possible_tools()) {
            let contract = placed.tool.contract();
            assert_eq!(contract.schema().get("type"), Some(&"object".into()), "{}", contract.name());
            names.push(contract.name().to_string());
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 13, "{names:?}");
    }

    #[test]
    fn what_a_vouched_tool_shows_is_not_made_before_it_is_wanted() {
        // A list is no parameters.
        let tool = || Tool::<Vec<u8>, ()>::without_handler("tool", "Takes a list.");
        tool().into_tool().expect_err("it is checked");
        tool().vouched().into_tool().expect("nobody has looked");
    }
}
