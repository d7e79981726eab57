//! Agents: checked, frozen, to be opened.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;
use wink::filesystem::host::PathGuard;
use wink::limits::Budget;
use wink::prompt::{LocalOverrides, OverrideError, Overrides, Prompt};
use wink_store::Workspace;

use crate::build::{Binding, Built, Digest, Held, Natives, build};
use crate::builtin;
use crate::file::File;
use crate::model::ModelConfig;
use crate::own_file;
use crate::problem::{LoadError, Problems};
use crate::programs::{MissingProgram, Startable};

/// The name of the agent file that is looked for in a workspace.
pub const FILE_NAME: &str = "wink.toml";

/// The name of the directory beside an agent file that replaces texts of its prompt, and of the suites in it.
pub const OVERRIDES_NAME: &str = "wink-overrides";

/// The tag of the overrides that count, unless somebody asks for others. They need not be there.
pub const OVERRIDES_TAG: &str = "latest";

/// No agent file is larger.
const LARGEST: u64 = 1024 * 1024;

/// A checked agent: what the model is told, which tools there are, and what calls are held to. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Clone)]
pub(crate) struct Inner {
    origin: Origin,
    prompt: Prompt,
    pub(crate) held: Held,
    pub(crate) digest: Digest,
    model: Option<ModelConfig>,
    programs: Vec<Startable>,
    /// Where its overrides are kept; nowhere for one that was not looked for in a workspace.
    place: Option<PathBuf>,
    /// What was in its file; nothing for one that is in no file.
    read: Option<Arc<[u8]>>,
    /// The tag of its overrides, and what replaces texts of its prompt.
    tag: Tag,
    overrides: Option<Overrides>,
    /// Whether its prompt has the tools of the program that answers.
    natives: Natives,
    /// For an agent whose prompt has to be built again: for each workspace, or with those tools.
    again: Option<File>,
}

/// Whether overrides are put in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Texts<'a> {
    /// Those with this tag; the file's unless told.
    Overridden(Option<&'a str>),
    AsWritten,
}

/// The tag of an agent's overrides.
#[derive(Debug, Clone)]
enum Tag {
    /// Somebody asked for these, whatever the file says.
    Asked(String),
    /// The file says so, or nobody does.
    Own(String),
}

impl Tag {
    fn of(texts: Texts<'_>, own: Option<String>) -> Self {
        match texts {
            Texts::Overridden(Some(asked)) => Self::Asked(asked.to_owned()),
            Texts::Overridden(None) | Texts::AsWritten => {
                Self::Own(own.unwrap_or_else(|| OVERRIDES_TAG.to_owned()))
            }
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Asked(name) | Self::Own(name) => name,
        }
    }

    fn asked(&self) -> Option<&str> {
        match self {
            Self::Asked(name) => Some(name),
            Self::Own(_) => None,
        }
    }
}

/// What a session of an agent is held to as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionLimits {
    /// How long it may go on after it was opened.
    pub deadline: Option<Duration>,
    /// How many tokens may be used.
    pub budget: Option<Budget>,
}

/// Where an agent comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It is built in.
    Builtin,
    /// A file.
    File(PathBuf),
    /// A text of this name.
    Text(String),
}

