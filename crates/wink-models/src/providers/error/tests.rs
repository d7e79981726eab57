use super::*;
use ModelErrorKind as Kind;

fn now() -> Timestamp {
    "2026-11-16T00:00:00Z".parse().unwrap()
}

fn told(status: u16, headers: &[(&'static str, &str)], body: &str) -> ModelError {
    let headers =
        headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
    of_status(StatusCode::from_u16(status).unwrap(), &headers, body.as_bytes(), now())
}

fn error(kind: Kind, message: &str, retry_safe: bool) -> ModelError {
    ModelError { kind, message: message.to_owned(), retry_safe, retry_after: None }
}

#[test]
fn statuses_and_words_become_kinds() {
    let openai =
        |kind: &str, code: &str| format!(r#"{{"error":{{"message":"m","type":"{kind}","code":{code}}}}}"#);
    let cases = [
        (401, openai("invalid_request_error", r#""invalid_api_key""#), Kind::Unauthorized, false),
        (
            403,
            r#"{"type":"error","error":{"type":"permission_error","message":"m"}}"#.to_owned(),
            Kind::Unauthorized,
            false,
        ),
        (404, openai("invalid_request_error", r#""model_not_found""#), Kind::Rejected, false),
        (400, openai("invalid_request_error", "null"), Kind::Rejected, false),
        (400, openai("invalid_request_error", r#""context_length_exceeded""#), Kind::TooLong, false),
        (
            413,
            r#"{"type":"error","error":{"type":"request_too_large","message":"m"}}"#.to_owned(),
            Kind::TooLong,
            false,
        ),
        (408, r#"{"message":"m"}"#.to_owned(), Kind::TimedOut, true),
        (409, r#"{"detail":"m"}"#.to_owned(), Kind::Unavailable, true),
        (429, openai("requests", r#""rate_limit_exceeded""#), Kind::Throttled, true),
        (429, openai("insufficient_quota", r#""insufficient_quota""#), Kind::Throttled, false),
        (500, openai("server_error", "500"), Kind::Unavailable, true),
        (503, "m".to_owned(), Kind::Unavailable, true),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#.to_owned(),
            Kind::Unavailable,
            true,
        ),
        (307, r#"{"error":"m"}"#.to_owned(), Kind::Rejected, false),
    ];
    for (status, body, kind, retry_safe) in cases {
        assert_eq!(told(status, &[], &body), error(kind, &format!("{status}: m"), retry_safe), "{body}");
    }
    let long = r#"{"error":{"type":"invalid_request_error","message":"prompt is too long: 5 > 4"}}"#;
    assert_eq!(told(400, &[], long), error(Kind::TooLong, "400: prompt is too long: 5 > 4", false));
    assert_eq!(told(500, &[], " "), error(Kind::Unavailable, "500: no reason was given", true));
}

#[test]
fn how_long_to_wait_is_read_from_every_form_of_it() {
    let after = |headers: &[(&'static str, &str)]| told(429, headers, "m").retry_after;
    assert_eq!(after(&[]), None);
    assert_eq!(after(&[("retry-after", "2")]), Some(Duration::from_secs(2)));
    assert_eq!(after(&[("retry-after", "0.5")]), Some(Duration::from_millis(500)));
    assert_eq!(after(&[("retry-after", "9"), ("retry-after-ms", "20")]), Some(Duration::from_millis(20)));
    assert_eq!(after(&[("llm_provider-retry-after", "3")]), Some(Duration::from_secs(3)));
    assert_eq!(after(&[("retry-after", "Mon, 16 Nov 2026 00:00:30 GMT")]), Some(Duration::from_secs(30)));
    assert_eq!(after(&[("retry-after", "Mon, 16 Nov 2020 00:00:30 GMT")]), Some(Duration::ZERO));
    // A stretch that no clock knows is a stretch all the same, and what is none hides none.
    for long in ["inf", "1e300", "99999999999999999999999999"] {
        assert_eq!(after(&[("retry-after", long)]), Some(Duration::MAX), "{long}");
    }
    assert_eq!(after(&[("retry-after", "9"), ("retry-after-ms", "-1")]), Some(Duration::from_secs(9)));
    for nonsense in ["-1", "NaN", "soon", ""] {
        assert_eq!(after(&[("retry-after", nonsense)]), None, "{nonsense}");
    }
}

#[test]
fn a_provider_that_says_whether_to_retry_is_believed() {
    assert!(!told(429, &[("x-should-retry", "false")], "m").retry_safe);
    assert!(told(400, &[("x-should-retry", "true")], "m").retry_safe);
}

#[test]
fn long_words_are_cut() {
    let error = told(500, &[], &"ü".repeat(5_000));
    assert_eq!(bounded(error.message), format!("500: {}…", "ü".repeat(MAX_MESSAGE - 5)));
}
