//! Streamable HTTP: one path for each session, `/mcp/{session}`, each with its own token.

mod body;
mod connections;
mod cors;
mod guard;
mod name;
mod open;
mod origin;
mod route;
mod token;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rmcp::ServerHandler;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use wink::limits::{CancelToken, Clock};

use crate::options::ServerOptions;
use crate::server::Server;
use crate::session::Sessions;
use connections::{Connections, Place};
use guard::{ClockTimer, Guarded};
pub use name::{NoPath, path_of};
pub(crate) use open::Stay;
use route::Router;
pub use token::TokenKey;

/// How many of the files that a process may have open connections leave to calls, where there are enough of them; half
/// of all, where there are not.
pub const FILES_FOR_CALLS: usize = 512;

/// How long it is not told again that connections cannot be accepted, of which there may be many.
const TELL_AGAIN: Duration = Duration::from_secs(60);

/// Who gets in.
#[derive(Debug, Clone)]
pub enum Access {
    /// Whoever has the token of the session.
    Tokens(TokenKey),
    /// Everybody who reaches the address. For tests on loopback.
    Open,
}

/// What a server over HTTP holds its clients to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpOptions {
    /// What holds whatever is spoken over.
    pub server: ServerOptions,
    /// Who gets in.
    pub access: Access,
    /// Origins of pages that may call, beside those of this machine: `https://example.com:443`, `https://example.com:*`. Their
    /// browsers are told so (CORS); a page needs the token like everybody else.
    pub allowed_origins: Vec<String>,
    /// Names under which the server may be called, beside those of this machine: `example.com`.
    pub allowed_hosts: Vec<String>,
    /// How many connections there may be; fewer, if the process may not have so many files open ([`FILES_FOR_CALLS`]). A
    /// quarter of them, at most 512, is for those that have not shown a token yet: of these the oldest is let go when
    /// another comes.
    pub max_connections: usize,
    /// How many sessions may be open. For one more, the one is let go that nobody has used for longest.
    pub max_sessions: usize,
    /// How long a session is kept open that has no clients and no calls, questions or tasks on their way. It is opened again when
    /// somebody comes.
    pub session_idle: Duration,
    /// How many clients of one session may have shaken hands (revisions before 2026-07-28).
    pub max_clients: usize,
    /// How long a client that has shaken hands may say nothing before it is forgotten.
    pub client_idle: Duration,
    /// How long the head of a request may take.
    pub head_within: Duration,
    /// How long the body of a request may take.
    pub body_within: Duration,
    /// How long a client may take nothing of what is sent to it.
    pub write_within: Duration,
}

impl HttpOptions {
    /// The usual bounds, for those who have a session's token.
    pub fn new(access: Access) -> Self {
        Self {
            server: ServerOptions::default(),
            access,
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            max_connections: 4096,
            max_sessions: 1024,
            session_idle: Duration::from_secs(60 * 60),
            max_clients: 4096,
            client_idle: Duration::from_secs(60 * 60),
            head_within: Duration::from_secs(10),
            body_within: Duration::from_secs(30),
            write_within: Duration::from_secs(60),
        }
    }
}

/// Serves until it is cancelled, and then until every call is over. `make` makes the handler of a connection of the session's server: `|server| server`, for
/// an agent's tools and nothing else.
///
/// Bind the listener to loopback unless there is something in front of it that encrypts: tokens are sent as they are.
///
/// # Errors
/// When what is to be allowed is no origin or no host.
pub async fn serve_http<H: ServerHandler>(
    listener: TcpListener,
    sessions: Arc<dyn Sessions>,
    options: HttpOptions,
    make: impl Fn(Server) -> H + Send + Sync + 'static,
    cancel: CancelToken,
) -> io::Result<()> {
    let most = connections::within_files(options.max_connections);
    let connections = Arc::new(Connections::new(most));
    // One that was let go has its file until its task has seen it; so long, no more than one other comes.
    let files = Arc::new(Semaphore::new(most.saturating_add(1).min(Semaphore::MAX_PERMITS)));
    let clock = Arc::clone(&options.server.clock);
    let router = Router::new(sessions, options, make);
    let router = Arc::new(router.map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?);
    let sweep_later = || {
        let idle = router.options().session_idle;
        clock.sleep_until(clock.monotonic().saturating_add((idle / 4).max(Duration::from_secs(1))))
    };
    let mut sweep = sweep_later();
    let mut told = None;
    loop {
        let accepting = async {
            let file = Arc::clone(&files).acquire_owned().await;
            listener.accept().await.map(|(stream, _)| (stream, file))
        };
        let accepted = tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            () = &mut sweep => {
                let router = Arc::clone(&router);
                tokio::spawn(async move { router.sweep().await });
                sweep = sweep_later();
                continue;
            }
            accepted = accepting => accepted,
        };
        let (stream, file) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of files, most likely. Connections end, and then there are some again.
                let now = clock.monotonic();
                if told.is_none_or(|told: Duration| now.saturating_sub(told) >= TELL_AGAIN) {
                    tracing::warn!(%error, "a connection could not be accepted");
                    told = Some(now);
                }
                connections.drop_oldest();
                clock.sleep_until(clock.monotonic().saturating_add(Duration::from_millis(50))).await;
                continue;
            }
        };
        let place = connections.begin();
        let (router, cancel) = (Arc::clone(&router), cancel.clone());
        tokio::spawn(async move {
            serve_connection(stream, Arc::new(place), router, cancel).await;
            drop(file);
        });
    }
    router.close().await;
    Ok(())
}

async fn serve_connection<H: ServerHandler>(
    stream: TcpStream,
    place: Arc<Place>,
    router: Arc<Router<H>>,
    cancel: CancelToken,
) {
    let options = router.options();
    let clock: Arc<dyn Clock> = Arc::clone(&options.server.clock);
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(Guarded::new(stream, Arc::clone(&clock), options.write_within));
    let mut builder = http1::Builder::new();
    builder
        .timer(ClockTimer(clock))
        .header_read_timeout(options.head_within)
        .max_buf_size(64 * 1024)
        .max_headers(100);
    let its = Arc::clone(&place);
    let service = service_fn(move |request| {
        let (router, place) = (Arc::clone(&router), Arc::clone(&its));
        async move { Ok::<_, std::convert::Infallible>(router.answer(request, &place).await) }
    });
    let mut connection = std::pin::pin!(builder.serve_connection(io, service));
    let ended = tokio::select! {
        // Whoever has said who it is is heard before it is let go.
        biased;
        ended = connection.as_mut() => ended,
        () = place.let_go() => return,
        () = cancel.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
