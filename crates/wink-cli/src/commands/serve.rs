//! `wink serve`: the agent's tools as an MCP server, for the client that started it or over HTTP.

use std::io::{self, IsTerminal, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::net::{TcpListener, TcpSocket};
use wink::BoxFuture;
use wink::filesystem::STATE;
use wink::limits::CancelToken;
use wink::session::SessionId;
use wink::tool::AdapterInfo;
use wink_agent::Agent;
use wink_mcp::{
    Access, FILES_FOR_CALLS, HttpOptions, Listing, NoPath, OpenError, ServeError, ServedSession, Server,
    ServerOptions, Sessions, TokenKey, path_of, serve_http, serve_stdio,
};
use wink_store::Workspace;

use super::ending::Ending;
use super::open;
use super::row::LogRow;
use crate::args::{Common, ServeArgs};
use crate::frame::{self, CliError, Done, Exit, note};

/// Where the secret is kept that tokens are made of, so that clients need not be told another one each time.
const KEY: &str = "mcp-key";

pub(super) async fn run(common: &Common, serve: ServeArgs) -> Done {
    let name: SessionId = common.session.as_str().into();
    // Over HTTP not every session can be served, and none is told of that cannot.
    let path = match serve.http.is_some() || serve.print_token {
        true => path_of(&name)
            .map_err(|error| CliError::new(Exit::Usage, error.to_string()).hint(NoPath::RULE))?,
        false => String::new(),
    };
    if serve.print_token {
        let workspace = open::workspace(common)?;
        let token = key(&workspace)?.token(&name);
        return match common.json {
            true => frame::print_json(&json!({ "session": common.session, "token": token })),
            false => frame::print(&token),
        };
    }
    let agent = open::agent(common)?;
    let address = serve.http.as_deref().map(address).transpose()?;
    let workspace = open::workspace(common)?;
    let agent = open::settled(&agent, &workspace, common)?;
    let listing = Listing::of(agent.prompt());
    let served = Arc::new(Served { agent, workspace, listing, open: Mutex::default() });
    let ended = match address {
        None => over_stdio(&name, &served).await,
        Some(address) => over_http(common, &served, (address, &path), serve).await,
    };
    // Every call has its event before the program ends.
    let open = std::mem::take(&mut *served.open.lock().unwrap_or_else(PoisonError::into_inner));
    for session in open {
        session.executor().cancel();
        session.close().await;
    }
    ended
}

/// Serves whoever started this process, until they close their end.
async fn over_stdio(name: &SessionId, served: &Served) -> Done {
    let session = served.session(name).await.map_err(|error| open::not_open(&error))?;
    let options = session.options().clone();
    if io::stdin().is_terminal() {
        note("this speaks MCP over standard input and output, for a client that starts it; Ctrl-C ends it");
    }
    let mut ending = Ending::listen()?;
    tokio::select! {
        ended = serve_stdio(Server::new(session), &options) => {
            ended.map_err(|error| match error {
                ServeError::Handshake(_) => CliError::new(Exit::Usage, error.to_string()),
                error => CliError::internal(error),
            })?;
        }
        () = ending.told() => {}
    }
    Ok(Exit::Success)
}

/// Serves whoever has a session's token, until somebody wants the program to end.
async fn over_http(
    common: &Common,
    served: &Arc<Served>,
    (address, path): (SocketAddr, &str),
    serve: ServeArgs,
) -> Done {
    let key = key(&served.workspace)?;
    let listener = listen(address).map_err(|error| {
        CliError::new(Exit::Usage, format!("{address} cannot be listened at: {error}"))
            .hint("port 0 takes any that is free")
    })?;
    let address = listener.local_addr().map_err(CliError::internal)?;
    let url = format!("http://{address}{path}");
    let token = key.token(&common.session.as_str().into());
    // Whoever knows that it serves may have it end.
    let mut ending = Ending::listen()?;
    match common.json {
        true => frame::print_json(&json!({ "url": url, "session": common.session, "token": token }))?,
        false => frame::print(&format!(
            "serving the agent {} at {url}\nAuthorization: Bearer {token}",
            served.agent.name()
        ))?,
    };
    let mut options = HttpOptions::new(Access::Tokens(key));
    options.allowed_origins = serve.allow_origin;
    options.allowed_hosts = serve.allow_host;
    allow_files(options.max_connections.saturating_add(FILES_FOR_CALLS));
    let cancel = CancelToken::new();
    let sessions: Arc<dyn Sessions> = Arc::clone(served) as _;
    let mut serving =
        std::pin::pin!(serve_http(listener, sessions, options, |server| server, cancel.clone()));
    tokio::select! {
        ended = &mut serving => ended.map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => CliError::new(Exit::Usage, error.to_string()),
            _ => CliError::internal(error),
        })?,
        () = ending.told() => {
            cancel.cancel();
            serving.await.map_err(CliError::internal)?;
        }
    }
    Ok(Exit::Success)
}

