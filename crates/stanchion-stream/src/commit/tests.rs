use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full};
use proptest::prelude::*;
use stanchion_core::{Ending, Event, Failure, FailureKind, Phase, StreamRecord};
use stanchion_testkit::{Events, ScriptedBody, Step, request_in};
use tokio::time::Instant;
use tower::{ServiceExt, service_fn};
use tower_layer::{Layer, Stack};

use super::*;
use crate::{
    ObserveBody, ObserveLayer,
    observe::tests::{DONE, ROLE, STOP, TEXT, keeps_the_contract},
};

const PING: &str = ": ping\n\n";
const META: &str = "data: {\"choices\":[]}\n\n";

async fn committed(
    layer: CommitLayer,
    events: &Events,
    status: u16,
    body: ScriptedBody,
) -> Result<Response<CommitBody<ObserveBody<ScriptedBody>>>, Failure> {
    let mut body = Some(body);
    let provider = service_fn(move |_: Request<Full<Bytes>>| {
        let content_type = if status == 200 { "text/event-stream" } else { "application/json" };
        let response =
            Response::builder().status(status).header("content-type", content_type).body(body.take().unwrap()).unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    layer.layer(ObserveLayer::new().layer(provider)).oneshot(request_in(events.context())).await
}

async fn commit(steps: Vec<Step>) -> Result<Response<CommitBody<ObserveBody<ScriptedBody>>>, Failure> {
    committed(CommitLayer::new(), &Events::new(), 200, ScriptedBody::new(steps)).await
}

fn data(frames: &[&str]) -> Vec<Step> {
    frames.iter().map(|frame| Step::Data(Bytes::copy_from_slice(frame.as_bytes()))).collect()
}

#[tokio::test(start_paused = true)]
async fn what_fails_before_output_leaves_as_an_error() {
    let overloaded =
        "data: {\"error\":{\"message\":\"The server is overloaded\",\"type\":\"server_error\",\"code\":503}}\n\n";
    for (frames, last, kind) in [
        (vec![], Step::End, FailureKind::EmptyReply),
        (vec![PING], Step::End, FailureKind::EmptyReply),
        (vec![DONE], Step::End, FailureKind::EmptyReply),
        (vec![ROLE], Step::End, FailureKind::Truncated),
        (vec![PING, ROLE, META], Step::Error(FailureKind::Transport), FailureKind::Transport),
        (vec![overloaded], Step::End, FailureKind::Overloaded),
        (vec![ROLE, PING, overloaded], Step::Hang, FailureKind::Overloaded),
        (vec!["<html>"], Step::End, FailureKind::NotModelReply),
    ] {
        let mut steps = data(&frames);
        steps.push(last);
        let failure = commit(steps).await.map(drop).unwrap_err();
        assert_eq!((failure.kind(), failure.phase()), (kind, Phase::BeforeOutput), "{frames:?}");
        assert_eq!(failure.candidate().map(|name| &**name), Some("primary/gpt-x"));
    }
}

#[tokio::test(start_paused = true)]
async fn no_debug_shows_what_the_model_said() {
    let response = commit(data(&[ROLE, TEXT, STOP])).await.unwrap();
    let shown = format!("{response:?}");
    assert!(shown.contains("CommitBody") && !shown.contains("Hello") && !shown.contains("72, 101, 108"), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn the_preamble_is_held_and_then_nothing_is_lost() {
    let steps = [
        data(&[PING, ROLE]),
        vec![Step::Delay(Duration::from_secs(50))],
        data(&[META, TEXT]),
        vec![Step::Delay(Duration::from_secs(50))],
        data(&[STOP, DONE]),
    ]
    .concat();
    let start = Instant::now();
    let response = commit(steps).await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(50), "it leaves with the first output");
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), [PING, ROLE, META, TEXT, STOP, DONE].concat());
}

#[tokio::test(start_paused = true)]
async fn a_legal_empty_answer_passes() {
    for (steps, bytes) in [
        ([data(&[ROLE, STOP, DONE]), vec![Step::Hang]].concat(), [ROLE, STOP, DONE].concat()),
        (data(&[ROLE, STOP]), [ROLE, STOP].concat()),
    ] {
        let response = commit(steps).await.unwrap();
        let mut body = response.into_body();
        let mut seen = String::new();
        while seen.len() < bytes.len() {
            let frame = body.frame().await.unwrap().unwrap();
            seen.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap());
        }
        assert_eq!(seen, bytes);
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_after_output_is_a_fact() {
    for (last, kind, ending) in [
        (Step::End, FailureKind::Truncated, Ending::Truncated),
        (Step::Error(FailureKind::Transport), FailureKind::Transport, Ending::Failed),
    ] {
        let mut steps = data(&[ROLE, TEXT]);
        steps.push(last);
        let response = commit(steps).await.unwrap();
        let record = response.extensions().get::<StreamRecord>().unwrap().clone();
        let mut body = response.into_body();
        for expected in [ROLE, TEXT] {
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), expected);
        }
        let failure = body.frame().await.unwrap().unwrap_err();
        assert_eq!((failure.kind(), failure.phase()), (kind, Phase::AfterOutput));
        assert!(body.frame().await.is_none(), "the end is told once");
        assert_eq!(record.ending(), Some(ending));
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_reply_becomes_a_failure_with_the_reply_inside() {
    let body = r#"{"error":{"message":"Rate limit reached","type":"rate_limit_error","code":"rate_limit_exceeded"}}"#;
    let failure = committed(CommitLayer::new(), &Events::new(), 429, ScriptedBody::frames([&body[..30], &body[30..]]))
        .await
        .map(drop)
        .unwrap_err();
    assert_eq!((failure.kind(), failure.status()), (FailureKind::RateLimited, Some(StatusCode::TOO_MANY_REQUESTS)));
    let reply = failure.reply().unwrap();
    assert_eq!(reply.body, body);
    assert!(reply.complete);
}

#[tokio::test(start_paused = true)]
async fn an_endless_error_body_is_bounded_in_time_and_bytes() {
    let drops = Arc::new(AtomicUsize::new(0));
    let slow = ScriptedBody::new([Step::Data("{\"error\":".into()), Step::Hang]).counts_drops(&drops);
    let start = Instant::now();
    let failure = committed(CommitLayer::new(), &Events::new(), 503, slow).await.map(drop).unwrap_err();
    assert_eq!((failure.kind(), start.elapsed()), (FailureKind::Overloaded, Duration::from_secs(5)));
    assert!(!failure.reply().unwrap().complete);
    assert_eq!(drops.load(Ordering::SeqCst), 1, "the exchange has ended");

    let endless = ScriptedBody::frames(vec![Bytes::from(vec![b'x'; 10_000]); 100]);
    let failure = committed(CommitLayer::new(), &Events::new(), 500, endless).await.map(drop).unwrap_err();
    assert_eq!(failure.reply().unwrap().body.len(), stanchion_core::ProviderReply::MAX_BODY);
    assert!(!failure.reply().unwrap().complete);
}

#[tokio::test(start_paused = true)]
async fn a_preamble_beyond_the_bound_is_let_go_and_told() {
    let events = Events::new();
    let body = ScriptedBody::frames([PING; 100]).then(Step::Hang);
    let response = committed(CommitLayer::new().max_hold(100), &events, 200, body).await.unwrap();
    assert!(!response.extensions().get::<StreamRecord>().unwrap().output_started());
    assert!(events.all().iter().any(|event| matches!(event, Event::CommitHold(hold) if hold.bytes > 100)));
}

#[tokio::test(start_paused = true)]
async fn without_a_record_the_first_byte_is_output() {
    let provider = service_fn(|_: Request<Full<Bytes>>| async {
        Ok::<_, Infallible>(Response::new(ScriptedBody::frames([ROLE, TEXT])))
    });
    let response =
        CommitLayer::new().layer(provider).oneshot(request_in(stanchion_core::Context::default())).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), [ROLE, TEXT].concat());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_or_the_body_ends_the_exchange_at_once() {
    let drops = Arc::new(AtomicUsize::new(0));
    let events = Events::new();
    let waiting = committed(
        CommitLayer::new(),
        &events,
        200,
        ScriptedBody::new([Step::Data(ROLE.into()), Step::Hang]).counts_drops(&drops),
    );
    let _ = tokio::time::timeout(Duration::from_secs(1), waiting).await.map(drop).unwrap_err();
    assert_eq!(drops.load(Ordering::SeqCst), 1);

    let body = ScriptedBody::new([Step::Data(TEXT.into()), Step::Hang]).counts_drops(&drops);
    let response = committed(CommitLayer::new(), &Events::new(), 200, body).await.unwrap();
    drop(response);
    assert_eq!(drops.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn the_contract_of_every_layer() {
    keeps_the_contract!(Stack::new(ObserveLayer::new(), CommitLayer::new()));
}

/// A body that counts how many chunks were taken from it.
struct Counting {
    inner: ScriptedBody,
    taken: Arc<AtomicUsize>,
}

impl Body for Counting {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Failure>>> {
        let frame = std::pin::Pin::new(&mut self.inner).poll_frame(cx);
        if let std::task::Poll::Ready(Some(Ok(_))) = &frame {
            self.taken.fetch_add(1, Ordering::SeqCst);
        }
        frame
    }
}

proptest! {
    /// Cut a stream anywhere: the reply leaves with the very chunk that completes the first output frame, neither sooner nor later.
    #[test]
    fn a_reply_leaves_with_its_first_output(
        preamble in prop::collection::vec(prop::sample::select(vec![PING, ROLE, META, "retry: 1\r\n\r\n", "event: x\n\n"]), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let before = preamble.concat();
        let stream = [&before, TEXT, STOP, DONE].concat();
        let output_ends = before.len() + TEXT.len();
        let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        at.extend([0, stream.len()]);
        at.sort_unstable();
        at.dedup();
        let chunks: Vec<&str> = at.windows(2).map(|pair| &stream[pair[0]..pair[1]]).collect();
        let expected = at.iter().skip(1).position(|end| *end >= output_ends).unwrap() + 1;
        let taken = Arc::new(AtomicUsize::new(0));
        let body = Counting { inner: ScriptedBody::frames(chunks.iter().map(|chunk| Bytes::copy_from_slice(chunk.as_bytes()))), taken: taken.clone() };
        let mut body = Some(body);
        let provider = service_fn(move |_: Request<Full<Bytes>>| {
            let response = Response::builder().header("content-type", "text/event-stream").body(body.take().unwrap()).unwrap();
            async move { Ok::<_, Infallible>(response) }
        });
        let service = CommitLayer::new().layer(ObserveLayer::new().layer(provider));
        let (seen, bytes) = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
            let response = service.oneshot(request_in(stanchion_core::Context::default())).await.unwrap();
            let seen = taken.load(Ordering::SeqCst);
            (seen, response.into_body().collect().await.unwrap().to_bytes())
        });
        prop_assert_eq!(seen, expected);
        prop_assert_eq!(bytes, stream);
    }
}
