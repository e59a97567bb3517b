//! Commit over Observe around a mock, polled by hand.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use stanchion_core::{Failure, FailureKind};
use stanchion_stream::{Commit, CommitLayer, Observe, ObserveLayer};
use stanchion_testkit::{ScriptedBody, Step, request};
use tokio_test::{assert_pending, assert_ready, assert_ready_ok, task};
use tower_layer::Layer;
use tower_service::Service;
use tower_test::mock;

type Req = Request<Full<Bytes>>;
type Stacked = Commit<Observe<mock::Mock<Req, Response<ScriptedBody>>>>;

const ROLE: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const TEXT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello\"}}]}\n\n";

fn around() -> (Stacked, mock::Handle<Req, Response<ScriptedBody>>) {
    let (inner, handle) = mock::pair();
    (CommitLayer::new().layer(ObserveLayer::new().layer(inner)), handle)
}

fn poll_ready(service: &mut Stacked) -> std::task::Poll<Result<(), Failure>> {
    task::spawn(()).enter(|cx, _| service.poll_ready(cx))
}

#[tokio::test(start_paused = true)]
async fn readiness_is_the_inner_services_own() {
    let (mut service, mut handle) = around();
    handle.allow(0);
    assert_pending!(poll_ready(&mut service));
    handle.allow(1);
    assert_ready_ok!(poll_ready(&mut service));
    handle.send_error(Failure::new(FailureKind::QueueClosed));
    assert_eq!(assert_ready!(poll_ready(&mut service)).unwrap_err().kind(), FailureKind::QueueClosed);
}

#[tokio::test(start_paused = true)]
async fn the_head_is_held_until_the_first_output() {
    let (mut service, mut handle) = around();
    handle.allow(1);
    assert_ready_ok!(poll_ready(&mut service));
    let mut future = task::spawn(service.call(request()));
    assert_pending!(future.poll());
    let (asked, respond) = handle.next_request().await.unwrap();
    assert_eq!(asked.uri().path(), "/v1/chat/completions", "the request passes as it is");
    respond.send_response(Response::new(ScriptedBody::new([
        Step::Data(ROLE.into()),
        Step::Pending,
        Step::Data(TEXT.into()),
        Step::Hang,
    ])));
    assert_pending!(future.poll(), "a role is no output");
    assert!(future.is_woken());
    assert_eq!(assert_ready_ok!(future.poll()).status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn an_error_status_is_a_failure_and_its_body_is_read() {
    let (mut service, mut handle) = around();
    handle.allow(1);
    assert_ready_ok!(poll_ready(&mut service));
    let mut future = task::spawn(service.call(request()));
    assert_pending!(future.poll());
    let (_, respond) = handle.next_request().await.unwrap();
    let body = r#"{"error":{"message":"Overloaded","type":"overloaded_error"}}"#;
    let reply = Response::builder().status(529).body(ScriptedBody::new([Step::Pending, Step::Data(body.into())]));
    respond.send_response(reply.unwrap());
    assert_pending!(future.poll(), "the body is yet to come");
    let failure = assert_ready!(future.poll()).map(drop).unwrap_err();
    assert_eq!((failure.kind(), failure.message()), (FailureKind::Overloaded, Some("Overloaded")));
}
