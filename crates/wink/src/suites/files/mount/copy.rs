//! Reading what is to be mounted: below an open root, never through a link.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{HostMount, MountError, MountReport, Mounted, SkipReason, Skipped, shown};
use crate::filesystem::STATE;
use crate::filesystem::host::HostDisk;
use crate::filesystem::host::disk::Disk;
use crate::filesystem::{EntryKind, FsError, FsLimits, FsPath, GlobPattern, MemoryFilesystem};
use crate::suites::files::VfsConfig;

/// Entries of one mount that are looked at.
const MAX_ENTRIES: usize = 100_000;

/// Copies everything that the config names.
pub(super) fn all(config: &VfsConfig) -> Result<Mounted, MountError> {
    // A root is allowed by being named. Nothing is opened that nobody mounts from.
    let allowed = config.allowed_roots.iter().filter(|_| !config.mounts.is_empty());
    let wanted = config.root.iter().chain(allowed);
    let roots = wanted.map(|root| Root::open(root)).collect::<Result<Vec<_>, _>>()?;
    let mut placed = Placed::default();
    let mut mounts = Vec::new();
    if let (Some(path), Some(root)) = (&config.root, roots.first()) {
        let whole = HostMount::new(path);
        mounts.push(Copying::new(&whole, config.limits)?.run(root, Path::new(""), &mut placed)?);
    }
    for mount in &config.mounts {
        let copying = Copying::new(mount, config.limits)?;
        let (root, below) = find(&mount.host, &roots)?;
        mounts.push(copying.run(root, &below, &mut placed)?);
    }
    let files = MemoryFilesystem::new().with_limits(config.limits).with_files(placed.files);
    let files = files.map_err(|reason| MountError::Place { host: "of the workspace".to_owned(), reason })?;
    Ok(Mounted { files, mounts })
}

/// Files by their place in the workspace, and the directories that they are in.
#[derive(Default)]
struct Placed {
    files: BTreeMap<FsPath, Vec<u8>>,
    directories: BTreeSet<FsPath>,
}

impl Placed {
    /// Nothing is put in the place of something else, nor below a file.
    fn put(&mut self, path: FsPath, content: Vec<u8>) -> Result<(), FsError> {
        if self.files.contains_key(&path) || self.directories.contains(&path) {
            return Err(FsError::Exists { path });
        }
        let mut above = path.parent();
        while let Some(directory) = above.filter(|directory| !self.directories.contains(directory)) {
            if self.files.contains_key(&directory) {
                return Err(FsError::NotDirectory { path: directory });
            }
            above = directory.parent();
            self.directories.insert(directory);
        }
        self.files.insert(path, content);
        Ok(())
    }
}

/// A directory below which things may be mounted.
struct Root {
    path: PathBuf,
    disk: HostDisk,
}

impl Root {
    fn open(root: &Path) -> Result<Self, MountError> {
        let opened = root.canonicalize().and_then(|path| Ok((HostDisk::open(&path)?, path)));
        let (disk, path) =
            opened.map_err(|error| MountError::Root { root: shown(root), reason: error.to_string() })?;
        Ok(Self { path, disk })
    }
}

/// The root that `host` is below, and where below it.
fn find<'a>(host: &Path, roots: &'a [Root]) -> Result<(&'a Root, PathBuf), MountError> {
    let [first, ..] = roots else { return Err(MountError::NoRoots { host: shown(host) }) };
    let missing = |error: io::Error| MountError::Missing { host: shown(host), reason: error.to_string() };
    let found = if host.is_absolute() {
        host.canonicalize()
    } else {
        // Joining the first tells why, if it is in none of them.
        let there = roots.iter().find_map(|root| root.path.join(host).canonicalize().ok());
        there.map_or_else(|| first.path.join(host).canonicalize(), Ok)
    };
    let found = found.map_err(missing)?;
    let below = |root: &'a Root| Some((root, found.strip_prefix(&root.path).ok()?.to_owned()));
    roots.iter().find_map(below).ok_or_else(|| MountError::Outside {
        host: shown(host),
        roots: Vec::from_iter(roots.iter().map(|root| shown(&root.path))).join(", "),
    })
}

