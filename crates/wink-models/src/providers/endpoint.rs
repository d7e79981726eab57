//! Where a provider is, and how it is spoken to.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use wink::limits::{Clock, SystemClock};
use wink::tool::secret::Secret;

/// How an answer comes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Streaming {
    /// Piece by piece, so that it can be shown and a silent connection noticed.
    #[default]
    On,
    /// As a whole.
    Off,
}

/// An address with a key. Its `Debug` shows neither the key nor the values of headers.
#[derive(Clone)]
pub struct Endpoint {
    pub(super) base_url: String,
    pub(super) key: Option<Secret<String>>,
    pub(super) headers: Vec<(String, Secret<String>)>,
    pub(super) timeout: Duration,
    pub(super) streaming: Streaming,
    pub(super) clock: Arc<dyn Clock>,
}

impl Endpoint {
    /// The API at this URL, which is `http` or `https` and has no key in it. Proxies of the environment are used, but never for
    /// loopback.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            key: None,
            headers: Vec::new(),
            timeout: Duration::from_secs(10 * 60),
            streaming: Streaming::default(),
            clock: Arc::new(SystemClock),
        }
    }

    /// The key.
    #[must_use]
    pub fn key(mut self, key: impl Into<Secret<String>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// A further header of every request, in place of ours if it has the same name. Its value is held for a secret.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret<String>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// For how long nothing may arrive; ten minutes unless given. How long all of it may take is the caller's deadline.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How answers come; piece by piece unless given.
    #[must_use]
    pub fn streaming(mut self, streaming: Streaming) -> Self {
        self.streaming = streaming;
        self
    }

    /// Whose time it is.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("base_url", &without_secrets(&self.base_url))
            .field("key", &self.key)
            .field("headers", &self.headers)
            .field("timeout", &self.timeout)
            .field("streaming", &self.streaming)
            .finish_non_exhaustive()
    }
}

/// The URL without what may be a password or a key, however it is written.
pub(super) fn without_secrets(url: &str) -> String {
    let (address, query) = match url.split_once(['?', '#']) {
        Some((address, _)) => (address, "?***"),
        None => (url, ""),
    };
    let scheme = address.find(':').map_or("", |at| address.get(..=at).unwrap_or_default());
    match address.rsplit_once('@') {
        Some((_, host)) if ["http:", "https:"].contains(&scheme) => format!("{scheme}//***@{host}{query}"),
        Some((_, host)) => format!("***@{host}{query}"),
        None => format!("{address}{query}"),
    }
}

/// A provider cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// The base URL is none.
    #[error("`{url}` is not the base URL of an API ({reason}): give one like `https://api.example.com/v1`")]
    Url {
        /// What was given, without a password.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A header cannot be sent.
    #[error("the header `{name}` cannot be sent: its name or value has characters that no header may have")]
    Header {
        /// Its name.
        name: String,
    },
    /// The HTTP client cannot be made.
    #[error("the HTTP client cannot be made: {0}")]
    Client(String),
}
