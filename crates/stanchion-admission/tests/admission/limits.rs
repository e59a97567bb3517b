//! What may wait, in number and in bytes.

use stanchion_admission::{AdmissionLayer, AdmissionPolicy, AdmissionScheduler, ClassLimits};
use stanchion_core::{Call as Asks, Dialect, FailureKind, RequestClass, RetainedBytes};
use tower::{ServiceExt, service_fn};

use super::*;

fn with_body(owner: &str, class: RequestClass, bytes: usize) -> Req {
    let mut request = of(owner, class);
    request.extensions_mut().insert(Asks::new(Dialect::OpenAiChat, true).with_request_bytes(bytes));
    request
}

async fn outcome(layer: &AdmissionLayer, request: Req) -> (Option<FailureKind>, Call) {
    let mut call = call(layer, &provider(), request).await;
    let failure = settle(&mut call).and_then(Result::err).map(|failure| failure.kind());
    (failure, call)
}

#[tokio::test(start_paused = true)]
async fn bodies_that_wait_are_bounded_and_bodies_that_run_are_not() {
    let scheduler = scheduler(AdmissionScheduler::builder().max_pending_bytes(64 << 10));
    let layer = AdmissionLayer::new(scheduler, one_at_a_time().build().unwrap());
    let mut running = call(&layer, &provider(), with_body("a", RequestClass::Foreground, 10 << 20)).await;
    let _running = settle(&mut running).unwrap().unwrap();
    let (failure, _first) = outcome(&layer, with_body("b", RequestClass::Foreground, 60 << 10)).await;
    assert_eq!(failure, None);
    let held = layer.scheduler().status().pending_bytes;
    assert!((60 << 10..61 << 10).contains(&held), "body and head: {held}");
    let (failure, _) = outcome(&layer, with_body("c", RequestClass::Foreground, 8 << 10)).await;
    assert_eq!(failure, Some(FailureKind::QueueFull));
    let (failure, second) = outcome(&layer, with_body("c", RequestClass::Foreground, 2 << 10)).await;
    assert_eq!(failure, None);
    drop(second);
    assert_eq!(layer.scheduler().status().pending_bytes, held);
}

#[tokio::test(start_paused = true)]
async fn a_footprint_is_computed_once_and_goes_before_the_body() {
    let layer = layer(one_at_a_time());
    let _running = holder(&layer).await;
    let context = Context::builder().owner("a").build();
    assert_eq!(context.footprint_or_init(|| 5_000), 5_000);
    let (_, waiting) = outcome(&layer, request_in(context.clone())).await;
    assert_eq!(layer.scheduler().status().pending_bytes, 5_000);
    drop(waiting);
    // Computed by the layer, it stays what it was for the next candidate.
    let context = Context::builder().owner("b").build();
    let (_, waiting) = outcome(&layer, request_in(context.clone())).await;
    let bytes = context.footprint().unwrap();
    assert_eq!(layer.scheduler().status().pending_bytes, bytes);
    drop(waiting);
    let mut larger = request_in(context);
    larger.extensions_mut().insert(Asks::new(Dialect::OpenAiChat, true).with_request_bytes(1 << 20));
    let (_, _waiting) = outcome(&layer, larger).await;
    assert_eq!(layer.scheduler().status().pending_bytes, bytes);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_nobody_measured_counts_as_what_it_says_of_itself() {
    let layer = layer(one_at_a_time().max_pending_bytes(64 << 10));
    let _running = holder(&layer).await;
    let of_size = |bytes: usize| {
        let mut request = of("a", RequestClass::Foreground);
        *request.body_mut() = Full::from(vec![b' '; bytes]);
        request
    };
    let (failure, _waiting) = outcome(&layer, of_size(40 << 10)).await;
    assert_eq!(failure, None);
    let waiting = layer.scheduler().status().pending_bytes;
    assert!((40 << 10..41 << 10).contains(&waiting), "{waiting}");
    assert_eq!(outcome(&layer, of_size(40 << 10)).await.0, Some(FailureKind::QueueFull));
}

#[tokio::test(start_paused = true)]
async fn a_saturated_footprint_runs_and_does_not_wait() {
    let layer = layer(one_at_a_time());
    let huge = || {
        let context = Context::builder().owner("a").build();
        context.footprint_or_init(|| u64::MAX);
        request_in(context)
    };
    let mut running = call(&layer, &provider(), huge()).await;
    let _running = settle(&mut running).unwrap().unwrap();
    assert_eq!(outcome(&layer, huge()).await.0, Some(FailureKind::QueueFull));
}

#[tokio::test(start_paused = true)]
async fn classes_have_limits_where_that_is_asked_for() {
    let classes = ClassLimits { non_foreground: 2, ..ClassLimits::default() };
    let scheduler = scheduler(AdmissionScheduler::builder().global_concurrency(3).class_limits(classes));
    let layer = AdmissionLayer::new(scheduler.clone(), AdmissionPolicy::default());
    let mut held = Vec::new();
    for owner in ["a", "b"] {
        let mut running = call(&layer, &provider(), of(owner, RequestClass::Background)).await;
        held.push(settle(&mut running).unwrap().unwrap());
    }
    let (_, mut third) = outcome(&layer, of("c", RequestClass::Background)).await;
    assert_eq!(counts(&layer), (2, 1));
    let mut foreground = call(&layer, &provider(), of("d", RequestClass::Foreground)).await;
    let foreground = settle(&mut foreground).unwrap().unwrap();
    held.pop();
    let third = settle(&mut third).unwrap().unwrap();
    assert_eq!(scheduler.status().non_foreground.in_flight, 2);
    drop((foreground, third));
}

/// What layers within hold for requests that run counts toward what all may hold, as long as they hold it.
#[tokio::test(start_paused = true)]
async fn what_is_held_for_those_who_run_leaves_less_room_for_those_who_wait() {
    let scheduler = scheduler(AdmissionScheduler::builder().max_pending_bytes(64 << 10));
    let layer = AdmissionLayer::new(scheduler, one_at_a_time().build().unwrap());
    let (into, mut from) = tokio::sync::mpsc::unbounded_channel();
    let looks = service_fn(move |request: Req| {
        into.send(RetainedBytes::of(&request).cloned()).unwrap();
        std::future::ready(Ok::<_, Failure>(http::Response::new(ScriptedBody::new([Step::Hang]))))
    });
    let _running = layer.layer(looks).oneshot(of("a", RequestClass::Foreground)).await.unwrap();
    let mut held = from.recv().await.unwrap().expect("put there by the queue").hold();
    held.set(60 << 10);
    let (failure, _) = outcome(&layer, with_body("b", RequestClass::Foreground, 8 << 10)).await;
    assert_eq!(failure, Some(FailureKind::QueueFull));
    drop(held);
    let (failure, _waiting) = outcome(&layer, with_body("b", RequestClass::Foreground, 8 << 10)).await;
    assert_eq!(failure, None);
}
