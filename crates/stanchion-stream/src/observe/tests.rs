use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use proptest::prelude::*;
use stanchion_core::{
    Attempts, Call, Dialect, Ending, Failure, FailureKind, FinishReason, Framing, HidesUsage, Phase, Selected,
    StreamRecord,
};
use stanchion_testkit::{Events, ScriptedBody, Step, request_in};
use tower::{Service, ServiceExt, service_fn};
use tower_layer::Layer;

use super::*;

/// A stream has no length that could be kept, since frames may be dropped and an error may follow; a document has.
macro_rules! keeps_the_contract {
    ($layer:expr) => {
        // Cut before its finish: what breaks after it is a clean end.
        let stream = stanchion_testkit::Contract::new($layer).with_reply("text/event-stream", [ROLE, TEXT, STOP]);
        stream.readiness().await;
        stream.no_reservation().await;
        stream.ready_errors().await;
        stream.endings().await;
        stream.release().await;
        let whole = || {
            let mut request = stanchion_testkit::request();
            request.extensions_mut().insert(stanchion_core::Call::new(stanchion_core::Dialect::OpenAiChat, false));
            request
        };
        let reply = [r#"{"choices":[{"message":{"#, r#""content":"ok"},"finish_reason":"stop"}]}"#];
        let document =
            stanchion_testkit::Contract::new($layer).with_request(whole).with_reply("application/json", reply);
        document.body().await;
    };
}
pub(crate) use keeps_the_contract;

pub(crate) const ROLE: &str =
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
pub(crate) const TEXT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\n\n";
pub(crate) const STOP: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
pub(crate) const DONE: &str = "data: [DONE]\n\n";
const ERROR: &str = "data: {\"error\":{\"message\":\"engine died\",\"type\":\"server_error\",\"code\":500}}\n\n";

/// What became of a body: its bytes, the failure at its end, and what the record says of its ending.
#[derive(Debug, PartialEq)]
struct Seen {
    bytes: String,
    failure: Option<(FailureKind, Phase)>,
    ending: Option<Ending>,
}

async fn observed(
    layer: ObserveLayer,
    call: Call,
    content_type: &str,
    body: ScriptedBody,
) -> (Response<ObserveBody<ScriptedBody>>, StreamRecord) {
    let content_type = content_type.to_owned();
    let mut body = Some(body);
    let service = layer.layer(service_fn(move |_: Request<()>| {
        let response = Response::builder().header("content-type", &content_type).body(body.take().unwrap()).unwrap();
        async move { Ok::<_, Infallible>(response) }
    }));
    let mut request = Request::new(());
    request.extensions_mut().insert(call);
    let response = service.oneshot(request).await.unwrap();
    let record = response.extensions().get::<StreamRecord>().unwrap().clone();
    (response, record)
}

async fn drain<B>(body: B) -> (Vec<u8>, Option<Failure>)
where
    B: Body<Data = Bytes, Error = Failure>,
{
    let mut body = std::pin::pin!(body);
    let (mut bytes, mut failure) = (Vec::new(), None);
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => bytes.extend_from_slice(frame.data_ref().unwrap()),
            Err(error) => {
                assert!(failure.is_none(), "the end is told once");
                failure = Some(error);
            }
        }
    }
    (bytes, failure)
}

async fn see(layer: ObserveLayer, call: Call, content_type: &str, chunks: &[&str], last: Option<Step>) -> Seen {
    let mut body = ScriptedBody::frames(chunks.iter().map(|chunk| Bytes::copy_from_slice(chunk.as_bytes())));
    if let Some(step) = last {
        body = body.then(step);
    }
    let (response, record) = observed(layer, call, content_type, body).await;
    let (bytes, failure) = drain(response.into_body()).await;
    Seen {
        bytes: String::from_utf8(bytes).unwrap(),
        failure: failure.map(|failure| (failure.kind(), failure.phase())),
        ending: record.ending(),
    }
}

fn chat() -> Call {
    Call::new(Dialect::OpenAiChat, true)
}

const SSE: &str = "text/event-stream";

