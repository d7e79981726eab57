//! What is printed: one JSON object for programs, or tables with the targets for people.

use std::fmt::{self, Display, Formatter};

use serde_json::{Map, Value, json};

use crate::cases::{Contender, End, Keeping, Kind, Part, Row, Size, Way};
use crate::measure::{Figures, Memory};

#[cfg(test)]
mod tests;

/// The figures of one run.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<(Row, Vec<(Contender, Figures)>)>,
}

impl Report {
    /// Adds a row with the contenders that were measured in it.
    pub(crate) fn add(&mut self, row: Row, figures: Vec<(Contender, Figures)>) {
        self.rows.push((row, figures));
    }

    /// `{"rows": [{"name": …, "wink": {"instructions": …, "ns": …}, …}]}`. A peer without figures is left out;
    /// Wink is always there, with nulls if need be.
    pub(crate) fn to_json(&self) -> Value {
        let rows = self.rows.iter().map(|(row, figures)| {
            let mut object = Map::new();
            object.insert("name".to_owned(), json!(row.name()));
            object.insert(Contender::Wink.name().to_owned(), figures_to_json(Figures::default()));
            for (contender, figures) in figures {
                object.insert(contender.name().to_owned(), figures_to_json(*figures));
            }
            Value::Object(object)
        });
        json!({ "rows": rows.collect::<Vec<_>>() })
    }

    /// What else there is to say of programs and loops: the slowest of a hundred, and memory.
    fn write_processes(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let programs = |row: &Row| matches!(row.kind(), Kind::Processes | Kind::Sessions | Kind::Loops);
        if !self.rows.iter().any(|(row, _)| programs(row)) {
            return Ok(());
        }
        writeln!(f)?;
        writeln!(
            f,
            "{:<27} {:<11} {:>10} {:>10} {:>12} {:>9} {:>13}",
            "row", "who", "median µs", "99th µs", "resident MiB", "peak MiB", "KiB a session"
        )?;
        for (row, contenders) in self.rows.iter().filter(|(row, _)| programs(row)) {
            for (contender, Figures { ns, memory, .. }) in contenders {
                let part = |bytes: u64, of: f64| format!("{:.1}", bytes as f64 / of);
                let cells = [
                    ns.map(|ns| format!("{:.1}", ns.median / 1e3)),
                    ns.map(|ns| format!("{:.1}", ns.most / 1e3)),
                    memory.map(|memory| part(memory.resident, 1_048_576.0)),
                    memory.map(|memory| part(memory.peak, 1_048_576.0)),
                    memory.map(|memory| part(memory.of_each, 1_024.0)),
                ];
                let [median, most, resident, peak, of_each] =
                    cells.map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
                let (row, who) = (row.name(), contender.name());
                writeln!(
                    f,
                    "{row:<27} {who:<11} {median:>10} {most:>10} {resident:>12} {peak:>9} {of_each:>13}"
                )?;
            }
        }
        Ok(())
    }

    fn figures(&self, contender: Contender, row: Row) -> Option<Figures> {
        let (_, contenders) = self.rows.iter().find(|(measured, _)| *measured == row)?;
        contenders.iter().find(|(measured, _)| *measured == contender).map(|(_, figures)| *figures)
    }

    /// Instructions against instructions if both were counted, else time against time.
    fn ratio(&self, (contender, row): Subject, to: Subject) -> Option<Reading> {
        let ours = self.figures(contender, row)?;
        let theirs = self.figures(to.0, to.1)?;
        let divide = |ours: f64, theirs: f64| (theirs > 0.0).then(|| ours / theirs);
        if let (Some(ours), Some(theirs)) = (ours.instructions, theirs.instructions) {
            return Some(Reading { value: divide(ours as f64, theirs as f64)?, by: "instructions" });
        }
        Some(Reading { value: divide(ours.ns?.median, theirs.ns?.median)?, by: "ns" })
    }
}

fn figures_to_json(figures: Figures) -> Value {
    let rounded = |ns: f64| (ns * 10.0).round() / 10.0;
    let mut object =
        json!({ "instructions": figures.instructions, "ns": figures.ns.map(|ns| rounded(ns.median)) });
    if let (Some(ns), Some(object)) = (figures.ns, object.as_object_mut()) {
        object.insert("ns_spread".to_owned(), json!([rounded(ns.low), rounded(ns.high)]));
        object.insert("ns_99".to_owned(), json!(rounded(ns.most)));
    }
    if let (Some(Memory { resident, peak, of_each }), Some(object)) = (figures.memory, object.as_object_mut())
    {
        let bytes = json!({ "resident": resident, "peak": peak, "of_each_session": of_each });
        object.insert("bytes".to_owned(), bytes);
    }
    object
}

type Subject = (Contender, Row);

struct Reading {
    value: f64,
    by: &'static str,
}

/// A promise about Wink's cost in one row.
struct Target {
    row: Row,
    bound: Bound,
}

