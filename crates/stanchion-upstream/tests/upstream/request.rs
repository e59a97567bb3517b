//! What is sent for a client's request.

use std::error::Error;

use http::{HeaderName, HeaderValue, Request, Version};
use http_body_util::Full;
use stanchion_core::{
    Call, Candidate, Context, Dialect, Failure, FailureKind, Family, Phase, Secret, Selected, SpanId, TraceContext,
    TraceId, WithoutOutputLimit,
};
use stanchion_upstream::Unsendable;
use stanchion_wire::request::BadTarget;

use crate::{BODY, candidate, lines, request, sent};

#[tokio::test]
async fn each_family_has_its_uri_and_its_credential() {
    for (dialect, base, uri, credential) in [
        (
            Dialect::OpenAiChat,
            "https://h/v1",
            "https://h/v1/chat/completions?beta=true",
            "authorization: Bearer sk-ours",
        ),
        (
            Dialect::OpenAiResponses,
            "https://h/v1/",
            "https://h/v1/responses?beta=true",
            "authorization: Bearer sk-ours",
        ),
        (
            Dialect::OpenAiEmbeddings,
            "https://h/v1",
            "https://h/v1/embeddings?beta=true",
            "authorization: Bearer sk-ours",
        ),
        (Dialect::AnthropicMessages, "https://h", "https://h/v1/messages?beta=true", "x-api-key: sk-ours"),
        (
            Dialect::GeminiGenerateContent,
            "https://h",
            "https://h/v1beta/models/ours:streamGenerateContent?beta=true",
            "x-goog-api-key: sk-ours",
        ),
        (Dialect::Ollama, "http://h:11434", "http://h:11434/api/chat?beta=true", "authorization: Bearer sk-ours"),
    ] {
        let (parts, body) = sent(request(dialect, candidate(dialect.family(), base))).await.unwrap();
        assert_eq!(parts.uri, uri);
        let mut expected = vec!["accept-encoding: identity", credential, "content-type: application/json"];
        if dialect == Dialect::AnthropicMessages {
            expected.push("anthropic-version: 2023-06-01");
        }
        expected.sort_unstable();
        assert_eq!(lines(&parts.headers), expected);
        let body = std::str::from_utf8(&body).unwrap();
        match dialect {
            Dialect::GeminiGenerateContent => assert_eq!(body, BODY),
            _ => assert_eq!(body, r#"{"model":"ours", "messages":[{"model":"asked"}]}"#),
        }
    }
}

#[tokio::test]
async fn an_api_version_goes_where_the_family_wants_it() {
    let at = async |dialect: Dialect, base: &str, version: &str| {
        let candidate = candidate(dialect.family(), base).with_api_version(version);
        let mut request = request(dialect, candidate);
        request.headers_mut().insert("anthropic-version", HeaderValue::from_static("client"));
        let (mut parts, _) = sent(request).await.unwrap();
        parts.headers.remove("accept-encoding");
        parts.headers.remove("content-type");
        (parts.uri.to_string(), lines(&parts.headers))
    };
    assert_eq!(
        at(Dialect::OpenAiChat, "https://h/dep", "2026-01-01").await,
        (
            "https://h/dep/chat/completions?api-version=2026-01-01&beta=true".into(),
            vec!["anthropic-version: client".to_owned(), "api-key: sk-ours".to_owned()]
        )
    );
    assert_eq!(
        at(Dialect::AnthropicMessages, "https://h", "2026-01-01").await,
        (
            "https://h/v1/messages?beta=true".into(),
            vec!["anthropic-version: 2026-01-01".to_owned(), "x-api-key: sk-ours".to_owned()]
        )
    );
    assert_eq!(
        at(Dialect::GeminiGenerateContent, "https://h", "v1").await.0,
        "https://h/v1/models/ours:streamGenerateContent?beta=true"
    );
}

#[tokio::test]
async fn without_a_model_or_a_credential_none_is_sent() {
    let bare = Candidate::new("primary", Family::OpenAi, "https://h/v1");
    let (parts, body) = sent(request(Dialect::OpenAiChat, bare)).await.unwrap();
    assert_eq!(lines(&parts.headers), ["accept-encoding: identity", "content-type: application/json"]);
    assert_eq!(body, BODY);
}

#[tokio::test]
async fn what_is_the_clients_own_stays_with_us() {
    let mut request = request(Dialect::AnthropicMessages, candidate(Family::Anthropic, "https://h"));
    *request.version_mut() = Version::HTTP_2;
    let own = [
        ("connection", "keep-alive, X-Hop"),
        ("connection", "x-other-hop"),
        ("x-hop", "1"),
        ("x-other-hop", "1"),
        ("keep-alive", "timeout=5"),
        ("te", "trailers"),
        ("trailer", "x-sum"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("http2-settings", "AAMAAABk"),
        ("proxy-authorization", "Basic c2stY2xpZW50"),
        ("proxy-connection", "keep-alive"),
        ("host", "gateway.example"),
        ("content-length", "999"),
        ("accept-encoding", "gzip, br"),
        ("expect", "100-continue"),
        ("x-api-key", "sk-client"),
        ("api-key", "sk-client"),
        ("x-goog-api-key", "sk-client"),
        ("ocp-apim-subscription-key", "sk-client"),
        ("openai-organization", "org-client"),
        ("openai-project", "proj-client"),
        ("x-goog-user-project", "client"),
        ("cookie", "session=sk-client"),
        ("forwarded", "for=192.0.2.1"),
        ("x-forwarded-for", "192.0.2.1"),
        ("x-forwarded-proto", "https"),
        ("x-real-ip", "192.0.2.1"),
        ("true-client-ip", "192.0.2.1"),
        ("cf-connecting-ip", "192.0.2.1"),
        ("x-stanchion-session", "client"),
    ];
    let passed = [
        ("accept", "text/event-stream"),
        ("anthropic-beta", "one"),
        ("anthropic-beta", "two"),
        ("anthropic-version", "2024-01-01"),
        ("content-type", "application/json; charset=utf-8"),
        ("traceparent", "00-1-1-01"),
        ("user-agent", "client/1"),
        ("x-stainless-retry-count", "0"),
    ];
    for (name, value) in own.iter().chain(&passed) {
        request.headers_mut().append(*name, HeaderValue::from_static(value));
    }
    let (parts, _) = sent(request).await.unwrap();
    let mut expected: Vec<_> = passed.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    expected.extend(["accept-encoding: identity".into(), "x-api-key: sk-ours".into()]);
    expected.sort();
    assert_eq!(lines(&parts.headers), expected);
    assert_eq!(parts.version, Version::HTTP_11);
    assert!(parts.headers["x-api-key"].is_sensitive());
    assert!(!format!("{parts:?}").contains("sk-"), "{parts:?}");
}

#[tokio::test]
async fn the_candidates_headers_have_the_last_word() {
    let candidate = candidate(Family::OpenAi, "https://h/v1")
        .with_header(HeaderName::from_static("api-key"), HeaderValue::from_static("azure"))
        .with_header(HeaderName::from_static("authorization"), HeaderValue::from_static("Bearer entra"))
        .with_header(HeaderName::from_static("x-team"), HeaderValue::from_static("ours"));
    let mut request = request(Dialect::OpenAiChat, candidate);
    request.headers_mut().append("x-team", HeaderValue::from_static("one"));
    request.headers_mut().append("x-team", HeaderValue::from_static("two"));
    let (parts, _) = sent(request).await.unwrap();
    assert_eq!(
        lines(&parts.headers),
        [
            "accept-encoding: identity",
            "api-key: azure",
            "authorization: Bearer entra",
            "content-type: application/json",
            "x-team: ours"
        ]
    );
}

#[tokio::test]
async fn what_cannot_be_sent_says_why_and_counts_as_no_attempt() {
    let with = |candidate| request(Dialect::OpenAiChat, candidate);
    let mut no_call = with(candidate(Family::OpenAi, "https://h/v1"));
    no_call.extensions_mut().remove::<Call>();
    let mut no_candidate = with(candidate(Family::OpenAi, "https://h/v1"));
    no_candidate.extensions_mut().remove::<Selected>();
    let broken_key =
        Candidate::new("primary", Family::OpenAi, "https://h/v1").with_credential(Secret::new("sk-ours\n"));
    for (mut request, problem, named) in [
        (no_candidate, Unsendable::NoCandidate, false),
        (no_call, Unsendable::NoCall, true),
        (
            with(candidate(Family::Anthropic, "https://h")),
            Unsendable::Family { candidate: Family::Anthropic, call: Family::OpenAi },
            true,
        ),
        (with(candidate(Family::OpenAi, "h/v1")), Unsendable::Target(BadTarget::NotAbsolute), true),
        (with(candidate(Family::OpenAi, "https://sk-ours@h/v1")), Unsendable::Target(BadTarget::UserInfo), true),
        (with(broken_key), Unsendable::Credential, true),
    ] {
        let context = Context::default();
        context.count_attempt();
        request.extensions_mut().insert(context.clone());
        let failure = sent(request).await.unwrap_err();
        assert_eq!((failure.kind(), failure.phase()), (FailureKind::Misconfigured, Phase::Connect));
        assert_eq!(failure.source().unwrap().downcast_ref(), Some(&problem));
        assert_eq!(failure.candidate().is_some(), named, "{problem:?}");
        assert_eq!((failure.attempts(), context.attempts()), (1, 1), "{problem:?}");
        let shown = chain(&failure);
        assert!(!shown.contains("sk-ours") && !shown.contains("h/v1"), "{shown}");
    }
}

/// A failure and all that is underneath, as `Display` and `Debug` show it.
fn chain(failure: &Failure) -> String {
    let mut shown = String::new();
    let mut next: Option<&dyn Error> = Some(failure);
    while let Some(error) = next {
        shown.extend([error.to_string(), format!("{error:?}")]);
        next = error.source();
    }
    shown
}

#[tokio::test]
async fn extensions_reach_the_transport() {
    let mut request = request(Dialect::OpenAiChat, candidate(Family::OpenAi, "https://h/v1"));
    request.extensions_mut().insert(Context::default());
    let (parts, _) = sent(request).await.unwrap();
    assert!(parts.extensions.get::<Context>().is_some() && parts.extensions.get::<Selected>().is_some());
}

#[tokio::test]
async fn an_empty_body_stays_empty() {
    let request = request(Dialect::OpenAiChat, candidate(Family::OpenAi, "https://h/v1"));
    let request: Request<Full<bytes::Bytes>> = request.map(|_| Full::default());
    assert_eq!(sent(request).await.unwrap().1, "");
}

#[tokio::test]
async fn a_request_that_is_marked_so_goes_without_its_output_limits() {
    let body = r#"{"model":"asked","max_tokens":5,"max_completion_tokens":6,"messages":[]}"#;
    for (marked, expected) in [
        (false, r#"{"model":"ours","max_tokens":5,"max_completion_tokens":6,"messages":[]}"#),
        (true, r#"{"model":"ours", "messages":[]}"#),
    ] {
        let mut request = request(Dialect::OpenAiChat, candidate(Family::OpenAi, "https://h/v1"));
        *request.body_mut() = http_body_util::Full::from(body);
        if marked {
            request.extensions_mut().insert(WithoutOutputLimit);
        }
        assert_eq!(sent(request).await.unwrap().1, expected);
    }
}

#[tokio::test]
async fn what_a_candidate_sets_goes_into_its_own_request_only() {
    let plain = candidate(Family::OpenAi, "https://h/v1");
    let own = plain.clone().with_temperature(0.25).with_max_output_tokens(7);
    let sent_by = async |candidate| sent(request(Dialect::OpenAiChat, candidate)).await.unwrap().1;
    assert_eq!(
        sent_by(own).await,
        r#"{"model":"ours", "messages":[{"model":"asked"}], "temperature": 0.25, "max_completion_tokens": 7}"#
    );
    assert_eq!(sent_by(plain).await, r#"{"model":"ours", "messages":[{"model":"asked"}]}"#);
}

#[tokio::test]
async fn each_attempt_of_a_traced_request_has_a_span_of_its_own() {
    let trace = TraceContext::root(TraceId::new(1), SpanId::new(2), true);
    let context = Context::builder().trace(trace.clone()).build();
    for attempt in 1..=2 {
        let mut request = request(Dialect::OpenAiChat, candidate(Family::OpenAi, "https://h/v1"));
        request.headers_mut().insert("traceparent", HeaderValue::from_static("the client's"));
        request.headers_mut().insert("tracestate", HeaderValue::from_static("the client's"));
        request.extensions_mut().insert(context.clone());
        let (parts, _) = sent(request).await.unwrap();
        let told = format!("00-{}-{}-01", trace.trace_id(), trace.attempt(attempt));
        assert_eq!(parts.headers["traceparent"], told);
        assert!(!parts.headers.contains_key("tracestate"));
    }
    // Without a trace of ours, the client's own goes on.
    let mut request = request(Dialect::OpenAiChat, candidate(Family::OpenAi, "https://h/v1"));
    request.headers_mut().insert("traceparent", HeaderValue::from_static("the client's"));
    request.extensions_mut().insert(Context::default());
    assert_eq!(sent(request).await.unwrap().0.headers["traceparent"], "the client's");
}
