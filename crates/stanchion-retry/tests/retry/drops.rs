//! Whatever is dropped, wherever it waits, holds nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
};

use http::{Request, Response};
use stanchion_core::{Context, Failure, FailureKind};
use stanchion_retry::RetryLayer;
use stanchion_testkit::{Events, request, request_in};
use tokio::time::advance;
use tokio_test::{assert_pending, assert_ready_err, task};
use tower::{Layer, Service};
use tower_test::mock;

use super::{Req, failure, ms, retries};

type Mock = mock::Mock<Req, Response<()>>;

fn around(layer: RetryLayer) -> (stanchion_retry::Retry<Mock>, mock::Handle<Req, Response<()>>) {
    let (inner, handle) = mock::pair();
    (layer.layer(inner), handle)
}

async fn ready<S: Service<Req>>(service: &mut S) {
    assert!(std::future::poll_fn(|cx| service.poll_ready(cx)).await.is_ok());
}

/// An inner service whose attempts hold something, as an attempt holds a permit.
#[derive(Clone, Default)]
struct Holding {
    held: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
    unready: bool,
    hangs: bool,
}

struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service<Req> for Holding {
    type Response = Response<()>;
    type Error = Failure;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<()>, Failure>> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> Poll<Result<(), Failure>> {
        if self.unready && self.calls.load(Ordering::SeqCst) > 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn call(&mut self, _: Req) -> Self::Future {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.held.fetch_add(1, Ordering::SeqCst);
        let (permit, hangs) = (Permit(self.held.clone()), self.hangs);
        // The permit lives as long as the future, also once it is done.
        Box::pin(std::future::poll_fn(move |_| {
            let _held = &permit;
            if hangs { Poll::Pending } else { Poll::Ready(Err(failure(FailureKind::Overloaded))) }
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_held_over_a_backoff() {
    let inner = Holding::default();
    let mut call = task::spawn(retries(2).layer(inner.clone()).call(request()));
    assert_eq!(inner.held.load(Ordering::SeqCst), 1);
    assert_pending!(call.poll());
    assert_eq!((inner.held.load(Ordering::SeqCst), inner.calls.load(Ordering::SeqCst)), (0, 1));
    advance(ms(499)).await;
    assert_pending!(call.poll());
    advance(ms(1)).await;
    assert!(call.is_woken());
    assert_pending!(call.poll());
    assert_eq!((inner.held.load(Ordering::SeqCst), inner.calls.load(Ordering::SeqCst)), (0, 2));
    advance(ms(1000)).await;
    // The last failure frees its attempt, too, although the call itself still lives.
    assert_eq!(assert_ready_err!(call.poll()).attempts(), 3);
    assert_eq!(inner.held.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_held_when_it_is_told() {
    let inner = Holding::default();
    let held = inner.held.clone();
    let context = Context::builder().observer(Arc::new(move |event: &stanchion_core::Event| {
        assert_eq!(held.load(Ordering::SeqCst), 0, "{event:?}");
    }));
    let mut call = task::spawn(retries(1).layer(inner.clone()).call(request_in(context.build())));
    assert_pending!(call.poll());
    advance(ms(500)).await;
    assert_ready_err!(call.poll());
    assert_eq!(inner.calls.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_attempt_is_cancelled() {
    let inner = Holding { hangs: true, ..Holding::default() };
    let mut call = task::spawn(retries(2).layer(inner.clone()).call(request()));
    assert_pending!(call.poll());
    assert_eq!(inner.held.load(Ordering::SeqCst), 1);
    drop(call);
    assert_eq!((inner.held.load(Ordering::SeqCst), inner.calls.load(Ordering::SeqCst)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_backoff_makes_no_attempt_and_tells_nothing() {
    let events = Events::new();
    let inner = Holding::default();
    let mut call = task::spawn(retries(2).layer(inner.clone()).call(request_in(events.context())));
    assert_pending!(call.poll());
    drop(call);
    advance(ms(60_000)).await;
    assert_eq!((inner.held.load(Ordering::SeqCst), inner.calls.load(Ordering::SeqCst)), (0, 1));
    assert_eq!(events.lines(), ["R.scheduled#1~500"]);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_for_readiness_makes_no_attempt() {
    let inner = Holding { unready: true, ..Holding::default() };
    let mut call = task::spawn(retries(2).layer(inner.clone()).call(request()));
    assert_pending!(call.poll());
    advance(ms(500)).await;
    assert_pending!(call.poll());
    assert_pending!(call.poll());
    drop(call);
    assert_eq!((inner.held.load(Ordering::SeqCst), inner.calls.load(Ordering::SeqCst)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn an_unpolled_call_is_dropped_with_its_first_attempt() {
    let inner = Holding::default();
    let call = retries(2).layer(inner.clone()).call(request());
    assert_eq!(inner.held.load(Ordering::SeqCst), 1);
    drop(call);
    assert_eq!(inner.held.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_fails_to_become_ready_ends_the_call() {
    let events = Events::new();
    let (mut service, mut handle) = around(retries(2));
    ready(&mut service).await;
    let mut call = task::spawn(service.call(request_in(events.context())));
    let (_, send) = handle.next_request().await.unwrap();
    send.send_error(failure(FailureKind::Overloaded));
    assert_pending!(call.poll());
    handle.send_error(failure(FailureKind::Connect));
    advance(ms(500)).await;
    let dead = assert_ready_err!(call.poll());
    assert_eq!((dead.kind(), dead.attempts()), (FailureKind::Connect, 1));
    assert_eq!(events.lines(), ["R.scheduled#1~500", "R.attempt#1", "R.exhausted#1(transport)"]);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "polled after its end")]
async fn a_finished_call_is_not_polled_again() {
    let mut call = task::spawn(retries(0).layer(Holding::default()).call(Request::new(request().into_body())));
    assert_ready_err!(call.poll());
    let _ = call.poll();
}

#[tokio::test(start_paused = true)]
async fn a_call_shows_where_it_stands() {
    let inner = Holding { unready: true, ..Holding::default() };
    let mut call = task::spawn(retries(2).layer(inner).call(request()));
    assert!(format!("{call:?}").contains("calling"));
    assert_pending!(call.poll());
    assert!(format!("{call:?}").contains("sleeping"));
    advance(ms(500)).await;
    assert_pending!(call.poll());
    assert!(format!("{call:?}").contains("readying"));

    let mut over = task::spawn(retries(0).layer(Holding::default()).call(request()));
    assert_ready_err!(over.poll());
    assert!(format!("{over:?}").contains("over"));
}