enum Bound {
    /// At most so many times what the subject costs.
    Times(f64, Subject, &'static str),
    /// At most so many nanoseconds.
    Nanoseconds(f64),
}

/// The plain call is "the floor" of every target, also of `call/write`: its own floor, which writes too, is
/// dearer and would be the easier promise. That `policy/history` is flat shows in its size: it is asked of a long
/// history, which nobody walks in fifty nanoseconds.
const TARGETS: [Target; 21] = [
    Target { row: Row::CallEmpty, bound: Bound::Times(2.0, (Contender::Floor, Row::CallEmpty), "the floor") },
    Target {
        row: Row::CallEmpty,
        bound: Bound::Times(1.0, (Contender::Rmcp, Row::CallEmpty), "rmcp's router"),
    },
    Target {
        row: Row::CallEmpty,
        bound: Bound::Times(0.5, (Contender::Rig, Row::CallEmpty), "rig's tool set"),
    },
    Target { row: Row::CallWrite, bound: Bound::Times(3.0, (Contender::Floor, Row::CallEmpty), "the floor") },
    Target {
        row: Row::CallLarge,
        bound: Bound::Times(1.75, (Contender::Wink, Row::CallWrite), "call/write"),
    },
    Target { row: Row::CallFail, bound: Bound::Times(1.3, (Contender::Wink, Row::CallWrite), "call/write") },
    Target { row: Row::PolicyHistory, bound: Bound::Nanoseconds(50.0) },
    Target {
        row: Row::DurableCall,
        bound: Bound::Times(1.5, (Contender::Floor, Row::DurableCall), "a bare commit"),
    },
    // They share commits if a call costs less than one.
    Target {
        row: Row::DurableMany,
        bound: Bound::Times(1.0, (Contender::Floor, Row::DurableMany), "a bare commit"),
    },
    flat(Way::Api, End::Commit, "with 1000 files"),
    of_git(Way::Api, End::Commit),
    flat(Way::Api, End::Rollback, "with 1000 files"),
    of_git(Way::Api, End::Rollback),
    flat(Way::Overlay, End::Commit, "with 1000 files"),
    of_git(Way::Overlay, End::Commit),
    flat(Way::Overlay, End::Rollback, "with 1000 files"),
    of_git(Way::Overlay, End::Rollback),
    Target {
        row: Row::CliCall,
        bound: Bound::Times(0.05, (Contender::Original, Row::CliCall), "the original"),
    },
    // A twentieth of what the original's smallest program took where the target was set: 355 ms.
    Target { row: Row::CliCall, bound: Bound::Nanoseconds(17_750_000.0) },
    late(Keeping::Memory),
    late(Keeping::Durable),
];

const fn flat(way: Way, end: End, whom: &'static str) -> Target {
    let small = (Contender::Wink, Row::Host(way, end, Size::Small));
    Target { row: Row::Host(way, end, Size::Large), bound: Bound::Times(1.5, small, whom) }
}

const fn late(keeping: Keeping) -> Target {
    let early = (Contender::Wink, Row::Loop(keeping, Part::Early));
    Target { row: Row::Loop(keeping, Part::Late), bound: Bound::Times(1.5, early, "the early turns") }
}

const fn of_git(way: Way, end: End) -> Target {
    let row = Row::Host(way, end, Size::Large);
    Target { row, bound: Bound::Times(0.1, (Contender::Git, row), "git") }
}

impl Target {
    fn limit(&self) -> f64 {
        match self.bound {
            Bound::Times(limit, ..) | Bound::Nanoseconds(limit) => limit,
        }
    }

    fn promise(&self) -> String {
        match self.bound {
            Bound::Times(limit, _, whom) => format!("≤ {limit} × {whom}"),
            Bound::Nanoseconds(limit) => format!("≤ {limit} ns"),
        }
    }

    fn read(&self, report: &Report) -> Option<Reading> {
        match self.bound {
            Bound::Times(_, to, _) => report.ratio((Contender::Wink, self.row), to),
            Bound::Nanoseconds(_) => {
                let figures = report.figures(Contender::Wink, self.row)?;
                Some(Reading { value: figures.ns?.median, by: "ns" })
            }
        }
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<27} {:<11} {:>13} {:>12} {:>23} {:>8}",
            "row", "who", "instructions", "ns", "tenth .. nine tenths", "× floor"
        )?;
        for (row, contenders) in &self.rows {
            for (contender, figures) in contenders {
                let instructions = figures.instructions.map(|count| count.to_string());
                let ns = figures.ns.map(|ns| format!("{:.1}", ns.median));
                let spread = figures.ns.map(|ns| format!("{:.1} .. {:.1}", ns.low, ns.high));
                let floor = self.ratio((*contender, *row), (Contender::Floor, *row));
                let floor = floor.map(|reading| format!("{:.2}", reading.value));
                let [instructions, ns, spread, floor] =
                    [instructions, ns, spread, floor].map(|cell| cell.unwrap_or_else(|| "-".to_owned()));
                let (row, who) = (row.name(), contender.name());
                writeln!(f, "{row:<27} {who:<11} {instructions:>13} {ns:>12} {spread:>23} {floor:>8}")?;
            }
        }
        self.write_processes(f)?;
        writeln!(f)?;
        writeln!(f, "{:<27} {:<24} {:>20} verdict", "row", "target for wink", "measured")?;
        for target in TARGETS.iter().filter(|target| self.rows.iter().any(|(row, _)| *row == target.row)) {
            let (measured, verdict) = match target.read(self) {
                Some(Reading { value, by }) => {
                    let verdict = if value <= target.limit() { "met" } else { "missed" };
                    (format!("{value:.2} ({by})"), verdict)
                }
                None => ("-".to_owned(), "not measured"),
            };
            writeln!(f, "{:<27} {:<24} {measured:>20} {verdict}", target.row.name(), target.promise())?;
        }
        Ok(())
    }
}
