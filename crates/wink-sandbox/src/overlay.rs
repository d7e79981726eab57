//! The workspace as a command sees it: the directory itself, or an overlay over it.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;
use wink::filesystem::host::{CommandRecord, OverlayDirs};

use crate::child::{Step, slot_path};
use crate::error::LaunchError;

/// Who mounts an overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverlayKind {
    /// The superuser, with marks of either kind.
    Trusted,
    /// Anybody, in a user namespace, with [`OverlayDirs::user_xattr`].
    User,
}

/// What is mounted where the workspace is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceView {
    /// The directory itself: what a command does to it is done.
    Direct {
        /// The directory.
        root: PathBuf,
        /// The directory in it that commands never see, if there is one.
        state_name: Option<String>,
        /// Where the command's processes are written down, for whoever restores the directory after it.
        record: Option<CommandRecord>,
    },
    /// An overlay over the directory.
    Overlay(OverlayDirs),
}

impl WorkspaceView {
    /// The directory.
    pub fn root(&self) -> &Path {
        match self {
            Self::Direct { root, .. } => root,
            Self::Overlay(dirs) => &dirs.lower,
        }
    }

    pub(crate) fn record(&self) -> Option<&CommandRecord> {
        match self {
            Self::Direct { record, .. } => record.as_ref(),
            Self::Overlay(_) => None,
        }
    }

    fn state_name(&self) -> Option<&str> {
        match self {
            Self::Direct { state_name, .. } => state_name.as_deref(),
            Self::Overlay(dirs) => Some(dirs.state_name),
        }
    }

    /// The steps that open it. They come before anything is mounted, so that nothing can be mounted over it; slots
    /// 0 to 2 are theirs.
    pub(crate) fn open(&self) -> Result<Vec<Step>, LaunchError> {
        let open = |path: &Path, slot| Ok::<_, LaunchError>(Step::Open { path: c_path(path)?, slot });
        match self {
            Self::Direct { root, .. } => Ok(vec![open(root, 0)?]),
            Self::Overlay(dirs) => {
                Ok(vec![open(&dirs.lower, 0)?, open(&dirs.upper, 1)?, open(&dirs.work, 2)?])
            }
        }
    }

    /// The steps that mount it at `at`.
    pub(crate) fn mount(&self, at: &str) -> Result<Vec<Step>, LaunchError> {
        let mut steps = Vec::new();
        match self {
            Self::Direct { .. } => {
                steps.push(Step::Bind {
                    slot: 0,
                    at: c_text("the workspace", at)?,
                    read_only: false,
                    devices: false,
                });
            }
            Self::Overlay(dirs) => steps.push(Step::Mount {
                kind: c"overlay".to_owned(),
                at: c_text("the workspace", at)?,
                flags: MountFlags::NOSUID | MountFlags::NODEV,
                data: options(dirs.user_xattr)?,
            }),
        }
        steps.extend(self.mask(at)?);
        Ok(steps)
    }

    /// The step that hides the state directory, where the workspace is at `at`.
    pub(crate) fn mask(&self, at: &str) -> Result<Option<Step>, LaunchError> {
        let Some(name) = self.state_name() else { return Ok(None) };
        let masked = c_text("the workspace", &format!("{at}/{name}"))?;
        Ok(Some(Step::Mask { at: masked, data: c"mode=555,size=4k".to_owned() }))
    }
}

/// The layers are named by descriptors: no path is too long, has a comma in it, or leads elsewhere meanwhile.
fn options(user_xattr: bool) -> Result<CString, LaunchError> {
    let (lower, upper, work) = (slot_path(0), slot_path(1), slot_path(2));
    let marks = if user_xattr { "userxattr" } else { "redirect_dir=on,metacopy=off" };
    c_text("the overlay", &format!("lowerdir={lower},upperdir={upper},workdir={work},{marks}"))
}

pub(crate) fn c_text(what: &'static str, text: &str) -> Result<CString, LaunchError> {
    CString::new(text).map_err(|_| LaunchError::Zero { what })
}

pub(crate) fn c_path(path: &Path) -> Result<CString, LaunchError> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| LaunchError::Zero { what: "a path" })
}
