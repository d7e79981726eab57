//! Pages in a browser: those that may call can, and can read what they are told; others are told nothing.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may fail")]

use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::support::{Agent, Http, Reply, read_reply, stateless};

const PAGE: &str = "https://example.com";
const ALLOW_ORIGIN: &str = "access-control-allow-origin";

async fn http(agent: &Agent) -> Http {
    Http::with(&[agent], |mut options| {
        options.allowed_origins = vec!["https://example.com:443".to_owned()];
        options
    })
    .await
}

fn list() -> String {
    let params = json!({ "_meta": stateless(json!({})) });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params }).to_string()
}

/// A request without a body, as a browser writes it.
async fn send(http: &Http, method: &str, path: &str, headers: &[(&str, &str)]) -> Reply {
    let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", http.address);
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut stream = http.connect().await;
    stream.write_all(format!("{text}\r\n").as_bytes()).await.unwrap();
    read_reply(&mut stream).await
}

fn asks(origin: &str) -> [(&str, &str); 3] {
    [
        ("Origin", origin),
        ("Access-Control-Request-Method", "POST"),
        (
            "Access-Control-Request-Headers",
            "authorization,mcp-param-region,x-other, MCP-Param-Zone,mcp-param-;",
        ),
    ]
}

/// What browsers are told of a page, in any answer.
fn told(reply: &Reply) -> [Option<&str>; 3] {
    [ALLOW_ORIGIN, "access-control-expose-headers", "vary"].map(|name| reply.header(name))
}

fn is_silent(reply: &Reply) -> bool {
    !reply.head.to_ascii_lowercase().contains("access-control-")
}

#[tokio::test]
async fn a_browser_is_told_that_a_page_may_call() {
    let agent = Agent::new().await;
    let http = http(&agent).await;
    // One that is there, one that is not, and no session at all.
    for path in ["/mcp/main", "/mcp/nobody", "/"] {
        let reply = send(&http, "OPTIONS", path, &asks(PAGE)).await;
        assert_eq!((reply.status, reply.body.as_str()), (204, ""), "{reply:?}");
        assert_eq!(told(&reply), [Some(PAGE), Some("mcp-session-id, www-authenticate"), Some("Origin")]);
        assert_eq!(reply.header("access-control-allow-methods"), Some("GET, POST, DELETE"));
        assert_eq!(
            reply.header("access-control-allow-headers"),
            Some(
                "authorization, content-type, accept, mcp-session-id, mcp-protocol-version, mcp-method, mcp-name, \
                 last-event-id, mcp-param-region, mcp-param-zone"
            )
        );
        assert_eq!(reply.header("access-control-max-age"), Some("7200"));
        assert_eq!(reply.header("access-control-allow-credentials"), None);
        assert_eq!(reply.header("access-control-allow-private-network"), None);
    }
    let mut private = asks(PAGE).to_vec();
    private.push(("Access-Control-Request-Private-Network", "true"));
    let reply = send(&http, "OPTIONS", "/mcp/main", &private).await;
    assert_eq!(reply.header("access-control-allow-private-network"), Some("true"));
    // Pages of this machine, by their own names.
    let reply = send(&http, "OPTIONS", "/mcp/main", &asks("http://localhost:3000")).await;
    assert_eq!((reply.status, reply.header(ALLOW_ORIGIN)), (204, Some("http://localhost:3000")));
    // Whoever does not ask for a page is asked for the token.
    for headers in [&[][..], &asks(PAGE)[..1], &asks(PAGE)[1..]] {
        assert_eq!(send(&http, "OPTIONS", "/mcp/main", headers).await.status, 401, "{headers:?}");
    }
    http.close().await;
}

#[tokio::test]
async fn a_page_that_may_call_can_read_every_answer() {
    let agent = Agent::new().await;
    let http = http(&agent).await;
    let from = |origin: Option<&str>, token: bool| {
        let mut headers = http.headers("main", "tools/list", None);
        headers.retain(|(name, _)| token || name != "Authorization");
        headers.extend(origin.map(|origin| ("Origin".to_owned(), origin.to_owned())));
        headers
    };
    for (path, token, body, status) in [
        ("/mcp/main", true, list(), 200),
        ("/mcp/main", true, "{".to_owned(), 400),
        ("/mcp/main", false, list(), 401),
        ("/mcp/nobody", true, list(), 401),
        ("/", true, list(), 404),
    ] {
        let reply = http.post(path, &from(Some(PAGE), token), &body).await;
        assert_eq!(reply.status, status, "{reply:?}");
        assert_eq!(
            told(&reply),
            [Some(PAGE), Some("mcp-session-id, www-authenticate"), Some("Origin")],
            "{reply:?}"
        );
        // Whoever is no page is told nothing of pages.
        assert!(is_silent(&http.post(path, &from(None, token), &body).await), "{path}");
    }
    // A stream of events, too.
    let hands = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hands });
    let mut headers = from(Some(PAGE), true);
    headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("mcp-"));
    let reply = http.post("/mcp/main", &headers, &hello.to_string()).await;
    assert_eq!((reply.status, reply.header(ALLOW_ORIGIN)), (200, Some(PAGE)), "{reply:?}");
    assert!(reply.header("mcp-session-id").is_some(), "{reply:?}");
    http.close().await;
}

#[tokio::test]
async fn a_page_that_may_not_call_is_told_nothing() {
    let agent = Agent::new().await;
    let http = http(&agent).await;
    for origin in ["https://evil.example", "https://example.com:444", "null", "*"] {
        let asked = send(&http, "OPTIONS", "/mcp/main", &asks(origin)).await;
        let mut headers = http.headers("main", "tools/list", None);
        headers.push(("Origin".to_owned(), origin.to_owned()));
        for reply in [asked, http.post("/mcp/main", &headers, &list()).await] {
            assert_eq!(reply.status, 403, "{origin}");
            assert!(is_silent(&reply) && reply.header("vary").is_none(), "{reply:?}");
        }
    }
    // By a name that is not the server's, nobody is.
    let mut stream = http.connect().await;
    let text = "OPTIONS /mcp/main HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\nOrigin: https://example.com\r\n\
                Access-Control-Request-Method: POST\r\n\r\n";
    stream.write_all(text.as_bytes()).await.unwrap();
    let reply = read_reply(&mut stream).await;
    assert!(reply.status == 403 && is_silent(&reply), "{reply:?}");
    http.close().await;
}
