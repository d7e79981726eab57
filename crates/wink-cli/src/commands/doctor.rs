//! `wink doctor`: what works on this machine and in this workspace, and how to get what does not.

use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use wink::filesystem::host::journal::Journal;
use wink::filesystem::host::{HostDisk, PathGuard};
use wink::filesystem::{STATE, quoted};
use wink::session::SessionId;
use wink::store::{LedgerRow, LedgerState, Rows, Store, StoreLoss};
use wink_agent::{Agent, MissingProgram, OVERRIDES_NAME, Origin};
use wink_store::{Repaired, SqliteStore, StoreOptions, StoreView, Workspace};

use super::ledger::refuse_inside_a_call;
use super::open;
use super::progress::Waiting;
use super::run::record;
use crate::args::Common;
use crate::frame::{self, CliError, Done, Exit, visible};
use crate::term::{BAD, BOLD, DIM, GOOD, ODD, PLAIN, Screen, span};

/// What to do about commits that are lost.
const ACKNOWLEDGE: &str = "find out what happened outside, then type `wink ledger acknowledge-loss`: tools with a key are refused until then";
/// So many sessions are named.
const NAMED: usize = 10;

/// What `doctor --json` prints.
#[derive(Serialize)]
struct Findings {
    version: &'static str,
    checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Serialize)]
pub(super) struct Check {
    name: &'static str,
    status: Status,
    found: String,
    /// How to get it, or what to do.
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    /// It works.
    Ok,
    /// It works without this, less well.
    Missing,
    /// Somebody should look at it.
    Warning,
    /// It does not work.
    Broken,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, found: found.into(), hint: None }
    }

    fn missing(name: &'static str, found: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { name, status: Status::Missing, found: found.into(), hint: Some(hint.into()) }
    }

    fn warning(name: &'static str, found: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { name, status: Status::Warning, found: found.into(), hint: Some(hint.into()) }
    }

    fn broken(name: &'static str, found: impl Into<String>, hint: Option<String>) -> Self {
        Self { name, status: Status::Broken, found: found.into(), hint }
    }
}

pub(super) async fn run(common: &Common, deep: bool, repair: bool) -> Done {
    if deep {
        refuse_inside_a_call("the store is not looked through")?;
    }
    let waiting = Waiting::begin("looking at this machine");
    let mut checks = Vec::new();
    // Of a place that cannot be entered nothing can be said but that.
    if open::must_be_there(common).is_ok() {
        let agent = open::agent(common);
        let guarded = agent.as_ref().ok().map(guarded);
        checks.push(self::agent(common, agent));
        checks.extend(guarded);
    }
    if deep {
        checks.extend(look_through(common, repair).await);
    }
    let (opened, usable) = match deep {
        // Opening a workspace makes it whole, and only a repair changes anything then.
        true => (None, open::may_write(common.root()).is_ok()),
        false => match workspace(common) {
            Ok((check, opened)) => {
                checks.push(check);
                (opened, true)
            }
            Err(check) => {
                checks.push(check);
                (None, false)
            }
        },
    };
    if let Some(workspace) = &opened {
        store(workspace, &mut checks).await;
        checks.extend(recordings(workspace.files().root()));
    }
    #[cfg(target_os = "linux")]
    machine::look(
        match (&opened, usable) {
            (Some(workspace), _) => machine::Place::Open(workspace),
            (None, true) => machine::Place::Fresh(common.root()),
            (None, false) => machine::Place::None,
        },
        &mut checks,
    );
    #[cfg(not(target_os = "linux"))]
    let _ = usable;
    checks.push(python());
    drop(waiting);
    let exit = match checks.iter().any(|check| check.status == Status::Broken) {
        true => Exit::Failure,
        false => Exit::Success,
    };
    let findings = Findings { version: env!("WINK_VERSION"), checks };
    match common.json {
        true => frame::print_json(&findings)?,
        false => findings.show()?,
    };
    Ok(exit)
}

