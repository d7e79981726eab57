//! The calls of a message that is sent again in the provider's own form. There they are only named: what was called is in the message.

use std::iter::Peekable;
use std::slice::Iter;

use crate::Called;

/// The calls of a message, in their order. Not found by their ids, since two may have the same.
pub(super) struct CalledAgain<'a>(Peekable<Iter<'a, Called>>);

impl<'a> CalledAgain<'a> {
    pub(super) fn new(calls: &'a [Called]) -> Self {
        Self(calls.iter().peekable())
    }

    /// The next call, if it is the one of this name.
    pub(super) fn next(&mut self, id: &str) -> Option<&'a Called> {
        self.0.next_if(|call| *call.id == *id)
    }
}
