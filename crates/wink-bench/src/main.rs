//! Wink beside the floor and its peers, in one run.
//!
//! `cargo run --profile dist -p wink-bench` prints tables with the targets; `-- --json` prints one JSON object.
//! Names of rows or of groups of rows (`durable`, `host`) restrict the run to them. The rows `cli` and `mcp` measure the
//! program `wink` beside this one: `cargo build --profile dist -p wink-cli` first. `scripts/bench` does so, and has the Python
//! original and the Python peers of the rows `loop` in the run. To see where the instructions of one case go:
//!
//! ```text
//! valgrind --tool=callgrind --collect-atstart=no --toggle-collect='*measured_region*' \
//!     target/dist/wink-bench --counted wink call/empty
//! ```

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::cases::{Case, Contender, Kind, Row, loops, mcp, program};
use crate::measure::{COUNTED, Callgrind, Effort, Figures, Timed};
use crate::report::Report;

mod cases;
mod measure;
mod report;

const USAGE: &str = "\
Usage: wink-bench [--json] [--few] [ROW]...

Measures Wink beside the floor and its peers: instructions (with valgrind) and nanoseconds per call.

  --json   print one JSON object instead of tables
  --few    do everything a few times only, to see that it works: the figures mean nothing
  ROW      measure only these rows, or groups of rows: call, policy, durable, host, cli, mcp, loop, call/empty, ...

