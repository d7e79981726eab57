//! The judge: holds a history to the isolation that is promised. It shares nothing with what it judges.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::history::{Event, History, Kind, Version};

/// What is wrong with a history.
pub(crate) fn check(history: &History) -> Vec<String> {
    let mut judge = Judge { history, found: Vec::new(), places: HashMap::new() };
    judge.written_once();
    judge.counters();
    judge.versions();
    judge.sessions();
    judge.endings();
    judge.effects();
    judge.one_order();
    judge.found
}

struct Judge<'a> {
    history: &'a History,
    found: Vec<String>,
    /// By list, where the entry of a call is.
    places: HashMap<&'a str, HashMap<&'a str, usize>>,
}

fn told(event: &Event) -> String {
    format!("{} ({}, session {}, {})", event.id, event.kind.tool(), event.session, event.ending)
}

impl<'a> Judge<'a> {
    fn events(&self) -> impl Iterator<Item = &'a Event> + use<'a> {
        self.history.sessions.values().flatten()
    }

    fn find(&mut self, what: String) {
        self.found.push(what);
    }

    /// A list has one entry of each call that succeeded and wrote it, and none of any other.
    fn written_once(&mut self) {
        let history = self.history;
        for (list, entries) in &history.lists {
            let mut places = HashMap::new();
            for (at, entry) in entries.iter().enumerate() {
                if places.insert(entry.as_str(), at).is_some() {
                    self.find(format!("twice: {list} has two entries of {entry}"));
                }
            }
            self.places.insert(list, places);
        }
        for event in self.events() {
            let writes = event.seen.iter().flat_map(|seen| &seen.writes);
            let writes: BTreeSet<&str> = writes.map(String::as_str).collect();
            for list in history.lists.keys() {
                let is_there = self
                    .places
                    .get(list.as_str())
                    .is_some_and(|places| places.contains_key(event.id.as_str()));
                let wrote = event.success && !event.replayed && writes.contains(list.as_str());
                match (wrote, is_there) {
                    (true, false) => self.find(format!("lost: {list} has no entry of {}", told(event))),
                    (false, true) => self.find(format!("half: {list} has an entry of {}", told(event))),
                    (true, true) | (false, false) => {}
                }
            }
        }
        let known: HashSet<&str> = self.events().map(|event| event.id.as_str()).collect();
        for (list, entries) in &history.lists {
            for entry in entries.iter().filter(|entry| !known.contains(entry.as_str())) {
                self.find(format!("unknown: {list} has an entry of {entry}, of which no log tells"));
            }
        }
    }

    /// The calls that counted a counter on have read each number once, and the counter says how many they are.
    fn counters(&mut self) {
        for (counter, value) in &self.history.counters {
            let mut by_number: BTreeMap<usize, Vec<&Event>> = BTreeMap::new();
            for event in self.events().filter(|event| event.success && !event.replayed) {
                if let Some(seen) = &event.seen
                    && seen.writes.contains(counter)
                    && let Some(read) = seen.reads.get(counter)
                {
                    by_number.entry(read.length).or_default().push(event);
                }
            }
            for (number, events) in by_number.iter().filter(|(_, events)| events.len() > 1) {
                let who: Vec<String> = events.iter().map(|event| told(event)).collect();
                self.find(format!(
                    "lost: {counter} was counted on from {number} by {}",
                    who.join(" and by ")
                ));
            }
            let counted: usize = by_number.values().map(Vec::len).sum();
            if counted != *value {
                self.find(format!("lost: {counter} is {value} after {counted} calls counted it on"));
            }
        }
    }

    /// What a call read of a list is what the list was at some time, and what it wrote it had read right before.
    fn versions(&mut self) {
        for event in self.events().filter(|event| event.success && !event.replayed) {
            let Some(seen) = &event.seen else { continue };
            let clean = seen.reads.iter().filter(|(path, _)| self.history.is_clean(event, path));
            for (path, version) in clean.collect::<Vec<_>>() {
                let Some(entries) = self.history.lists.get(path) else { continue };
                let last = version.length.checked_sub(1).and_then(|at| entries.get(at));
                if last != version.last.as_ref() {
                    self.find(format!("read: {} read {version:?} of {path}, which never was", told(event)));
                }
                let place = self.places.get(path.as_str()).and_then(|places| places.get(event.id.as_str()));
                if seen.writes.contains(path) && place.is_some_and(|place| *place != version.length) {
                    self.find(format!(
                        "lost: {} wrote {path} over version {} and is entry {place:?}",
                        told(event),
                        version.length
                    ));
                }
            }
        }
    }

    /// Calls of a session see all that its earlier calls saw and wrote, in files and in its slice.
    fn sessions(&mut self) {
        let history = self.history;
        for (session, events) in &history.sessions {
            let mut least: BTreeMap<&str, usize> = BTreeMap::new();
            let mut notes = Vec::new();
            for event in events.iter().filter(|event| event.success && !event.replayed) {
                let Some(seen) = &event.seen else { continue };
                for (path, version) in seen.reads.iter().filter(|(path, _)| history.is_clean(event, path)) {
                    let least = least.entry(path).or_default();
                    if version.length < *least {
                        self.find(format!(
                            "session: {} read version {} of {path} after version {least}",
                            told(event),
                            version.length
                        ));
                    }
                    *least = version.length + usize::from(seen.writes.contains(path));
                }
                if let Some(read) = seen.notes {
                    if read != notes.len() {
                        self.find(format!("slice: {} read {read} notes of {}", told(event), notes.len()));
                    }
                    notes.push(event.id.clone());
                }
            }
            let slice = history.notes.get(session).cloned().unwrap_or_default();
            if slice != notes {
                self.find(format!(
                    "slice: session {session} has {} notes, its log {}",
                    slice.len(),
                    notes.len()
                ));
            }
        }
    }

