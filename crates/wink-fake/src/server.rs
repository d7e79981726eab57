//! The server itself.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::script::{Fault, Reply, Script, Turn};
use crate::speak::Event;
use crate::{Api, check, speak};

/// A server that runs until it is dropped.
#[derive(Debug)]
pub struct Fake {
    address: SocketAddr,
    shared: Arc<Shared>,
    serving: AbortHandle,
}

/// A request that came.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Where to.
    pub path: String,
    /// Its body.
    pub body: Value,
    /// Why it was refused, if it was.
    pub refused: Option<String>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Whether whoever has no key is answered, as servers of one's own do.
    keyless: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    script: Script,
    /// Which model it is; any, if none is named.
    model: Option<String>,
    seen: Vec<Seen>,
    /// How many turns are over.
    over: usize,
}

impl Fake {
    /// Serves on a port of its own.
    ///
    /// # Errors
    /// When there is none.
    pub async fn start(script: Script) -> io::Result<Self> {
        Self::on(TcpListener::bind("127.0.0.1:0").await?, script)
    }

    /// Serves here.
    ///
    /// # Errors
    /// When the listener has no address.
    pub fn on(listener: TcpListener, script: Script) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let shared = Arc::<Shared>::default();
        let serving = tokio::spawn(serve(listener, Arc::clone(&shared))).abort_handle();
        let fake = Self { address, shared, serving };
        *fake.shared.state() = State { script, ..State::default() };
        Ok(fake)
    }

    /// Begins anew with another script, for whoever has the address of this one. Only requests for this model count from now on:
    /// whoever stands in between may be late with earlier ones.
    pub fn follow(&self, model: &str, script: Script) {
        *self.shared.state() = State { script, model: Some(model.to_owned()), ..State::default() };
    }

    /// From here on nobody needs a key.
    pub fn without_keys(&self) {
        self.shared.keyless.store(true, Ordering::Relaxed);
    }

    /// Where it is, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What has come so far.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.state().seen.clone()
    }

    /// How many turns are left.
    #[must_use]
    pub fn left(&self) -> usize {
        let state = self.shared.state();
        state.script.turns.len().saturating_sub(state.over)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<(usize, Turn)> {
        let mut state = self.state();
        let number = state.over;
        let turn = state.script.turns.get(number)?.clone();
        state.over += 1;
        Some((number, turn))
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    // Connections end with the server.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&shared)));
            // A connection that breaks is the client's business.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// A body that is sent as it is made. An error closes the connection.
struct Sent(mpsc::UnboundedReceiver<Result<Bytes, io::Error>>);

impl Body for Sent {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        self.0.poll_recv(cx).map(|sent| sent.map(|sent| sent.map(Frame::data)))
    }
}

type Answered = Result<Response<Sent>, Infallible>;

async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Answered {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let Some(api) = Api::of(&path) else {
        return whole(
            404,
            &[],
            &json!({ "error": { "message": format!("there is no {path}"), "type": "invalid_request_error" } }),
        );
    };
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let key = key(api, &head.headers);
    let keyless = shared.keyless.load(Ordering::Relaxed).then(String::new);
    let Some(key) = key.or(keyless) else {
        return whole(
            401,
            &[],
            &api.error("authentication_error", Some("invalid_api_key"), "there is no key"),
        );
    };
    if shared
        .state()
        .model
        .as_deref()
        .is_some_and(|model| body.get("model").is_none_or(|asked| asked != model))
    {
        return whole(
            404,
            &[],
            &api.error("not_found_error", Some("model_not_found"), "there is no such model"),
        );
    }
    let refused = check::request(api, &head.headers, &body).err();
    shared.state().seen.push(Seen { path, body: body.clone(), refused: refused.clone() });
    if let Some(reason) = refused {
        return whole(400, &[], &api.error("invalid_request_error", None, &reason));
    }
    match shared.next() {
        None => whole(400, &[], &api.error("invalid_request_error", None, "the script is over")),
        Some((_, Turn::Fault(fault))) => fail(api, &fault, &key).await,
        Some((number, Turn::Reply(reply))) => say(api, number, reply, &body),
    }
}

fn key(api: Api, headers: &HeaderMap) -> Option<String> {
    let bearer = headers.get("authorization").and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let own =
        headers.get("x-api-key").and_then(|value| value.to_str().ok()).filter(|_| api == Api::Anthropic);
    own.or(bearer).filter(|key| !key.is_empty()).map(str::to_owned)
}

async fn fail(api: Api, fault: &Fault, key: &str) -> Answered {
    match fault {
        Fault::Throttled { retry_after, retry_after_ms, should_retry } => {
            let mut headers = Vec::new();
            headers.extend(retry_after.clone().map(|value| ("retry-after", value)));
            headers.extend(retry_after_ms.map(|value| ("retry-after-ms", value.to_string())));
            headers.extend(should_retry.map(|value| ("x-should-retry", value.to_string())));
            whole(429, &headers, &api.error("rate_limit_error", Some("rate_limit_exceeded"), "slow down"))
        }
        Fault::Quota => whole(
            429,
            &[],
            &api.error("insufficient_quota", Some("insufficient_quota"), "you exceeded your current quota"),
        ),
        Fault::Overloaded if api == Api::Anthropic => {
            whole(529, &[], &api.error("overloaded_error", None, "Overloaded"))
        }
        Fault::Overloaded => whole(503, &[], &api.error("server_error", None, "The engine is overloaded")),
        Fault::Broken => whole(500, &[], &api.error("api_error", None, "Internal server error")),
        Fault::Unauthorized => {
            let message = format!("Incorrect API key provided: {key}");
            whole(401, &[], &api.error("authentication_error", Some("invalid_api_key"), &message))
        }
        Fault::TooLong if api == Api::Anthropic => whole(
            400,
            &[],
            &api.error("invalid_request_error", None, "prompt is too long: 210000 tokens > 200000 maximum"),
        ),
        Fault::TooLong => {
            let message = "This model's maximum context length is 128000 tokens.";
            whole(400, &[], &api.error("invalid_request_error", Some("context_length_exceeded"), message))
        }
        Fault::Nonsense => Ok(response(
            200,
            &[("content-type", "application/json".to_owned())],
            send(vec![Ok("<html>".into())]),
        )),
        // Nothing was sent yet, so the connection is closed without an answer.
        Fault::Gone => Ok(response(200, &[], send(vec![Err(io::Error::other("gone"))]))),
        Fault::Silent => std::future::pending().await,
    }
}

fn say(api: Api, number: usize, reply: Reply, asked: &Value) -> Answered {
    if asked.get("stream") == Some(&Value::Bool(true)) {
        let events = speak::events(api, number, &reply, asked);
        return Ok(response(
            200,
            &[("content-type", "text/event-stream".to_owned())],
            stream(api, events, reply),
        ));
    }
    let text = speak::whole(api, number, &reply, asked).to_string();
    match (reply.cut, reply.stall) {
        (None, None) => {
            Ok(response(200, &[("content-type", "application/json".to_owned())], send(vec![Ok(text.into())])))
        }
        (cut, _) => {
            let half = text.get(..text.len() / 2).unwrap_or_default().to_owned();
            let (sender, body) = mpsc::unbounded_channel();
            let _ = sender.send(Ok(half.into()));
            match cut {
                Some(_) => drop(sender.send(Err(io::Error::other("cut")))),
                // Nothing more comes, as long as anybody waits.
                None => drop(tokio::spawn(async move { sender.closed().await })),
            }
            Ok(response(200, &[("content-type", "application/json".to_owned())], Sent(body)))
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a server that is slow is slow by the machine's clock")]
fn stream(api: Api, events: Vec<Event>, reply: Reply) -> Sent {
    let (sender, body) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for (number, event) in events.iter().enumerate() {
            if reply.cut == Some(number) {
                let _ = sender.send(Err(io::Error::other("cut")));
                return;
            }
            if reply.stall == Some(number) {
                return sender.closed().await;
            }
            if reply.fail == Some(number) {
                let _ = sender.send(Ok(speak::failure(api).text().into()));
                return;
            }
            if reply.slow_ms > 0 {
                tokio::time::sleep(Duration::from_millis(reply.slow_ms)).await;
            }
            let text = event.text();
            for chunk in text.as_bytes().chunks(reply.chunk.unwrap_or(text.len()).max(1)) {
                let _ = sender.send(Ok(Bytes::copy_from_slice(chunk)));
            }
        }
    });
    Sent(body)
}

fn send(parts: Vec<Result<Bytes, io::Error>>) -> Sent {
    let (sender, body) = mpsc::unbounded_channel();
    for part in parts {
        // The receiver is here.
        let _ = sender.send(part);
    }
    Sent(body)
}

fn whole(status: u16, headers: &[(&'static str, String)], body: &Value) -> Answered {
    let mut headers = headers.to_vec();
    headers.push(("content-type", "application/json".to_owned()));
    Ok(response(status, &headers, send(vec![Ok(body.to_string().into())])))
}

fn response(status: u16, headers: &[(&'static str, String)], body: Sent) -> Response<Sent> {
    let builder = headers
        .iter()
        .fold(Response::builder().status(status), |builder, (name, value)| builder.header(*name, value));
    builder.body(body).unwrap_or_else(|_| Response::new(send(Vec::new())))
}
