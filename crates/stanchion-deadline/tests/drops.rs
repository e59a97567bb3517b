//! Whatever is dropped, at whatever point, leaves nothing: no call, no body, no timer.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{self, Poll, Wake, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use stanchion_core::{Context, Failure, RecoveryBudget};
use stanchion_deadline::{AttemptLayer, AttemptLimits, RecoveryLayer};
use stanchion_testkit::{ScriptedBody, Step};
use tokio::time::{Instant, sleep};
use tower_layer::Layer;
use tower_service::Service;

const SECOND: Duration = Duration::from_secs(1);

/// Counts what lives.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A service with two waits before its answer, and two in it. Between the first two a budget's clock starts.
struct Inner(Arc<AtomicUsize>);

/// The runtime's own `yield_now` would keep the waker.
async fn pending_once() {
    let mut polled = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

type Reply = Response<UnsyncBoxBody<Bytes, Failure>>;

impl Service<Request<()>> for Inner {
    type Response = Reply;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Reply, Failure>>>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let alive = Alive::new(&self.0);
        Box::pin(async move {
            sleep(SECOND * 2).await;
            if let Some(budget) = Context::of(&request).and_then(Context::recovery) {
                budget.start(Instant::now());
            }
            pending_once().await;
            sleep(SECOND * 2).await;
            let data = || Step::Data("x".into());
            let body = ScriptedBody::new([Step::Pending, data(), Step::Delay(SECOND * 2), data(), data()])
                .then(Step::Delay(SECOND * 2))
                .then(data())
                .hides_end();
            let body = body.map_frame(move |frame| {
                let _held = &alive;
                frame
            });
            Ok(Response::new(body.boxed_unsync()))
        })
    }
}

/// A waker that knows whether it was used. Who counts its owners sees whether a timer still holds it.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Polls until there is an answer, or as often as is left. Time passes where nothing else does.
async fn poll_up_to<T>(
    left: &mut usize,
    woken: &Arc<Woken>,
    mut poll: impl FnMut(&mut task::Context<'_>) -> Poll<T>,
) -> Option<T> {
    let waker = Waker::from(woken.clone());
    loop {
        *left = left.checked_sub(1)?;
        if let Poll::Ready(answer) = poll(&mut task::Context::from_waker(&waker)) {
            return Some(answer);
        }
        if !woken.0.swap(false, Ordering::SeqCst) {
            tokio::time::advance(SECOND).await;
        }
    }
}

type Call = Pin<Box<dyn Future<Output = Result<Reply, Failure>>>>;

/// A call through a layer, its types out of the way.
fn through<L, R>(layer: &L, inner: Inner, request: Request<()>) -> Call
where
    L: Layer<Inner>,
    L::Service: Service<Request<()>, Response = Response<R>, Error = Failure>,
    <L::Service as Service<Request<()>>>::Future: 'static,
    R: Body<Data = Bytes, Error = Failure> + Send + 'static,
{
    let call = layer.layer(inner).call(request);
    Box::pin(async move { Ok(call.await?.map(BodyExt::boxed_unsync)) })
}

/// Makes a call, reads its reply, and drops everything after so many polls. Returns whether that came before the end.
async fn dropped_after(mut polls: usize, call: impl FnOnce(Inner) -> Call) -> bool {
    let (alive, woken) = (Arc::default(), Arc::<Woken>::default());
    let mut call = call(Inner(Arc::clone(&alive)));
    let answer = poll_up_to(&mut polls, &woken, |cx| call.as_mut().poll(cx)).await;
    drop(call);
    let mut ended = matches!(answer, Some(Err(_)));
    if let Some(Ok(reply)) = answer {
        let mut body = Box::pin(reply.into_body());
        while let Some(frame) = poll_up_to(&mut polls, &woken, |cx| body.as_mut().poll_frame(cx)).await {
            ended = !matches!(frame, Some(Ok(_)));
            if ended {
                break;
            }
        }
    }
    assert_eq!(alive.load(Ordering::SeqCst), 0, "a call or a body is left");
    assert_eq!(Arc::strong_count(&woken), 1, "a timer is left");
    !ended
}

/// Drops at each poll. Returns how many there are.
async fn dropped_everywhere(call: impl Fn(Inner) -> Call) -> usize {
    let mut polls = 0;
    while dropped_after(polls, &call).await {
        polls += 1;
        assert!(polls < 100, "it never ends");
    }
    polls
}

#[tokio::test(start_paused = true)]
async fn an_attempt_leaves_nothing() {
    let polls = dropped_everywhere(|inner| through(&AttemptLayer::default(), inner, Request::new(()))).await;
    assert!(polls > 12, "{polls}");
    // And where one of the clocks ends it on the way.
    for seconds in 1..8 {
        let builder = AttemptLimits::builder;
        for limits in [
            builder().total(SECOND * seconds),
            builder().first_output(SECOND * seconds),
            builder().liveness(SECOND * seconds),
            builder().first_output(Duration::ZERO).idle(SECOND * seconds).stall_warning(SECOND),
        ] {
            let layer = AttemptLayer::new(limits.build().unwrap());
            dropped_everywhere(|inner| through(&layer, inner, Request::new(()))).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_recovery_leaves_nothing() {
    let through_recovery = |budget: Option<Duration>| {
        move |inner| {
            let mut request = Request::new(());
            let context = Context::builder().recovery(budget.map(RecoveryBudget::new)).build();
            request.extensions_mut().insert(context);
            through(&RecoveryLayer::default(), inner, request)
        }
    };
    let whole = dropped_everywhere(through_recovery(None)).await;
    assert_eq!(dropped_everywhere(through_recovery(Some(SECOND * 30))).await, whole);
    let mut before = 0;
    for seconds in 0..8 {
        let polls = dropped_everywhere(through_recovery(Some(SECOND * seconds))).await;
        assert!(before <= polls && polls <= whole, "{polls} of {whole}, {seconds} s");
        before = polls;
    }
}
