//! The ids of requests on one connection. Of clients that have shaken hands each is used once; by revision 2026-07-28 one
//! may come again when its request was answered.

use std::collections::{HashSet, VecDeque};

use rmcp::model::RequestId;

/// How many ids that must not come again are remembered.
const REMEMBERED: usize = 1024;

/// Which ids are in use, and which were not long ago.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    open: HashSet<RequestId>,
    retired: HashSet<RequestId>,
    order: VecDeque<RequestId>,
    /// Answers that are being written.
    leaving: usize,
    shaken: bool,
}

impl Ids {
    /// From here on, an id that was answered does not come again.
    pub(crate) fn shake_hands(&mut self) {
        self.shaken = true;
    }

    /// Takes an id; false if it may not be used.
    pub(crate) fn take(&mut self, id: &RequestId) -> bool {
        !self.retired.contains(id) && self.open.insert(id.clone())
    }

    /// The answer to a request is about to be written: whoever has read it may use its id again at once. True if somebody
    /// waits for it; then it is to be said when it [was written](Self::left).
    pub(crate) fn leaves(&mut self, id: &RequestId) -> bool {
        let waited = match self.shaken {
            true => self.retire(id),
            false => self.open.remove(id),
        };
        self.leaving = self.leaving.saturating_add(usize::from(waited));
        waited
    }

    /// An answer was written.
    pub(crate) fn left(&mut self) {
        self.leaving = self.leaving.saturating_sub(1);
    }

    /// Nobody waits for the answer to this request any more, and its id does not come again: something may still be on its
    /// way for it. False if nobody did.
    pub(crate) fn retire(&mut self, id: &RequestId) -> bool {
        let Some(id) = self.open.take(id) else { return false };
        self.retired.insert(id.clone());
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.retired.remove(&oldest);
        }
        true
    }

    /// How many requests wait for their answer.
    pub(crate) fn open(&self) -> usize {
        self.open.len().saturating_add(self.leaving)
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    const ID: RequestId = NumberOrString::Number(1);

    #[test]
    fn after_a_handshake_an_id_is_used_once() {
        let mut ids = Ids::default();
        ids.shake_hands();
        assert!(ids.take(&ID));
        assert!(!ids.take(&ID));
        assert!(ids.leaves(&ID));
        assert!(!ids.take(&ID));
        assert_eq!(ids.open(), 1);
        ids.left();
        assert_eq!(ids.open(), 0);
    }

    #[test]
    fn without_one_an_id_may_come_again_once_it_was_answered() {
        let mut ids = Ids::default();
        assert!(ids.take(&ID));
        assert!(!ids.take(&ID));
        assert!(ids.leaves(&ID));
        assert!(ids.take(&ID));
        // The one that is being written, and the one that came since.
        assert_eq!(ids.open(), 2);
        ids.left();
        // One that was cancelled gets no answer.
        assert!(ids.retire(&ID));
        assert!(!ids.take(&ID));
        assert!(!ids.leaves(&ID));
        assert_eq!(ids.open(), 0);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut ids = Ids::default();
        for number in 0..10_000 {
            let id = NumberOrString::Number(number);
            assert!(ids.take(&id));
            assert!(ids.retire(&id));
        }
        assert_eq!((ids.retired.len(), ids.order.len()), (REMEMBERED, REMEMBERED));
    }
}
