//! One form for all the ways to write the same arguments: what idempotency keys are made of.
//!
//! It is made from the accepted text, not from the decoded parameters, which may hide some of it (fields that are
//! never serialised) and may have another order each time (sets and maps of a hash).

use serde_json::{Map, Number, Value};

use super::findings::Path;
use super::node::{NodeId, Omitted, Property, Types, Union};
use super::number::whole_digits;
use super::walk::{Stop, Walker};
use super::{CompiledSchema, ParseLimits, decode};
use crate::support::canonical::{canonical, canonical_hash};

impl CompiledSchema {
    /// Accepted arguments in the one form that all their spellings share: keys are sorted, lists of unique items too,
    /// defaults are written out, numbers stand for their value, and what is sensitive is replaced by its hash.
    pub(crate) fn uniform(&self, text: &str, typed: Typed<'_>) -> Option<Value> {
        let text = if text.trim_ascii().is_empty() { "{}" } else { text };
        Uniform::new(self, text, Vec::new()).value(&[0], typed, 0).ok()
    }
}

/// The decoded parameters as they serialise: they tell which omitted fields mean the same as null, or as an empty value
/// that their type does not write.
#[derive(Clone, Copy)]
pub(crate) enum Typed<'v> {
    /// Nothing is decoded: what was omitted is not there, and null is null.
    AsWritten,
    /// This is what was decoded.
    Known(&'v Value),
    /// It cannot be told what was decoded here. Omitting what can be null mostly means null.
    Unknown,
}

impl<'v> Typed<'v> {
    /// What is known of a part.
    fn part(self, find: impl FnOnce(&'v Value) -> Option<&'v Value>) -> Self {
        match self {
            Self::Known(value) => find(value).map_or(Self::Unknown, Self::Known),
            Self::AsWritten | Self::Unknown => self,
        }
    }
}

/// How many defaults inside each other are written out.
const MOST_DEFAULTS: usize = 4;

struct Uniform<'s, 't> {
    schema: &'s CompiledSchema,
    walker: Walker<'s, 't>,
    /// The defaults that this is inside of. None is written out inside itself: that might never end.
    inside: Vec<NodeId>,
}

impl<'s, 't> Uniform<'s, 't> {
    fn new(schema: &'s CompiledSchema, text: &'t str, inside: Vec<NodeId>) -> Self {
        Self { schema, walker: Walker::new(schema.nodes(), text, ParseLimits::MAX_DEPTH), inside }
    }

    /// The next value, which `nodes` describe and which stands inside `depth` others.
    fn value(&mut self, nodes: &[NodeId], typed: Typed<'_>, depth: usize) -> Result<Value, Stop> {
        let first = self.walker.scan.peek().unwrap_or_default();
        let views = self.views(nodes, Types::starting_with(first), depth)?;
        let value = match first {
            b'{' => Value::Object(self.object(&views, typed, depth)?),
            b'[' => Value::Array(self.list(&views, typed, depth)?),
            _ => self.scalar(depth)?,
        };
        let sensitive = views.iter().any(|id| self.walker.node(*id).sensitive);
        Ok(if sensitive { format!("blake3:{}", canonical_hash(&value)).into() } else { value })
    }

    /// All nodes that describe the next value; of a union, the branch that it fits.
    fn views(&mut self, nodes: &[NodeId], here: Types, depth: usize) -> Result<Vec<NodeId>, Stop> {
        let mut views = nodes.to_vec();
        let mut index = 0;
        while let Some(id) = views.get(index) {
            if let Some(combine) = &self.walker.node(*id).combine {
                let mut more = combine.all.clone();
                for union in &combine.unions {
                    more.extend(self.branch(union, here, depth)?);
                }
                more.retain(|id| !views.contains(id));
                views.extend(more);
            }
            index += 1;
        }
        Ok(views)
    }

