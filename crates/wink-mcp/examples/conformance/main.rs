//! The server for the official conformance suite: this crate's own server, with the tools, prompts and resources that the
//! suite asks for by name. See `scripts/conformance`.
//!
//! What can be a tool of Wink's is one, and goes through the executor (`tools.rs`): also what asks for somebody's yes, before
//! and after it became a task, with the server's own sealed state. What only exercises the protocol is put around the server
//! by a handler of its own (`handler.rs`), since Wink asks for nothing but a yes: forms of all kinds, sampling, roots and
//! several questions at a time (`asks.rs`), a task with two open questions and one that fails as the protocol does
//! (`jobs.rs`), subscriptions, log messages and completions.
//!
//! ```text
//! conformance [ADDRESS]             over HTTP, for everybody
//! conformance --tokens=ADDRESS      over HTTP, for whoever has the token that is printed after the address
//! conformance --stdio               over stdio
//! conformance --rmcp=ADDRESS        over HTTP, rmcp's own server without any of ours, to compare (`bare.rs`)
//! ```

mod asks;
mod bare;
mod content;
mod handler;
mod jobs;
mod tools;

use std::io::Write as _;
use std::sync::Arc;

use tokio::net::TcpListener;
use wink::BoxFuture;
use wink::executor::Executor;
use wink::limits::CancelToken;
use wink::prelude::*;
use wink::session::SessionId;
use wink_mcp::{
    Access, HttpOptions, OpenError, ServedSession, Server, ServerOptions, Sessions, TokenKey, serve_http,
    serve_stdio,
};

use handler::{Fixture, State};

/// Opens any session, in memory.
struct Fresh(PromptTemplate);

impl Sessions for Fresh {
    fn open<'a>(&'a self, name: &'a SessionId) -> BoxFuture<'a, Result<Arc<ServedSession>, OpenError>> {
        Box::pin(async move {
            let prompt = self.0.prompt();
            let session = Session::builder().id(name.as_str()).build();
            let opened = Executor::open(&prompt, &session).await;
            let failed = |error: wink::executor::OpenError| OpenError::Failed {
                name: name.clone(),
                cause: error.into(),
            };
            let mut options = ServerOptions::default();
            options.task_after = tools::TASK_AFTER;
            Ok(Arc::new(ServedSession::new(prompt, opened.map_err(failed)?, options)))
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    if let Some(address) = argument.strip_prefix("--rmcp=") {
        return bare::serve(address).await;
    }
    let sessions = Arc::new(Fresh(tools::template()?));
    let state = Arc::new(State::default());
    let make = move |server| Fixture::new(server, Arc::clone(&state));
    let name = SessionId::from("conformance");
    if argument == "--stdio" {
        let session = sessions.open(&name).await?;
        return Ok(serve_stdio(make(Server::new(session)), &ServerOptions::default()).await?);
    }
    // The suite has no tokens.
    let (address, access, token) = match argument.strip_prefix("--tokens=") {
        None => (argument.as_str(), Access::Open, String::new()),
        Some(address) => {
            let key = TokenKey::fresh();
            let token = key.token(&name);
            (address, Access::Tokens(key), token)
        }
    };
    let listener = TcpListener::bind(address).await?;
    // For whoever started it, to know where it is.
    writeln!(std::io::stdout(), "http://{}/mcp/{name} {token}", listener.local_addr()?)?;
    serve_http(listener, sessions, HttpOptions::new(access), make, CancelToken::new()).await?;
    Ok(())
}
