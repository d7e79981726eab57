//! Body and summary templates: `${field}`, `$field`, and `$$` for a dollar sign.
//!
//! A template is taken apart once, at construction. Filling it in copies values between the pieces, so a value
//! that looks like a placeholder is just text.

use serde_json::{Map, Value};

/// A text with placeholders, dedented, stripped and taken apart: what bodies and summaries of sections are.
///
/// ```
/// use wink::prompt::Text;
///
/// let text = Text::compile("deploy ${environment} for $$5")?;
/// assert_eq!(text.placeholders().collect::<Vec<_>>(), ["environment"]);
/// let values = wink::serde_json::json!({ "environment": "staging" });
/// assert_eq!(text.fill(values.as_object()), "deploy staging for $5");
/// # Ok::<(), wink::prompt::StrayDollar>(())
/// ```
#[derive(Debug, Clone)]
pub struct Text {
    source: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Field(String),
}

/// A `$` that is no placeholder, and what follows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("stray $ at {near:?}; write $$ for a dollar sign")]
pub struct StrayDollar {
    /// It, and what follows it.
    pub near: String,
}

impl Text {
    /// Takes a template apart.
    ///
    /// # Errors
    /// When a `$` is no placeholder.
    pub fn compile(raw: &str) -> Result<Self, StrayDollar> {
        let (text, strays) = Self::compile_all(raw);
        strays.into_iter().next().map_or(Ok(text), Err)
    }

    /// Takes a template apart, and tells of every `$` that is no placeholder. Such a one is just text: for whoever wants to
    /// know all that is wrong.
    pub fn compile_all(raw: &str) -> (Self, Vec<StrayDollar>) {
        let source = dedent(raw);
        let (parts, strays) = split(&source);
        (Self { source, parts }, strays)
    }

    /// The template as it was written, dedented and stripped.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The fields it names, in order.
    pub fn placeholders(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Field(name) => Some(name.as_str()),
            Part::Literal(_) => None,
        })
    }

    /// The text with `values` in place. A value that is not there is nothing.
    pub fn fill(&self, values: Option<&Map<String, Value>>) -> String {
        let mut out = String::with_capacity(self.source.len());
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Field(name) => match values.and_then(|values| values.get(name)) {
                    None | Some(Value::Null) => {}
                    Some(Value::String(text)) => out.push_str(text),
                    Some(other) => out.push_str(&other.to_string()),
                },
            }
        }
        out
    }
}

fn split(source: &str) -> (Vec<Part>, Vec<StrayDollar>) {
    let (mut parts, mut strays) = (Vec::new(), Vec::new());
    let mut literal = String::new();
    let mut rest = source;
    while let Some((before, from)) = rest.split_once('$') {
        literal.push_str(before);
        if let Some(after) = from.strip_prefix('$') {
            literal.push('$');
            rest = after;
            continue;
        }
        let Some((name, after)) = placeholder(from) else {
            let near: String = std::iter::once('$').chain(from.chars().take(12)).collect();
            strays.push(StrayDollar { near });
            literal.push('$');
            rest = from;
            continue;
        };
        if !literal.is_empty() {
            parts.push(Part::Literal(std::mem::take(&mut literal)));
        }
        parts.push(Part::Field(name.to_owned()));
        rest = after;
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        parts.push(Part::Literal(literal));
    }
    (parts, strays)
}

/// The name after a `$`, and what comes after it. Braces take any name, for fields that serde renames.
fn placeholder(text: &str) -> Option<(&str, &str)> {
    if let Some(braced) = text.strip_prefix('{') {
        let (name, after) = braced.split_once('}')?;
        let fits = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '{' || c == '$');
        return fits.then_some((name, after));
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, after) = text.split_at_checked(end)?;
    let fits = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    fits.then_some((name, after))
}

/// Takes away the indentation that all lines share, and whitespace around the whole.
fn dedent(text: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let mut common: Option<&str> = None;
    for line in text.split('\n').filter(|line| !line.trim().is_empty()) {
        let own = line.get(..indent(line)).unwrap_or_default();
        common = Some(common.map_or(own, |common| shared_prefix(common, own)));
    }
    let common = common.unwrap_or_default();
    let line = |line| if str::trim(line).is_empty() { "" } else { line.strip_prefix(common).unwrap_or(line) };
    let lines: Vec<&str> = text.split('\n').map(line).collect();
    lines.join("\n").trim().to_owned()
}

fn shared_prefix<'a>(a: &'a str, b: &str) -> &'a str {
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    // Indentation is ASCII, so every byte is a boundary.
    a.get(..same).unwrap_or_default()
}

#[cfg(test)]
mod tests;