impl Findings {
    fn show(&self) -> Done {
        let mut screen = Screen::fitted();
        screen.spans(&[span("wink ", BOLD), span(self.version, PLAIN)])?;
        for Check { name, status, found, hint } in &self.checks {
            let (mark, style) = match status {
                Status::Ok => ("ok", GOOD),
                Status::Missing => ("no", ODD),
                Status::Warning => ("look", ODD),
                Status::Broken => ("broken", BAD),
            };
            let label = [span(format!("{mark:<8}"), style), span(format!("{name}: "), BOLD)];
            screen.labelled(&label, span(visible(found), PLAIN))?;
            if let Some(hint) = hint {
                screen.labelled(&[span(" ".repeat(8), PLAIN)], span(visible(hint), DIM))?;
            }
        }
        Ok(Exit::Success)
    }
}

/// The paths that tools may not change.
fn guarded(agent: &Agent) -> Check {
    let guard = agent.guard();
    let mut paths: Vec<&str> = guard.rules().flat_map(|rule| rule.paths).copied().collect();
    let own = format!("{OVERRIDES_NAME}/");
    paths.push(&own);
    paths.extend(guard.added());
    let listed = |paths: &[&str]| paths.iter().map(|path| quoted(path)).collect::<Vec<_>>().join(", ");
    let mut found = format!("not for tools to change: {}", listed(&paths));
    let open: Vec<&str> = guard.opened().collect();
    if !open.is_empty() {
        found.push_str(&format!("; but open: {}", listed(&open)));
    }
    found.push_str(&format!("; reported when changed: {}", listed(PathGuard::reported())));
    Check::ok("guarded paths", found)
}

fn agent(common: &Common, agent: Result<Agent, CliError>) -> Check {
    let agent = match agent {
        Ok(agent) => agent,
        Err(error) => {
            let (message, hint) = error.into_parts();
            return Check::broken("agent", message, hint);
        }
    };
    let tools = agent.prompt().placed_tools().count();
    let origin = match agent.origin() {
        Origin::Builtin => "the built-in one; `wink init` writes a file to start from".to_owned(),
        Origin::File(path) => path.display().to_string(),
        Origin::Text(name) => name.clone(),
    };
    let found = format!("{} with {tools} tools ({origin})", agent.name());
    let missing: Vec<String> = agent
        .missing_programs(common.root())
        .into_iter()
        .map(|MissingProgram { tool, program }| format!("{} of `{tool}`", quoted(&program)))
        .collect();
    match missing.is_empty() {
        true => Check::ok("agent", found),
        false => Check::warning(
            "agent",
            format!("{found}; programs that cannot be run: {}", missing.join(", ")),
            "install them, or make them executable; a path is one from the workspace, a name is looked for in PATH",
        ),
    }
}

/// The workspace; it is opened only if it has a state already.
fn workspace(common: &Common) -> Result<(Check, Option<Arc<Workspace>>), Check> {
    let root = common.root();
    let shown = root.display();
    let broken = |error: CliError| {
        let (message, hint) = error.into_parts();
        Check::broken("workspace", message, hint)
    };
    match open::workspace_with_past(common).map_err(broken)? {
        Some(workspace) => {
            Ok((Check::ok("workspace", format!("{shown}, with its state in {STATE}")), Some(workspace)))
        }
        None => match open::may_write(root) {
            Ok(()) => Ok((Check::ok("workspace", format!("{shown}, where nothing has happened yet")), None)),
            Err(refused) => {
                let hint = Some(refused.hint().to_owned());
                Err(Check::broken("workspace", format!("{shown} cannot be written"), hint))
            }
        },
    }
}

