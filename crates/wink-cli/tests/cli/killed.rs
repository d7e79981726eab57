//! A call whose process is killed, or told to end: no file is left, no process, and one row in the log.

use std::fs::File;
use std::io::Read;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Place, has_commands, one_command, said};

/// An agent with a command whose effect happens once.
pub(crate) fn paying() -> String {
    one_command("pay")
        + "params = { type = \"object\", required = [\"order\"], properties = { order = { type = \"integer\" } } }\nidempotency = { strategy = \"params\", fields = [\"order\"] }\n"
}

/// A call in the middle of its command, which has written files and started another process.
struct Running {
    child: Child,
    /// Ends when no process of the command has it any more.
    line: File,
}

fn start(place: &Place, tool: &str, arguments: &str) -> Running {
    let name = format!("line-{}", place.rows(&["log"]).len());
    let line = place.pipe(&name);
    place.put_script(
        tool,
        &format!(
            "exec 3> {}\necho made > made\nmkdir -p some\necho more > some/more\necho changed > theirs\nrm -f old\n\
             sleep 1000 &\necho ready >&3\nsleep 1000",
            line.display()
        ),
    );
    let mut command = place.command(&["call", tool, arguments]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = File::open(line).unwrap();
    let mut said = [0; 6];
    line.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"ready\n");
    Running { child, line }
}

impl Running {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits until no process of the command is left.
    fn is_gone(&mut self) {
        let mut rest = String::new();
        self.line.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
    }
}

/// Makes a call and kills its process in the middle of the command.
pub(crate) fn kill_in(place: &Place, tool: &str, arguments: &str) {
    let mut running = start(place, tool, arguments);
    running.signal(Signal::KILL);
    assert_eq!(running.child.wait().unwrap().code(), None);
    running.is_gone();
}

fn place() -> Place {
    let place = Place::with_agent(&one_command("build"));
    place.put("theirs", "as it was\n");
    place.put("old", "old\n");
    place
}

fn is_as_before(place: &Place) {
    assert_eq!(place.names(), ["build", "old", "theirs", "wink.toml"]);
    assert_eq!(place.text("theirs").as_deref(), Some("as it was\n"));
}

#[test]
fn a_killed_call_leaves_no_file_no_process_and_one_row() {
    if !has_commands() {
        return;
    }
    let place = place();
    kill_in(&place, "build", "{}");
    let rows = place.rows(&["log"]);
    is_as_before(&place);
    assert_eq!(rows.len(), 1, "{rows:#?}");
    let row = &rows[0];
    let told = (&row["error"]["kind"], &row["tool"], &row["success"], &row["rolled_back"]);
    assert_eq!(told, (&"interrupted".into(), &"build".into(), &false.into(), &true.into()), "{row:#}");
    insta::assert_snapshot!("interrupted", place.wink(&["log"]).whole());
    // It is told once, and the next call works.
    place.put_script("build", "echo built > result\necho built");
    assert_eq!(place.call("build", "{}"), "built\n");
    assert_eq!(place.rows(&["log"]).len(), 2);
}

#[test]
fn a_signal_cancels_the_call() {
    if !has_commands() {
        return;
    }
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let place = place();
        let mut running = start(&place, "build", "{}");
        running.signal(signal);
        running.is_gone();
        let said = said(running.child.wait_with_output().unwrap());
        assert_eq!(said.code, Some(3), "{said:?}");
        is_as_before(&place);
        let rows = place.rows(&["log"]);
        assert_eq!((rows.len(), &rows[0]["error"]["kind"]), (1, &"cancelled".into()), "{rows:#?}");
        if signal == Signal::INT {
            insta::assert_snapshot!("cancelled", said.whole());
        }
    }
}
