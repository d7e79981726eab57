//! Why a schema cannot be used for a tool. These are construction errors: they speak to the developer.

/// A schema that cannot be a tool's parameters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The root accepts something other than objects.
    #[error(
        "a tool's parameters must be an object, but the schema describes {found}; wrap the value in a struct with one field"
    )]
    NotAnObject {
        /// What the root describes instead.
        found: String,
    },
    /// A keyword outside the supported part of JSON Schema 2020-12.
    #[error(
        "schema keyword `{keyword}` at {path} is not supported; express the rule with supported keywords or check it in the handler"
    )]
    UnknownKeyword {
        /// The keyword.
        keyword: String,
        /// Where it stands, as a JSON pointer (`#/properties/a`).
        path: String,
    },
    /// A keyword with a value that it cannot have.
    #[error("schema keyword `{keyword}` at {path} is invalid: {reason}")]
    InvalidKeyword {
        /// The keyword.
        keyword: String,
        /// Where it stands, as a JSON pointer.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A reference that leaves the document. It is never fetched.
    #[error(
        "`$ref` `{reference}` at {path} leaves the schema; only `#`, `#/$defs/...` and `#/definitions/...` are followed"
    )]
    RemoteRef {
        /// The reference.
        reference: String,
        /// Where it stands, as a JSON pointer.
        path: String,
    },
    /// A reference to a definition that does not exist.
    #[error("`$ref` `{reference}` at {path} points to nothing in the schema")]
    UnresolvedRef {
        /// The reference.
        reference: String,
        /// Where it stands, as a JSON pointer.
        path: String,
    },
    /// References that lead back to themselves without consuming any input.
    #[error("the schema refers to itself at {path} without consuming input; a value could never be checked")]
    Cycle {
        /// Where the loop was noticed, as a JSON pointer.
        path: String,
    },
    /// The schema is larger than the runtime is willing to check calls against.
    #[error("the schema has too many {what} (limit {limit}) at {path}")]
    TooComplex {
        /// What there is too much of.
        what: &'static str,
        /// How many are allowed.
        limit: usize,
        /// Where the limit was passed, as a JSON pointer.
        path: String,
    },
    /// A field named by the developer that the schema does not have.
    #[error("the parameters have no field `{field}`{}", .suggestion.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default())]
    NoSuchField {
        /// The dotted path that was asked for.
        field: String,
        /// The nearest field that exists.
        suggestion: Option<String>,
    },
}
