//! The thread that starts a command and stays until the last process of it is gone.
//!
//! It needs no runtime: streams, the end of the command and the wish to stop it are waited for in one `poll`. The
//! command dies with this thread, and this thread with the program.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_send_signal, waitid};

use wink::filesystem::host::{CommandMark, CommandProcesses, CommandRecord, ProcessTree};

use super::Prepared;
use super::output::Output;
use crate::cgroup::Cgroup;
use crate::child::{self, Child, HANDED_OVER, Message, Plan, Stage};
use crate::error::LaunchError;
use crate::overlay::c_text;

/// Why a command is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    TimedOut,
    Cancelled,
}

/// How a thread is told to stop its command. The first reason counts.
#[derive(Debug)]
pub(crate) struct Control {
    wake: OwnedFd,
    why: Mutex<Option<Stop>>,
}

impl Control {
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self { wake, why: Mutex::new(None) }))
    }

    pub(crate) fn stop(&self, why: Stop) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        // It cannot be full: nobody writes more than a few times.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn why(&self) -> Option<Stop> {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a command.
#[derive(Debug)]
pub(crate) struct Watched {
    /// The status of `wait`, unless the command was stopped first.
    pub(crate) status: Option<i32>,
    pub(crate) stopped: Option<Stop>,
    pub(crate) stdout: Output,
    pub(crate) stderr: Output,
    pub(crate) memory_exhausted: bool,
}

/// What goes in, and how much of what comes out is kept.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    pub(crate) stdin: Option<Vec<u8>>,
    pub(crate) keep: usize,
}

/// Runs a command to its end, on this thread.
pub(crate) fn supervise(
    prepared: Prepared,
    streams: Streams,
    control: &Control,
) -> Result<Watched, LaunchError> {
    let surroundings = |what| move |error: Errno| LaunchError::Surroundings { what, source: error.into() };
    // A probe has no program, and does nothing that could outlive it.
    let is_probe = prepared.programs.is_empty();
    let is_known = !is_probe && (prepared.record.is_some() || !prepared.namespaces.pid);
    if is_known {
        CommandProcesses::check_proc().map_err(LaunchError::ForeignProc)?;
    }
    let told = (prepared.shown_program, prepared.shown_cwd);
    let (mut watch, plan, gate) = {
        let pipe = || pipe_with(PipeFlags::CLOEXEC).and_then(|(out, into)| Ok((aside(out)?, aside(into)?)));
        let (report, report_end) = pipe().map_err(surroundings("making its pipes"))?;
        let (gate_end, gate) = pipe().map_err(surroundings("making its pipes"))?;
        let (stdout, stdout_end) = pipe().map_err(surroundings("making its pipes"))?;
        let (stderr, stderr_end) = pipe().map_err(surroundings("making its pipes"))?;
        let (stdin_end, stdin) = match streams.stdin {
            Some(bytes) => {
                let (end, stdin) = pipe().map_err(surroundings("making its pipes"))?;
                (end, Some(Feed { fd: stdin, bytes, written: 0 }))
            }
            None => {
                let null = rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
                (null.and_then(aside).map_err(surroundings("opening /dev/null"))?, None)
            }
        };
        for ours in [&report, &stdout, &stderr].into_iter().chain(stdin.as_ref().map(|feed| &feed.fd)) {
            rustix::fs::fcntl_setfl(ours, OFlags::NONBLOCK).map_err(surroundings("making its pipes"))?;
        }
        let cgroups = prepared.cgroup.as_ref().map(Cgroup::doors).transpose();
        let cgroups =
            cgroups.map_err(|source| LaunchError::Surroundings { what: "opening its cgroup", source })?;
        let mut environment = prepared.environment;
        let tree = if prepared.namespaces.pid {
            ProcessTree::Namespace
        } else {
            let mark = CommandMark::fresh();
            put_mark(&mut environment, mark)?;
            ProcessTree::Reaper(mark)
        };
        let plan = Plan {
            namespaces: prepared.namespaces,
            ids: prepared.ids,
            steps: prepared.steps,
            cgroups: cgroups.unwrap_or_default(),
            workspace: prepared.workspace,
            cwd: prepared.cwd,
            programs: prepared.programs,
            arguments: prepared.arguments,
            environment,
            rights: prepared.rights,
            stdin: stdin_end,
            stdout: stdout_end,
            stderr: stderr_end,
            report: report_end,
            gate: gate_end,
        };
        let child = child::start(&plan)
            .map_err(|source| LaunchError::Surroundings { what: "making its process", source })?;
        let watch = Watch {
            child,
            tree,
            processes: None,
            report,
            stdin,
            stdout: Some(stdout),
            stderr: Some(stderr),
            said: [Output::default(), Output::default()],
            keep: streams.keep,
            status: None,
            failure: None,
            stopped: false,
            killed: false,
        };
        (watch, plan, gate)
    };
    let opened = watch.open_gate(&gate, is_known, prepared.record.as_ref());
    // Our copies of the command's ends: with them open no stream would ever end.
    drop((plan, gate));
    if let Err(error) = opened {
        watch.abandon();
        return Err(LaunchError::Surroundings { what: "writing its process down", source: error });
    }
    let waited = watch.until_gone(control);
    if let Err(error) = waited {
        watch.abandon();
        return Err(LaunchError::Lost(format!("waiting for it failed: {error}")));
    }
    watch.reap().map_err(|error| LaunchError::Lost(error.to_string()))?;
    watch.hear();
    watch.listen();
    if let Some((stage, errno)) = watch.failure {
        return Err(failure(stage, errno, told));
    }
    let memory_exhausted = prepared.cgroup.as_ref().is_some_and(Cgroup::memory_exhausted);
    let [stdout, stderr] = watch.said;
    let stopped = watch.stopped.then(|| control.why()).flatten();
    Ok(Watched { status: watch.status, stopped, stdout, stderr, memory_exhausted })
}

