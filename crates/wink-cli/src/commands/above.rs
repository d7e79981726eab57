//! Whether a directory is inside of a workspace. As git does it would be to go up and work there; but that may be the home
//! directory of somebody who tried Wink in it once. So nothing is done there unless it is named.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use wink::filesystem::STATE;
use wink_agent::FILE_NAME;

use crate::args::Common;

/// The workspace around the current directory, if nobody named a directory and this is not a workspace itself.
///
/// Looks no further than to where somebody else may have put something: a directory of another owner, one that everybody
/// may write to, or another filesystem.
pub(super) fn surrounding(common: &Common) -> Option<PathBuf> {
    if common.workspace.is_some() || MARKS.iter().any(|mark| Path::new(mark).symlink_metadata().is_ok()) {
        return None;
    }
    let here = Path::new(".").canonicalize().ok()?;
    let (user, device) = (rustix::process::geteuid().as_raw(), here.metadata().ok()?.dev());
    let is_ours = |path: &Path| path.symlink_metadata().is_ok_and(|about| about.uid() == user);
    let may_tell = |dir: &&Path| {
        let about = dir.metadata();
        about.is_ok_and(|about| about.uid() == user && about.dev() == device && about.mode() & 0o002 == 0)
    };
    let mut around = here.ancestors().skip(1).take_while(may_tell);
    around.find(|dir| MARKS.iter().any(|mark| is_ours(&dir.join(mark)))).map(Path::to_owned)
}

/// What a workspace has, or one of them.
const MARKS: [&str; 2] = [STATE, FILE_NAME];
