//! The matrix: on whose behalf calls are made, how commands are captured, and on what filesystem the workspace is.

use std::fmt;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::calls::OTHER_GROUP;
use crate::model::Caller;

/// The ordinary user that children become, and its own group.
const ORDINARY: u32 = 61234;
/// Where there is memory with the form of a disk.
const SHARED_MEMORY: &str = "/dev/shm";

/// A user whose calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Person {
    /// The superuser, who started the kit.
    Root,
    /// An ordinary user, who started the kit.
    Starter,
    /// An ordinary user that the superuser's children become.
    Ordinary,
}

/// One kind of workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) person: Person,
    /// Whether commands work in the workspace itself, though an overlay might be possible.
    pub(crate) scan: bool,
    /// Where such workspaces are made.
    pub(crate) dir: PathBuf,
    /// The name of the filesystem.
    filesystem: &'static str,
}

impl Person {
    /// A program that runs on behalf of this person.
    pub(crate) fn command(self, program: &Path) -> Command {
        match self {
            Self::Root | Self::Starter => Command::new(program),
            Self::Ordinary => {
                let mut command = Command::new("setpriv");
                command
                    .args([format!("--reuid={ORDINARY}"), format!("--regid={ORDINARY}")])
                    .args([format!("--groups={ORDINARY},{OTHER_GROUP}"), "--inh-caps=-all".to_owned()])
                    .arg("--")
                    .arg(program)
                    .env_clear()
                    .env("HOME", "/tmp");
                // The shell of commands finds its programs there.
                command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
                command
            }
        }
    }

    /// What the model has to know of them.
    pub(crate) fn caller(self) -> Caller {
        let group = match self {
            Self::Root | Self::Starter => rustix::process::getegid().as_raw(),
            Self::Ordinary => ORDINARY,
        };
        Caller { group, is_root: self == Self::Root }
    }

    /// Gives this person what the starter of the kit has made, with all that is in it.
    pub(crate) fn give(self, path: &Path) -> io::Result<()> {
        if self != Self::Ordinary {
            return Ok(());
        }
        std::os::unix::fs::lchown(path, Some(ORDINARY), Some(ORDINARY))?;
        if path.symlink_metadata()?.is_dir() {
            for entry in std::fs::read_dir(path)? {
                self.give(&entry?.path())?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Root => "root",
            Self::Starter | Self::Ordinary => "user",
        })
    }
}

impl Cell {
    /// The name of a cell in which commands are captured so.
    pub(crate) fn name(&self, capture: &str) -> String {
        format!("{}/{capture}/{}", self.person, self.filesystem)
    }

    /// The capture that is wanted.
    pub(crate) fn wanted(&self) -> &'static str {
        if self.scan { "scan" } else { "overlay" }
    }
}

/// Every cell there is on this machine, and the directories that were made for them: `disk`, and one in memory.
pub(crate) fn all(disk: &Path) -> io::Result<(Vec<Cell>, Vec<PathBuf>)> {
    let memory = Path::new(SHARED_MEMORY).join(format!("wink-crash-{}", std::process::id()));
    let mut dirs = vec![disk.to_owned()];
    if filesystem(Path::new(SHARED_MEMORY)).is_ok_and(|name| name == "tmpfs") {
        dirs.push(memory);
    }
    let people = match rustix::process::geteuid().is_root() {
        true => [Person::Root, Person::Ordinary].as_slice(),
        false => &[Person::Starter],
    };
    let mut cells = Vec::new();
    for scan in [false, true] {
        for dir in &dirs {
            for person in people {
                let own = dir.join(person.to_string());
                std::fs::create_dir_all(&own)?;
                person.give(&own)?;
                // A process that works below has to get there.
                std::fs::set_permissions(dir, Permissions::from_mode(0o755))?;
                let filesystem = filesystem(&own)?;
                cells.push(Cell { person: *person, scan, dir: own, filesystem });
            }
        }
    }
    Ok((cells, dirs))
}

/// The kit's program in a directory that every user may get to, unlike the one that it was built in.
pub(crate) fn program_in(dir: &Path) -> io::Result<PathBuf> {
    let (built, program) = (std::env::current_exe()?, dir.join(format!("wink-crash-{}", std::process::id())));
    match std::fs::hard_link(&built, &program) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            std::fs::copy(&built, &program)?;
        }
        linked => linked?,
    }
    Ok(program)
}

/// What a directory is on.
fn filesystem(path: &Path) -> io::Result<&'static str> {
    Ok(match rustix::fs::statfs(path)?.f_type {
        0xef53 => "ext4",
        0x0102_1994 => "tmpfs",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x794c_7630 => "overlayfs",
        _ => "another",
    })
}

/// Removes a directory with all that is in it, whatever the modes are.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        std::fs::set_permissions(path, Permissions::from_mode(0o700))?;
        for entry in std::fs::read_dir(path)? {
            remove(&entry?.path())?;
        }
        return std::fs::remove_dir(path);
    }
    std::fs::remove_file(path)
}
