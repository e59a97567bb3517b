//! Whatever is dropped, wherever it waits, holds nothing.

use std::sync::Arc;

use http::Response;
use stanchion_core::{Context, FailureKind};
use stanchion_fallback::{Fallback, FallbackLayer};
use stanchion_testkit::{Events, Probe, ScriptedBody, candidates, request, request_in};
use tokio_test::{assert_pending, assert_ready_err, task};
use tower::{Layer, Service, ServiceExt};
use tower_test::mock;

use super::{Req, failure, status};

fn probe() -> Probe {
    Probe::new(|| Response::new(ScriptedBody::frames(["x"])))
}

async fn ready(probe: Probe) -> Fallback<Probe> {
    let mut service = FallbackLayer::new(candidates(["a", "b"])).layer(probe);
    std::future::poll_fn(|cx| Service::<Req>::poll_ready(&mut service, cx)).await.unwrap();
    service
}

#[tokio::test]
async fn a_call_is_cancelled_with_its_future() {
    let probe = probe().hanging();
    let mut service = ready(probe.clone()).await;
    let mut call = task::spawn(service.call(request()));
    assert_pending!(call.poll());
    assert_eq!(probe.live(), 1);
    drop(call);
    assert_eq!((probe.live(), probe.calls()), (0, 1));
}

#[tokio::test]
async fn nothing_is_held_between_two_candidates() {
    let probe = probe().failing([FailureKind::Overloaded; 2]);
    let seen = probe.clone();
    // The marker is told when the first call is gone and the second not begun.
    let observer = move |event: &stanchion_core::Event| assert_eq!((seen.live(), seen.calls()), (0, 1), "{event:?}");
    let context = Context::builder().observer(Arc::new(observer)).build();
    let mut service = ready(probe.clone()).await;
    let mut call = task::spawn(service.call(request_in(context)));
    assert_pending!(call.poll());
    // The first call fails; the second waits for readiness, which takes two polls.
    assert_pending!(call.poll());
    assert_eq!((probe.live(), probe.calls()), (0, 1));
    assert_pending!(call.poll());
    assert_eq!((probe.live(), probe.calls()), (1, 2));
    // The last failure frees its call, too, although the future still lives.
    assert_ready_err!(call.poll());
    assert_eq!(probe.live(), 0);
}

#[tokio::test]
async fn a_dropped_wait_for_readiness_asks_nobody() {
    let events = Events::new();
    let probe = probe().failing([FailureKind::Overloaded]);
    let mut service = ready(probe.clone()).await;
    let mut call = task::spawn(service.call(request_in(events.context())));
    assert_pending!(call.poll());
    assert_pending!(call.poll());
    drop(call);
    assert_eq!((probe.live(), probe.calls()), (0, 1));
    assert_eq!(events.lines(), ["M.fallback a/gpt-x>b/gpt-x"]);
}

#[tokio::test]
async fn an_unpolled_call_is_dropped_with_its_first_candidate() {
    let probe = probe();
    let mut service = ready(probe.clone()).await;
    let call = service.call(request());
    assert_eq!(probe.live(), 1);
    drop(call);
    assert_eq!(probe.live(), 0);
}

#[tokio::test]
async fn a_service_that_fails_to_become_ready_ends_the_walk_with_the_best_failure() {
    for (first, second, best, attempts) in [
        (status(FailureKind::Overloaded, 529), FailureKind::Connect, FailureKind::Overloaded, 1),
        (failure(FailureKind::Transport), FailureKind::Connect, FailureKind::Connect, 1),
        (status(FailureKind::Overloaded, 529), FailureKind::RecoveryBudget, FailureKind::RecoveryBudget, 1),
        (failure(FailureKind::CircuitOpen), FailureKind::Connect, FailureKind::Connect, 0),
    ] {
        let (mut inner, mut handle) = mock::pair::<Req, Response<()>>();
        assert!(inner.ready().await.is_ok());
        let mut call = task::spawn(FallbackLayer::new(candidates(["a", "b", "c"])).layer(inner).call(request()));
        let (_, send) = handle.next_request().await.unwrap();
        send.send_error(first);
        handle.send_error(failure(second));
        let failed = assert_ready_err!(call.poll());
        assert_eq!((failed.kind(), failed.attempts()), (best, attempts));
    }
}

#[tokio::test]
#[should_panic(expected = "polled after its end")]
async fn a_finished_call_is_not_polled_again() {
    let mut service = FallbackLayer::new(candidates(["a"])).layer(super::Script::new([Ok(())]));
    let mut call = task::spawn(service.call(request()));
    assert!(call.poll().is_ready());
    let _ = call.poll();
}

#[tokio::test]
async fn a_call_shows_where_it_stands() {
    let mut service = ready(probe().failing([FailureKind::Overloaded])).await;
    let mut call = task::spawn(service.call(request()));
    assert!(format!("{call:?}").contains("calling"));
    assert_pending!(call.poll());
    assert_pending!(call.poll());
    assert!(format!("{call:?}").contains("readying"));
    assert_pending!(call.poll());
    assert!(call.poll().is_ready());
    assert!(format!("{call:?}").contains("over"));

    let refused = FallbackLayer::default().layer(probe()).call(request());
    assert!(format!("{refused:?}").contains("refused"));
}
