//! What must be true after a child has died: everything as before one of the calls in flight or after it, in tree, session
//! and ledger alike; every answered call in the log; no effect twice.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::calls::{Call, Turn};
use crate::drive::{Counts, charges, same_calls};
use crate::look::{self, Seen, Traces};
use crate::model::{Outcome, World};
use crate::protocol::{Answer, Dump, Standing};
use crate::report::Report;

/// What is known of a workspace before it is opened again.
#[derive(Default)]
pub(crate) struct Known {
    /// After every answered turn.
    pub(crate) world: World,
    /// The turn that was not answered, if there is one.
    pub(crate) in_flight: Option<Turn>,
    /// What files were like before that turn, beside what the model knows.
    pub(crate) traces: Traces,
    /// Whether a call of that turn had begun for sure.
    pub(crate) had_begun: bool,
    /// The step at which the child died, if it died at one.
    pub(crate) died_at: Option<&'static str>,
    /// Calls that policies were asked about: by then it is known that they are on their way.
    pub(crate) begun: HashSet<String>,
    /// Calls that were answered, and whether they succeeded.
    pub(crate) answers: Vec<(String, bool)>,
}

impl Known {
    /// Takes note of what the child answered, which must be what the model says.
    pub(crate) fn answered(&mut self, turn: &Turn, answers: &[Answer], report: &mut Report) {
        if !same_calls(turn, answers) {
            report.find("answers", format!("{turn:?} was answered by {answers:?}"));
        }
        report.answered += answers.len() as u64;
        for ((id, call), answer) in turn.calls.iter().zip(answers) {
            let expected = self.world.outcome(call);
            if answer.success {
                self.world.apply(id, call);
            }
            let is_expected = match expected {
                Outcome::Done => answer.success,
                Outcome::Failed => !answer.success,
                Outcome::Barred => true,
            };
            if !is_expected {
                report.find(
                    "model",
                    format!("{id} {call:?} should be {expected:?} and was answered: {}", answer.text),
                );
            }
        }
        // Transactions by hand are no calls, and have no event.
        let is_call_of = |id: &str| turn.calls.iter().any(|(call, what)| call == id && what.is_call());
        self.answers.extend(
            answers
                .iter()
                .filter(|answer| is_call_of(&answer.id))
                .map(|answer| (answer.id.clone(), answer.success)),
        );
    }

    /// Takes note of what files are like before a turn; `last` was answered since they were looked at, and has to do with
    /// some of them only.
    pub(crate) fn looked_at(
        &mut self,
        traces: Traces,
        last: Option<&(Turn, Vec<Answer>)>,
        dir: &Path,
        report: &mut Report,
    ) {
        if let Some((turn, answers)) = last {
            let succeeded = |id: &str| answers.iter().any(|answer| answer.id == id && answer.success);
            let done = turn.calls.iter().filter(|(id, _)| succeeded(id)).map(|(_, call)| call);
            for what in disturbed(done, &self.traces, &traces) {
                report.find("trace", format!("{}: after {turn:?}, answered: {what}", dir.display()));
            }
        }
        self.traces = traces;
    }

    /// Takes note of a settled entry.
    pub(crate) fn settled(&mut self, key: &str, happened: bool) {
        if happened {
            self.world.charged.push(key.to_owned());
        }
    }
}

/// Under what the effect of a charge is counted: each workspace has its own.
pub(crate) fn effect_key(dir: &Path, key: &str) -> String {
    format!("{}/{key}", dir.display())
}

/// Where a child writes down which calls have begun.
pub(crate) fn begun_file(dir: &Path) -> PathBuf {
    dir.with_extension("begun")
}

/// Where a child writes down which charges its handler has begun with.
pub(crate) fn entered_file(dir: &Path) -> PathBuf {
    dir.with_extension("entered")
}

/// The step between the moment at which a handler counts as started and its first line.
const STARTED: &str = "store.start-written";

/// The lines of a file of the child's.
fn lines_of(path: &Path) -> std::io::Result<HashSet<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(HashSet::new()),
        Err(error) => Err(error),
    }
}

