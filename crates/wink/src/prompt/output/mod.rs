//! Structured output: what the model's last answer must be, and how it is read.
//!
//! An [`Output`] says it in types; a template makes an [`OutputContract`] of it, which is what the model is told and what
//! its answer is held to. Schema and check are those of tools: unknown and duplicate keys, wrong types and broken
//! constraints are all found, and told so that the model can put them right.

mod contract;
mod error;
mod numbers;
mod parse;

use std::any::TypeId;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::session::{ErasedValue, Item, Session, SessionError, SliceType};
use crate::support::future::catch;
use crate::tool::TypedData;
use crate::tool::schema::{CompiledSchema, ParseLimits, Rejection, advertised_schema, open_schema};

pub use contract::{Container, ExtraKeys, OutputContract};
pub use error::{OutputError, OutputErrorKind};
pub use parse::ParsedOutput;

use contract::Source;

/// What a prompt's answer must be, as a Rust type. A template takes it.
///
/// ```
/// use wink::prelude::*;
/// use wink::prompt::Output;
///
/// #[data]
/// #[derive(Debug, PartialEq)]
/// struct Review {
///     /// One line.
///     summary: String,
///     approved: bool,
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let template = PromptTemplate::builder("examples", "review")
///     .section(Section::markdown("task", "Task").body("Review the change."))
///     .output(Output::object::<Review>())
///     .build()?;
/// let rendered = template.prompt().render(&Session::new())?;
/// let output = rendered.output().ok_or("the prompt has an output")?;
///
/// let parsed = output.parse("It is fine: {\"summary\": \"A small fix.\", \"approved\": true}")?;
/// let review = template.output(&parsed).ok_or("it is a review")?;
/// assert_eq!(*review, Review { summary: "A small fix.".into(), approved: true });
///
/// let error = output.parse("{\"summary\": \"A small fix.\", \"aproved\": true}").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "The JSON of the answer does not fit, 2 problems:\n\
///      - `aproved`: unknown field; nearest known field is `approved` (known: `summary`, `approved`)\n\
///      - `approved`: missing; expected true or false\n\
///      Answer again with one JSON object that fits the schema `Review`, in a block marked `json`."
/// );
/// # Ok(())
/// # }
/// ```
#[must_use = "an output means nothing until a template has it"]
pub struct Output<Out> {
    name: String,
    source: Source,
    container: Container,
    extra_keys: ExtraKeys,
    codec: Codec,
    of: PhantomData<fn() -> Out>,
}

/// What has to know the type.
#[derive(Clone, Copy)]
struct Codec {
    /// Reads the JSON text of an object; for a list, of one that has it in `items`.
    read: fn(&CompiledSchema, &str) -> Result<Arc<dyn ErasedValue>, Rejection>,
    /// What goes to slices, with its type.
    items: fn(&Arc<dyn ErasedValue>) -> Vec<Item>,
    /// The type of these.
    kind: fn() -> TypeId,
    prepare: Option<fn(&Session) -> Result<(), SessionError>>,
}

// How a list is written where the root must be an object. No doc comment: that would become part of the schema.
#[derive(Deserialize, JsonSchema)]
struct Listed<T> {
    items: Vec<T>,
}

impl Output<()> {
    /// One object.
    pub fn object<T: TypedData>() -> Output<T> {
        Output {
            name: T::schema_name().into_owned(),
            source: Source::Typed { closed: advertised_schema::<T>, open: open_schema::<T> },
            container: Container::Object,
            extra_keys: ExtraKeys::Rejected,
            codec: Codec {
                read: |schema, text| Ok(Arc::new(decode::<T>(schema, text)?)),
                items: |value| vec![Arc::clone(value) as Item],
                kind: TypeId::of::<T>,
                prepare: None,
            },
            of: PhantomData,
        }
    }

