//! What is held back beyond the first output.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use stanchion_core::{CommitPolicy, Context, Event, Failure, FailureKind, Phase, RequestClass, RetainedBytes};
use stanchion_testkit::{Events, ScriptedBody, Step, request_in};
use tokio::time::Instant;
use tower::{ServiceExt, service_fn};
use tower_layer::Layer;

use super::{CommitLayer, CommitWindow};
use crate::{
    ObserveLayer,
    observe::tests::{DONE, ROLE, STOP, TEXT},
};

const ERROR: &str = "data: {\"error\":{\"message\":\"engine died\",\"type\":\"server_error\",\"code\":500}}\n\n";

fn data(frames: &[&str]) -> Vec<Step> {
    frames.iter().map(|frame| Step::Data(Bytes::copy_from_slice(frame.as_bytes()))).collect()
}

/// A reply that left: its bytes, how it ended after that, and when it left.
#[derive(Debug)]
struct Left {
    bytes: String,
    end: Option<FailureKind>,
    after: Duration,
}

async fn asked(layer: CommitLayer, request: Request<Full<Bytes>>, steps: Vec<Step>) -> Result<Left, Failure> {
    let start = Instant::now();
    let mut body = Some(ScriptedBody::new(steps));
    let provider = service_fn(move |_: Request<Full<Bytes>>| {
        let response =
            Response::builder().header("content-type", "text/event-stream").body(body.take().unwrap()).unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    let response = layer.layer(ObserveLayer::new().layer(provider)).oneshot(request).await?;
    let after = start.elapsed();
    let (mut body, mut bytes) = (response.into_body(), String::new());
    let end = loop {
        match body.frame().await {
            None => break None,
            Some(Ok(frame)) => bytes.push_str(std::str::from_utf8(frame.data_ref().unwrap()).unwrap()),
            Some(Err(failure)) => break Some(failure.kind()),
        }
    };
    Ok(Left { bytes, end, after })
}

fn plain() -> Request<Full<Bytes>> {
    request_in(Context::default())
}

fn complete() -> CommitLayer {
    CommitLayer::new().policy(CommitPolicy::Complete)
}

const NO_WINDOW: CommitWindow = CommitWindow { events: None, bytes: None, time: None };

fn pause(seconds: u64) -> Vec<Step> {
    vec![Step::Delay(Duration::from_secs(seconds))]
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_held_whole_is_never_seen_in_part() {
    let slow = [data(&[ROLE, TEXT]), pause(30), data(&[TEXT, STOP, DONE])].concat();
    let left = asked(complete(), plain(), slow).await.unwrap();
    assert_eq!((left.bytes, left.end), ([ROLE, TEXT, TEXT, STOP, DONE].concat(), None));
    assert_eq!(left.after, Duration::from_secs(30));

    for (steps, kind) in [
        (data(&[ROLE, TEXT, TEXT]), FailureKind::Truncated),
        (data(&[ROLE, TEXT, DONE]), FailureKind::Truncated),
        ([data(&[TEXT]), vec![Step::Error(FailureKind::Transport)]].concat(), FailureKind::Transport),
        (data(&[TEXT, ERROR, DONE]), FailureKind::ServerError),
        ([data(&[TEXT, ERROR]), vec![Step::Hang]].concat(), FailureKind::ServerError),
    ] {
        let failure = asked(complete(), plain(), steps).await.unwrap_err();
        assert_eq!((failure.kind(), failure.phase()), (kind, Phase::BeforeOutput), "nobody has seen it");
    }
}

#[tokio::test(start_paused = true)]
async fn a_window_closes_with_the_first_of_its_limits() {
    let cut = || vec![Step::Error(FailureKind::Transport)];
    let events = CommitWindow { events: Some(3), ..NO_WINDOW };
    let bytes = CommitWindow { bytes: Some(2 * TEXT.len()), ..NO_WINDOW };
    let time = CommitWindow { time: Some(Duration::from_secs(5)), ..NO_WINDOW };
    for (name, window, steps, after) in [
        ("two of three events", events, [data(&[ROLE, TEXT, TEXT]), cut()].concat(), None),
        ("three events", events, [data(&[ROLE, TEXT, TEXT, TEXT]), pause(9), cut()].concat(), Some(0)),
        (
            "three events in one burst",
            events,
            [data(&[&[ROLE, TEXT, TEXT, TEXT].concat()]), pause(9), cut()].concat(),
            Some(0),
        ),
        ("too few bytes", bytes, [data(&[TEXT]), cut()].concat(), None),
        ("enough bytes", bytes, [data(&[TEXT, TEXT]), pause(9), cut()].concat(), Some(0)),
        ("cut in time", time, [pause(60), data(&[ROLE, TEXT]), pause(4), cut()].concat(), None),
        ("time from the first output on", time, [pause(60), data(&[ROLE, TEXT]), pause(9), cut()].concat(), Some(65)),
        ("a whole reply waits for no window", time, data(&[ROLE, TEXT, STOP, DONE]), Some(0)),
        ("no limit at all", NO_WINDOW, [data(&[ROLE, TEXT]), pause(99), cut()].concat(), None),
    ] {
        let seen = asked(CommitLayer::new().policy(CommitPolicy::Window).window(window), plain(), steps).await;
        match after {
            Some(after) => assert_eq!(seen.expect(name).after, Duration::from_secs(after), "{name}"),
            None => assert_eq!(seen.expect_err(name).phase(), Phase::BeforeOutput, "{name}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_too_much_to_hold_is_let_go_and_told() {
    let events = Events::new();
    let steps = [data(&[TEXT; 10]), vec![Step::Error(FailureKind::Transport)]].concat();
    let left = asked(complete().max_hold(3 * TEXT.len()), request_in(events.context()), steps).await.unwrap();
    assert_eq!((left.bytes, left.end), (TEXT.repeat(10), Some(FailureKind::Transport)));
    assert!(events.all().iter().any(|event| matches!(event, Event::CommitHold(_))));
}

#[tokio::test(start_paused = true)]
async fn a_class_and_a_request_choose_for_themselves() {
    let layer = CommitLayer::new().policy_for(RequestClass::Background, CommitPolicy::Complete);
    let cut = || data(&[ROLE, TEXT]);
    let background = || request_in(Context::builder().class(RequestClass::Background).build());
    assert!(asked(layer, plain(), cut()).await.is_ok(), "a person sees what there is");
    assert!(asked(layer, background(), cut()).await.is_err(), "an agent does not");
    let mut request = background();
    request.extensions_mut().insert(CommitPolicy::FirstOutput);
    assert!(asked(layer, request, cut()).await.is_ok(), "the request's own choice goes first");
}

/// A piece of a few bytes that is held keeps no whole read in memory, once there are some.
#[tokio::test(start_paused = true)]
async fn small_pieces_that_are_held_have_memory_of_their_own() {
    let reads: Vec<Bytes> = (0..10).map(|_| Bytes::from(vec![b'x'; 32 * 1024])).collect();
    let mut pieces: Vec<Bytes> = reads[..9].iter().map(|read| read.slice(..60)).collect();
    pieces.push(reads[9].clone());
    let mut body = Some(ScriptedBody::new(pieces.into_iter().map(Step::Data)));
    let provider = service_fn(move |_: Request<Full<Bytes>>| {
        let response = Response::new(body.take().unwrap());
        async move { Ok::<_, Infallible>(response) }
    });
    let response = complete().layer(provider).oneshot(plain()).await.unwrap();
    let mut body = response.into_body();
    let mut shared = Vec::new();
    for read in &reads {
        let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(piece, read.slice(..piece.len()));
        shared.push(piece.as_ptr() == read.as_ptr());
    }
    assert_eq!(shared, [true, true, true, true, false, false, false, false, false, true]);
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_held_back_counts_as_retained_until_it_leaves() {
    let retained = RetainedBytes::default();
    let request = || {
        let mut request = plain();
        request.extensions_mut().insert(retained.clone());
        request
    };
    let steps = || {
        let mut steps = data(&[ROLE, TEXT]);
        steps.push(Step::Delay(Duration::from_secs(5)));
        steps.extend(data(&[STOP, DONE]));
        steps
    };
    let asking = asked(complete(), request(), steps());
    let looking = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        retained.bytes()
    };
    let (left, held) = tokio::join!(asking, looking);
    assert_eq!((held, retained.bytes()), ((ROLE.len() + TEXT.len()) as u64, 0));
    assert!(left.is_ok());
    // Dropped on the way, it is given back, too.
    let asking = asked(complete(), request(), steps());
    assert!(tokio::time::timeout(Duration::from_secs(1), asking).await.is_err());
    assert_eq!(retained.bytes(), 0);
}
