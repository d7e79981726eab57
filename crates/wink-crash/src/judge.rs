//! What must be true after a child has died: everything as before one of the calls in flight or after it, in tree, session
//! and ledger alike; every answered call in the log; no effect twice.

use std::path::Path;

use crate::calls::Turn;
use crate::drive::{Counts, charges, expected, same_calls};
use crate::look;
use crate::model::World;
use crate::protocol::{Answer, Dump, Standing};
use crate::report::Report;

/// What is known of a workspace before it is opened again.
#[derive(Default)]
pub(crate) struct Known {
    /// After every answered turn.
    pub(crate) world: World,
    /// The turn that was not answered, if there is one.
    pub(crate) in_flight: Option<Turn>,
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
        let said = expected(&mut self.world, turn);
        for ((id, success), answer) in said.iter().zip(answers) {
            if *success != answer.success {
                let call = turn.calls.iter().find(|(call, _)| call == id);
                report
                    .find("model", format!("{call:?} should be {success} and was answered: {}", answer.text));
            }
        }
        // Transactions by hand are no calls, and have no event.
        let is_call = |id: &str| {
            turn.calls
                .iter()
                .any(|(call, what)| call == id && !matches!(what, crate::calls::Call::Nested { .. }))
        };
        self.answers.extend(
            answers
                .iter()
                .filter(|answer| is_call(&answer.id))
                .map(|answer| (answer.id.clone(), answer.success)),
        );
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

/// Compares what there is with what there may be, and says which keys are in doubt.
pub(crate) fn compare(
    known: &mut Known,
    dir: &Path,
    dump: &Dump,
    counts: &Counts,
    report: &mut Report,
) -> std::io::Result<Vec<String>> {
    let tree = look::tree(dir)?;
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
    for (_, call) in &turn.calls {
        world.apply(call);
        worlds.push(world.clone());
    }
    let fits = |world: &World| {
        let mut charged: Vec<&String> = world.charged.iter().collect();
        charged.sort();
        world.tree == tree && world.notes == dump.notes && charged == recorded
    };
    match worlds.iter().rposition(fits) {
        Some(at) => {
            if let Some(world) = worlds.get(at) {
                known.world = world.clone();
            }
        }
        None => {
            let nearest = worlds.iter().find(|world| world.tree == tree).unwrap_or(&known.world);
            report.find(
                "state",
                format!(
                    "{} is neither before nor after {turn:?}: tree {}; notes expected {:?}, found {:?}; charged expected {:?}, found {recorded:?}",
                    dir.display(),
                    look::difference(&nearest.tree, &tree),
                    last(&nearest.notes),
                    last(&dump.notes),
                    last(&nearest.charged),
                ),
            );
            // Go on from what is there, so that one finding is not told again and again.
            known.world =
                World { tree, notes: dump.notes.clone(), charged: recorded.into_iter().cloned().collect() };
        }
    }
    log(known, &turn, dump, report);
    effects(dir, &turn, dump, counts, report);
    Ok(dump
        .ledger
        .iter()
        .filter(|(_, standing)| **standing == Standing::InDoubt)
        .map(|(key, _)| key.clone())
        .collect())
}

/// The end of a list, short enough to be read.
fn last(all: &[String]) -> Vec<&str> {
    let tail = all.get(all.len().saturating_sub(3)..).unwrap_or_default();
    tail.iter().map(|text| text.get(..16).unwrap_or(text)).collect()
}

/// Every answered call has its one event, which says the same; the calls in flight have one at most.
fn log(known: &mut Known, turn: &Turn, dump: &Dump, report: &mut Report) {
    let mut events: std::collections::HashMap<&str, Vec<bool>> = std::collections::HashMap::new();
    for event in &dump.log {
        events.entry(&event.call_id).or_default().push(event.success);
    }
    for (id, success) in &known.answers {
        match events.get(id.as_str()).map(Vec::as_slice) {
            Some([logged]) if logged == success => {}
            other => {
                report.find("log", format!("{id} was answered with {success}, and its events say {other:?}"))
            }
        }
    }
    for (id, _) in &turn.calls {
        match events.get(id.as_str()).map(Vec::as_slice) {
            None => {}
            // From here on it is as good as answered.
            Some([logged]) => known.answers.push((id.clone(), *logged)),
            Some(several) => report.find("log", format!("{id} has {} events", several.len())),
        }
    }
    if let Some(event) = dump.log.iter().find(|event| event.ending == "claimed") {
        report.find("log", format!("{event:?} has no end"));
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