impl Agent {
    /// Loads an agent file.
    ///
    /// # Errors
    /// When the file cannot be read; else everything that is wrong with it.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        Self::load_from(path, None, Texts::AsWritten)
    }

    fn load_from(path: &Path, place: Option<PathBuf>, texts: Texts<'_>) -> Result<Self, LoadError> {
        let file = path.display().to_string();
        let bytes = match read_bounded(path) {
            Ok(bytes) => bytes,
            Err(source) => return Err(LoadError::Unreadable { file, source }),
        };
        match String::from_utf8(bytes) {
            Ok(text) => Self::read(&text, &file, Origin::File(path.to_owned()), place, texts),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(error.as_bytes());
                let mut problems = Problems::default();
                problems.hint(&(at..at), "this is not UTF-8", "save the file as UTF-8");
                Err(problems.into_error(&file, &text))
            }
        }
    }

    /// The agent that a text describes; `name` is how errors call it.
    ///
    /// # Errors
    /// Everything that is wrong with the text.
    pub fn parse(text: &str, name: &str) -> Result<Self, LoadError> {
        Self::read(text, name, Origin::Text(name.to_owned()), None, Texts::AsWritten)
    }

    /// The agent of a workspace: the file that was asked for, else [`FILE_NAME`] in the workspace, else the
    /// [built-in](Agent::builtin) one. Its tools do not change that file, nor make one: it is the user's.
    ///
    /// Texts of its prompt are replaced by what is in [`OVERRIDES_NAME`] beside the file, or in the workspace for the built-in agent,
    /// under the tag that the file says, else [`OVERRIDES_TAG`]. Its tools do not change that either.
    ///
    /// # Errors
    /// As [`Agent::load`]; and when the overrides cannot be used, or are not there though the file wants others than the usual.
    pub fn find(workspace: &Path, explicit: Option<&Path>) -> Result<Self, LoadError> {
        Self::find_tagged(workspace, explicit, None)
    }

    /// The same with the overrides of this tag, whatever the file says.
    ///
    /// # Errors
    /// As [`Agent::find`].
    pub fn find_tagged(
        workspace: &Path,
        explicit: Option<&Path>,
        tag: Option<&str>,
    ) -> Result<Self, LoadError> {
        Self::find_with(workspace, explicit, Texts::Overridden(tag))
    }

    /// The same without overrides in place: for whoever looks after them.
    ///
    /// # Errors
    /// As [`Agent::load`].
    pub fn find_as_written(workspace: &Path, explicit: Option<&Path>) -> Result<Self, LoadError> {
        Self::find_with(workspace, explicit, Texts::AsWritten)
    }

    fn find_with(workspace: &Path, explicit: Option<&Path>, texts: Texts<'_>) -> Result<Self, LoadError> {
        let own = workspace.join(FILE_NAME);
        if let Some(path) = explicit {
            return Self::load_from(path, Some(own_file::overrides_beside(path)), texts);
        }
        // Whatever is there is meant: one that cannot be read is an error and not nobody.
        if own.symlink_metadata().is_err() {
            return Self::builtin_from(Some(own_file::overrides_beside(&own)), texts);
        }
        Self::load_from(&own, Some(own_file::overrides_beside(&own)), texts)
    }

    /// This agent as its file says it in a workspace at rest; `explicit` as for [`Agent::find`]. One that is in no file, but
    /// for the built-in one, stays what it is. Where commands work in the
    /// workspace itself, one may have changed the file that was read, and be undone yet.
    ///
    /// # Errors
    /// As [`Agent::load`]; and when the workspace does not come to rest.
    pub fn settled_in(&self, workspace: &Workspace, explicit: Option<&Path>) -> Result<Self, LoadError> {
        if matches!(self.origin(), Origin::Text(_)) {
            return Ok(self.clone());
        }
        let root = workspace.files().root();
        let file = explicit.map_or_else(|| root.join(FILE_NAME), Path::to_owned);
        let again = || match (&self.inner.read, read_bounded(&file)) {
            (Some(read), Ok(now)) if **read == *now && self.has_overrides_of_now() => Ok(self.clone()),
            (None, _)
                if explicit.is_none() && file.symlink_metadata().is_err() && self.has_overrides_of_now() =>
            {
                Ok(self.clone())
            }
            _ => Self::find_tagged(root, explicit, self.inner.tag.asked()),
        };
        workspace.files().at_rest(again).unwrap_or_else(|error| {
            let file = file.display().to_string();
            Err(LoadError::Unreadable { file, source: io::Error::other(error) })
        })
    }

    /// The built-in agent for any workspace: planning and files; running programs, where the machine has a sandbox for
    /// them; Python, where it was built with the feature `eval`.
    pub fn builtin() -> Self {
        Self::builtin_from(None, Texts::AsWritten).unwrap_or_else(|error| {
            #[expect(
                clippy::panic,
                reason = "the text is part of the program, and every form of it is tested"
            )]
            {
                panic!("{error}")
            }
        })
    }

    fn builtin_from(place: Option<PathBuf>, texts: Texts<'_>) -> Result<Self, LoadError> {
        Self::read(&builtin::text(), "the built-in agent", Origin::Builtin, place, texts)
    }

    /// The JSON Schema of agent files, for editors.
    pub fn schema() -> serde_json::Value {
        crate::read::schema()
    }

    /// `ns/key`.
    pub fn name(&self) -> &Arc<str> {
        self.inner.prompt.name()
    }

    /// Which paths its calls do not change, in a workspace that was opened without saying otherwise; beside its own file and its
    /// overrides, which no call changes.
    pub fn guard(&self) -> PathGuard {
        // Every pattern was tried when the file was read.
        self.inner.held.guard.over(PathGuard::default()).unwrap_or_default()
    }

    /// Where it comes from.
    pub fn origin(&self) -> &Origin {
        &self.inner.origin
    }

    /// What the model is given, with every tool that can be enabled
    /// ([`placed_tools`](Prompt::placed_tools)). It can be rendered for any session.
    pub fn prompt(&self) -> &Prompt {
        &self.inner.prompt
    }

    /// Who answers, if its file says that.
    pub fn model(&self) -> Option<&ModelConfig> {
        self.inner.model.as_ref()
    }

    /// This agent with the tools of the program `claude` that its file names ([`ModelConfig::native_tools`]), for whoever has the
    /// program answer: nobody else can run them.
    #[must_use]
    pub fn with_native_tools(&self) -> Self {
        let (Some(model), Some(file)) = (&self.inner.model, &self.inner.again) else { return self.clone() };
        if model.native_tools.is_empty() || self.inner.natives == Natives::Given {
            return self.clone();
        }
        let (inner, prompt) = (&self.inner, self.built(file, None, Natives::Given));
        // The same file was built before, so that it can be built.
        let prompt = prompt.unwrap_or_else(|| inner.prompt.clone());
        Self { inner: Arc::new(Inner { prompt, natives: Natives::Given, ..Inner::clone(inner) }) }
    }

    /// What its sessions are held to as a whole.
    pub fn limits(&self) -> SessionLimits {
        SessionLimits { deadline: self.inner.held.deadline, budget: self.inner.held.budget }
    }

    /// The programs of its commands that cannot be started in this workspace, in the order of the file. Those of commands in a
    /// sandbox are not among them: what is there in one is not known here.
    pub fn missing_programs(&self, workspace: &Path) -> Vec<MissingProgram> {
        self.inner.programs.iter().filter_map(|program| program.missing_in(workspace)).collect()
    }

    /// Where its overrides are kept; none for an agent that was not looked for in a workspace.
    pub fn overrides(&self) -> Option<LocalOverrides> {
        self.inner.place.clone().map(LocalOverrides::new)
    }

    /// The tag of its overrides.
    pub fn overrides_tag(&self) -> &str {
        self.inner.tag.name()
    }

    /// Whether its overrides are what is on the disk now.
    fn has_overrides_of_now(&self) -> bool {
        let Some(local) = self.overrides() else { return true };
        local.read(&self.inner.prompt, self.overrides_tag()).is_ok_and(|now| now == self.inner.overrides)
    }

    /// The prompt as it is in a workspace.
    pub(crate) fn prompt_in(&self, workspace: &Arc<Workspace>) -> Prompt {
        let again = self.inner.again.as_ref();
        let again = again.and_then(|file| self.built(file, Some(workspace), self.inner.natives));
        // The same file was built before, so that it can be built.
        again.unwrap_or_else(|| self.inner.prompt.clone())
    }

    /// The prompt of its file once more.
    fn built(&self, file: &File, workspace: Option<&Arc<Workspace>>, natives: Natives) -> Option<Prompt> {
        let prompt = build(file, workspace, natives, &mut Problems::default()).prompt?;
        match &self.inner.overrides {
            None => Some(prompt),
            Some(overrides) => prompt.with_overrides(overrides.clone()).ok(),
        }
    }

    fn read(
        text: &str,
        name: &str,
        origin: Origin,
        place: Option<PathBuf>,
        texts: Texts<'_>,
    ) -> Result<Self, LoadError> {
        let mut problems = Problems::default();
        let file = crate::read::read(text, &mut problems);
        let natives = Natives::LeftOut;
        let Built { prompt, held, tag, model, binding, digest, programs } =
            build(&file, None, natives, &mut problems);
        let has_natives = model.as_ref().is_some_and(|model| !model.native_tools.is_empty());
        let again = (binding == Binding::PerWorkspace || has_natives).then_some(file);
        match prompt {
            Some(mut prompt) if problems.count() == 0 => {
                let tag = Tag::of(texts, tag);
                let overrides = match &place {
                    Some(place) if texts != Texts::AsWritten => in_place(place, &prompt, tag.name())?,
                    Some(_) | None => None,
                };
                if let Some(overrides) = &overrides {
                    prompt = prompt.with_overrides(overrides.clone()).map_err(OverrideError::from)?;
                }
                let read = matches!(origin, Origin::File(_)).then(|| Arc::from(text.as_bytes()));
                let inner = Inner {
                    origin,
                    prompt,
                    held,
                    digest,
                    model,
                    programs,
                    place,
                    read,
                    tag,
                    overrides,
                    natives,
                    again,
                };
                Ok(Self { inner: Arc::new(inner) })
            }
            // Nothing is left out silently.
            Some(_) | None => Err(problems.into_error(name, text)),
        }
    }
}

/// The overrides of a tag. Only the usual ones need not be there.
fn in_place(place: &Path, prompt: &Prompt, tag: &str) -> Result<Option<Overrides>, LoadError> {
    let local = LocalOverrides::new(place);
    match local.read(prompt, tag)? {
        None if tag != OVERRIDES_TAG => {
            Err(LoadError::NoOverrides { tag: tag.to_owned(), file: local.file(prompt, tag)? })
        }
        found => Ok(found),
    }
}

/// The bytes of a file, if there are not too many.
fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe that nobody writes to would be waited for, whether it was there before or is put there now.
    let file = fs::OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LARGEST {
        true => Err(io::Error::other("it is larger than 1 MiB, which no agent file is")),
        false => Ok(bytes),
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent")
            .field("name", self.name())
            .field("origin", self.origin())
            .finish_non_exhaustive()
    }
}
