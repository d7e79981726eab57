//! One client at the other end of two pipes: a message a line, nothing else.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::service::{QuitReason, ServerInitializeError};
use rmcp::transport::{Transport, TransportAdapterIdentity};
use rmcp::{RoleServer, ServerHandler, serve_server};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Notify, Semaphore};

use crate::ids::Ids;
use crate::options::ServerOptions;
use crate::room::Rooms;
use crate::signed::Signature;
use crate::skim::Skim;
use crate::wire::{self, Unreadable};

/// Serves the client that started this process, until it closes its end.
///
/// # Errors
/// See [`ServeError`].
pub async fn serve_stdio<H: ServerHandler>(server: H, options: &ServerOptions) -> Result<(), ServeError> {
    let (input, output) = rmcp::transport::io::stdio_pipes();
    serve_lines(server, input, output, options).await
}

/// Serves a client at the other end of any two streams, until it closes its end.
///
/// # Errors
/// See [`ServeError`].
pub async fn serve_lines<H, R, W>(
    server: H,
    input: R,
    output: W,
    options: &ServerOptions,
) -> Result<(), ServeError>
where
    H: ServerHandler,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let signature = Signature::of(&server.get_info().server_info);
    let lines = Lines::new(input, output, signature, options);
    let running = match serve_server::<_, _, _, TransportAdapterIdentity>(server, lines).await {
        Ok(running) => running,
        // Whoever goes before the first request has had nothing to say.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(ServerInitializeError::TransportError { error, .. }) => {
            return Err(ServeError::Connection(error.error.to_string()));
        }
        Err(error) => return Err(ServeError::Handshake(error.to_string())),
    };
    match running.waiting().await {
        Ok(QuitReason::JoinError(error)) | Err(error) => Err(ServeError::Server(error.to_string())),
        Ok(_) => Ok(()),
    }
}

/// Why a client is not served any more, though it did not close its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// It began with something else than the protocol.
    #[error("the client is no MCP client: {0}")]
    Handshake(String),
    /// It could not be answered.
    #[error("the client cannot be reached: {0}")]
    Connection(String),
    /// The server itself broke.
    #[error("the server broke: {0}")]
    Server(String),
}

/// The transport.
struct Lines<R, W> {
    input: BufReader<R>,
    /// What has come of a line. Kept here, since reading is given up and begun again whenever something else happens.
    line: Vec<u8>,
    /// A line that is too long is passed over.
    skipped: Option<Skim>,
    longest: usize,
    most_unanswered: usize,
    rooms: Rooms,
    output: Arc<tokio::sync::Mutex<W>>,
    signature: Arc<Signature>,
    shared: Arc<Shared>,
    refusals: Arc<Semaphore>,
    /// For those that nobody can be found to wait for, which keep no others from being written.
    nameless: Arc<Semaphore>,
}

/// How many refusals of each kind wait to be written.
const REFUSALS: usize = 64;

#[derive(Default)]
struct Shared {
    ids: Mutex<Ids>,
    answered: Notify,
}

impl Shared {
    fn ids(&self) -> MutexGuard<'_, Ids> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This request was cancelled.
    fn retire(&self, id: &RequestId) {
        self.ids().retire(id);
        self.answered.notify_one();
    }

    /// This request is answered by its refusal, for which nobody is kept waiting.
    fn refuse(&self, id: &RequestId) {
        let mut ids = self.ids();
        if ids.leaves(id) {
            ids.left();
        }
        drop(ids);
        self.answered.notify_one();
    }
}

