//! What comes back of a provider's response, and what is told of it.

use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context as TaskContext, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use stanchion_core::{
    AttemptPhase, BoxError, Context, Dialect, Event, Failure, FailureKind, Family, Phase, ProviderAttempt, Selected,
};
use stanchion_upstream::Upstream;
use tower::{Service, ServiceExt, service_fn};

use crate::{candidate, lines, request};

type Events = Arc<Mutex<Vec<Event>>>;

fn observed() -> (Context, Events) {
    let events = Events::default();
    let into = events.clone();
    let observer = move |event: &Event| into.lock().unwrap().push(event.clone());
    (Context::builder().observer(Arc::new(observer)).build(), events)
}

fn told(events: &Events) -> Vec<ProviderAttempt> {
    let attempt = |event: &Event| match event {
        Event::ProviderAttempt(attempt) => attempt.clone(),
        other => panic!("{other:?}"),
    };
    events.lock().unwrap().iter().map(attempt).collect()
}

fn chat() -> Request<Full<Bytes>> {
    request(Dialect::OpenAiChat, candidate(Family::OpenAi, "https://h/v1"))
}

#[tokio::test]
async fn the_response_carries_candidate_and_call_and_no_hop_of_its_own() {
    let transport = service_fn(|_| async {
        let mut response = Response::new(Full::<Bytes>::from("{}"));
        *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
        for (name, value) in [
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("trailer", "x-sum"),
            ("upgrade", "h2c"),
            ("proxy-authenticate", "Basic"),
            ("set-cookie", "__cf_bm=1"),
            ("set-cookie", "b=2"),
            ("alt-svc", "h3=\":443\""),
            ("strict-transport-security", "max-age=1"),
            ("content-type", "application/json"),
            ("request-id", "req_1"),
            ("retry-after", "7"),
            ("x-ratelimit-remaining-tokens", "0"),
        ] {
            response.headers_mut().append(name, HeaderValue::from_static(value));
        }
        Ok::<_, Failure>(response)
    });
    let response = Upstream::new(transport).oneshot(chat()).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        lines(response.headers()),
        ["content-type: application/json", "request-id: req_1", "retry-after: 7", "x-ratelimit-remaining-tokens: 0"]
    );
    assert_eq!(&**response.extensions().get::<Selected>().unwrap().candidate.name(), "primary/ours");
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "{}");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_counted_and_its_failure_told() {
    let transport = service_fn(|_| async {
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
        Err::<Response<Full<Bytes>>, _>(Failure::new(FailureKind::Connect).with_phase(Phase::Connect))
    });
    let mut upstream = Upstream::new(transport);
    let (context, events) = observed();
    for attempt in 1..=2 {
        let mut request = chat();
        request.extensions_mut().insert(context.clone());
        let failure = upstream.ready().await.unwrap().call(request).await.unwrap_err();
        assert_eq!(
            (failure.kind(), failure.phase(), failure.attempts()),
            (FailureKind::Connect, Phase::Connect, attempt)
        );
        assert_eq!(failure.candidate().map(|name| &**name), Some("primary/ours"));
    }
    // That it failed is for the commit layer to tell, which sees every way in which an attempt can fail.
    let told = told(&events);
    let seen: Vec<_> = told.iter().map(|event| (event.phase, event.attempt, event.failure)).collect();
    assert_eq!(seen, [(AttemptPhase::Started, 1, None), (AttemptPhase::Started, 2, None)]);
    assert_eq!(&*told[0].candidate, "primary/ours");
}

#[tokio::test]
async fn an_answer_and_a_dropped_future_tell_nothing_more() {
    let (context, events) = observed();
    let with_context = || {
        let mut request = chat();
        request.extensions_mut().insert(context.clone());
        request
    };
    let answer = service_fn(|_| async { Ok::<_, Failure>(Response::new(Full::<Bytes>::default())) });
    Upstream::new(answer).oneshot(with_context()).await.unwrap();
    let silence = service_fn(|_| std::future::pending::<Result<Response<Full<Bytes>>, Failure>>());
    drop(Upstream::new(silence).call(with_context()));
    assert_eq!(told(&events).iter().map(|event| event.phase).collect::<Vec<_>>(), [AttemptPhase::Started; 2]);
}

#[derive(Debug)]
struct Foreign;

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("foreign")
    }
}

impl Error for Foreign {}

#[tokio::test]
async fn a_late_failure_is_stamped_as_well() {
    let transport = service_fn(|_| async {
        let frames = Frames(vec![Err(Foreign.into()), Ok(Frame::data(Bytes::from("data: a\n\n")))]);
        Ok::<_, Failure>(Response::new(frames))
    });
    let mut request = chat();
    let context = Context::default();
    request.extensions_mut().insert(context.clone());
    let response = Upstream::new(transport).oneshot(request).await.unwrap();
    context.count_attempt();
    let mut body = response.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "data: a\n\n");
    let failure = body.frame().await.unwrap().unwrap_err();
    assert_eq!((failure.kind(), failure.phase(), failure.attempts()), (FailureKind::Unknown, Phase::BeforeOutput, 2));
    assert!(failure.candidate().is_some());
    assert!(failure.source().unwrap().is::<Foreign>());
    assert!(body.frame().await.is_none() && body.is_end_stream());
}

/// A body that gives its frames from the last to the first.
struct Frames(Vec<Result<Frame<Bytes>, BoxError>>);

impl Body for Frames {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(self.0.pop())
    }
}

/// A transport whose clones are not ready: only the one that was polled may be called.
struct Reserved {
    ready: bool,
}

impl Clone for Reserved {
    fn clone(&self) -> Self {
        Self { ready: false }
    }
}

impl Service<Request<Full<Bytes>>> for Reserved {
    type Response = Response<Full<Bytes>>;
    type Error = Failure;
    type Future = std::future::Ready<Result<Response<Full<Bytes>>, Failure>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Failure>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being ready");
        std::future::ready(Ok(Response::new(Full::default())))
    }
}

#[tokio::test]
async fn the_service_that_was_polled_ready_is_the_one_that_is_called() {
    let mut upstream = Upstream::new(Reserved { ready: false });
    for _ in 0..2 {
        let response = upstream.ready().await.unwrap().call(chat());
        drop(upstream.clone());
        response.await.unwrap();
    }
    assert!(!upstream.get_ref().ready && !upstream.get_mut().ready && !upstream.into_inner().ready);
}

#[tokio::test]
async fn an_unready_transport_fails_as_a_failure() {
    #[derive(Clone)]
    struct Closed;
    impl Service<Request<Full<Bytes>>> for Closed {
        type Response = Response<Full<Bytes>>;
        type Error = BoxError;
        type Future = std::future::Pending<Result<Self::Response, BoxError>>;

        fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Ready(Err(Failure::new(FailureKind::QueueClosed).into()))
        }

        fn call(&mut self, _: Request<Full<Bytes>>) -> Self::Future {
            std::future::pending()
        }
    }
    let failure = Upstream::new(Closed).ready().await.map(|_| ()).unwrap_err();
    assert_eq!(failure.kind(), FailureKind::QueueClosed);
}
