//! The interpreter in a process of its own, which is gone when the answer is there.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use wink::BoxFuture;
use wink::limits::Clock;

use crate::interpreter::{
    Failure, Finished, Interpreter, Limits, MAX_MESSAGE, OUT_OF_MEMORY, OUT_OF_TIME, Program, Request,
};
use crate::worker;

/// How much longer than the program's own time it is waited for: the worker has to start, and stops by itself.
const GRACE: Duration = Duration::from_secs(2);

/// Runs each program in a new process, without environment, in the root directory, with nothing open but two pipes.
#[derive(Debug, Clone)]
pub struct WorkerProcess {
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl WorkerProcess {
    /// A program that calls [`worker::main`] when its first argument is [`worker::ARGUMENT`].
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into(), arguments: vec![worker::ARGUMENT.into()] }
    }

    /// The program that is running.
    pub fn this_program() -> io::Result<Self> {
        Ok(Self::new(std::env::current_exe()?))
    }

    fn start(&self, request: Vec<u8>) -> io::Result<Running> {
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let pipes = (child.stdin.take(), child.stdout.take());
        let child = Arc::new(Mutex::new(Some(child)));
        let (tell, ended) = oneshot::channel();
        let running = Running { child: Arc::clone(&child), ended };
        // A thread, since it must see the process to its end also when nobody waits any more.
        let name = "wink-eval".to_owned();
        std::thread::Builder::new().name(name).spawn(move || {
            let answer = talk(pipes, &request);
            let status = end(&child);
            // Whoever asked may be gone.
            let _ = tell.send((answer, status));
        })?;
        Ok(running)
    }
}

impl Interpreter for WorkerProcess {
    fn run<'a>(
        &'a self,
        program: Program,
        limits: &'a Limits,
        clock: &'a Arc<dyn Clock>,
    ) -> BoxFuture<'a, Finished> {
        Box::pin(async move {
            let request = Request { program, limits: limits.clone() };
            let unavailable = |reason: String| Finished::failed(Failure::Unavailable { reason });
            let request = match serde_json::to_vec(&request) {
                Ok(request) => request,
                Err(error) => return unavailable(error.to_string()),
            };
            let until = clock.monotonic().saturating_add(limits.time).saturating_add(GRACE);
            let mut running = match self.start(request) {
                Ok(running) => running,
                Err(error) => {
                    return unavailable(format!(
                        "the worker '{}' does not start: {error}",
                        self.program.display()
                    ));
                }
            };
            let late = clock.sleep_until(until);
            let ended = tokio::select! {
                ended = &mut running.ended => ended,
                () = late => {
                    running.kill();
                    // It is killed: the end is near, and after it there is no process left.
                    let _ = (&mut running.ended).await;
                    return Finished::failed(out_of_time(limits));
                }
            };
            match ended {
                Ok((answer, status)) => finished(answer, status, limits),
                Err(_) => Finished::failed(Failure::Died { how: "nobody watched it".to_owned() }),
            }
        })
    }
}

/// A worker. Dropping it kills the process.
struct Running {
    /// Nothing once the process was waited for: its number may be another's then.
    child: Arc<Mutex<Option<Child>>>,
    ended: oneshot::Receiver<(io::Result<Vec<u8>>, io::Result<ExitStatus>)>,
}

impl Running {
    fn kill(&self) {
        if let Some(child) = lock(&self.child).as_mut() {
            // It may have ended by itself.
            let _ = child.kill();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn talk(pipes: (Option<ChildStdin>, Option<ChildStdout>), request: &[u8]) -> io::Result<Vec<u8>> {
    let (Some(mut stdin), Some(stdout)) = pipes else { return Err(io::ErrorKind::BrokenPipe.into()) };
    // A worker that does not read is dead or will be; what it answers tells.
    let _ = stdin.write_all(request);
    drop(stdin);
    let mut answer = Vec::new();
    stdout.take(MAX_MESSAGE + 1).read_to_end(&mut answer)?;
    Ok(answer)
}

/// Ends a process that has nothing more to say, and takes it off the system's list.
fn end(child: &Mutex<Option<Child>>) -> io::Result<ExitStatus> {
    let mut child = lock(child);
    let Some(mut running) = child.take() else { return Err(io::ErrorKind::NotFound.into()) };
    // Whoever closed its output is ending, and then this changes nothing; or it is up to something.
    let _ = running.kill();
    running.wait()
}

fn finished(answer: io::Result<Vec<u8>>, status: io::Result<ExitStatus>, limits: &Limits) -> Finished {
    let answer = answer.ok().filter(|answer| !answer.is_empty() && answer.len() as u64 <= MAX_MESSAGE);
    if let Some(finished) = answer.and_then(|answer| serde_json::from_slice(&answer).ok()) {
        return finished;
    }
    let code = status.as_ref().ok().and_then(ExitStatus::code);
    Finished::failed(match (code, status) {
        (Some(OUT_OF_MEMORY), _) => Failure::Memory { bytes: limits.memory },
        (Some(code), _) if code == i32::from(OUT_OF_TIME) => out_of_time(limits),
        (_, Ok(status)) => Failure::Died { how: status.to_string() },
        (_, Err(error)) => Failure::Died { how: error.to_string() },
    })
}

fn out_of_time(limits: &Limits) -> Failure {
    Failure::Time { millis: u64::try_from(limits.time.as_millis()).unwrap_or(u64::MAX) }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
