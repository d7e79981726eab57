//! The parent: has a child do calls, kills it, opens everything again in another one, and compares.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use crate::Plant;
use wink::testing::Dice;

use crate::calls::{Call, Generator, LEFT_ALONE, Turn};
use crate::cells::{self, Cell, Person};
use crate::effects;
use crate::judge::{self, Known};
use crate::look;
use crate::model::{ATTRIBUTE, Node};
use crate::protocol::{Answer, Ask, Say};
use crate::report::Report;
use crate::worker::{Counter, Death, Errand, Task, Trouble, Worker};

/// How many kills a workspace lives through before a new one is taken: so few that a short run gets to every cell.
const KILLS_A_WORKSPACE: u64 = 25;
/// How many turns a child is given to reach the step at which it is to die.
const TURNS_A_STEP: usize = 60;
/// How many workspaces may be lost before it is enough: each has cost a finding, and a child that hangs costs its patience.
const MOST_LOST: u64 = 5;

/// What every child of a run is started with.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// How many children to kill.
    pub(crate) kills: u64,
    /// Where chance comes from.
    pub(crate) seed: u64,
    /// The only step to kill children at.
    pub(crate) at: Option<String>,
    /// The bug to have.
    pub(crate) plant: Option<Plant>,
    /// Nothing a child is asked takes longer, however busy the machine.
    pub(crate) patience: Duration,
    /// The kinds of workspaces, which are taken in turns.
    pub(crate) cells: Vec<Cell>,
    /// The kit's program, where every user may run it.
    pub(crate) program: PathBuf,
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
    "disk.lift-written",
    "disk.lifted",
    "disk.mode-put-back",
    "disk.lifting-over",
];

/// Runs until `kills` children were killed inside a call.
pub(crate) fn run(setup: &Setup, dir: &Path, report: &mut Report) -> std::io::Result<()> {
    let Setup { kills, seed, .. } = *setup;
    let mut dice = Dice::new(seed);
    let counter = Counter::start(&dir.join("effects.sock"), setup.patience)?;
    let steps = wink::testing::steps::ALL;
    let mut next_step = [0, 0];
    let mut workspace: u64 = 0;
    let only = steps.iter().find(|step| setup.at.as_deref() == Some(step));
    let mut cells =
        setup.cells.iter().filter(|cell| only.is_none_or(|step| is_reachable(step, cell))).cycle();
    let mut epoch: Option<Epoch> = None;
    // Of the turns that were given up, some steps may need a rare call; none may be missed for ever.
    let mut given_up = 0;
    while report.kills < kills && given_up < kills + 100 && report.lost < MOST_LOST && report.findings < 1000
    {
        let mut here = match epoch.take() {
            Some(epoch) if epoch.kills < KILLS_A_WORKSPACE => epoch,
            _ => {
                workspace += 1;
                let cell = cells.next().ok_or_else(|| std::io::Error::other("there is nowhere to work"))?;
                Epoch::new(cell, workspace, setup)?
            }
        };
        let death = match dice.below(6) {
            _ if let Some(step) = only => Death::At { step, nth: 1 + dice.below(3) },
            0 => Death::After(Duration::from_micros(dice.any() % 20_000)),
            // On an overlay nobody has to wait.
            1 => Death::InCommand {
                after: Duration::from_micros(dice.any() % 100_000),
                waiting: here.cell.scan && dice.below(2) == 0,
            },
            _ => {
                let [overlaid, scanned] = &mut next_step;
                let next = if here.cell.scan { scanned } else { overlaid };
                // All kinds of workspaces go through the steps in one order.
                let (after, step) = steps
                    .iter()
                    .enumerate()
                    .cycle()
                    .skip(*next)
                    .take(steps.len())
                    .find(|(_, step)| is_reachable(step, here.cell))
                    .map_or((0, "none"), |(at, step)| (at + 1, *step));
                *next = after % steps.len().max(1);
                Death::At { step, nth: 1 + dice.below(3) }
            }
        };
        let raced = match here.kills {
            // What is planted in traces would be found in the race.
            0 if setup.plant != Some(Plant::LostTraces) => here.race(&counter, report),
            _ => Ok(()),
        };
        let ended = match raced.and_then(|()| here.round(&death, &counter, report)) {
            // The next one is in a fresh workspace; this one is left for whoever wants to look.
            Err(Trouble::Found { kind, what }) => {
                report.lose(kind, what);
                continue;
            }
            Err(Trouble::Kit(error)) => return Err(error),
            Ok(ended) => ended,
        };
        match ended {
            Ended::InACall => {
                here.kills += 1;
                report.kills += 1;
                *report.cells.entry(here.cell.name(&here.capture)).or_default() += 1;
                report.in_undos += u64::from(here.known.in_flight.as_ref().is_some_and(Turn::undoes));
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
            match here.look(&counter, report) {
                Err(Trouble::Found { kind, what }) => report.lose(kind, what),
                Err(Trouble::Kit(error)) => return Err(error),
                Ok(()) => {
                    cells::remove(&here.dir)?;
                    std::fs::remove_file(here.dir.with_extension("stderr"))?;
                }
            }
        } else if report.findings < 100 {
            epoch = Some(here);
        }
    }
    if report.kills < kills && report.lost < MOST_LOST {
        report.find("kit", format!("only {} of {kills} children died in a call", report.kills));
    }
    report.never_reached = steps
        .iter()
        .filter(|step| setup.cells.iter().any(|cell| is_reachable(step, cell)))
        .filter(|step| !report.steps.contains_key(*step))
        .map(|step| (*step).to_owned())
        .collect();
    Ok(())
}

/// Whether a step can be reached in workspaces of this kind.
fn is_reachable(step: &str, cell: &Cell) -> bool {
    match step.split_once('.') {
        Some(("scan", _)) => cell.scan,
        // No mode closes anything to the superuser.
        Some(("disk", _)) => cell.person != Person::Root,
        Some(("command", what)) => !cell.scan || what != "layer-made",
        Some(_) | None => true,
    }
}

/// One workspace, and everything that is known about it.
struct Epoch<'s> {
    dir: PathBuf,
    cell: &'s Cell,
    /// How commands are captured, as the last child said.
    capture: String,
    generator: Generator,
    dice: Dice,
    known: Known,
    kills: u64,
    setup: &'s Setup,
}

