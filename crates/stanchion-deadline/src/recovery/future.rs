use std::{
    fmt,
    pin::Pin,
    task::{self, Poll, ready},
};

use http::Response;
use pin_project_lite::pin_project;
use stanchion_core::{Context, Failure, FailureKind};
use tokio::time::Instant;

use super::{RecoveryBody, alarm::Alarm, body::Cut};

pin_project! {
    /// The future of [`Recovery`](super::Recovery).
    pub struct RecoveryFuture<F> {
        // Dropped the moment the budget is spent, so that whatever it holds is free before anyone is told.
        #[pin]
        inner: Option<F>,
        // None where the request has no budget.
        context: Option<Context>,
        // Set only once the budget's clock runs.
        alarm: Option<Alarm>,
    }
}

impl<F> RecoveryFuture<F> {
    pub(super) const fn new(inner: F, context: Option<Context>) -> Self {
        Self { inner: Some(inner), context, alarm: None }
    }
}

impl<F, R, E> Future for RecoveryFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<Failure>,
{
    type Output = Result<Response<RecoveryBody<R>>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let inner = this.inner.as_mut().as_pin_mut().expect("polled after its end");
        let Some(budget) = this.context.as_ref().and_then(Context::recovery) else {
            return inner.poll(cx).map(|result| match result {
                Ok(response) => Ok(response.map(|body| RecoveryBody::new(body, None))),
                Err(error) => Err(error.into()),
            });
        };

        // The budget before whatever happens within: on a tie it wins, and no attempt starts at its last instant.
        let mut lost = None;
        if !budget.is_spent_by_now() {
            match inner.poll(cx) {
                Poll::Ready(Ok(response)) => {
                    *this.alarm = None;
                    let reply = response.extensions();
                    let cut = budget.deadline().map(|at| Cut::new(at, budget, this.context.as_ref(), reply));
                    return Poll::Ready(Ok(response.map(|body| RecoveryBody::new(body, cut))));
                }
                Poll::Ready(Err(error)) => {
                    *this.alarm = None;
                    let failure = error.into();
                    if !(is_of_a_limit(&failure) && budget.is_spent_by_now()) {
                        return Poll::Ready(Err(failure));
                    }
                    lost = Some(failure);
                }
                Poll::Pending => {
                    // The clock may have started just now: a layer within starts it.
                    let Some(at) = budget.deadline() else { return Poll::Pending };
                    ready!(this.alarm.get_or_insert_with(|| Alarm::new(at)).poll(cx));
                }
            }
        }
        this.inner.set(None);
        *this.alarm = None;
        let failure = budget.end(this.context.as_ref(), Instant::now());
        Poll::Ready(Err(match lost {
            Some(lost) => failure.with_source(lost),
            None => failure,
        }))
    }
}

impl<F> fmt::Debug for RecoveryFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecoveryFuture").field("alarm", &self.alarm).finish_non_exhaustive()
    }
}

/// Whether another limit of ours ended a wait: if that was no earlier than the budget's end, the budget is the cause. What a provider
/// has said is told as it is, and a budget that ended within has told its end itself.
fn is_of_a_limit(failure: &Failure) -> bool {
    matches!(
        failure.kind(),
        FailureKind::FirstOutputTimeout
            | FailureKind::IdleTimeout
            | FailureKind::TotalTimeout
            | FailureKind::QueueTimeout
    )
}
