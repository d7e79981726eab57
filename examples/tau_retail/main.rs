//! A world nobody here made: the sixteen tools of tau-bench's retail domain, replayed over its 635 published traces
//! with faults injected after the effect of some calls.
//!
//! ```text
//! cargo run --release --example tau_retail -- --faults 0.3
//! ```
//!
//! Where to look:
//!
//! - [`domain`]: what the tools do, as plain functions that know nothing of wink;
//! - [`records`]: what the shop keeps, one slice per kind of record;
//! - [`tools`]: the tools on wink: handlers, footprints, the section that lists them;
//! - [`engine`]: a session per task, an executor, and faults at every step that follows a tool's effect;
//! - [`replay`]: the traces, call by call, and what came out different.
//!
//! A call that fails after its effect is rolled back, so making it again gives the right answer. `--no-rollback` has
//! the tools work behind their call's back instead, and shows what becomes of the answers then.

mod database;
mod domain;
mod engine;
mod json;
mod number;
mod ordered;
mod records;
mod replay;
mod tools;
mod trace;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use crate::database::Initial;
use crate::engine::WinkEngine;
use crate::replay::{Faults, Report, replay};
use crate::tools::Writes;
use crate::trace::{Step, Task};

/// Replays the retail traces with faults and retries, and counts what comes out wrong.
#[derive(Debug, Parser)]
struct Args {
    /// The folder with the retail data.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/tau-retail"))]
    data: PathBuf,
    /// The share of calls that fail after their effect, from 0 to 1; each is then retried.
    #[arg(long, default_value_t = 0.3, value_parser = share)]
    faults: f64,
    /// Chooses which calls fail.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the effect of a call that failed, to see what goes wrong then.
    #[arg(long)]
    no_rollback: bool,
    /// Print the report as one line of JSON.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    run(&Args::parse()).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let tasks = trace::load(&args.data)?;
    let initial = Arc::new(Initial::load(&args.data)?);
    let writes = if args.no_rollback { Writes::Unprotected } else { Writes::InTheCall };
    let mut engine = WinkEngine::new(initial, writes)?;
    let report = replay(&tasks, &mut engine, Faults::new(args.faults, args.seed), |task, call| {
        // Without rollback differences are the point, and there are hundreds.
        if !args.no_rollback {
            print_difference(task, call);
        }
    })?;
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print_report(&report, args.no_rollback);
    }
    let right = report.wrong_results == 0 && report.wrong_databases == 0;
    Ok(if right || args.no_rollback { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_difference(task: &Task, call: Option<(&Step, &str)>) {
    let Task { split, task, .. } = task;
    match call {
        Some((Step { name, result, .. }, text)) => {
            eprintln!("{split} {task}: {name} answered {text} instead of {result}");
        }
        None => eprintln!("{split} {task}: wrong database"),
    }
}

fn print_report(report: &Report, no_rollback: bool) {
    let after_fault = if no_rollback { "kept the effect" } else { "rolled back" };
    println!("tasks replayed     {:>6}", report.tasks);
    println!("calls made         {:>6}", report.calls);
    println!("faults, retried    {:>6}  ({after_fault})", report.faults);
    println!("wrong results      {:>6}", report.wrong_results);
    println!("wrong databases    {:>6}", report.wrong_databases);
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share @ 0.0..=1.0) => Ok(share),
        _ => Err("expected a number from 0 to 1".to_owned()),
    }
}
