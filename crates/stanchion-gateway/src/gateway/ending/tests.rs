use std::sync::atomic::AtomicUsize;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use stanchion::edge::EdgeLayer;
use stanchion_testkit::{Contract, ScriptedBody, Step};
use tokio_test::{assert_pending, task};
use tower::{Layer, ServiceExt, service_fn};

use super::*;

fn layer(
    end: &End,
) -> impl tower_layer::Layer<stanchion_testkit::Probe, Service = Ending<stanchion_testkit::Probe>> + Clone {
    let end = end.clone();
    tower_layer::layer_fn(move |inner| Ending::new(inner, end.clone()))
}

#[tokio::test(start_paused = true)]
async fn it_keeps_what_every_layer_must_keep() {
    Contract::new(layer(&End::default())).check().await;
}

fn streaming(
    end: &End,
    steps: Vec<Step>,
) -> impl Service<Request<Full<Bytes>>, Response = Response<EndingBody<ScriptedBody>>, Error = Failure, Future: Send> + Clone
{
    let inner = service_fn(move |_: Request<Full<Bytes>>| {
        let body = ScriptedBody::new(steps.clone());
        async move { Ok::<_, Failure>(Response::new(body)) }
    });
    Ending::new(inner, end.clone())
}

fn request() -> Request<Full<Bytes>> {
    Request::post("/v1/messages").body(Full::new(Bytes::from_static(br#"{"model":"m","stream":true}"#))).unwrap()
}

#[tokio::test(start_paused = true)]
async fn at_the_signal_a_stream_fails_after_output_and_the_provider_is_dropped() {
    let end = End::default();
    let drops = Arc::new(AtomicUsize::new(0));
    let body = ScriptedBody::new([Step::Data("text".into()), Step::Hang]).counts_drops(&drops);
    let body = Mutex::new(Some(body));
    let inner = service_fn(|_: Request<()>| {
        let body = body.lock().unwrap().take().unwrap();
        async move { Ok::<_, Failure>(Response::new(body)) }
    });
    let response = Ending::new(inner, end.clone()).oneshot(Request::new(())).await.unwrap();
    let mut body = task::spawn(response.into_body());
    let poll = |body: &mut task::Spawn<EndingBody<ScriptedBody>>| body.enter(|cx, body| body.poll_frame(cx));
    assert!(matches!(poll(&mut body), Poll::Ready(Some(Ok(_)))));
    assert_pending!(poll(&mut body));
    assert_eq!((end.running(), body.is_woken()), (1, false));
    end.trigger();
    assert!(body.is_woken());
    match poll(&mut body) {
        Poll::Ready(Some(Err(failure))) => {
            assert_eq!((failure.kind(), failure.phase()), (FailureKind::ShuttingDown, Phase::AfterOutput));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!((drops.load(Ordering::Relaxed), end.running()), (1, 0));
    assert!(matches!(poll(&mut body), Poll::Ready(None)));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_never_pauses_ends_too_and_one_that_has_ended_is_whole() {
    let end = End::default();
    let endless: Vec<Step> = (0..1000).map(|_| Step::Data("x".into())).collect();
    let mut body = streaming(&end, endless).oneshot(request()).await.unwrap().into_body();
    assert!(body.frame().await.unwrap().is_ok());
    let whole = streaming(&end, vec![Step::Data("x".into())]).oneshot(request()).await.unwrap().into_body();
    let whole = whole.collect().await.unwrap().to_bytes();
    end.trigger();
    assert_eq!(body.frame().await.unwrap().unwrap_err().kind(), FailureKind::ShuttingDown);
    assert_eq!((whole.as_ref(), end.running()), (&b"x"[..], 0));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_the_head_is_told_with_a_status_and_who_reads_what_has_no_frames_is_cut() {
    let end = End::default();
    let hanging =
        service_fn(|_: Request<Full<Bytes>>| std::future::pending::<Result<Response<ScriptedBody>, Failure>>());
    let edge = EdgeLayer::new().layer(Ending::new(hanging, end.clone()));
    let waiting = tokio::spawn(edge.oneshot(request()));
    let text = Step::Data("event: content_block_delta\ndata: {}\n\n".into());
    let edge = EdgeLayer::new().layer(streaming(&end, vec![text, Step::Hang]));
    let mut stream = edge.oneshot(request()).await.unwrap().into_body();
    assert!(stream.frame().await.unwrap().is_ok());
    tokio::task::yield_now().await;
    assert_eq!(end.running(), 2);
    end.trigger();

    let response = waiting.await.unwrap().unwrap();
    assert_eq!((response.status().as_u16(), response.headers().get("x-should-retry")), (503, None));
    let told = response.into_body().collect().await.unwrap().to_bytes();
    assert!(String::from_utf8_lossy(&told).contains("shutting down"), "{told:?}");

    let told = stream.collect().await;
    assert!(told.is_err(), "without a reader nobody knows where a frame ends: the connection is cut");
}

#[test]
fn places_are_used_again_and_a_waker_is_registered_once() {
    let end = End::default();
    let (waker, count) = {
        struct Count(AtomicUsize);
        impl std::task::Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let count = Arc::new(Count(AtomicUsize::new(0)));
        (Waker::from(count.clone()), count)
    };
    let cx = Context::from_waker(&waker);
    for _ in 0..3 {
        let mut watches: Vec<Watch> = (0..4).map(|_| Watch::new(end.clone())).collect();
        for watch in &mut watches {
            assert!(!watch.poll(&cx) && !watch.poll(&cx));
        }
        assert_eq!(end.wakers().places.len(), 4);
    }
    assert_eq!(end.running(), 0);
    let mut watch = Watch::new(end.clone());
    assert!(!watch.poll(&cx));
    end.trigger();
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert!(watch.poll(&cx) && Watch::new(end.clone()).poll(&cx));
}
