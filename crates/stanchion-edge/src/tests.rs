mod events;
mod heartbeat;
mod played;

use std::{
    convert::Infallible,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use stanchion_core::{
    Call, CommitPolicy, Context, Dialect, Failure, FailureKind, Framing, ProviderReply, RequestClass, StreamRecord,
};
use stanchion_testkit::{Contract, ScriptedBody, Step};
use tower::{ServiceExt, service_fn};
use tower_layer::Layer;

use super::*;

const CHAT: &str = "/v1/chat/completions";

fn post(path: &str, body: &str) -> Request<Full<Bytes>> {
    Request::post(path).body(Full::from(body.to_owned())).unwrap()
}

/// What an edge around `answer` gives for a request, body included.
async fn asked<F>(layer: EdgeLayer, request: Request<Full<Bytes>>, answer: F) -> (Response<()>, Result<Bytes, Failure>)
where
    F: Fn(Request<Full<Bytes>>) -> Result<Response<ScriptedBody>, Failure> + Clone,
{
    let service = layer.layer(service_fn(move |request| std::future::ready(answer(request))));
    let (head, body) = service.oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes);
    (Response::from_parts(head, ()), body)
}

async fn refused(path: &str, failure: impl Fn() -> Failure + Clone) -> (Response<()>, Value) {
    let (head, body) =
        asked(EdgeLayer::new(), post(path, r#"{"model":"m","stream":true}"#), move |_| Err(failure())).await;
    (head, serde_json::from_slice(&body.unwrap()).unwrap())
}

fn header<'a>(response: &'a Response<()>, name: &str) -> Option<&'a str> {
    response.headers().get(name).map(|value| value.to_str().unwrap())
}

