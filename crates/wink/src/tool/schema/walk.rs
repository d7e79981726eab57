//! The walk over argument text: types, keys, constraints and limits in one pass.
//!
//! A walk either *collects* problems and goes on, or *probes* whether a value fits and stops at the first
//! thing that does not. Text that is no JSON ends both.

use std::borrow::Cow;
use std::collections::HashMap;

use super::fields::{Fields, Seen};
use super::findings::{Findings, Path};
use super::nearest;
use super::node::{Additional, Allowed, ArrayRules, Node, NodeId, ObjectRules, Pattern, Types};
use super::number::{Num, Precision, canonical};
use super::problem::{Problem, ProblemKind, shorten};
use super::scan::{Halt, KeySet, NumberToken, Scanner, Str};

/// Why a walk does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The value does not fit, and the walk was only a probe.
    Mismatch,
    /// The text cannot be read.
    Halt,
}

impl From<Halt> for Stop {
    fn from(_: Halt) -> Self {
        Self::Halt
    }
}

pub(super) struct Walker<'s, 't> {
    nodes: &'s [Node],
    pub(super) scan: Scanner<'t>,
    pub(super) found: Findings,
    pub(super) probing: bool,
    /// The same text may be walked again: results are worth remembering.
    pub(super) rewalking: bool,
    /// For a node at a position, probing or not, where the value ends, if it fits. Without it, schemas that look at a
    /// value twice on every level would look at the innermost one more often than anybody can wait for.
    memo: Option<Memo>,
}

type Memo = HashMap<(NodeId, usize, bool), Option<usize>>;

static ANYTHING: Node = Node::of_types(Types::ALL);

impl<'s, 't> Walker<'s, 't> {
    pub(super) fn new(nodes: &'s [Node], text: &'t str, depth_limit: usize) -> Self {
        Self {
            nodes,
            scan: Scanner::new(text, depth_limit),
            found: Findings::default(),
            probing: false,
            rewalking: false,
            memo: None,
        }
    }

