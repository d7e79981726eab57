//! The wire under rmcp's client: HTTP over connections that are kept, and nothing else. rmcp's own, on another crate, would
//! bring a client for all the world.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_core::stream::BoxStream;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};
use tokio::net::TcpStream;

const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";
const EVENTS: &str = "text/event-stream";
const BOTH: &str = "application/json, text/event-stream";

type Failure = StreamableHttpError<hyper::Error>;
type Sender = SendRequest<Full<Bytes>>;

/// One client's connections to one server.
#[derive(Clone)]
pub(super) struct Http {
    address: Arc<str>,
    path: Arc<str>,
    idle: Arc<Mutex<Vec<Sender>>>,
}

impl Http {
    /// A client for `http://ADDRESS/PATH`.
    pub(super) fn to(url: &str) -> Self {
        let url: Uri = url.parse().unwrap_or_else(|error| unreachable!("{url}: {error}"));
        let address = url.authority().map_or_else(String::new, ToString::to_string);
        Self { address: address.into(), path: url.path().into(), idle: Arc::default() }
    }

    async fn connection(&self) -> Result<Sender, Failure> {
        let stream = TcpStream::connect(&*self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(StreamableHttpError::Client)?;
        // It ends when either side wants it to.
        tokio::spawn(connection);
        Ok(sender)
    }

    fn idle(&self) -> Option<Sender> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(Sender::is_ready)
    }

    /// Sends it over a connection that is there, or over a new one, also if the one that was there just ended.
    async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<(Response<Incoming>, Sender), Failure> {
        if let Some(mut sender) = self.idle() {
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((response, sender)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(StreamableHttpError::Client(error.into_error())),
                },
            }
        }
        let mut sender = self.connection().await?;
        let response = sender.send_request(request).await.map_err(StreamableHttpError::Client)?;
        Ok((response, sender))
    }

    /// Keeps a connection for the next request, once the last one is answered.
    async fn keep(self, mut sender: Sender) {
        if sender.ready().await.is_ok() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        }
    }

    fn request(
        &self,
        method: Method,
        headers: &[(&'static str, Option<&str>)],
        token: Option<&str>,
        more: HashMap<HeaderName, HeaderValue>,
        body: Vec<u8>,
    ) -> Result<Request<Full<Bytes>>, Failure> {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        let odd = |_| StreamableHttpError::UnexpectedServerResponse("a header cannot be sent".into());
        *request.uri_mut() = self
            .path
            .parse()
            .map_err(|_| StreamableHttpError::UnexpectedServerResponse("a path cannot be sent".into()))?;
        let own = request.headers_mut();
        own.extend(more.into_iter().map(|(name, value)| (Some(name), value)));
        own.insert(HOST, HeaderValue::from_str(&self.address).map_err(odd)?);
        for (name, value) in headers {
            if let Some(value) = value {
                own.insert(HeaderName::from_static(name), HeaderValue::from_str(value).map_err(odd)?);
            }
        }
        if let Some(token) = token {
            own.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}")).map_err(odd)?);
        }
        Ok(request)
    }

    /// What is sent as events until the server ends it.
    fn events(self, body: Incoming, sender: Sender) -> BoxStream<'static, Result<Sse, SseError>> {
        tokio::spawn(self.keep(sender));
        Box::pin(SseStream::new(body))
    }
}

impl StreamableHttpClient for Http {
    type Error = hyper::Error;

    async fn post_message(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let own = [
            ("accept", Some(BOTH)),
            ("content-type", Some("application/json")),
            (SESSION, session.as_deref()),
        ];
        let body = serde_json::to_vec(&message)?;
        let request = self.request(Method::POST, &own, token.as_deref(), headers, body)?;
        let (response, sender) = self.send(request).await?;
        let status = response.status();
        let of = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let session_given = of(SESSION).map(ToOwned::to_owned);
        let is_events = of("content-type").is_some_and(|mime| mime.starts_with(EVENTS));
        if status.is_success() && is_events {
            let events = self.clone().events(response.into_body(), sender);
            return Ok(StreamableHttpPostResponse::Sse(events, session_given));
        }
        let body = response.into_body().collect().await.map_err(StreamableHttpError::Client)?.to_bytes();
        self.clone().keep(sender).await;
        match status {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Ok(StreamableHttpPostResponse::Accepted),
            StatusCode::NOT_FOUND if session.is_some() => Err(StreamableHttpError::SessionExpired),
            status if status.is_success() => {
                Ok(StreamableHttpPostResponse::Json(serde_json::from_slice(&body)?, session_given))
            }
            status => {
                let said = format!("{status}: {}", String::from_utf8_lossy(&body));
                Err(StreamableHttpError::UnexpectedServerResponse(said.into()))
            }
        }
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        let own = [(SESSION, Some(&*session))];
        let request = self.request(Method::DELETE, &own, token.as_deref(), headers, Vec::new())?;
        self.send(request).await.map(drop)
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        last: Option<String>,
        token: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        let own = [("accept", Some(EVENTS)), (SESSION, session.as_deref()), (LAST_EVENT, last.as_deref())];
        let request = self.request(Method::GET, &own, token.as_deref(), headers, Vec::new())?;
        let (response, sender) = self.send(request).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if status.is_success() => Ok(self.clone().events(response.into_body(), sender)),
            status => Err(StreamableHttpError::UnexpectedServerResponse(status.to_string().into())),
        }
    }
}
