//! The crash kit: real calls in a child process that is killed at every named step and at random moments, and what is
//! found when everything is opened again.
//!
//! ```text
//! cargo run --release -p wink-crash -- --kills 5000 --json
//! cargo run --release -p wink-crash -- --kills 200 --plant early-commit    # a bug that it must find
//! ```
//!
//! The parent has a model of what each call does ([`model`]) and reads the tree with the standard library ([`look`]):
//! nothing it judges by is shared with what it judges. Effects outside are counted by a third process ([`effects`]).
//! The journal's own writes are tried on a disk that loses what was not synced ([`disk`]).
//!
//! Exit codes: 0 nothing was found, 1 something was, 2 usage, 4 the kit itself did not work.

#![expect(clippy::disallowed_methods, reason = "real processes die at real times")]

mod calls;
mod cells;
mod disk;
mod drive;
mod effects;
mod judge;
mod look;
mod model;
mod plants;
mod protocol;
mod report;
mod script;
mod worker;
mod world;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand, ValueEnum};

use report::Report;

#[derive(Parser)]
#[command(about = "Kills a process that runs calls, again and again, and looks what is left", version)]
struct Options {
    /// How many children to kill inside a call.
    #[arg(long, default_value_t = 500)]
    kills: u64,
    /// One object on one line instead of text.
    #[arg(long)]
    json: bool,
    /// Another run.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The only step to kill children at, instead of all of them and any moment.
    #[arg(long, value_parser = clap::builder::PossibleValuesParser::new(wink::testing::steps::ALL))]
    at: Option<String>,
    /// A bug to plant. The kit has to find it.
    #[arg(long)]
    plant: Option<Plant>,
    /// For how many seconds a child may say nothing before it is taken to hang.
    #[arg(long, default_value_t = 120)]
    patience: u64,
    /// Where workspaces on a disk are made; a temporary directory unless given. Others are made in /dev/shm.
    #[arg(long)]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    mode: Option<Mode>,
}

/// What the kit's own processes are started with.
#[derive(Subcommand)]
enum Mode {
    /// Do what is asked on standard input, in a workspace.
    #[command(hide = true)]
    Work(Work),
    /// Count effects.
    #[command(hide = true)]
    Count { socket: PathBuf },
    /// Give a file an extended attribute.
    #[command(hide = true)]
    Mark { path: PathBuf, value: String },
}

/// What a child that works is told.
#[derive(clap::Args)]
pub(crate) struct Work {
    /// The workspace.
    dir: PathBuf,
    /// Where effects are counted.
    socket: PathBuf,
    /// The step to die at.
    #[arg(long)]
    die_at: Option<String>,
    /// When it is reached for this time.
    #[arg(long, default_value_t = 1)]
    nth: usize,
    /// The bug to have.
    #[arg(long)]
    plant: Option<Plant>,
    /// Whether to die on the way to being ready, and not in a call.
    #[arg(long)]
    opening: bool,
    /// The file that the first command makes when it is at work; then it goes on without end.
    #[arg(long)]
    hold: Option<PathBuf>,
    /// The file that the first command waits for when it is at work.
    #[arg(long)]
    gate: Option<PathBuf>,
    /// The session.
    #[arg(long, default_value = "crash")]
    session: String,
    /// Whether commands work in the workspace itself, which is scanned.
    #[arg(long)]
    scan: bool,
}

/// A bug that is built in on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Plant {
    /// The disk does not do one kind of sync; the seed says which.
    MissingSync,
    /// The store commits before the files are in place.
    EarlyCommit,
    /// The claim on a key is not written before the handler runs.
    LostClaim,
    /// That a call is on its way is not written down before its handler runs.
    LostMark,
    /// That the handler of a call with a key starts is not written down.
    LostStart,
    /// That a handler starts is written down before its key is claimed: every claim of a dead process is in doubt.
    EarlyStart,
    /// A workspace that was open before cannot be opened.
    Unopenable,
    /// A call that only notes something never ends.
    Deadlock,
    /// Opening a workspace gives files new times, and each of their names a file of its own.
    LostTraces,
    /// Opening a workspace leaves a directory with another mode.
    LostLocks,
    /// The record of modes that a dead process had lifted is empty.
    LostModes,
    /// A command that wrote what another process has written meanwhile succeeds, and its change is dropped.
    LostUpdate,
}