/// Compares what there is with what there may be, and says which keys are in doubt.
pub(crate) fn compare(
    known: &mut Known,
    dir: &Path,
    dump: &Dump,
    counts: &Counts,
    report: &mut Report,
) -> std::io::Result<Vec<String>> {
    let Seen { tree, traces } = look::look(dir)?;
    known.begun = lines_of(&begun_file(dir))?;
    let turn = known.in_flight.take().unwrap_or(Turn { calls: Vec::new() });
    let recorded: Vec<&String> = dump
        .ledger
        .iter()
        .filter(|(_, standing)| **standing == Standing::Recorded)
        .map(|(key, _)| key)
        .collect();

    // Before the turn, after its first call, after its second …
    let mut worlds = vec![known.world.clone()];
    let mut world = known.world.clone();
    let mut succeed = Vec::new();
    for (id, call) in &turn.calls {
        succeed.push(world.apply(id, call));
        worlds.push(world.clone());
    }
    let fits = |world: &World| {
        let mut charged: Vec<&String> = world.charged.iter().collect();
        charged.sort();
        world.tree == tree && world.notes == dump.notes && charged == recorded && world.undone == dump.undone
    };
    let events = Events::of(dump);
    match (0..worlds.len()).rfind(|at| worlds.get(*at).is_some_and(fits) && events.tell(&turn, &worlds, *at))
    {
        Some(at) => {
            if let Some(world) = worlds.get(at) {
                known.world = world.clone();
            }
            let done = turn.calls.iter().zip(&succeed).take(at).filter(|(_, succeeds)| **succeeds);
            // Without a turn in flight, what is known was looked at before the last one that was answered.
            let before = if turn.calls.is_empty() { &traces } else { &known.traces };
            for what in disturbed(done.map(|((_, call), _)| call), before, &traces) {
                report.find("trace", format!("{}: after {turn:?}, {at} done: {what}", dir.display()));
            }
        }
        None => {
            let nearest = worlds.iter().find(|world| world.tree == tree).unwrap_or(&known.world);
            report.find(
                "state",
                format!(
                    "{} is neither before nor after {turn:?}, or its log {:?} says otherwise: tree {}; notes expected {:?}, found {:?}; charged expected {:?}, found {recorded:?}; undone expected {}, found {}",
                    dir.display(),
                    turn.calls.iter().map(|(id, _)| events.of_call(id)).collect::<Vec<_>>(),
                    look::difference(&nearest.tree, &tree),
                    last(&nearest.notes),
                    last(&dump.notes),
                    last(&nearest.charged),
                    nearest.undone,
                    dump.undone,
                ),
            );
            // Go on from what is there, so that one finding is not told again and again.
            let charged = recorded.into_iter().cloned().collect();
            let caller = known.world.caller;
            known.world = World::found(tree, dump.notes.clone(), charged, dump.undone, caller);
        }
    }
    log(known, &turn, &events, report);
    effects(dir, &turn, dump, counts, report);
    if known.died_at.take().is_some_and(|step| step != STARTED) {
        doubts(&lines_of(&entered_file(dir))?, dump, report);
    }
    Ok(dump
        .ledger
        .iter()
        .filter(|(_, standing)| **standing == Standing::InDoubt)
        .map(|(key, _)| key.clone())
        .collect())
}

/// What became of files that none of these calls, which were done, has to do with.
fn disturbed<'c>(done: impl Iterator<Item = &'c Call>, before: &Traces, after: &Traces) -> Vec<String> {
    let places: Option<Vec<_>> = done.map(Call::places).collect();
    let Some(places) = places else { return Vec::new() };
    look::disturbed(before, after, |path| places.iter().flatten().any(|place| place.has(path)))
}

/// The end of a list, short enough to be read.
fn last(all: &[String]) -> Vec<&str> {
    let tail = all.get(all.len().saturating_sub(3)..).unwrap_or_default();
    tail.iter().map(|text| text.get(..16).unwrap_or(text)).collect()
}

