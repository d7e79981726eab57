//! Finding and ending the processes of a command that no process namespace keeps together.
//!
//! As long as its first process is there, all others are below it, whatever they do: it is their reaper. When somebody killed
//! that one, others may have lost their way to it. They are still known by the session that it led, by the mark in their
//! environment, and by being a child, or in a session, of one that is known. A process that has none of these (it left the
//! session and every other one, cleared its environment, and its parent is gone) is not found.

use std::collections::HashSet;
use std::fs;
use std::io;

use rustix::event::{Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::CommandMark;

/// So many looks, a thousandth of a second apart at least: a process that was killed may have a lot of memory to give back.
const LOOKS: usize = 5_000;
/// So many of them are only for stopping what is new, before something is killed and what it started loses its parent.
const STOPS: usize = 8;
/// So often is looked again when nothing was found, but something went away before it was looked at: it may have started others.
const AGAIN: usize = 3;

/// What the processes of a command are known by.
pub(super) struct Kin {
    first: u32,
    /// When the first started: the others did so later.
    start: u64,
    variable: Vec<u8>,
}

/// What one look at all processes found.
#[derive(Default)]
struct Found {
    kin: Vec<Seen>,
    /// Those that may be others: they are in a session with the number of the first, who is gone, and somebody else may have
    /// been given the number.
    unsure: Vec<u32>,
    /// Whether one is just being executed, and has no environment yet.
    is_beginning: bool,
    /// Whether one went away before it was looked at.
    went: bool,
}

impl Kin {
    pub(super) fn new(first: u32, start: u64, mark: CommandMark) -> Self {
        let variable = format!("{}={mark}", CommandMark::VARIABLE).into_bytes();
        Self { first, start, variable }
    }

    /// Ends all but the first, again and again until none is found.
    pub(super) fn end(&self) -> io::Result<()> {
        let mut stopped = HashSet::new();
        let (mut stops, mut again) = (0, 0);
        let mut found = Found::default();
        for _ in 0..LOOKS {
            found = self.find(&stopped)?;
            let is_new = found.kin.iter().any(|kin| !stopped.contains(&kin.id()));
            if is_new && stops < STOPS {
                // One that is stopped starts no others: so nothing is killed before all are known.
                stops += 1;
                found.kin.iter().for_each(|kin| kin.send(Signal::STOP));
                stopped.extend(found.kin.iter().map(Seen::id));
                continue;
            }
            stops = 0;
            stopped.extend(found.kin.iter().map(Seen::id));
            found.kin.iter().for_each(|kin| kin.send(Signal::KILL));
            if found.kin.is_empty() && !found.is_beginning {
                if !found.went || again == AGAIN {
                    return found.unsure.is_empty().then_some(()).ok_or_else(|| found.unsure());
                }
                again += 1;
            }
            let _ = poll(&mut [], Some(&Timespec { tv_sec: 0, tv_nsec: 1_000_000 }));
        }
        Err(found.still_there())
    }

    /// All that are there. Whoever was found before is one of them as long as they are alive: what they were found by may be gone
    /// before them, and a process that was killed may still finish what it asked the kernel for.
    fn find(&self, before: &HashSet<(u32, u64)>) -> io::Result<Found> {
        let (seen, went) = all()?;
        let mut found = Found { went, ..Found::default() };
        let number = seen.iter().find(|seen| seen.pid == self.first);
        let has_first = number.is_some_and(|seen| seen.start == self.start);
        // The number of a session is nobody else's as long as somebody is in it: if it is somebody's, then theirs.
        let is_given_away = number.is_some() && !has_first;
        let this = std::process::id();
        let mut others: Vec<Seen> = seen
            .into_iter()
            .filter(|seen| seen.is_alive && seen.start >= self.start && seen.pid != this)
            .filter(|seen| seen.id() != (self.first, self.start))
            .collect();

        let mut pids = HashSet::new();
        let mut sessions = HashSet::new();
        if has_first {
            pids.insert(self.first);
            sessions.insert(self.first);
        }
        for seen in &others {
            if before.contains(&seen.id()) {
                pids.insert(seen.pid);
                sessions.insert(seen.session);
                continue;
            }
            match seen.environment()? {
                Environment::Has(text) if self.is_in(&text) => {
                    pids.insert(seen.pid);
                    sessions.insert(seen.session);
                }
                Environment::None => found.is_beginning = true,
                Environment::Gone => found.went = true,
                Environment::Has(_) | Environment::Secret => {}
            }
        }
        // That of somebody outside of this process namespace; and this process's own, which others than the command are in.
        let foreign = [0, own_session()];
        sessions.retain(|session| !foreign.contains(session));
        loop {
            let is_kin = |seen: &Seen| {
                pids.contains(&seen.pid) || pids.contains(&seen.parent) || sessions.contains(&seen.session)
            };
            let (kin, rest): (Vec<Seen>, Vec<Seen>) = others.into_iter().partition(is_kin);
            others = rest;
            if kin.is_empty() {
                break;
            }
            pids.extend(kin.iter().map(|kin| kin.pid));
            sessions.extend(kin.iter().map(|kin| kin.session).filter(|session| !foreign.contains(session)));
            found.kin.extend(kin);
        }
        if !is_given_away {
            let unsure = others.iter().filter(|seen| seen.session == self.first);
            found.unsure = unsure.map(|seen| seen.pid).collect();
        }
        Ok(found)
    }

    fn is_in(&self, environment: &[u8]) -> bool {
        environment.split(|byte| *byte == 0).any(|variable| variable == self.variable)
    }
}

impl Found {
    fn unsure(&self) -> io::Error {
        let text = format!(
            "what kept the command that worked in the workspace together is gone, and it cannot be known whether {} \
             of it; find out, end what is, and try again",
            named(&self.unsure, "is", "are")
        );
        io::Error::new(io::ErrorKind::ResourceBusy, text)
    }

    fn still_there(&self) -> io::Error {
        let kin: Vec<u32> = self.kin.iter().map(|kin| kin.pid).collect();
        let text = match kin.is_empty() {
            true => "it cannot be known whether something of the command that worked in the workspace is left: a process \
                     is being executed all the time; try again"
                .to_owned(),
            false => format!(
                "{} left of the command that worked in the workspace, and cannot be ended; find out what holds it, or end \
                 it, and try again",
                named(&kin, "is", "are")
            ),
        };
        io::Error::new(io::ErrorKind::ResourceBusy, text)
    }
}

fn named(pids: &[u32], one: &str, several: &str) -> String {
    const MOST: usize = 5;
    let numbers: Vec<String> = pids.iter().take(MOST).map(u32::to_string).collect();
    let more = if pids.len() > MOST { ", …" } else { "" };
    match numbers.as_slice() {
        [number] => format!("process {number} {one}"),
        numbers => format!("processes {}{more} {several}", numbers.join(", ")),
    }
}

/// A process, as `/proc` tells of it.
#[derive(Debug)]
pub(super) struct Seen {
    pid: u32,
    pub(super) parent: u32,
    pub(super) session: u32,
    pub(super) start: u64,
    /// Whether something of it still runs: the first of its threads may have ended before the others.
    pub(super) is_alive: bool,
    is_kernel: bool,
    /// Where its environment begins and ends; 0, where that is not told, or it has none yet.
    environment: (u64, u64),
}

/// What a process was given.
enum Environment {
    Has(Vec<u8>),
    /// Not yet.
    None,
    /// It belongs to somebody else, or shows it to nobody.
    Secret,
    Gone,
}

impl Seen {
    /// Nothing, if there is no such process.
    pub(super) fn look(pid: u32) -> io::Result<Option<Self>> {
        const KERNEL: u64 = 0x0020_0000;
        let Some(stat) = if_there(fs::read(format!("/proc/{pid}/stat")))? else { return Ok(None) };
        // The name is in parentheses and may have any bytes in it, parentheses too.
        let stat = String::from_utf8_lossy(&stat);
        let words: Vec<&str> = stat
            .rsplit_once(')')
            .map(|(_, words)| words.split_ascii_whitespace().collect())
            .unwrap_or_default();
        let number = |word: usize| words.get(word).and_then(|word| word.parse::<u64>().ok());
        let seen = || {
            // One that is just being forgotten has no session any more.
            let session = u32::try_from(words.get(3)?.parse::<i64>().ok()?);
            let is_alive = match *words.first()? {
                "X" => false,
                "Z" => number(17)? > 1,
                _ => session.is_ok(),
            };
            Some(Self {
                pid,
                parent: u32::try_from(number(1)?).ok()?,
                session: session.unwrap_or(0),
                start: number(19)?,
                is_alive,
                is_kernel: number(6)? & KERNEL != 0,
                environment: (number(47).unwrap_or(0), number(48).unwrap_or(0)),
            })
        };
        let nothing = || io::Error::new(io::ErrorKind::InvalidData, "/proc tells nothing of a process");
        seen().map(Some).ok_or_else(nothing)
    }

    /// What tells it from others that have its number at other times.
    fn id(&self) -> (u32, u64) {
        (self.pid, self.start)
    }

    fn environment(&self) -> io::Result<Environment> {
        let read = |path: String| match if_there(fs::read(path)) {
            Ok(text) => Ok(text.map_or(Environment::Gone, Environment::Has)),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(Environment::Secret),
            Err(error) => Err(error),
        };
        match read(format!("/proc/{}/environ", self.pid))? {
            Environment::Has(text) if text.is_empty() && !self.is_kernel => {}
            found => return Ok(found),
        }
        // The first of its threads has none any more when it has ended.
        let Some(threads) = if_there(fs::read_dir(format!("/proc/{}/task", self.pid)))? else {
            return Ok(Environment::Gone);
        };
        for thread in threads {
            let Some(thread) = if_there(thread)? else { continue };
            match read(thread.path().join("environ").to_string_lossy().into_owned())? {
                Environment::Has(text) if text.is_empty() => {}
                Environment::Gone => {}
                found => return Ok(found),
            }
        }
        let Some(now) = Self::look(self.pid)? else { return Ok(Environment::Gone) };
        // Where nothing is told of anybody's, one that is empty is taken for that.
        let (begin, end) = now.environment;
        let is_empty = begin == end && (end != 0 || !tells_environments());
        Ok(if is_empty || !now.is_alive { Environment::Has(Vec::new()) } else { Environment::None })
    }

    /// It is pinned first and looked at again, so that nobody gets the signal who was given its number.
    fn send(&self, signal: Signal) {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return };
        if let Ok(pinned) = pidfd_open(pid, PidfdFlags::empty())
            && let Ok(Some(now)) = Self::look(self.pid)
            && now.start == self.start
        {
            // Whom it does not reach is found again.
            let _ = pidfd_send_signal(&pinned, signal);
        }
    }
}

/// All processes, and whether one that was there had gone when it was looked at. The latest come first: of those that go away soon,
/// most are among them.
pub(super) fn all() -> io::Result<(Vec<Seen>, bool)> {
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")? {
        pids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    pids.sort_unstable();
    let mut seen = Vec::with_capacity(pids.len());
    for pid in pids.iter().rev() {
        seen.extend(Seen::look(*pid)?);
    }
    let went = seen.len() < pids.len();
    Ok((seen, went))
}

/// The session of this process; 0 if it is not to be had, or if who leads it is outside of this process namespace, as in a container
/// that somebody stepped into. (`getsid` says 0 then, which `rustix` takes for impossible.)
fn own_session() -> u32 {
    Seen::look(std::process::id()).ok().flatten().map_or(0, |this| this.session)
}

fn tells_environments() -> bool {
    Seen::look(std::process::id()).is_ok_and(|this| this.is_some_and(|this| this.environment.1 != 0))
}

/// Nothing, if the process is gone, or goes while it is looked at.
fn if_there<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => Ok(None),
        Err(error) => Err(error),
    }
}
