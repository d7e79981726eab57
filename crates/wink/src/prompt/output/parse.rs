//! From an answer's text to its value.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::contract::{Container, ITEMS, OutputContract};
use super::error::{OutputError, OutputErrorKind};
use super::numbers;
use crate::session::{DispatchResult, ErasedValue, Session};
use crate::tool::schema::{ParseLimits, Rejection, decode};

/// An answer that fits its contract. Cheap to clone.
#[derive(Clone)]
pub struct ParsedOutput {
    text: Arc<str>,
    json: Arc<Value>,
    value: Arc<dyn ErasedValue>,
    contract: OutputContract,
}

impl OutputContract {
    /// Reads an answer: JSON that stands alone, in a block between fences, or inside prose. Of several values the one that
    /// fits is meant; a block that is marked as JSON and is none is an error whatever else there is.
    ///
    /// # Errors
    /// What is wrong, in words for the model.
    pub fn parse(&self, text: &str) -> Result<ParsedOutput, OutputError> {
        self.choose(text).map_err(|kind| OutputError::new(kind, text, self))
    }

    fn choose(&self, text: &str) -> Result<ParsedOutput, OutputErrorKind> {
        let found =
            self.compiled().find(text, &ParseLimits::default()).map_err(OutputErrorKind::Unreadable)?;
        let fitting: Vec<Form<'_>> = found.iter().filter_map(|json| self.form(json)).collect();
        let read = |form: &Form<'_>| self.read(text, form).map_err(OutputErrorKind::Rejected);
        match fitting.as_slice() {
            [] => Err(match found.first() {
                None => OutputErrorKind::NoJson,
                Some(json) => OutputErrorKind::WrongContainer { found: container_of(json) },
            }),
            [only] => read(only),
            [.., last] => {
                let good: Vec<ParsedOutput> = fitting.iter().filter_map(|form| read(form).ok()).collect();
                match good.split_first() {
                    None => read(last),
                    Some((first, rest)) if rest.iter().all(|other| other.json == first.json) => {
                        Ok(first.clone())
                    }
                    Some(_) => Err(OutputErrorKind::Ambiguous { count: good.len() }),
                }
            }
        }
    }

    /// How the text of a JSON value is to be read; none for a container that is not wanted.
    fn form<'t>(&self, json: &'t str) -> Option<Form<'t>> {
        match (self.container(), container_of(json)) {
            (Container::Object, Container::Object) => Some(Form::Object(json)),
            (Container::List, Container::List) => Some(Form::List(json)),
            (Container::List, Container::Object) => has_only_items(json).then_some(Form::Wrapped(json)),
            (Container::Object, Container::List) => None,
        }
    }

    fn read(&self, text: &str, form: &Form<'_>) -> Result<ParsedOutput, Rejection> {
        let decoded = match form {
            Form::Object(json) | Form::Wrapped(json) => self.decode(json),
            Form::List(json) => self.decode(&format!("{{\"{ITEMS}\":{json}}}")),
        };
        let (value, json) = match form {
            Form::Object(_) => decoded?,
            Form::List(_) | Form::Wrapped(_) => {
                let (value, mut json) = decoded.map_err(without_items)?;
                (value, json.get_mut(ITEMS).map(Value::take).unwrap_or_default())
            }
        };
        Ok(ParsedOutput { text: text.into(), json: Arc::new(json), value, contract: self.clone() })
    }

    /// Nobody executes a result, so `7.0` is the integer that JSON Schema says it is.
    fn decode(&self, object: &str) -> Result<(Arc<dyn ErasedValue>, Value), Rejection> {
        self.decode_as_written(object).or_else(|rejection| {
            let whole = numbers::written_whole(object).and_then(|text| self.decode_as_written(&text).ok());
            whole.ok_or(rejection)
        })
    }

    fn decode_as_written(&self, object: &str) -> Result<(Arc<dyn ErasedValue>, Value), Rejection> {
        let value = (self.codec().read)(self.compiled(), object)?;
        let json: Value = decode::parse(object).map_err(|_| Rejection::undecodable())?;
        Ok((value, json))
    }
}

/// The text of a JSON value in the place where it was found.
enum Form<'t> {
    Object(&'t str),
    List(&'t str),
    /// An object with nothing but the list, as a provider wants it that takes only objects.
    Wrapped(&'t str),
}

fn container_of(json: &str) -> Container {
    if json.starts_with('[') { Container::List } else { Container::Object }
}

fn has_only_items(json: &str) -> bool {
    let value: Option<Value> = decode::parse(json).ok();
    let fields = value.as_ref().and_then(Value::as_object);
    fields.is_some_and(|fields| fields.len() == 1 && fields.get(ITEMS).is_some_and(Value::is_array))
}

/// Problems by their place in the list, which is what the model wrote.
fn without_items(mut rejection: Rejection) -> Rejection {
    for problem in &mut rejection.problems {
        if let Some(inner) = problem.path.strip_prefix(ITEMS) {
            problem.path = inner.to_owned();
        }
    }
    rejection
}

impl ParsedOutput {
    /// The answer as it came, with whatever stood around the JSON.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value as JSON, as the model wrote it; but where an integer is wanted, `7.0` is 7.
    pub fn json(&self) -> &Value {
        &self.json
    }

    /// The same, to be kept without copying it.
    pub fn shared_json(&self) -> Arc<Value> {
        Arc::clone(&self.json)
    }

    /// The value, if it has this type: that of [`Output::object`](super::Output::object), or a `Vec` for
    /// [`Output::list`](super::Output::list).
    pub fn value<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let value: Arc<dyn Any + Send + Sync> = Arc::clone(&self.value) as Arc<dyn Any + Send + Sync>;
        value.downcast().ok()
    }

    /// What it was held to.
    pub fn contract(&self) -> &OutputContract {
        &self.contract
    }

    /// Hands the value, or each element of a list, to its slice. In a session that does not know the type nothing
    /// happens.
    ///
    /// ```
    /// use wink::prelude::*;
    /// use wink::prompt::Output;
    ///
    /// #[data]
    /// #[derive(Clone, SliceType)]
    /// #[slice(name = "finding")]
    /// struct Finding { file: String }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let output = Output::list::<Finding>().publishes_each();
    /// let prompt = PromptTemplate::builder("examples", "audit").output(output).build()?.prompt();
    /// let session = Session::new();
    /// prompt.prepare(&session)?;
    ///
    /// let rendered = prompt.render(&session)?;
    /// let contract = rendered.output().ok_or("there is one")?;
    /// assert!(contract.parse("[{\"file\": \"a.rs\"}, {\"file\": \"b.rs\"}]")?.dispatch(&session).is_ok());
    /// assert_eq!(session.slice::<Finding>().len(), 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn dispatch(&self, session: &Session) -> DispatchResult {
        let mut whole = DispatchResult::default();
        let codec = self.contract.codec();
        if session.registry().accepts((codec.kind)()) {
            for item in (codec.items)(&self.value) {
                whole.add(session.dispatch_item(item));
            }
        }
        whole
    }
}

impl fmt::Debug for ParsedOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the text: it may hold secrets.
        f.debug_struct("ParsedOutput").field("contract", &self.contract).finish_non_exhaustive()
    }
}
