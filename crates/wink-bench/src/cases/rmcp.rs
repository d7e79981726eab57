//! The tool router of rmcp, called directly: no transport, no request loop, only routing, decoding and the call.

use std::hint::black_box;

use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::tool::ToolCallContext;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ContentBlock, JsonObject, NumberOrString};
use rmcp::service::{Peer, RequestContext, serve_directly};
use rmcp::{RoleServer, ServerHandler, tool, tool_handler, tool_router};

use super::typed_call::{ANSWER, ARGUMENTS, Args, TOOL, answer, other_tools, poll_now};
use super::{Case, Row};

pub(super) fn make(row: Row) -> Option<Case> {
    match row {
        Row::CallEmpty => Some(call_empty()),
        _ => None,
    }
}

#[derive(Clone)]
struct Server {
    tool_router: ToolRouter<Self>,
}

#[tool_router]
impl Server {
    fn new() -> Self {
        let mut router = Self::tool_router();
        if let Some(route) = router.map.get(TOOL).cloned() {
            for name in other_tools() {
                let mut other = route.clone();
                other.attr.name = name.into();
                router.add_route(other);
            }
        }
        Self { tool_router: router }
    }

    #[tool(name = "write_file", description = "Write a file.")]
    async fn write_file(&self, parameters: Parameters<Args>) -> String {
        answer(&parameters.0)
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Server {}

fn call_empty() -> Case {
    let server = Server::new();
    let (peer, connection) = connect(server.clone());
    let call = move || {
        // The router takes decoded JSON, so decoding the text is part of the call.
        let arguments: JsonObject = serde_json::from_str(black_box(ARGUMENTS)).ok()?;
        let parameters = CallToolRequestParams::new(TOOL).with_arguments(arguments);
        let request = RequestContext::new(NumberOrString::Number(1), peer.clone());
        let context = ToolCallContext::new(&server, parameters, request);
        match poll_now(server.tool_router.call(context)).ok()? {
            CallToolResponse::Complete(result) => match result.content.first()? {
                ContentBlock::Text(content) => Some(content.text.clone()),
                _ => None,
            },
            _ => None,
        }
    };
    assert_eq!(call().as_deref(), Some(ANSWER));
    Box::new(move || {
        let _alive = &connection;
        black_box(call());
    })
}

/// A request context needs a peer, and a peer comes only from a served connection; nothing is ever sent over it.
#[expect(clippy::expect_used, reason = "a peer that cannot be set up must stop the run, not vanish from it")]
fn connect(server: Server) -> (Peer<RoleServer>, impl Sized) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers");
    let (near, far) = tokio::io::duplex(1024);
    let running = {
        let _inside = runtime.enter();
        serve_directly(server, near, None)
    };
    (running.peer().clone(), (running, far, runtime))
}
