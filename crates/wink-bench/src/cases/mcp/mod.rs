//! Calls over MCP: `wink serve` beside rmcp's own minimal server. Each is a process of its own, and one client, rmcp's,
//! speaks with all of them in turn.
//!
//! They do not do the same: a call of Wink's is decided, runs in a transaction, and is on disk before it is answered, and
//! what it writes comes with all that takes it back. So there is a third: rmcp's server that keeps a line about each call in
//! a file, and waits for the disk once. That is the floor of a server that can say afterwards what it was asked.

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::RunningService;
use rmcp::{ClientLifecycleMode, RoleClient};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use super::program::{READ, SET_UP, WRITE, file, plan};
use super::{Case, Contender, Over, Work};

mod client;
mod process;
mod serving;
mod sessions;

pub(crate) use serving::{SERVE, Serving};
pub(crate) use sessions::measure as measure_sessions;

use process::Server;

/// A client that is connected.
type Client = RunningService<RoleClient, ()>;

/// One call and its answer, again and again, over one connection.
pub(super) fn make(contender: Contender, over: Over, work: Work) -> Option<Case> {
    let who = Who::of(contender)?;
    let runtime = runtime();
    let mut server = Server::start(&runtime, who, over);
    let client = runtime.block_on(server.connect("main", stateless()));
    runtime.block_on(call(&client, SET_UP, plan()));
    let mut number = 0;
    Some(Box::new(move || {
        number += 1;
        match work {
            Work::Read => runtime.block_on(call(&client, READ, Value::Object(Default::default()))),
            Work::Write => runtime.block_on(call(&client, WRITE, file(number))),
        }
        let _server = &server;
    }))
}

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Wink,
    Rmcp(Keeps),
}

/// What rmcp's server leaves on disk of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeps {
    Nothing,
    Line,
}

impl Who {
    fn of(contender: Contender) -> Option<Self> {
        match contender {
            Contender::Wink => Some(Who::Wink),
            Contender::Rmcp => Some(Who::Rmcp(Keeps::Nothing)),
            Contender::Floor => Some(Who::Rmcp(Keeps::Line)),
            Contender::Rig
            | Contender::Git
            | Contender::Original
            | Contender::PydanticAi
            | Contender::LangGraph => None,
        }
    }
}

/// The client's: one thread, since the servers need the other core.
fn runtime() -> Runtime {
    let built = Builder::new_current_thread().enable_all().build();
    built.unwrap_or_else(|error| unreachable!("{error}"))
}

/// The revision without handshakes.
fn stateless() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

fn request(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { unreachable!("arguments are objects") };
    CallToolRequestParams::new(tool).with_arguments(arguments)
}

async fn call(client: &Client, tool: &'static str, arguments: Value) {
    let answer = client.call_tool(request(tool, arguments)).await;
    assert!(answer.as_ref().is_ok_and(|answer| answer.is_error != Some(true)), "{tool}: {answer:?}");
}
