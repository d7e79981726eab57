//! The agent's own file is nobody's to change but the user's: whoever writes it says what may be run next time, and as whom.
//!
//! Tools that name the files they change are refused by a policy. What commands do is looked at when they are over: a call
//! whose command left something else where the file is, or where it would be looked for, fails and is undone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use wink::BoxFuture;
use wink::filesystem::{FsLimits, FsPath};
use wink::policy::{Decision, PolicyCall, PolicyContext, ToolPolicy};
use wink::resource::BoxError;
use wink::tool::Footprint;

use crate::agent::FILE_NAME;

/// Where an agent's file is, or would be looked for.
#[derive(Debug, Clone)]
pub(crate) struct OwnFiles(Arc<[FsPath]>);

impl OwnFiles {
    /// The usual place, and a file as far as it is in the workspace: itself, and where it leads if it is a link.
    pub(crate) fn new(workspace: &Path, file: &Path) -> Self {
        /// As many links as Linux follows.
        const LINKS: usize = 40;
        let workspace = workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned());
        let next = |path: &PathBuf| {
            let target = path.read_link().ok()?;
            Some(path.parent().unwrap_or(Path::new("")).join(target))
        };
        let inside = |path: PathBuf| {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new(".")).canonicalize().ok()?;
            let path = parent.join(path.file_name()?);
            path.strip_prefix(&workspace).ok()?.to_str().map(str::to_owned)
        };
        let links = std::iter::successors(Some(file.to_owned()), next).take(LINKS);
        let paths: Vec<String> = links.filter_map(inside).collect();
        Self::named([FILE_NAME].into_iter().chain(paths.iter().map(String::as_str)))
    }

    fn named<'n>(names: impl Iterator<Item = &'n str>) -> Self {
        // A path beyond these limits cannot be named by a tool either, and commands are held to the same.
        Self(names.filter_map(|name| FsPath::parse(name, &FsLimits::DEFAULT).ok()).collect())
    }

    /// The first of them that changing this path would change.
    fn changed_with(&self, path: &FsPath) -> Option<&FsPath> {
        self.0.iter().find(|own| {
            let rest = own.as_str().strip_prefix(path.as_str());
            rest.is_some_and(|rest| path.is_root() || rest.is_empty() || rest.starts_with('/'))
        })
    }
}

impl Default for OwnFiles {
    /// The usual place.
    fn default() -> Self {
        Self::named([FILE_NAME].into_iter())
    }
}

/// Denies changing the agent's own file.
pub(crate) struct OwnFilePolicy(pub(crate) OwnFiles);

/// The paths that a call of a known tool changes.
fn changed<'c>(call: &PolicyCall<'c>) -> Vec<&'c str> {
    let text = |value: Option<&'c serde_json::Value>| value.and_then(serde_json::Value::as_str);
    match &**call.tool.name() {
        "write_file" | "edit_file" | "delete_file" => text(call.params.get("path")).into_iter().collect(),
        "evaluate_python" => {
            let writes = call.params.get("writes").and_then(serde_json::Value::as_array);
            writes.into_iter().flatten().filter_map(|write| text(write.get("path"))).collect()
        }
        _ => Vec::new(),
    }
}

impl OwnFilePolicy {
    async fn decide(&self, call: &PolicyCall<'_>, cx: &PolicyContext<'_>) -> Result<Decision, BoxError> {
        for text in changed(call) {
            // What is no path is refused by the tool itself.
            let Ok(Some(path)) = cx.path(text).await else { continue };
            if let Some(own) = self.0.changed_with(&path) {
                return Ok(Decision::deny(format!(
                    "Cannot change {own}: it says what this agent may do, and is the user's to change\nTell the user what \
                     should be in it."
                )));
            }
        }
        Ok(Decision::Allow)
    }
}

impl ToolPolicy for OwnFilePolicy {
    fn kind(&self) -> &'static str {
        "agent_file"
    }

    fn covers(&self, call: &PolicyCall<'_>) -> bool {
        !changed(call).is_empty()
    }

    fn check<'a>(
        &'a self,
        call: &'a PolicyCall<'a>,
        cx: &'a PolicyContext<'a>,
    ) -> BoxFuture<'a, Result<Decision, BoxError>> {
        Box::pin(self.decide(call, cx))
    }

    fn footprint(&self, _: &PolicyCall<'_>, _: &Arc<str>) -> Footprint {
        // Names are looked at, not files.
        Footprint::nothing()
    }
}

#[cfg(target_os = "linux")]
pub(crate) use layers::GuardedLayers;

#[cfg(target_os = "linux")]
mod layers {
    use std::sync::Arc;

    use wink::BoxFuture;
    use wink::filesystem::host::Undone;
    use wink::filesystem::{EntryKind, FileVersion, Filesystem, FsError, FsPath};
    use wink_sandbox::WorkspaceView;
    use wink_sandbox::tool::{HostLayers, LayerError, WorkspaceLayer, WorkspaceLayers};

    use super::OwnFiles;

    /// Layers that are not taken over when a command changed the agent's own file.
    #[derive(Debug, Clone)]
    pub(crate) struct GuardedLayers(pub(crate) OwnFiles);

    impl WorkspaceLayers for GuardedLayers {
        fn layer<'a>(
            &'a self,
            files: &'a Arc<dyn Filesystem>,
        ) -> BoxFuture<'a, Result<Box<dyn WorkspaceLayer>, LayerError>> {
            Box::pin(async move {
                let mut before = Vec::with_capacity(self.0.0.len());
                for path in self.0.0.iter() {
                    before.push((path.clone(), Seen::look(files, path).await?));
                }
                let inner = HostLayers.layer(files).await?;
                Ok(Box::new(GuardedLayer { inner, files: Arc::clone(files), before }) as _)
            })
        }
    }

    struct GuardedLayer {
        inner: Box<dyn WorkspaceLayer>,
        files: Arc<dyn Filesystem>,
        before: Vec<(FsPath, Seen)>,
    }

    impl WorkspaceLayer for GuardedLayer {
        fn workspace(&self) -> WorkspaceView {
            self.inner.workspace()
        }

        fn finish(self: Box<Self>) -> BoxFuture<'static, Result<(), LayerError>> {
            let Self { inner, files, before } = *self;
            Box::pin(async move {
                inner.finish().await?;
                for (path, before) in before {
                    if Seen::look(&files, &path).await? != before {
                        return Err(LayerError::Guarded { path: path.to_string() });
                    }
                }
                Ok(())
            })
        }

        fn undo(self: Box<Self>) -> BoxFuture<'static, Result<Undone, LayerError>> {
            self.inner.undo()
        }
    }

    /// What is where the file is. Its contents count, not when they were written.
    #[derive(PartialEq)]
    enum Seen {
        Nothing,
        File(Arc<[u8]>),
        Other(EntryKind, FileVersion),
    }

    impl Seen {
        async fn look(files: &Arc<dyn Filesystem>, path: &FsPath) -> Result<Self, FsError> {
            if !files.exists(path).await? {
                return Ok(Self::Nothing);
            }
            let there = files.stat(path).await?;
            Ok(match there.kind {
                EntryKind::File => Self::File(files.read_bytes(path).await?.bytes),
                kind => Self::Other(kind, there.version),
            })
        }
    }
}