/// One mount on its way.
struct Copying<'a> {
    mount: &'a HostMount,
    limits: FsLimits,
    at: FsPath,
    include: Vec<GlobPattern>,
    exclude: Vec<GlobPattern>,
    entries: usize,
    top: BTreeSet<String>,
    report: MountReport,
}

impl<'a> Copying<'a> {
    fn new(mount: &'a HostMount, limits: FsLimits) -> Result<Self, MountError> {
        let place = |reason: FsError| MountError::Place { host: shown(&mount.host), reason };
        let at = FsPath::parse(&mount.at, &limits).map_err(place)?;
        let include = mount.include.iter().map(|glob| GlobPattern::new(glob)).collect::<Result<_, _>>();
        // `target/**` leaves out all that is in `target`, so there is no need to look there.
        let directories = mount.exclude.iter().filter_map(|glob| glob.strip_suffix("/**"));
        let exclude =
            mount.exclude.iter().map(String::as_str).chain(directories.filter(|glob| !glob.is_empty()));
        let exclude = exclude.map(GlobPattern::new).collect::<Result<_, _>>();
        Ok(Self {
            mount,
            limits,
            include: include.map_err(place)?,
            exclude: exclude.map_err(place)?,
            entries: 0,
            top: BTreeSet::new(),
            report: MountReport {
                host: PathBuf::new(),
                at: at.clone(),
                files: 0,
                bytes: 0,
                top: Vec::new(),
                skipped: Vec::new(),
                more_skipped: 0,
            },
            at,
        })
    }

    fn run(mut self, root: &Root, below: &Path, placed: &mut Placed) -> Result<MountReport, MountError> {
        self.report.host = root.path.join(below);
        match root.disk.look(below).map_err(|error| self.unreadable("", &error))?.map(|entry| entry.kind) {
            Some(EntryKind::Directory) => self.directory(&root.disk, below, placed)?,
            Some(EntryKind::File) => self.single(&root.disk, below, placed)?,
            // It was resolved a moment ago: a link that is there now was put there since.
            Some(EntryKind::Symlink | EntryKind::Other) => {
                return Err(MountError::NotFiles { host: self.host() });
            }
            None => {
                let reason = "it went away".to_owned();
                return Err(MountError::Missing { host: self.host(), reason });
            }
        }
        self.report.top = self.top.into_iter().collect();
        Ok(self.report)
    }

    /// A file takes the place itself; without a place it keeps its name.
    fn single(&mut self, disk: &HostDisk, below: &Path, placed: &mut Placed) -> Result<(), MountError> {
        let Some(name) = below.file_name().and_then(|name| name.to_str()) else {
            self.skip(below.to_string_lossy().into_owned(), SkipReason::NotUtf8);
            return Ok(());
        };
        if !self.wants(name) {
            return Ok(());
        }
        let to = if self.at.is_root() { self.at.join(name, &self.limits) } else { Ok(self.at.clone()) };
        match to {
            Ok(to) => self.file(disk, below, name, to, placed),
            Err(reason) => Err(MountError::Place { host: self.host(), reason }),
        }
    }

