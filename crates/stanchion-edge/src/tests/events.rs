use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use proptest::prelude::*;
use stanchion_core::{Event, Observer};
use stanchion_testkit::Events;
use stanchion_wire::render;
use tokio_test::{assert_ready, task};

use super::{
    played::{Act, EVENT_STREAMS, Got, Play, Reader, data, event, got, streamed},
    *,
};

/// Events as the client gets them.
fn told(numbers: impl IntoIterator<Item = u32>) -> String {
    numbers.into_iter().map(|number| render::control_event(&event(number))).collect()
}

fn asking(path: &str) -> Request<Full<Bytes>> {
    let mut request = streamed(path);
    request.headers_mut().insert("x-stanchion-events", "sse".parse().unwrap());
    request
}

fn pieces(got: &Got) -> Vec<&str> {
    got.pieces.iter().map(|(_, text)| &**text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_is_told_what_happens_to_its_request() {
    for (path, _) in EVENT_STREAMS {
        let body = vec![
            Act::Event(3),
            data("data: 1\n\n"),
            Act::Event(4),
            Act::Event(5),
            Act::Wait(1),
            data("data: 2\n\n"),
            data("data: 3\n\n"),
        ];
        let play = Play::stream(vec![Act::Event(1), Act::Wait(9), Act::Event(2)], body);
        let got = got(EdgeLayer::new(), asking(path), play).await;
        let (first, second) = (told(1..=3), told(4..=5));
        assert_eq!(pieces(&got), [&*first, "data: 1\n\n", &*second, "data: 2\n\n", "data: 3\n\n"], "{path}");
        assert_eq!((got.head_at, got.header("x-stanchion-events")), (9, Some("sse")));
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_else_is_told() {
    let mut wrong = asking(CHAT);
    wrong.headers_mut().insert("x-stanchion-events", "websocket".parse().unwrap());
    let unstreamed = |path, body| {
        let mut request = post(path, body);
        request.headers_mut().insert("x-stanchion-events", "sse".parse().unwrap());
        request
    };
    let stream = || Play::stream(vec![Act::Event(1)], vec![data("data: 1\n\n"), Act::Event(2)]);
    let array = "/v1beta/models/m:streamGenerateContent";
    let encoded = vec![("content-encoding", "br"), ("content-type", "text/event-stream")];
    for (layer, request, play) in [
        (EdgeLayer::new(), streamed(CHAT), stream()),
        (EdgeLayer::new(), wrong, stream()),
        (EdgeLayer::new().identity_headers(false), asking(CHAT), stream()),
        (EdgeLayer::new(), unstreamed(CHAT, r#"{"model":"m"}"#), stream()),
        (
            EdgeLayer::new(),
            unstreamed("/api/chat", r#"{"model":"m"}"#),
            stream().reader(Reader::Before(Framing::Ndjson)),
        ),
        (EdgeLayer::new(), unstreamed(array, "{}"), stream().reader(Reader::Before(Framing::JsonArray))),
        (EdgeLayer::new(), asking(CHAT), Play { headers: encoded, ..stream() }.reader(Reader::None)),
        (EdgeLayer::new(), asking(CHAT), Play { headers: vec![], ..stream() }.reader(Reader::None)),
        (EdgeLayer::new(), asking(CHAT), Play { status: 500, ..stream() }),
    ] {
        let shown = format!("{request:?}");
        let got = got(layer, request, play).await;
        assert_eq!((got.text(), got.header("x-stanchion-events")), ("data: 1\n\n".into(), None), "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_saw_the_events_before_still_does() {
    let (ours, theirs) = (Events::new(), Events::new());
    let play = Play::stream(vec![Act::Event(1), Act::Wait(1)], vec![Act::Event(2), data("data: 1\n\n")]);
    for layer in [EdgeLayer::new(), EdgeLayer::new().heartbeat(Duration::from_secs(15))] {
        let seen = [ours.lines().len(), theirs.lines().len()];
        let watched = layer.observer(Arc::new(ours.clone()) as Arc<dyn Observer>);
        let reply = got(watched.clone(), asking(CHAT), play.clone()).await;
        assert_eq!(reply.text(), format!("{}data: 1\n\n", told(1..=2)));
        assert_eq!(ours.lines().len(), seen[0] + 2);

        let context = theirs.context();
        let mut request = asking(CHAT);
        request.extensions_mut().insert(context.clone());
        let reply = got(watched, request, play.clone()).await;
        assert_eq!(reply.text(), format!("{}data: 1\n\n", told(1..=2)));
        assert_eq!([ours.lines().len(), theirs.lines().len()], [seen[0] + 2, seen[1] + 2]);
        assert_eq!(context.count_attempt(), 1, "the application's own context");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_the_context_counts_is_counted_in_the_clients_reply() {
    let context = Context::default();
    let mut request = asking(CHAT);
    request.extensions_mut().insert(context.clone());
    let (head, _) = asked(EdgeLayer::new(), request, |request| {
        Context::of(&request).unwrap().count_attempt();
        Err(Failure::new(FailureKind::Overloaded))
    })
    .await;
    assert_eq!((head.status().as_u16(), header(&head, "x-stanchion-attempts")), (503, Some("1")));
    assert_eq!(header(&head, "x-stanchion-events"), None, "its events are lost");
    assert_eq!(context.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn with_a_heartbeat_events_come_while_the_client_waits() {
    let before = vec![Act::Event(1), Act::Wait(10), Act::Event(2), Act::Event(3), Act::Wait(20)];
    let layer = EdgeLayer::new().heartbeat(Duration::from_secs(15));
    let reply = vec![Act::Event(4), data("data: 1\n\n"), Act::Wait(40), Act::Event(5), Act::Wait(40)];
    let got = got(layer, asking(CHAT), Play::stream(before, reply)).await;
    let expected = [
        (0, told([1])),
        (10, told([2, 3])),
        (25, ": waiting\n\n".into()),
        (30, told([4])),
        (30, "data: 1\n\n".into()),
        (70, told([5])),
    ];
    assert_eq!(got.pieces, expected, "an event is output too");
    assert_eq!(got.header("x-stanchion-events"), Some("sse"));
}

#[tokio::test(start_paused = true)]
async fn events_come_before_the_failure_that_ends_the_stream() {
    for (path, dialect) in EVENT_STREAMS {
        let failure = Failure::new(FailureKind::Overloaded).with_candidate("primary/m").with_attempts(2);
        let error = render::in_band(dialect, Framing::Sse, &failure, 0).unwrap();
        let play = Play::stream(vec![Act::Yield, Act::Event(1), Act::Error(FailureKind::Overloaded)], vec![]);
        let reply = got(EdgeLayer::new().heartbeat(Duration::from_secs(15)), asking(path), play).await;
        assert_eq!(reply.text().as_bytes(), [told([1]).as_bytes(), &error].concat());

        let failure = Failure::new(FailureKind::IdleTimeout).with_candidate("primary/m");
        let error = render::in_band(dialect, Framing::Sse, &failure, 0).unwrap();
        let body = vec![data("data: 1\n\n"), Act::Event(1), Act::Error(FailureKind::IdleTimeout)];
        let reply = got(EdgeLayer::new(), asking(path), Play::stream(vec![], body)).await;
        assert_eq!(reply.text().as_bytes(), [b"data: 1\n\n", told([1]).as_bytes(), &error].concat());
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_follows_the_end_marker() {
    let last = || data("data: [DONE]\n\n");
    for (body, expected) in [
        (vec![Act::Event(1), last(), Act::Mark, Act::Event(2)], told([1]) + "data: [DONE]\n\n"),
        (vec![last(), Act::Mark, Act::Event(2), Act::Wait(1), data(": x\n\n")], "data: [DONE]\n\n: x\n\n".into()),
        (vec![last(), Act::Mark, Act::Event(2), Act::Trailers], "data: [DONE]\n\ntrailers".into()),
        // A stream without a marker has no end before its end.
        (vec![data("data: 1\n\n"), Act::Event(2)], "data: 1\n\n".to_owned() + &told([2])),
        (vec![data("data: 1\n\n"), Act::Event(2), Act::Trailers], "data: 1\n\n".to_owned() + &told([2]) + "trailers"),
        (vec![data("data: 1\n\n"), Act::Trailers, Act::Event(2)], "data: 1\n\ntrailers".into()),
        (vec![data("data: 1\n"), Act::Event(2)], "data: 1\n".into()),
        (vec![Act::Event(1), Act::Event(2)], String::new()),
    ] {
        let shown = format!("{body:?}");
        let got = got(EdgeLayer::new(), asking(CHAT), Play::stream(vec![], body)).await;
        assert_eq!(got.text(), expected, "{shown}");
    }
    // Of a stream that nobody reads, nobody knows where it ends.
    let body = vec![Act::Event(1), data("data: 1\n\n"), Act::Event(2)];
    let play = Play::stream(vec![], body).reader(Reader::None);
    assert_eq!(got(EdgeLayer::new(), asking(CHAT), play).await.text(), told([1]) + "data: 1\n\n");
}

#[tokio::test(start_paused = true)]
async fn a_whole_reply_is_told_after_its_events() {
    let document =
        r#"{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}]}"#;
    let play = Play::document(vec![Act::Event(1), Act::Wait(16)], document);
    for (layer, waiting) in
        [(EdgeLayer::new(), ""), (EdgeLayer::new().heartbeat(Duration::from_secs(15)), ": waiting\n\n")]
    {
        let got = got(layer, asking(CHAT), play.clone()).await;
        let rest = got.text().strip_prefix(&(told([1]) + waiting)).map(str::to_owned).unwrap();
        assert!(rest.starts_with("data: {") && rest.ends_with("data: [DONE]\n\n"), "{rest}");
        assert_eq!(got.header("x-stanchion-events"), Some("sse"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_none_after_all_passes_as_it_is() {
    let body = vec![Act::Event(1), data("{\"a\":"), Act::Event(2), data("1}"), Act::Event(3)];
    let play = Play::stream(vec![], body).reader(Reader::Along(Framing::Document));
    assert_eq!(got(EdgeLayer::new(), asking(CHAT), play).await.text(), "{\"a\":1}");
}

#[tokio::test(start_paused = true)]
async fn a_length_that_was_promised_is_not_kept() {
    let mut play = Play::stream(vec![Act::Event(1)], vec![data("data: 1\n\n")]).reader(Reader::None);
    play.headers.push(("content-length", "9"));
    let got = got(EdgeLayer::new(), asking(CHAT), play).await;
    assert_eq!((got.header("content-length"), got.text()), (None, told([1]) + "data: 1\n\n"));
}

#[tokio::test(start_paused = true)]
async fn an_event_wakes_the_client_that_waits_for_it() {
    let context = Arc::new(Mutex::new(None));
    let layer = EdgeLayer::new().heartbeat(Duration::from_secs(3600));
    for before in [vec![Act::Hang], vec![Act::Yield]] {
        let play = Play::stream(before, vec![data("data: 1\n\n"), Act::Hang]);
        let into = context.clone();
        let service = layer.clone().layer(service_fn(move |request: Request<Full<Bytes>>| {
            *into.lock().unwrap() = Context::of(&request).cloned();
            play.clone().answer(&request)
        }));
        let body = service.oneshot(asking(CHAT)).await.unwrap().into_body();
        let mut body = task::spawn(body);
        while body.enter(|cx, body| body.poll_frame(cx)).is_ready() {}
        let context = context.lock().unwrap().take().unwrap();
        for number in 1..=3 {
            body.enter(|cx, body| assert!(body.poll_frame(cx).is_pending()));
            assert!(!body.is_woken());
            Context::emit(Some(&context), || event(number));
            assert!(body.is_woken());
            let frame = body.enter(|cx, body| assert_ready!(body.poll_frame(cx)));
            assert_eq!(frame.unwrap().unwrap().into_data().unwrap(), told([number]));
        }
        drop(body);
        Context::emit(Some(&context), || event(4));
    }
}

/// What a stream may be made of, with all kinds of line ends.
fn text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("data: {\"a\":1}\n\n"),
        Just("data: x\r\n\r\n"),
        Just("event: e\rdata: y\r\r"),
        Just("id: 7\ndata: z\n\n"),
        Just(": ping\n\n"),
        Just("data: a\n"),
        Just("\n"),
        Just("\r\n"),
        Just("\r"),
        Just("half"),
    ];
    proptest::collection::vec(part, 1..8).prop_map(|parts| parts.concat())
}

/// The pieces of a text that is cut at these places.
fn cut(text: &str, places: &[prop::sample::Index]) -> Vec<String> {
    let mut at: Vec<usize> = places.iter().map(|place| place.index(text.len())).chain([0, text.len()]).collect();
    at.sort_unstable();
    at.dedup();
    at.windows(2).map(|window| text[window[0]..window[1]].to_owned()).collect()
}

/// Whether an event has ended with these bytes, and no part of a line end may be missing.
fn is_border(before: &str) -> bool {
    let lines = before.replace("\r\n", "\n").replace('\r', "\n");
    before.is_empty() || lines == "\n" || lines.ends_with("\n\n")
}

proptest! {
    #[test]
    fn what_is_ours_stands_between_events_and_all_else_is_the_providers(
        text in text(),
        places in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
        events in proptest::collection::vec(0_usize..3, 10),
        waits in proptest::collection::vec(0_u64..3, 10),
        heartbeat in any::<bool>(),
        fails in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let mut number = 0;
        let mut body = vec![];
        for (index, piece) in cut(&text, &places).into_iter().enumerate() {
            for _ in 0..events[index % 10] {
                number += 1;
                body.push(Act::Event(number));
            }
            body.extend([Act::Wait(waits[index % 10]), data(piece)]);
        }
        let ends_whole = is_border(&text);
        if fails {
            body.push(Act::Error(FailureKind::Transport));
        }
        let layer = if heartbeat { EdgeLayer::new().heartbeat(Duration::from_secs(1)) } else { EdgeLayer::new() };
        let play = Play::stream(vec![Act::Yield, Act::Wait(2)], body);
        let got = runtime.block_on(got(layer, asking(CHAT), play));
        let (mut theirs, mut ours) = (String::new(), String::new());
        let mut pieces: Vec<&str> = pieces(&got);
        if fails && ends_whole {
            let error = pieces.pop().unwrap();
            prop_assert!(error.starts_with("data: {\"error\""), "{error}");
        }
        prop_assert_eq!(got.failed.is_some(), fails && !ends_whole);
        for piece in pieces {
            if piece.starts_with("event: stanchion.") || piece == ": waiting\n\n" {
                prop_assert!(is_border(&theirs), "{piece:?} after {theirs:?}");
                prop_assert!(piece != ": waiting\n\n" || theirs.is_empty(), "a heartbeat after the beginning");
                ours.push_str(piece);
            } else {
                theirs.push_str(piece);
            }
        }
        prop_assert_eq!(&theirs, &text);
        let events = ours.replace(": waiting\n\n", "");
        let all = told(1..=number);
        prop_assert!(all.starts_with(&events), "none out of order: {events}");
        if ends_whole {
            prop_assert_eq!(&events, &all);
        }
    }
}

#[test]
fn an_event_is_told_under_its_name() {
    let text = told([1]);
    let data = text.strip_prefix("event: stanchion.model_fallback\ndata: ").and_then(|text| text.strip_suffix("\n\n"));
    let data: Value = serde_json::from_str(data.unwrap()).unwrap();
    assert_eq!(data, serde_json::to_value::<Event>(event(1)).unwrap());
}
