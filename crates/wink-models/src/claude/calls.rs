//! Calls that are going on, in the hands of whoever waits for them: dropping them gives all of them up, there and then.
//!
//! They go on only while somebody waits here. Whoever waits for something else that one of them may be holding, the session for
//! example, does so beside them.

use std::collections::VecDeque;
use std::pin::pin;
use std::task::{Context, Poll};

use wink::BoxFuture;

/// Some calls, which are few: each is looked at whenever one of them has something to do.
pub(super) struct Calls<T> {
    going_on: Vec<BoxFuture<'static, T>>,
    over: VecDeque<T>,
    /// One after the other, as in runs that are recorded.
    in_turn: bool,
}

impl<T> Calls<T> {
    pub(super) fn new(in_turn: bool) -> Self {
        Self { going_on: Vec::new(), over: VecDeque::new(), in_turn }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.going_on.is_empty() && self.over.is_empty()
    }

    pub(super) fn add(&mut self, call: impl Future<Output = T> + Send + 'static) {
        self.going_on.push(Box::pin(call));
    }

    /// What came of the next one that is over; nothing if there is none.
    pub(super) async fn next(&mut self) -> Option<T> {
        std::future::poll_fn(|cx| {
            self.go_on(cx);
            match self.over.pop_front() {
                None if !self.going_on.is_empty() => Poll::Pending,
                over => Poll::Ready(over),
            }
        })
        .await
    }

    /// Something else, while they go on.
    pub(super) async fn beside<W: Future>(&mut self, work: W) -> W::Output {
        let mut work = pin!(work);
        std::future::poll_fn(|cx| {
            self.go_on(cx);
            work.as_mut().poll(cx)
        })
        .await
    }

    fn go_on(&mut self, cx: &mut Context<'_>) {
        let (over, in_turn) = (&mut self.over, self.in_turn);
        let mut waits = false;
        self.going_on.retain_mut(|call| {
            if waits {
                return true;
            }
            match call.as_mut().poll(cx) {
                Poll::Ready(done) => {
                    over.push_back(done);
                    // What came of one is told before the next begins.
                    waits = in_turn;
                    false
                }
                Poll::Pending => {
                    waits = in_turn;
                    true
                }
            }
        });
    }
}
