//! Who a session belongs to: tags, parents, children, copies.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Weak};

use super::{Core, Session, SessionId};
use crate::support::lock::lock;

/// The tag that every session has: its id.
pub(crate) const SESSION_TAG: &str = "session_id";

#[derive(Default)]
pub(crate) struct Family {
    tags: Arc<BTreeMap<String, String>>,
    parent: Option<(SessionId, Weak<Core>)>,
    children: Vec<Session>,
    /// Beside the children, so that a snapshot takes them in flat time and keeps no session alive.
    child_ids: imbl::Vector<SessionId>,
}

type FamilyIds = (Arc<BTreeMap<String, String>>, Option<SessionId>, imbl::Vector<SessionId>);

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
        tags.insert(SESSION_TAG.to_owned(), id.to_string());
        Self { tags: Arc::new(tags), ..Self::default() }
    }
}

impl Session {
    /// The session's tags; `session_id` is always among them.
    pub fn tags(&self) -> Arc<BTreeMap<String, String>> {
        Arc::clone(&lock(&self.core.family).tags)
    }

    /// Tags, the parent's id, the children's ids.
    pub(crate) fn family_ids(&self) -> FamilyIds {
        let family = lock(&self.core.family);
        let parent = family.parent.as_ref().map(|(id, _)| id.clone());
        (Arc::clone(&family.tags), parent, family.child_ids.clone())
    }

    /// The session's parent, if it has one that still lives.
    pub fn parent(&self) -> Option<Session> {
        lock(&self.core.family)
            .parent
            .as_ref()
            .and_then(|(_, parent)| parent.upgrade())
            .map(|core| Session { core })
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
            family.child_ids.push_back(child.id().clone());
        }
        Ok(())
    }

    /// This session and everything below it, leaves first. A cycle is walked once.
    pub fn bottom_up(&self) -> Vec<Session> {
        let mut seen = HashSet::from([self.id().clone()]);
        let mut out = Vec::new();
        // Each with the children that have not been walked yet; deep families must not overflow the stack.
        let mut path = vec![(self.clone(), self.children().into_iter())];
        while let Some((session, children)) = path.last_mut() {
            match children.find(|child| seen.insert(child.id().clone())) {
                Some(child) => {
                    let below = child.children().into_iter();
                    path.push((child, below));
                }
                None => {
                    out.push(session.clone());
                    path.pop();
                }
            }
        }
        out
    }
}
