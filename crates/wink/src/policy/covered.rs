//! What built-in policies know of a call: whether they have a say in it, and which paths it names.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::filesystem::{FsPath, meanings};
use crate::tool::Params;
use crate::tool::footprint::Footprint;

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
///
/// `list[].field` is the field of each object in a list; such a list may be empty or missing, and then names nothing.
pub(super) fn named_paths<'a, 'p>(
    params: &'a Params,
    parameter: &'p str,
) -> Option<impl Iterator<Item = &'a str> + use<'a, 'p>> {
    let (name, field) = match parameter.split_once("[].") {
        Some((list, field)) => (list, Some(field)),
        None => (parameter, None),
    };
    let text = move |value: &'a Value| match field {
        Some(field) => value.get(field).and_then(Value::as_str),
        None => value.as_str(),
    };
    let values = match (params.get(name), field) {
        (Some(value @ Value::String(_)), None) => std::slice::from_ref(value),
        (Some(Value::Array(values)), _) if values.iter().all(|value| text(value).is_some()) => {
            if values.is_empty() && field.is_none() {
                return None;
            }
            values
        }
        (None, Some(_)) => &[],
        _ => return None,
    };
    Some(values.iter().filter_map(text))
}

/// Adds the paths that an argument names to a footprint.
pub(super) fn with_paths(
    footprint: Footprint,
    params: &Params,
    parameter: &str,
    mut add: impl FnMut(Footprint, &FsPath) -> Footprint,
) -> Footprint {
    let named = named_paths(params, parameter);
    named.into_iter().flatten().fold(footprint, |footprint, text| {
        // The workspace is not known here: its limits refuse paths and never change them, and a path that may mean two places
        // stands for both.
        match meanings(text) {
            Ok(paths) => paths.iter().fold(footprint, &mut add),
            Err(_) => footprint.and(Footprint::everything()),
        }
    })
}