#[tokio::test]
async fn a_request_is_read_once_and_can_be_replayed() {
    let seen = Arc::new(Mutex::new(None));
    let into = seen.clone();
    let mut request = post("/v1/messages", r#"{"model":"claude","stream":true}"#);
    for (name, value) in [
        ("x-stanchion-session", "s1"),
        ("x-stanchion-owner", "root"),
        ("x-stanchion-class", "Background"),
        ("x-stanchion-context-epoch", "e2"),
    ] {
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    asked(EdgeLayer::new(), request, move |request| {
        let context = Context::of(&request).unwrap();
        let identity =
            [context.session(), context.owner(), context.context_epoch()].map(|text| text.map(str::to_owned));
        *into.lock().unwrap() = Some((request.extensions().get::<Call>().cloned().unwrap(), identity, context.class()));
        let _: Request<Full<Bytes>> = request.clone();
        Ok(Response::new(ScriptedBody::frames(["x"])))
    })
    .await
    .1
    .unwrap();
    let (call, identity, class) = seen.lock().unwrap().take().unwrap();
    let bytes = r#"{"model":"claude","stream":true}"#.len();
    let expected = Call::new(Dialect::AnthropicMessages, true).with_model("claude").with_request_bytes(bytes);
    assert_eq!(call, expected.with_tokens(bytes / 4).with_output_limit(false));
    assert_eq!(identity, [Some("s1"), Some("root"), Some("e2")].map(|text| text.map(str::to_owned)));
    assert_eq!(class, RequestClass::Background);
}

#[tokio::test]
async fn a_request_may_choose_when_its_reply_leaves() {
    for (layer, value, expected) in [
        (EdgeLayer::new(), "complete", Some(CommitPolicy::Complete)),
        (EdgeLayer::new(), "sometime", None),
        (EdgeLayer::new().identity_headers(false), "complete", None),
    ] {
        let mut request = post(CHAT, r#"{"model":"m"}"#);
        request.headers_mut().insert("x-stanchion-commit", value.parse().unwrap());
        let seen = Arc::new(Mutex::new(None));
        let into = seen.clone();
        asked(layer, request, move |request| {
            *into.lock().unwrap() = request.extensions().get::<CommitPolicy>().copied();
            Ok(Response::new(ScriptedBody::frames(["x"])))
        })
        .await
        .1
        .unwrap();
        assert_eq!(*seen.lock().unwrap(), expected, "{value}");
    }
}

#[tokio::test]
async fn identity_is_believed_only_where_it_may_be() {
    let mut request = post(CHAT, r#"{"model":"m"}"#);
    request.headers_mut().insert("x-stanchion-session", "s1".parse().unwrap());
    let seen = Arc::new(Mutex::new(None));
    let into = seen.clone();
    asked(EdgeLayer::new().identity_headers(false), request, move |request| {
        *into.lock().unwrap() = Context::of(&request).unwrap().session().map(str::to_owned);
        Ok(Response::new(ScriptedBody::frames(["x"])))
    })
    .await
    .1
    .unwrap();
    assert_eq!(*seen.lock().unwrap(), None);
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_in_the_dialects_form() {
    let untouched =
        |_: Request<Full<Bytes>>| -> Result<Response<ScriptedBody>, Failure> { panic!("nothing may be asked") };
    let small = EdgeLayer::new().max_request_bytes(16);
    for (layer, request, status, needle, reason) in [
        (EdgeLayer::new(), post("/v1/nothing", "{}"), 404, "/v1/nothing", Refused::UnknownPath),
        (EdgeLayer::new(), Request::get(CHAT).body(Full::default()).unwrap(), 405, "POST", Refused::WrongMethod),
        (EdgeLayer::new(), post(CHAT, "{\"model\":"), 400, "JSON", Refused::InvalidBody),
        (EdgeLayer::new(), post(CHAT, "[]"), 400, "object", Refused::InvalidBody),
        (EdgeLayer::new(), post(CHAT, r#"{"model":7}"#), 400, "model", Refused::InvalidBody),
        (EdgeLayer::new(), post(CHAT, ""), 400, "JSON", Refused::InvalidBody),
        (small, post("/v1/messages", r#"{"model":"much too long"}"#), 413, "16 bytes", Refused::BodyTooLarge),
    ] {
        let (head, body) = asked(layer, request, untouched).await;
        let body = body.unwrap();
        let parsed: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(head.status().as_u16(), status, "{parsed}");
        assert!(parsed["error"]["message"].as_str().unwrap().contains(needle), "{parsed}");
        assert_eq!(head.extensions().get(), Some(&reason), "{parsed}");
    }
}

#[tokio::test]
async fn a_body_beyond_the_ceiling_is_never_held() {
    let drops = Arc::new(AtomicUsize::new(0));
    let endless = ScriptedBody::frames(vec![Bytes::from_static(b"0123456789"); 1000]).counts_drops(&drops);
    let request = Request::post(CHAT).body(endless).unwrap();
    let service = EdgeLayer::new().max_request_bytes(64).layer(service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, Failure>(Response::new(ScriptedBody::frames(["x"])))
    }));
    let response = service.oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(response.headers()["connection"], "close");
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_pauses_is_not_waited_for_without_end() {
    let s = std::time::Duration::from_secs;
    let whole = r#"{"model":"m"}"#;
    let (a, b) = whole.split_at(5);
    for (pauses, status, after) in [([29, 29], 200, 58), ([29, 31], 408, 59), ([31, 0], 408, 30)] {
        let body = ScriptedBody::new([
            Step::Delay(s(pauses[0])),
            Step::Data(a.into()),
            Step::Delay(s(pauses[1])),
            Step::Data(b.into()),
        ]);
        let request = Request::post("/v1/messages").body(body).unwrap();
        let answer = |_: Request<Full<Bytes>>| async { Ok::<_, Failure>(Response::new(ScriptedBody::frames(["x"]))) };
        let start = tokio::time::Instant::now();
        let response = EdgeLayer::new().layer(service_fn(answer)).oneshot(request).await.unwrap();
        assert_eq!((response.status().as_u16(), start.elapsed()), (status, s(after)), "{pauses:?}");
        let expected = (status == 408).then_some(&Refused::BodyTimeout);
        assert_eq!(response.extensions().get(), expected, "{pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_drips_is_not_waited_for_without_end() {
    let s = std::time::Duration::from_secs;
    for (pieces, status, after) in [(10, 200, 200), (20, 408, 300)] {
        let text = format!("{:<width$}", r#"{"model":"m"}"#, width = pieces * 20);
        let dripping = text
            .as_bytes()
            .chunks(20)
            .flat_map(|piece| [Step::Delay(s(20)), Step::Data(Bytes::copy_from_slice(piece))]);
        let request = Request::post("/v1/messages").body(ScriptedBody::new(dripping)).unwrap();
        let answer = |_: Request<Full<Bytes>>| async { Ok::<_, Failure>(Response::new(ScriptedBody::frames(["x"]))) };
        let start = tokio::time::Instant::now();
        let response = EdgeLayer::new().layer(service_fn(answer)).oneshot(request).await.unwrap();
        assert_eq!((response.status().as_u16(), start.elapsed()), (status, s(after)), "{pieces}");
    }
}

#[tokio::test]
async fn a_whole_reply_of_gemini_is_an_array_unless_events_were_asked_for() {
    let document = r#"{"candidates":[{"content":{"parts":[{"text":"Hi"}]},"finishReason":"STOP"}]}"#;
    let path = "/v1beta/models/m:streamGenerateContent";
    for (query, kind, expected) in [
        ("", "application/json", format!("[{document}]")),
        ("?alt=sse", "text/event-stream", format!("data: {document}\r\n\r\n")),
    ] {
        let answer = streaming(Framing::Document, vec![Step::Data(document.into())]);
        let whole = move |request| {
            let mut response = answer(request)?;
            *response.body_mut() = ScriptedBody::frames([document]).exact_size();
            Ok(response)
        };
        let (head, body) = asked(EdgeLayer::new(), post(&format!("{path}{query}"), r#"{"contents":[]}"#), whole).await;
        assert_eq!((header(&head, "content-type"), body.unwrap()), (Some(kind), Bytes::from(expected)));
    }
}

#[tokio::test]
async fn failures_are_errors_of_the_dialect() {
    for (path, kind, status, pointer, value) in [
        (CHAT, FailureKind::Overloaded, 503, "/error/code", "overloaded"),
        ("/v1/messages", FailureKind::Overloaded, 503, "/error/type", "overloaded_error"),
        ("/v1/messages", FailureKind::RateLimited, 429, "/error/type", "rate_limit_error"),
        (CHAT, FailureKind::ContextOverflow, 400, "/error/code", "context_length_exceeded"),
        (CHAT, FailureKind::FirstOutputTimeout, 504, "/error/code", "first_output_timeout"),
        ("/v1beta/models/m:streamGenerateContent", FailureKind::Overloaded, 503, "/error/status", "UNAVAILABLE"),
    ] {
        let (head, body) = refused(path, move || Failure::new(kind).with_candidate("primary/m").with_attempts(3)).await;
        assert_eq!(head.status().as_u16(), status, "{body}");
        assert_eq!(body.pointer(pointer).and_then(Value::as_str), Some(value), "{body}");
        assert_eq!(
            (header(&head, "x-stanchion-candidate"), header(&head, "x-stanchion-attempts")),
            (Some("primary/m"), Some("3"))
        );
        assert_eq!(
            header(&head, "x-should-retry"),
            Some("false"),
            "one owner of retries: outer clients are told to stop"
        );
    }
}

#[tokio::test]
async fn a_callers_mistake_comes_back_verbatim() {
    let body = r#"{"error": {"message": "Unknown parameter: 'foo'.",  "type": "invalid_request_error"}}"#;
    let (head, seen) = asked(EdgeLayer::new(), post(CHAT, r#"{"model":"m"}"#), move |_| {
        let mut headers = http::HeaderMap::new();
        headers.insert("content-type", "application/json".parse().unwrap());
        headers.insert("x-request-id", "req_1".parse().unwrap());
        let reply = ProviderReply {
            status: StatusCode::BAD_REQUEST,
            headers,
            body: Bytes::from_static(body.as_bytes()),
            complete: true,
        };
        Err(Failure::new(FailureKind::InvalidRequest).with_request_id("req_1").with_reply(reply))
    })
    .await;
    assert_eq!(head.status(), StatusCode::BAD_REQUEST);
    assert_eq!(seen.unwrap(), body);
    assert_eq!(header(&head, "x-request-id"), Some("req_1"));
}

fn streaming(
    framing: Framing,
    steps: Vec<Step>,
) -> impl Fn(Request<Full<Bytes>>) -> Result<Response<ScriptedBody>, Failure> + Clone {
    move |_| {
        let (record, mut recorder) = StreamRecord::new();
        recorder.framing(framing);
        recorder.output();
        let mut response = Response::new(ScriptedBody::new(steps.clone()));
        response.extensions_mut().insert(record);
        Ok(response)
    }
}

#[tokio::test]
async fn a_late_failure_is_an_in_band_error_and_then_the_end() {
    for (path, framing, output, starts, ends) in [
        (CHAT, Framing::Sse, "data: {}\n\n", "data: {\"error\":", "\n\n"),
        ("/v1/responses", Framing::Sse, "data: {}\n\n", "event: error\ndata: {\"type\":\"error\",", "\n\n"),
        ("/v1/messages", Framing::Sse, "data: {}\n\n", "event: error\ndata: {\"type\":\"error\",\"error\":{", "\n\n"),
        ("/v1beta/models/m:streamGenerateContent", Framing::Sse, "data: {}\r\n\r\n", "data: {\"error\":", "\r\n\r\n"),
        ("/v1beta/models/m:streamGenerateContent", Framing::JsonArray, "[{}", ",\r\n{\"error\":", "]"),
        ("/api/chat", Framing::Ndjson, "{}\n", "{\"error\":", "\n"),
    ] {
        let steps = vec![Step::Data(output.into()), Step::Error(FailureKind::Truncated)];
        let (head, body) =
            asked(EdgeLayer::new(), post(path, r#"{"model":"m","stream":true}"#), streaming(framing, steps)).await;
        let body = String::from_utf8(body.unwrap().to_vec()).unwrap();
        let error = body.strip_prefix(output).unwrap();
        assert!(error.starts_with(starts) && error.ends_with(ends), "{path}: {error}");
        assert!(!error.contains("[DONE]") && !error.contains("message_stop") && !error.contains("finish"), "{error}");
        assert_eq!(head.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn a_document_that_breaks_late_cuts_the_connection() {
    let steps = vec![Step::Data("{\"data\":[".into()), Step::Error(FailureKind::Transport)];
    let (_, body) =
        asked(EdgeLayer::new(), post("/v1/embeddings", r#"{"model":"m"}"#), streaming(Framing::Document, steps)).await;
    assert_eq!(body.unwrap_err().kind(), FailureKind::Transport);
}

#[tokio::test]
async fn streams_say_that_they_are_streams() {
    let (head, _) = asked(
        EdgeLayer::new(),
        post(CHAT, r#"{"model":"m","stream":true}"#),
        streaming(Framing::Sse, vec![Step::Data("data: {}\n\n".into())]),
    )
    .await;
    assert_eq!(header(&head, "content-type"), Some("text/event-stream"));
    assert_eq!(
        (header(&head, "cache-control"), header(&head, "x-accel-buffering")),
        (Some("no-cache, no-transform"), Some("no"))
    );
}

#[tokio::test]
async fn a_whole_reply_becomes_the_stream_that_was_asked_for() {
    let document =
        r#"{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}"#;
    let answer = streaming(Framing::Document, vec![Step::Data(document.into())]);
    let whole = move |request| {
        let mut response = answer(request)?;
        response.headers_mut().insert("content-type", "application/json".parse().unwrap());
        *response.body_mut() = ScriptedBody::frames([document]).exact_size();
        Ok(response)
    };
    let (head, body) = asked(EdgeLayer::new(), post(CHAT, r#"{"model":"m","stream":true}"#), whole.clone()).await;
    let body = String::from_utf8(body.unwrap().to_vec()).unwrap();
    assert_eq!(header(&head, "content-type"), Some("text/event-stream"));
    assert!(body.contains("\"content\":\"ok\"") && body.ends_with("data: [DONE]\n\n"), "{body}");

    let (head, body) = asked(EdgeLayer::new(), post(CHAT, r#"{"model":"m"}"#), whole).await;
    assert_eq!((header(&head, "content-type"), body.unwrap()), (Some("application/json"), Bytes::from(document)));
}

#[tokio::test]
async fn when_the_client_leaves_everything_within_is_dropped() {
    let drops = Arc::new(AtomicUsize::new(0));
    let body = ScriptedBody::new([Step::Data("data: {}\n\n".into()), Step::Hang]).counts_drops(&drops);
    let mut body = Some(body);
    let inner = Arc::new(Mutex::new(move || body.take().unwrap()));
    let service = EdgeLayer::new().layer(service_fn(move |_: Request<Full<Bytes>>| {
        let body = inner.lock().unwrap()();
        async move { Ok::<_, Infallible>(Response::new(body)) }
    }));
    let mut response = service.oneshot(post(CHAT, r#"{"model":"m","stream":true}"#)).await.unwrap();
    response.body_mut().frame().await.unwrap().unwrap();
    drop(response);
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn the_contract_of_every_layer() {
    // An error of readiness is no error here: it is answered.
    let contract = Contract::new(EdgeLayer::new());
    contract.readiness().await;
    contract.no_reservation().await;
    contract.body().await;
    contract.endings().await;
    contract.release().await;
}

#[tokio::test]
async fn an_ended_body_says_so() {
    let failing =
        streaming(Framing::Sse, vec![Step::Data("data: {}\n\n".into()), Step::Error(FailureKind::IdleTimeout)]);
    let service = EdgeLayer::new().layer(service_fn(move |request| std::future::ready(failing(request))));
    let mut body = service.oneshot(post(CHAT, r#"{"model":"m","stream":true}"#)).await.unwrap().into_body();
    assert!(body.size_hint().exact().is_none(), "an error may follow");
    for _ in 0..2 {
        assert!(!body.is_end_stream());
        body.frame().await.unwrap().unwrap();
    }
    assert!(body.is_end_stream());
    assert!(body.frame().await.is_none());
}