#[tokio::test]
async fn streams_end_as_their_dialect_says() {
    use FailureKind as K;
    use Phase::{AfterOutput as After, BeforeOutput as Before};
    let broken = || Some(Step::Error(K::Transport));
    for (name, chunks, last, bytes, failure, ending) in [
        ("whole", vec![ROLE, TEXT, STOP, DONE], None, [ROLE, TEXT, STOP, DONE].concat(), None, Ending::Complete),
        ("no end marker", vec![ROLE, TEXT, STOP], None, [ROLE, TEXT, STOP].concat(), None, Ending::Complete),
        ("no finish", vec![ROLE, TEXT], None, [ROLE, TEXT].concat(), Some((K::Truncated, After)), Ending::Truncated),
        (
            "an end marker without a finish is not passed on",
            vec![ROLE, TEXT, DONE],
            None,
            [ROLE, TEXT].concat(),
            Some((K::Truncated, After)),
            Ending::Truncated,
        ),
        ("role alone", vec![ROLE], None, ROLE.into(), Some((K::Truncated, Before)), Ending::Truncated),
        ("nothing", vec![], None, String::new(), Some((K::EmptyReply, Before)), Ending::Failed),
        ("comments alone", vec![": hi\n\n"], None, ": hi\n\n".into(), Some((K::EmptyReply, Before)), Ending::Failed),
        ("end marker alone", vec![DONE], None, String::new(), Some((K::EmptyReply, Before)), Ending::Failed),
        ("broken before output", vec![ROLE], broken(), ROLE.into(), Some((K::Transport, Before)), Ending::Failed),
        (
            "broken after output",
            vec![ROLE, TEXT],
            broken(),
            [ROLE, TEXT].concat(),
            Some((K::Transport, After)),
            Ending::Failed,
        ),
        (
            "broken after the finish",
            vec![ROLE, TEXT, STOP],
            broken(),
            [ROLE, TEXT, STOP].concat(),
            None,
            Ending::Complete,
        ),
        (
            "error before output",
            vec![ROLE, ERROR, DONE],
            None,
            ROLE.into(),
            Some((K::ServerError, Before)),
            Ending::Failed,
        ),
        ("error after output", vec![TEXT, ERROR, DONE], None, [TEXT, ERROR, DONE].concat(), None, Ending::Failed),
        (
            "half an event",
            vec![TEXT, "data: {\"choices\":[{\"index"],
            None,
            TEXT.into(),
            Some((K::Truncated, After)),
            Ending::Truncated,
        ),
        (
            "a last event without its blank line",
            vec![TEXT, STOP.trim_end()],
            None,
            [TEXT, STOP.trim_end()].concat(),
            None,
            Ending::Complete,
        ),
        (
            "a last event without its blank line in a stream that is cut",
            vec![ROLE, TEXT.trim_end()],
            None,
            [ROLE, TEXT.trim_end(), "\n\n"].concat(),
            Some((K::Truncated, After)),
            Ending::Truncated,
        ),
        (
            "half an event behind the finish",
            vec![ROLE, TEXT, STOP, "data: {\"choices\":[],\"usage\":{\"prompt_tok"],
            None,
            [ROLE, TEXT, STOP].concat(),
            None,
            Ending::Complete,
        ),
        ("a page", vec!["<html>Blocked</html>"], None, String::new(), Some((K::NotModelReply, Before)), Ending::Failed),
        (
            "a bare error",
            vec!["{\"error\":{\"code\":\"insufficient_quota\",\"message\":\"x\"}}"],
            None,
            String::new(),
            Some((K::QuotaExhausted, Before)),
            Ending::Failed,
        ),
    ] {
        let seen = see(ObserveLayer::new(), chat(), SSE, &chunks, last).await;
        assert_eq!(seen, Seen { bytes, failure, ending: Some(ending) }, "{name}");
    }
}

#[tokio::test]
async fn an_error_that_no_client_sees_is_made_one() {
    let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"network_error\"}]}\n\n";
    let seen = see(ObserveLayer::new(), chat(), SSE, &[TEXT, finish, DONE], None).await;
    assert_eq!(seen.bytes, [TEXT, finish].concat());
    assert!(matches!(seen.failure, Some((_, Phase::AfterOutput))), "{seen:?}");
}