    /// Only conflicts, and kills, keep calls from success; and no conflict a call that has the write turn.
    fn endings(&mut self) {
        let mut seen = HashSet::new();
        for event in self.events() {
            if !seen.insert(&event.id) {
                self.find(format!("answer: {} has two events", told(event)));
            }
            let is_conflict = event.text.contains("changed by") || event.text.contains("conflict");
            match event.kind {
                _ if event.success => {}
                _ if event.ending == "Interrupted" && self.history.killed => {}
                Kind::Charge if event.ending == "InDoubt" && self.history.killed => {}
                Kind::Append | Kind::Bump | Kind::Command if is_conflict => {}
                // A file that is replaced again and again cannot be read at rest; it has not been read then.
                Kind::Peek | Kind::Append | Kind::Bump
                    if event.text.contains("changed while it was being read") => {}
                Kind::Serial | Kind::Charge if is_conflict => {
                    self.find(format!("turn: {} met a conflict: {}", told(event), event.text));
                }
                _ => self.find(format!("answer: {}: {}", told(event), event.text)),
            }
        }
    }

    /// An effect happens once for each key that is recorded, and none is in doubt unless a process was killed.
    fn effects(&mut self) {
        let history = self.history;
        for (key, times) in history.effects.iter().filter(|(_, times)| **times > 1) {
            self.find(format!("effect: {key} happened {times} times"));
        }
        if !history.killed {
            for key in &history.in_doubt {
                self.find(format!("doubt: {key} is in doubt, and no process was killed"));
            }
        }
    }

    /// Whether there is an order of all calls that succeeded which explains what they read: each edge says which of two came
    /// first, and there is no circle. What a command without the write turn read may be older than it is in that order; what
    /// it wrote may not.
    fn one_order(&mut self) {
        let events: Vec<&Event> = self.events().filter(|event| event.success && !event.replayed).collect();
        let numbers: HashMap<&str, usize> =
            events.iter().enumerate().map(|(number, event)| (event.id.as_str(), number)).collect();
        let mut writers: BTreeMap<&str, BTreeMap<usize, usize>> = BTreeMap::new();
        for (number, event) in events.iter().enumerate() {
            let Some(seen) = &event.seen else { continue };
            for path in &seen.writes {
                if let Some(version) = seen.reads.get(path) {
                    writers.entry(path).or_default().insert(version.length, number);
                }
            }
        }
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); events.len()];
        let mut edge = |from: usize, to: usize| {
            if let Some(after) = after.get_mut(from)
                && from != to
            {
                after.push(to);
            }
        };
        for session in self.history.sessions.values() {
            let own: Vec<usize> =
                session.iter().filter_map(|event| numbers.get(event.id.as_str()).copied()).collect();
            own.iter().zip(own.iter().skip(1)).for_each(|(one, next)| edge(*one, *next));
        }
        for (number, event) in events.iter().enumerate() {
            let Some(seen) = &event.seen else { continue };
            let clean = seen.reads.iter().filter(|(path, _)| self.history.is_clean(event, path));
            for (path, Version { length, .. }) in clean {
                let Some(writers) = writers.get(path.as_str()) else { continue };
                // The call that wrote what it read comes before it.
                if let Some(writer) = length.checked_sub(1).and_then(|at| writers.get(&at)) {
                    edge(*writer, number);
                }
                // The call that wrote the file next comes after it.
                let is_exact = event.kind != Kind::Command || seen.writes.contains(path);
                if let Some(next) = writers.get(length).filter(|_| is_exact) {
                    edge(number, *next);
                }
            }
        }
        if let Some(circle) = circle(&after) {
            let who: Vec<String> =
                circle.iter().filter_map(|number| events.get(*number)).map(|event| told(event)).collect();
            self.find(format!("order: no order explains {}", who.join(", ")));
        }
    }
}

/// A circle in a graph, if there is one.
fn circle(after: &[Vec<usize>]) -> Option<Vec<usize>> {
    // What has nothing before it goes, again and again; what is left has a circle.
    let mut before = vec![0usize; after.len()];
    for next in after.iter().flatten() {
        *before.get_mut(*next)? += 1;
    }
    let mut free: Vec<usize> =
        before.iter().enumerate().filter(|(_, count)| **count == 0).map(|(at, _)| at).collect();
    let mut left = after.len();
    while let Some(at) = free.pop() {
        left -= 1;
        for next in after.get(at).into_iter().flatten() {
            if let Some(count) = before.get_mut(*next) {
                *count -= 1;
                if *count == 0 {
                    free.push(*next);
                }
            }
        }
    }
    if left == 0 {
        return None;
    }
    // Backwards from one that is left, every step is to one that is left; so some comes twice.
    let mut previous: Vec<Option<usize>> = vec![None; after.len()];
    for (at, nexts) in after.iter().enumerate() {
        if before.get(at).is_some_and(|count| *count > 0) {
            for next in nexts {
                if let Some(previous) = previous.get_mut(*next) {
                    *previous = Some(at);
                }
            }
        }
    }
    let mut at = before.iter().position(|count| *count > 0)?;
    let mut way = Vec::new();
    while !way.contains(&at) {
        way.push(at);
        at = (*previous.get(at)?)?;
    }
    let start = way.iter().position(|step| *step == at)?;
    way.drain(..start);
    way.reverse();
    Some(way)
}

#[cfg(test)]
mod tests;
