use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use stanchion_wire::{render, synthesize};
use tokio_test::{assert_ready, task};

use super::{
    played::{Act, EVENT_STREAMS, GEMINI, Got, Play, Reader, data, got, streamed},
    *,
};

const HEARTBEAT: &str = ": waiting\n\n";

fn every(seconds: u64) -> EdgeLayer {
    EdgeLayer::new().heartbeat(Duration::from_secs(seconds))
}

/// What follows the heartbeats, of which there must be as many, and nothing else.
fn after_heartbeats(got: &Got, heartbeats: usize) -> String {
    let text = got.text();
    let rest = text.strip_prefix(&*HEARTBEAT.repeat(heartbeats)).unwrap_or_else(|| panic!("{text}"));
    assert!(!rest.contains(HEARTBEAT), "{text}");
    rest.to_owned()
}

#[tokio::test(start_paused = true)]
async fn while_a_client_waits_it_is_told_so() {
    for (path, _) in EVENT_STREAMS {
        let reply = [(50, "data: {\"a\":1}\n\n"), (150, "data: [DONE]\n\n")];
        let play = Play::stream(vec![Act::Wait(50)], vec![data(reply[0].1), Act::Wait(100), data(reply[1].1)]);
        let got = got(every(15), streamed(path), play).await;
        let beats = [15, 30, 45].map(|at| (at, HEARTBEAT));
        let expected: Vec<_> = beats.into_iter().chain(reply).map(|(at, text)| (at, text.to_owned())).collect();
        assert_eq!((got.head_at, &got.pieces), (0, &expected), "{path}");
        assert_eq!(got.head.status(), 200);
        assert_eq!(got.header("content-type"), Some("text/event-stream"));
        assert_eq!(got.header("cache-control"), Some("no-cache, no-transform"));
        assert_eq!(got.header("x-accel-buffering"), Some("no"));
        assert_eq!(got.head.headers().len(), 3, "nothing else is known: {:?}", got.head.headers());
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_has_not_begun_is_waited_for_in_the_same_way() {
    let play = Play::stream(vec![Act::Yield], vec![Act::Wait(25), data("data: 1\n\n"), Act::Wait(25)]);
    for reader in [Reader::None, Reader::Before(Framing::Sse), Reader::Along(Framing::Sse)] {
        let got = got(every(10), streamed(CHAT), play.clone().reader(reader)).await;
        assert_eq!(after_heartbeats(&got, 2), "data: 1\n\n");
        assert_eq!(got.pieces.last().unwrap().0, 25);
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeats_are_for_streams_of_events_only() {
    let slow =
        || every(15).heartbeat_for(|call| (call.model.as_deref() == Some("slow")).then_some(Duration::from_secs(15)));
    let chosen = |model: &str| post(CHAT, &format!(r#"{{"model":"{model}","stream":true}}"#));
    for (layer, request, expected) in [
        (every(15), streamed(CHAT), true),
        (EdgeLayer::new(), streamed(CHAT), false),
        (every(0), streamed(CHAT), false),
        (EdgeLayer::new().heartbeat_for(|_| Some(Duration::ZERO)), streamed(CHAT), false),
        (slow(), chosen("slow"), true),
        (slow(), chosen("quick"), false),
        (every(15), post(CHAT, r#"{"model":"m"}"#), false),
        (every(15), post("/v1/embeddings", r#"{"model":"m","stream":true}"#), false),
        (every(15), post("/api/chat", r#"{"model":"m"}"#), false),
        (every(15), post("/v1beta/models/m:streamGenerateContent", "{}"), false),
        (every(15), post("/v1beta/models/m:generateContent?alt=sse", "{}"), false),
        (every(15), streamed(GEMINI), true),
    ] {
        let shown = format!("{} {:?}", request.uri(), layer);
        let play = Play::stream(vec![Act::Wait(20)], vec![data("data: 1\n\n")]);
        let got = got(layer, request, play).await;
        assert_eq!(got.head_at, if expected { 0 } else { 20 }, "{shown}");
        assert_eq!(after_heartbeats(&got, usize::from(expected)), "data: 1\n\n", "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_is_a_second_apart_at_least_and_may_never_come() {
    for (heartbeat, heartbeats) in [(Duration::from_nanos(1), 3), (Duration::MAX, 0)] {
        let play = Play::stream(vec![Act::Wait(3), Act::Yield], vec![data("data: 1\n\n")]);
        let got = got(EdgeLayer::new().heartbeat(heartbeat), streamed(CHAT), play).await;
        assert_eq!((got.head_at, after_heartbeats(&got, heartbeats)), (0, "data: 1\n\n".into()));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_known_at_once_keeps_its_status() {
    let small = || every(15).max_request_bytes(16);
    for (layer, request, status) in [
        (every(15), post("/v1/nothing", "{}"), 404),
        (every(15), Request::get(CHAT).body(Full::default()).unwrap(), 405),
        (every(15), post(CHAT, "{\"model\":"), 400),
        (small(), streamed(CHAT), 413),
    ] {
        let got = got(layer, request, Play::stream(vec![Act::Wait(1)], vec![])).await;
        assert_eq!((got.head.status().as_u16(), got.header("content-type")), (status, Some("application/json")));
    }
    let unknown = Play::stream(vec![Act::Error(FailureKind::NotFound)], vec![]);
    assert_eq!(got(every(15), streamed(CHAT), unknown).await.head.status(), 404);
    let at_once = Play::stream(vec![], vec![data("data: 1\n\n"), Act::Wait(40)]);
    let got = got(every(15), streamed(CHAT), at_once).await;
    assert_eq!((got.text(), got.head.extensions().get::<StreamRecord>().is_some()), ("data: 1\n\n".into(), true));
}

#[tokio::test(start_paused = true)]
async fn a_failure_comes_in_band_whatever_it_is() {
    for (path, dialect) in EVENT_STREAMS {
        for kind in FailureKind::ALL {
            let failure = Failure::new(kind).with_candidate("primary/m").with_attempts(2);
            let expected = render::in_band(dialect, Framing::Sse, &failure, 0).unwrap();
            let play = Play::stream(vec![Act::Wait(20), Act::Error(kind)], vec![]);
            let got = got(every(15), streamed(path), play).await;
            assert_eq!((got.head.status().as_u16(), got.failed), (200, None));
            assert_eq!(after_heartbeats(&got, 1), expected, "{path} {kind:?}");
            assert!(!got.text().contains("[DONE]") && !got.text().contains("message_stop"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_breaks_is_told_as_ever() {
    let steps = vec![data("data: 1\n\n"), Act::Wait(60), Act::Error(FailureKind::IdleTimeout)];
    let got = got(every(15), streamed(CHAT), Play::stream(vec![Act::Wait(15), Act::Yield], steps)).await;
    let text = after_heartbeats(&got, 1);
    let error = text.strip_prefix("data: 1\n\n").unwrap();
    assert!(error.starts_with("data: {\"error\":") && error.contains("idle_timeout"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn half_an_event_cannot_be_followed_by_an_error() {
    let steps = vec![data("data: {\"a"), Act::Error(FailureKind::Transport)];
    let play = Play::stream(vec![Act::Yield], steps).reader(Reader::None);
    let got = got(every(15), streamed(CHAT), play).await;
    assert_eq!((got.text(), got.failed), ("data: {\"a".into(), Some(FailureKind::Transport)));
}

#[tokio::test(start_paused = true)]
async fn a_whole_reply_becomes_the_stream_that_was_begun() {
    for (path, dialect, document) in [
        (
            CHAT,
            Dialect::OpenAiChat,
            r#"{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}"#,
        ),
        (
            "/v1/responses",
            Dialect::OpenAiResponses,
            r#"{"id":"r","object":"response","status":"completed","output":[]}"#,
        ),
        (
            "/v1/messages",
            Dialect::AnthropicMessages,
            r#"{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"}"#,
        ),
        (GEMINI, Dialect::GeminiGenerateContent, r#"{"candidates":[{"finishReason":"STOP"}]}"#),
        (GEMINI, Dialect::GeminiGenerateContent, r#"[{"candidates":[{"finishReason":"STOP"}]}]"#),
    ] {
        let expected = synthesize::stream(dialect, document.as_bytes()).unwrap();
        for reader in [
            Reader::None,
            Reader::Before(Framing::Document),
            Reader::Along(Framing::Document),
            Reader::Along(Framing::JsonArray),
        ] {
            let (a, b) = document.split_at(7);
            let mut play = Play::document(vec![Act::Wait(16)], "").reader(reader);
            play.body = vec![Act::Wait(16), data(a), Act::Wait(16), data(b)];
            let got = got(every(15), streamed(path), play).await;
            assert_eq!(after_heartbeats(&got, 3), expected, "{path} {reader:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_stream_and_no_reply_is_an_error_in_band() {
    let plain = |body: &str| Play::document(vec![Act::Yield], body).reader(Reader::None);
    let refused = |status, body: &str| Play { status, ..plain(body) };
    let encoded = Play { headers: vec![("content-encoding", "gzip")], ..plain("data: 1\n\n") };
    let hanging = Play { body: vec![data("busy"), Act::Hang], ..refused(503, "") };
    let broken = Play { body: vec![data("{\"id\""), Act::Error(FailureKind::Transport)], ..plain("") };
    let large = "x".repeat(9 * 1024 * 1024);
    let quota = r#"{"error":{"message":"No more.","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    for (play, needle, after) in [
        (refused(400, r#"{"error":{"message":"Bad tools.","type":"invalid_request_error"}}"#), "Bad tools.", 0),
        (refused(429, quota), "insufficient_quota", 0),
        (refused(302, ""), "302", 0),
        (refused(500, &large), "500", 0),
        (hanging, "503", 5),
        (plain(quota), "No more.", 0),
        (plain("[]"), "not_a_model_reply", 0),
        (plain(&large), "malformed_reply", 0),
        (encoded, "malformed_reply", 0),
        (broken, "connection_broken", 0),
    ] {
        let got = got(every(15), streamed(CHAT), play).await;
        let text = after_heartbeats(&got, 0);
        assert!(text.starts_with("data: {\"error\":") && text.ends_with("}\n\n"), "{text}");
        assert!(text.contains(needle), "{needle}: {text}");
        assert_eq!((got.head.status().as_u16(), got.pieces.len(), got.pieces[0].0), (200, 1, after), "{needle}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_byte_order_mark_counts_only_where_the_stream_begins() {
    let marked = "\u{feff}data: 1\n\n";
    for (wait, expected) in [(0, marked.to_owned()), (16, format!("{HEARTBEAT}data: 1\n\n"))] {
        let play = Play::stream(vec![Act::Yield, Act::Wait(wait)], vec![data(marked), data(marked)]);
        assert_eq!(got(every(15), streamed(CHAT), play).await.text(), format!("{expected}{marked}"));
    }
}

#[tokio::test(start_paused = true)]
async fn trailers_and_empty_bodies_pass() {
    let play = Play::stream(vec![Act::Yield], vec![data("data: 1\n\n"), Act::Trailers]);
    assert_eq!(got(every(15), streamed(CHAT), play).await.pieces.last().unwrap().1, "trailers");
    let play = Play::stream(vec![Act::Yield], vec![Act::Trailers]);
    assert_eq!(got(every(15), streamed(CHAT), play).await.text(), "trailers");
    let play = Play::stream(vec![Act::Yield], vec![]).reader(Reader::None);
    assert_eq!(got(every(15), streamed(CHAT), play).await.text(), "");
}

/// Drops a reply after every number of polls, and looks whether all within is gone.
#[tokio::test(start_paused = true)]
async fn whenever_the_client_leaves_everything_within_is_dropped() {
    let stream = Play::stream(
        vec![Act::Yield, Act::Event(1), Act::Yield],
        vec![Act::Yield, data("data: 1\n\n"), Act::Yield, Act::Event(2), data("data: 2\n\n"), Act::Yield],
    );
    let document = Play::document(vec![Act::Yield], "{").reader(Reader::None);
    let failing = Play::stream(vec![Act::Yield, Act::Error(FailureKind::Overloaded)], vec![]);
    let refused = Play { status: 500, ..Play::document(vec![Act::Yield], "no") };
    for play in [stream, document, failing, refused] {
        for polls in 0..20 {
            let live = Arc::default();
            let play = Play { live: Arc::clone(&live), ..play.clone() };
            let service =
                every(1).layer(service_fn(move |request: Request<Full<Bytes>>| play.clone().answer(&request)));
            let mut request = streamed(CHAT);
            request.headers_mut().insert("x-stanchion-events", "sse".parse().unwrap());
            let mut head = task::spawn(service.oneshot(request));
            if polls == 0 {
                drop(head);
                assert_eq!(live.load(Ordering::SeqCst), 0);
                continue;
            }
            let body = assert_ready!(head.poll()).unwrap().into_body();
            drop(head);
            let mut body = task::spawn(body);
            for _ in 1..polls {
                let _ = body.enter(|cx, body| body.poll_frame(cx));
            }
            drop(body);
            assert_eq!(live.load(Ordering::SeqCst), 0, "after {polls} polls");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_slow_to_read_gets_no_burst() {
    let play = Play::stream(vec![Act::Hang], vec![]);
    let service = every(1).layer(service_fn(move |request: Request<Full<Bytes>>| play.clone().answer(&request)));
    let body = service.oneshot(streamed(CHAT)).await.unwrap().into_body();
    let mut body = task::spawn(body);
    body.enter(|cx, body| assert!(body.poll_frame(cx).is_pending()));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(body.is_woken());
    let frame = body.enter(|cx, body| assert_ready!(body.poll_frame(cx)));
    assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), HEARTBEAT);
    body.enter(|cx, body| assert!(body.poll_frame(cx).is_pending()));
}

#[tokio::test(start_paused = true)]
async fn the_contract_holds_with_heartbeats() {
    let contract = Contract::new(every(15));
    contract.readiness().await;
    contract.no_reservation().await;
    // Its check of a drop waits for an answer that is not to come, and here one comes at once.
}