    fn branch(&mut self, union: &'s Union, here: Types, depth: usize) -> Result<Option<NodeId>, Stop> {
        let fitting = union.branches.iter().filter(|id| self.walker.node(**id).reach.meets(here));
        let candidates: Vec<NodeId> = fitting.copied().collect();
        if let [only] = candidates.as_slice() {
            return Ok(Some(*only));
        }
        let start = self.walker.scan.pos;
        for id in candidates {
            let fits = self.walker.probe(id, start, &Path::ROOT, depth)?.is_some();
            self.walker.scan.pos = start;
            if fits {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    fn object(
        &mut self,
        views: &[NodeId],
        typed: Typed<'_>,
        depth: usize,
    ) -> Result<Map<String, Value>, Stop> {
        let mut fields = Map::new();
        let mut more = self.walker.scan.open(depth, b'}')?;
        while more {
            let name = self.walker.scan.key()?.text().into_owned();
            let (inner, _) = self.schema.fields(views, &name);
            let value = self.value(&inner, typed.part(|typed| typed.get(&name)), depth + 1)?;
            fields.insert(name, value);
            more = self.walker.scan.more(b'}')?;
        }
        let rules = views.iter().filter_map(|id| self.schema.node(*id)?.object.as_ref());
        for property in rules.flat_map(|rules| rules.declared()).filter(|property| !property.required) {
            self.omitted(&mut fields, property, typed);
        }
        fields.sort_keys();
        Ok(fields)
    }

    /// Makes an optional property look the same whether it was written or left out, where that means the same.
    fn omitted(&self, fields: &mut Map<String, Value>, property: &Property, typed: Typed<'_>) {
        let name = &property.name;
        match (&property.omitted, fields.get(name)) {
            (Omitted::Is(_), Some(_)) | (Omitted::Unknown, _) => {}
            (Omitted::Is(default), None) => {
                if self.inside.len() < MOST_DEFAULTS && !self.inside.contains(&property.node) {
                    let (text, mut inside) = (default.to_string(), self.inside.clone());
                    inside.push(property.node);
                    let written =
                        Uniform::new(self.schema, &text, inside).value(&[property.node], Typed::AsWritten, 0);
                    fields.insert(name.clone(), written.unwrap_or_else(|_| Value::clone(default)));
                }
            }
            (Omitted::AsTyped, None) => {
                // An option without a default.
                if let Typed::Known(typed) = typed
                    && typed.get(name) == Some(&Value::Null)
                    && self.takes_null(property)
                {
                    fields.insert(name.clone(), Value::Null);
                }
            }
            (Omitted::AsTyped, Some(value)) => {
                let takes_null = self.takes_null(property);
                let same = match typed {
                    Typed::AsWritten => false,
                    // Types that leave out what is empty read it back from nothing.
                    Typed::Known(Value::Object(typed)) if !typed.contains_key(name) => {
                        if takes_null {
                            value.is_null()
                        } else {
                            is_empty(value)
                        }
                    }
                    Typed::Known(_) => false,
                    Typed::Unknown => takes_null && value.is_null(),
                };
                if same {
                    fields.shift_remove(name);
                }
            }
        }
    }

    fn takes_null(&self, property: &Property) -> bool {
        self.walker.node(property.node).reach.meets(Types::NULL)
    }

    fn list(&mut self, views: &[NodeId], typed: Typed<'_>, depth: usize) -> Result<Vec<Value>, Stop> {
        let schema = self.schema;
        let rules = || views.iter().filter_map(|id| schema.node(*id)?.array.as_ref());
        let is_set = rules().any(|rules| rules.unique);
        // The decoded form of a set may have any order: which item is which cannot be told.
        let typed = if is_set { typed.part(|_| None) } else { typed };
        let mut items = Vec::new();
        let mut more = self.walker.scan.open(depth, b']')?;
        while more {
            let at = items.len();
            let inner: Vec<NodeId> =
                rules().filter_map(|rules| rules.prefix.get(at).copied().or(rules.items)).collect();
            items.push(self.value(&inner, typed.part(|typed| typed.get(at)), depth + 1)?);
            more = self.walker.scan.more(b']')?;
        }
        if is_set {
            items.sort_by_cached_key(canonical);
        }
        Ok(items)
    }

    fn scalar(&mut self, depth: usize) -> Result<Value, Stop> {
        let start = self.walker.scan.pos;
        self.walker.scan.skip(depth)?;
        let text = self.walker.scan.slice(start, self.walker.scan.pos);
        Ok(match decode::parse(text).map_err(|_| Stop::Halt)? {
            Value::Number(number) => Value::Number(plain(number)),
            value => value,
        })
    }
}

/// What `Default` gives for most types.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// `1.0` and `1` are one number, and so are `1e19` and its digits: a float stands for the decimal that it is printed as.
fn plain(number: Number) -> Number {
    let Some(digits) = whole_digits(&number.to_string()).filter(|_| number.is_f64()) else { return number };
    let whole = digits.parse::<u64>().map(Number::from).or_else(|_| digits.parse::<i64>().map(Number::from));
    whole.unwrap_or(number)
}
