//! One source for a tool's schema and its parser.
//!
//! A schema comes from a Rust type ([`advertised_schema`]) or from outside ([`tighten`]), and is shown to models in
//! exactly the form that arguments are checked against ([`CompiledSchema`]). Checking is one walk over the text; it
//! finds everything that is wrong and says so in words that a model can act on ([`Rejection`]). Nothing here runs a
//! tool, fetches a reference or coerces a value.

mod access;
mod advertise;
mod analyse;
mod compile;
pub(crate) mod decode;
mod error;
mod fields;
mod find;
mod findings;
mod mask;
mod node;
mod number;
mod pointer;
mod problem;
mod read;
mod scan;
mod tighten;
mod uniform;
mod union;
mod walk;

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

pub use advertise::advertised_schema;
pub(crate) use advertise::{open_schema, output_schema};
pub use compile::keywords;
pub use error::SchemaError;
pub use mask::mark_sensitive;
pub(crate) use number::whole_number;
pub use problem::{Problem, ProblemKind, Rejection, may_mean, nearest};
pub(crate) use tighten::loosen;
pub use tighten::tighten;
pub(crate) use uniform::Typed;

use findings::Path;
use node::{Node, NodeId, Types};
use walk::{Stop, Walker, kind_of};

/// How large arguments may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParseLimits {
    depth: usize,
    bytes: usize,
}

impl ParseLimits {
    /// The deepest nesting that is ever accepted.
    pub const MAX_DEPTH: usize = 128;
    /// The longest text that is ever accepted.
    pub const MAX_BYTES: usize = 8 * 1024 * 1024;

    /// Lowers the depth limit; a higher value than [`Self::MAX_DEPTH`] means that one.
    #[must_use]
    pub fn with_depth(self, depth: usize) -> Self {
        Self { depth: depth.min(Self::MAX_DEPTH), ..self }
    }

    /// Lowers the size limit; a higher value than [`Self::MAX_BYTES`] means that one.
    #[must_use]
    pub fn with_bytes(self, bytes: usize) -> Self {
        Self { bytes: bytes.min(Self::MAX_BYTES), ..self }
    }
}

impl Default for ParseLimits {
    fn default() -> Self {
        Self { depth: Self::MAX_DEPTH, bytes: Self::MAX_BYTES }
    }
}

/// A schema made ready for checking arguments. Cheap to clone.
///
/// ```
/// use serde_json::json;
/// use wink::tool::schema::{CompiledSchema, ParseLimits, tighten};
///
/// let schema = tighten(json!({ "type": "object", "properties": { "query": { "type": "string" } } }))?;
/// let schema = CompiledSchema::compile(&schema)?;
/// let limits = ParseLimits::default();
/// assert_eq!(schema.check(r#"{ "query": "rust" }"#, &limits), Ok(()));
/// let rejection = schema.check(r#"{ "querry": "rust" }"#, &limits).unwrap_err();
/// assert_eq!(
///     rejection.to_string(),
///     "Invalid arguments: `querry`: unknown field; nearest known field is `query` (known: `query`)"
/// );
/// # Ok::<(), wink::tool::schema::SchemaError>(())
/// ```
#[derive(Clone)]
pub struct CompiledSchema {
    inner: Arc<Inner>,
}

struct Inner {
    nodes: Vec<Node>,
    sensitive: bool,
    sensitive_names: Vec<String>,
}

impl CompiledSchema {
    /// Compiles a schema: a subset of JSON Schema 2020-12 without anything that would be silently ignored.
    ///
    /// It is taken as it is; [`tighten`] it first if objects are to be closed.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        let mut nodes = compile::compile(schema)?;
        analyse::analyse(&mut nodes)?;
        let root = nodes.first().map_or(Types::NONE, |root| root.reach);
        if root != Types::OBJECT {
            return Err(SchemaError::NotAnObject { found: root.describe() });
        }
        let sensitive = nodes.first().is_some_and(|root| root.holds_sensitive);
        let mut compiled = Self { inner: Arc::new(Inner { nodes, sensitive, sensitive_names: Vec::new() }) };
        let names = compiled.sensitive_names();
        if let Some(inner) = Arc::get_mut(&mut compiled.inner) {
            inner.sensitive_names = names;
        }
        Ok(compiled)
    }

    /// Checks arguments: one walk over the text, which must be a JSON object. No text means `{}`.
    pub fn check(&self, text: &str, limits: &ParseLimits) -> Result<(), Rejection> {
        if text.len() > limits.bytes {
            let expected = format!("at most {} bytes", limits.bytes);
            return Err(Rejection::only(ProblemKind::TooLarge, expected, format!("{} bytes", text.len())));
        }
        let mut walker = Walker::new(self.nodes(), text, limits.depth);
        let first = match walker.scan.peek() {
            None => {
                walker = Walker::new(self.nodes(), "{}", limits.depth);
                b'{'
            }
            Some(byte) => byte,
        };
        let start = walker.scan.pos;
        let walked = match first {
            b'{' => walker.value(0, &Path::ROOT, 0),
            _ => walker.skip(&Path::ROOT, 0),
        };
        let end = walker.scan.pos;
        let ended = match walked {
            Ok(()) if walker.scan.peek().is_some() => {
                walker.scan.fail("nothing after the JSON object").map_err(Stop::from)
            }
            other => other,
        };
        match ended {
            Ok(()) if first == b'{' => walker.found.finish(),
            Ok(()) => {
                let got = kind_of(text.get(start..end).unwrap_or_default());
                Err(Rejection::only(ProblemKind::NotAnObject, "a JSON object", got))
            }
            Err(_) => Err(match walker.scan.broken {
                Some(broken) => decode::unreadable(text, broken, limits.depth, self.has_sensitive()),
                None => Rejection::only(
                    ProblemKind::NoMatchingForm,
                    "other arguments",
                    "arguments that do not fit",
                ),
            }),
        }
    }

    /// Whether any part is marked sensitive.
    pub fn has_sensitive(&self) -> bool {
        self.inner.sensitive
    }

    /// Whether `{}` is the only thing that is accepted.
    fn takes_nothing(&self) -> bool {
        let root = self.nodes().first();
        let rules = root.filter(|root| root.combine.is_none()).and_then(|root| root.object.as_ref());
        rules.is_some_and(|rules| rules.is_closed() && rules.properties.is_empty())
    }

    fn nodes(&self) -> &[Node] {
        &self.inner.nodes
    }

    fn node(&self, id: NodeId) -> Option<&Node> {
        self.inner.nodes.get(id as usize)
    }

    fn hidden_names(&self) -> &[String] {
        &self.inner.sensitive_names
    }
}

impl fmt::Debug for CompiledSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledSchema").field("schemas", &self.inner.nodes.len()).finish_non_exhaustive()
    }
}
