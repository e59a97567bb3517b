//! Whatever is dropped, wherever it is, frees its credential at once.

use std::sync::Arc;

use http::Response;
use stanchion_core::{Context, Event};
use stanchion_credentials::CredentialsLayer;
use stanchion_testkit::{Probe, ScriptedBody, Step, request, request_in};
use tokio_test::{assert_pending, task};
use tower::{Layer, Service};

use super::{CredentialPools, Req, builder, pools};

fn body() -> ScriptedBody {
    ScriptedBody::new([Step::Pending, Step::Data("".into()), Step::Pending, Step::Data("a".into()), Step::Hang])
}

fn in_flight(pools: &CredentialPools) -> u32 {
    pools.status()[0].credentials.iter().map(|credential| credential.in_flight).sum()
}

#[tokio::test(start_paused = true)]
async fn a_credential_is_free_after_a_drop_at_any_poll() {
    let pools = pools(builder(["a", "b"]));
    let layer = CredentialsLayer::new(pools.clone());
    for steps in 0..=8 {
        let probe = Probe::new(|| Response::new(body()));
        let mut service = layer.layer(probe.clone());
        std::future::poll_fn(|cx| Service::<Req>::poll_ready(&mut service, cx)).await.unwrap();
        let mut call = Box::pin(task::spawn(service.call(request())));
        let mut left = steps;
        let response = loop {
            if left == 0 {
                break None;
            }
            left -= 1;
            if let std::task::Poll::Ready(response) = call.poll() {
                break Some(response.unwrap());
            }
        };
        assert_eq!(in_flight(&pools), 1, "after {steps} polls");
        if let Some(response) = response {
            let mut body = Box::pin(response.into_body());
            for _ in 0..left {
                let mut frame = task::spawn(std::future::poll_fn(|cx| http_body::Body::poll_frame(body.as_mut(), cx)));
                let _ = frame.poll();
            }
            assert_eq!(in_flight(&pools), 1, "after {steps} polls");
            drop(body);
        }
        drop(call);
        assert_eq!((in_flight(&pools), probe.live()), (0, 0), "after {steps} polls");
    }
    let used: Vec<u64> = pools.status()[0].credentials.iter().map(|credential| credential.usage_count).collect();
    assert_eq!(used[1], 0, "a drop gives its reservation back");
}

#[tokio::test(start_paused = true)]
async fn an_observer_that_panics_frees_the_credential() {
    let pools = pools(builder(["a"]));
    let never =
        tower::service_fn(|_: Req| std::future::pending::<Result<Response<ScriptedBody>, stanchion_core::Failure>>());
    let mut service = CredentialsLayer::new(pools.clone()).layer(never);
    let context = Context::builder().observer(Arc::new(|_: &Event| panic!("a bug outside"))).build();
    let request = request_in(context);
    let call = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(service.call(request))));
    assert!(call.is_err());
    assert_eq!(in_flight(&pools), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_panics_frees_its_credential() {
    let pools = pools(builder(["a"]));
    let panics =
        tower::service_fn(|_: Req| -> std::future::Ready<Result<Response<ScriptedBody>, stanchion_core::Failure>> {
            panic!("a bug further in")
        });
    let mut service = CredentialsLayer::new(pools.clone()).layer(panics);
    let call = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(service.call(request()))));
    assert!(call.is_err());
    assert_eq!(in_flight(&pools), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_may_be_dropped_outside_of_any_runtime() {
    let pools = pools(builder(["a"]));
    let mut service = CredentialsLayer::new(pools.clone()).layer(Probe::new(|| Response::new(body())).hanging());
    std::future::poll_fn(|cx| Service::<Req>::poll_ready(&mut service, cx)).await.unwrap();
    let mut call = task::spawn(service.call(request()));
    assert_pending!(call.poll());
    std::thread::spawn(move || drop(call)).join().unwrap();
    assert_eq!(in_flight(&pools), 0);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "polled after its end")]
async fn a_finished_call_is_not_polled_again() {
    let probe = Probe::new(|| Response::new(body())).failing([stanchion_core::FailureKind::Overloaded]);
    let mut service = CredentialsLayer::new(pools(builder(["a"]))).layer(probe);
    std::future::poll_fn(|cx| Service::<Req>::poll_ready(&mut service, cx)).await.unwrap();
    let mut call = task::spawn(service.call(request()));
    assert!(format!("{call:?}").contains("calling"));
    assert_pending!(call.poll());
    assert!(call.poll().is_ready());
    assert!(format!("{call:?}").contains("over"));
    let _ = call.poll();
}
