//! Whether a section is shown whole or as its summary, and what the session remembers of that.

use serde::{Deserialize, Serialize};

use crate::session::{DispatchResult, Session, SliceKey, SliceType};
use crate::tool::VisibilityExpansionRequired;

/// How much of a section the model sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// All of it.
    #[default]
    Full,
    /// Its summary, and how to open it. Children, tools and examples are hidden.
    Summary,
}

/// What a session says about one section, in place of what the section says itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionVisibility {
    /// The section, by dotted path.
    pub key: String,
    /// How much of it is shown.
    pub visibility: Visibility,
}

impl SliceType for SectionVisibility {
    const NAME: &'static str = "wink.section_visibility";
    const KEYED: bool = true;

    fn key(&self) -> Option<SliceKey> {
        Some(self.key.as_str().into())
    }
}

/// Opens the sections that a call asked for. Whoever drives the executor does this right after the call that
/// escalated, and renders the prompt again.
///
/// ```
/// use wink::prompt::{SectionVisibility, Visibility, record_expansion};
/// use wink::session::Session;
/// use wink::tool::VisibilityExpansionRequired;
///
/// let session = Session::new();
/// let asked = VisibilityExpansionRequired { keys: vec!["manual".into()], reason: "to look it up".into() };
/// assert!(record_expansion(&session, &asked).is_ok());
/// assert_eq!(session.slice::<SectionVisibility>().get("manual").unwrap().visibility, Visibility::Full);
/// ```
pub fn record_expansion(session: &Session, expansion: &VisibilityExpansionRequired) -> DispatchResult {
    let mut whole = DispatchResult::default();
    for key in &expansion.keys {
        whole.add(session.dispatch(SectionVisibility { key: key.clone(), visibility: Visibility::Full }));
    }
    whole
}
