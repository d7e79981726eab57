//! Where a request says that it comes from, and whom it says that it calls: pages of others, and names that others have
//! given to this machine's address, are refused before anything else is looked at.

use std::net::Ipv6Addr;

use http::{HeaderMap, Uri, header};

/// Names of this machine, for itself.
const LOCAL: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Who may be called, and from where.
#[derive(Debug)]
pub(super) struct Callers {
    hosts: Vec<Authority>,
    origins: Vec<Page>,
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Stranger {
    #[error("a request has one Host header, a name and a port")]
    NoHost,
    #[error("a request for one host cannot be sent to another")]
    TwoHosts,
    #[error("this server is not called by that name; `--allow-host` allows one")]
    Host,
    #[error("an origin is one scheme, one host and one port")]
    NoOrigin,
    #[error("pages from there may not call; `--allow-origin` allows one")]
    Origin,
}

/// A host, and the port if one is given.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Authority {
    host: String,
    port: Option<u16>,
}

/// An origin that is allowed.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    scheme: String,
    host: String,
    /// Any, if there is none.
    port: Option<u16>,
}

impl Callers {
    /// This machine, and these.
    pub(super) fn new(hosts: &[String], origins: &[String]) -> Result<Self, String> {
        let host = |text: &String| {
            let bare = text.parse::<Ipv6Addr>().map(|_| format!("[{text}]"));
            Authority::parse(bare.as_deref().unwrap_or(text))
                .ok_or_else(|| format!("'{text}' is no host: a name or an address, such as example.com"))
        };
        let own = LOCAL.iter().filter_map(|host| Authority::parse(host));
        let hosts = own.map(Ok).chain(hosts.iter().map(host)).collect::<Result<Vec<_>, _>>()?;
        let page = |text: &String| {
            Page::parse(text).ok_or_else(|| {
                format!("'{text}' is no origin: scheme, host and port, such as https://example.com:443")
            })
        };
        let own = ["http", "https"].into_iter().flat_map(|scheme| {
            LOCAL.map(|host| Page { scheme: scheme.to_owned(), host: host.to_owned(), port: None })
        });
        let origins = own.map(Ok).chain(origins.iter().map(page)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { hosts, origins })
    }

    /// Whether this request may come in.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Stranger> {
        let host = only(headers, &header::HOST).map_err(|()| Stranger::NoHost)?;
        let host = host.and_then(Authority::parse).ok_or(Stranger::NoHost)?;
        // A target with a host in it counts more than the header; so both say the same, or nobody knows who is meant.
        if let Some(target) = uri.authority() {
            let same = Authority::parse(target.as_str()).is_some_and(|target| target == host);
            if !same || uri.scheme_str() != Some("http") {
                return Err(Stranger::TwoHosts);
            }
        }
        let known = |own: &Authority| own.host == host.host && (own.port.is_none() || own.port == host.port);
        if !self.hosts.iter().any(known) {
            return Err(Stranger::Host);
        }
        let Some(origin) = only(headers, &header::ORIGIN).map_err(|()| Stranger::NoOrigin)? else {
            return Ok(());
        };
        let (scheme, host, port) = origin_of(origin).ok_or(Stranger::NoOrigin)?;
        let known = |page: &Page| {
            page.scheme == scheme && page.host == host && (page.port.is_none() || page.port == port)
        };
        if self.origins.iter().any(known) { Ok(()) } else { Err(Stranger::Origin) }
    }
}

impl Authority {
    /// A name or an address, and a port or none: no user, and nothing that could be taken for something else.
    fn parse(text: &str) -> Option<Self> {
        let end = match text.strip_prefix('[') {
            Some(_) => text.find(']')?.checked_add(1)?,
            None => text.find(':').unwrap_or(text.len()),
        };
        let (host, port) = text.split_at_checked(end)?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => format!("[{}]", address.parse::<Ipv6Addr>().ok()?),
            None => host.to_ascii_lowercase(),
        };
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        if host.is_empty() || !(host.starts_with('[') || host.bytes().all(fits)) {
            return None;
        }
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            None => return None,
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => Some(digits.parse().ok()?),
            Some(_) => return None,
        };
        Some(Self { host, port })
    }
}

impl Page {
    fn parse(text: &str) -> Option<Self> {
        let (text, any) = text.strip_suffix(":*").map_or((text, false), |text| (text, true));
        let (scheme, host, port) = origin_of(text)?;
        match any {
            true if text.matches(':').count() > 1 && !text.ends_with(']') => None,
            true => Some(Self { scheme, host, port: None }),
            // Without one it is the scheme's own, and one is always compared.
            false => port.map(|port| Self { scheme, host, port: Some(port) }),
        }
    }
}

/// Scheme, host and port of an origin, as browsers write it. The port is the scheme's own unless it is given.
fn origin_of(text: &str) -> Option<(String, String, Option<u16>)> {
    let (scheme, authority) = text.split_once("://")?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    if !scheme.bytes().next()?.is_ascii_alphabetic() || !scheme.bytes().all(fits) {
        return None;
    }
    let scheme = scheme.to_ascii_lowercase();
    let Authority { host, port } = Authority::parse(authority)?;
    let usual = match scheme.as_str() {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    Some((scheme, host, port.or(usual)))
}

/// The only value of a header; `Err` if there are several, or one that is no text.
fn only<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Result<Option<&'a str>, ()> {
    let mut given = headers.get_all(name).iter();
    match (given.next(), given.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => one.to_str().map(Some).map_err(drop),
        (Some(_), Some(_)) => Err(()),
    }
}

#[cfg(test)]
mod tests;