/// Every record, effect and page of the store, and whether the journals of the files are known to it. Nothing is changed, unless it is to
/// be repaired.
async fn look_through(common: &Common, repair: bool) -> Vec<Check> {
    let broken = |name, error: &dyn std::fmt::Display| Check::broken(name, error.to_string(), None);
    match open::has_past(common) {
        Ok(true) => {}
        Ok(false) => return vec![Check::ok("workspace", "nothing has happened here yet")],
        Err(error) => {
            let (message, hint) = error.into_parts();
            return vec![Check::broken("workspace", message, hint)];
        }
    }
    let mut checks = Vec::new();
    let state = common.root().join(STATE);
    if repair {
        checks.push(match SqliteStore::repair(&state, &StoreOptions::default()) {
            Ok(None) => Check::ok("repair", "there is nothing to repair"),
            Ok(Some(Repaired { copy, left_out })) => Check::warning(
                "repair",
                format!("done; not whole, and left out or in doubt: {}", left_out.join("; ")),
                format!(
                    "the store as it was is in {}; look into the books of the other side, then type `wink ledger acknowledge-loss`",
                    copy.display()
                ),
            ),
            Err(error) => broken("repair", &error),
        });
    }
    let view = match StoreView::open(&state) {
        Ok(view) => Arc::new(view),
        Err(error) => {
            checks.push(broken("store, looked through", &error));
            return checks;
        }
    };
    checks.push(match view.sessions() {
        Ok(sessions) => sessions_told(&sessions),
        Err(error) => broken("store", &error),
    });
    checks.push(match view.check() {
        Ok(report) if report.is_sound() => Check::ok("store, looked through", "sound"),
        Ok(report) => {
            let hint = "`wink doctor --deep --repair` keeps what is whole, and a copy of .wink/wink.db; a loss that is told is \
                acknowledged by `wink ledger acknowledge-loss`"
                .to_owned();
            Check::broken("store, looked through", report.problems.join("; "), Some(hint))
        }
        Err(error) => broken("store, looked through", &error),
    });
    let journals = HostDisk::open(common.root()).map_err(|error| error.to_string()).and_then(|disk| {
        let journal = Journal::to_look_at(Arc::new(disk), STATE);
        journal.check_store(&*view.verdict()).map_err(|error| error.to_string())
    });
    checks.push(match journals {
        Ok(()) => Check::ok("journals", "the store knows the last change of the files"),
        Err(error) => broken("journals", &error),
    });
    checks.push(match view.rows(Rows::All).await {
        Ok(rows) => {
            let in_doubt = |row: &&LedgerRow| matches!(row.state, LedgerState::InDoubt { .. });
            doubts_told(rows.iter().filter(in_doubt).count())
        }
        Err(error) => broken("ledger", &error),
    });
    checks.extend(recordings(common.root()));
    checks
}

fn sessions_told(sessions: &[SessionId]) -> Check {
    let names: Vec<&str> = sessions.iter().map(|name| name.as_str()).take(NAMED).collect();
    let more = match sessions.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let count =
        if sessions.len() == 1 { "1 session".to_owned() } else { format!("{} sessions", sessions.len()) };
    Check::ok("store", format!("{count}: {}{more}", names.join(", ")))
}

fn doubts_told(count: usize) -> Check {
    match count {
        0 => Check::ok("ledger", "nothing is in doubt"),
        count => Check::warning(
            "ledger",
            match count {
                1 => "1 effect is in doubt".to_owned(),
                count => format!("{count} effects are in doubt"),
            },
            "`wink ledger list --in-doubt` lists them, `wink ledger resolve` settles one",
        ),
    }
}

async fn store(workspace: &Workspace, checks: &mut Vec<Check>) {
    let store = workspace.store();
    match store.sessions().await {
        Ok(sessions) => checks.push(sessions_told(&sessions)),
        Err(error) => checks.push(Check::broken("store", error.to_string(), None)),
    }
    let losses = store.losses().await;
    for StoreLoss { what, .. } in losses.unwrap_or_default() {
        checks.push(Check::broken("store", what, Some(ACKNOWLEDGE.to_owned())));
    }
    for warning in store.warnings() {
        checks.push(Check::warning("store", warning.clone(), "keep the workspace on a local disk"));
    }
    match workspace.in_doubt().await {
        Ok(doubts) => checks.push(doubts_told(doubts.len())),
        Err(error) => checks.push(Check::broken("ledger", error.to_string(), None)),
    }
}

/// What runs left that were killed while they were recorded; nothing is said where there is nothing.
fn recordings(root: &Path) -> Option<Check> {
    match record::left(root) {
        Ok(left) if left.is_empty() => None,
        Ok(left) => {
            let names: Vec<String> = left.iter().map(|path| path.display().to_string()).collect();
            let found = format!("of runs that were killed: {}", names.join(", "));
            Some(Check::warning(
                "recordings",
                found,
                "`wink gc` removes them; they can be replayed as far as they go",
            ))
        }
        Err(error) => Some(Check::broken("recordings", error.to_string(), None)),
    }
}

fn python() -> Check {
    match cfg!(feature = "eval") {
        true => Check::ok("evaluate_python", "built in"),
        false => Check::missing(
            "evaluate_python",
            "not built in",
            "cargo install --path crates/wink-cli --features eval",
        ),
    }
}

/// Whether a program of this name can be started.
#[cfg(target_os = "linux")]
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| Path::new(&dir).join(program).is_file())
}

