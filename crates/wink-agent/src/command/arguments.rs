//! The arguments of a call as a program gets them: JSON on its standard input, and variables of its environment.
//!
//! Nothing is left out: an argument that a program cannot be given as a variable fails the call, since a script that finds
//! a variable empty may do something else than was asked for.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use wink::tool::ToolError;

/// The beginning of every variable that holds an argument.
pub(crate) const PREFIX: &str = "WINK_ARG_";
/// The variable with the tool's name.
pub(crate) const TOOL: &str = "WINK_TOOL";
/// The variable with the id of the call, which is unique.
pub(crate) const INVOCATION: &str = "WINK_INVOCATION_ID";
/// The variable with the key under which the effect counts, if the tool has one.
pub(crate) const KEY: &str = "WINK_IDEMPOTENCY_KEY";

/// How much Linux takes of one variable, with its name, `=` and a zero byte.
const LARGEST: usize = 128 * 1024;

/// How a command gets its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passing {
    /// On its standard input and as variables.
    Both,
    /// On its standard input alone.
    Stdin,
}

/// What a command is given for one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) stdin: Vec<u8>,
    pub(crate) variables: BTreeMap<String, String>,
}

impl Input {
    pub(crate) fn new(arguments: &Value, passing: Passing) -> Result<Self, ToolError> {
        let empty = Map::new();
        let arguments = arguments.as_object().unwrap_or(&empty);
        let stdin = serde_json::to_vec(arguments)?;
        let mut input = Self { stdin, variables: BTreeMap::new() };
        if passing == Passing::Both {
            let mut from: BTreeMap<String, &str> = BTreeMap::new();
            for (name, value) in arguments {
                let variable = variable(name);
                if let Some(other) = from.insert(variable.clone(), name) {
                    return Err(ToolError::new(format!(
                        "arguments {other:?} and {name:?} would both be {variable}; send one of them"
                    )));
                }
                let text = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                input.set(&format!("argument {name:?}"), variable, text)?;
            }
        }
        Ok(input)
    }

    /// Adds a variable that is no argument, and is therefore nothing that an argument can be called.
    pub(crate) fn own(&mut self, name: &str, value: &str) -> Result<(), ToolError> {
        self.set(name, name.to_owned(), value.to_owned())
    }

    fn set(&mut self, what: &str, name: String, value: String) -> Result<(), ToolError> {
        if value.contains('\0') {
            return Err(ToolError::new(format!(
                "{what} has a zero byte in it, which no program can be given; send it without"
            )));
        }
        let size = name.len() + value.len() + 2;
        if size > LARGEST {
            return Err(ToolError::new(format!(
                "{what} has {} bytes, and a program can be given {} of it; send less, or have the agent file say \
                 `arguments = \"stdin\"` for this tool",
                value.len(),
                LARGEST - name.len() - 2
            )));
        }
        self.variables.insert(name, value);
        Ok(())
    }
}

/// The variable that an argument is: capitals, and `_` for all that shells cannot name.
pub(crate) fn variable(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    PREFIX.chars().chain(name.chars().map(plain)).collect()
}

/// Whether a variable of the caller's would be taken for one of the call's.
pub(crate) fn is_ours(name: &[u8]) -> bool {
    name.starts_with(PREFIX.as_bytes()) || [TOOL, INVOCATION, KEY].iter().any(|own| own.as_bytes() == name)
}