    /// A list of any length.
    pub fn list<T: TypedData + Clone>() -> Output<Vec<T>> {
        Output {
            name: format!("{}_list", T::schema_name()),
            source: Source::Typed { closed: advertised_schema::<Listed<T>>, open: open_schema::<Listed<T>> },
            container: Container::List,
            extra_keys: ExtraKeys::Rejected,
            codec: Codec {
                read: |schema, text| Ok(Arc::new(decode::<Listed<T>>(schema, text)?.items)),
                items: |value| {
                    let any: &dyn std::any::Any = value.as_ref();
                    let list = any.downcast_ref::<Vec<T>>().map(Vec::as_slice).unwrap_or_default();
                    list.iter().map(|item| Arc::new(item.clone()) as Item).collect()
                },
                kind: TypeId::of::<T>,
                prepare: None,
            },
            of: PhantomData,
        }
    }

    /// An object or list whose schema is known at run time only. It is read as JSON.
    ///
    /// ```
    /// use wink::prelude::*;
    /// use wink::prompt::Output;
    /// use wink::serde_json::json;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schema = json!({ "type": "array", "items": { "type": "string" } });
    /// let template = PromptTemplate::builder("examples", "names").output(Output::dynamic("names", schema)).build()?;
    /// let contract = template.output_contract().ok_or("there is one")?;
    /// assert_eq!(contract.parse("[\"a\", \"b\"]")?.json(), &json!(["a", "b"]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn dynamic(name: impl Into<String>, schema: Value) -> Output<Value> {
        let is_list = schema.get("type").is_some_and(|kind| kind == "array");
        let container = if is_list { Container::List } else { Container::Object };
        Output {
            name: name.into(),
            source: Source::Given(schema),
            container,
            extra_keys: ExtraKeys::Rejected,
            codec: Codec {
                read: match container {
                    Container::Object => |schema, text| Ok(Arc::new(decode::<Value>(schema, text)?)),
                    Container::List => {
                        |schema, text| Ok(Arc::new(Value::from(decode::<Listed<Value>>(schema, text)?.items)))
                    }
                },
                items: |_| Vec::new(),
                kind: TypeId::of::<Value>,
                prepare: None,
            },
            of: PhantomData,
        }
    }
}

impl<Out> Output<Out> {
    /// Lets keys pass that the type does not have.
    ///
    /// ```
    /// use wink::prelude::*;
    /// use wink::prompt::Output;
    ///
    /// #[data]
    /// struct Answer { text: String }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let output = Output::object::<Answer>().allow_extra_keys();
    /// let template = PromptTemplate::builder("examples", "answer").output(output).build()?;
    /// let contract = template.output_contract().ok_or("there is one")?;
    /// assert!(contract.parse("{\"text\": \"yes\", \"sure\": true}").is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn allow_extra_keys(mut self) -> Self {
        self.extra_keys = ExtraKeys::Allowed;
        self
    }

    /// What the model is told the type is called.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

impl<T: SliceType> Output<T> {
    /// Makes sessions know the type, so that the value goes to its slice in each. In a session that knows it anyway it
    /// does without.
    pub fn publishes(mut self) -> Self {
        self.codec.prepare = Some(|session| session.know::<T>());
        self
    }
}

impl<T: SliceType> Output<Vec<T>> {
    /// Makes sessions know the type of the elements, so that each goes to its slice.
    pub fn publishes_each(mut self) -> Self {
        self.codec.prepare = Some(|session| session.know::<T>());
        self
    }
}

impl<Out> fmt::Debug for Output<Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The type's decoder is foreign code.
fn decode<T: serde::de::DeserializeOwned>(schema: &CompiledSchema, text: &str) -> Result<T, Rejection> {
    catch(|| schema.decode(text, &ParseLimits::default())).unwrap_or_else(|panic| {
        tracing::error!(panic, "decoding an output panicked");
        Err(Rejection::undecodable())
    })
}

#[cfg(test)]
mod tests;
