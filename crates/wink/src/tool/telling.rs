//! Work that cannot say how far it is: a program, a worker, somebody else's answer.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::context::ReadContext;

impl ReadContext {
    /// Does the work, and says every second for how many it has gone on: a client that hears nothing may give up.
    pub async fn telling<T>(&self, work: impl Future<Output = T>) -> T {
        let clock = self.clock();
        let began = clock.monotonic();
        let mut work = pin!(work);
        let mut seconds: u32 = 0;
        loop {
            seconds = seconds.saturating_add(1);
            let mut tick = clock.sleep_until(began + Duration::from_secs(seconds.into()));
            let ended = poll_fn(|context| match work.as_mut().poll(context) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                Poll::Pending => tick.as_mut().poll(context).map(|()| None),
            });
            match ended.await {
                Some(ended) => return ended,
                None => self.still_running(seconds),
            }
        }
    }
}
