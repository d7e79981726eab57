//! One request: whether it may come in, whose session it is, and who answers it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use rmcp::ServerHandler;
use rmcp::model::{ClientJsonRpcMessage, ErrorCode, ErrorData, JsonRpcError, RequestId};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use wink::session::SessionId;

use super::connections::Place;
use super::open::{Kept, Marked, OpenSessions, Stay};
use super::origin::{Callers, Stranger};
use super::{Access, HttpOptions, body, cors, name};
use crate::ids::Ids;
use crate::room::Rooms;
use crate::server::Server;
use crate::session::{OpenError, ServedSession, Sessions};
use crate::signed::Signature;
use crate::wire::{self, Frame, Unreadable};

/// What a client that has shaken hands is known by.
const CLIENT: &str = "mcp-session-id";
pub(super) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Knows the sessions that are served.
pub(super) struct Router<H: ServerHandler> {
    sessions: Arc<dyn Sessions>,
    options: HttpOptions,
    make: Arc<dyn Fn(Server) -> H + Send + Sync>,
    config: StreamableHttpServerConfig,
    open: OpenSessions<Served<H>>,
    callers: Callers,
    rooms: Rooms,
}

/// A session that is served here.
struct Served<H: ServerHandler> {
    session: Arc<ServedSession>,
    service: StreamableHttpService<H, LocalSessionManager>,
    clients: Arc<LocalSessionManager>,
    signature: Arc<Signature>,
    ids: Mutex<HashMap<String, Ids>>,
}

impl<H: ServerHandler> Kept for Served<H> {
    fn stay(&self) -> Stay {
        // Whoever changes who the clients are is one.
        let has_clients = !self.clients.sessions.try_read().is_ok_and(|clients| clients.is_empty());
        match has_clients {
            true => Stay::Needed,
            false => self.session.stay(),
        }
    }
}

impl<H: ServerHandler> Router<H> {
    pub(super) fn new(
        sessions: Arc<dyn Sessions>,
        options: HttpOptions,
        make: impl Fn(Server) -> H + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let callers = Callers::new(&options.allowed_hosts, &options.allowed_origins)?;
        // Whoever calls, and from where, was looked at before.
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            .disable_allowed_hosts()
            .disable_allowed_origins()
            .with_max_request_body_bytes(options.server.max_message_bytes);
        let rooms = Rooms::new(options.server.max_message_memory);
        let clock = Arc::clone(&options.server.clock);
        let open = OpenSessions::new(options.max_sessions, options.session_idle, clock);
        Ok(Self { sessions, options, make: Arc::new(make), config, open, callers, rooms })
    }

    pub(super) fn options(&self) -> &HttpOptions {
        &self.options
    }

    /// Lets go of everybody, and waits until every call is over.
    pub(super) async fn close(&self) {
        self.config.cancellation_token.cancel();
        let all = self.open.take_all();
        for served in all.iter().filter_map(|entered| entered.cell().get()) {
            served.session.close().await;
        }
    }

    /// Lets go of the sessions that nobody has used for a while.
    pub(super) async fn sweep(&self) {
        for served in self.open.sweep() {
            self.let_go(served).await;
        }
    }

    async fn let_go(&self, served: Served<H>) {
        tracing::debug!(session = %served.session.name(), "a session that nobody uses was let go");
        let session = Arc::clone(&served.session);
        // What makes handlers has it, too.
        drop(served);
        self.sessions.let_go(session).await;
    }

    pub(super) async fn answer(&self, request: Request<Incoming>, place: &Place) -> Answer {
        if let Err(stranger) = self.callers.check(request.uri(), request.headers()) {
            let status = match stranger {
                Stranger::NoHost | Stranger::TwoHosts => StatusCode::BAD_REQUEST,
                Stranger::Host | Stranger::NoOrigin | Stranger::Origin => StatusCode::FORBIDDEN,
            };
            return plain(status, &stranger.to_string());
        }
        // Of a page that may call.
        let page = request.headers().get(header::ORIGIN).cloned();
        let asked = page.as_ref().and_then(|_| cors::preflight(request.method(), request.headers()));
        let mut answer = match asked {
            Some(answer) => answer,
            None => self.answer_call(request, place).await,
        };
        if let Some(page) = page {
            cors::allow(answer.headers_mut(), page);
        }
        answer
    }