    pub(super) fn node(&self, id: NodeId) -> &'s Node {
        self.nodes.get(id as usize).unwrap_or(&ANYTHING)
    }

    /// Checks the next value, which stands inside `depth` others.
    pub(super) fn value(&mut self, id: NodeId, path: &Path<'_>, depth: usize) -> Result<(), Stop> {
        let node = self.node(id);
        let hidden;
        let path = if node.sensitive && !path.hidden {
            hidden = path.hide();
            &hidden
        } else {
            path
        };
        if self.rewalking { self.remembered(id, node, path, depth) } else { self.value_of(node, path, depth) }
    }

    /// As [`Self::value`], once for each place.
    fn remembered(&mut self, id: NodeId, node: &'s Node, path: &Path<'_>, depth: usize) -> Result<(), Stop> {
        if !matches!(self.scan.peek(), Some(b'{' | b'[')) {
            return self.value_of(node, path, depth);
        }
        let key = (id, self.scan.pos, self.probing);
        match self.memo.as_ref().and_then(|memo| memo.get(&key)) {
            // Whatever there was to report has been reported.
            Some(Some(end)) => {
                self.scan.pos = *end;
                return Ok(());
            }
            Some(None) => return Err(Stop::Mismatch),
            None => {}
        }
        let outcome = self.value_of(node, path, depth);
        if outcome != Err(Stop::Halt) {
            let end = outcome.is_ok().then_some(self.scan.pos);
            self.memo.get_or_insert_default().insert(key, end);
        }
        outcome
    }

    pub(super) fn value_of(&mut self, node: &'s Node, path: &Path<'_>, depth: usize) -> Result<(), Stop> {
        match &node.combine {
            None => self.plain(node, path, depth),
            Some(combine) => self.combined(node, combine, path, depth),
        }
    }

    /// Checks the next value against what the node says itself, without its combinators.
    pub(super) fn plain(&mut self, node: &'s Node, path: &Path<'_>, depth: usize) -> Result<(), Stop> {
        let first = self.scan.peek();
        let start = self.scan.pos;
        let problems = if node.allowed.is_some() { self.found.count() } else { 0 };
        match first {
            Some(b'"') if node.types.meets(Types::STRING) => {
                let string = self.scan.string()?;
                return self.string(node, string, path);
            }
            Some(b'-' | b'0'..=b'9') if node.types.meets(Types::NUMBER) => {
                let token = self.scan.number()?;
                self.number(node, token, path)?;
            }
            Some(b'{') if node.types.meets(Types::OBJECT) => match &node.object {
                Some(rules) => self.object(rules, path, depth)?,
                None => self.skip(path, depth)?,
            },
            Some(b'[') if node.types.meets(Types::ARRAY) => match &node.array {
                Some(rules) => self.array(rules, path, depth)?,
                None => self.skip(path, depth)?,
            },
            Some(b't') if node.types.meets(Types::BOOLEAN) => self.scan.literal("true")?,
            Some(b'f') if node.types.meets(Types::BOOLEAN) => self.scan.literal("false")?,
            Some(b'n') if node.types.meets(Types::NULL) => self.scan.literal("null")?,
            _ => return self.wrong_type(node.types, path, depth),
        }
        match &node.allowed {
            Some(allowed) if self.found.count() == problems => self.member(allowed, start, path),
            _ => Ok(()),
        }
    }

    /// Reports a problem, or ends a probe.
    pub(super) fn report(
        &mut self,
        kind: ProblemKind,
        path: &Path<'_>,
        details: impl FnOnce() -> (String, String),
    ) -> Result<(), Stop> {
        self.report_with(kind, path, || {
            let (expected, got) = details();
            (expected, got, None)
        })
    }

    pub(super) fn report_with(
        &mut self,
        kind: ProblemKind,
        path: &Path<'_>,
        details: impl FnOnce() -> (String, String, Option<String>),
    ) -> Result<(), Stop> {
        if self.probing {
            return Err(Stop::Mismatch);
        }
        self.found.add(|| {
            let (expected, got, suggestion) = details();
            Problem { path: path.text(), kind, expected, got, suggestion }
        });
        Ok(())
    }

    /// Passes a value that no schema describes.
    ///
    /// Keys that come twice and numbers that would be rounded are wrong whichever branch the value belongs to, so a probe
    /// reports them too.
    pub(super) fn skip(&mut self, path: &Path<'_>, depth: usize) -> Result<(), Stop> {
        match self.scan.peek() {
            Some(b'{') => {
                let mut more = self.scan.open(depth, b'}')?;
                let mut keys = KeySet::default();
                while more {
                    let key = self.scan.key()?.text();
                    if !keys.insert(key.clone()) {
                        self.found.duplicate(path, &key);
                    }
                    self.skip(&path.key(&key), depth + 1)?;
                    more = self.scan.more(b'}')?;
                }
            }
            Some(b'[') => {
                let mut more = self.scan.open(depth, b']')?;
                let mut index = 0;
                while more {
                    self.skip(&path.index(index), depth + 1)?;
                    index += 1;
                    more = self.scan.more(b']')?;
                }
            }
            Some(b'-' | b'0'..=b'9') => {
                let token = self.scan.number()?;
                self.arrives(token, path);
            }
            _ => self.scan.skip(depth)?,
        }
        Ok(())
    }

    /// Reports a number that JSON values would hold as another one. False: it was reported.
    fn arrives(&mut self, token: NumberToken<'_>, path: &Path<'_>) -> bool {
        let Some(loss) = Precision::Json.loss(token) else { return true };
        self.found.add(|| Problem {
            path: path.text(),
            kind: ProblemKind::InexactNumber,
            expected: loss.expected(),
            got: shown(token, path),
            suggestion: None,
        });
        false
    }

    /// What came, for a message: the value itself unless it must not be shown.
    pub(super) fn echo(&self, start: usize, path: &Path<'_>) -> String {
        if path.hidden {
            return "a hidden value".to_owned();
        }
        format!("`{}`", shorten(self.scan.slice(start, self.scan.pos)))
    }

    pub(super) fn wrong_type(&mut self, expected: Types, path: &Path<'_>, depth: usize) -> Result<(), Stop> {
        if self.probing && self.scan.byte().is_some() {
            return Err(Stop::Mismatch);
        }
        let start = self.scan.pos;
        match self.scan.peek() {
            // Of a number in the wrong place it does not matter whether it would be rounded.
            Some(b'-' | b'0'..=b'9') => drop(self.scan.number()?),
            _ => self.skip(path, depth)?,
        }
        let got = kind_of(self.scan.slice(start, self.scan.pos));
        self.report(ProblemKind::WrongType, path, || (expected.describe(), got.to_owned()))
    }

    fn member(&mut self, allowed: &Allowed, start: usize, path: &Path<'_>) -> Result<(), Stop> {
        // The text was scanned already, so it parses; it may only be nested deeper than the parser likes.
        let text = self.scan.slice(start, self.scan.pos);
        let fits = serde_json::from_str(text).is_ok_and(|value| allowed.others.contains(&canonical(&value)));
        if fits {
            return Ok(());
        }
        let got = self.echo(start, path);
        self.report(ProblemKind::NotAllowed, path, || (allowed.describe(), got))
    }

    pub(super) fn string(&mut self, node: &'s Node, string: Str<'t>, path: &Path<'_>) -> Result<(), Stop> {
        if node.string.is_none() && node.allowed.is_none() {
            return Ok(());
        }
        let text = string.text();
        let shown = |text: &str| match path.hidden {
            true => "a hidden value".to_owned(),
            false => format!("\"{}\"", shorten(text)),
        };
        if let Some(allowed) = &node.allowed
            && !allowed.strings.iter().any(|candidate| *candidate == text)
        {
            return self.report_with(ProblemKind::NotAllowed, path, || {
                let candidates = allowed.strings.iter().map(String::as_str);
                let near = nearest(&text, candidates).filter(|_| !path.hidden).map(str::to_owned);
                (allowed.describe(), shown(&text), near)
            });
        }
        let Some(rules) = &node.string else { return Ok(()) };
        let length = || text.chars().count();
        if rules.length != super::node::Bounds::ANY && !rules.length.admits(length()) {
            self.report(ProblemKind::WrongLength, path, || {
                (rules.length.describe("character", "characters"), length().to_string())
            })?;
        }
        if let Some(pattern) = &rules.pattern
            && !pattern.regex.is_match(&text)
        {
            self.report(ProblemKind::PatternMismatch, path, || {
                (format!("a string that matches `{}`", pattern.source), shown(&text))
            })?;
        }
        Ok(())
    }

    pub(super) fn number(
        &mut self,
        node: &'s Node,
        token: NumberToken<'t>,
        path: &Path<'_>,
    ) -> Result<(), Stop> {
        let written = if token.integer { Types::INTEGER } else { Types::FRACTION };
        if !node.types.meets(written) {
            return self.report(ProblemKind::WrongType, path, || {
                (node.types.describe(), kind_of(token.text).to_owned())
            });
        }
        if let Some(rules) = &node.number {
            let value = match token.small {
                Some(small) => Some(Num::Int(small.into())),
                None => Num::parse(token.text),
            };
            if !value.is_some_and(|value| rules.admits(value)) {
                return self.report(ProblemKind::OutOfRange, path, || (rules.describe(), shown(token, path)));
            }
        }
        if !self.arrives(token, path) {
            return Ok(());
        }
        // What only this type would round may fit another branch.
        match node.precision.loss(token) {
            Some(loss) => {
                self.report(ProblemKind::InexactNumber, path, || (loss.expected(), shown(token, path)))
            }
            None => Ok(()),
        }
    }

    fn array(&mut self, rules: &'s ArrayRules, path: &Path<'_>, depth: usize) -> Result<(), Stop> {
        let start = self.scan.pos;
        let mut more = self.scan.open(depth, b']')?;
        let mut count = 0;
        while more {
            let place = path.index(count);
            match rules.prefix.get(count).copied().or(rules.items) {
                Some(node) => self.value(node, &place, depth + 1)?,
                None => self.skip(&place, depth + 1)?,
            }
            count += 1;
            more = self.scan.more(b']')?;
        }
        if !rules.size.admits(count) {
            self.report(ProblemKind::WrongLength, path, || {
                (rules.size.describe("item", "items"), count.to_string())
            })?;
        }
        if rules.unique
            && let Some((first, second)) = repeated(self.scan.slice(start, self.scan.pos))
        {
            self.report(ProblemKind::NotUnique, path, || {
                ("items that all differ".to_owned(), format!("item [{second}] the same as [{first}]"))
            })?;
        }
        Ok(())
    }

    fn object(&mut self, rules: &'s ObjectRules, path: &Path<'_>, depth: usize) -> Result<(), Stop> {
        let mut more = self.scan.open(depth, b'}')?;
        let mut fields = Fields::new(rules);
        while more {
            // Models write fields in the order of the schema: the expected key needs no lookup.
            let index = fields.next;
            let expected =
                rules.properties.get(index).filter(|property| rules.by_name_only && property.declared);
            match expected.filter(|property| self.scan.plain_key(property)) {
                Some(property) => {
                    if !fields.known(index, property) {
                        self.found.duplicate(path, &property.name);
                    }
                    self.value(property.node, &path.key(&property.name), depth + 1)?;
                }
                None => {
                    let name = self.scan.key()?.text();
                    self.field(rules, &mut fields, name, path, depth)?;
                }
            }
            more = self.scan.more(b'}')?;
        }
        if fields.required < rules.required {
            self.missing(rules, &fields.seen, path)?;
        }
        if !rules.size.admits(fields.count) {
            self.report(ProblemKind::WrongLength, path, || {
                (rules.size.describe("field", "fields"), fields.count.to_string())
            })?;
        }
        Ok(())
    }

    /// Any field: properties, patterns and additional properties have their say.
    fn field(
        &mut self,
        rules: &'s ObjectRules,
        fields: &mut Fields<'t>,
        name: Cow<'t, str>,
        path: &Path<'_>,
        depth: usize,
    ) -> Result<(), Stop> {
        let known = rules.find(&name).and_then(|index| Some((index, rules.properties.get(index)?)));
        let fresh = match known {
            Some((index, property)) => fields.known(index, property),
            None => fields.other(name.clone()),
        };
        if !fresh {
            self.found.duplicate(path, &name);
        }
        let place = &path.key(&name);
        if let Some(names) = rules.names {
            self.name(names, &name, place)?;
        }
        let declared = known.filter(|(_, property)| property.declared).map(|(_, property)| property.node);
        let matching = |(pattern, node): &(Pattern, NodeId)| pattern.regex.is_match(&name).then_some(*node);
        let checks = declared.into_iter().chain(rules.patterns.iter().filter_map(matching));
        self.scan.peek();
        let start = self.scan.pos;
        let mut described = false;
        let before = self.rewalking;
        self.rewalking |= !rules.patterns.is_empty();
        for node in checks {
            described = true;
            self.scan.pos = start;
            self.value(node, place, depth + 1)?;
        }
        self.rewalking = before;
        if described {
            return Ok(());
        }
        match rules.additional {
            Additional::Checked(node) => self.value(node, place, depth + 1),
            Additional::Allowed => self.skip(place, depth + 1),
            Additional::Forbidden => {
                self.report_with(ProblemKind::UnknownField, place, || unknown(rules, &name))?;
                self.skip(place, depth + 1)
            }
        }
    }

    /// Checks a key itself.
    fn name(&mut self, names: NodeId, name: &str, place: &Path<'_>) -> Result<(), Stop> {
        let quoted = serde_json::Value::from(name).to_string();
        let mut walker = Walker::new(self.nodes, &quoted, 1);
        walker.probing = true;
        match walker.value(names, place, 0) {
            Ok(()) => Ok(()),
            Err(_) => self.report(ProblemKind::UnknownField, place, || {
                ("a key of the allowed form".to_owned(), "another key".to_owned())
            }),
        }
    }

    #[cold]
    fn missing(&mut self, rules: &'s ObjectRules, seen: &Seen, path: &Path<'_>) -> Result<(), Stop> {
        for (index, property) in rules.properties.iter().enumerate() {
            if property.required && !seen.contains(index) {
                let expected = self.node(property.node).reach.describe();
                self.report(ProblemKind::MissingField, &path.key(&property.name), || {
                    (expected, "nothing".to_owned())
                })?;
            }
        }
        Ok(())
    }
}