/// Listens, with room for as many that have not been accepted yet as the system gives.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // One that has just ended does not keep the next from its port.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(4096)
}

/// Has this process, and the commands that it starts, open so many files, if the system lets it. No more: there are programs
/// that go through all that they may have open.
fn allow_files(wanted: usize) {
    let now = getrlimit(Resource::Nofile);
    let wanted = u64::try_from(wanted).unwrap_or(u64::MAX);
    let wanted = now.maximum.map_or(wanted, |most| wanted.min(most));
    if now.current.is_some_and(|current| current < wanted) {
        // What there is is enough to serve fewer.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: now.maximum });
    }
}

/// The sessions of one agent in one workspace.
struct Served {
    agent: Agent,
    workspace: Arc<Workspace>,
    /// Its tools, which are the same in every session.
    listing: Listing,
    open: Mutex<Vec<Arc<ServedSession>>>,
}

impl Served {
    async fn session(&self, name: &SessionId) -> Result<Arc<ServedSession>, wink_agent::OpenError> {
        let surface = |builder: wink::executor::ExecutorBuilder| builder.adapter(AdapterInfo::new("mcp"));
        let opened = self.agent.open_with(&self.workspace, name.as_str(), surface).await?;
        let (prompt, executor) = (opened.prompt().clone(), opened.executor().clone());
        let shown = name.to_string();
        // As `wink log` has it.
        let session =
            ServedSession::listed_as(self.listing.clone(), prompt, executor, ServerOptions::default())
                .log_form(move |entry| serde_json::to_value(LogRow::of(entry, &shown)).unwrap_or_default());
        let session = Arc::new(session);
        self.open.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&session));
        Ok(session)
    }
}

impl Sessions for Served {
    fn open<'a>(&'a self, name: &'a SessionId) -> BoxFuture<'a, Result<Arc<ServedSession>, OpenError>> {
        Box::pin(async move {
            let opened = self.session(name).await;
            opened.map_err(|error| OpenError::Failed { name: name.clone(), cause: Box::new(error) })
        })
    }

    fn let_go(&self, session: Arc<ServedSession>) -> BoxFuture<'_, ()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|other| !Arc::ptr_eq(other, &session));
        drop(open);
        Box::pin(async move {
            // Calls are stored already; that the prompt was rendered since may not be.
            if let Err(error) = session.executor().session().flush().await {
                tracing::error!(%error, session = %session.name(), "the end of a session could not be stored");
            }
            if let Err(error) = session.executor().clone().close().await {
                tracing::warn!(%error, session = %session.name(), "what a session had open could not be closed");
            }
        })
    }
}

/// Where to listen: an address of this machine's own, or a port of it.
fn address(text: &str) -> Result<SocketAddr, CliError> {
    let port = text.parse().map(|port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let address: SocketAddr = port.or_else(|_| text.parse()).map_err(|_| {
        CliError::new(Exit::Usage, format!("'{text}' is no address"))
            .hint("an address and a port, such as 127.0.0.1:8377, or a port alone")
    })?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(CliError::new(Exit::Usage, format!("{address} can be reached from other machines"))
            .hint(
                "tokens are sent as they are: listen at 127.0.0.1, and put something in front that encrypts",
            )),
    }
}

/// The secret that the tokens of this workspace are made of; made when it is first wanted.
fn key(workspace: &Workspace) -> Result<TokenKey, CliError> {
    let state = workspace.files().root().join(STATE);
    let path = state.join(KEY);
    let failed = |error: io::Error| CliError::internal(format!("{}: {error}", path.display()));
    if let Some(key) = read_key(&path)? {
        return Ok(key);
    }
    // Whole, or not there: others may be doing the same.
    let mut file = tempfile::Builder::new().prefix("new-key-").tempfile_in(&state).map_err(failed)?;
    let fresh = TokenKey::fresh();
    file.write_all(hex(fresh.as_bytes()).as_bytes()).map_err(failed)?;
    file.as_file().sync_all().map_err(failed)?;
    match file.persist_noclobber(&path) {
        Ok(_) => Ok(fresh),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
            read_key(&path)?.ok_or_else(|| failed(error.error))
        }
        Err(error) => Err(failed(error.error)),
    }
}

fn read_key(path: &Path) -> Result<Option<TokenKey>, CliError> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| CliError::internal(format!("{}: {error}", path.display())))?,
    };
    let digits = text.trim().as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> =
        digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect();
    let key = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok()).map(TokenKey::from_bytes);
    key.map(Some).ok_or_else(|| {
        CliError::new(Exit::Usage, format!("{} is no key", path.display()))
            .hint("remove it: another is made, and clients need their tokens anew")
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
