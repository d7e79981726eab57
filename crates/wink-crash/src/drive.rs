//! The parent: has a child do calls, kills it, opens everything again in another one, and compares.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Plant;
use crate::calls::{Call, Dice, Generator, Turn};
use crate::effects;
use crate::judge::{self, Known};
use crate::protocol::{Answer, Ask, Dump, Say};
use crate::report::Report;

/// How many kills a workspace lives through before a new one is taken.
const KILLS_A_WORKSPACE: u64 = 40;
/// How many turns a child is given to reach the step at which it is to die.
const TURNS_A_STEP: usize = 60;
/// Nothing a child is asked takes longer, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where and how a child is to die.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Death {
    /// At a named step, when it is reached for the n-th time inside a call.
    At { step: &'static str, nth: usize },
    /// Some time after a turn was sent.
    After(Duration),
    /// So long after a command of it has begun, which would go on without end; perhaps with another process that waits for
    /// the workspace.
    InCommand { after: Duration, waiting: bool },
}

/// How a round ended.
enum Ended {
    /// The child died inside a call.
    InACall,
    /// It was quicker than the kill: answered, and dead.
    Answered,
    /// It never came to the step at which it was to die.
    NotReached,
}

/// Steps on the way back from what a dead process left, at which the next one may die as well.
const RECOVERING: &[&str] = &[
    "journal.step-undone",
    "journal.undone",
    "journal.undone-synced",
    "journal.gone",
    "journal.kept",
    "scan.compared",
    "scan.entry-taken-out",
    "scan.taken-out",
    "scan.entry-brought-back",
    "scan.brought-back",
    "scan.restored",
    "scan.over",
];

/// Runs until `kills` children were killed inside a call.
pub(crate) fn run(
    kills: u64,
    seed: u64,
    plant: Option<Plant>,
    dir: &Path,
    report: &mut Report,
) -> std::io::Result<()> {
    let mut dice = Dice::new(seed);
    let counter = Counter::start(&dir.join("effects.sock"))?;
    let steps = wink::testing::steps::ALL;
    let mut next_step = [0, 0];
    let mut workspace: u64 = 0;
    let mut epoch: Option<Epoch> = None;
    // Of the turns that were given up, some steps may need a rare call; none may be missed for ever.
    let mut given_up = 0;
    while report.kills < kills && given_up < kills + 100 && report.findings.len() < 1000 {
        let mut here = match epoch.take() {
            Some(epoch) if epoch.kills < KILLS_A_WORKSPACE => epoch,
            _ => {
                workspace += 1;
                // Every second one without an overlay.
                let scan = workspace.is_multiple_of(2);
                Epoch::new(dir.join(format!("w{workspace}")), seed.wrapping_add(workspace), scan)?
            }
        };
        let death = match dice.below(6) {
            0 => Death::After(Duration::from_micros(dice.any() % 20_000)),
            // On an overlay nobody has to wait.
            1 => Death::InCommand {
                after: Duration::from_micros(dice.any() % 100_000),
                waiting: here.scan && dice.below(2) == 0,
            },
            _ => {
                let reachable: Vec<_> = steps.iter().filter(|step| is_reachable(step, here.scan)).collect();
                let [overlaid, scanned] = &mut next_step;
                let next = if here.scan { scanned } else { overlaid };
                let step = reachable.get(*next % reachable.len().max(1)).map_or("none", |step| **step);
                *next += 1;
                Death::At { step, nth: 1 + dice.below(3) }
            }
        };
        match here.round(&death, plant, &counter, report)? {
            Ended::InACall => {
                here.kills += 1;
                report.kills += 1;
                match &death {
                    Death::At { step, .. } => *report.steps.entry(step).or_default() += 1,
                    Death::After(_) => report.random += 1,
                    Death::InCommand { waiting, .. } => {
                        report.in_commands += 1;
                        report.waited_for += u64::from(*waiting);
                    }
                }
            }
            Ended::Answered => report.answered_before += 1,
            Ended::NotReached => given_up += 1,
        }
        // What came of the last kill is looked at before the workspace is left.
        if here.kills >= KILLS_A_WORKSPACE || report.kills >= kills {
            here.look(plant, &counter, report)?;
            std::fs::remove_dir_all(&here.dir)?;
        } else if report.findings.len() < 100 {
            epoch = Some(here);
        }
    }
    if report.kills < kills {
        report.find("kit", format!("only {} of {kills} children died in a call", report.kills));
    }
    report.never_reached = steps
        .iter()
        .filter(|step| !report.steps.contains_key(*step))
        .map(|step| (*step).to_owned())
        .collect();
    Ok(())
}

/// Whether a step can be reached with commands that are captured so.
fn is_reachable(step: &str, scan: bool) -> bool {
    match step.split_once('.') {
        Some(("scan", _)) => scan,
        Some(("command", what)) => !scan || what != "layer-made",
        Some(_) | None => true,
    }
}

