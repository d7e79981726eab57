//! Running what was prepared: on a thread that watches it, until it ends or is ended.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;
use wink::limits::{CancelToken, Clock};

use super::{Control, Ended, Finished, Prepared, Stop, Streams, Watched, supervise};
use crate::error::LaunchError;

/// When a command is ended, if it does not end by itself.
#[derive(Debug, Default)]
pub(crate) struct Until {
    pub(crate) time: Option<Duration>,
    pub(crate) cancel: Option<CancelToken>,
}

/// A command that runs on its thread. Going before it is over ends it.
struct Running {
    control: Arc<Control>,
    /// Ends when the thread does.
    alive: mpsc::Receiver<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.control.stop(Stop::Cancelled);
        // Whoever lets go relies on the processes being gone. They are killed, which takes milliseconds, so that this
        // waits also on a thread that should not; one that the kernel cannot kill is left to the watching thread.
        let _ = self.alive.recv_timeout(Duration::from_secs(5));
    }
}

pub(crate) async fn run(
    prepared: Prepared,
    streams: Streams,
    until: Until,
    clock: &Arc<dyn Clock>,
) -> Result<Finished, LaunchError> {
    let thread = |source| LaunchError::Surroundings { what: "making the thread that watches it", source };
    let began = clock.monotonic();
    let control = Control::new().map_err(thread)?;
    let (ended, watched) = oneshot::channel();
    let (living, alive) = mpsc::channel();
    let watching = Arc::clone(&control);
    std::thread::Builder::new()
        .name("wink-command".to_owned())
        .spawn(move || {
            let _living: mpsc::Sender<()> = living;
            let watched = supervise(prepared, streams, &watching);
            wink::testing::steps::reach("sandbox.command-over");
            let _ = ended.send(watched);
        })
        .map_err(thread)?;
    let running = Running { control: Arc::clone(&control), alive };

    let mut watched = pin!(watched);
    let mut timer = until.time.map(|limit| clock.sleep_until(began.saturating_add(limit)));
    let mut cancelled = until.cancel.map(|token| Box::pin(async move { token.cancelled().await }));
    let watched = poll_fn(|cx| {
        if let Poll::Ready(watched) = watched.as_mut().poll(cx) {
            return Poll::Ready(watched);
        }
        if timer.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready()) {
            timer = None;
            control.stop(Stop::TimedOut);
        }
        // A second reason changes nothing.
        if cancelled.as_mut().is_some_and(|cancelled| cancelled.as_mut().poll(cx).is_ready()) {
            cancelled = None;
            control.stop(Stop::Cancelled);
        }
        watched.as_mut().poll(cx)
    })
    .await
    .map_err(|_| LaunchError::Lost("the thread that watched it is gone".to_owned()))??;
    drop(running);
    finished(watched, clock.monotonic().saturating_sub(began))
}

fn finished(watched: Watched, duration: Duration) -> Result<Finished, LaunchError> {
    let ended = match (watched.status, watched.stopped) {
        (Some(status), _) => ended(status),
        (None, Some(Stop::TimedOut)) => Ended::TimedOut,
        (None, Some(Stop::Cancelled)) => Ended::Cancelled,
        (None, None) => {
            return Err(LaunchError::Lost("somebody else killed the process that kept it".to_owned()));
        }
    };
    let Watched { stdout, stderr, memory_exhausted, .. } = watched;
    Ok(Finished { ended, stdout, stderr, duration, memory_exhausted })
}

/// What `wait` said, in words.
fn ended(status: i32) -> Ended {
    match status & 0x7f {
        0 => Ended::Exited((status >> 8) & 0xff),
        signal => Ended::Signalled(signal),
    }
}
