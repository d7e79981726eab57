//! Servers as processes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::{env, path::Path};

use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, ClientServiceExt};
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::{ChildStdin, ChildStdout};
use tokio::runtime::Runtime;
use wink_mcp::TokenKey;

use super::client::Http;
use super::serving::{SERVE, Serving};
use super::{Client, Over, Who};
use crate::cases::program::{wink, workspace};

/// A server that ends, and whose place goes, when it is dropped.
pub(super) struct Server {
    process: Process,
    reached: Reached,
    _place: TempDir,
}

/// How clients get there.
enum Reached {
    /// One does, once.
    Pipes(Option<(ChildStdout, ChildStdin)>),
    /// Every session has its own address and token.
    Sessions { address: String, key: TokenKey },
    /// All sessions have one address.
    Address(String),
}

impl Server {
    pub(super) fn start(runtime: &Runtime, who: Who, over: Over) -> Self {
        // Pipes belong to a runtime.
        let _inside = runtime.enter();
        let place = workspace();
        let mut command = command(who, over, place.path());
        let mut process =
            Process(command.spawn().unwrap_or_else(|error| unreachable!("{command:?}: {error}")));
        let (Some(input), Some(output)) = (process.0.stdin.take(), process.0.stdout.take()) else {
            unreachable!("both were asked for")
        };
        let reached = match over {
            Over::Stdio => {
                let pipes =
                    ChildStdout::from_std(output).and_then(|out| Ok((out, ChildStdin::from_std(input)?)));
                Reached::Pipes(Some(pipes.unwrap_or_else(|error| unreachable!("{error}"))))
            }
            Over::Http => {
                let mut line = String::new();
                let read = BufReader::new(output).read_line(&mut line);
                let said: Value = serde_json::from_str(&line).unwrap_or_default();
                let Some(url) = said.get("url").and_then(Value::as_str) else {
                    unreachable!("{command:?} says {line:?} ({read:?})")
                };
                match who {
                    Who::Wink => Reached::Sessions {
                        address: url.trim_end_matches("/main").to_owned(),
                        key: key(place.path()),
                    },
                    Who::Rmcp(_) => Reached::Address(url.to_owned()),
                }
            }
        };
        Self { process, reached, _place: place }
    }

    /// A client of a session.
    pub(super) async fn connect(&mut self, session: &str, speaks: ClientLifecycleMode) -> Client {
        let (url, token) = match &mut self.reached {
            Reached::Pipes(pipes) => {
                let Some(pipes) = pipes.take() else { unreachable!("somebody has the pipes already") };
                let client = ().serve_with_lifecycle(pipes, speaks).await;
                return client.unwrap_or_else(|error| unreachable!("{error}"));
            }
            Reached::Sessions { address, key } => {
                (format!("{address}/{session}"), Some(key.token(&session.into())))
            }
            Reached::Address(url) => (url.clone(), None),
        };
        let http = Http::to(&url);
        let mut config = StreamableHttpClientTransportConfig::with_uri(url);
        config.auth_header = token;
        let transport = StreamableHttpClientTransport::with_client(http, config);
        let client = ().serve_with_lifecycle(transport, speaks).await;
        client.unwrap_or_else(|error| unreachable!("{error}"))
    }

    /// A line of what the system says of the process, in bytes: `VmRSS`, `VmHWM`. Nothing where it says nothing.
    pub(super) fn memory(&self, line: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.0.id())).ok()?;
        let rest = status.lines().find_map(|said| said.strip_prefix(line)?.strip_prefix(':'))?;
        rest.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1_024)
    }
}

fn command(who: Who, over: Over, place: &Path) -> Command {
    let mut command = match who {
        Who::Wink => {
            let mut command = Command::new(wink().unwrap_or_else(|error| unreachable!("{error}")));
            command.arg("--workspace").arg(place).arg("serve");
            if over == Over::Http {
                command.args(["--http", "127.0.0.1:0", "--json"]);
            }
            command
        }
        Who::Rmcp(keeps) => {
            let here = env::current_exe().unwrap_or_else(|error| unreachable!("{error}"));
            let mut command = Command::new(here);
            command.arg(SERVE).args(Serving { over, keeps, place: place.to_owned() }.arguments());
            command
        }
    };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    command
}

/// The secret of a workspace, of which the tokens of its sessions are made.
fn key(place: &Path) -> TokenKey {
    let text = fs::read_to_string(place.join(".wink/mcp-key")).unwrap_or_default();
    let pairs =
        text.trim().as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    let bytes = pairs.collect::<Option<Vec<u8>>>().and_then(|bytes| bytes.try_into().ok());
    TokenKey::from_bytes(bytes.unwrap_or_else(|| unreachable!("a server over HTTP has a key")))
}

/// Ended when it is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
