//! Cgroups, of either version: what bounds the memory, the processors and the number of processes of a whole tree.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::launch::aside;
use crate::limits::Limits;
use crate::owned;

/// What a cgroup can bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Controller {
    /// Memory, with what is in temporary filesystems.
    Memory,
    /// Processor time.
    Cpu,
    /// The number of processes and threads.
    Pids,
}

impl Controller {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::Cpu, Self::Pids];

    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
        }
    }

    /// The file that a cgroup has if the controller works there.
    fn file(self, version: Version) -> &'static str {
        match (self, version) {
            (Self::Memory, Version::One) => "memory.limit_in_bytes",
            (Self::Memory, Version::Two) => "memory.max",
            (Self::Cpu, Version::One) => "cpu.cfs_quota_us",
            (Self::Cpu, Version::Two) => "cpu.max",
            (Self::Pids, _) => "pids.max",
        }
    }
}

/// The two forms of cgroups. Both can be there, with different controllers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// A hierarchy per controller.
    One,
    /// One hierarchy.
    Two,
}

/// Where cgroups can be made, controller by controller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cgroups {
    parents: BTreeMap<Controller, (Version, PathBuf)>,
    pub(crate) refusals: BTreeMap<Controller, String>,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Cgroups {
    /// Looks by making one in every place that there is.
    pub(crate) fn find() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let (mounts, own) = (read("/proc/self/mountinfo"), read("/proc/self/cgroup"));
        let mut found = Self::default();
        for controller in Controller::ALL {
            let mut reason = "no cgroup filesystem with this controller is mounted".to_owned();
            for (version, parent) in places(&mounts, &own, controller) {
                clean(&parent);
                match try_in(&parent, controller, version) {
                    Ok(()) => {
                        found.parents.insert(controller, (version, parent));
                        break;
                    }
                    Err(error) => reason = format!("{}: {error}", parent.display()),
                }
            }
            if !found.parents.contains_key(&controller) {
                found.refusals.insert(controller, reason);
            }
        }
        found
    }

    pub(crate) fn version(&self, controller: Controller) -> Option<Version> {
        self.parents.get(&controller).map(|(version, _)| *version)
    }

    pub(crate) fn place(&self, controller: Controller) -> Option<&Path> {
        self.parents.get(&controller).map(|(_, path)| path.as_path())
    }

    /// A cgroup with these limits, and only for those that are asked for.
    pub(crate) fn make(&self, limits: &Limits) -> io::Result<Cgroup> {
        let mut cgroup = Cgroup { dirs: BTreeMap::new() };
        for controller in Controller::ALL {
            let values = values(controller, limits);
            let Some((version, parent)) = self.parents.get(&controller) else { continue };
            let Some(values) = values else { continue };
            let dir = match cgroup.dirs.keys().find(|dir| dir.parent() == Some(parent)) {
                Some(dir) => dir.clone(),
                None => {
                    let dir = make_in(parent)?;
                    cgroup.dirs.insert(dir.clone(), *version);
                    dir
                }
            };
            for (file, value, needed) in values(*version) {
                match fs::write(dir.join(file), &value) {
                    Err(error) if needed => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(cgroup)
    }
}

type Values = Vec<(&'static str, String, bool)>;

/// What is written for a limit: file, value, and whether it has to be there.
fn values(controller: Controller, limits: &Limits) -> Option<Box<dyn Fn(Version) -> Values>> {
    match controller {
        Controller::Memory => {
            let bytes = limits.memory?.to_string();
            Some(Box::new(move |version| match version {
                Version::One => vec![
                    ("memory.limit_in_bytes", bytes.clone(), true),
                    ("memory.memsw.limit_in_bytes", bytes.clone(), false),
                ],
                Version::Two => {
                    vec![("memory.max", bytes.clone(), true), ("memory.swap.max", "0".to_owned(), false)]
                }
            }))
        }
        Controller::Cpu => {
            const PERIOD: u64 = 100_000;
            let quota = (limits.cpu? * PERIOD as f64) as u64;
            Some(Box::new(move |version| match version {
                Version::One => vec![
                    ("cpu.cfs_period_us", PERIOD.to_string(), true),
                    ("cpu.cfs_quota_us", quota.to_string(), true),
                ],
                Version::Two => vec![("cpu.max", format!("{quota} {PERIOD}"), true)],
            }))
        }
        Controller::Pids => {
            let most = limits.processes?.to_string();
            Some(Box::new(move |_| vec![("pids.max", most.clone(), true)]))
        }
    }
}

/// Where cgroups with a controller may be made: below the own one; in version two, which allows no processes beside
/// cgroups, also beside it.
fn places(mounts: &str, own: &str, controller: Controller) -> Vec<(Version, PathBuf)> {
    let mut places = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let version = if controllers.is_empty() { Version::Two } else { Version::One };
        if version == Version::One && !controllers.split(',').any(|name| name == controller.name()) {
            continue;
        }
        let Some((root, mount)) = mount_of(mounts, controllers, version) else { continue };
        // A mount may show a part of the hierarchy only.
        let below = Path::new(path).strip_prefix(&root).unwrap_or(Path::new(""));
        let place = mount.join(below);
        let beside = place.parent().filter(|_| version == Version::Two && place != mount).map(Path::to_owned);
        places.push((version, place));
        places.extend(beside.map(|place| (version, place)));
    }
    places
}

/// The root and the place of the mount that has these controllers.
fn mount_of(mounts: &str, controllers: &str, version: Version) -> Option<(PathBuf, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, mount) = (place.next()?, place.next()?);
        let mut kind = kind.split(' ');
        let (name, options) = (kind.next()?, kind.nth(1)?);
        let fits = match version {
            Version::Two => name == "cgroup2",
            Version::One => {
                name == "cgroup"
                    && controllers.split(',').all(|wanted| options.split(',').any(|option| option == wanted))
            }
        };
        fits.then(|| (PathBuf::from(root), PathBuf::from(mount)))
    })
}

