//! The program as a process: what it is started with, and how it and all that it started are ended.

use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use wink::filesystem::host::{CommandMark, CommandProcesses, CommandRecord, ProcessTree};
use wink::limits::Clock;

use super::mcp::SERVER;
use crate::lock;

/// How long the program may take to end by itself when it has nothing to do any more.
const PATIENCE: Duration = Duration::from_secs(2);

/// How much of what it complains of is kept: the end of it.
const COMPLAINTS: usize = 4 * 1024;

/// What the program needs beside what it was configured with: it is to talk to nobody but its model, and to do nothing behind
/// our backs.
const ENVIRONMENT: [(&str, &str); 8] = [
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("DISABLE_TELEMETRY", "1"),
    ("DISABLE_ERROR_REPORTING", "1"),
    // What goes on in the background belongs to no call, and could not be undone.
    ("CLAUDE_CODE_DISABLE_BACKGROUND_TASKS", "1"),
    // In milliseconds: a call may wait for others and for an approver, and is held to our own limits.
    ("MCP_TOOL_TIMEOUT", "604800000"),
    // Otherwise it shows the model a search for tools in place of the tools.
    ("ENABLE_TOOL_SEARCH", "false"),
    // An install must not set `core.hooksPath`, which is guarded.
    ("HUSKY", "0"),
];

/// What the program puts before each command that it runs, if it has this variable.
const SHELL_PREFIX: &str = "CLAUDE_CODE_SHELL_PREFIX";

/// What stands before commands, in the program's home.
const SHIELD: &str = "shield";

/// Writes the program that commands are run by: without the variables of these names.
fn shield<'a>(path: &Path, names: impl Iterator<Item = &'a OsStr>) -> io::Result<()> {
    let mut script = b"#!/bin/sh\nshell=$(command -v bash || command -v sh)\nexec env".to_vec();
    for name in names {
        script.extend_from_slice(b" -u '");
        script.extend(name.as_bytes().split(|byte| *byte == b'\'').collect::<Vec<_>>().join(&b"'\\''"[..]));
        script.push(b'\'');
    }
    script.extend_from_slice(b" \"$shell\" -c \"$1\"\n");
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o700).open(path)?.write_all(&script)
}

/// What the program is started with.
pub(super) struct Start<'a> {
    pub(super) program: &'a Path,
    pub(super) environment: Vec<(&'a OsStr, &'a OsStr)>,
    /// Variables that are for the program alone: the commands that it runs do not have them.
    pub(super) secrets: Vec<(&'a OsStr, &'a OsStr)>,
    /// Where it works; a directory of its own, if nowhere.
    pub(super) workspace: Option<&'a Path>,
    pub(super) model: &'a str,
    pub(super) prompt: &'a str,
    /// The names of its own tools that it may have.
    pub(super) tools: Vec<&'static str>,
    pub(super) output: Option<&'a Value>,
    /// What was said before.
    pub(super) transcript: Option<&'a str>,
    pub(super) max_turns: u32,
    pub(super) max_attempts: u32,
}

/// The program, running. Dropping this ends it and all that it started.
pub(super) struct Program {
    child: Child,
    leash: Arc<Leash>,
    complaints: Arc<Mutex<Vec<u8>>>,
    listening: tokio::task::JoinHandle<()>,
    has_exited: bool,
    /// Removed when the program is gone.
    _home: TempDir,
}

impl Start<'_> {
    /// Starts it.
    pub(super) fn start(self, leash: &Arc<Leash>) -> io::Result<(Program, ChildStdout, ChildStdin)> {
        let home = tempfile::Builder::new()
            .prefix("wink-claude-")
            // What is said is in it.
            .permissions(Permissions::from_mode(0o700))
            .tempdir()?;
        let inside = |name: &str| -> io::Result<PathBuf> {
            let path = home.path().join(name);
            std::fs::create_dir(&path)?;
            Ok(path)
        };
        let (own, tmp, nowhere) = (inside("home")?, inside("tmp")?, inside("nowhere")?);
        let prompt = home.path().join("prompt");
        // In a file, since an argument has a length limit.
        std::fs::write(&prompt, self.prompt)?;
        let transcript = home.path().join("transcript.jsonl");
        if let Some(text) = self.transcript {
            std::fs::write(&transcript, text)?;
        }
        if !self.secrets.is_empty() {
            shield(&home.path().join(SHIELD), self.secrets.iter().map(|(name, _)| *name))?;
        }
        let mark = CommandMark::fresh();
        let mut command = Command::new(self.program);
        command
            .args(self.arguments(&prompt, &transcript))
            .current_dir(self.workspace.unwrap_or(&nowhere))
            .env_clear()
            .env("HOME", own)
            .env("TMPDIR", &tmp)
            .env("CLAUDE_CODE_TMPDIR", &tmp)
            .env("CLAUDE_CODE_MAX_RETRIES", self.max_attempts.saturating_sub(1).to_string())
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .envs(ENVIRONMENT)
            .envs((!self.secrets.is_empty()).then(|| (SHELL_PREFIX, home.path().join(SHIELD))))
            .envs(self.environment)
            .envs(self.secrets)
            .env(CommandMark::VARIABLE, mark.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        leash.take_hold(&child, mark)?;
        let piped = || io::Error::other("the program has no pipes");
        let (stdin, stdout) = (child.stdin.take().ok_or_else(piped)?, child.stdout.take().ok_or_else(piped)?);
        let complaints = Arc::default();
        let listening = tokio::spawn(listen(child.stderr.take(), Arc::clone(&complaints)));
        Ok((
            Program {
                child,
                leash: Arc::clone(leash),
                complaints,
                listening,
                has_exited: false,
                _home: home,
            },
            stdout,
            stdin,
        ))
    }

    fn arguments(&self, prompt: &Path, transcript: &Path) -> Vec<OsString> {
        let servers = json!({ "mcpServers": { SERVER: { "type": "sdk", "name": SERVER } } });
        let mut arguments: Vec<OsString> = vec![
            "--output-format=stream-json".into(),
            "--input-format=stream-json".into(),
            "--verbose".into(),
            "--include-partial-messages".into(),
            "--model".into(),
            self.model.into(),
            "--system-prompt-file".into(),
            prompt.into(),
            "--mcp-config".into(),
            servers.to_string().into(),
            "--strict-mcp-config".into(),
            // Settings of the workspace may be anybody's: hooks in them run commands.
            "--setting-sources=".into(),
            "--permission-mode".into(),
            "default".into(),
            "--max-turns".into(),
            self.max_turns.to_string().into(),
            "--tools".into(),
            self.tools.join(",").into(),
        ];
        if self.transcript.is_some() {
            arguments.extend(["--resume".into(), transcript.into()]);
        }
        if let Some(schema) = self.output {
            arguments.extend(["--json-schema".into(), schema.to_string().into()]);
        }
        arguments
    }
}