/// What came of reading.
enum Read {
    Line,
    TooLong(Skim),
    End,
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Lines<R, W> {
    fn new(input: R, output: W, signature: Signature, options: &ServerOptions) -> Self {
        Self {
            input: BufReader::new(input),
            line: Vec::new(),
            skipped: None,
            longest: options.max_message_bytes,
            most_unanswered: options.max_unanswered,
            rooms: Rooms::new(options.max_message_memory),
            output: Arc::new(tokio::sync::Mutex::new(output)),
            signature: Arc::new(signature),
            shared: Arc::default(),
            refusals: Arc::new(Semaphore::new(REFUSALS)),
            nameless: Arc::new(Semaphore::new(REFUSALS)),
        }
    }

    /// Reads up to the end of a line. May be dropped at any await: what was read is in `self`.
    async fn read(&mut self) -> Read {
        loop {
            let Ok(available) = self.input.fill_buf().await else { return Read::End };
            if available.is_empty() {
                return Read::End;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let piece = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
            let taken = piece.len().saturating_add(usize::from(end.is_some()));
            if self.skipped.is_none() && self.line.len().saturating_add(piece.len()) > self.longest {
                self.skipped.get_or_insert_default().pass(&std::mem::take(&mut self.line));
            }
            match &mut self.skipped {
                Some(skim) => skim.pass(piece),
                None => self.line.extend_from_slice(piece),
            }
            self.input.consume(taken);
            if end.is_some() {
                return self.skipped.take().map_or(Read::Line, Read::TooLong);
            }
        }
    }

    /// What a line says, if it is for the server.
    fn understand(&mut self) -> Option<ClientJsonRpcMessage> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        if line.is_empty() {
            return None;
        }
        let frame = match wire::look(line) {
            Ok(frame) => frame,
            // Whoever wrote it waits for something, and nobody can say under which id.
            Err(Unreadable::Syntax) => {
                return self.refuse(None, ErrorData::parse_error("the line is not JSON", None));
            }
            Err(Unreadable::Shape(id, why)) => return self.refuse(id, invalid(why)),
        };
        if frame.method.as_deref() == Some("initialize") {
            self.shared.ids().shake_hands();
        }
        if let Some(id) = &frame.request
            && !self.shared.ids().take(id)
        {
            let why = format!("id {id} was used before; every request has its own");
            return self.refuse(Some(id.clone()), invalid(why));
        }
        let mut room = self.rooms.none();
        if let Err(full) = room.for_bytes(line.len()).and_then(|()| room.for_values(frame.values)) {
            if let Some(id) = &frame.request {
                self.shared.refuse(id);
            }
            return self.refuse(frame.request, invalid(full.to_string()));
        }
        if let Some(id) = &frame.cancels {
            self.shared.retire(id);
        }
        let text = frame.rewritten.as_deref().unwrap_or(line);
        match serde_json::from_slice::<ClientJsonRpcMessage>(text) {
            Ok(mut message) => {
                if let Some(arguments) = frame.arguments {
                    message.insert_extension(arguments);
                }
                message.insert_extension(room.keep());
                Some(message)
            }
            Err(error) => {
                if let Some(id) = &frame.request {
                    self.shared.refuse(id);
                }
                // A notification that nobody knows is nobody's business.
                if frame.request.is_none() && frame.method.is_some() {
                    return None;
                }
                self.refuse(frame.request, invalid(format!("not a message: {error}")))
            }
        }
    }

    /// Says that a message was not taken. Written by somebody else: whoever reads may be dropped at any time, and half a
    /// line is worse than none.
    fn refuse(&self, id: Option<RequestId>, why: ErrorData) -> Option<ClientJsonRpcMessage> {
        tracing::debug!(why = &*why.message, "a message was refused");
        // A client that sends nothing else, and reads nothing, is not told more often.
        let room = if id.is_some() { &self.refusals } else { &self.nameless };
        let permit = Arc::clone(room).try_acquire_owned().ok()?;
        let output = Arc::clone(&self.output);
        tokio::spawn(async move {
            let answer = ServerJsonRpcMessage::error(why, id);
            let written = match serde_json::to_vec(&answer) {
                Ok(line) => write(&output, line).await,
                Err(error) => Err(error.into()),
            };
            if let Err(error) = written {
                tracing::debug!(%error, "a refusal could not be written");
            }
            drop(permit);
        });
        None
    }
}

fn invalid(why: String) -> ErrorData {
    ErrorData::invalid_request(why, None)
}

/// What is said of a message that is too long.
pub(crate) fn too_long(most: usize) -> String {
    format!("a message has at most {most} bytes; this one was passed over")
}

async fn write<W: AsyncWrite + Unpin>(output: &tokio::sync::Mutex<W>, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    let mut output = output.lock().await;
    output.write_all(&line).await?;
    output.flush().await
}

impl<R: AsyncRead + Send + Unpin, W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer>
    for Lines<R, W>
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (output, shared) = (Arc::clone(&self.output), Arc::clone(&self.shared));
        let signature = Arc::clone(&self.signature);
        async move {
            let answered = match &message {
                ServerJsonRpcMessage::Response(response) => Some(&response.id),
                ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
                _ => None,
            };
            // Before it is written: then the client may use the id again. Whether it reads is seen after that.
            let waited = answered.is_some_and(|id| shared.ids().leaves(id));
            let written = match serde_json::to_vec(&message) {
                Ok(line) => write(&output, signature.sign(line)).await,
                Err(error) => Err(error.into()),
            };
            if waited {
                shared.ids().left();
                shared.answered.notify_one();
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            // A client that does not read its answers is not read either.
            while self.shared.ids().open() >= self.most_unanswered {
                self.shared.answered.notified().await;
            }
            match self.read().await {
                Read::Line => {
                    if let Some(message) = self.understand() {
                        return Some(message);
                    }
                }
                Read::TooLong(skimmed) => {
                    let request = skimmed.request();
                    if let Some(id) = &request {
                        let taken = self.shared.ids().take(id);
                        if taken {
                            self.shared.refuse(id);
                        }
                    }
                    self.refuse(request, invalid(too_long(self.longest)));
                }
                Read::End => return None,
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output.lock().await.shutdown().await
    }
}