/// One mark, whatever this program itself was given.
fn put_mark(environment: &mut Vec<CString>, mark: CommandMark) -> Result<(), LaunchError> {
    let name = format!("{}=", CommandMark::VARIABLE);
    environment.retain(|variable| !variable.to_bytes().starts_with(name.as_bytes()));
    environment.push(c_text("the environment", &format!("{name}{mark}"))?);
    Ok(())
}

fn failure(stage: Stage, errno: i32, (program, cwd): (String, String)) -> LaunchError {
    let source = io::Error::from_raw_os_error(errno);
    match stage {
        Stage::Execute if errno == Errno::TOOBIG.raw_os_error() => LaunchError::TooLarge { program },
        Stage::Execute => LaunchError::Program { program, source },
        Stage::Workspace => LaunchError::Cwd { cwd, source },
        stage => LaunchError::Surroundings { what: stage.what(), source },
    }
}

/// Moves a descriptor out of the way of the fixed ones in the child.
pub(crate) fn aside(fd: OwnedFd) -> Result<OwnedFd, Errno> {
    rustix::io::fcntl_dupfd_cloexec(&fd, HANDED_OVER)
}

struct Feed {
    fd: OwnedFd,
    bytes: Vec<u8>,
    written: usize,
}

struct Watch {
    child: Child,
    tree: ProcessTree,
    /// As soon as they may begin, where they do not just die with init.
    processes: Option<CommandProcesses>,
    report: OwnedFd,
    stdin: Option<Feed>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    said: [Output; 2],
    keep: usize,
    status: Option<i32>,
    failure: Option<(Stage, i32)>,
    stopped: bool,
    killed: bool,
}

/// What one `poll` found.
#[derive(Default)]
struct Ready {
    gone: bool,
    report: bool,
    stop: bool,
    streams: bool,
}

impl Watch {
    /// Lets it begin, once it is written down where somebody else may have to end it.
    fn open_gate(
        &mut self,
        gate: &OwnedFd,
        is_known: bool,
        record: Option<&CommandRecord>,
    ) -> io::Result<()> {
        if is_known {
            let processes = CommandProcesses::new(self.child.pid.unsigned_abs(), self.tree)?;
            if let Some(record) = record {
                record.note(&processes)?;
            }
            self.processes = Some(processes);
        }
        rustix::io::write(gate, &[1])?;
        Ok(())
    }

    /// Until init is dead.
    fn until_gone(&mut self, control: &Control) -> Result<(), Errno> {
        loop {
            let ready = self.wait(control)?;
            if ready.streams {
                self.feed();
                self.listen();
            }
            if ready.report {
                self.hear();
            }
            // A command that ended by itself was not stopped.
            let stop = ready.stop && self.status.is_none();
            self.stopped |= stop;
            let is_over = self.status.is_some() || self.failure.is_some();
            let left_behind = self.tree != ProcessTree::Namespace && is_over;
            if stop || (left_behind && !self.ends_by_itself()) {
                self.kill();
            }
            if ready.gone {
                return Ok(());
            }
        }
    }

