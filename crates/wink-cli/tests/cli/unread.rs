//! `wink serve`, and a client that does not read its standard error.

use std::io::{PipeWriter, Read, Write, pipe};
use std::process::{Child, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::serve::{Client, Pipes};
use crate::support::Place;

/// Ends a server that says nothing any more, so that its client does not wait for ever.
struct Watchdog(#[expect(dead_code, reason = "it is dropped")] Sender<()>);

impl Watchdog {
    fn over(child: &Child) -> Self {
        let (done, heard) = channel();
        let pid = Pid::from_child(child);
        std::thread::spawn(move || {
            if heard.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Self(done)
    }
}

/// A server that says much on its standard error, which is this pipe.
fn server(place: &Place, pipe: PipeWriter) -> Pipes {
    Pipes::told_to(Stdio::from(pipe), place.command(&["serve", "-vvv"]))
}

#[test]
fn a_server_whose_standard_error_is_not_read_goes_on_serving() {
    let place = Place::new();
    let (mut reader, writer) = pipe().unwrap();
    // Not one byte more fits.
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    let mut fills = 0;
    for chunk in [4096, 1] {
        while let Ok(count) = (&writer).write(&vec![b'.'; chunk]) {
            fills += count;
        }
    }
    fcntl_setfl(&writer, flags).unwrap();
    let mut client = server(&place, writer);
    let watchdog = Watchdog::over(&client.child);
    client.shake_hands();
    for turn in 0..50 {
        let path = format!("f{turn}");
        assert!(client.call("write_file", &json!({ "path": path, "content": "x" })).contains(&path));
    }
    assert_eq!(client.leave(), Some(0), "it ends, too");
    drop(watchdog);
    let mut told = Vec::new();
    reader.read_to_end(&mut told).unwrap();
    assert_eq!(told.len(), fills, "nothing of what was said came through");
}

#[test]
fn a_server_whose_standard_error_is_closed_goes_on_serving() {
    let place = Place::new();
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut client = server(&place, writer);
    let watchdog = Watchdog::over(&client.child);
    client.shake_hands();
    assert!(client.call("write_file", &json!({ "path": "a", "content": "x" })).contains('a'));
    assert_eq!(client.leave(), Some(0));
    drop(watchdog);
}

#[test]
fn what_a_server_says_is_read_to_its_end() {
    let place = Place::new();
    let (mut reader, writer) = pipe().unwrap();
    let mut client = server(&place, writer);
    let reading = std::thread::spawn(move || {
        let mut told = String::new();
        reader.read_to_string(&mut told).map(|_| told)
    });
    client.shake_hands();
    for turn in 0..20 {
        client.call("write_file", &json!({ "path": format!("f{turn}"), "content": "x" }));
    }
    assert_eq!(client.leave(), Some(0));
    let told = reading.join().unwrap().unwrap();
    assert_eq!(told.matches("wink.call is over").count(), 20, "{told}");
    assert!(!told.contains("were dropped"), "{told}");
}