/// One workspace, and everything that is known about it.
struct Epoch {
    dir: PathBuf,
    /// Whether commands work in the workspace itself.
    scan: bool,
    generator: Generator,
    dice: Dice,
    known: Known,
    kills: u64,
}

impl Epoch {
    fn new(dir: PathBuf, seed: u64, scan: bool) -> std::io::Result<Self> {
        std::fs::create_dir_all(&dir)?;
        Ok(Self {
            dir,
            scan,
            generator: Generator::new(seed),
            dice: Dice::new(seed),
            known: Known::default(),
            kills: 0,
        })
    }

    /// Opens everything, compares, and has a child work until it dies; says how it ended.
    fn round(
        &mut self,
        death: &Death,
        plant: Option<Plant>,
        counter: &Counter,
        report: &mut Report,
    ) -> std::io::Result<Ended> {
        let mut worker = self.open(Some(death), plant, counter, report)?;
        for _ in 0..TURNS_A_STEP {
            let turn = match death {
                Death::InCommand { .. } => self.generator.command(&self.known.world),
                Death::At { .. } | Death::After(_) => self.generator.turn(&self.known.world),
            };
            report.calls += turn.calls.len() as u64;
            let sent = worker.ask(&Ask::Do(turn.clone()));
            let answers = match (sent, death) {
                (Err(_), _) => None,
                (Ok(()), Death::At { .. }) => worker.answer()?,
                (Ok(()), Death::After(delay)) => {
                    // Waiting is the point here: any moment will do, and no clock is tested.
                    std::thread::sleep(*delay);
                    worker.child.kill()?;
                    worker.answer()?
                }
                (Ok(()), Death::InCommand { after, waiting }) => {
                    if !self.until_it_holds(&mut worker)? {
                        // The call failed before there was a command.
                        worker.answer()?
                    } else {
                        let waiter = match waiting {
                            true => Some(Worker::start(self, &counter.socket, None, plant, false)?),
                            false => None,
                        };
                        std::thread::sleep(*after);
                        worker.child.kill()?;
                        worker.end()?;
                        self.known.in_flight = Some(turn);
                        self.known.had_begun = true;
                        if let Some(waiter) = waiter {
                            let mut waiter = self.admit(waiter, counter, report)?;
                            waiter.child.kill()?;
                            waiter.end()?;
                        }
                        return Ok(Ended::InACall);
                    }
                }
            };
            match answers {
                Some(Say::Did(answers)) => self.known.answered(&turn, &answers, report),
                Some(other) => report.find("protocol", format!("the child said {other:?}")),
                None => {
                    worker.end()?;
                    self.known.in_flight = Some(turn);
                    self.known.had_begun = matches!(death, Death::At { .. });
                    return Ok(Ended::InACall);
                }
            }
            if matches!(death, Death::After(_)) {
                worker.end()?;
                return Ok(Ended::Answered);
            }
        }
        worker.child.kill()?;
        worker.end()?;
        Ok(Ended::NotReached)
    }

