//! Nulls that stand for nothing.
//!
//! In OpenAI's strict mode a model cannot leave out a parameter; it writes null instead. Where null is no value of the parameter,
//! it is cut out again, so that the executor sees what the model meant. Everything else stays byte for byte, which is why the text
//! is cut and not written anew.

use std::borrow::Cow;
use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::Value;

use super::{admits_null, resolve};

/// Deeper than the executor takes arguments nothing is looked at.
const MAX_DEPTH: usize = 128;
/// Schemas that may describe one value.
const MAX_CANDIDATES: usize = 64;

/// The text without members that are null, are not required, and may not be null, by the schema before it was lowered.
///
/// What is no JSON stays as it is.
#[must_use]
pub fn without_nulls<'a>(text: &'a str, schema: &Value) -> Cow<'a, str> {
    if !text.contains("null") || serde_json::from_str::<IgnoredAny>(text).is_err() {
        return Cow::Borrowed(text);
    }
    let mut cutter = Cutter { text, at: 0, root: schema, cuts: Vec::new() };
    cutter.value(&[schema], 0);
    cutter.cut()
}

struct Cutter<'a, 's> {
    text: &'a str,
    at: usize,
    root: &'s Value,
    cuts: Vec<Range<usize>>,
}

/// A member of an object: where all of it is, and where its value is.
struct Member {
    name: String,
    all: Range<usize>,
    value: usize,
}

impl<'a, 's> Cutter<'a, 's> {
    fn cut(mut self) -> Cow<'a, str> {
        if self.cuts.is_empty() {
            return Cow::Borrowed(self.text);
        }
        self.cuts.sort_by_key(|cut| cut.start);
        let mut kept = String::with_capacity(self.text.len());
        let mut from = 0;
        for cut in &self.cuts {
            kept.push_str(self.text.get(from..cut.start).unwrap_or_default());
            from = cut.end;
        }
        kept.push_str(self.text.get(from..).unwrap_or_default());
        Cow::Owned(kept)
    }

    /// Looks through the value that begins here, which one of these schemas describes, and ends behind it.
    fn value(&mut self, schemas: &[&'s Value], depth: usize) {
        self.skip_space();
        let end = self.end_of_value();
        if depth < MAX_DEPTH && !schemas.is_empty() {
            let candidates = self.candidates(schemas);
            match self.peek() {
                Some(b'{') => self.object(candidates, depth),
                Some(b'[') => {
                    let items: Vec<_> = candidates.iter().filter_map(|schema| schema.get("items")).collect();
                    self.array(&items, depth);
                }
                _ => {}
            }
        }
        self.at = end;
    }

    fn object(&mut self, mut candidates: Vec<&'s Value>, depth: usize) {
        let members = self.members();
        candidates.retain(|schema| members.iter().all(|member| self.may_be(schema, member)));
        let cut: Vec<bool> = members.iter().map(|member| self.is_nothing(&candidates, member)).collect();
        let kept = cut.iter().rposition(|cut| !cut);
        for (number, (member, cut)) in members.iter().zip(&cut).enumerate() {
            match (cut, members.get(number + 1)) {
                (false, _) => {
                    let schemas: Vec<_> =
                        candidates.iter().filter_map(|schema| property(schema, &member.name)).collect();
                    self.at = member.value;
                    self.value(&schemas, depth + 1);
                }
                // With the comma behind it, unless only what is cut follows.
                (true, Some(next)) if kept.is_some_and(|kept| number < kept) => {
                    self.cuts.push(member.all.start..next.all.start);
                }
                (true, _) => {
                    let start = match kept.and_then(|kept| members.get(kept)) {
                        Some(last) => last.all.end,
                        None => member.all.start,
                    };
                    let end = members.last().map_or(member.all.end, |last| last.all.end);
                    self.cuts.push(start..end);
                    break;
                }
            }
        }
    }

    fn array(&mut self, items: &[&'s Value], depth: usize) {
        self.at += 1;
        loop {
            self.skip_space();
            match self.peek() {
                None | Some(b']') => break,
                Some(b',') => self.at += 1,
                Some(_) => self.value(items, depth + 1),
            }
        }
    }

    /// Whether a member is written only because something has to be.
    fn is_nothing(&self, candidates: &[&'s Value], member: &Member) -> bool {
        let mut known = false;
        self.raw(member) == "null"
            && candidates.iter().all(|schema| match property(schema, &member.name) {
                None => true,
                Some(described) => {
                    known = true;
                    !requires(schema, &member.name) && !admits_null(self.root, described)
                }
            })
            && known
    }

    /// Whether a schema may be the one of several that is meant: a tag says what an object is.
    fn may_be(&self, schema: &Value, member: &Member) -> bool {
        let tag = property(schema, &member.name).and_then(|described| described.get("const"));
        tag.is_none_or(|tag| serde_json::from_str::<Value>(self.raw(member)).is_ok_and(|value| value == *tag))
    }

    /// The schemas, and those that they refer to or choose from.
    fn candidates(&self, schemas: &[&'s Value]) -> Vec<&'s Value> {
        let mut found: Vec<&'s Value> = Vec::new();
        let mut next: Vec<&'s Value> = schemas.iter().rev().copied().collect();
        while let Some(schema) = next.pop()
            && found.len() < MAX_CANDIDATES
        {
            found.push(schema);
            let root = self.root;
            next.extend(
                schema.get("$ref").and_then(Value::as_str).and_then(|reference| resolve(root, reference)),
            );
            for keyword in ["anyOf", "oneOf", "allOf"] {
                next.extend(schema.get(keyword).and_then(Value::as_array).into_iter().flatten());
            }
        }
        found
    }

    fn members(&mut self) -> Vec<Member> {
        let mut members = Vec::new();
        self.at += 1;
        loop {
            self.skip_space();
            match self.peek() {
                None | Some(b'}') => break,
                Some(b',') => self.at += 1,
                Some(_) => {
                    let start = self.at;
                    self.at = self.end_of_value();
                    let name = self.text.get(start..self.at).unwrap_or_default();
                    let name = serde_json::from_str(name).unwrap_or_default();
                    self.skip_space();
                    self.at += 1;
                    self.skip_space();
                    let value = self.at;
                    self.at = self.end_of_value();
                    members.push(Member { name, all: start..self.at, value });
                }
            }
        }
        members
    }

    fn raw(&self, member: &Member) -> &'a str {
        self.text.get(member.value..member.all.end).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Where the value that begins here ends. The text is known to be JSON.
    fn end_of_value(&self) -> usize {
        let rest = self.text.as_bytes().get(self.at..).unwrap_or_default();
        let (mut open, mut quoted, mut escaped) = (0_usize, false, false);
        for (offset, byte) in rest.iter().enumerate() {
            let here = self.at + offset;
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' if quoted => {
                    quoted = false;
                    if open == 0 {
                        return here + 1;
                    }
                }
                _ if quoted => {}
                b'"' => quoted = true,
                b'{' | b'[' => open += 1,
                b'}' | b']' if open == 0 => return here,
                b'}' | b']' => {
                    open -= 1;
                    if open == 0 {
                        return here + 1;
                    }
                }
                b',' | b' ' | b'\t' | b'\n' | b'\r' if open == 0 => return here,
                _ => {}
            }
        }
        self.text.len()
    }
}

fn property<'s>(schema: &'s Value, name: &str) -> Option<&'s Value> {
    schema.get("properties")?.get(name)
}

fn requires(schema: &Value, name: &str) -> bool {
    schema
        .get("required")
        .and_then(Value::as_array)
        .is_some_and(|names| names.iter().any(|known| known == name))
}