WINK_BENCH_ORIGINAL names a Python that has the original, to be measured in cli/call. WINK_BENCH_PYDANTIC_AI and WINK_BENCH_LANGGRAPH
name Pythons that have these libraries, to be measured in loop.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match Command::parse(&arguments).and_then(Command::run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("wink-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

enum Command {
    Help,
    Measure {
        rows: Vec<Row>,
        format: Format,
        effort: Effort,
    },
    Counted {
        contender: Contender,
        row: Row,
    },
    /// To be rmcp's server, which this program starts to measure it.
    Serve(mcp::Serving),
}

enum Format {
    Json,
    Table,
}

impl Command {
    fn parse(arguments: &[String]) -> Result<Self, String> {
        if let [flag, contender, row] = arguments
            && flag == COUNTED
        {
            return Ok(Command::Counted { contender: contender.parse()?, row: row.parse()? });
        }
        if let Some((flag, rest)) = arguments.split_first()
            && flag == mcp::SERVE
        {
            return mcp::Serving::parse(rest).map(Command::Serve);
        }
        let mut rows = Vec::new();
        let mut format = Format::Table;
        let mut effort = Effort::Full;
        for argument in arguments {
            match argument.as_str() {
                "--help" | "-h" => return Ok(Command::Help),
                "--json" => format = Format::Json,
                "--few" => effort = Effort::Few,
                flag if flag.starts_with('-') => {
                    return Err(format!("`{flag}` is not an option\n\n{USAGE}"));
                }
                row => rows.extend(Row::named(row)?),
            }
        }
        if rows.is_empty() {
            rows.extend(Row::ALL);
        }
        Ok(Command::Measure { rows, format, effort })
    }

    fn run(self) -> Result<(), String> {
        match self {
            Command::Help => print!("{USAGE}"),
            Command::Counted { contender, row } => {
                let case = contender
                    .make(row)
                    .ok_or_else(|| format!("{} has nothing to show in {}", contender.name(), row.name()))?;
                measure::run_counted(case);
            }
            Command::Serve(serving) => serving.run()?,
            Command::Measure { rows, format, effort } => {
                if cfg!(debug_assertions) {
                    eprintln!(
                        "this is a debug build: its figures mean nothing; use `cargo run --profile dist`"
                    );
                }
                if rows.iter().any(|row| matches!(row.kind(), Kind::Processes | Kind::Sessions)) {
                    eprintln!("measuring {}", program::version()?);
                }
                let report = measure_rows(&rows, effort);
                match format {
                    Format::Json => println!("{}", report.to_json()),
                    Format::Table => print!("{report}"),
                }
            }
        }
        Ok(())
    }
}

/// Times every case first, on a quiet machine, and then counts instructions, which do not mind company. What is on disk
/// comes after that, so that whoever measures in memory has the memory; then what is started for it.
fn measure_rows(rows: &[Row], effort: Effort) -> Report {
    let of = |kind: Kind| -> Vec<Row> { rows.iter().copied().filter(|row| row.kind() == kind).collect() };
    let timed: Vec<_> = of(Kind::InMemory).into_iter().map(|row| (row, time_row(row))).collect();
    let cases: Vec<(Contender, Row)> = timed
        .iter()
        .flat_map(|(row, contenders)| contenders.iter().map(|(contender, _)| (*contender, *row)))
        .collect();
    let mut instructions = if cases.is_empty() { Vec::new() } else { count_all(&cases) }.into_iter();

    let mut report = Report::default();
    for (row, contenders) in timed {
        let figures = contenders.into_iter().map(|(contender, ns)| {
            let instructions = instructions.next().flatten();
            (contender, Figures { instructions, ns: Some(ns), ..Figures::default() })
        });
        report.add(row, figures.collect());
    }
    let mut add_timed = |timed: Vec<(Row, Vec<(Contender, Timed)>)>| {
        for (row, contenders) in timed {
            let figures = contenders.into_iter();
            let figures =
                figures.map(|(contender, ns)| (contender, Figures { ns: Some(ns), ..Figures::default() }));
            report.add(row, figures.collect());
        }
    };
    add_timed(time_alone(&of(Kind::OnDisk), effort));
    for row in of(Kind::Processes) {
        // One by one: nobody is measured while the servers of another row are there.
        add_timed(time_alone(&[row], effort));
    }
    for (row, figures) in mcp::measure_sessions(&of(Kind::Sessions), effort) {
        report.add(row, figures);
    }
    for (row, figures) in loops::measure(&of(Kind::Loops), effort) {
        report.add(row, figures);
    }
    report
}

/// Rows that are compared take turns with all their contenders.
fn time_alone(rows: &[Row], effort: Effort) -> Vec<(Row, Vec<(Contender, Timed)>)> {
    let mut made: Vec<(Contender, Row, Case)> = Vec::new();
    for row in rows {
        made.extend(Contender::ALL.into_iter().filter_map(|who| Some((who, *row, who.make(*row)?))));
    }
    let mut timed: Vec<(Row, Vec<(Contender, Timed)>)> = Vec::new();
    while let Some((_, first, _)) = made.first() {
        let family = first.family();
        let (mut members, others): (Vec<_>, Vec<_>) =
            made.into_iter().partition(|(_, row, _)| row.family() == family);
        made = others;
        let figures = measure::time_alone(&mut members, effort);
        for ((contender, row, _), figures) in members.into_iter().zip(figures) {
            match timed.iter_mut().find(|(known, _)| *known == row) {
                Some((_, of_row)) => of_row.push((contender, figures)),
                None => timed.push((row, vec![(contender, figures)])),
            }
        }
    }
    timed
}

fn time_row(row: Row) -> Vec<(Contender, Timed)> {
    let (contenders, mut cases): (Vec<Contender>, Vec<Case>) =
        Contender::ALL.into_iter().filter_map(|contender| Some((contender, contender.make(row)?))).unzip();
    contenders.into_iter().zip(measure::time(&mut cases)).collect()
}

/// Instructions of each case, in order; a case that could not be counted says why on standard error.
fn count_all(cases: &[(Contender, Row)]) -> Vec<Option<u64>> {
    let callgrind = match Callgrind::find() {
        Ok(callgrind) => callgrind,
        Err(error) => {
            eprintln!("wink-bench: {error}");
            return vec![None; cases.len()];
        }
    };
    let next = AtomicUsize::new(0);
    let count_some = || {
        let mut counted = Vec::new();
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some((contender, row)) = cases.get(index)
        {
            match callgrind.count(*contender, *row) {
                Ok(instructions) => counted.push((index, instructions)),
                Err(error) => eprintln!("wink-bench: {} of {}: {error}", row.name(), contender.name()),
            }
        }
        counted
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let mut instructions = vec![None; cases.len()];
    thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(count_some)).collect();
        for (index, count) in workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()) {
            if let Some(slot) = instructions.get_mut(index) {
                *slot = Some(count);
            }
        }
    });
    instructions
}
