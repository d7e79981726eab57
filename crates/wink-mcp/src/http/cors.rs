//! What a browser asks before a page may call, and what it has to be told before the page may read the answer.
//!
//! Only for pages that may call, which was looked at before, each by its own name. Nothing that a browser keeps for a
//! page, such as cookies, is ever wanted.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};

use super::route::Answer;

const METHODS: &str = "GET, POST, DELETE";
/// The headers of the protocol's requests, beside those that are named after a parameter.
const HEADERS: &str = "authorization, content-type, accept, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, last-event-id";
const PARAMETER: &str = "mcp-param-";
/// What a page may read beside the body.
const SHOWN: &str = "mcp-session-id, www-authenticate";
/// Seconds for which it need not be asked again. Browsers keep it no longer.
const LASTS: &str = "7200";

const ASKS_PRIVATE: HeaderName = HeaderName::from_static("access-control-request-private-network");
const ALLOWS_PRIVATE: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// The answer to a browser that asks whether a page may call. It has no token yet, and is told the same of every session,
/// whether there is one or not.
pub(super) fn preflight(method: &Method, headers: &HeaderMap) -> Option<Answer> {
    if method != Method::OPTIONS || !headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return None;
    }
    let mut answer = Response::new(Full::<Bytes>::default().boxed());
    *answer.status_mut() = StatusCode::NO_CONTENT;
    let told = answer.headers_mut();
    told.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static(METHODS));
    told.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed(headers));
    told.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(LASTS));
    // A page of the internet, and a server of this machine: whoever allowed the page wants that.
    if headers.get(ASKS_PRIVATE).is_some_and(|asked| asked == "true") {
        told.insert(ALLOWS_PRIVATE, HeaderValue::from_static("true"));
    }
    Some(answer)
}

/// The headers that a request may have: the protocol's own, and those of parameters that are asked for.
fn allowed(headers: &HeaderMap) -> HeaderValue {
    let asked = headers.get_all(header::ACCESS_CONTROL_REQUEST_HEADERS).iter();
    let asked = asked.filter_map(|names| names.to_str().ok()).flat_map(|names| names.split(','));
    let asked = asked.filter_map(|name| HeaderName::from_bytes(name.trim().as_bytes()).ok());
    let mut all = HEADERS.to_owned();
    for name in asked.filter(|name| name.as_str().starts_with(PARAMETER)) {
        all.push_str(", ");
        all.push_str(name.as_str());
    }
    HeaderValue::try_from(all).unwrap_or_else(|_| HeaderValue::from_static(HEADERS))
}

/// Lets the page read an answer, whatever it says.
pub(super) fn allow(told: &mut HeaderMap, page: HeaderValue) {
    told.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
    told.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(SHOWN));
    // Another page is told something else.
    told.append(header::VARY, HeaderValue::from_static("Origin"));
}
