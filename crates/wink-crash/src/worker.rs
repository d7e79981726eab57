//! The children: how they are started, spoken with, killed, and what it means when they do not answer.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use crate::Plant;
use crate::cells::Person;
use crate::effects;
use crate::protocol::{Answer, Ask, Dump, Say};

/// Where and how a child is to die.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Death {
    /// At a named step, when it is reached for the n-th time inside a call.
    At { step: &'static str, nth: usize },
    /// Some time after a turn was sent.
    After(Duration),
    /// So long after a command of it has begun, which would go on without end; perhaps with another process that waits for
    /// the workspace.
    InCommand { after: Duration, waiting: bool },
}

/// Why a workspace is left.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The kit itself did not work.
    Kit(std::io::Error),
    /// What runs in the workspace did not: that is a finding.
    Found { kind: &'static str, what: String },
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Kit(error)
    }
}

/// What a child is started for.
#[derive(Debug)]
pub(crate) struct Errand<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) socket: &'a Path,
    pub(crate) hold: &'a Path,
    pub(crate) task: Task<'a>,
    pub(crate) plant: Option<Plant>,
    pub(crate) scan: bool,
    pub(crate) person: Person,
    /// The kit's program, where that person may run it.
    pub(crate) program: &'a Path,
    pub(crate) patience: Duration,
}

