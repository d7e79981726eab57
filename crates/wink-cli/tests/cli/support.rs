//! A workspace, and the program in it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use regex::Regex;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::Value;
use tempfile::TempDir;

/// What the program said, and how it ended.
#[derive(Debug, PartialEq)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    /// What it printed, after it ended well.
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{}", self.out);
        self.out
    }

    /// Everything, for a snapshot.
    pub(crate) fn whole(&self) -> String {
        let code = self.code.map_or_else(|| "a signal".to_owned(), |code| code.to_string());
        steady(&format!("exit code: {code}\n--- stdout\n{}--- stderr\n{}", self.out, self.err))
    }
}

/// A directory to work in. It is the current one of the program, as it is for a person.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("wink-cli-").tempdir().unwrap();
        fs::create_dir(dir.path().join("work")).unwrap();
        Self { dir }
    }

    /// With this agent file.
    pub(crate) fn with_agent(text: &str) -> Self {
        let place = Self::new();
        place.put("wink.toml", text);
        place
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Puts something else where the database is; the log beside it would bring its pages back.
    pub(crate) fn damage_store(&self) {
        let state = self.root().join(".wink");
        std::fs::write(state.join("wink.db"), "no database at all".repeat(1000)).unwrap();
        for log in ["wink.db-wal", "wink.db-shm"] {
            std::fs::remove_file(state.join(log)).unwrap();
        }
    }

    /// Where something outside the workspace can be.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn put(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Puts a script that can be run.
    pub(crate) fn put_script(&self, path: &str, text: &str) {
        self.put(path, &format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(self.root().join(path), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A pipe with a name, outside the workspace.
    pub(crate) fn pipe(&self, name: &str) -> PathBuf {
        let path = self.outside(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    pub(crate) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root().join(path)).ok()
    }

    /// The names of what is in the workspace, without its state.
    pub(crate) fn names(&self) -> Vec<String> {
        let names = fs::read_dir(self.root()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| name != ".wink");
        names.sort();
        names
    }

    /// The program, to be started here, in an environment that says nothing about colours.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.program(env!("CARGO_BIN_EXE_wink"));
        command.args(arguments);
        command
    }

    /// Another program, in the same way.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.current_dir(self.root()).env("TERM", "xterm-256color").env("USER", "somebody");
        for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI", "COLUMNS", "WINK_LOG"] {
            command.env_remove(name);
        }
        command
    }

    /// Runs it in pipes.
    pub(crate) fn wink(&self, arguments: &[&str]) -> Said {
        said(self.command(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// The same, with something on its standard input.
    pub(crate) fn wink_with(&self, arguments: &[&str], input: &str) -> Said {
        fed(self.command(arguments), input)
    }

    /// What it prints as JSON, whatever its exit code.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let said = self.wink(&[arguments, &["--json"]].concat());
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"))
    }

    /// What it prints as lines of JSON.
    pub(crate) fn rows(&self, arguments: &[&str]) -> Vec<Value> {
        let out = self.wink(&[arguments, &["--json"]].concat()).ok();
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// A call that goes well.
    pub(crate) fn call(&self, tool: &str, arguments: &str) -> String {
        self.wink(&["call", tool, arguments]).ok()
    }

    /// Writes a file by way of a call.
    pub(crate) fn write(&self, path: &str, content: &str) {
        self.call("write_file", &serde_json::json!({ "path": path, "content": content }).to_string());
    }
}

/// The text of an agent with one tool, a script of the same name in the workspace. More of the tool's table can follow.
pub(crate) fn one_command(name: &str) -> String {
    format!(
        "[agent]\nns = \"t\"\nkey = \"t\"\n\n[[section]]\nkey = \"s\"\ntitle = \"S\"\n\n[[section.tool]]\nname = \"{name}\"\ndescription = \"Run it.\"\ncommand = [\"./{name}\"]\n"
    )
}

/// Runs a program in pipes, with something on its standard input.
pub(crate) fn fed(mut command: Command, input: &str) -> Said {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    said(child.wait_with_output().unwrap())
}

pub(crate) fn said(Output { status, stdout, stderr }: Output) -> Said {
    Said {
        code: status.code(),
        out: String::from_utf8(stdout).unwrap(),
        err: String::from_utf8(stderr).unwrap(),
    }
}

/// The program on a terminal.
pub(crate) struct Terminal {
    child: Child,
    master: File,
    seen: String,
}

impl Terminal {
    pub(crate) fn start(mut command: Command, columns: u16) -> Self {
        let master: OwnedFd = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let other = File::options().read(true).write(true).open(Path::new(&name)).unwrap();
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&other, size).unwrap();
        let end = || Stdio::from(other.try_clone().unwrap());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        Self { child, master: master.into(), seen: String::new() }
    }

    /// Presses keys.
    pub(crate) fn types(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).unwrap();
    }

    /// Has the program interrupted, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    /// Looks until this is to be seen.
    pub(crate) fn until(&mut self, text: &str) {
        while !self.seen.contains(text) {
            assert!(self.look(), "it ended without {text:?}: {:?}", self.seen);
        }
    }

    /// Looks until it ends: its exit code, and all that was to be seen.
    pub(crate) fn ends(mut self) -> (Option<i32>, String) {
        while self.look() {}
        let code = self.child.wait().unwrap().code();
        (code, self.seen.replace("\r\n", "\n"))
    }

    /// False when nobody has the terminal any more.
    fn look(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.master.read(&mut bytes) {
            Ok(0) | Err(_) => false,
            Ok(count) => {
                self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
                true
            }
        }
    }
}

/// Runs the program on a terminal with so many columns, after these keys were pressed: its exit code, and what is to be seen in
/// the end, when the wait that a slow machine shows is gone.
pub(crate) fn on_terminal(command: Command, columns: u16, keys: &str) -> (Option<i32>, String) {
    let mut terminal = Terminal::start(command, columns);
    terminal.types(keys);
    let (code, seen) = terminal.ends();
    (code, Regex::new("\r\x1b\\[2K([⣷⣯⣟⡿⢿⣻⣽⣾] [^\r\n]*)?").unwrap().replace_all(&seen, "").into_owned())
}

/// A text without what differs from run to run.
pub(crate) fn steady(text: &str) -> String {
    let mut text = text.to_owned();
    for (what, instead) in [
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "<id>"),
        (r"cli-[0-9a-f]{8}", "cli-<id>"),
        (r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "<time>"),
        (r"in \d+\.\d+ s", "in <time>"),
        (r", in \d+(ms|s)\b", ", in <time>"),
        (r#""duration_ms":[\d.]+"#, r#""duration_ms":0.0"#),
        (r"/\S*wink-cli-\w+", "<place>"),
        (r"\d+\.\d+\.\d+ \([0-9a-f]{12} [\d-]+\)", "<version>"),
    ] {
        text = Regex::new(what).unwrap().replace_all(&text, instead).into_owned();
    }
    text
}

/// Whether commands can be run in a workspace here.
pub(crate) fn has_commands() -> bool {
    let able = cfg!(target_os = "linux");
    if !able {
        wink::testing::leave_out("commands as tools", "they are built for Linux only");
    }
    able
}
