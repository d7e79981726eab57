//! Plain HTTP, a request at a time, by hand: what a library would mend is sent as it is.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use wink::limits::CancelToken;
use wink_mcp::{Access, HttpOptions, Sessions, TokenKey, serve_http};

use super::{Agent, These, stateless};

/// A server on loopback.
pub struct Http {
    pub address: SocketAddr,
    pub key: TokenKey,
    pub cancel: CancelToken,
    server: Option<JoinHandle<std::io::Result<()>>>,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value)
        });
        found.map(str::trim)
    }

    /// The messages in the body, whichever way they are sent.
    pub fn messages(&self) -> Vec<Value> {
        if self.header("content-type").is_some_and(|mime| mime.starts_with("text/event-stream")) {
            let data = self.body.lines().filter_map(|line| line.strip_prefix("data:"));
            return data.filter_map(|data| serde_json::from_str(data.trim()).ok()).collect();
        }
        serde_json::from_str(&self.body).into_iter().collect()
    }

    /// The last message: the answer.
    pub fn answer(&self) -> Value {
        self.messages().pop().unwrap_or_else(|| panic!("no message: {self:?}"))
    }
}

impl Http {
    pub async fn new(agents: &[&Agent]) -> Self {
        Self::with(agents, |options| options).await
    }

    pub async fn with(agents: &[&Agent], change: impl Fn(HttpOptions) -> HttpOptions) -> Self {
        let sessions = These(agents.iter().map(|agent| Arc::clone(&agent.session)).collect());
        Self::of(Arc::new(sessions), change).await
    }

    pub async fn of(sessions: Arc<dyn Sessions>, change: impl Fn(HttpOptions) -> HttpOptions) -> Self {
        let key = TokenKey::fresh();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let options = change(HttpOptions::new(Access::Tokens(key.clone())));
        let cancel = CancelToken::new();
        let server = tokio::spawn(serve_http(listener, sessions, options, |server| server, cancel.clone()));
        Self { address, key, cancel, server: Some(server) }
    }

    pub fn token(&self, session: &str) -> String {
        self.key.token(&session.into())
    }

    /// The headers that a client of the stateless revision sends.
    pub fn headers(&self, session: &str, method: &str, name: Option<&str>) -> Vec<(String, String)> {
        let mut headers = vec![
            ("Authorization".to_owned(), format!("Bearer {}", self.token(session))),
            ("Content-Type".to_owned(), "application/json".to_owned()),
            ("Accept".to_owned(), "application/json, text/event-stream".to_owned()),
            ("MCP-Protocol-Version".to_owned(), "2026-07-28".to_owned()),
            ("Mcp-Method".to_owned(), method.to_owned()),
        ];
        headers.extend(name.map(|name| ("Mcp-Name".to_owned(), name.to_owned())));
        headers
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// One request as text.
    pub fn text(&self, path: &str, headers: &[(String, String)], body: &str) -> String {
        let mut text = format!("POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n{body}", body.len()));
        text
    }

    pub async fn post(&self, path: &str, headers: &[(String, String)], body: &str) -> Reply {
        let mut stream = self.connect().await;
        stream.write_all(self.text(path, headers, body).as_bytes()).await.unwrap();
        read_reply(&mut stream).await
    }

    /// A request of the stateless revision.
    pub async fn request(&self, session: &str, method: &str, params: Value) -> Reply {
        let name = params["name"]
            .as_str()
            .or(params["taskId"].as_str())
            .or(params["uri"].as_str())
            .map(str::to_owned);
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let headers = self.headers(session, method, name.as_deref());
        self.post(&format!("/mcp/{session}"), &headers, &body.to_string()).await
    }

    /// The answer to a call of the stateless revision.
    pub async fn call(&self, session: &str, tool: &str, arguments: Value) -> Value {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": stateless(json!({})) });
        self.request(session, "tools/call", params).await.answer()
    }

    pub async fn close(mut self) {
        self.cancel.cancel();
        if let Some(server) = self.server.take() {
            server.await.unwrap().unwrap();
        }
    }
}

/// Reads until the server closes.
pub async fn read_reply(stream: &mut TcpStream) -> Reply {
    let mut bytes = Vec::new();
    // A server that closes before it was sent everything resets the connection; what it said is here.
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if chunked { unchunked(body) } else { body.to_owned() };
    Reply { status, head: head.to_owned(), body }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || rest.len() < size {
            break;
        }
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}
