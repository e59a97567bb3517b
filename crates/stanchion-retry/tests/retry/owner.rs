//! One owner of retries, and what leaves the layer.

use http::{Request, Response};
use stanchion_core::{Context, FailureKind};
use stanchion_retry::{RetryLayer, RetryOwner};
use stanchion_testkit::{Events, request, request_in};
use tower::{Layer, Service, ServiceExt, service_fn};

use super::{failure, play, play_request, retries, status};

#[tokio::test(start_paused = true)]
async fn two_retry_layers_do_not_multiply() {
    let nested = |outer: u32, inner: u32| async move {
        let calls = std::sync::atomic::AtomicU32::new(0);
        let events = Events::new();
        let service = service_fn(|_: Request<_>| {
            calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            async { Err::<Response<()>, _>(status(FailureKind::ServerError, 503)) }
        });
        let service = retries(outer).layer(retries(inner).layer(service));
        let failure = service.oneshot(request_in(events.context())).await.unwrap_err();
        assert_eq!(failure.attempts(), calls.load(std::sync::atomic::Ordering::Relaxed));
        let exhausted = events.lines().iter().filter(|line| line.contains("exhausted")).count();
        assert_eq!(exhausted, 1, "only the owner tells");
        failure.attempts()
    };
    assert_eq!(nested(2, 2).await, 3);
    assert_eq!(nested(0, 5).await, 1);
    assert_eq!(nested(5, 0).await, 6);
}

#[tokio::test(start_paused = true)]
async fn the_mark_is_on_every_attempt() {
    let service = service_fn(|request: Request<_>| async move {
        assert!(request.extensions().get::<RetryOwner>().is_some());
        Err::<Response<()>, _>(failure(FailureKind::Overloaded))
    });
    assert_eq!(retries(2).layer(service).oneshot(request()).await.unwrap_err().attempts(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_marked_request_is_passed_on_and_its_failure_left_alone() {
    let events = Events::new();
    let mut request = request_in(events.context());
    request.extensions_mut().insert(RetryOwner);
    let outcome = play_request(retries(2), request, [Err(failure(FailureKind::Overloaded))]).await;
    assert_eq!(outcome.at, [0]);
    let failure = outcome.failure();
    assert_eq!((failure.kind(), failure.attempts(), failure.candidate()), (FailureKind::Overloaded, 0, None));
    assert_eq!(events.lines(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_names_its_candidate_and_its_attempts() {
    let outcome =
        play(retries(1), Context::default(), [Err(failure(FailureKind::Connect)), Err(failure(FailureKind::Connect))]);
    let gone = outcome.await.failure();
    assert_eq!((gone.candidate().map(|name| &**name), gone.attempts()), (Some("primary/gpt-x"), 2));

    // Who knows better is believed.
    let named = failure(FailureKind::InvalidRequest).with_candidate("other/m");
    let context = Context::default();
    for _ in 0..7 {
        context.count_attempt();
    }
    let kept = play(retries(1), context, [Err(named)]).await.failure();
    assert_eq!((kept.candidate().map(|name| &**name), kept.attempts()), (Some("other/m"), 7));
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_was_not_asked_is_no_attempt() {
    let refused = play(retries(2), Context::default(), [Err(failure(FailureKind::CircuitOpen))]).await.failure();
    assert_eq!(refused.attempts(), 0);
    let replies = [Err(failure(FailureKind::Overloaded)), Err(failure(FailureKind::QueueFull))];
    assert_eq!(play(retries(2), Context::default(), replies).await.failure().attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_extensions_is_retried() {
    let mut bare = request();
    bare.extensions_mut().clear();
    let replies = [Err(failure(FailureKind::Overloaded)), Err(failure(FailureKind::InvalidRequest))];
    let failure = play_request(retries(2), bare, replies).await.failure();
    assert_eq!((failure.kind(), failure.attempts(), failure.candidate()), (FailureKind::InvalidRequest, 2, None));
}

#[tokio::test(start_paused = true)]
async fn foreign_errors_are_unknown_failures_and_not_retried() {
    let service = service_fn(|_: Request<_>| async { Err::<Response<()>, stanchion_core::BoxError>("boom".into()) });
    let failure = retries(2).layer(service).oneshot(request()).await.unwrap_err();
    assert_eq!((failure.kind(), failure.attempts()), (FailureKind::Unknown, 1));
}

#[tokio::test(start_paused = true)]
async fn a_layer_shares_its_randomness() {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    };
    let drawn = Arc::new(AtomicU32::new(0));
    let counter = drawn.clone();
    let layer = retries(1).with_random(move || f64::from(counter.fetch_add(1, Ordering::Relaxed)));
    let inner = service_fn(|_: Request<_>| async { Err::<Response<()>, _>(failure(FailureKind::Overloaded)) });
    stanchion_testkit::shares_state(&layer, inner, async |mut one, two| {
        let began = tokio::time::Instant::now();
        one.call(request()).await.unwrap_err();
        assert_eq!(began.elapsed().as_millis(), 375);
        two.oneshot(request()).await.unwrap_err();
        assert_eq!(began.elapsed().as_millis(), 875);
    })
    .await;
    assert_eq!(drawn.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn seeds_decide_the_jitter() {
    let waits = async |layer: RetryLayer| {
        let replies = (0..4).map(|_| Err(failure(FailureKind::Overloaded))).chain([Ok(())]);
        play(layer, Context::default(), replies).await.at
    };
    let seeded = |seed| retries(4).with_seed(seed);
    assert_eq!(waits(seeded(7)).await, waits(seeded(7)).await);
    assert_ne!(waits(seeded(7)).await, waits(seeded(8)).await);
    for pair in waits(seeded(9)).await.windows(2).zip([375..=500, 750..=1000, 1500..=2000, 3000..=4000]) {
        assert!(pair.1.contains(&(pair.0[1] - pair.0[0])), "{pair:?}");
    }
}

#[test]
fn layer_and_service_show_what_they_are_made_of() {
    let layer = retries(7).with_seed(1);
    assert_eq!(layer.policy().max_retries(), 7);
    assert!(format!("{layer:?}").contains("limits: One(7)"));
    let mut service = stanchion_retry::Retry::new("inner", layer.policy().clone());
    assert_eq!((service.policy().max_retries(), *service.get_ref()), (7, "inner"));
    assert!(format!("{service:?}").contains(r#"inner: "inner""#));
    *service.get_mut() = "other";
    assert_eq!(service.into_inner(), "other");
}
