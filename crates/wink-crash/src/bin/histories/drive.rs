//! The parent: starts the processes, kills some of them, and reads the history when all have ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use wink::session::ToolInvoked;
use wink::testing::Dice;
use wink_store::Workspace;

use crate::check::check;
use crate::history::{COUNTERS, Event, History, Kind, LISTS, Version};
use crate::work::{Entry, Error, effects_file};
use crate::{Options, Plant};

/// How long the processes of one workspace work: lists grow with every call.
const ROUND: Duration = Duration::from_secs(8);
/// How long a process may go on when its time is over before it is taken to hang.
const PATIENCE: Duration = Duration::from_secs(120);

/// What came of a run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    pub(crate) seed: u64,
    pub(crate) rounds: u64,
    pub(crate) kills: u64,
    pub(crate) seconds: f64,
    /// Calls by tool and how they ended.
    pub(crate) calls: BTreeMap<String, u64>,
    /// How many findings there are of each kind.
    pub(crate) kinds: BTreeMap<String, u64>,
    pub(crate) findings: Vec<String>,
}

impl Report {
    pub(crate) fn tell(&self, json: bool) {
        if json {
            match serde_json::to_string(self) {
                Ok(line) => println!("{line}"),
                Err(error) => eprintln!("histories: the report cannot be written: {error}"),
            }
            return;
        }
        println!("{} rounds, {} kills, {:.0} s", self.rounds, self.kills, self.seconds);
        let calls: Vec<String> = self.calls.iter().map(|(what, times)| format!("{what} {times}")).collect();
        println!("calls: {}", calls.join(", "));
        match self.findings.as_slice() {
            [] => println!("nothing found"),
            found => {
                println!("{} findings:", found.len());
                found.iter().take(50).for_each(|finding| println!("  {finding}"));
            }
        }
    }

    fn find(&mut self, round: u64, what: &str) {
        let kind = what.split(':').next().unwrap_or_default();
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
        self.findings.push(format!("{what} (round {round})"));
    }
}