    fn wait(&self, control: &Control) -> Result<Ready, Errno> {
        let mut fds = vec![
            PollFd::new(&self.child.pidfd, PollFlags::IN),
            PollFd::new(&self.report, PollFlags::IN),
            // Once is enough: it stays readable.
            PollFd::new(&control.wake, if self.killed { PollFlags::empty() } else { PollFlags::IN }),
        ];
        fds.extend(self.stdout.iter().chain(&self.stderr).map(|fd| PollFd::new(fd, PollFlags::IN)));
        fds.extend(self.stdin.iter().map(|feed| PollFd::new(&feed.fd, PollFlags::OUT)));
        match poll(&mut fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(error),
        }
        let mut happened = fds.iter().map(|fd| !fd.revents().is_empty());
        let mut next = || happened.next().unwrap_or(false);
        let (gone, report, stop) = (next(), next(), next());
        // At the end of the report init is about to be gone: waiting for that alone does not spin.
        Ok(Ready { gone, report, stop, streams: happened.any(|happened| happened) })
    }

    fn feed(&mut self) {
        let Some(feed) = &mut self.stdin else { return };
        let rest = feed.bytes.get(feed.written..).unwrap_or_default();
        let written = if rest.is_empty() { Ok(0) } else { rustix::io::write(&feed.fd, rest) };
        match written {
            Ok(count) if count > 0 && count < rest.len() => feed.written += count,
            Err(Errno::AGAIN | Errno::INTR) => {}
            // All of it is written, or nobody reads it.
            _ => self.stdin = None,
        }
    }

    fn listen(&mut self) {
        for (stream, said) in [&mut self.stdout, &mut self.stderr].into_iter().zip(&mut self.said) {
            if let Some(fd) = stream
                && drain(fd, said, self.keep)
            {
                *stream = None;
            }
        }
    }

    fn hear(&mut self) {
        let mut bytes = [0; Message::LENGTH];
        while let Ok(Message::LENGTH) = rustix::io::read(&self.report, &mut bytes) {
            match Message::decode(bytes) {
                Some(Message::Failed { stage, errno }) => {
                    self.failure = self.failure.or(Some((stage, errno)))
                }
                // What was stopped is over on account of that.
                Some(Message::Over { status }) if !self.stopped => self.status = Some(status),
                Some(Message::Over { .. } | Message::Alive) | None => {}
            }
        }
    }

    /// Whether nothing is left below init: then it ends at once, and nobody has to look for anything.
    fn ends_by_itself(&self) -> bool {
        const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 5_000_000 };
        poll(&mut [PollFd::new(&self.child.pidfd, PollFlags::IN)], Some(&AT_ONCE)) == Ok(1)
    }

    /// Ends every process of the command, and init.
    fn kill(&mut self) {
        if self.killed {
            return;
        }
        self.killed = true;
        if let Err(error) = self.end_others() {
            // They are looked for again when init is dead.
            tracing::warn!(%error, "not all of a command could be ended at once");
        }
        let _ = pidfd_send_signal(&self.child.pidfd, Signal::KILL);
    }

    fn end_others(&self) -> io::Result<()> {
        self.processes.as_ref().map_or(Ok(()), CommandProcesses::end_others)
    }

    /// Waits for the end of init; then nothing of the command is left, or it is an error.
    fn reap(&mut self) -> io::Result<()> {
        // If it did not end by itself, it has not seen that nothing is left below it. Its number, which is that of their session,
        // is nobody else's until it is reaped.
        let ended = self.wait_for_init(WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let ended_by_itself = ended.is_some_and(|status| status.exited());
        let left = if ended_by_itself { Ok(()) } else { self.end_others() };
        self.wait_for_init(WaitIdOptions::EXITED);
        left
    }

    fn wait_for_init(&self, options: WaitIdOptions) -> Option<WaitIdStatus> {
        loop {
            match waitid(WaitId::PidFd(self.child.pidfd.as_fd()), options) {
                Err(Errno::INTR) => {}
                ended => return ended.ok().flatten(),
            }
        }
    }

    /// Ends it, since something else went wrong.
    fn abandon(&mut self) {
        self.kill();
        if let Err(error) = self.reap() {
            tracing::error!(%error, "something of a command may be left");
        }
    }
}

/// Reads what is there now. Whether that was the end of it.
fn drain(fd: &OwnedFd, said: &mut Output, keep: usize) -> bool {
    let mut buffer = [0; 16 * 1024];
    // Somebody who writes faster than we read gets the next turn after everybody else.
    for _ in 0..64 {
        match rustix::io::read(fd, &mut buffer) {
            Ok(0) => return true,
            Ok(count) => said.take(buffer.get(..count).unwrap_or_default(), keep),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return false,
            Err(_) => return true,
        }
    }
    false
}
