//! Who a session belongs to: tags, parents, children, copies.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};

use super::{Core, Session, SessionBuilder, SessionId};
use crate::support::lock::lock;

#[derive(Default)]
pub(crate) struct Family {
    pub(crate) tags: BTreeMap<String, String>,
    parent: Option<(SessionId, Weak<Core>)>,
    children: Vec<Session>,
}

/// A session cannot be made another's child.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FamilyError {
    /// A session is not its own parent.
    #[error("session {0} cannot be its own parent")]
    Self_(SessionId),
    /// It has another parent already.
    #[error("session {child} already has parent {parent}")]
    HasParent {
        /// The child.
        child: SessionId,
        /// Its parent.
        parent: SessionId,
    },
}

impl Family {
    pub(crate) fn new(id: &SessionId, mut tags: BTreeMap<String, String>) -> Self {
        tags.insert("session_id".to_owned(), id.to_string());
        Self { tags, ..Self::default() }
    }
}

impl Session {
    /// The session's tags; `session_id` is always among them.
    pub fn tags(&self) -> BTreeMap<String, String> {
        lock(&self.core.family).tags.clone()
    }

    /// The session's parent, if it has one that still lives.
    pub fn parent(&self) -> Option<Session> {
        lock(&self.core.family).parent.as_ref().and_then(|(_, parent)| parent.upgrade()).map(|core| Session { core })
    }

    /// The parent's id.
    pub fn parent_id(&self) -> Option<SessionId> {
        lock(&self.core.family).parent.as_ref().map(|(id, _)| id.clone())
    }

    /// The session's children, oldest first.
    pub fn children(&self) -> Vec<Session> {
        lock(&self.core.family).children.clone()
    }

    /// Makes `child` this session's child. Again is a no-op.
    pub fn adopt(&self, child: &Session) -> Result<(), FamilyError> {
        if Arc::ptr_eq(&self.core, &child.core) {
            return Err(FamilyError::Self_(self.id().clone()));
        }
        {
            let mut family = lock(&child.core.family);
            match &family.parent {
                Some((parent, _)) if parent != self.id() => {
                    return Err(FamilyError::HasParent { child: child.id().clone(), parent: parent.clone() });
                }
                Some(_) => {}
                None => family.parent = Some((self.id().clone(), Arc::downgrade(&self.core))),
            }
        }
        let mut family = lock(&self.core.family);
        if !family.children.iter().any(|other| Arc::ptr_eq(&other.core, &child.core)) {
            family.children.push(child.clone());
        }
        Ok(())
    }

    /// This session and everything below it, leaves first. A cycle is walked once.
    pub fn bottom_up(&self) -> Vec<Session> {
        fn walk(session: &Session, seen: &mut HashSet<SessionId>, out: &mut Vec<Session>) {
            if !seen.insert(session.id().clone()) {
                return;
            }
            for child in session.children() {
                walk(&child, seen, out);
            }
            out.push(session.clone());
        }
        let mut out = Vec::new();
        walk(self, &mut HashSet::new(), &mut out);
        out
    }

    /// A session of its own with equal contents and the same reducers. Subscribers and children stay behind.
    pub fn duplicate(&self) -> Session {
        let mut builder = SessionBuilder::new(Arc::clone(self.store()), Arc::clone(self.clock()));
        for (name, value) in self.tags() {
            builder = builder.tag(name, value);
        }
        let copy = builder.build();
        copy.core.registry.store(self.registry());
        let (state, log) = {
            let inner = lock(self.inner());
            (Arc::clone(&inner.state), inner.log.clone())
        };
        {
            let mut inner = lock(copy.inner());
            inner.state = state;
            inner.log = log;
            inner.start_at(lock(self.inner()).version());
        }
        copy.store_whole();
        copy
    }

    /// A [duplicate](Session::duplicate) that is this session's child.
    pub fn fork(&self) -> Session {
        let child = self.duplicate();
        // A fresh session has no parent and is not this one, so it can always be adopted.
        let _ = self.adopt(&child);
        child
    }
}