/// Runs rounds until the time is over: every second one with kills, and every second pair with scans.
pub(crate) fn run(options: &Options) -> Result<Report, Error> {
    let started = Instant::now();
    let until = started + Duration::from_secs(options.seconds);
    let dir = std::env::temp_dir().join(format!("wink-histories-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|error| told(&dir, &error))?;
    let mut report = Report { seed: options.seed, ..Report::default() };
    let mut dice = Dice::new(options.seed);
    while Instant::now() < until && report.findings.len() < 100 {
        report.rounds += 1;
        let round = report.rounds;
        let workspace = dir.join(format!("w{round}"));
        let time = ROUND.min(until.saturating_duration_since(Instant::now())).max(Duration::from_secs(2));
        let (killed, scanned) = (round.is_multiple_of(2), (round - 1) % 4 >= 2);
        let before = report.findings.len();
        furnish(&workspace)?;
        have_work(options, &workspace, Round { time, killed, scanned }, &mut dice, &mut report)?;
        let history = History { killed, scanned, ..read(options, &workspace)? };
        for event in history.sessions.values().flatten() {
            let how = if event.replayed { "Replayed" } else { &event.ending };
            *report.calls.entry(format!("{} {how}", event.kind.tool())).or_default() += 1;
        }
        check(&history).iter().for_each(|what| report.find(round, what));
        // One with a finding is worth a look.
        if report.findings.len() == before || options.plant.is_some() {
            std::fs::remove_dir_all(&workspace).map_err(|error| told(&workspace, &error))?;
            let _ = std::fs::remove_file(effects_file(&workspace));
        }
    }
    let _ = std::fs::remove_dir(&dir);
    // A history in which nothing succeeded, or nothing met, shows nothing.
    for kind in ["append", "bump", "command", "serial", "charge", "note", "peek"] {
        if !report.calls.contains_key(&format!("{kind} Succeeded")) {
            report.find(0, &format!("kit: no call of {kind} succeeded"));
        }
    }
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// A failure of the kit itself, and what it was about.
fn told(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn furnish(dir: &Path) -> std::io::Result<()> {
    for (path, text) in LISTS.map(|path| (path, "")).into_iter().chain(COUNTERS.map(|path| (path, "0\n"))) {
        let path = dir.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, text)?;
    }
    Ok(())
}

/// What the processes of one workspace go through.
struct Round {
    time: Duration,
    /// Whether some of them are killed.
    killed: bool,
    /// Whether a third of them runs commands in the workspace itself.
    scanned: bool,
}

/// Has all processes work, and waits for them.
fn have_work(
    options: &Options,
    dir: &Path,
    Round { time, killed, scanned }: Round,
    dice: &mut Dice,
    report: &mut Report,
) -> Result<(), Error> {
    let until = Instant::now() + time;
    let mut names = 0u64;
    let mut start = |number: usize, dice: &mut Dice| -> Result<Child, Error> {
        names += 1;
        let left = until.saturating_duration_since(Instant::now());
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("work").arg(dir).arg(format!("s{}", number % options.sessions.max(1)));
        command.arg(format!("p{names}")).arg(dice.any().to_string()).arg(left.as_millis().to_string());
        if scanned && number % 3 == 2 {
            command.arg("--scan");
        }
        if let Some(plant) = options.plant {
            command.arg("--plant").arg(match plant {
                Plant::SameContent => "same-content",
                Plant::NoTurn => "no-turn",
            });
        }
        let spawned = command.stdin(Stdio::null()).spawn();
        Ok(spawned.map_err(|error| told(Path::new(command.get_program()), &error))?)
    };
    let mut running = Vec::new();
    for number in 0..options.processes {
        running.push((number, start(number, dice)?));
    }
    while killed && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20 + dice.any() % 300));
        let at = dice.below(running.len().max(1));
        if let Some((number, child)) = running.get_mut(at) {
            child.kill()?;
            child.wait()?;
            report.kills += 1;
            *child = start(*number, dice)?;
        }
    }
    let patience = until + PATIENCE;
    for (number, mut child) in running {
        loop {
            if let Some(status) = child.try_wait()? {
                if !status.success() {
                    report.find(report.rounds, &format!("kit: process {number} ended with {status}"));
                }
                break;
            }
            if Instant::now() > patience {
                report.find(report.rounds, &format!("hang: process {number} goes on when its time is over"));
                child.kill()?;
                child.wait()?;
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}

/// Opens the workspace, which settles what the dead left, and reads what there is.
fn read(options: &Options, dir: &Path) -> Result<History, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let workspace = Workspace::open(dir)?;
        let mut history = History::default();
        for number in 0..options.sessions.max(1) {
            let name = format!("s{number}");
            let session = workspace.session(name.as_str()).open().await?;
            let events = session.slice::<ToolInvoked>();
            let events = events.iter().filter_map(|event| {
                Some(Event {
                    id: event.call_id.to_string(),
                    kind: Kind::of(&event.tool)?,
                    session: name.clone(),
                    success: event.success,
                    ending: format!("{:?}", event.ending),
                    text: event.message.to_string(),
                    replayed: event.replayed,
                    seen: serde_json::from_str(&event.message).ok().filter(|_| event.success),
                })
            });
            history.sessions.insert(name.clone(), events.collect());
            let notes = session.slice::<Entry>().iter().map(|entry| entry.id.clone()).collect();
            history.notes.insert(name, notes);
        }
        for doubt in workspace.ledger().in_doubt().await? {
            history.in_doubt.push(doubt.key);
        }
        for path in LISTS {
            let text =
                std::fs::read_to_string(dir.join(path)).map_err(|error| told(Path::new(path), &error))?;
            history.lists.insert(path.to_owned(), text.lines().map(str::to_owned).collect());
        }
        for path in COUNTERS {
            let text =
                std::fs::read_to_string(dir.join(path)).map_err(|error| told(Path::new(path), &error))?;
            let value = Version::of(path, &text).ok_or_else(|| format!("{path} is {text:?}"))?;
            history.counters.insert(path.to_owned(), value.length);
        }
        let effects = std::fs::read_to_string(effects_file(dir)).unwrap_or_default();
        for key in effects.lines() {
            *history.effects.entry(key.to_owned()).or_default() += 1;
        }
        Ok(history)
    })
}