impl<'s> Epoch<'s> {
    fn new(cell: &'s Cell, number: u64, setup: &'s Setup) -> std::io::Result<Self> {
        let dir = cell.dir.join(format!("w{number}"));
        std::fs::create_dir_all(&dir)?;
        let mut known = Known::default();
        known.world.caller = cell.person.caller();
        known.world.tree = furnish(&dir, cell.person)?;
        let seed = setup.seed.wrapping_add(number);
        let (generator, dice) = (Generator::new(seed), Dice::new(seed));
        let capture = cell.wanted().to_owned();
        Ok(Self { dir, cell, capture, generator, dice, known, kills: 0, setup })
    }

    /// Opens everything, compares, and has a child work until it dies; says how it ended.
    fn round(&mut self, death: &Death, counter: &Counter, report: &mut Report) -> Result<Ended, Trouble> {
        let mut worker = self.open(Task::Die(death), counter, report)?;
        let mut last = None;
        for _ in 0..TURNS_A_STEP {
            let turn = match death {
                Death::InCommand { .. } => self.generator.command(&self.known.world),
                Death::At { .. } | Death::After(_) => self.generator.turn(&self.known.world),
            };
            report.calls += turn.calls.len() as u64;
            let traces = look::look(&self.dir)?.traces;
            self.known.looked_at(traces, last.take().as_ref(), &self.dir, report);
            let sent = worker.ask(&Ask::Do(turn.clone()));
            let answers = match (sent, death) {
                (Err(_), _) => None,
                (Ok(()), Death::At { .. }) => worker.answer()?,
                (Ok(()), Death::After(delay)) => {
                    // Waiting is the point here: any moment will do, and no clock is tested.
                    std::thread::sleep(*delay);
                    worker.signal()?;
                    worker.answer()?
                }
                (Ok(()), Death::InCommand { after, waiting }) => {
                    if !self.until_it_holds(&mut worker)? {
                        // The call failed before there was a command.
                        worker.answer()?
                    } else {
                        let waiter = match waiting {
                            true => Some(self.start(Task::Work, counter)?),
                            false => None,
                        };
                        std::thread::sleep(*after);
                        worker.kill()?;
                        self.known.in_flight = Some(turn);
                        self.known.had_begun = true;
                        if let Some(waiter) = waiter {
                            self.admit(waiter, counter, report)?.kill()?;
                        }
                        return Ok(Ended::InACall);
                    }
                }
            };
            match answers {
                Some(Say::Did(answers)) => {
                    self.known.answered(&turn, &answers, report);
                    last = Some((turn, answers));
                }
                Some(other) => report.find("protocol", format!("the child said {other:?}")),
                None => {
                    worker.was_killed("death", "in a turn")?;
                    self.known.in_flight = Some(turn);
                    self.known.died_at = match death {
                        Death::At { step, .. } => Some(step),
                        Death::After(_) | Death::InCommand { .. } => None,
                    };
                    self.known.had_begun = self.known.died_at.is_some();
                    return Ok(Ended::InACall);
                }
            }
            if matches!(death, Death::After(_)) {
                worker.kill()?;
                return Ok(Ended::Answered);
            }
        }
        worker.kill()?;
        Ok(Ended::NotReached)
    }

