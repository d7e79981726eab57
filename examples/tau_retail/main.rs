//! A world nobody here made: the sixteen tools of tau-bench's retail domain, replayed over its 635 published traces
//! with faults injected after the effect of some calls.
//!
//! ```text
//! cargo run --release --example tau_retail -- --data data/tau-retail --faults 0.3
//! ```

mod database;
mod direct;
mod domain;
mod json;
mod number;
mod ordered;
mod records;
mod replay;
mod trace;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use crate::database::Initial;
use crate::direct::{AfterFault, Direct};
use crate::replay::{Faults, Report, replay};

/// Replays the retail traces with faults and retries, and counts what comes out wrong.
#[derive(Debug, Parser)]
struct Args {
    /// The folder with the retail data.
    #[arg(long, default_value = "data/tau-retail")]
    data: PathBuf,
    /// The share of calls that fail after their effect, from 0 to 1; each is then retried once.
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
    let after_fault = if args.no_rollback { AfterFault::Kept } else { AfterFault::RolledBack };
    let mut engine = Direct::new(initial, after_fault);
    let report = replay(&tasks, &mut engine, Faults::new(args.faults, args.seed), |task, call| {
        // Without rollback differences are the point, and there are hundreds.
        if args.no_rollback {
            return;
        }
        match call {
            Some((step, text)) => {
                eprintln!(
                    "{} {}: {} answered {text} instead of {}",
                    task.split, task.task, step.name, step.result
                );
            }
            None => eprintln!("{} {}: wrong database", task.split, task.task),
        }
    })?;
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print_report(&report);
    }
    let right = report.wrong_results == 0 && report.wrong_databases == 0;
    Ok(if right || args.no_rollback { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_report(report: &Report) {
    println!("{} tasks, {} calls, {} of them faulted and retried", report.tasks, report.calls, report.faults);
    println!("{} wrong results, {} wrong databases", report.wrong_results, report.wrong_databases);
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share @ 0.0..=1.0) => Ok(share),
        _ => Err("expected a number from 0 to 1".to_owned()),
    }
}