#[tokio::test]
async fn whole_documents_are_held_until_they_are_complete() {
    let document =
        "{\"choices\":[{\"message\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":3}}";
    let (head, tail) = document.split_at(20);
    let plain = Call::new(Dialect::OpenAiChat, false);

    let body = ScriptedBody::frames([head, tail]).exact_size();
    let (response, record) = observed(ObserveLayer::new(), plain.clone(), "application/json", body).await;
    assert_eq!(response.body().size_hint().exact(), Some(document.len() as u64));
    let frames = response.into_body().collect().await.unwrap();
    assert_eq!(frames.to_bytes(), document);
    assert_eq!(
        (record.ending(), record.framing(), record.finish()),
        (Some(Ending::Complete), Some(Framing::Document), Some(FinishReason::Stop))
    );
    assert_eq!(record.usage().input, Some(3));

    for (chunks, last, kind) in [
        (vec![head], None, FailureKind::MalformedReply),
        (vec![head], Some(Step::Error(FailureKind::Transport)), FailureKind::Transport),
        (vec![], None, FailureKind::EmptyReply),
        (vec!["<html>"], None, FailureKind::NotModelReply),
    ] {
        let seen = see(ObserveLayer::new(), plain.clone(), "application/json", &chunks, last).await;
        assert_eq!(
            seen,
            Seen { bytes: String::new(), failure: Some((kind, Phase::BeforeOutput)), ending: Some(Ending::Failed) }
        );
    }
}

#[tokio::test]
async fn a_document_of_one_piece_is_not_copied_and_one_of_many_is_joined() {
    let document = Bytes::from_static(
        b"{\"choices\":[{\"message\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}],\"usage\":{\"completion_tokens\":3}}",
    );
    let plain = Call::new(Dialect::OpenAiChat, false);
    for size in [document.len(), 40, 1] {
        // The bound is reached, and not passed.
        let layer = ObserveLayer::new().max_document(document.len());
        let pieces = (0..document.len()).step_by(size);
        let pieces = pieces.map(|at| document.slice(at..(at + size).min(document.len())));
        let body = ScriptedBody::frames(pieces.chain([Bytes::new()]));
        let (response, record) = observed(layer, plain.clone(), "application/json", body).await;
        let mut body = response.into_body();
        let whole = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(whole, document, "pieces of {size}");
        assert_eq!(whole.as_ptr() == document.as_ptr(), size == document.len(), "pieces of {size}");
        assert!(body.frame().await.is_none());
        assert_eq!((record.ending(), record.usage().output), (Some(Ending::Complete), Some(3)));
    }
}

#[tokio::test]
async fn a_document_beyond_the_bound_streams_through() {
    let layer = ObserveLayer::new().max_document(16);
    let chunks = ["{\"data\":[0.25,", "0.5,0.125,0.75,", "1.5]}"];
    let call = Call::new(Dialect::OpenAiEmbeddings, false);
    let (response, record) = observed(layer, call, "application/json", ScriptedBody::frames(chunks)).await;
    let mut body = response.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), chunks[..2].concat());
    assert!(record.output_started(), "what cannot be held counts as output");
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), chunks[2]);
    assert!(body.frame().await.is_none());
    assert_eq!(record.ending(), Some(Ending::Complete));
}

#[tokio::test]
async fn a_frame_that_is_cut_short_is_dropped_passed_or_fatal() {
    let broken = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"wor\n\n";
    let chunks = [TEXT, broken, TEXT, STOP, DONE];
    let without = [TEXT, TEXT, STOP, DONE].concat();
    for (malformed, bytes, failure) in [
        (Malformed::Drop, without, None),
        (Malformed::Pass, chunks.concat(), None),
        (Malformed::Fail, TEXT.to_owned() + broken, Some((FailureKind::MalformedReply, Phase::AfterOutput))),
    ] {
        for chunks in [chunks.to_vec(), vec![&*chunks.concat()]] {
            let seen = see(ObserveLayer::new().malformed(malformed), chat(), SSE, &chunks, None).await;
            assert_eq!((seen.bytes, seen.failure), (bytes.clone(), failure), "{malformed:?}");
        }
    }
}

#[tokio::test]
async fn a_dropped_frame_is_told() {
    let events = Events::new();
    let layer = ObserveLayer::new();
    let service = layer.layer(service_fn(|_| async {
        Ok::<_, Infallible>(Response::new(ScriptedBody::frames([TEXT, "data: {\"half\n\n", STOP])))
    }));
    let response = service.oneshot(request_in(events.context())).await.unwrap();
    response.into_body().collect().await.unwrap();
    let told = events.all();
    assert!(
        matches!(&told[..], [stanchion_core::Event::StreamFrame(frame)] if frame.fault == stanchion_core::FrameFault::MalformedDropped && frame.bytes == 14),
        "{told:?}"
    );
}

