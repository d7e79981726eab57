//! Being told to end: Ctrl-C, a termination, a terminal that is closed.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::frame::CliError;

/// From when there is one, being told to end does not end the program by itself.
pub(super) struct Ending {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Ending {
    pub(super) fn listen() -> Result<Self, CliError> {
        let listen = |kind| signal(kind).map_err(CliError::internal);
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    /// Ends when somebody wants the program to.
    pub(super) async fn told(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}