/// A number for a message, unless it must not be shown.
fn shown(token: NumberToken<'_>, path: &Path<'_>) -> String {
    match path.hidden {
        true => "a hidden value".to_owned(),
        false => format!("`{}`", shorten(token.text)),
    }
}

/// What a scanned value is, for a message.
pub(super) fn kind_of(text: &str) -> &'static str {
    match text.bytes().next() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't') => "true",
        Some(b'f') => "false",
        Some(b'n') => "null",
        _ if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') && text != "-0" => "an integer",
        _ => "a number written with a fraction or exponent",
    }
}

fn unknown(rules: &ObjectRules, name: &str) -> (String, String, Option<String>) {
    const SHOWN: usize = 20;
    let names: Vec<&str> = rules.declared().map(|property| property.name.as_str()).collect();
    let mut expected = match names.len() {
        0 => "no fields".to_owned(),
        _ => {
            names.iter().take(SHOWN).map(|name| format!("`{}`", shorten(name))).collect::<Vec<_>>().join(", ")
        }
    };
    if names.len() > SHOWN {
        expected.push_str(", ...");
    }
    (expected, "an unknown field".to_owned(), nearest(name, names).map(str::to_owned))
}

/// The first two equal items of a list.
fn repeated(list: &str) -> Option<(usize, usize)> {
    let items: Vec<serde_json::Value> = serde_json::from_str(list).ok()?;
    let mut seen = HashMap::new();
    items
        .iter()
        .enumerate()
        .find_map(|(index, item)| seen.insert(canonical(item), index).map(|first| (first, index)))
}
