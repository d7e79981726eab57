//! What built-in policies know of a call: whether they have a say in it, and which paths it names.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::tool::Params;

/// The tools that a policy has a say in.
#[derive(Debug, Clone, Default)]
pub(super) enum Tools {
    #[default]
    All,
    These(BTreeSet<String>),
}

impl Tools {
    pub(super) fn these(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::These(names.into_iter().map(Into::into).collect())
    }

    pub(super) fn include(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.contains(name),
        }
    }
}

/// The paths that an argument names: a text, or a list of texts. None for anything else, an empty list included.
pub(super) fn named_paths<'a>(
    params: &'a Params,
    parameter: &str,
) -> Option<impl Iterator<Item = &'a str> + use<'a>> {
    let value = params.get(parameter)?;
    let values = match value {
        Value::String(_) => std::slice::from_ref(value),
        Value::Array(values) if !values.is_empty() && values.iter().all(Value::is_string) => values,
        _ => return None,
    };
    Some(values.iter().filter_map(Value::as_str))
}