fn make_in(parent: &Path) -> io::Result<PathBuf> {
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = parent.join(owned::name(number));
        match fs::create_dir(&dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok(dir),
        }
    }
}

fn try_in(parent: &Path, controller: Controller, version: Version) -> io::Result<()> {
    if version == Version::Two {
        // It may be on already, or not ours to switch: what counts is whether it is there afterwards.
        let _ = fs::write(parent.join("cgroup.subtree_control"), format!("+{}", controller.name()));
    }
    let dir = make_in(parent)?;
    let there = dir.join(controller.file(version)).exists();
    fs::remove_dir(&dir)?;
    if there { Ok(()) } else { Err(io::Error::other(format!("no controller {}", controller.name()))) }
}

/// Removes what programs left that died.
fn clean(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(owned::is_orphaned) {
            // Refused while there is a process in it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// A cgroup of one command. Removed when it is dropped, which has to be after the last process of it is gone.
#[derive(Debug)]
pub(crate) struct Cgroup {
    dirs: BTreeMap<PathBuf, Version>,
}

impl Cgroup {
    /// What a process writes to in order to get in.
    pub(crate) fn doors(&self) -> io::Result<Vec<OwnedFd>> {
        self.dirs
            .keys()
            .map(|dir| {
                let file = fs::OpenOptions::new().write(true).open(dir.join("cgroup.procs"))?;
                Ok(aside(file.into())?)
            })
            .collect()
    }

    /// Whether something in it was killed for want of memory.
    pub(crate) fn memory_exhausted(&self) -> bool {
        self.dirs.iter().any(|(dir, version)| {
            let file = match version {
                Version::One => "memory.oom_control",
                Version::Two => "memory.events",
            };
            let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
            let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
            kills.is_some_and(|kills| kills.trim() != "0")
        })
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        for dir in self.dirs.keys() {
            // The last process is reaped, but the kernel may still be letting go of it.
            let removed = (0..200).any(|_| {
                let removed = fs::remove_dir(dir).is_ok();
                if !removed {
                    std::thread::yield_now();
                }
                removed
            });
            if !removed {
                tracing::warn!(cgroup = %dir.display(), "could not be removed; the next program that looks will try");
            }
        }
    }
}

#[cfg(test)]
mod tests;