    fn directory(&mut self, disk: &HostDisk, base: &Path, placed: &mut Placed) -> Result<(), MountError> {
        let mut waiting = vec![String::new()];
        while let Some(dir) = waiting.pop() {
            let mut listed = match disk.read_dir(&base.join(&dir)) {
                Ok(listed) => listed,
                // Gone meanwhile, or something else now.
                Err(error) if is_gone(&error) => continue,
                Err(error) if is_link(&error) => {
                    self.skip(dir, SkipReason::Link);
                    continue;
                }
                Err(error) => return Err(self.unreadable(&dir, &error)),
            };
            self.entries += listed.len();
            if self.entries > MAX_ENTRIES {
                return Err(MountError::TooMany { host: self.host(), max: MAX_ENTRIES });
            }
            listed.sort();
            for (name, kind) in listed {
                let Some(name) = name.to_str() else {
                    self.skip(joined(&dir, &name.to_string_lossy()), SkipReason::NotUtf8);
                    continue;
                };
                let path = joined(&dir, name);
                if name == STATE || self.excludes(&path) {
                    continue;
                }
                match kind {
                    EntryKind::Directory if self.at.join(&path, &self.limits).is_ok() => waiting.push(path),
                    EntryKind::File if !self.includes(&path) => {}
                    EntryKind::Directory | EntryKind::File => match self.at.join(&path, &self.limits) {
                        Ok(to) => self.file(disk, &base.join(&path), &path, to, placed)?,
                        Err(error) => self.skip(path, SkipReason::Path(error)),
                    },
                    EntryKind::Symlink => self.skip(path, SkipReason::Link),
                    EntryKind::Other => self.skip(path, SkipReason::Special),
                }
            }
        }
        Ok(())
    }

    /// Reads one file: `path` below the mount, which is at `from` on the disk and goes to `to`.
    fn file(
        &mut self,
        disk: &HostDisk,
        from: &Path,
        path: &str,
        to: FsPath,
        placed: &mut Placed,
    ) -> Result<(), MountError> {
        let left = self.mount.max_bytes.saturating_sub(self.report.bytes);
        let content = match disk.open_file(from).and_then(|file| within(file, left)) {
            Ok(Some(content)) => content,
            Ok(None) => {
                let max_bytes = self.mount.max_bytes;
                return Err(MountError::TooLarge { host: self.host(), path: path.to_owned(), max_bytes });
            }
            Err(error) if is_gone(&error) => return Ok(()),
            Err(error) if is_link(&error) => {
                self.skip(path.to_owned(), SkipReason::Link);
                return Ok(());
            }
            // What was listed as a file is something else now.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                self.skip(path.to_owned(), SkipReason::Special);
                return Ok(());
            }
            Err(error) => return Err(self.unreadable(path, &error)),
        };
        let place = |reason: FsError| MountError::Place { host: shown(&self.mount.host), reason };
        let (bytes, max) = (content.len(), self.limits.max_write_bytes);
        if bytes > max {
            return Err(place(FsError::TooLarge { path: to, bytes, max }));
        }
        placed.put(to, content).map_err(place)?;
        self.report.files += 1;
        self.report.bytes += bytes as u64;
        self.top.insert(match path.split_once('/') {
            Some((first, _)) => format!("{first}/"),
            None => path.to_owned(),
        });
        Ok(())
    }

    fn includes(&self, path: &str) -> bool {
        self.include.is_empty() || self.include.iter().any(|glob| glob.matches(path))
    }

    fn excludes(&self, path: &str) -> bool {
        self.exclude.iter().any(|glob| glob.matches(path))
    }

    fn wants(&self, path: &str) -> bool {
        self.includes(path) && !self.excludes(path)
    }

    fn skip(&mut self, path: String, why: SkipReason) {
        if self.report.skipped.len() < MountReport::MAX_SKIPPED {
            self.report.skipped.push(Skipped { path, why });
        } else {
            self.report.more_skipped += 1;
        }
    }

    fn host(&self) -> String {
        shown(&self.mount.host)
    }

    fn unreadable(&self, path: &str, error: &io::Error) -> MountError {
        MountError::Unreadable { host: self.host(), path: shown(Path::new(path)), reason: error.to_string() }
    }
}

/// All of a file if it has at most `max` bytes, however it grows meanwhile.
fn within(file: File, max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut content = Vec::new();
    file.take(max.saturating_add(1)).read_to_end(&mut content)?;
    Ok((content.len() as u64 <= max).then_some(content))
}

fn joined(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_owned() } else { format!("{dir}/{name}") }
}

/// Whether what was listed is no longer there: gone, another kind of thing, or (`EXDEV`) moved out of the root with a
/// directory above it while the kernel was on its way.
fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{CrossesDevices, IsADirectory, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | IsADirectory | CrossesDevices)
}

fn is_link(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
}