impl Plant {
    /// As on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match &options.mode {
        Some(Mode::Work(work)) => {
            return match world::work(work) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("wink-crash: the child failed: {error}");
                    ExitCode::from(4)
                }
            };
        }
        Some(Mode::Count { socket }) => effects::count(socket).map(|()| None),
        Some(Mode::Mark { path, value }) => {
            let flags = rustix::fs::XattrFlags::empty();
            let set = rustix::fs::lsetxattr(path, model::ATTRIBUTE, value.as_bytes(), flags);
            set.map(|()| None).map_err(Into::into)
        }
        None => everything(&options).map(Some),
    };
    match done {
        Ok(None) => ExitCode::SUCCESS,
        Ok(Some(report)) => {
            tell(&report, options.json);
            if report.findings == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) }
        }
        Err(error) => {
            eprintln!("wink-crash: {error}");
            ExitCode::from(4)
        }
    }
}

fn everything(options: &Options) -> std::io::Result<Report> {
    let started = Instant::now();
    let own = options.dir.is_none();
    let dir = match &options.dir {
        Some(dir) => dir.clone(),
        None => std::env::temp_dir().join(format!("wink-crash-{}", std::process::id())),
    };
    std::fs::create_dir_all(&dir)?;
    let mut report = Report { seed: options.seed, ..Report::default() };
    disk::run(options.kills, options.seed, options.plant, &mut report);
    let (cells, dirs) = cells::all(&dir)?;
    // A disk that does not sync is not seen by killing a process: the system still has everything.
    if options.plant != Some(Plant::MissingSync) {
        let &Options { kills, seed, plant, .. } = options;
        let patience = Duration::from_secs(options.patience);
        let program = cells::program_in(&dir)?;
        let at = options.at.clone();
        let setup = drive::Setup { kills, seed, at, plant, patience, cells: cells.clone(), program };
        drive::run(&setup, &dir, &mut report)?;
    }
    // A workspace that was lost is worth a look.
    if report.lost == 0 || options.plant.is_some() {
        for made in dirs.iter().filter(|made| own || **made != dir) {
            cells::remove(made)?;
        }
    }
    let missed = std::mem::take(&mut report.never_reached);
    // A handful of kills cannot reach every step.
    let is_long = report.kills > 8 * wink::testing::steps::ALL.len() as u64;
    if is_long && options.plant.is_none() && options.at.is_none() {
        for step in &missed {
            report.find("step", format!("no child could be killed at {step}"));
        }
        let overlays_work = wink_sandbox::Capabilities::detect().overlay.is_some();
        for cell in cells.iter().filter(|cell| cell.scan || overlays_work) {
            let name = cell.name(cell.wanted());
            if !report.cells.contains_key(&name) {
                report.find("cell", format!("no child could be killed in {name}"));
            }
        }
    }
    report.never_reached = missed;
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

fn tell(report: &Report, json: bool) {
    if json {
        match serde_json::to_string(report) {
            Ok(line) => println!("{line}"),
            Err(error) => eprintln!("wink-crash: the report cannot be written: {error}"),
        }
        return;
    }
    println!(
        "{} kills ({} at {} named steps, {} at random, {} while a command ran, {} of them with another process waiting; {} in an undo), {} more while recovering, {} calls, {} answered, {} crashes of the model disk, {:.0} s",
        report.kills,
        report.kills - report.random - report.in_commands,
        report.steps.len(),
        report.random,
        report.in_commands,
        report.waited_for,
        report.in_undos,
        report.recoveries,
        report.calls,
        report.answered,
        report.disk_crashes,
        report.seconds,
    );
    let captures: Vec<String> =
        report.capture.iter().map(|(how, times)| format!("{how} ({times})")).collect();
    println!("commands captured by: {}", captures.join(", "));
    let cells: Vec<String> = report.cells.iter().map(|(cell, kills)| format!("{cell} ({kills})")).collect();
    println!("kills in: {}", cells.join(", "));
    if !report.never_reached.is_empty() {
        println!("never reached: {}", report.never_reached.join(", "));
    }
    match report.findings {
        0 => println!("nothing found"),
        many => {
            println!("{many} findings:");
            report.found.iter().for_each(|finding| println!("  {finding}"));
        }
    }
}