    /// Has two processes write one file at once, the same contents with the same time. One of them has to be refused: it has
    /// not seen what the other did.
    fn race(&mut self, counter: &Counter, report: &mut Report) -> Result<(), Trouble> {
        let gate = self.dir.with_extension("gate");
        let mut worker = self.open(Task::Wait(&gate), counter, report)?;
        // In the workspace itself one waits for the other.
        if self.capture != "overlay" {
            return worker.kill();
        }
        let turn = self.generator.same_write();
        worker.ask(&Ask::Do(turn.clone()))?;
        if !self.until_it_holds(&mut worker)? {
            return Err(worker.broke("race", "had a command fail before it began", None));
        }
        let mut other = self.start(Task::Meddle, counter)?;
        let ready = other.answer()?;
        if !matches!(ready, Some(Say::Ready)) {
            return Err(other.broke(
                "race",
                "could not be opened twice",
                ready.map(|said| format!("it said {said:?}")),
            ));
        }
        let [(id, call)] = turn.calls.as_slice() else { return worker.kill() };
        other.ask(&Ask::Do(Turn { calls: vec![(format!("other-{id}"), call.clone())] }))?;
        let theirs = other.did()?;
        std::fs::File::create(&gate)?;
        let ours = worker.did()?;
        std::fs::remove_file(&gate)?;
        report.races += 1;
        let succeeded = |answers: &[Answer]| answers.iter().all(|answer| answer.success);
        if !succeeded(&theirs) {
            report.find(
                "model",
                format!("{}: {call:?} of another session was answered by {theirs:?}", self.dir.display()),
            );
        }
        if succeeded(&ours) {
            report.find(
                "race",
                format!(
                    "{}: two sessions wrote one file at once, and both succeeded: {turn:?}",
                    self.dir.display()
                ),
            );
        }
        self.known.world.apply_anothers(call);
        self.known.answers.push((id.clone(), succeeded(&ours)));
        other.kill()?;
        worker.kill()
    }

    /// Waits until the command of a child goes on without end. Not if the child has said something instead.
    fn until_it_holds(&self, worker: &mut Worker) -> Result<bool, Trouble> {
        let (hold, since) = (self.hold(), Instant::now());
        while !hold.exists() {
            if worker.says_something_within(Duration::from_millis(1))? {
                return Ok(false);
            }
            if since.elapsed() > self.setup.patience {
                return Err(worker.hangs("a command did not begin"));
            }
        }
        std::fs::remove_file(hold)?;
        Ok(true)
    }

    /// What a command makes before it goes on without end.
    fn hold(&self) -> PathBuf {
        self.dir.with_extension("hold")
    }

    /// Has children die while they repair what the last one left, a few times.
    fn die_recovering(&mut self, counter: &Counter, report: &mut Report) -> Result<(), Trouble> {
        for _ in 0..self.dice.below(3) {
            let step = self.dice.pick(RECOVERING).copied().unwrap_or_default();
            let death = Death::At { step, nth: 1 + self.dice.below(2) };
            let mut worker = self.start(Task::DieOpening(&death), counter)?;
            match worker.answer()? {
                None => {
                    worker.was_killed("open", "while it opened the workspace")?;
                    report.recoveries += 1;
                }
                Some(_) => worker.kill()?,
            }
        }
        Ok(())
    }