    /// The answer to somebody who may call.
    async fn answer_call(&self, request: Request<Incoming>, place: &Place) -> Answer {
        let Some(session) = session_of(request.uri().path()) else {
            return plain(StatusCode::NOT_FOUND, "there is nothing here; sessions are at /mcp/{session}");
        };
        if let Access::Tokens(key) = &self.options.access
            && !bearer(request.headers()).is_some_and(|token| key.accepts(&session, token))
        {
            let mut refused =
                plain(StatusCode::UNAUTHORIZED, "this session wants its token: Authorization: Bearer TOKEN");
            refused.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return refused;
        }
        if let Err(error) = place.is_known() {
            return plain(StatusCode::SERVICE_UNAVAILABLE, &error.to_string());
        }
        let entered = match self.open.enter(&session) {
            Ok((entered, gone)) => {
                if let Some(gone) = gone {
                    self.let_go(gone).await;
                }
                entered
            }
            Err(error) => return plain(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
        };
        match entered.cell().get_or_try_init(|| self.open(&session)).await {
            Ok(served) => {
                let answer = self.serve(served, request).await;
                // As long as there is something to come, it is not over.
                let mark = entered.mark();
                answer.map(|body| Marked { body, _mark: mark }.boxed())
            }
            Err(error) => {
                self.open.forget(&session, entered);
                tracing::warn!(error = error.chain(), "a session was not opened");
                match error {
                    OpenError::Unknown(_) => plain(StatusCode::NOT_FOUND, &error.to_string()),
                    // What is wrong with it is for whoever runs the server.
                    OpenError::Failed { .. } => {
                        plain(StatusCode::SERVICE_UNAVAILABLE, "this session cannot be opened now")
                    }
                }
            }
        }
    }

    async fn open(&self, name: &SessionId) -> Result<Served<H>, OpenError> {
        let session = self.sessions.open(name).await?;
        let (make, its) = (Arc::clone(&self.make), Arc::clone(&session));
        let signature = Signature::of(&make(Server::new(Arc::clone(&session))).get_info().server_info);
        let mut config = SessionConfig::default();
        config.keep_alive = Some(self.options.client_idle);
        let mut clients = LocalSessionManager::default();
        clients.session_config = config;
        let clients = Arc::new(clients);
        let service = StreamableHttpService::new(
            move || Ok(make(Server::new(Arc::clone(&its)))),
            Arc::clone(&clients),
            self.config.clone(),
        );
        Ok(Served { session, service, clients, signature: Arc::new(signature), ids: Mutex::default() })
    }

    async fn serve(&self, served: &Served<H>, request: Request<Incoming>) -> Answer {
        if request.method() != Method::POST {
            // Nothing is expected of its body, and nothing read.
            let (head, _) = request.into_parts();
            let ends = head.method == Method::DELETE;
            let mut answer = served.service.handle(Request::from_parts(head, Full::<Bytes>::default())).await;
            if ends && answer.status() == StatusCode::ACCEPTED {
                // The client is forgotten already, and some take anything else for a failure.
                *answer.status_mut() = StatusCode::NO_CONTENT;
            }
            return answer;
        }
        let (mut head, body) = request.into_parts();
        let mut room = self.rooms.none();
        let body = match body::read(body, &self.options, &mut room).await {
            Ok(body) => body,
            Err(error) => {
                let mut answer =
                    refused(error.status(), None, ErrorData::invalid_request(error.to_string(), None));
                // What is left of it is not waited for.
                answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                return answer;
            }
        };
        let frame = match wire::look(&body) {
            Ok(frame) => frame,
            Err(Unreadable::Syntax) => {
                let error = ErrorData::parse_error("the body is not JSON", None);
                return refused(StatusCode::BAD_REQUEST, None, error);
            }
            Err(Unreadable::Shape(id, why)) => {
                return refused(StatusCode::BAD_REQUEST, id, ErrorData::invalid_request(why, None));
            }
        };
        if let Err(full) = room.for_values(frame.values) {
            let error = ErrorData::invalid_request(full.to_string(), None);
            return refused(StatusCode::SERVICE_UNAVAILABLE, frame.request, error);
        }
        if let Some(answer) = self.admit(served, &head.headers, &frame).await {
            return answer;
        }
        if let Some(arguments) = frame.arguments {
            head.extensions.insert(arguments);
        }
        head.extensions.insert(room.keep());
        let body = frame.rewritten.map_or(body, Bytes::from);
        let sent = body.clone();
        let answer = served.service.handle(Request::from_parts(head, Full::new(body))).await;
        match answer.status() {
            // It says so of what it cannot decode as well.
            StatusCode::UNSUPPORTED_MEDIA_TYPE => undecodable(&sent, frame.request).unwrap_or(answer),
            _ => signed(answer, &served.signature).await,
        }
    }

    /// Refuses what the protocol's own service would take: one client more than there may be, an id that was used.
    async fn admit(&self, served: &Served<H>, headers: &HeaderMap, frame: &Frame) -> Option<Answer> {
        if frame.method.as_deref() == Some("initialize") {
            let clients = served.clients.sessions.read().await.len();
            let full = clients >= self.options.max_clients;
            let text = "there are too many clients of this session";
            return full.then(|| plain(StatusCode::SERVICE_UNAVAILABLE, text));
        }
        let client = headers.get(CLIENT)?.to_str().ok()?;
        let id = frame.request.as_ref()?;
        let known = served.clients.sessions.read().await;
        if !known.contains_key(client) {
            return None;
        }
        let mut ids = served.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.len() > known.len() {
            ids.retain(|client, _| known.contains_key(client.as_str()));
        }
        drop(known);
        let used = ids.entry(client.to_owned()).or_default();
        if used.take(id) {
            // Answered or not: what counts is that it was used.
            used.retire(id);
            return None;
        }
        let why = format!("id {id} was used before; every request has its own");
        Some(refused(
            StatusCode::BAD_REQUEST,
            Some(id.clone()),
            ErrorData::new(ErrorCode::INVALID_REQUEST, why, None),
        ))
    }
}

/// The session that a path names.
fn session_of(path: &str) -> Option<SessionId> {
    let name = SessionId::from(path.strip_prefix(name::PLACE)?);
    name::path_of(&name).is_ok().then_some(name)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(one), None) = (given.next(), given.next()) else { return None };
    let (scheme, token) = one.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// What is said of a message that the protocol's decoder does not take.
fn undecodable(body: &[u8], request: Option<RequestId>) -> Option<Answer> {
    let error = serde_json::from_slice::<ClientJsonRpcMessage>(body).err()?;
    let error = ErrorData::invalid_request(format!("not a message: {error}"), None);
    Some(refused(StatusCode::BAD_REQUEST, request, error))
}

/// The answer with the name of whoever gives it, in whatever form it goes out.
async fn signed(answer: Answer, signature: &Arc<Signature>) -> Answer {
    let is = |mime: &str| {
        let told = answer.headers().get(header::CONTENT_TYPE).and_then(|told| told.to_str().ok());
        told.is_some_and(|told| told.starts_with(mime))
    };
    if is("application/json") {
        let (head, body) = answer.into_parts();
        // It is there already, in one piece.
        let Ok(body) = body.collect().await;
        let body = Bytes::from(signature.sign(body.to_bytes().into()));
        return Response::from_parts(head, Full::new(body).boxed());
    }
    if is("text/event-stream") {
        let signature = Arc::clone(signature);
        let sign = move |event: Bytes| signature.sign_event(&event).map_or(event, Bytes::from);
        return answer.map(|body| body.map_frame(move |frame| frame.map_data(&sign)).boxed());
    }
    answer
}

fn plain(status: StatusCode, text: &str) -> Answer {
    answer(status, "text/plain; charset=utf-8", text.to_owned().into_bytes())
}

fn refused(status: StatusCode, id: Option<RequestId>, error: ErrorData) -> Answer {
    let body = serde_json::to_vec(&JsonRpcError::new(id, error)).unwrap_or_default();
    answer(status, "application/json", body)
}

fn answer(status: StatusCode, mime: &'static str, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)).boxed());
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(mime));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_session_or_nothing() {
        assert_eq!(session_of("/mcp/main"), Some("main".into()));
        for path in [
            "/",
            "/mcp",
            "/mcp/",
            "/mcp/a/b",
            "/mcp/a%2fb",
            "/mcp/..%00",
            "/mcp/..",
            "/mcp/.wink",
            "/other/main",
        ] {
            assert_eq!(session_of(path), None, "{path}");
        }
    }
}
