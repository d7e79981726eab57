//! The session as rendering sees it, outside a call and inside one.

use std::sync::OnceLock;

use crate::session::{CallStat, ReadOnlySession, Session, SessionId, SliceType, SliceView};
use crate::tool::context::{CallSession, ReadSession};
use crate::transaction::AccessError;

/// What rendering may look at of a session. Nothing here changes anything.
///
/// A `&Session`, a `&ReadOnlySession` or a call's `cx.session()` becomes one.
pub struct SessionView<'a> {
    source: Source<'a>,
    refused: OnceLock<AccessError>,
}

enum Source<'a> {
    Session(&'a Session),
    Call(ReadSession<'a>),
}

impl SessionView<'_> {
    /// The session's id.
    pub fn id(&self) -> &SessionId {
        match &self.source {
            Source::Session(session) => session.id(),
            Source::Call(session) => session.id(),
        }
    }

    /// The slice of `T`.
    pub fn slice<T: SliceType>(&self) -> SliceView<T> {
        match &self.source {
            Source::Session(session) => session.slice(),
            Source::Call(session) => session.slice().unwrap_or_else(|error| {
                self.refuse(error);
                SliceView::empty()
            }),
        }
    }

    /// How often `tool` succeeded in this session, and when last.
    pub fn calls(&self, tool: &str) -> Option<CallStat> {
        match &self.source {
            Source::Session(session) => session.calls(tool),
            Source::Call(session) => session.calls(tool).unwrap_or_else(|error| {
                self.refuse(error);
                None
            }),
        }
    }

    /// Why something could not be looked at. Predicates see nothing in its place, and what they said is worth
    /// nothing then.
    pub(crate) fn refused(&self) -> Option<&AccessError> {
        self.refused.get()
    }

    fn refuse(&self, error: AccessError) {
        // The first reason is the one to tell.
        let _ = self.refused.set(error);
    }
}

impl<'a> From<Source<'a>> for SessionView<'a> {
    fn from(source: Source<'a>) -> Self {
        Self { source, refused: OnceLock::new() }
    }
}

impl<'a> From<&'a Session> for SessionView<'a> {
    fn from(session: &'a Session) -> Self {
        Source::Session(session).into()
    }
}

impl<'a> From<&'a ReadOnlySession> for SessionView<'a> {
    fn from(session: &'a ReadOnlySession) -> Self {
        Source::Session(session.inner()).into()
    }
}

impl<'a> From<ReadSession<'a>> for SessionView<'a> {
    fn from(session: ReadSession<'a>) -> Self {
        Source::Call(session).into()
    }
}

impl<'a> From<CallSession<'a>> for SessionView<'a> {
    fn from(session: CallSession<'a>) -> Self {
        Source::Call(session.into_read()).into()
    }
}
