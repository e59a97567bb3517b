use stanchion_core::{Disposition, DispositionRules, HintSource, Phase, Retry};

use super::*;
use FailureKind as K;

#[test]
fn pages_are_judged_by_their_status_and_never_quoted() {
    let page = "<html><body>Bad gateway: quota exceeded, prompt is too long</body></html>";
    let rows = [
        (502, K::ServerError),
        (503, K::Overloaded),
        (524, K::GatewayTimeout),
        (403, K::PermissionDenied),
        (200, K::NotModelReply),
    ];
    for (code, kind) in rows {
        for headers in [&[("content-type", HTML)][..], &[("content-type", JSON)], &[]] {
            let failure = classify_reply(Dialect::OpenAiChat, reply(code, headers, page.as_bytes()), now());
            assert_eq!((failure.kind(), failure.message()), (kind, None), "{code}");
            assert_eq!(failure.status(), Some(status(code)));
            assert!(failure.reply().is_some());
        }
    }
    // A proxy that mislabels JSON.
    let body = br#"{"error":{"code":"invalid_api_key","message":"m"}}"#;
    let failure = classify_reply(Dialect::OpenAiChat, reply(401, &[("content-type", HTML)], body), now());
    assert_eq!((failure.kind(), failure.message()), (K::Authentication, Some("m")));
}

#[test]
fn a_success_that_is_no_reply() {
    let rows: &[(&str, &str, K)] = &[
        (HTML, "<!doctype html><title>Blocked</title>", K::NotModelReply),
        (HTML, "Blocked", K::NotModelReply),
        ("text/plain", "hello", K::NotModelReply),
        (JSON, r#"{"data":[]}"#, K::NotModelReply),
        (JSON, "", K::EmptyReply),
        (JSON, "\n\n", K::EmptyReply),
        (JSON, r#"{"choices":[{"mess"#, K::MalformedReply),
        (JSON, r#"{"code":"The service is currently unavailable","error":"at capacity"}"#, K::Overloaded),
        (JSON, r#"{"error":{"code":502,"message":"Provider gone"}}"#, K::ServerError),
        (JSON, r#"{"error":{"code":"context_length_exceeded","message":"m"}}"#, K::ContextOverflow),
    ];
    for (kind_of_body, body, kind) in rows {
        let reply = reply(200, &[("content-type", kind_of_body)], body.as_bytes());
        let failure = classify_reply(Dialect::OpenAiChat, reply, now());
        assert_eq!(failure.kind(), *kind, "{body}");
        assert_eq!(failure.phase(), Phase::BeforeOutput);
    }
}

#[test]
fn marks_events_and_plain_text_are_read_through() {
    let marked = classify_reply(
        Dialect::OpenAiChat,
        reply(401, &[], b"\xef\xbb\xbf{\"error\":{\"message\":\"no\",\"code\":\"invalid_api_key\"}}"),
        now(),
    );
    assert_eq!((marked.kind(), marked.code()), (K::Authentication, Some("invalid_api_key")));
    let event = json(400, "event:error\n:HTTP_STATUS/400\ndata:{\"code\":\"Arrearage\",\"message\":\"m\"}\n\n");
    assert_eq!(event.kind(), K::QuotaExhausted);
    let text = json(502, "upstream connect error or disconnect/reset before headers");
    assert_eq!((text.kind(), text.message()), (K::ServerError, None));
    let long = format!("prompt is too long {}", "x".repeat(4_000));
    assert_eq!(json(500, &long).kind(), K::ServerError, "a long text may be anything");
}

#[test]
fn should_retry_is_noted_and_judged_elsewhere() {
    let body = br#"{"error":{"message":"m","type":"server_error","code":null}}"#;
    let rows = [
        ("true", Some(true)),
        ("false", Some(false)),
        ("TRUE", Some(true)),
        ("1", None),
        ("yes", None),
        ("false ", Some(false)),
        ("", None),
    ];
    for (value, told) in rows {
        let value = value.trim_end();
        let failure = classify_reply(Dialect::OpenAiChat, reply(503, &[("x-should-retry", value)], body), now());
        assert_eq!((failure.kind(), failure.should_retry()), (K::Overloaded, told), "{value}");
    }
    let quota = br#"{"error":{"message":"m","code":"insufficient_quota"}}"#;
    let quota = classify_reply(Dialect::OpenAiChat, reply(429, &[("x-should-retry", "true")], quota), now());
    assert_eq!(Disposition::of(&quota, &DispositionRules::default()).retry, Retry::Never);
}

#[test]
fn a_hint_is_kept_as_the_provider_gave_it() {
    let hint = |headers: &[(&str, &str)], code| {
        let failure = classify_reply(Dialect::OpenAiChat, reply(code, headers, b"{}"), now());
        failure.hint().map(|hint| (hint.delay().as_millis(), hint.source()))
    };
    assert_eq!(hint(&[("retry-after", "121180")], 429), Some((121_180_000, HintSource::RetryAfter)));
    assert_eq!(hint(&[("retry-after", "0.25")], 429), Some((250, HintSource::RetryAfter)));
    assert_eq!(hint(&[("retry-after-ms", "1500"), ("retry-after", "9")], 429), Some((1_500, HintSource::RetryAfterMs)));
    assert_eq!(hint(&[("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT")], 503), None);
    assert_eq!(hint(&[("x-ratelimit-reset-requests", "6m0s")], 429), Some((360_000, HintSource::RateLimitReset)));
    assert_eq!(hint(&[("x-ratelimit-reset-requests", "6m0s")], 500), None, "a window is no reason of a fault");
    let huge = classify_reply(Dialect::OpenAiChat, reply(429, &[("retry-after", "121180")], b"{}"), now());
    assert_eq!(huge.kind(), K::RateLimited);
}

#[test]
fn request_ids_come_from_many_headers() {
    for name in super::super::REQUEST_IDS {
        let failure = classify_reply(Dialect::OpenAiChat, reply(500, &[(name, "id-1")], b"{}"), now());
        assert_eq!(failure.request_id(), Some("id-1"), "{name}");
    }
    let both = &[("x-request-id", "edge"), ("request-id", "req_1")];
    let failure = classify_reply(Dialect::AnthropicMessages, reply(500, both, b"{}"), now());
    assert_eq!(failure.request_id(), Some("req_1"));
    let body = json(429, r#"{"code":"Throttling","message":"m","request_id":"r-2"}"#);
    assert_eq!(body.request_id(), Some("r-2"));
}
