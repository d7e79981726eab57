//! One request over HTTP: sent, cancelled, timed and bounded.

use std::error::Error;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};
use wink::limits::{CancelToken, Clock};
use wink::tool::secret::Secret;

use super::api::Api;
use super::endpoint::{Endpoint, SetupError, without_secrets};
use super::{error, secrets};
use crate::recording::Scrubber;
use crate::{ModelError, ModelErrorKind};

/// Bytes of an answer at most, and of one that says why there is none. The longest arguments that a tool takes fit in, however they are
/// written; what is said in a run is kept.
const MAX_ANSWER: usize = 24 << 20;
const MAX_REFUSAL: usize = 64 << 10;
/// How long it may take to reach the provider at all.
const CONNECT_WITHIN: Duration = Duration::from_secs(30);

/// A connection to one address.
pub(super) struct Wire {
    client: Client,
    url: Url,
    headers: HeaderMap,
    clock: Arc<dyn Clock>,
    timeout: Duration,
    scrubber: Scrubber,
}

impl Wire {
    pub(super) fn new(endpoint: Endpoint, api: &dyn Api) -> Result<Self, SetupError> {
        let url = url(&endpoint.base_url, api.path())?;
        let headers = headers(&endpoint, api)?;
        // Fails when somebody else has chosen one, which then is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut client = Client::builder()
            .user_agent(concat!("wink/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_WITHIN)
            // The key is for this address and no other.
            .redirect(Policy::none());
        if url.scheme() == "http" {
            // Nothing is encrypted, so a machine without certificates is as good as any.
            client = client.tls_certs_only([]);
        }
        if is_loopback(&url) {
            client = client.no_proxy();
        } else if url.scheme() == "http" && endpoint.key.is_some() {
            tracing::warn!(host = url.host_str(), "a key is sent without encryption");
        }
        let client = client.build().map_err(|reason| SetupError::Client(describe(reason)))?;
        let secrets = endpoint.headers.into_iter().map(|(_, value)| value).chain(endpoint.key);
        // One that is too short to be found again is no secret.
        let know = |known: Scrubber, secret: Secret<String>| known.clone().knowing(&secret).unwrap_or(known);
        let scrubber = secrets.fold(Scrubber::new(), know);
        Ok(Self { client, url, headers, clock: endpoint.clock, timeout: endpoint.timeout, scrubber })
    }

    /// Sends a request, and hands out the answer if it is one.
    pub(super) async fn post<'a>(
        &'a self,
        body: Vec<u8>,
        cancel: &'a CancelToken,
    ) -> Result<Answer<'a>, ModelError> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body);
        let response = self.within(cancel, request.send()).await?.map_err(|reason| self.unreached(reason))?;
        let status = response.status();
        let mut answer = Answer { wire: self, cancel, response, left: MAX_ANSWER };
        if status == StatusCode::OK {
            return Ok(answer);
        }
        let headers = answer.response.headers().clone();
        // Why there is no answer is worth having, and no reason to fail otherwise.
        let mut said = Vec::new();
        while said.len() < MAX_REFUSAL {
            match answer.chunk().await {
                Ok(Some(more)) => said.extend_from_slice(&more),
                Err(reason) if reason.kind == ModelErrorKind::Cancelled => return Err(reason),
                Ok(None) | Err(_) => break,
            }
        }
        Err(error::of_status(status, &headers, &said, self.clock.now()))
    }

    /// Says where nobody could be reached: it may have been written wrong.
    fn unreached(&self, reason: reqwest::Error) -> ModelError {
        let mut error = connection(reason);
        error.message = format!("{} ({})", error.message, self.url.origin().ascii_serialization());
        error
    }

    /// The error without keys, and not too long.
    pub(super) fn masked(&self, mut error: ModelError) -> ModelError {
        error.message = error::bounded(secrets::mask(&error.message, &self.scrubber));
        error
    }

    /// Knows the keys.
    pub(super) fn scrubber(&self) -> &Scrubber {
        &self.scrubber
    }

    async fn within<T>(&self, cancel: &CancelToken, work: impl Future<Output = T>) -> Result<T, ModelError> {
        let until = self.clock.monotonic().saturating_add(self.timeout);
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(error::new(ModelErrorKind::Cancelled, "nobody waits for the answer any more")),
            done = work => Ok(done),
            () = self.clock.sleep_until(until) => {
                Err(error::new(ModelErrorKind::TimedOut, format!("nothing arrived for {:?}", self.timeout)))
            }
        }
    }
}

/// An answer that is being read. Dropping it closes the connection.
pub(super) struct Answer<'a> {
    wire: &'a Wire,
    cancel: &'a CancelToken,
    response: Response,
    left: usize,
}

impl Answer<'_> {
    pub(super) fn is_event_stream(&self) -> bool {
        let name = self.response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        name.is_some_and(|name| name.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
    }

    /// The next bytes.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, ModelError> {
        let chunk = self.wire.within(self.cancel, self.response.chunk()).await?.map_err(connection)?;
        self.left = match &chunk {
            Some(chunk) => self.left.checked_sub(chunk.len()).ok_or_else(|| {
                error::malformed(format_args!("the answer is longer than {MAX_ANSWER} bytes"))
            })?,
            None => self.left,
        };
        Ok(chunk)
    }

    /// All of it.
    pub(super) async fn whole(mut self) -> Result<Vec<u8>, ModelError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }
}

fn url(base: &str, path: &str) -> Result<Url, SetupError> {
    let refused = |reason: &str| SetupError::Url { url: without_secrets(base), reason: reason.to_owned() };
    let mut url = Url::parse(base).map_err(|reason| refused(&reason.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("it is neither http nor https"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("it has a key in it; give that as the key"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refused("it has more than a path; give a key as the key"));
    }
    let before = url.path().trim_end_matches('/');
    // As other libraries have it, the version is part of the base.
    let path = if before.ends_with("/v1") { path.strip_prefix("/v1").unwrap_or(path) } else { path };
    let whole = format!("{before}{path}");
    url.set_path(&whole);
    Ok(url)
}

fn headers(endpoint: &Endpoint, api: &dyn Api) -> Result<HeaderMap, SetupError> {
    let mut headers = HeaderMap::new();
    let mut insert = |name: &str, value: &str| -> Result<(), SetupError> {
        let refused = || SetupError::Header { name: name.to_owned() };
        let header = HeaderName::try_from(name).map_err(|_| refused())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| refused())?;
        value.set_sensitive(true);
        headers.insert(header, value);
        Ok(())
    };
    insert(CONTENT_TYPE.as_str(), "application/json")?;
    for (name, value) in api.headers() {
        insert(name, value)?;
    }
    if let Some(key) = &endpoint.key {
        let (name, before) = api.key_header();
        insert(name, &format!("{before}{}", key.expose()))?;
    }
    for (name, value) in &endpoint.headers {
        insert(name, value.expose())?;
    }
    Ok(headers)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let name = host.trim_end_matches('.');
    name == "localhost"
        || name.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn connection(reason: reqwest::Error) -> ModelError {
    let kind = if reason.is_timeout() { ModelErrorKind::TimedOut } else { ModelErrorKind::Connection };
    error::new(kind, describe(reason))
}

/// The error with its causes, and without the URL.
fn describe(reason: reqwest::Error) -> String {
    let reason = reason.without_url();
    let mut text = reason.to_string();
    let mut cause = reason.source();
    while let Some(next) = cause {
        // Writing to a string cannot fail.
        let _ = write!(text, ": {next}");
        cause = next.source();
    }
    text
}
