mod frames;

use std::time::{Duration, SystemTime};

use http::header::{CONTENT_ENCODING, SET_COOKIE};
use serde_json::Value;
use stanchion_core::{FailureKind as K, HintSource, Phase};

use super::*;

const DIALECTS: [Dialect; 6] = [
    Dialect::OpenAiChat,
    Dialect::OpenAiResponses,
    Dialect::OpenAiEmbeddings,
    Dialect::AnthropicMessages,
    Dialect::GeminiGenerateContent,
    Dialect::Ollama,
];

fn render(dialect: Dialect, failure: &Failure) -> Response<Bytes> {
    response(dialect, failure, &DispositionRules::default())
}

fn body(response: &Response<Bytes>) -> Value {
    serde_json::from_slice(response.body()).unwrap()
}

fn reply(status: u16, headers: &[(&'static str, &'static str)], body: &'static [u8]) -> ProviderReply {
    let headers = headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    ProviderReply {
        status: StatusCode::from_u16(status).unwrap(),
        headers: headers.collect(),
        body: Bytes::from_static(body),
        complete: true,
    }
}

fn classified(dialect: Dialect, reply: ProviderReply) -> Failure {
    error::classify_reply(dialect, reply, SystemTime::UNIX_EPOCH).with_candidate("primary/m").with_attempts(2)
}

#[test]
fn a_callers_mistake_comes_back_as_the_provider_put_it() {
    const BODY: &[u8] =
        b"{\n  \"error\": {\"message\": \"Unknown parameter: 'foo'.\", \"code\": \"unknown_parameter\"}\n}";
    let headers = [
        ("content-type", "application/json; charset=utf-8"),
        ("content-encoding", "gzip"),
        ("set-cookie", "secret"),
        ("x-request-id", "req_1"),
        ("x-ratelimit-remaining-requests", "7"),
        ("x-should-retry", "true"),
    ];
    for status in [400, 422] {
        let response = render(Dialect::OpenAiChat, &classified(Dialect::OpenAiChat, reply(status, &headers, BODY)));
        assert_eq!(response.status().as_u16(), status);
        assert_eq!(response.body(), BODY);
        let headers = response.headers();
        assert_eq!(headers[CONTENT_TYPE], "application/json; charset=utf-8");
        assert_eq!(headers["x-request-id"], "req_1");
        assert_eq!(headers["x-ratelimit-remaining-requests"], "7");
        assert_eq!(headers["x-should-retry"], "false");
        assert!(!headers.contains_key(CONTENT_ENCODING) && !headers.contains_key(SET_COOKIE));
    }
}

#[test]
fn a_rate_limit_comes_back_with_its_wait() {
    const BODY: &[u8] = br#"{"type":"error","error":{"type":"rate_limit_error","message":"m"}}"#;
    const GOOGLE: &[u8] = br#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"m",
        "details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.07s"}]}}"#;
    let dialect = Dialect::AnthropicMessages;
    let response =
        render(dialect, &classified(dialect, reply(429, &[("retry-after", "0.25"), ("request-id", "req_1")], BODY)));
    assert_eq!((response.status().as_u16(), &response.body()[..]), (429, BODY));
    assert_eq!(response.headers()["retry-after"], "0.25");
    assert_eq!(response.headers()["request-id"], "req_1");
    assert_eq!(response.headers()["content-type"], "application/json");

    // A wait that is told in the body alone becomes a header.
    let response =
        render(Dialect::GeminiGenerateContent, &classified(Dialect::GeminiGenerateContent, reply(429, &[], GOOGLE)));
    assert_eq!(response.headers()["retry-after"], "35");
    assert_eq!(&response.body()[..], GOOGLE);
}

#[test]
fn a_4xx_that_blames_the_provider_is_told_as_what_it_is() {
    let busy = br#"{"error":{"type":"engine_overloaded_error","message":"busy"}}"#;
    let response = render(Dialect::OpenAiChat, &classified(Dialect::OpenAiChat, reply(429, &[], busy)));
    assert_eq!(response.status(), 503);
    assert!(body(&response)["error"]["message"].as_str().unwrap().ends_with("The provider says: busy"));
}

#[test]
fn what_is_no_json_is_named_and_not_shown() {
    for (status, told) in [(502, 502), (403, 403), (200, 502)] {
        for text in [&b"<html><h1>502 Bad Gateway</h1></html>"[..], b"Bad Gateway"] {
            for dialect in DIALECTS {
                let reply = reply(status, &[("content-type", "text/html; charset=utf-8")], text);
                let response = render(dialect, &classified(dialect, reply));
                assert_eq!(response.status().as_u16(), told);
                assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
                let body = body(&response).to_string();
                assert!(body.contains(&format!("HTTP {status}")) && body.contains("text/html"), "{body}");
                assert!(body.contains("primary/m") && body.contains("2 attempts"), "{body}");
                assert!(!body.contains("Bad Gateway"), "{body}");
            }
        }
    }
    let empty = render(Dialect::OpenAiChat, &classified(Dialect::OpenAiChat, reply(400, &[], b"")));
    assert!(
        body(&empty)["error"]["message"].as_str().unwrap().ends_with("HTTP 400 with an empty body (no content type)")
    );
}

