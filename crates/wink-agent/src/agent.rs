//! Agents: checked, frozen, to be opened.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wink::prompt::Prompt;
use wink_store::Workspace;

use crate::build::{Binding, Digest, Ground, Held, build};
use crate::builtin;
use crate::file::File;
use crate::own_file::OwnFiles;
use crate::problem::{LoadError, Problems};

/// The name of the agent file that is looked for in a workspace.
pub const FILE_NAME: &str = "wink.toml";

/// A checked agent: what the model is told, which tools there are, and what calls are held to. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    origin: Origin,
    prompt: Prompt,
    pub(crate) held: Held,
    pub(crate) digest: Digest,
    /// Where its file is.
    own: OwnFiles,
    /// For an agent whose prompt has to be built again for each workspace.
    per_workspace: Option<File>,
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
        Self::load_own(path, OwnFiles::default())
    }

    fn load_own(path: &Path, own: OwnFiles) -> Result<Self, LoadError> {
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::read(&text, &file, Origin::File(path.to_owned()), own),
            Err(source) => Err(LoadError::Unreadable { file, source }),
        }
    }

    /// The agent that a text describes; `name` is how errors call it.
    ///
    /// # Errors
    /// Everything that is wrong with the text.
    pub fn parse(text: &str, name: &str) -> Result<Self, LoadError> {
        Self::read(text, name, Origin::Text(name.to_owned()), OwnFiles::default())
    }

    /// The agent of a workspace: the file that was asked for, else [`FILE_NAME`] in the workspace, else the
    /// [built-in](Agent::builtin) one. Its tools do not change that file, nor make one: it is the user's.
    ///
    /// # Errors
    /// As [`Agent::load`].
    pub fn find(workspace: &Path, explicit: Option<&Path>) -> Result<Self, LoadError> {
        let own = workspace.join(FILE_NAME);
        match explicit {
            Some(path) => Self::load_own(path, OwnFiles::new(workspace, Some(path))),
            // Whatever is there is meant: one that cannot be read is an error and not nobody.
            None if own.symlink_metadata().is_ok() => Self::load(&own),
            None => Ok(Self::builtin()),
        }
    }

    /// The built-in agent for any workspace: planning and files; running programs, where the machine has a sandbox for
    /// them; Python, where it was built with the feature `eval`.
    pub fn builtin() -> Self {
        let own = OwnFiles::default();
        Self::read(&builtin::text(), "the built-in agent", Origin::Builtin, own).unwrap_or_else(|error| {
            #[expect(
                clippy::panic,
                reason = "the text is part of the program, and every form of it is tested"
            )]
            {
                panic!("{error}")
            }
        })
    }

    /// The JSON Schema of agent files, for editors.
    pub fn schema() -> serde_json::Value {
        crate::read::schema()
    }

    /// `ns/key`.
    pub fn name(&self) -> &Arc<str> {
        self.inner.prompt.name()
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

    /// The prompt as it is in a workspace.
    pub(crate) fn prompt_in(&self, workspace: &Arc<Workspace>) -> Prompt {
        let again = self.inner.per_workspace.as_ref().and_then(|file| {
            let ground = Ground { workspace: Some(workspace), own: &self.inner.own };
            build(file, &ground, &mut Problems::default()).template
        });
        // The same file was built before, so that it can be built.
        again.map_or_else(|| self.inner.prompt.clone(), |template| template.prompt())
    }

    fn read(text: &str, name: &str, origin: Origin, own: OwnFiles) -> Result<Self, LoadError> {
        let mut problems = Problems::default();
        let file = crate::read::read(text, &mut problems);
        let built = build(&file, &Ground { workspace: None, own: &own }, &mut problems);
        let per_workspace = (built.binding == Binding::PerWorkspace).then_some(file);
        match (built.template, problems.into_error(name, text)) {
            (Some(template), None) => {
                let prompt = template.prompt();
                let (held, digest) = (built.held, built.digest);
                let inner = Inner { origin, prompt, held, digest, own, per_workspace };
                Ok(Self { inner: Arc::new(inner) })
            }
            (_, Some(error)) => Err(error),
            // Nothing is left out silently.
            (None, None) => Err(LoadError::Invalid { file: name.to_owned(), problems: Vec::new() }),
        }
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
