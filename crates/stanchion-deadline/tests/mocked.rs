//! The layer around a mock, polled by hand.

use std::time::Duration;

use http::{Request, Response};
use stanchion_core::{BoxError, Failure, FailureKind};
use stanchion_deadline::{AttemptLayer, AttemptLimits};
use stanchion_testkit::{ScriptedBody, Step};
use tokio_test::{assert_pending, assert_ready, assert_ready_err, assert_ready_ok, task};
use tower_layer::Layer;
use tower_service::Service;
use tower_test::mock;

type Mock = mock::Mock<Request<()>, Response<ScriptedBody>>;
type Handle = mock::Handle<Request<()>, Response<ScriptedBody>>;

const MOMENT: Duration = Duration::from_millis(1);
const LIMIT: Duration = Duration::from_secs(5);
const ALMOST: Duration = Duration::from_millis(4999);

fn around() -> (stanchion_deadline::Attempt<Mock>, Handle) {
    let (inner, handle) = mock::pair();
    let limits = AttemptLimits::builder().first_output(LIMIT).idle(LIMIT).build().unwrap();
    (AttemptLayer::new(limits).layer(inner), handle)
}

fn poll_ready(service: &mut stanchion_deadline::Attempt<Mock>) -> std::task::Poll<Result<(), Failure>> {
    task::spawn(()).enter(|cx, _| service.poll_ready(cx))
}

#[tokio::test(start_paused = true)]
async fn the_clock_starts_with_the_call_and_not_with_readiness() {
    let (mut service, mut handle) = around();
    handle.allow(0);
    assert_pending!(poll_ready(&mut service));
    tokio::time::advance(LIMIT * 2).await;
    handle.allow(1);
    assert_ready_ok!(poll_ready(&mut service));

    let mut future = task::spawn(service.call(Request::new(())));
    assert_pending!(future.poll());
    tokio::time::advance(ALMOST).await;
    assert_pending!(future.poll());
    tokio::time::advance(MOMENT).await;
    assert!(future.is_woken(), "the clock wakes whoever waits");
    assert_eq!(assert_ready_err!(future.poll()).kind(), FailureKind::FirstOutputTimeout);
}

#[tokio::test(start_paused = true)]
async fn an_answer_at_the_very_end_of_the_limit_is_in_time() {
    let (mut service, mut handle) = around();
    handle.allow(1);
    assert_ready_ok!(poll_ready(&mut service));
    let mut future = task::spawn(service.call(Request::new(())));
    assert_pending!(future.poll());
    let (_, respond) = handle.next_request().await.unwrap();
    tokio::time::advance(LIMIT).await;
    respond.send_response(Response::new(ScriptedBody::new([Step::Data("x".into())])));
    assert_ready_ok!(future.poll(), "data goes before clocks");
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_service_within_become_failures() {
    let (mut service, mut handle) = around();
    handle.allow(1);
    assert_ready_ok!(poll_ready(&mut service));
    let mut future = task::spawn(service.call(Request::new(())));
    let (_, respond) = {
        assert_pending!(future.poll());
        handle.next_request().await.unwrap()
    };
    respond.send_error(BoxError::from(Failure::new(FailureKind::Overloaded)));
    assert_eq!(assert_ready!(future.poll()).map(drop).unwrap_err().kind(), FailureKind::Overloaded);
}