#[tokio::test]
async fn a_giant_event_fails_with_a_local_error() {
    let giant = format!("data: {}\n\n", "x".repeat(2000));
    let seen = see(ObserveLayer::new().max_event(1000), chat(), SSE, &[TEXT, &giant, STOP], None).await;
    assert_eq!(seen.bytes, TEXT);
    assert_eq!(seen.failure, Some((FailureKind::EventTooLarge, Phase::AfterOutput)));
}

#[tokio::test]
async fn a_dropped_body_is_cancelled_unless_the_model_had_finished() {
    for (chunks, ending) in [(vec![TEXT], Ending::Cancelled), (vec![TEXT, STOP], Ending::Complete)] {
        let body = ScriptedBody::frames(chunks.clone()).then(Step::Hang);
        let (response, record) = observed(ObserveLayer::new(), chat(), SSE, body).await;
        let mut body = response.into_body();
        for _ in &chunks {
            body.frame().await.unwrap().unwrap();
        }
        assert_eq!(record.ending(), None);
        drop(body);
        assert_eq!(record.ending(), Some(ending));
    }
}

#[tokio::test]
async fn the_end_is_seen_although_nobody_polls_past_an_exact_length() {
    let body = ScriptedBody::frames([TEXT, STOP, DONE]).exact_size();
    let (response, record) = observed(ObserveLayer::new(), chat(), SSE, body).await;
    let mut body = response.into_body();
    while !body.is_end_stream() {
        body.frame().await.unwrap().unwrap();
    }
    assert_eq!(record.ending(), Some(Ending::Complete));
}

#[tokio::test]
async fn whole_frames_leave_as_they_come_and_half_ones_wait() {
    let (half, rest) = TEXT.split_at(10);
    let body = ScriptedBody::new([
        Step::Data([ROLE, half].concat().into()),
        Step::Delay(Duration::from_millis(1)),
        Step::Data([rest, STOP, half].concat().into()),
        Step::Data(rest.into()),
        Step::End,
    ]);
    let (response, record) = observed(ObserveLayer::new(), chat(), SSE, body).await;
    let mut body = response.into_body();
    let mut next =
        async || String::from_utf8(body.frame().await.unwrap().unwrap().into_data().unwrap().to_vec()).unwrap();
    assert_eq!(next().await, ROLE);
    assert!(!record.output_started(), "half an output is none");
    assert_eq!(next().await, TEXT);
    assert!(record.output_started());
    assert_eq!(next().await, STOP);
    assert_eq!(next().await, TEXT);
}

#[tokio::test]
async fn without_a_call_and_on_error_statuses_the_body_passes_unread() {
    let layer = ObserveLayer::new();
    let mut service = layer.layer(service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(ScriptedBody::frames(["no frames at all"])))
    }));
    let response = service.ready().await.unwrap().call(Request::new(())).await.unwrap();
    assert!(response.extensions().get::<StreamRecord>().is_none());
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "no frames at all");

    let encoded = layer.layer(service_fn(|_| async {
        let reply =
            Response::builder().header("content-encoding", "compress").body(ScriptedBody::frames(["\x1f\u{9d}"]));
        Ok::<_, Infallible>(reply.unwrap())
    }));
    let response = encoded.oneshot(request_in(stanchion_core::Context::default())).await.unwrap();
    assert!(response.extensions().get::<StreamRecord>().is_none());

    let service = layer.layer(service_fn(|_| async {
        Ok::<_, Infallible>(Response::builder().status(503).body(ScriptedBody::frames(["busy"])).unwrap())
    }));
    let response = service.oneshot(request_in(stanchion_core::Context::default())).await.unwrap();
    assert!(response.extensions().get::<StreamRecord>().is_none());
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "busy");
}

#[tokio::test]
async fn a_choice_that_begins_after_a_finish_takes_the_finish_back() {
    let second = "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"b\"}}]}\n\n";
    let (response, record) =
        observed(ObserveLayer::new(), chat(), SSE, ScriptedBody::frames([TEXT, STOP, second])).await;
    let mut body = response.into_body();
    for finished in [false, true, false] {
        body.frame().await.unwrap().unwrap();
        assert_eq!(record.finished(), finished);
    }
    assert_eq!(body.frame().await.unwrap().unwrap_err().kind(), FailureKind::Truncated);
}