/// The events of the log, by call: whether each says that it succeeded.
struct Events<'a>(HashMap<&'a str, Vec<bool>>);

impl<'a> Events<'a> {
    fn of(dump: &'a Dump) -> Self {
        let mut events: HashMap<&str, Vec<bool>> = HashMap::new();
        for event in &dump.log {
            events.entry(&event.call_id).or_default().push(event.success);
        }
        Self(events)
    }

    fn of_call(&self, id: &str) -> &[bool] {
        self.0.get(id).map(Vec::as_slice).unwrap_or_default()
    }

    /// Whether the log tells of the same calls as the world after `done` of them: what was done is logged as a success, and
    /// what was not is not. A call that changes nothing may have been done or not.
    fn tell(&self, turn: &Turn, worlds: &[World], done: usize) -> bool {
        turn.calls.iter().enumerate().all(|(at, (id, call))| {
            let changes = worlds.get(at) != worlds.get(at + 1);
            match (self.of_call(id), at < done) {
                // Transactions by hand have no event.
                _ if !call.is_call() => true,
                ([true], true) => true,
                ([true], false) | ([false] | [], true) => !changes,
                ([false] | [], false) => true,
                _ => false,
            }
        })
    }
}

/// Every answered call has its one event, which says the same. So has every call that had begun: those that policies were
/// asked about, and of those in flight one at least, where the child died at a step inside it.
fn log(known: &mut Known, turn: &Turn, events: &Events<'_>, report: &mut Report) {
    for (id, success) in &known.answers {
        if events.of_call(id) != [*success] {
            let found = events.of_call(id);
            report.find("log", format!("{id} was answered with {success}, and its events say {found:?}"));
        }
    }
    let mut logged = 0;
    for (id, call) in &turn.calls {
        match events.of_call(id) {
            [] if call.is_call() && known.begun.contains(id) => {
                report.find("log", format!("{id} of {turn:?} had begun, and has no event"));
            }
            [] => {}
            // From here on it is as good as answered.
            [success] => {
                logged += 1;
                known.answers.push((id.clone(), *success));
            }
            several => report.find("log", format!("{id} has {} events", several.len())),
        }
    }
    if std::mem::take(&mut known.had_begun)
        && logged == 0
        && turn.calls.iter().all(|(_, call)| call.is_call())
    {
        report.find("log", format!("a call of {turn:?} had begun, and none has an event"));
    }
}

/// Nothing is in doubt whose handler never started. Where a child was killed at a moment and not at a step, it may have been
/// between the two.
fn doubts(entered: &HashSet<String>, dump: &Dump, report: &mut Report) {
    for (key, standing) in &dump.ledger {
        if *standing == Standing::InDoubt && !entered.contains(key) {
            report.find("doubt", format!("{key} is in doubt, and its handler never started"));
        }
    }
}

/// No effect twice; one that is recorded happened, one of which nothing is known did not.
fn effects(dir: &Path, turn: &Turn, dump: &Dump, counts: &Counts, report: &mut Report) {
    let prefix = effect_key(dir, "");
    for (key, count) in counts.iter().filter_map(|(key, count)| Some((key.strip_prefix(&prefix)?, count))) {
        if *count > 1 {
            report.find("effect", format!("{key} happened {count} times"));
        }
        if !dump.ledger.contains_key(key) {
            report.find("effect", format!("{key} happened, and the ledger does not know it"));
        }
    }
    for (key, standing) in &dump.ledger {
        let happened = counts.contains_key(&effect_key(dir, key));
        match standing {
            Standing::Recorded if !happened => {
                report.find("effect", format!("{key} is recorded, and did not happen"));
            }
            Standing::Claimed => {
                report.find("ledger", format!("{key} is claimed, and nobody lives who could"))
            }
            Standing::InDoubt if !turn.calls.iter().any(|(_, call)| charges(call) == Some(key)) => {
                report.find("ledger", format!("{key} is in doubt, and was not being charged"));
            }
            Standing::Recorded | Standing::InDoubt => {}
        }
    }
}