    /// Waits until the command of a child goes on without end. Not if the child has said something instead.
    fn until_it_holds(&self, worker: &mut Worker) -> std::io::Result<bool> {
        let (hold, since) = (self.hold(), Instant::now());
        while !hold.exists() {
            if worker.has_said_something()? {
                return Ok(false);
            }
            if since.elapsed() > PATIENCE {
                return Err(std::io::Error::other("a command did not begin"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        std::fs::remove_file(hold)?;
        Ok(true)
    }

    /// What a command makes before it goes on without end.
    fn hold(&self) -> PathBuf {
        self.dir.with_extension("hold")
    }

    /// Has children die while they repair what the last one left, a few times.
    fn die_recovering(
        &mut self,
        plant: Option<Plant>,
        counter: &Counter,
        report: &mut Report,
    ) -> std::io::Result<()> {
        for _ in 0..self.dice.below(3) {
            let step = self.dice.pick(RECOVERING).copied().unwrap_or_default();
            let death = Death::At { step, nth: 1 + self.dice.below(2) };
            let mut worker = Worker::start(self, &counter.socket, Some(&death), plant, true)?;
            if worker.answer()?.is_none() {
                report.recoveries += 1;
            } else {
                worker.child.kill()?;
            }
            worker.end()?;
        }
        Ok(())
    }

    /// Opens everything once more, and compares.
    fn look(&mut self, plant: Option<Plant>, counter: &Counter, report: &mut Report) -> std::io::Result<()> {
        let mut worker = self.open(None, plant, counter, report)?;
        worker.child.kill()?;
        worker.end()
    }

    fn open(
        &mut self,
        death: Option<&Death>,
        plant: Option<Plant>,
        counter: &Counter,
        report: &mut Report,
    ) -> std::io::Result<Worker> {
        if self.known.in_flight.is_some() {
            self.die_recovering(plant, counter, report)?;
        }
        let worker = Worker::start(self, &counter.socket, death, plant, false)?;
        self.admit(worker, counter, report)
    }

    /// Waits until a child has opened everything, and compares.
    fn admit(
        &mut self,
        mut worker: Worker,
        counter: &Counter,
        report: &mut Report,
    ) -> std::io::Result<Worker> {
        match worker.answer()? {
            Some(Say::Ready) => {}
            other => {
                return Err(std::io::Error::other(format!("a child did not open the workspace: {other:?}")));
            }
        }
        let dump = worker.dump()?;
        *report.capture.entry(dump.capture.clone()).or_default() += 1;
        let counts = effects::counts(&counter.socket)?;
        for key in judge::compare(&mut self.known, &self.dir, &dump, &counts, report)? {
            let happened = counts.contains_key(&judge::effect_key(&self.dir, &key));
            worker.ask(&Ask::Settle { key: key.clone(), happened })?;
            match worker.answer()? {
                Some(Say::Settled) => self.known.settled(&key, happened),
                other => report.find("protocol", format!("a settlement was answered by {other:?}")),
            }
        }
        Ok(worker)
    }
}

/// The process that counts effects.
struct Counter {
    child: Child,
    socket: PathBuf,
}

impl Counter {
    fn start(socket: &Path) -> std::io::Result<Self> {
        let child = Command::new(std::env::current_exe()?).arg("count").arg(socket).spawn()?;
        let since = Instant::now();
        while effects::counts(socket).is_err() {
            if since.elapsed() > PATIENCE {
                return Err(std::io::Error::other("the counter of effects did not start"));
            }
            std::thread::yield_now();
        }
        Ok(Self { child, socket: socket.to_owned() })
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A child that works.
struct Worker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Worker {
    fn start(
        epoch: &Epoch,
        socket: &Path,
        death: Option<&Death>,
        plant: Option<Plant>,
        opening: bool,
    ) -> std::io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("work").arg(&epoch.dir).arg(socket).stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(Death::At { step, nth }) = death {
            command.arg("--die-at").arg(step).arg("--nth").arg(nth.to_string());
        }
        if let Some(Death::InCommand { .. }) = death {
            command.arg("--hold").arg(epoch.hold());
        }
        if let Some(plant) = plant {
            command.arg("--plant").arg(plant.name());
        }
        if epoch.scan {
            command.arg("--scan");
        }
        if opening {
            command.arg("--opening");
        }
        let mut child = command.spawn()?;
        let missing = || std::io::Error::other("a child without its pipes");
        let (to, from) = (child.stdin.take().ok_or_else(missing)?, child.stdout.take().ok_or_else(missing)?);
        Ok(Self { child, to, from: BufReader::new(from) })
    }

    fn ask(&mut self, ask: &Ask) -> std::io::Result<()> {
        writeln!(self.to, "{}", serde_json::to_string(ask)?)
    }

    /// What it says next; nothing when it is dead.
    fn answer(&mut self) -> std::io::Result<Option<Say>> {
        let mut line = String::new();
        match self.from.read_line(&mut line)? {
            0 => Ok(None),
            // A line that was cut off was not said.
            _ if !line.ends_with('\n') => Ok(None),
            _ => Ok(Some(serde_json::from_str(&line)?)),
        }
    }

    /// Whether there is something to read, or nobody who could write.
    fn has_said_something(&mut self) -> std::io::Result<bool> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(self.from.get_ref(), PollFlags::IN)];
        Ok(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))? > 0)
    }

    fn dump(&mut self) -> std::io::Result<Dump> {
        self.ask(&Ask::Dump)?;
        match self.answer()? {
            Some(Say::There(dump)) => Ok(*dump),
            other => Err(std::io::Error::other(format!("a child did not say what there is: {other:?}"))),
        }
    }

    fn end(mut self) -> std::io::Result<()> {
        drop(self.to);
        self.child.wait().map(drop)
    }
}

/// What is expected of a turn, call by call.
pub(crate) fn expected(world: &mut crate::model::World, turn: &Turn) -> Vec<(String, bool)> {
    turn.calls.iter().map(|(id, call)| (id.clone(), world.apply(call))).collect()
}

/// Whether these are the answers to that turn.
pub(crate) fn same_calls(turn: &Turn, answers: &[Answer]) -> bool {
    turn.calls.iter().map(|(id, _)| id).eq(answers.iter().map(|answer| &answer.id))
}

/// Whether a call has an effect outside.
pub(crate) fn charges(call: &Call) -> Option<&str> {
    match call {
        Call::Charge { key } => Some(key),
        _ => None,
    }
}

/// Effects by key.
pub(crate) type Counts = BTreeMap<String, u64>;