/// What this machine can do for commands.
#[cfg(target_os = "linux")]
mod machine {
    use std::path::Path;

    use wink::filesystem::host::Capture;
    use wink_sandbox::{
        Capabilities, Limits, NamespaceSandbox, SandboxError, capture_of, is_overlay, probe_overlay_in,
    };
    use wink_store::Workspace;

    use super::{Check, is_installed};

    const NAMESPACES: &str = "run it as the superuser, or allow user namespaces: \
        sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000 \
        (on Ubuntu also kernel.apparmor_restrict_unprivileged_userns=0)";

    const FILE_SYSTEM: &str = "it is the file system of the workspace that takes no overlay, as that of a container's \
        own files does not: put the workspace on another, such as a volume";

    /// Where commands would work.
    pub(super) enum Place<'p> {
        /// A workspace with a past.
        Open(&'p Workspace),
        /// A directory that can be one.
        Fresh(&'p Path),
        /// Nowhere.
        None,
    }

    pub(super) fn look(place: Place<'_>, checks: &mut Vec<Check>) {
        let able = Capabilities::detect();
        checks.push(commands(able, place));
        // Whether it confines; what it can limit is another question, and the built-in agent lifts what it cannot.
        let unlimited = Limits { memory: None, cpu: None, processes: None, ..Limits::default() };
        checks.push(match NamespaceSandbox::new(unlimited) {
            Ok(_) => Check::ok("sandbox", "commands can be confined to the workspace"),
            Err(error) => Check::missing("sandbox", error.to_string(), NAMESPACES),
        });
        checks.push(match able.hides_state() {
            true => Check::ok("state directory", "hidden from every command"),
            false => Check::missing(
                "state directory",
                "not hidden from commands that are in no sandbox",
                NAMESPACES,
            ),
        });
        checks.push(match able.usable_landlock() {
            Some(version) => Check::ok("Landlock", format!("version {version}, a second wall behind the mounts")),
            None => {
                let hint = "use a kernel from 5.19 on with CONFIG_SECURITY_LANDLOCK, and `landlock` in its list of LSMs";
                Check::missing("Landlock", "not to be had", hint)
            }
        });
        let limited = |name, limits: Limits| match NamespaceSandbox::new(limits) {
            Ok(_) => Check::ok(name, "enforced where it is asked for"),
            Err(error) => {
                let found = match error {
                    SandboxError::Unenforceable { reason, .. } => format!("not enforced: {reason}"),
                    error => error.to_string(),
                };
                let hint = "run it as the superuser, or in a delegated cgroup: systemd-run --user --scope -p Delegate=yes; \
                    or have the agent file lift it: `[sandbox]` with `unlimited = [\"unenforceable\"]`";
                Check::missing(name, found, hint)
            }
        };
        checks.push(limited("limit on memory", Limits { memory: Some(256 << 20), ..Limits::default() }));
        checks.push(match is_installed("podman") {
            true => Check::ok("podman", "installed"),
            false => Check::missing(
                "podman",
                "not installed; only agents that ask for it need it",
                "apt-get install podman",
            ),
        });
    }

    /// How what commands do is found out.
    fn commands(able: &Capabilities, place: Place<'_>) -> Check {
        let root = match place {
            Place::Open(workspace) => Some(workspace.files().root()),
            Place::Fresh(root) => Some(root),
            Place::None => None,
        };
        let overlay = match place {
            Place::Open(workspace) => match capture_of(workspace.files()) {
                Ok((Capture::Overlay, _)) => Ok(()),
                Ok((Capture::Scan, finding)) => Err(finding.found),
                Err(error) => Err(error.to_string()),
            },
            _ if able.overlay.is_none() => Err(able.why_no_overlay.clone()),
            // What works elsewhere need not work on its file system.
            Place::Fresh(root) => probe_overlay_in(root).map(drop).map_err(|error| error.to_string()),
            Place::None => Ok(()),
        };
        let by_file_system = able.overlay.is_some() || root.is_some_and(is_overlay);
        match overlay {
            Ok(()) => Check::ok("commands", "undone by an overlay: quick however large the workspace is"),
            Err(reason) => Check::missing(
                "commands",
                format!("undone by a scan of the whole workspace: {reason}"),
                if by_file_system { FILE_SYSTEM } else { NAMESPACES },
            ),
        }
    }
}