impl Program {
    /// Who knows what it complained of.
    pub(super) fn listener(&self) -> Complaints {
        Complaints(Arc::clone(&self.complaints))
    }

    /// Waits until it has exited, and ends what it left. Once only; then this never ends.
    pub(super) async fn exited(&mut self) {
        if self.has_exited {
            return std::future::pending().await;
        }
        // Who cannot be waited for is waited for once more at the end.
        let _ = self.child.wait().await;
        self.has_exited = true;
        self.leash.is_gone();
        if let Err(error) = self.end_others().await {
            tracing::warn!(%error, "processes of Claude Code may be left");
        }
    }

    async fn end_others(&self) -> io::Result<()> {
        let leash = Arc::clone(&self.leash);
        tokio::task::spawn_blocking(move || leash.end_others()).await.map_err(io::Error::other)?
    }

    /// Ends it and all that it started: when it has ended by itself, or has had some time for that, or at once.
    pub(super) async fn end(mut self, clock: &dyn Clock, at_once: bool) -> io::Result<ExitStatus> {
        if !at_once {
            let until = clock.monotonic().saturating_add(PATIENCE);
            tokio::select! {
                biased;
                _ = self.child.wait() => self.leash.is_gone(),
                () = clock.sleep_until(until) => {}
            }
        }
        self.leash.kill();
        let status = self.child.wait().await?;
        self.leash.is_gone();
        self.end_others().await?;
        Ok(status)
    }
}

/// What the program complained of.
pub(super) struct Complaints(Arc<Mutex<Vec<u8>>>);

impl Complaints {
    /// The end of it.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&lock(&self.0)).trim().to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.listening.abort();
        // Nothing to do, if it was ended.
        if !self.leash.was_gone() {
            self.leash.kill();
            if let Err(error) = self.leash.end_others() {
                tracing::warn!(%error, "processes of Claude Code may be left");
            }
        }
    }
}

/// Keeps the end of what the program complains of.
async fn listen(stderr: Option<ChildStderr>, complaints: Arc<Mutex<Vec<u8>>>) {
    let Some(mut stderr) = stderr else { return };
    let mut piece = vec![0; COMPLAINTS];
    while let Some(piece) = next(&mut stderr, &mut piece).await {
        let mut kept = lock(&complaints);
        kept.extend_from_slice(piece);
        let too_many = kept.len().saturating_sub(COMPLAINTS);
        kept.drain(..too_many);
    }
}

async fn next<'a>(from: &mut (impl AsyncRead + Unpin), piece: &'a mut [u8]) -> Option<&'a [u8]> {
    let read = from.read(piece).await.ok()?;
    piece.get(..read).filter(|piece| !piece.is_empty())
}

/// Holds a running program, so that whoever has to can end it. One that holds nothing yet does nothing.
#[derive(Default)]
pub(super) struct Leash(OnceLock<Held>);

struct Held {
    group: Pid,
    processes: CommandProcesses,
    /// Its number may be somebody else's by now.
    is_gone: AtomicBool,
}

impl Leash {
    fn take_hold(&self, child: &Child, mark: CommandMark) -> io::Result<()> {
        let gone = || io::Error::other("it ended at once");
        let id = child.id().ok_or_else(gone)?;
        let group = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let processes = CommandProcesses::new(id, ProcessTree::Reaper(mark))?;
        // There is one program for each.
        let _ = self.0.set(Held { group, processes, is_gone: AtomicBool::new(false) });
        Ok(())
    }

    /// Writes down in a workspace that the program is at work there.
    pub(super) fn note(&self, record: &CommandRecord) -> io::Result<()> {
        self.0.get().map_or(Ok(()), |held| record.note(&held.processes))
    }

    /// Kills the program, and what it started in its own group.
    pub(super) fn kill(&self) {
        if let Some(held) = self.0.get()
            && !held.is_gone.load(Ordering::SeqCst)
        {
            // It is gone already, if this fails.
            let _ = kill_process_group(held.group, Signal::KILL);
        }
    }

    /// Ends what the program, which was killed, had started, and waits until all of it is gone.
    fn end_others(&self) -> io::Result<()> {
        self.0.get().map_or(Ok(()), |held| held.processes.end_others())
    }

    fn is_gone(&self) {
        if let Some(held) = self.0.get() {
            held.is_gone.store(true, Ordering::SeqCst);
        }
    }

    fn was_gone(&self) -> bool {
        self.0.get().is_none_or(|held| held.is_gone.load(Ordering::SeqCst))
    }
}
