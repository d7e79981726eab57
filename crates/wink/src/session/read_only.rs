//! A session to look at.

use super::{CallStat, Session, SessionId, SliceType, SliceView};

/// A session that can be looked at and not changed.
///
/// ```compile_fail,E0599
/// wink::session::Session::new().read_only().reset();
/// ```
/// ```compile_fail,E0599
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Note(String);
/// # impl wink::session::SliceType for Note { const NAME: &'static str = "note"; }
/// wink::session::Session::new().read_only().dispatch(Note("no".into()));
/// ```
/// ```compile_fail,E0599
/// wink::session::Session::new().read_only().clear::<wink::session::PromptRendered>();
/// ```
/// ```compile_fail,E0599
/// wink::session::Session::new().read_only().seed::<wink::session::PromptRendered>([]);
/// ```
/// ```compile_fail,E0599
/// wink::session::Session::new().read_only().restore(&wink::session::Session::new().snapshot());
/// ```
#[derive(Debug, Clone)]
pub struct ReadOnlySession {
    session: Session,
}

impl ReadOnlySession {
    pub(super) fn of(session: Session) -> Self {
        Self { session }
    }

    pub(crate) fn inner(&self) -> &Session {
        &self.session
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        self.session.id()
    }

    /// The slice of `T` as it is now.
    pub fn slice<T: SliceType>(&self) -> SliceView<T> {
        self.session.slice()
    }

    /// How often `tool` succeeded in this session, and when last.
    pub fn calls(&self, tool: &str) -> Option<CallStat> {
        self.session.calls(tool)
    }
}