#[tokio::test]
async fn a_stream_promises_no_length() {
    let whole = [ROLE, TEXT, STOP, DONE].concat();
    let (a, b) = whole.split_at(ROLE.len() + 20);
    for chunks in [vec![a, b], vec![TEXT], vec![]] {
        let (response, _) = observed(
            ObserveLayer::new(),
            chat(),
            SSE,
            ScriptedBody::frames(chunks.iter().map(|chunk| Bytes::copy_from_slice(chunk.as_bytes()))).exact_size(),
        )
        .await;
        let mut body = response.into_body();
        loop {
            assert_eq!(body.size_hint().upper(), None, "an error may follow");
            if body.frame().await.is_none_or(|frame| frame.is_err()) {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_contract_of_every_layer() {
    keeps_the_contract!(ObserveLayer::new());
}

#[tokio::test(start_paused = true)]
async fn attempts_are_written_down_where_somebody_wants_to_know() {
    let attempts = Attempts::default();
    let ask = async |answer: Result<Response<ScriptedBody>, Failure>| {
        let mut answer = Some(answer);
        let service = service_fn(move |_: Request<()>| std::future::ready(answer.take().unwrap()));
        let mut request = Request::new(());
        request.extensions_mut().insert(chat());
        request.extensions_mut().insert(attempts.clone());
        ObserveLayer::new().layer(service).oneshot(request).await
    };
    let reply = || Response::new(ScriptedBody::frames([ROLE]));
    let answered = ask(Ok(reply())).await.unwrap();
    let mut refused = reply();
    *refused.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
    ask(Ok(refused)).await.unwrap();
    let mut encoded = reply();
    encoded.headers_mut().insert("content-encoding", "zstd".parse().unwrap());
    ask(Ok(encoded)).await.unwrap();
    assert!(ask(Err(Failure::new(FailureKind::Overloaded))).await.is_err());
    // One that is left before its head.
    let waits = service_fn(|_: Request<()>| std::future::pending::<Result<Response<ScriptedBody>, Failure>>());
    let mut request = Request::new(());
    request.extensions_mut().insert(attempts.clone());
    request.extensions_mut().insert(Selected::only(stanchion_testkit::candidate("primary")));
    drop(ObserveLayer::new().layer(waits).call(request));

    let told = attempts.take();
    let record = answered.extensions().get::<StreamRecord>().unwrap();
    assert!(told[0].record.as_ref().is_some_and(|told| told.is_same(record)) && told[0].selected.is_none());
    assert!(told[1].record.is_none() && told[1].selected.is_some() && told.len() == 2, "{told:?}");
}

/// Frames that streams are made of, in an order in which they may come.
/// Reads a chat stream whose client did not ask for the usage.
async fn without_usage(chunks: &[&str]) -> (String, StreamRecord) {
    let mut body = Some(ScriptedBody::frames(chunks.iter().map(ToString::to_string)));
    let service = service_fn(move |_: Request<()>| {
        let reply = Response::builder().header("content-type", "text/event-stream").body(body.take().unwrap()).unwrap();
        std::future::ready(Ok::<_, Failure>(reply))
    });
    let mut request = Request::new(());
    request.extensions_mut().insert(chat());
    request.extensions_mut().insert(HidesUsage);
    let (parts, body) = ObserveLayer::new().layer(service).oneshot(request).await.unwrap().into_parts();
    let (bytes, failure) = drain(body).await;
    assert!(failure.is_none(), "{failure:?}");
    (String::from_utf8(bytes).unwrap(), parts.extensions.get().cloned().unwrap())
}

const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4}}\n\n";

#[tokio::test(start_paused = true)]
async fn usage_that_the_client_did_not_ask_for_is_read_and_not_passed_on() {
    let counts = |record: &StreamRecord| (record.usage().input, record.usage().output);
    let whole = [ROLE, TEXT, STOP, USAGE, DONE];
    let expected = [ROLE, TEXT, STOP, DONE].concat();
    // However it is cut, and also in one piece.
    let stream = whole.concat();
    for chunks in (0..=stream.len()).map(|at| [&stream[..at], &stream[at..]]) {
        let chunks: Vec<_> = chunks.into_iter().filter(|chunk| !chunk.is_empty()).collect();
        let (bytes, record) = without_usage(&chunks).await;
        assert_eq!((bytes.as_str(), counts(&record)), (expected.as_str(), (Some(9), Some(4))));
        assert_eq!((record.ending(), record.text_bytes()), (Some(Ending::Complete), 5));
    }
    // Without the blank line at its end, too.
    let (bytes, record) = without_usage(&[ROLE, TEXT, STOP, USAGE.trim_end()]).await;
    assert_eq!((bytes, counts(&record)), ([ROLE, TEXT, STOP].concat(), (Some(9), Some(4))));
}

#[tokio::test(start_paused = true)]
async fn frames_that_hold_more_than_the_usage_are_passed_on() {
    let with_finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":9}}\n\n";
    let with_text =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"!\"}}],\"usage\":{\"prompt_tokens\":9}}\n\n";
    let with_role =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\"}}],\"usage\":{\"prompt_tokens\":9}}\n\n";
    let moderated = "data: {\"choices\":[],\"moderation\":{\"flagged\":false},\"usage\":{\"prompt_tokens\":9}}\n\n";
    let cited = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9},\"citations\":[\"a\"]}\n\n";
    for chunks in [
        // A provider that does not send the frame.
        [ROLE, TEXT, TEXT, STOP, DONE],
        [with_role, TEXT, TEXT, STOP, DONE],
        [ROLE, TEXT, with_text, with_finish, DONE],
        [ROLE, TEXT, STOP, moderated, DONE],
        [ROLE, TEXT, STOP, cited, DONE],
        [ROLE, TEXT, STOP, "data: {\"choices\":[],\"usage\":null}\n\n", DONE],
        [ROLE, TEXT, ": usage\n\n", STOP, DONE],
    ] {
        assert_eq!(without_usage(&chunks).await.0, chunks.concat());
    }
    // And without the mark nothing is left out.
    let seen = see(ObserveLayer::new(), chat(), "text/event-stream", &[ROLE, TEXT, STOP, USAGE, DONE], None).await;
    assert_eq!(seen.bytes, [ROLE, TEXT, STOP, USAGE, DONE].concat());
}

fn whole_stream() -> impl Strategy<Value = String> {
    let before = prop::sample::select(vec![ROLE, ": keep-alive\n\n", "data: {\"choices\":[]}\r\n\r\n", "retry: 1\n\n"]);
    let within = prop::sample::select(vec![
        TEXT,
        ": ping\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"世😀\"}}]}\r\n\r\n",
        "data:{\"choices\":[{\"delta\":{\"reasoning\":\"hm\"}}]}\r\r",
        "event: x\ndata: {\"choices\":[{\"index\":0,\ndata: \"delta\":{\"content\":\"a\"}}]}\n\n",
        "id: 4\n\n",
    ]);
    let after =
        prop::sample::select(vec!["data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n", ": bye\n\n", DONE]);
    (
        prop::collection::vec(before, 0..4),
        prop::collection::vec(within, 1..12),
        prop::collection::vec(after, 0..3),
        any::<bool>(),
    )
        .prop_map(|(before, within, after, mark)| {
            let mark = if mark { "\u{feff}" } else { "" };
            [mark, &before.concat(), &within.concat(), STOP, &after.concat()].concat()
        })
}

proptest! {
    #[test]
    fn whatever_the_chunks_bytes_out_are_bytes_in(stream in whole_stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let bytes = stream.as_bytes();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        at.extend([0, bytes.len()]);
        at.sort_unstable();
        let steps = at.windows(2).filter(|pair| pair[0] < pair[1]).map(|pair| Step::Data(Bytes::copy_from_slice(&bytes[pair[0]..pair[1]])));
        let body = ScriptedBody::new(steps);
        let (out, failure, ending) = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
            let (response, record) = observed(ObserveLayer::new(), chat(), SSE, body).await;
            let (out, failure) = drain(response.into_body()).await;
            (out, failure.map(|failure| failure.kind()), record.ending())
        });
        prop_assert_eq!(String::from_utf8(out).unwrap(), stream.clone());
        prop_assert_eq!(failure, None);
        prop_assert_eq!(ending, Some(Ending::Complete));
    }
}
