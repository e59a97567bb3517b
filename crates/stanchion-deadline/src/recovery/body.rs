use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{self, Poll},
    time::Duration,
};

use http::Extensions;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use stanchion_core::{Context, Failure, FailureKind, Phase, RecoveryBudget, Selected, StreamRecord};
use tokio::time::Instant;

use super::alarm::Alarm;

pin_project! {
    /// The body of [`Recovery`](super::Recovery): that of a reply which the budget may still cut, or any other, untouched.
    pub struct RecoveryBody<B> {
        // Dropped the moment the budget is spent, so that the exchange ends at once.
        #[pin]
        inner: Option<B>,
        // None where nothing was recovered from, and once the body has ended.
        cut: Option<Cut>,
    }
}

/// When and how the reply is cut.
#[derive(Debug)]
pub(super) struct Cut {
    alarm: Alarm,
    limit: Duration,
    attempts: u32,
    record: Option<StreamRecord>,
    candidate: Option<Arc<str>>,
}

impl Cut {
    pub(super) fn new(at: Instant, budget: &RecoveryBudget, context: Option<&Context>, reply: &Extensions) -> Self {
        let candidate = reply.get::<Selected>().map(|selected| selected.candidate.name().clone());
        let attempts = context.map_or(0, Context::attempts);
        Self { alarm: Alarm::new(at), limit: budget.budget(), attempts, record: reply.get().cloned(), candidate }
    }

    /// Whether the reply is whole, or has told its own error: nothing that matters can follow.
    fn is_over<B: Body>(&self, inner: &B) -> bool {
        let told = StreamRecord::is_over;
        inner.is_end_stream() || self.record.as_ref().is_some_and(told)
    }

    /// No event: the client is told in the reply itself.
    fn failure(&self) -> Failure {
        let failure = Failure::new(FailureKind::RecoveryBudget)
            .with_phase(Phase::AfterOutput)
            .with_limit(self.limit)
            .with_attempts(self.attempts);
        match &self.candidate {
            Some(name) => failure.with_candidate(name.clone()),
            None => failure,
        }
    }
}

impl<B> RecoveryBody<B> {
    pub(super) const fn new(inner: B, cut: Option<Cut>) -> Self {
        Self { inner: Some(inner), cut }
    }
}

impl<B> Body for RecoveryBody<B>
where
    B: Body,
    B::Error: Into<Failure>,
{
    type Data = B::Data;
    type Error = Failure;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Self::Error>>> {
        let mut this = self.project();
        let Some(mut inner) = this.inner.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        let Some(cut) = this.cut else {
            return inner.poll_frame(cx).map(|frame| frame.map(|frame| frame.map_err(Into::into)));
        };

        // The budget before data: on a tie it wins.
        let due = cut.alarm.is_due();
        if due && !cut.is_over(&*inner) {
            let failure = cut.failure();
            this.inner.set(None);
            *this.cut = None;
            return Poll::Ready(Some(Err(failure)));
        }
        match inner.as_mut().poll_frame(cx) {
            Poll::Ready(frame) => {
                if !matches!(frame, Some(Ok(_))) {
                    *this.cut = None;
                }
                Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
            }
            Poll::Pending if !due && cut.alarm.poll(cx).is_pending() => Poll::Pending,
            // Of a reply that is whole, what is at hand has passed, and the rest is not waited for.
            Poll::Pending => {
                let end = if cut.is_over(&*inner) { None } else { Some(Err(cut.failure())) };
                this.inner.set(None);
                *this.cut = None;
                Poll::Ready(end)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<B> fmt::Debug for RecoveryBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecoveryBody").field("cut", &self.cut).finish_non_exhaustive()
    }
}
