//! The ids of requests on one connection: each is used once.

use std::collections::{HashSet, VecDeque};

use rmcp::model::RequestId;

/// How many ids of answered requests are remembered.
const REMEMBERED: usize = 1024;

/// Which ids are in use, and which were not long ago.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    open: HashSet<RequestId>,
    answered: HashSet<RequestId>,
    order: VecDeque<RequestId>,
}

impl Ids {
    /// Takes an id; false if it was used before.
    pub(crate) fn take(&mut self, id: &RequestId) -> bool {
        !self.answered.contains(id) && self.open.insert(id.clone())
    }

    /// The request was answered, or nobody waits for its answer any more.
    pub(crate) fn close(&mut self, id: &RequestId) {
        let Some(id) = self.open.take(id) else { return };
        self.answered.insert(id.clone());
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.answered.remove(&oldest);
        }
    }

    /// How many requests wait for their answer.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::NumberOrString;

    use super::*;

    #[test]
    fn an_id_is_used_once() {
        let mut ids = Ids::default();
        let id = NumberOrString::Number(1);
        assert!(ids.take(&id));
        assert!(!ids.take(&id));
        ids.close(&id);
        assert!(!ids.take(&id));
        assert_eq!(ids.open(), 0);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut ids = Ids::default();
        for number in 0..10_000 {
            let id = NumberOrString::Number(number);
            assert!(ids.take(&id));
            ids.close(&id);
        }
        assert_eq!((ids.answered.len(), ids.order.len()), (REMEMBERED, REMEMBERED));
    }
}
