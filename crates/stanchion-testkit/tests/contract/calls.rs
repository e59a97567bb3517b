//! Faults of readiness and of calls.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use stanchion_core::{Failure, FailureKind};
use stanchion_testkit::{Contract, Probe, ScriptedBody, shares_state};
use tower_layer::{Layer, layer_fn};
use tower_service::Service;

use super::BoxFuture;

/// What a [`Faulty`] service does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Nothing,
    CallsAClone,
    IgnoresReadiness,
    ReservesInPollReady,
    SwallowsReadyErrors,
    ChangesReadyErrors,
    Spawns,
    CallsTwice,
}

#[derive(Debug)]
struct Faulty<S> {
    inner: S,
    fault: Fault,
    permits: Arc<AtomicUsize>,
    permit: bool,
}

impl<S: Clone> Clone for Faulty<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), fault: self.fault, permits: self.permits.clone(), permit: false }
    }
}

impl<S> Service<Request<Full<Bytes>>> for Faulty<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<ScriptedBody>, Error = Failure> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<ScriptedBody>;
    type Error = Failure;
    type Future = BoxFuture<Result<Response<ScriptedBody>, Failure>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if self.fault == Fault::ReservesInPollReady && !self.permit {
            if self.permits.load(Ordering::SeqCst) == 0 {
                return Poll::Pending;
            }
            self.permits.fetch_sub(1, Ordering::SeqCst);
            self.permit = true;
        }
        match self.inner.poll_ready(cx) {
            _ if self.fault == Fault::IgnoresReadiness => Poll::Ready(Ok(())),
            Poll::Ready(Err(_)) if self.fault == Fault::SwallowsReadyErrors => Poll::Pending,
            Poll::Ready(Err(_)) if self.fault == Fault::ChangesReadyErrors => {
                Poll::Ready(Err(Failure::new(FailureKind::Unknown)))
            }
            other => other,
        }
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let mut clone = self.inner.clone();
        match self.fault {
            Fault::CallsAClone => Box::pin(clone.call(request)),
            Fault::CallsTwice => {
                let first = self.inner.call(request.clone());
                Box::pin(async move {
                    let _ = first.await;
                    std::future::poll_fn(|cx| clone.poll_ready(cx)).await?;
                    clone.call(request).await
                })
            }
            Fault::Spawns => {
                let task = tokio::spawn(self.inner.call(request));
                Box::pin(async { task.await.expect("not cancelled") })
            }
            Fault::ReservesInPollReady => {
                self.permit = false;
                self.permits.fetch_add(1, Ordering::SeqCst);
                Box::pin(self.inner.call(request))
            }
            _ => Box::pin(self.inner.call(request)),
        }
    }
}

fn faulty(fault: Fault) -> Contract<impl Layer<Probe, Service = Faulty<Probe>> + Clone> {
    let permits = Arc::new(AtomicUsize::new(8));
    Contract::new(layer_fn(move |inner| Faulty { inner, fault, permits: permits.clone(), permit: false }))
}

#[tokio::test(start_paused = true)]
async fn a_layer_without_a_fault_passes() {
    faulty(Fault::Nothing).check().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "is not the one that was polled ready")]
async fn a_call_of_a_clone_is_found() {
    faulty(Fault::CallsAClone).readiness().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "is not the one that was polled ready")]
async fn a_layer_that_is_always_ready_is_found() {
    faulty(Fault::IgnoresReadiness).readiness().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "one request, one call")]
async fn a_second_call_is_found() {
    faulty(Fault::CallsTwice).readiness().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "never came to readiness")]
async fn a_reservation_is_found() {
    faulty(Fault::ReservesInPollReady).no_reservation().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "never came to readiness")]
async fn a_swallowed_ready_error_is_found() {
    faulty(Fault::SwallowsReadyErrors).ready_errors().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "was changed")]
async fn a_changed_ready_error_is_found() {
    faulty(Fault::ChangesReadyErrors).ready_errors().await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "outlives its dropped future")]
async fn a_spawned_call_is_found() {
    faulty(Fault::Spawns).release().await;
}

#[test]
fn the_whole_check_finds_every_fault() {
    use Fault::{
        CallsAClone, CallsTwice, ChangesReadyErrors, IgnoresReadiness, ReservesInPollReady, Spawns, SwallowsReadyErrors,
    };
    let faults = [
        CallsAClone,
        CallsTwice,
        ChangesReadyErrors,
        IgnoresReadiness,
        ReservesInPollReady,
        Spawns,
        SwallowsReadyErrors,
    ];
    for fault in faults {
        let checked = std::panic::catch_unwind(|| super::paused(faulty(fault).check()));
        assert!(checked.is_err(), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_services_of_one_layer_are_compared() {
    let permits = Arc::new(AtomicUsize::new(1));
    let layer =
        layer_fn(|inner| Faulty { inner, fault: Fault::ReservesInPollReady, permits: permits.clone(), permit: false });
    let mut compared = false;
    let inner = Probe::new(|| Response::new(ScriptedBody::new([])));
    shares_state(&layer, inner, async |mut one, mut two| {
        std::future::poll_fn(|cx| one.poll_ready(cx)).await.unwrap();
        std::future::poll_fn(|cx| {
            assert!(two.poll_ready(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        compared = true;
    })
    .await;
    assert!(compared);
}
