//! The walk along the schema: which keys there are, what is mandatory, and of which type everything is. It knows only what
//! the schema of agent files uses of JSON Schema; a test sees to that.

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};
use wink::tool::schema::{may_mean, nearest};

use super::rules::{Kind, Rules, Schema};
use crate::problem::{Problems, Span};

/// Whether what is missing is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Reported,
    Ignored,
}

/// Reports what does not fit the schema, and takes it out of the table.
pub(super) fn walk(
    rules: &Rules<'_>,
    table: &mut Spanned<DeTable<'_>>,
    missing: Missing,
    problems: &mut Problems,
) {
    let span = table.span();
    Walk { root: rules, missing, depth: 0, problems }.table(rules, table.get_mut(), &span);
}

/// How deep a file may be nested: what is made of it is walked and dropped by functions that call themselves.
const DEEPEST: usize = 100;

struct Walk<'s, 'p> {
    root: &'s Rules<'s>,
    missing: Missing,
    depth: usize,
    problems: &'p mut Problems,
}

impl<'s> Walk<'s, '_> {
    /// Whether the value can be decoded, once what does not fit inside it was taken out.
    fn fits(&mut self, schema: &'s Schema<'s>, value: &mut Spanned<DeValue<'_>>) -> bool {
        self.deeper(value, |walk, value| walk.fits_here(schema, value))
    }

    /// Goes one level down, if there is one.
    fn deeper<'v>(
        &mut self,
        value: &mut Spanned<DeValue<'v>>,
        go: impl FnOnce(&mut Self, &mut Spanned<DeValue<'v>>) -> bool,
    ) -> bool {
        if self.depth == DEEPEST {
            let message = format!("this is nested deeper than {DEEPEST} levels");
            self.problems.hint(&value.span(), message, "put fewer tables and lists into each other");
            return false;
        }
        self.depth += 1;
        let fits = go(self, value);
        self.depth -= 1;
        fits
    }

    fn fits_here(&mut self, schema: &'s Schema<'s>, value: &mut Spanned<DeValue<'_>>) -> bool {
        let span = value.span();
        let Some(rules) = self.root.resolve(schema) else { return self.any(value) };
        if let Some(names) = rules.choices() {
            return self.choice(&names, value.get_ref(), &span);
        }
        let wanted = match (rules.kind, value.get_ref()) {
            (None, _) => return self.any(value),
            (Some(Kind::Only(wanted)), _) => wanted,
            (Some(Kind::TableOrList), DeValue::Array(_)) => "array",
            (Some(Kind::TableOrList), _) => "object",
        };
        match (wanted, value.get_mut()) {
            ("object", DeValue::Table(table)) => {
                self.table(rules, table, &span);
                true
            }
            ("array", DeValue::Array(items)) => self.array(rules, items, &span),
            ("string", DeValue::String(_)) | ("boolean", DeValue::Boolean(_)) => true,
            ("integer" | "number", DeValue::Integer(number)) => {
                let value = i64::from_str_radix(number.as_str(), number.radix()).ok();
                self.bounded(rules, number.as_str(), value.map(|value| value as f64), &span)
            }
            ("number", DeValue::Float(number)) => {
                let value = number.as_str().parse().ok().filter(|value: &f64| value.is_finite());
                self.bounded(rules, number.as_str(), value, &span)
            }
            (wanted, found) => {
                let message = format!("expected {}, found {}", article(wanted), kind(found));
                self.problems.hint(&span, message, mend(wanted, found));
                false
            }
        }
    }

    /// How something is written that is missing, and what it is for.
    fn example(&self, name: &str, schema: Option<&'s Schema<'s>>) -> String {
        let rules = schema.and_then(|schema| self.root.resolve(schema));
        let written = match rules.and_then(|rules| rules.kind) {
            _ if rules.is_some_and(|rules| rules.choices().is_some()) => format!("{name} = \"…\""),
            Some(Kind::Only("object")) if self.depth == 0 => format!("[{name}]"),
            Some(Kind::Only("object") | Kind::TableOrList) => format!("{name} = {{ … }}"),
            Some(Kind::Only("array")) => format!("{name} = [ … ]"),
            Some(Kind::Only("string")) => format!("{name} = \"…\""),
            _ => format!("{name} = …"),
        };
        let own = match schema {
            Some(Schema::Rules(own)) => Some(&**own),
            Some(Schema::Any(_)) | None => None,
        };
        // What is said of the field says more than what is said of its type.
        match [own, rules].into_iter().flatten().map(|rules| &rules.description).find(|said| !said.is_empty())
        {
            Some(description) => format!("add `{written}`: {description}"),
            None => format!("add `{written}`"),
        }
    }

    fn table(&mut self, rules: &'s Rules<'s>, table: &mut DeTable<'_>, span: &Span) {
        let before = self.problems.count();
        if self.missing == Missing::Reported {
            for name in rules.required.iter().filter(|name| !table.contains_key(**name)) {
                let hint = self.example(name, rules.properties.get(name));
                self.problems.hint(span, format!("`{name}` is missing"), hint);
            }
        }
        let count = table.len() as u64;
        let known = || rules.properties.names();
        let mut out: Vec<String> = Vec::new();
        let mut beyond = None;
        for (at, (key, value)) in table.iter_mut().enumerate() {
            let name = key.get_ref().as_ref();
            let fits = match rules.properties.get(name).or(rules.additional_properties.as_ref()) {
                Some(Schema::Any(false)) | None => {
                    self.unknown(name, &key.span(), known());
                    false
                }
                Some(schema) => self.fits(schema, value),
            };
            if !fits {
                out.push(name.to_owned());
            }
            if rules.max_properties == Some(at as u64) {
                beyond = Some(key.span());
            }
        }
        for name in &out {
            table.remove(name.as_str());
        }
        if self.problems.count() > before {
            // What is wrong inside is enough: it may be why there are too many or too few.
            return;
        }
        let names = || list(known());
        if let Some(span) = beyond {
            let message = "only one of these keys can be set here, and this is the second";
            self.problems.hint(&span, message, "give each a table of its own");
        } else if rules.min_properties.is_some_and(|least| count < least) {
            self.problems.hint(span, "one of the keys has to be set here", format!("they are {}", names()));
        }
    }

    fn array(&mut self, rules: &'s Rules<'s>, items: &mut DeArray<'_>, span: &Span) -> bool {
        if rules.min_items.is_some_and(|least| (items.len() as u64) < least) {
            self.problems.hint(span, "the list is empty", "put something into it: [ … ]");
            return false;
        }
        let Some(schema) = &rules.items else { return true };
        let fits: Vec<bool> = items.iter_mut().map(|item| self.fits(schema, item)).collect();
        if fits.contains(&false) {
            let mut kept = DeArray::new();
            for (item, _) in items.iter().zip(fits).filter(|(_, fits)| *fits) {
                kept.push(item.clone());
            }
            *items = kept;
        }
        true
    }

    fn bounded(&mut self, rules: &Rules<'_>, written: &str, number: Option<f64>, span: &Span) -> bool {
        let (least, most) = (rules.minimum, rules.largest());
        let inside =
            |number: f64| least.is_none_or(|least| number >= least) && most.is_none_or(|most| number <= most);
        if number.is_some_and(inside) {
            return true;
        }
        let hint = match (least, most) {
            (Some(least), Some(most)) => format!("write a number from {least} to {most}"),
            (Some(least), None) => format!("write a number of at least {least}"),
            (None, Some(most)) => format!("write a number of at most {most}"),
            (None, None) => PLAIN_NUMBER.to_owned(),
        };
        self.problems.hint(span, format!("{written} cannot be used here"), hint);
        false
    }

    fn choice(&mut self, names: &[&str], value: &DeValue<'_>, span: &Span) -> bool {
        match value {
            DeValue::String(text) if names.contains(&text.as_ref()) => true,
            DeValue::String(text) => {
                let hint = did_you_mean(text, names.iter().copied())
                    .unwrap_or_else(|| format!("it can be {}", list(names.iter().copied())));
                self.problems.hint(span, format!("there is no `{text}` to choose here"), hint);
                false
            }
            other => {
                let message = format!("expected a text, found {}", kind(other));
                self.problems.hint(span, message, format!("it can be {}", list(names.iter().copied())));
                false
            }
        }
    }

    fn unknown<'n>(&mut self, name: &str, span: &Span, known: impl Iterator<Item = &'n str> + Clone) {
        if name == "mcp" {
            self.problems.hint(
                span,
                "`mcp` is not built yet: other MCP servers' tools cannot be used",
                "remove it; tools come from `suites` and from commands ([[section.tool]])",
            );
            return;
        }
        let hint =
            did_you_mean(name, known.clone()).unwrap_or_else(|| format!("known keys are {}", list(known)));
        self.problems.hint(span, format!("unknown key `{name}`"), hint);
    }

    /// Whether a value that may be anything can be said in JSON as well. All that cannot is reported.
    fn any(&mut self, value: &mut Spanned<DeValue<'_>>) -> bool {
        let span = value.span();
        match value.get_mut() {
            DeValue::String(_) | DeValue::Boolean(_) => true,
            DeValue::Integer(number) => {
                let fits = i64::from_str_radix(number.as_str(), number.radix()).is_ok();
                if !fits {
                    let hint = "write it as a text, in quotes, or a smaller one";
                    self.problems.hint(&span, "this number is too large", hint);
                }
                fits
            }
            DeValue::Float(number) => {
                let fits = number.as_str().parse().is_ok_and(|number: f64| number.is_finite());
                if !fits {
                    let message = format!("{} cannot be used here", number.as_str());
                    self.problems.hint(&span, message, PLAIN_NUMBER);
                }
                fits
            }
            DeValue::Datetime(_) => {
                self.problems.hint(&span, "a date cannot be used here", "write it as a text, in quotes");
                false
            }
            // Every part is looked at, whatever was found in another.
            DeValue::Array(items) => {
                items.iter_mut().fold(true, |fits, item| self.deeper(item, Self::any) & fits)
            }
            DeValue::Table(table) => {
                table.iter_mut().fold(true, |fits, (_, value)| self.deeper(value, Self::any) & fits)
            }
        }
    }
}

