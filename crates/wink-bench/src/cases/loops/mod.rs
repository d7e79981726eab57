//! What a turn of a loop takes beside the model: the same script for everybody, one call of the same tool in each turn, and a
//! model that does nothing but answer and look at the clock. A turn is the time from one request to the next.

mod peer;
mod wink;

#[cfg(test)]
mod tests;

use std::fs;

use serde_json::{Value, json};

use super::place::scratch;
use super::typed_call::{ANSWER, ARGUMENTS, TOOL};
use super::{Contender, Keeping, Part, Row};
use crate::measure::{Effort, Figures, timed};

/// What the model says in the end.
const DONE: &str = "Done.";
/// How many turns at the beginning and at the end of a run are looked at.
const LOOKED_AT: usize = 10;

/// The times of one run: for each turn that called the tool, in nanoseconds.
type Turns = Vec<f64>;

/// Somebody's loop, which makes one run each time.
struct Loop {
    contender: Contender,
    keeping: Keeping,
    run: Box<dyn FnMut() -> Turns>,
    taken: Vec<Turns>,
}

/// Everybody's loops, in turns, run by run.
pub(crate) fn measure(rows: &[Row], effort: Effort) -> Vec<(Row, Vec<(Contender, Figures)>)> {
    let (turns, warm_up, rounds) = match effort {
        Effort::Full => (500, 1, 5),
        Effort::Few => (2 * LOOKED_AT, 0, 1),
    };
    let is_asked = |keeping| rows.iter().any(|row| matches!(row, Row::Loop(asked, _) if *asked == keeping));
    let place = scratch();
    let (script, path) = (script(turns), place.path().join("script.jsonl"));
    fs::write(&path, &script).unwrap_or_else(|error| unreachable!("{}: {error}", path.display()));
    let mut loops = Vec::new();
    for keeping in Keeping::ALL.into_iter().filter(|keeping| is_asked(*keeping)) {
        for contender in Contender::ALL {
            let run: Option<Box<dyn FnMut() -> Turns>> = match contender {
                Contender::Wink => Some(wink::make(&script, turns, keeping)),
                _ => peer::make(contender, &path, turns, keeping),
            };
            loops.extend(run.map(|run| Loop { contender, keeping, run, taken: Vec::new() }));
        }
    }
    for round in 0..warm_up + rounds {
        for one in &mut loops {
            let turns = (one.run)();
            if round >= warm_up {
                one.taken.push(turns);
            }
        }
    }
    let figures = |row: &Row| {
        let Row::Loop(keeping, part) = *row else { return None };
        let of_row = loops.iter().filter(|one| one.keeping == keeping).map(|one| {
            let taken = one.taken.iter().flat_map(|turns| part.of(turns)).copied().collect();
            (one.contender, Figures { ns: Some(timed(taken)), ..Figures::default() })
        });
        Some((*row, of_row.collect()))
    };
    rows.iter().filter_map(figures).collect()
}

impl Part {
    fn of(self, turns: &[f64]) -> &[f64] {
        let many = LOOKED_AT.min(turns.len());
        match self {
            Part::Early => turns.split_at(many).0,
            Part::Late => turns.split_at(turns.len() - many).1,
        }
    }
}

/// A call in each turn, no two of them alike, and a last word.
fn script(turns: usize) -> String {
    let mut script = String::new();
    for turn in 0..turns {
        let mut arguments: Value =
            serde_json::from_str(ARGUMENTS).unwrap_or_else(|error| unreachable!("{error}"));
        if let Some(line) = arguments.get_mut("start_line") {
            *line = json!(turn);
        }
        let call = json!({ "id": format!("call_{turn}"), "name": TOOL, "arguments": arguments });
        script += &format!("{}\n", json!({ "text": "", "tool_calls": [call] }));
    }
    script + &format!("{}\n", json!({ "text": DONE, "tool_calls": [] }))
}

/// What the tool answers in the last turn that calls it; whoever is told otherwise did other work.
fn last_answer(turns: usize) -> String {
    ANSWER.replace("117", &turns.saturating_sub(1).to_string())
}