    /// Opens everything once more, and compares.
    fn look(&mut self, counter: &Counter, report: &mut Report) -> Result<(), Trouble> {
        self.open(Task::Work, counter, report)?.kill()
    }

    fn start(&self, task: Task<'_>, counter: &Counter) -> std::io::Result<Worker> {
        let Setup { plant, patience, ref program, .. } = *self.setup;
        let Cell { person, scan, .. } = *self.cell;
        let (dir, hold) = (&self.dir, self.hold());
        Worker::start(&Errand {
            dir,
            socket: &counter.socket,
            hold: &hold,
            task,
            plant,
            scan,
            person,
            program,
            patience,
        })
    }

    fn open(&mut self, task: Task<'_>, counter: &Counter, report: &mut Report) -> Result<Worker, Trouble> {
        if self.known.in_flight.is_some() {
            self.die_recovering(counter, report)?;
        }
        let worker = self.start(task, counter)?;
        self.admit(worker, counter, report)
    }

    /// Waits until a child has opened everything, and compares.
    fn admit(
        &mut self,
        mut worker: Worker,
        counter: &Counter,
        report: &mut Report,
    ) -> Result<Worker, Trouble> {
        match worker.answer()? {
            Some(Say::Ready) => {}
            // The gravest that there is: nobody gets at what is in there.
            other => {
                let how = other.map(|said| format!("it said {said:?}"));
                let turn = &self.known.in_flight;
                return Err(worker.broke("open", &format!("could not be opened after {turn:?}"), how));
            }
        }
        let dump = worker.dump()?;
        *report.capture.entry(dump.capture.clone()).or_default() += 1;
        if dump.capture != self.cell.wanted() && dump.has_overlays {
            report.find(
                "capture",
                format!(
                    "{}: overlays work, and commands are captured by {}",
                    self.dir.display(),
                    dump.capture
                ),
            );
        }
        self.capture.clone_from(&dump.capture);
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

/// What is in a workspace before anything is called: files with several names, of a time long past, what is locked, and odd
/// names. Names of files with several end with `.h`, since no command may write to such a file: whether that changes it by its
/// other names depends on how the command is captured. Some may be moved and removed, the others are
/// [left alone](crate::calls::LEFT_ALONE).
fn furnish(dir: &Path, person: Person) -> std::io::Result<BTreeMap<String, Node>> {
    let long_past = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let mut modes: Vec<(PathBuf, u32)> = Vec::new();
    for top in ["h.d", LEFT_ALONE] {
        let top = dir.join(top);
        std::fs::create_dir_all(top.join("deep.d"))?;
        let first = top.join("one.h");
        std::fs::write(&first, "several names")?;
        std::fs::hard_link(&first, top.join("two.h"))?;
        std::fs::hard_link(&first, top.join("deep.d/three.h"))?;
        std::fs::File::options().write(true).open(&first)?.set_modified(long_past)?;
        modes.extend([(top.clone(), 0o755), (top.join("deep.d"), 0o750), (first, 0o640)]);

        // Of commands only.
        let odd = top.join(OsStr::from_bytes(b"-new\nline \xff"));
        std::fs::write(&odd, "odd")?;
        let sparse = std::fs::File::create(top.join("sparse"))?;
        sparse.set_len(1 << 17)?;
        sparse.set_modified(long_past)?;
        std::fs::create_dir(top.join("locked.d"))?;
        std::fs::write(top.join("locked.d/file"), "locked")?;
        modes.push((top.join("locked.d/file"), 0o444));
        for path in [top.join("sparse"), top.join("locked.d")] {
            rustix::fs::lsetxattr(path, ATTRIBUTE, b"before", rustix::fs::XattrFlags::empty())?;
        }
        std::fs::write(top.join("hidden"), "hidden")?;
        modes.extend([(top.join("hidden"), 0o000), (top.join("locked.d"), 0o555)]);
        std::fs::create_dir(top.join("hidden.d"))?;
        std::fs::write(top.join("hidden.d/file"), "hidden")?;
        modes.push((top.join("hidden.d"), 0o000));
    }
    person.give(dir)?;
    for (path, mode) in modes {
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(look::look(dir)?.tree)
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