/// What becomes of a child.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Task<'a> {
    /// It does what it is asked, and is killed when it is not needed any more.
    Work,
    /// It dies in a call.
    Die(&'a Death),
    /// It dies while it opens the workspace.
    DieOpening(&'a Death),
    /// Its first command waits for this file.
    Wait(&'a Path),
    /// It works in another session.
    Meddle,
}

/// The process that counts effects.
pub(crate) struct Counter {
    child: Child,
    pub(crate) socket: PathBuf,
}

impl Counter {
    pub(crate) fn start(socket: &Path, patience: Duration) -> std::io::Result<Self> {
        let child = Command::new(std::env::current_exe()?).arg("count").arg(socket).spawn()?;
        let counter = Self { child, socket: socket.to_owned() };
        let since = Instant::now();
        while effects::counts(socket).is_err() {
            if since.elapsed() > patience {
                return Err(std::io::Error::other("the counter of effects did not start"));
            }
            std::thread::yield_now();
        }
        // Effects are had by every user.
        std::fs::set_permissions(socket, Permissions::from_mode(0o777))?;
        Ok(counter)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A child that works. It does not outlive this.
pub(crate) struct Worker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    dir: PathBuf,
    /// What it says when it fails.
    complaints: PathBuf,
    patience: Duration,
}

impl Worker {
    pub(crate) fn start(errand: &Errand<'_>) -> std::io::Result<Self> {
        let Errand { dir, socket, hold, task, plant, scan, person, program, patience } = errand;
        let complaints = dir.with_extension("stderr");
        let stderr = std::fs::File::options().create(true).append(true).open(&complaints)?;
        let mut command = person.command(program);
        command.arg("work").arg(dir).arg(socket).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        match task {
            Task::Die(Death::At { step, nth }) | Task::DieOpening(Death::At { step, nth }) => {
                command.arg("--die-at").arg(step).arg("--nth").arg(nth.to_string());
            }
            Task::Die(Death::InCommand { .. }) => _ = command.arg("--hold").arg(hold),
            Task::Wait(gate) => _ = command.arg("--hold").arg(hold).arg("--gate").arg(gate),
            Task::Meddle => _ = command.args(["--session", "other"]),
            Task::Die(Death::After(_)) | Task::DieOpening(_) | Task::Work => {}
        }
        if let Some(plant) = plant {
            command.arg("--plant").arg(plant.name());
        }
        if *scan {
            command.arg("--scan");
        }
        if matches!(task, Task::DieOpening(_)) {
            command.arg("--opening");
        }
        let mut child = command.spawn()?;
        let missing = || std::io::Error::other("a child without its pipes");
        let (to, from) = (child.stdin.take().ok_or_else(missing)?, child.stdout.take().ok_or_else(missing)?);
        let (dir, from) = ((*dir).to_owned(), BufReader::new(from));
        Ok(Self { child, to, from, dir, complaints, patience: *patience })
    }

    pub(crate) fn ask(&mut self, ask: &Ask) -> std::io::Result<()> {
        writeln!(self.to, "{}", serde_json::to_string(ask)?)
    }

    /// What it says next; nothing when it is dead. That it says nothing and lives is a finding.
    pub(crate) fn answer(&mut self) -> Result<Option<Say>, Trouble> {
        let until = Instant::now() + self.patience;
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let left = until.saturating_duration_since(Instant::now());
            if !self.says_something_within(left)? {
                return Err(self.hangs("no answer"));
            }
            let there = self.from.fill_buf()?;
            let upto = there.iter().position(|byte| *byte == b'\n').map_or(there.len(), |at| at + 1);
            // A line that was cut off was not said.
            if upto == 0 {
                return Ok(None);
            }
            line.extend(there.iter().take(upto));
            self.from.consume(upto);
        }
        Ok(Some(serde_json::from_slice(&line).map_err(std::io::Error::from)?))
    }

    /// Whether there is something to read, or nobody who could write.
    pub(crate) fn says_something_within(&self, time: Duration) -> std::io::Result<bool> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        if !self.from.buffer().is_empty() {
            return Ok(true);
        }
        let mut fds = [PollFd::new(self.from.get_ref(), PollFlags::IN)];
        let time = Timespec { tv_sec: time.as_secs().cast_signed(), tv_nsec: time.subsec_nanos().into() };
        Ok(poll(&mut fds, Some(&time))? > 0)
    }

    pub(crate) fn dump(&mut self) -> Result<Dump, Trouble> {
        self.ask(&Ask::Dump)?;
        match self.answer()? {
            Some(Say::There(dump)) => Ok(*dump),
            other => {
                let how = other.map(|said| format!("it said {said:?}"));
                Err(self.broke("open", "could not be read after it was opened", how))
            }
        }
    }

    /// What came of a turn that it was asked to do.
    pub(crate) fn did(&mut self) -> Result<Vec<Answer>, Trouble> {
        match self.answer()? {
            Some(Say::Did(answers)) => Ok(answers),
            other => {
                let how = other.map(|said| format!("it said {said:?}"));
                Err(self.broke("death", "had a turn that was not answered", how))
            }
        }
    }

    /// Kills it.
    pub(crate) fn signal(&mut self) -> std::io::Result<()> {
        self.child.kill()
    }

    /// Kills it, and waits until it is gone.
    pub(crate) fn kill(mut self) -> Result<(), Trouble> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// For one that is dead: it was killed. One that went by itself has failed, or panicked.
    pub(crate) fn was_killed(mut self, kind: &'static str, when: &str) -> Result<(), Trouble> {
        match self.child.wait()?.signal() {
            Some(9) => Ok(()),
            _ => Err(self.broke(kind, &format!("had its process die by itself {when}"), None)),
        }
    }

    /// For one that does not go on.
    pub(crate) fn hangs(&self, what: &str) -> Trouble {
        let what =
            format!("{}: {what} within {} s: the process hangs", self.dir.display(), self.patience.as_secs());
        Trouble::Found { kind: "hang", what }
    }

    /// For one that did not do what it has to; it is over.
    pub(crate) fn broke(&mut self, kind: &'static str, what: &str, how: Option<String>) -> Trouble {
        let how = how.unwrap_or_else(|| match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        });
        let complaints = std::fs::read_to_string(&self.complaints).unwrap_or_default();
        let last: Vec<&str> = complaints.lines().rev().take(3).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        let what = format!("{} {what}: {how}: {}", self.dir.display(), last.join(" "));
        Trouble::Found { kind, what }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