#[test]
fn a_reply_that_is_cut_off_is_not_given_back() {
    let cut = ProviderReply { complete: false, ..reply(400, &[], br#"{"error":{"message":"m"}}"#) };
    let response = render(Dialect::OpenAiChat, &classified(Dialect::OpenAiChat, cut));
    assert!(body(&response)["error"]["message"].as_str().unwrap().contains("primary/m"));
}

#[test]
fn an_overflow_is_a_typed_400_however_it_was_wrapped() {
    const OWN: &[u8] = br#"{"error":{"message":"m","code":"context_length_exceeded"}}"#;
    let words = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.";
    let failure = || {
        Failure::new(K::ContextOverflow)
            .with_phase(Phase::BeforeOutput)
            .with_status(StatusCode::INTERNAL_SERVER_ERROR)
            .with_code("upstream_error")
            .with_message(words)
    };
    for dialect in DIALECTS {
        let response = render(dialect, &failure());
        assert_eq!(response.status(), 400, "{dialect}");
        assert!(body(&response).to_string().contains(words), "{dialect}");
    }
    let openai = body(&render(Dialect::OpenAiChat, &failure()));
    assert_eq!(openai["error"]["code"], "context_length_exceeded");
    assert_eq!(openai["error"]["type"], "invalid_request_error");
    assert_eq!(openai["error"]["param"], "messages");
    assert!(openai["error"]["message"].as_str().unwrap().starts_with(words));
    let anthropic = body(&render(Dialect::AnthropicMessages, &failure()));
    assert_eq!(anthropic["error"]["type"], "invalid_request_error");
    assert!(anthropic["error"]["message"].as_str().unwrap().starts_with("prompt is too long: This model's"));
    // Words that clients know already come first as they are.
    let known = failure().with_message("prompt is too long: 213462 tokens > 200000 maximum");
    let anthropic = body(&render(Dialect::AnthropicMessages, &known));
    assert!(
        anthropic["error"]["message"]
            .as_str()
            .unwrap()
            .starts_with("prompt is too long: 213462 tokens > 200000 maximum (")
    );
    // The provider's own 400 is better than ours.
    let own = render(Dialect::OpenAiChat, &classified(Dialect::OpenAiChat, reply(400, &[], OWN)));
    assert_eq!(&own.body()[..], OWN);
}

#[test]
fn a_failure_names_its_cause_and_the_providers_words() {
    let failure = || {
        Failure::new(K::ServerError)
            .with_phase(Phase::BeforeOutput)
            .with_status(StatusCode::INTERNAL_SERVER_ERROR)
            .with_candidate("primary/m")
            .with_attempts(3)
            .with_request_id("req_1")
            .with_message("upstream exploded")
    };
    for dialect in DIALECTS {
        let response = render(dialect, &failure());
        assert_eq!(response.status(), 500);
        let told = body(&response).to_string();
        for part in ["primary/m", "after 3 attempts", "ask again later", "upstream exploded"] {
            assert!(told.contains(part), "{told}");
        }
    }
    let openai = body(&render(Dialect::OpenAiChat, &failure().with_code("boom")));
    assert_eq!((&openai["error"]["type"], &openai["error"]["code"]), (&"server_error".into(), &"boom".into()));
    assert_eq!(body(&render(Dialect::AnthropicMessages, &failure()))["request_id"], "req_1");
    let gemini = body(&render(Dialect::GeminiGenerateContent, &failure()));
    assert_eq!((&gemini["error"]["code"], &gemini["error"]["status"]), (&500.into(), &"INTERNAL".into()));
}

#[test]
fn only_what_passes_by_itself_may_be_asked_again_at_once() {
    for (kind, again) in [
        (K::QueueFull, true),
        (K::QueueTimeout, true),
        (K::QueueClosed, true),
        (K::CircuitOpen, true),
        (K::Drained, false),
        (K::ShuttingDown, true),
        (K::RateLimited, false),
        (K::Overloaded, false),
        (K::ServerError, false),
        (K::InvalidRequest, false),
        (K::IdleTimeout, false),
    ] {
        for dialect in DIALECTS {
            let response = render(dialect, &Failure::new(kind).with_phase(Phase::Connect));
            assert_eq!(response.headers().get("x-should-retry").is_none(), again, "{kind:?}");
        }
    }
    // The attempts that opened it were made, and the client's own would multiply them.
    let opened = Failure::new(K::CircuitOpen).with_phase(Phase::BeforeOutput);
    assert_eq!(render(DIALECTS[0], &opened).headers()["x-should-retry"], "false");
}

#[test]
fn waits_are_rounded_up() {
    let hint = |millis| Some(RetryHint::new(Duration::from_millis(millis), HintSource::RetryAfterMs));
    let failure = |millis| Failure::new(K::CircuitOpen).with_hint(hint(millis));
    let headers = |dialect, millis| {
        let response = render(dialect, &failure(millis));
        let text = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        (text("retry-after"), text("retry-after-ms"))
    };
    assert_eq!(headers(Dialect::OpenAiChat, 1_500), (Some("2".into()), Some("1500".into())));
    assert_eq!(headers(Dialect::OpenAiResponses, 1), (Some("1".into()), Some("1".into())));
    assert_eq!(headers(Dialect::AnthropicMessages, 60_000), (Some("60".into()), None));
    let longest = Failure::new(K::CircuitOpen).with_hint(Some(RetryHint::new(Duration::MAX, HintSource::RetryAfter)));
    assert_eq!(render(Dialect::OpenAiChat, &longest).headers()["retry-after"], u64::MAX.to_string().as_str());
}
