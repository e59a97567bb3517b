//! What is in flight, and what subscribers are told.

use std::{sync::Arc, time::Duration};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use stanchion_core::{AttemptPhase, Context, Failure, FailureKind};
use stanchion_telemetry::{
    Live, LiveLimits, RequestPhase, TelemetryLayer,
    live::{LiveEvent, LiveTold},
};
use stanchion_testkit::{ScriptedBody, Step, request};
use tower::{Layer, ServiceExt, service_fn};

use crate::{answering, attempt};

fn live(limits: LiveLimits) -> (Live, TelemetryLayer) {
    let live = Live::new(limits);
    let layer = TelemetryLayer::new().models(["gpt-x"]).seed(7).sink(Arc::new(live.clone()));
    (live, layer)
}

/// A provider that answers with a stream which does not end by itself.
fn streaming()
-> impl tower::Service<Request<Full<bytes::Bytes>>, Response = Response<ScriptedBody>, Error = Failure, Future: Send> + Clone
{
    service_fn(|request: Request<Full<bytes::Bytes>>| async move {
        let context = Context::of(&request);
        attempt(context, AttemptPhase::Started, "a/x", None);
        attempt(context, AttemptPhase::Committed, "a/x", None);
        Ok(Response::new(ScriptedBody::new([Step::Data("data: x\n\n".into()), Step::Hang])))
    })
}

#[tokio::test(start_paused = true)]
async fn requests_are_listed_while_they_are_in_flight() {
    let (live, layer) = live(LiveLimits::default());
    let service = layer.layer(streaming());
    let mut old = service.clone().oneshot(request()).await.unwrap().into_body();
    old.frame().await.unwrap().unwrap();
    tokio::time::advance(Duration::from_secs(5)).await;
    let young = service.oneshot(request()).await.unwrap();

    let shown = live.snapshot();
    assert_eq!((shown.in_flight, shown.unlisted, shown.requests.len()), (2, 0, 2));
    let first = &shown.requests[0];
    assert_eq!((first.age.as_secs(), first.bytes, first.standing.attempt), (5, 9, 1));
    assert_eq!((first.standing.phase, first.standing.candidate.as_deref()), (RequestPhase::Streaming, Some("a/x")));
    let streaming = shown.phases.iter().find(|count| count.phase == RequestPhase::Streaming);
    assert_eq!(streaming.unwrap().requests, 2);
    let json = serde_json::to_value(&shown).unwrap();
    assert_eq!(json["requests"][0]["phase"], "streaming");
    assert_eq!(json["requests"][0]["age_ms"], 5000);

    drop(old);
    assert_eq!(live.snapshot().requests.len(), 1);
    drop(young);
    let shown = live.snapshot();
    assert_eq!((shown.in_flight, shown.requests.len()), (0, 0));
    assert_eq!((shown.models[0].total.requests, shown.models[0].total.errors), (2, 0));
    assert_eq!((shown.candidates[0].total.requests, &*shown.candidates[0].name), (2, "a/x"));
}

#[tokio::test(start_paused = true)]
async fn what_is_too_much_for_the_list_is_counted() {
    let (live, layer) = live(LiveLimits { requests: 2, ..LiveLimits::default() });
    let service = layer.layer(streaming());
    let mut replies = Vec::new();
    for _ in 0..5 {
        replies.push(service.clone().oneshot(request()).await.unwrap());
    }
    let shown = live.snapshot();
    assert_eq!((shown.in_flight, shown.unlisted, shown.requests.len()), (5, 3, 2));
    replies.clear();
    assert_eq!(live.in_flight(), 0);
    assert!(live.snapshot().requests.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_is_told_everything_and_one_that_is_slow_how_much_it_has_lost() {
    let (live, layer) = live(LiveLimits { backlog: 4, ..LiveLimits::default() });
    let service = layer.layer(streaming());
    drop(service.clone().oneshot(request()).await.unwrap());
    let (mut quick, mut slow) = (live.subscribe(), live.subscribe());
    let mut kinds = Vec::new();
    for _ in 0..2 {
        drop(service.clone().oneshot(request()).await.unwrap());
        for _ in 0..4 {
            match quick.next().await.unwrap() {
                LiveTold::Event(event) => kinds.push(serde_json::to_value(&*event).unwrap()["kind"].clone()),
                LiveTold::Lost(_) => panic!("it keeps up"),
            }
        }
    }
    assert_eq!(kinds[..4], ["began", "event", "event", "ended"]);
    assert!(matches!(slow.next().await, Some(LiveTold::Lost(4))));
    assert!(matches!(slow.next().await, Some(LiveTold::Event(event)) if matches!(*event, LiveEvent::Began(_))));
    drop((service, layer));
    drop(live);
    for _ in 0..3 {
        assert!(matches!(slow.next().await, Some(LiveTold::Event(_))));
    }
    assert!(slow.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn errors_are_in_the_charts_of_the_candidate_at_once_and_in_those_of_the_model_at_the_end() {
    let (live, layer) = live(LiveLimits::default());
    let seen = live.clone();
    let service = service_fn(move |request: Request<Full<bytes::Bytes>>| {
        let live = seen.clone();
        async move {
            attempt(Context::of(&request), AttemptPhase::Started, "a/x", None);
            attempt(Context::of(&request), AttemptPhase::Failed, "a/x", Some(FailureKind::ServerError));
            assert_eq!(live.snapshot().candidates[0].total.errors, 1);
            assert!(live.snapshot().models.is_empty());
            Err::<Response<ScriptedBody>, _>(Failure::new(FailureKind::ServerError))
        }
    });
    layer.layer(service).oneshot(request()).await.unwrap_err();
    let model = &live.snapshot().models[0];
    assert_eq!((&*model.name, model.total.requests, model.total.errors), ("gpt-x", 1, 1));
    // A client that leaves is no error.
    let layer = TelemetryLayer::new().sink(Arc::new(live.clone()));
    drop(layer.layer(answering([Ok(Response::new(ScriptedBody::new([Step::Hang])))])).oneshot(request()).await);
    let other = &live.snapshot().models[1];
    assert_eq!((&*other.name, other.total.requests, other.total.errors), ("other", 1, 0));
}
