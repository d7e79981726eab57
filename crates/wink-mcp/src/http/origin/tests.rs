use http::HeaderValue;

use super::*;

fn callers() -> Callers {
    let hosts = ["wink.example".to_owned(), "other.example:8080".to_owned(), "fd00::1".to_owned()];
    let origins = ["https://example.com:443", "https://any.example:*", "http://plain.example", "app+x://a:1"];
    Callers::new(&hosts, &origins.map(str::to_owned)).unwrap()
}

fn checked(target: &str, headers: &[(&'static str, &str)]) -> Result<(), Stranger> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    callers().check(&target.parse().unwrap(), &map)
}

#[test]
fn a_host_is_one_of_ours_and_nothing_but_a_host() {
    for host in [
        "localhost",
        "LocalHost:1",
        "127.0.0.1:65535",
        "[::1]:80",
        "[0:0:0:0:0:0:0:1]",
        "wink.example:9",
        "other.example:8080",
        "[fd00::1]:4",
    ] {
        assert_eq!(checked("/mcp/main", &[("host", host)]), Ok(()), "{host}");
    }
    for host in [
        "evil.example",
        "other.example",
        "other.example:8081",
        "localhost.",
        "localhost.evil.example",
        "127.0.0.2",
    ] {
        assert_eq!(checked("/mcp/main", &[("host", host)]), Err(Stranger::Host), "{host}");
    }
    for host in [
        "",
        ":80",
        "user@localhost",
        "localhost:evil.example",
        "localhost:",
        "localhost:+1",
        "localhost:65536",
        "localhost:80:80",
        "localhost/x",
        "localhost localhost",
        "localhost,localhost",
        "::1",
        "[::1",
        "[::1]x",
        "[localhost]",
        "[::1%25eth0]",
        "löcal",
        "[]",
        "localhost#",
        "localhost?",
    ] {
        assert_eq!(checked("/mcp/main", &[("host", host)]), Err(Stranger::NoHost), "{host}");
    }
    assert_eq!(checked("/mcp/main", &[]), Err(Stranger::NoHost));
    let twice = [("host", "localhost"), ("host", "localhost")];
    assert_eq!(checked("/mcp/main", &twice), Err(Stranger::NoHost));
}

#[test]
fn a_target_with_a_host_names_the_same() {
    for (target, expected) in [
        ("http://localhost:1/mcp/main", Ok(())),
        ("http://LOCALHOST:1/mcp/main", Ok(())),
        ("http://evil.example/mcp/main", Err(Stranger::TwoHosts)),
        ("http://localhost/mcp/main", Err(Stranger::TwoHosts)),
        ("https://localhost:1/mcp/main", Err(Stranger::TwoHosts)),
        ("http://user@localhost:1/mcp/main", Err(Stranger::TwoHosts)),
        ("http://127.0.0.1:1/mcp/main", Err(Stranger::TwoHosts)),
    ] {
        assert_eq!(checked(target, &[("host", "localhost:1")]), expected, "{target}");
    }
}

#[test]
fn an_origin_is_one_that_is_allowed_and_nothing_but_an_origin() {
    let from = |origins: &[&str]| {
        let origins = origins.iter().map(|origin| ("origin", *origin));
        checked("/mcp/main", &std::iter::once(("host", "localhost")).chain(origins).collect::<Vec<_>>())
    };
    assert_eq!(from(&[]), Ok(()));
    for origin in [
        "http://localhost",
        "http://localhost:3000",
        "https://127.0.0.1:1",
        "HTTP://[::1]:8",
        "https://example.com",
        "https://example.com:443",
        "https://any.example:7",
        "https://any.example",
        "http://plain.example",
        "http://plain.example:80",
        "app+x://a:1",
    ] {
        assert_eq!(from(&[origin]), Ok(()), "{origin}");
    }
    for origin in [
        "https://evil.example",
        "http://localhost.evil.example",
        "http://evil.localhost",
        "https://example.com:444",
        "http://example.com",
        "http://any.example",
        "http://plain.example:81",
        "app+x://a:2",
        "app+x://a",
        "ws://localhost",
    ] {
        assert_eq!(from(&[origin]), Err(Stranger::Origin), "{origin}");
    }
    for origin in [
        "",
        "null",
        "nonsense",
        "localhost",
        "//localhost",
        "://localhost",
        "http:/localhost",
        "http://",
        "http://localhost:evil.com",
        "http://evil@localhost",
        "http://localhost@evil",
        "http://localhost:",
        "http://localhost/",
        "http://localhost/x",
        "http://localhost?x",
        "http://localhost#x",
        "http://localhost:80:80",
        "http://localhost http://localhost",
        "http://localhost, http://localhost",
        "http://localhost\\evil",
        "http://[::1",
        "http://::1",
        "1http://localhost",
    ] {
        assert_eq!(from(&[origin]), Err(Stranger::NoOrigin), "{origin}");
    }
    // Two of them are none, also the same twice.
    assert_eq!(from(&["http://localhost", "http://localhost"]), Err(Stranger::NoOrigin));
    assert_eq!(from(&["http://localhost", "https://evil.example"]), Err(Stranger::NoOrigin));
}

#[test]
fn what_is_to_be_allowed_has_to_be_one() {
    let one = |text: &str| [text.to_owned()];
    for origin in [
        "",
        "*",
        "null",
        "example.com",
        "https://example.com/",
        "https://*",
        "https://a:*:*",
        "https://a:1:*",
        "app://a",
    ] {
        assert!(Callers::new(&[], &one(origin)).is_err(), "{origin}");
    }
    for host in ["", "*", "https://example.com", "user@host", "a:b", "a/"] {
        assert!(Callers::new(&one(host), &[]).is_err(), "{host}");
    }
}

proptest::proptest! {
    #[test]
    fn whatever_is_sent_is_looked_at(host in "\\PC{0,40}", origin in "\\PC{0,40}") {
        if let (Ok(host), Ok(origin)) = (HeaderValue::from_bytes(host.as_bytes()), HeaderValue::from_bytes(origin.as_bytes())) {
            let map = HeaderMap::from_iter([(header::HOST, host), (header::ORIGIN, origin)]);
            let _ = callers().check(&Uri::from_static("/"), &map);
        }
    }
}
