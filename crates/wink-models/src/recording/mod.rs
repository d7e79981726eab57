//! Recordings: what was asked, what was answered and when, in one file, from which a run can be repeated without a model.
//!
//! A recording is JSON lines. The first is the header, and where the session had a past the next is its STATE, and where the run had one what was said in it; then a line for each request, one for its answer, and one for each
//! answer of whoever a policy asked, each with what the clock said since the line before. Of the program `claude`, which asks its model
//! itself, there is a line for each that it said and was told instead. A request says what is new in it since an earlier one of the same conversation, so a
//! recording grows with what was said and not with its square. Where files are watched there is a line for what each call changed in them,
//! with what was there before the run: a replay puts that back, and compares. The last but one has digests of the STATE that the run left.
//!
//! What makes a session the same, byte for byte: its id, the ids of its calls, chance, the time, and when somebody cancelled it. The header
//! has the seeds, the lines have every reading of the clock, with how far each call was meanwhile and where the run was cancelled, and calls
//! of recorded runs are executed one after the other. What tools find in the world outside has to be the same as well, but for those whose
//! handlers are recorded, too ([`Handlers`]): there is a line for what came of each.

mod approvals;
mod clock;
mod ending;
#[cfg(unix)]
mod files;
mod forms;
mod images;
#[cfg(unix)]
mod outcomes;
#[cfg(unix)]
mod put;
mod read;
mod requests;
mod scrub;
mod stops;
#[cfg(all(feature = "claude", unix))]
mod talk;
mod text;
mod write;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wink::session::IdSource;

#[cfg(unix)]
pub use files::WatchedFiles;
pub use images::{Content, FileChange, FileImage, FilesChanged};
#[cfg(unix)]
pub use outcomes::Handlers;
#[cfg(unix)]
pub use put::{Put, put};
pub use read::{Recording, RecordingError};
pub use scrub::{Scrubber, TooShort};
pub use write::{About, Recorder};

pub(crate) use stops::Taped;
#[cfg(all(feature = "claude", unix))]
pub(crate) use talk::Talk;
pub(crate) use text::{answers, is_recording, object, read_text};

use crate::conversation::ConversationStep;
use crate::model::ModelResponse;
use crate::random::Random;
use crate::scripted::Failure;
use approvals::RecordedApproval;
use clock::Tick;
use ending::Ended;
use requests::RecordedRequest;

/// The version of the form.
const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Header {
    wink_recording: u32,
    model: String,
    session: String,
    run: String,
    seed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<Value>,
}

impl Header {
    /// Where the ids of calls come from.
    fn ids(&self) -> IdSource {
        IdSource::seeded(self.seed)
    }

    /// Where chance comes from: another stream than the ids'.
    fn random(&self) -> Random {
        Random::seeded(!self.seed)
    }
}

/// Something that we said to the program `claude`, or it to us.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Spoken {
    /// It was told this.
    Told(Value),
    /// It said this; a text, if it is no JSON.
    Heard(Value),
    /// Nothing more came.
    Gone,
}

/// Any other line.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// What the clock said since the line before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    clock: Vec<Tick>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    request: Option<RecordedRequest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response: Option<ModelResponse>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
    /// What the session's STATE was when the run began, if whoever records it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<Value>,
    /// What was said in the run before, if it was taken up again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said: Option<Vec<ConversationStep>>,
    /// What somebody said whom a policy asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    approval: Option<RecordedApproval>,
    /// What was said between us and the program `claude`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claude: Option<Spoken>,
    /// What a call changed in files. The clock goes on as if this line were not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<FilesChanged>,
    /// What came of a handler that reaches outside. The clock goes on as if this line were not there.
    #[cfg(unix)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outcome: Option<outcomes::RecordedOutcome>,
    /// The STATE when the run was over. The clock goes on as if this line were not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<Ended>,
    /// The request was given up, so that there is no answer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    dropped: bool,
}
