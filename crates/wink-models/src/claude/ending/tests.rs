use serde_json::json;

use super::*;
use serde::Deserialize;

// case 205
#[test]
fn every_end_has_its_reason() {
    let terms = Terms { max_turns: 7, ..Terms::default() };
    let reason = |frame: serde_json::Value| {
        let finished = Finished::deserialize(frame).unwrap();
        reason(&finished, &terms, |text| text.replace("hush", "***"))
    };
    let failed = |kind, message: &str| StopReason::Request(failure(kind, message, false));
    let again = |kind, message: &str| {
        StopReason::Retries(RetriesExhausted::Attempts { attempts: 5, last: failure(kind, message, true) })
    };
    let api = |status: Option<u16>, more: &str| {
        json!({
            "subtype": "success", "is_error": true, "result": "no: hush", "terminal_reason": "api_error", "api_error_status": status, "api_error": more,
        })
    };
    assert_eq!(reason(json!({ "subtype": "success", "result": "yes" })), None);
    assert_eq!(
        reason(json!({ "subtype": "error_max_turns", "is_error": true })),
        Some(StopReason::TurnCap { max_turns: 7 })
    );
    assert_eq!(
        reason(
            json!({ "subtype": "error_max_structured_output_retries", "is_error": true, "errors": ["wrong"] })
        ),
        Some(StopReason::Output { reason: "wrong".into(), text: "".into() })
    );
    assert_eq!(reason(api(Some(401), "")), Some(failed(ModelErrorKind::Unauthorized, "no: ***")));
    assert_eq!(reason(api(Some(404), "")), Some(failed(ModelErrorKind::Rejected, "no: ***")));
    assert_eq!(reason(api(Some(413), "")), Some(failed(ModelErrorKind::TooLong, "no: ***")));
    assert_eq!(reason(api(Some(429), "")), Some(again(ModelErrorKind::Throttled, "no: ***")));
    assert_eq!(reason(api(Some(529), "")), Some(again(ModelErrorKind::Unavailable, "no: ***")));
    assert_eq!(reason(api(None, "connection_failed")), Some(again(ModelErrorKind::Connection, "no: ***")));
    assert_eq!(reason(api(None, "request_timeout")), Some(again(ModelErrorKind::TimedOut, "no: ***")));
    assert_eq!(
        reason(
            json!({ "subtype": "success", "is_error": true, "result": "long", "terminal_reason": "prompt_too_long" })
        ),
        Some(failed(ModelErrorKind::TooLong, "long"))
    );
    assert_eq!(
        reason(json!({ "subtype": "error_during_execution", "is_error": true, "errors": ["a", "b"] })),
        Some(failed(ModelErrorKind::Unavailable, "a; b"))
    );
}
