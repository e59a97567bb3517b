use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::Response;
use pin_project_lite::pin_project;
use stanchion_core::{Failure, FailureKind, Phase, StallPhase};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{
    AttemptBody, AttemptLimits,
    about::About,
    clocks::{Clocks, ClocksProjection},
    watch::{Expiry, Stage, Watch},
};

pin_project! {
    /// The future of [`Attempt`](super::Attempt).
    #[derive(Debug)]
    pub struct AttemptFuture<F> {
        #[pin]
        inner: F,
        // None once the head has come, and the body has them.
        clocks: Option<Pin<Box<Clocks>>>,
    }
}

impl<F> AttemptFuture<F> {
    pub(super) fn new(inner: F, limits: &AttemptLimits, about: About) -> Self {
        Self { inner, clocks: Some(Clocks::started(limits, about, Instant::now())) }
    }
}

impl<F, R, E> Future for AttemptFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<Failure>,
{
    type Output = Result<Response<AttemptBody<R>>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(response) = this.inner.poll(cx) {
            let response = response.map_err(Into::into)?;
            let mut clocks = this.clocks.take().expect("polled after its end");
            // What an error reply says is no output, but it is an answer: only the total bounds it, and whoever reads it.
            // A head is no progress: whoever reads the body goes on waiting, once it is polled.
            clocks.as_mut().answered(response.extensions().get().cloned(), Instant::now());
            return Poll::Ready(Ok(response.map(|body| AttemptBody::new(body, clocks))));
        }
        let clocks = this.clocks.as_mut().expect("polled after its end").as_mut().project();
        let ClocksProjection { watch, sleep, about, .. } = clocks;
        let expiry = ready!(poll_clocks(watch, sleep, Stage::BeforeOutput, about, cx));
        Poll::Ready(Err(failure(expiry).with_phase(Phase::Head)))
    }
}

/// Waits for the first clock that runs out, and tells a stall on the way.
pub(super) fn poll_clocks(
    watch: &mut Watch,
    mut sleep: Pin<&mut Option<Sleep>>,
    stage: Stage,
    about: &About,
    cx: &mut Context<'_>,
) -> Poll<Expiry> {
    loop {
        let deadline = watch.deadline(stage);
        let stall = watch.stall_due(stage).filter(|at| deadline.is_none_or(|(deadline, _)| *at < deadline));
        let Some(at) = stall.or(deadline.map(|(at, _)| at)) else { return Poll::Pending };
        match sleep.as_mut().as_pin_mut() {
            None => sleep.set(Some(sleep_until(at))),
            // Fired before, or too late for what comes next.
            Some(armed) if armed.is_elapsed() || armed.deadline() > at => armed.reset(at),
            Some(_) => {}
        }
        let mut armed = sleep.as_mut().as_pin_mut().expect("just armed");
        ready!(armed.as_mut().poll(cx));
        if armed.deadline() < at {
            // Armed for an earlier end, which progress has put off since.
            continue;
        }
        match (stall, deadline) {
            (Some(_), _) => about.tell(StallPhase::Detected, watch.stalled(at), stage),
            (None, Some((_, expiry))) => return Poll::Ready(expiry),
            (None, None) => return Poll::Pending,
        }
    }
}

pub(super) fn failure(expiry: Expiry) -> Failure {
    match expiry {
        Expiry::Fail(kind, limit) => Failure::new(kind).with_limit(limit),
        Expiry::Dead(limit) => {
            Failure::new(FailureKind::IdleTimeout).with_limit(limit).with_code(AttemptLimits::LIVENESS_CODE)
        }
        Expiry::End => Failure::new(FailureKind::Truncated),
    }
}
