//! Keeping sensitive values out of everything that is recorded or shown.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::CompiledSchema;
use super::ParseLimits;
use super::error::SchemaError;
use super::nearest;
use super::node::{NodeId, Types};
use super::pointer::definition;
use super::problem::may_mean;
use super::scan::{Halt, Scanner};
use crate::tool::secret::{MASK, SENSITIVE_KEYWORD};

/// What stands for arguments that cannot be read and may hold something sensitive.
const WITHHELD: &str = "[withheld: unreadable arguments of a tool with sensitive parameters]";

impl CompiledSchema {
    /// The arguments with every sensitive value replaced by `"***"`.
    ///
    /// Made for arguments that were rejected as much as for valid ones: a field that may be a misspelt sensitive
    /// one is masked, and text that is no JSON is withheld as a whole.
    pub fn mask<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.has_sensitive() || text.trim_ascii().is_empty() {
            return Cow::Borrowed(text);
        }
        let scan = Scanner::new(text, ParseLimits::MAX_DEPTH);
        let mut masker = Masker { schema: self, scan, out: String::with_capacity(text.len()), copied: 0 };
        let read = masker.value(&[0], 0).is_ok() && masker.scan.peek().is_none();
        if !read {
            return Cow::Borrowed(WITHHELD);
        }
        masker.copy(text.len());
        Cow::Owned(masker.out)
    }

    /// Names of the fields that are, or lead to, something sensitive.
    pub(super) fn sensitive_names(&self) -> Vec<String> {
        let properties =
            self.nodes().iter().filter_map(|node| node.object.as_ref()).flat_map(|rules| rules.declared());
        let sensitive =
            properties.filter(|property| self.node(property.node).is_some_and(|node| node.sensitive));
        sensitive.map(|property| property.name.clone()).collect()
    }

    /// What describes the field `name`, and whether the schema knows it by name.
    pub(super) fn fields(&self, views: &[NodeId], name: &str) -> (Vec<NodeId>, bool) {
        let mut inner = Vec::new();
        let mut declared = false;
        for rules in views.iter().filter_map(|id| self.node(*id)?.object.as_ref()) {
            let property = rules.find(name).and_then(|index| rules.properties.get(index));
            if let Some(property) = property.filter(|property| property.declared) {
                declared = true;
                inner.push(property.node);
                continue;
            }
            inner
                .extend(rules.patterns.iter().filter(|(p, _)| p.regex.is_match(name)).map(|(_, node)| *node));
            inner.extend(rules.additional.node());
        }
        (inner, declared)
    }
}

struct Masker<'s, 't> {
    schema: &'s CompiledSchema,
    scan: Scanner<'t>,
    out: String,
    copied: usize,
}

impl Masker<'_, '_> {
    fn copy(&mut self, end: usize) {
        self.out.push_str(self.scan.slice(self.copied, end));
        self.copied = end;
    }

    fn hide(&mut self, depth: usize) -> Result<(), Halt> {
        self.scan.peek();
        self.copy(self.scan.pos);
        self.scan.skip(depth)?;
        self.copied = self.scan.pos;
        self.out.push('"');
        self.out.push_str(MASK);
        self.out.push('"');
        Ok(())
    }