/// `did you mean …`, if something may be meant.
pub(crate) fn did_you_mean<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone) -> Option<String> {
    // Of one or two letters, any other may be meant.
    let near = nearest(name, known.filter(|known| known.len() > 2 && may_mean(name, known)))?;
    Some(format!("did you mean `{near}`?"))
}

/// What may be meant by a name, or else which names there are of what was to be named.
pub(crate) fn meant<'n>(name: &str, known: impl Iterator<Item = &'n str> + Clone, what: &str) -> String {
    /// More are no help.
    const NAMED: usize = 20;
    did_you_mean(name, known.clone()).unwrap_or_else(|| match known.clone().count() {
        0 => format!("there are no {what}: add one, or remove this"),
        count if count > NAMED => format!("the {what} are {} and others", listed(known.take(NAMED))),
        _ => format!("the {what} are {}", list(known)),
    })
}

fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// `a`, `b` and `c`.
pub(crate) fn list<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.pop() {
        None => "none".to_owned(),
        Some(last) if names.is_empty() => last,
        Some(last) => format!("{} and {last}", names.join(", ")),
    }
}

fn article(wanted: &str) -> &str {
    match wanted {
        "object" => "a table",
        "array" => "a list",
        "string" => "a text",
        "boolean" => "true or false",
        "integer" => "a whole number",
        _ => "a number",
    }
}

fn kind(found: &DeValue<'_>) -> &'static str {
    match found {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(true) => "true",
        DeValue::Boolean(false) => "false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// What is usually meant.
fn mend(wanted: &str, found: &DeValue<'_>) -> &'static str {
    match (wanted, found) {
        ("array", DeValue::Table(_)) => "there can be several: write its name in double brackets, [[…]]",
        ("array", _) => "put it in brackets: [ … ]",
        ("object", DeValue::Array(_)) => "there is one: write its name in single brackets, […]",
        ("object", _) => "give it keys of its own, in braces: { key = … }",
        ("string", DeValue::Table(_) | DeValue::Array(_)) => "write one text, in quotes",
        ("string", _) => "put it in quotes",
        ("boolean", _) => "write true or false, without quotes",
        ("integer", DeValue::Float(_)) => "write it without a point",
        (_, DeValue::String(_)) => "write it without quotes",
        _ => "write a number, such as 10",
    }
}

const PLAIN_NUMBER: &str = "write a number with digits, such as 10 or 0.5";
