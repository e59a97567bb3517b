//! The edge around a mock, polled by hand.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use stanchion_core::{Call, Failure, FailureKind};
use stanchion_edge::{Edge, EdgeLayer};
use stanchion_testkit::{ScriptedBody, Step};
use tokio_test::{assert_pending, assert_ready_ok, task};
use tower_layer::Layer;
use tower_service::Service;
use tower_test::mock;

type Inner = mock::Mock<Request<Full<Bytes>>, Response<ScriptedBody>>;
type Handle = mock::Handle<Request<Full<Bytes>>, Response<ScriptedBody>>;

fn around() -> (Edge<Inner>, Handle) {
    let (inner, handle) = mock::pair();
    (EdgeLayer::new().layer(inner), handle)
}

fn upload(steps: Vec<Step>) -> Request<ScriptedBody> {
    Request::post("/v1/messages").body(ScriptedBody::new(steps)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reserved_within_while_the_body_is_on_its_way() {
    let (mut service, mut handle) = around();
    handle.allow(0);
    let steps = vec![Step::Data("{\"model\":".into()), Step::Pending, Step::Data("\"m\"}".into())];
    task::spawn(()).enter(|cx, _| assert_ready_ok!(Service::<Request<ScriptedBody>>::poll_ready(&mut service, cx)));
    let mut future = task::spawn(service.call(upload(steps)));
    assert_pending!(future.poll(), "the body is yet to come");
    assert_pending!(future.poll(), "the service within is asked for readiness only now");
    handle.allow(1);
    assert_pending!(future.poll());
    let (asked, respond) = handle.next_request().await.unwrap();
    assert_eq!(asked.extensions().get::<Call>().and_then(|call| call.model.as_deref()), Some("m"));
    respond.send_response(Response::new(ScriptedBody::frames(["ok"])));
    assert_eq!(assert_ready_ok!(future.poll()).status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_never_ready_is_an_answer() {
    let (mut service, mut handle) = around();
    handle.send_error(Failure::new(FailureKind::QueueFull));
    let mut future = task::spawn(service.call(upload(vec![Step::Data("{\"model\":\"m\"}".into())])));
    assert_eq!(assert_ready_ok!(future.poll()).status(), StatusCode::TOO_MANY_REQUESTS);
}
