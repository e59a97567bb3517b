use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::Response;
use pin_project_lite::pin_project;
use stanchion_core::{Failure, FailureKind, Phase};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{
    AttemptBody, AttemptLimits,
    watch::{Expiry, Stage, Watch},
};

pin_project! {
    /// The future of [`Attempt`](super::Attempt).
    #[derive(Debug)]
    pub struct AttemptFuture<F> {
        #[pin]
        inner: F,
        // Armed only once there is something to wait for.
        #[pin]
        sleep: Option<Sleep>,
        limits: AttemptLimits,
        started: Instant,
    }
}

impl<F> AttemptFuture<F> {
    pub(super) fn new(inner: F, limits: AttemptLimits) -> Self {
        Self { inner, sleep: None, limits, started: Instant::now() }
    }
}

impl<F, R, E> Future for AttemptFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<Failure>,
{
    type Output = Result<Response<AttemptBody<R>>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let Poll::Ready(response) = this.inner.poll(cx) {
            let (parts, body) = response.map_err(Into::into)?.into_parts();
            // What an error reply says is no output, but it is an answer: only the total bounds it, and whoever reads it.
            let record = parts.extensions.get().cloned();
            let body = AttemptBody::new(body, record, Watch::new(*this.limits, *this.started));
            return Poll::Ready(Ok(Response::from_parts(parts, body)));
        }
        let mut watch = Watch::new(*this.limits, *this.started);
        watch.waits(*this.started);
        let Some((at, expiry)) = watch.deadline(Stage::BeforeOutput) else { return Poll::Pending };
        if this.sleep.is_none() {
            this.sleep.set(Some(sleep_until(at)));
        }
        ready!(this.sleep.as_pin_mut().expect("just set").poll(cx));
        Poll::Ready(Err(failure(expiry).with_phase(Phase::Head)))
    }
}

pub(super) fn failure(expiry: Expiry) -> Failure {
    match expiry {
        Expiry::Fail(kind, limit) => Failure::new(kind).with_limit(limit),
        Expiry::End => Failure::new(FailureKind::Truncated),
    }
}
