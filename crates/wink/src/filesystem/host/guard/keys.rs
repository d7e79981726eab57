//! The keys of a repository's configuration that a command may change, since none of them can run a program.

use super::config::ConfigEntry;

/// What a value has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Anything,
    /// The address of a repository, or the name of a remote.
    Address,
    /// The subsection begins an address: git puts it before the rest of another.
    AddressInSubsection,
    /// How a submodule is brought up to date, by git itself.
    Update,
    /// Where the files of a submodule are, in the workspace.
    Worktree,
}

/// Section, whether there is a subsection, names, and what they take.
type Row = (&'static str, Sub, &'static [&'static str], Takes);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sub {
    None,
    Some,
    Any,
}

const ROWS: &[Row] = &[
    ("user", Sub::None, &["name", "email", "useconfigonly", "signingkey"], Takes::Anything),
    ("author", Sub::None, &["name", "email"], Takes::Anything),
    ("committer", Sub::None, &["name", "email"], Takes::Anything),
    (
        "core",
        Sub::None,
        &[
            "repositoryformatversion",
            "filemode",
            "bare",
            "logallrefupdates",
            "ignorecase",
            "precomposeunicode",
            "symlinks",
            "autocrlf",
            "eol",
            "safecrlf",
            "whitespace",
            "quotepath",
            "abbrev",
            "compression",
            "loosecompression",
            "bigfilethreshold",
            "checkstat",
            "trustctime",
            "sharedrepository",
            "untrackedcache",
            "preloadindex",
            "commitgraph",
            "multipackindex",
            "commentchar",
            "sparsecheckout",
            "sparsecheckoutcone",
        ],
        Takes::Anything,
    ),
    ("core", Sub::None, &["worktree"], Takes::Worktree),
    (
        "extensions",
        Sub::None,
        &[
            "objectformat",
            "compatobjectformat",
            "refstorage",
            "partialclone",
            "preciousobjects",
            "relativeworktrees",
        ],
        Takes::Anything,
    ),
    ("remote", Sub::Some, &["url", "pushurl"], Takes::Address),
    (
        "remote",
        Sub::Some,
        &[
            "fetch",
            "push",
            "mirror",
            "tagopt",
            "prune",
            "prunetags",
            "skipdefaultupdate",
            "skipfetchall",
            "promisor",
            "partialclonefilter",
            "followremotehead",
        ],
        Takes::Anything,
    ),
    ("remote", Sub::None, &["pushdefault"], Takes::Address),
    ("branch", Sub::Some, &["remote", "pushremote"], Takes::Address),
    ("branch", Sub::Some, &["merge", "rebase", "description"], Takes::Anything),
    ("branch", Sub::None, &["autosetupmerge", "autosetuprebase", "sort"], Takes::Anything),
    ("submodule", Sub::Some, &["url"], Takes::Address),
    (
        "submodule",
        Sub::Some,
        &["active", "branch", "ignore", "fetchrecursesubmodules", "shallow", "path"],
        Takes::Anything,
    ),
    ("submodule", Sub::Some, &["update"], Takes::Update),
    ("submodule", Sub::None, &["active", "recurse", "fetchjobs"], Takes::Anything),
    ("url", Sub::Some, &["insteadof", "pushinsteadof"], Takes::AddressInSubsection),
    ("init", Sub::None, &["defaultbranch"], Takes::Anything),
    ("pull", Sub::None, &["rebase", "ff"], Takes::Anything),
    ("push", Sub::None, &["default", "autosetupremote", "followtags", "recursesubmodules"], Takes::Anything),
    ("fetch", Sub::None, &["prune", "prunetags", "recursesubmodules", "parallel"], Takes::Anything),
    ("merge", Sub::None, &["ff", "conflictstyle", "renames", "renamelimit", "stat", "log"], Takes::Anything),
    ("rebase", Sub::None, &["autostash", "autosquash", "updaterefs"], Takes::Anything),
    ("rerere", Sub::None, &["enabled", "autoupdate"], Takes::Anything),
    ("commit", Sub::None, &["gpgsign", "cleanup", "verbose", "status"], Takes::Anything),
    ("tag", Sub::None, &["gpgsign", "sort"], Takes::Anything),
    (
        "diff",
        Sub::None,
        &["algorithm", "renames", "renamelimit", "mnemonicprefix", "noprefix"],
        Takes::Anything,
    ),
    ("log", Sub::None, &["date", "decorate", "follow", "abbrevcommit"], Takes::Anything),
    ("status", Sub::None, &["short", "branch", "showuntrackedfiles"], Takes::Anything),
    ("checkout", Sub::None, &["defaultremote", "guess", "workers"], Takes::Anything),
    ("worktree", Sub::None, &["guessremote", "userelativepaths"], Takes::Anything),
    ("receive", Sub::None, &["denynonfastforwards", "denydeletes", "denycurrentbranch"], Takes::Anything),
    ("gc", Sub::None, &["auto", "autodetach"], Takes::Anything),
    ("maintenance", Sub::None, &["auto"], Takes::Anything),
    ("http", Sub::None, &["postbuffer", "version"], Takes::Anything),
    ("lfs", Sub::None, &["repositoryformatversion"], Takes::Anything),
    ("color", Sub::Any, &[], Takes::Anything),
    ("advice", Sub::None, &[], Takes::Anything),
];

/// The keys as the documentation lists them: `core.filemode`, `remote.*.url`, `advice.*`.
pub(super) fn listed() -> impl Iterator<Item = String> {
    ROWS.iter().flat_map(|(section, sub, names, _)| {
        let names = if names.is_empty() { &["*"] } else { *names };
        names.iter().map(move |name| match sub {
            Sub::Some => format!("{section}.*.{name}"),
            Sub::None | Sub::Any => format!("{section}.{name}"),
        })
    })
}

/// Whether an entry can run no program, whatever it was before. `is_worktree` decides about `core.worktree`.
pub(super) fn is_harmless(entry: &ConfigEntry, is_worktree: impl Fn(&[u8]) -> bool) -> bool {
    let (section, sub, name) = entry.parts();
    let value = entry.value.as_deref().unwrap_or_default();
    let row = ROWS.iter().find(|(known, subs, names, _)| {
        known.as_bytes() == section
            && (*subs == Sub::Any || (*subs == Sub::Some) == sub.is_some())
            && (names.is_empty() || names.iter().any(|known| known.as_bytes() == name))
    });
    row.is_some_and(|(.., takes)| match takes {
        Takes::Anything => true,
        Takes::Address => is_address(value),
        Takes::AddressInSubsection => protocol(sub.unwrap_or_default()) == Protocol::Own,
        Takes::Update => matches!(value, b"checkout" | b"rebase" | b"merge" | b"none"),
        Takes::Worktree => is_worktree(value),
    })
}

/// How git reaches an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// `https://` and the like: by git itself, whatever follows.
    Own,
    /// By a program that the address names.
    Helper,
    /// A path or `host:path`: by git itself or `ssh`.
    None,
}

/// Whether git reaches this without any program but its own and `ssh`: a path, `host:path`, or one of its own protocols.
fn is_address(text: &[u8]) -> bool {
    protocol(text) != Protocol::Helper && !text.starts_with(b"-")
}

fn protocol(text: &[u8]) -> Protocol {
    const OWN: [&[u8]; 9] =
        [b"https", b"http", b"ssh", b"git", b"file", b"ftp", b"ftps", b"git+ssh", b"ssh+git"];
    let is_in_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    let end = text.iter().position(|byte| !is_in_scheme(byte)).unwrap_or(text.len());
    let (scheme, rest) = text.split_at_checked(end).unwrap_or((text, b""));
    match rest {
        // `helper::address` has the program `git-remote-helper` run.
        [b':', b':', ..] => Protocol::Helper,
        [b':', b'/', b'/', ..] if OWN.iter().any(|known| scheme.eq_ignore_ascii_case(known)) => Protocol::Own,
        [b':', b'/', b'/', ..] => Protocol::Helper,
        _ => Protocol::None,
    }
}