    /// Copies one value that `nodes` describe; which of them applies does not matter: any may be the right one.
    fn value(&mut self, nodes: &[NodeId], depth: usize) -> Result<(), Halt> {
        let schema = self.schema;
        let mut views: Vec<NodeId> = nodes.to_vec();
        let mut index = 0;
        while let Some(node) = views.get(index).and_then(|id| schema.node(*id)) {
            for child in node.same_value() {
                if !views.contains(&child) {
                    views.push(child);
                }
            }
            index += 1;
        }
        let byte = self.scan.peek().unwrap_or_default();
        let here = Types::starting_with(byte);
        let described = || views.iter().filter_map(|id| schema.node(*id));
        let misplaced = described().any(|node| node.holds_sensitive && !node.reach.meets(here));
        let expected = described().any(|node| node.holds_sensitive && node.reach.meets(here));
        if described().any(|node| node.sensitive) || misplaced && !expected {
            return self.hide(depth);
        }
        match byte {
            b'{' => {
                let mut more = self.scan.open(depth, b'}')?;
                while more {
                    let name = self.scan.key()?.text();
                    let (inner, declared) = schema.fields(&views, &name);
                    if !declared && schema.hidden_names().iter().any(|hidden| may_mean(&name, hidden)) {
                        self.hide(depth + 1)?;
                    } else {
                        self.value(&inner, depth + 1)?;
                    }
                    more = self.scan.more(b'}')?;
                }
                Ok(())
            }
            b'[' => {
                let mut more = self.scan.open(depth, b']')?;
                let mut index = 0;
                while more {
                    let arrays = described().filter_map(|node| node.array.as_ref());
                    let inner: Vec<NodeId> =
                        arrays.filter_map(|rules| rules.prefix.get(index).copied().or(rules.items)).collect();
                    self.value(&inner, depth + 1)?;
                    index += 1;
                    more = self.scan.more(b']')?;
                }
                Ok(())
            }
            _ => self.scan.skip(depth),
        }
    }
}

/// Marks the field at a dotted path (`auth.token`; lists are passed through) as sensitive.
pub fn mark_sensitive(schema: &mut Value, field: &str) -> Result<(), SchemaError> {
    let steps: Vec<&str> = field.split('.').collect();
    let mut walk =
        Marking { queue: vec![(String::new(), 0)], seen: Vec::new(), names: Vec::new(), marked: false };
    while let Some((place, step)) = walk.queue.pop() {
        if walk.seen.contains(&(place.clone(), step)) {
            continue;
        }
        walk.seen.push((place.clone(), step));
        if let Some(fields) = schema.pointer_mut(&place).and_then(Value::as_object_mut) {
            walk.visit(fields, &place, steps.get(step).copied().unwrap_or_default(), step, steps.len());
        }
    }
    if walk.marked {
        return Ok(());
    }
    let last = steps.last().copied().unwrap_or_default();
    let suggestion = nearest(last, walk.names.iter().map(String::as_str).filter(|name| may_mean(last, name)))
        .map(str::to_owned);
    Err(SchemaError::NoSuchField { field: field.to_owned(), suggestion })
}

struct Marking {
    /// Places still to visit, each with how many steps of the path lie behind it.
    queue: Vec<(String, usize)>,
    seen: Vec<(String, usize)>,
    names: Vec<String>,
    marked: bool,
}

impl Marking {
    fn visit(&mut self, fields: &mut Map<String, Value>, place: &str, name: &str, step: usize, steps: usize) {
        if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
            match definition(reference) {
                Some(definition) => {
                    let section = if reference.starts_with("#/$defs/") { "$defs" } else { "definitions" };
                    let definition = definition.replace('~', "~0").replace('/', "~1");
                    self.queue.push((format!("/{section}/{definition}"), step));
                }
                None => self.queue.push((String::new(), step)),
            }
        }
        for keyword in ["allOf", "anyOf", "oneOf", "prefixItems"] {
            let count = fields.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
            self.queue.extend((0..count).map(|index| (format!("{place}/{keyword}/{index}"), step)));
        }
        if fields.get("items").is_some_and(Value::is_object) {
            self.queue.push((format!("{place}/items"), step));
        }
        let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) else { return };
        self.names.extend(properties.keys().cloned());
        let Some(property) = properties.get_mut(name) else { return };
        if step + 1 < steps {
            let name = name.replace('~', "~0").replace('/', "~1");
            self.queue.push((format!("{place}/properties/{name}"), step + 1));
            return;
        }
        if property == &Value::Bool(true) {
            *property = Value::Object(Map::new());
        }
        if let Value::Object(property) = property {
            property.insert("writeOnly".to_owned(), true.into());
            property.insert(SENSITIVE_KEYWORD.to_owned(), true.into());
            property.shift_remove("default");
            property.shift_remove("examples");
            self.marked = true;
        }
    }
}
