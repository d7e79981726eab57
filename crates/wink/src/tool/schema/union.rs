//! Checking one value against several schemas: `allOf`, `anyOf`, `oneOf`, `not`.
//!
//! Where the text says which branch is meant (by its type, by a tag, by a key that only one branch has), that
//! branch is walked directly and its problems are the ones to report. Otherwise the branches are probed.

use super::findings::Path;
use super::nearest;
use super::node::{Combine, Dispatch, Node, NodeId, Types, Union};
use super::problem::{ProblemKind, shorten};
use super::walk::{Stop, Walker};

impl<'s> Walker<'s, '_> {
    pub(super) fn combined(
        &mut self,
        node: &'s Node,
        combine: &'s Combine,
        path: &Path<'_>,
        depth: usize,
    ) -> Result<(), Stop> {
        if node.only_union
            && let [union] = combine.unions.as_slice()
        {
            return self.union(union, path, depth);
        }
        self.scan.peek();
        let start = self.scan.pos;
        let before = std::mem::replace(&mut self.rewalking, true);
        self.plain(node, path, depth)?;
        let end = self.scan.pos;
        for id in &combine.all {
            self.scan.pos = start;
            self.value(*id, path, depth)?;
        }
        for union in &combine.unions {
            self.scan.pos = start;
            self.union(union, path, depth)?;
        }
        if let Some(not) = combine.not
            && self.probe(not, start, path, depth)?.is_some()
        {
            self.scan.pos = end;
            let got = self.echo(start, path);
            let refused = self.describe(not);
            self.report(ProblemKind::Forbidden, path, || (format!("anything but {refused}"), got))?;
        }
        self.rewalking = before;
        self.scan.pos = end;
        Ok(())
    }

    fn union(&mut self, union: &'s Union, path: &Path<'_>, depth: usize) -> Result<(), Stop> {
        let Some(byte) = self.scan.peek() else {
            return self.skip(path, depth); // reports the end of the text
        };
        let here = Types::starting_with(byte);
        let fitting = |id: &&NodeId| self.node(**id).reach.meets(here);
        let mut candidates = union.branches.iter().filter(fitting);
        match (candidates.next(), candidates.next()) {
            (None, _) => {
                let reach = union.branches.iter().map(|id| self.node(*id).reach);
                return self.wrong_type(reach.fold(Types::NONE, Types::or), path, depth);
            }
            (Some(only), None) => return self.value(*only, path, depth),
            _ => {}
        }
        if byte == b'{'
            && let Some(dispatch) = &union.dispatch
        {
            return match dispatch {
                Dispatch::Tag { name, values } => self.by_tag(name, values, path, depth),
                Dispatch::Key(keys) => self.by_key(keys, path, depth),
            };
        }
        self.by_trial(union, here, path, depth)
    }

    fn by_trial(&mut self, union: &'s Union, here: Types, path: &Path<'_>, depth: usize) -> Result<(), Stop> {
        let start = self.scan.pos;
        let mut end = None;
        for id in &union.branches {
            if !self.node(*id).reach.meets(here) {
                continue;
            }
            let Some(this) = self.probe(*id, start, path, depth)? else { continue };
            if !union.exactly_one {
                self.scan.pos = this;
                return Ok(());
            }
            if end.replace(this).is_some() {
                self.scan.pos = this;
                return self.report(ProblemKind::NoMatchingForm, path, || {
                    let expected = "a value that fits exactly one of the allowed forms".to_owned();
                    (expected, "one that fits several".to_owned())
                });
            }
        }
        if let Some(end) = end {
            self.scan.pos = end;
            return Ok(());
        }
        if self.probing {
            return Err(Stop::Mismatch);
        }
        self.scan.pos = start;
        self.skip(path, depth)?;
        if self.found.concern(path) {
            return Ok(()); // the branches fail for a reason that has been told
        }
        let mut forms = Vec::new();
        for id in union.branches.iter().filter(|id| self.node(**id).reach.meets(here)) {
            let form = self.describe(*id);
            if !forms.contains(&form) {
                forms.push(form);
            }
        }
        let values = union.branches.iter().all(|id| self.node(*id).allowed.is_some());
        let kind = if values { ProblemKind::NotAllowed } else { ProblemKind::NoMatchingForm };
        let scalar = !here.within(Types::OBJECT.or(Types::ARRAY));
        let got = if scalar { self.echo(start, path) } else { "one that fits none of them".to_owned() };
        self.report(kind, path, || (one_of(&forms), got))
    }

    /// Where the value at `start` ends, if it fits.
    pub(super) fn probe(
        &mut self,
        id: NodeId,
        start: usize,
        path: &Path<'_>,
        depth: usize,
    ) -> Result<Option<usize>, Stop> {
        let before = (self.probing, self.rewalking);
        (self.probing, self.rewalking) = (true, true);
        self.scan.pos = start;
        let outcome = self.value(id, path, depth);
        (self.probing, self.rewalking) = before;
        match outcome {
            Ok(()) => Ok(Some(self.scan.pos)),
            Err(Stop::Mismatch) => Ok(None),
            Err(Stop::Halt) => Err(Stop::Halt),
        }
    }

    fn by_tag(
        &mut self,
        tag: &'s str,
        values: &'s [(String, NodeId)],
        path: &Path<'_>,
        depth: usize,
    ) -> Result<(), Stop> {
        let start = self.scan.pos;
        let place = path.key(tag);
        let Some((_, at)) = self.look_ahead(path, depth, |key| (key == tag).then_some(()))? else {
            self.scan.pos = start;
            self.skip(path, depth)?;
            return self.report(ProblemKind::MissingField, &place, || (tags(values), "nothing".to_owned()));
        };
        let found = if self.scan.byte() == Some(b'"') { Some(self.scan.string()?.text()) } else { None };
        let branch = found.as_ref().and_then(|found| values.iter().find(|(value, _)| value == found));
        if let Some((_, branch)) = branch {
            self.scan.pos = start;
            return self.value(*branch, path, depth);
        }
        if self.probing {
            return Err(Stop::Mismatch);
        }
        match found {
            Some(found) => {
                let got = if path.hidden {
                    "a hidden value".to_owned()
                } else {
                    format!("\"{}\"", shorten(&found))
                };
                self.report(ProblemKind::NotAllowed, &place, || (tags(values), got))?;
            }
            None => {
                self.scan.pos = at;
                self.wrong_type(Types::STRING, &place, depth + 1)?;
            }
        }
        self.scan.pos = start;
        self.skip(path, depth)
    }

    fn by_key(&mut self, keys: &'s [(String, NodeId)], path: &Path<'_>, depth: usize) -> Result<(), Stop> {
        let start = self.scan.pos;
        let mut stray = None;
        let rules = keys.iter().filter_map(|(_, branch)| self.node(*branch).object.as_deref());
        let rules: Vec<_> = if self.probing { Vec::new() } else { rules.collect() };
        let found = self.look_ahead(path, depth, |key| {
            let branch = keys.iter().find(|(name, _)| name == key).map(|(_, branch)| *branch);
            if branch.is_none() && stray.is_none() && rules.iter().all(|rules| rules.find(key).is_none()) {
                stray = Some(key.to_owned());
            }
            branch
        })?;
        self.scan.pos = start;
        if let Some((branch, _)) = found {
            return self.value(branch, path, depth);
        }
        self.skip(path, depth)?;
        let names: Vec<String> = keys.iter().map(|(name, _)| format!("`{}`", shorten(name))).collect();
        let got = match &stray {
            Some(stray) => format!("one with `{}`", shorten(stray)),
            None => "one with none of them".to_owned(),
        };
        self.report_with(ProblemKind::NoMatchingForm, path, || {
            let near = stray.and_then(|stray| nearest(&stray, keys.iter().map(|(name, _)| name.as_str())));
            (format!("an object with one of the keys {}", names.join(", ")), got, near.map(str::to_owned))
        })
    }

    /// Looks through the keys of the object at the cursor until `wanted` answers; leaves the cursor at the value.
    fn look_ahead<T>(
        &mut self,
        path: &Path<'_>,
        depth: usize,
        mut wanted: impl FnMut(&str) -> Option<T>,
    ) -> Result<Option<(T, usize)>, Stop> {
        let mut more = self.scan.open(depth, b'}')?;
        while more {
            let key = self.scan.key()?;
            if let Some(answer) = wanted(&key.text()) {
                self.scan.peek();
                return Ok(Some((answer, self.scan.pos)));
            }
            self.skip(&path.key(&key.text()), depth + 1)?;
            more = self.scan.more(b'}')?;
        }
        Ok(None)
    }

    /// A form in a few words, for a message.
    fn describe(&self, id: NodeId) -> String {
        let node = self.node(id);
        if let Some(allowed) = &node.allowed {
            return allowed.describe();
        }
        if let Some(rules) = &node.object
            && node.types == Types::OBJECT
        {
            let names: Vec<String> = rules
                .declared()
                .filter(|property| property.required)
                .map(|property| format!("`{}`", shorten(&property.name)))
                .collect();
            if !names.is_empty() {
                return format!("an object with {}", names.join(", "));
            }
        }
        if let Some(rules) = &node.number
            && node.reach.within(Types::NUMBER)
        {
            return rules.describe();
        }
        node.reach.describe()
    }
}

fn tags(values: &[(String, NodeId)]) -> String {
    one_of(&values.iter().map(|(value, _)| format!("\"{}\"", shorten(value))).collect::<Vec<_>>())
}

fn one_of(forms: &[String]) -> String {
    match forms {
        [only] => only.clone(),
        _ => format!("one of: {}", forms.join("; ")),
    }
}
