//! rmcp's own server as it is, with one tool and nothing of ours: what the suite does not pass on this either is not ours to
//! mend. It answers by streams, and its tool takes its time, so that there is a stream that could end in the middle of a call.

use std::convert::Infallible;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler};
use serde_json::json;
use tokio::net::TcpListener;
use wink::limits::{Clock, SystemClock};
use wink_mcp::rmcp;

use crate::asks;

/// How long a call takes: longer than a client needs to see its stream begin.
const LONG: Duration = Duration::from_secs(1);

struct Bare;

impl ServerHandler for Bare {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = asks::tool("test_reconnection", json!({ "type": "object" }));
        Ok(ListToolsResult::with_all_items(vec![tool]))
    }

    async fn call_tool(
        &self,
        _: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        SystemClock.sleep_until(SystemClock.monotonic().saturating_add(LONG)).await;
        Ok(CallToolResult::success(vec![ContentBlock::text("done")]).into())
    }
}

pub(crate) async fn serve(address: &str) -> Result<(), Box<dyn std::error::Error>> {
    let listener = TcpListener::bind(address).await?;
    // For whoever started it, to know where it is.
    writeln!(std::io::stdout(), "http://{}/mcp", listener.local_addr()?)?;
    let manager = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(|| Ok(Bare), manager, StreamableHttpServerConfig::default());
    loop {
        let (stream, _) = listener.accept().await?;
        let service = service.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let service = service.clone();
                async move { Ok::<_, Infallible>(service.handle(request).await) }
            });
            // Clients go when they like.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
