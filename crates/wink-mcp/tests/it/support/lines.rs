//! A client at the other end of two pipes, which sends exactly what it is told to.

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use wink_mcp::{ServeError, serve_lines};

use super::Agent;

/// How long a message is waited for; one that does not come fails the test.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);

pub struct Client {
    output: WriteHalf<DuplexStream>,
    input: Lines<BufReader<ReadHalf<DuplexStream>>>,
    pub server: JoinHandle<Result<(), ServeError>>,
    next: i64,
    /// What came while something else was waited for.
    pub aside: Vec<Value>,
}

impl Client {
    /// A client that has said nothing yet.
    pub fn new(agent: &Agent) -> Self {
        let (here, there) = tokio::io::duplex(64 * 1024);
        let (input, output) = tokio::io::split(there);
        let (server, options) = (agent.server(), agent.options());
        let server = tokio::spawn(async move { serve_lines(server, input, output, &options).await });
        let (input, output) = tokio::io::split(here);
        Self { output, input: BufReader::new(input).lines(), server, next: 1, aside: Vec::new() }
    }

    /// A client that has shaken hands.
    pub async fn shaken(agent: &Agent, version: &str, capabilities: Value) -> Self {
        let mut client = Self::new(agent);
        let params = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": { "name": "tester", "version": "1" },
        });
        let answer = client.request("initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client
    }

    pub async fn send(&mut self, message: &Value) {
        self.send_text(&message.to_string()).await;
    }

    pub async fn send_text(&mut self, text: &str) {
        self.output.write_all(text.as_bytes()).await.unwrap();
        self.output.write_all(b"\n").await.unwrap();
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        self.output.write_all(bytes).await.unwrap();
    }

    /// Begins a request; its id.
    pub async fn begin(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// The next message.
    #[expect(clippy::disallowed_methods, reason = "the test guards itself")]
    pub async fn receive(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.input.next_line()).await;
        let line = line.expect("the server said nothing").unwrap().expect("the server closed its end");
        serde_json::from_str(&line).unwrap()
    }

    /// The answer to a request; everything else is put aside.
    pub async fn answer(&mut self, id: i64) -> Value {
        loop {
            let message = self.receive().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.aside.push(message);
        }
    }

    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.answer(id).await
    }

    /// The result of a call, by a client that has shaken hands.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await;
        answer.get("result").cloned().unwrap_or_else(|| panic!("no result: {answer}"))
    }

    /// Closes this end, and waits for the server to end.
    pub async fn close(mut self) {
        self.output.shutdown().await.unwrap();
        while let Ok(Some(_)) = self.input.next_line().await {}
        self.server.await.unwrap().unwrap();
    }
}
