use super::*;
use FailureKind as K;

#[test]
fn what_is_no_error_is_none() {
    let fine = [
        r#"{"type":"response.created","response":{"id":"r","status":"in_progress","error":null,"output":[]}}"#,
        r#"{"id":"r","object":"response","status":"completed","error":null,"output":[]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"{\"error\":{\"code\":503}}"}}]}"#,
        r#"{"choices":[],"usage":{"total_tokens":1},"error":null}"#,
        r#"{"error":{}}"#,
        r#"{"error":""}"#,
        r#"{"error":false}"#,
        r#"{"model":"m","message":{"role":"assistant","content":"x"},"done":false}"#,
        r#"{"model":"m","response":"error","done":false}"#,
        r#"{"type":"ping"}"#,
        r#"{"code":0,"message":"ok"}"#,
        r#"{"code":"Success","message":"done"}"#,
        r#"{"code":"x","message":"y","choices":[]}"#,
        r#"{"message":"slow"}"#,
        "[DONE]",
        "[]",
        "null",
        "\"error\"",
        "{\"error\":{\"message\":",
        "",
    ];
    for data in fine {
        assert!(frame(data).is_none(), "{data}");
    }
}

#[test]
fn under_an_error_event_everything_is_an_error() {
    let rows = [
        (r#"{"code":"Throttling.RateQuota","message":"m","request_id":"r-1"}"#, K::RateLimited),
        (r#"{"message":"slow"}"#, K::ServerError),
        (r#"{"detail":"rate limit"}"#, K::RateLimited),
        ("Overloaded", K::Overloaded),
        ("", K::ServerError),
    ];
    for (data, kind) in rows {
        let failure = in_band(Dialect::OpenAiChat, Some("error"), data.as_bytes(), None, now()).unwrap();
        assert_eq!(failure.kind(), kind, "{data}");
    }
    assert!(in_band(Dialect::OpenAiChat, Some("message"), b"Overloaded", None, now()).is_none());
    assert!(in_band(Dialect::OpenAiChat, None, b"{\"error\":\"\xff\"}", None, now()).is_some());
}

#[test]
fn words_come_as_text_lists_and_objects() {
    let rows = [
        (
            r#"{"detail":[{"loc":["body","messages",0],"msg":"field required","type":"missing","input":"secret"}]}"#,
            "body.messages.0: field required",
        ),
        (r#"{"detail":"Unauthorized"}"#, "Unauthorized"),
        (r#"{"message":{"detail":[{"loc":["body"],"msg":"bad"}]}}"#, "body: bad"),
        (r#"{"errors":[{"code":10000,"message":"Authentication error"}],"success":false}"#, "Authentication error"),
        (r#"{"status":422,"title":"Unprocessable","type":"about:blank","detail":"bad"}"#, "bad"),
        (r#"{"timestamp":"t","status":500,"error":"Internal Server Error","path":"/"}"#, "Internal Server Error"),
    ];
    for (body, message) in rows {
        let failure = json(422, body);
        assert_eq!(failure.message(), Some(message), "{body}");
        assert_eq!(failure.kind(), K::InvalidRequest, "{body}");
    }
}

#[test]
fn ids_and_hints_come_along() {
    let data = br#"{"type":"error","error":{"type":"overloaded_error","message":"m"},"request_id":"req_body"}"#;
    let failure = in_band(Dialect::AnthropicMessages, Some("error"), data, None, now()).unwrap();
    assert_eq!(failure.request_id(), Some("req_body"));
    let headers = reply(200, &[("request-id", "req_head"), ("x-ratelimit-reset-requests", "6m0s")], b"").headers;
    let failure = in_band(Dialect::AnthropicMessages, Some("error"), data, Some(&headers), now()).unwrap();
    assert_eq!(failure.request_id(), Some("req_head"));
    assert_eq!(failure.hint(), None, "the windows of a reply that succeeded are no hint");
    let data = br#"{"error":{"code":429,"message":"m","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo",
        "retryDelay":"3s"}]}}"#;
    let failure = in_band(Dialect::GeminiGenerateContent, None, data, None, now()).unwrap();
    assert_eq!(failure.hint().map(|hint| hint.delay().as_secs()), Some(3));
}
