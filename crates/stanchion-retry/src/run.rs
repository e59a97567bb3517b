use std::{
    sync::Arc,
    task::{Context as Wakes, Poll},
    time::Duration,
};

use http::Request;
use stanchion_core::{
    CircuitOutcome, Context, Disposition, Event, Failure, Phase, ProviderRetry, RetryPhase, Selected,
};
use tokio::time::Instant;
use tower_service::Service;

use crate::{
    RetryOwner,
    layer::Shared,
    ledger::{Cause, Ledger, Verdict},
};

/// One call and its retries, but for the waiting.
pub(crate) struct Run<S, B> {
    service: S,
    /// Kept as long as another attempt may follow.
    request: Option<Request<B>>,
    shared: Arc<Shared>,
    ledger: Ledger,
    context: Option<Context>,
    candidate: Option<Arc<str>>,
    /// Attempts that reached the candidate, as far as can be seen from here.
    asked: u32,
}

/// What comes after a failed attempt.
pub(crate) enum Next {
    /// The next attempt, which has been told.
    AtOnce,
    /// A wait.
    After(Duration),
    /// The end.
    Leave(Failure),
}

impl<S, B> Run<S, B>
where
    S: Service<Request<B>>,
    B: Clone,
{
    pub(crate) fn new(service: S, mut request: Request<B>, shared: Arc<Shared>) -> Self {
        request.extensions_mut().insert(RetryOwner);
        let context = Context::of(&request).cloned();
        let candidate = request.extensions().get::<Selected>().map(|selected| selected.candidate.name().clone());
        Self { service, request: Some(request), shared, ledger: Ledger::default(), context, candidate, asked: 0 }
    }

    pub(crate) fn poll_ready(&mut self, cx: &mut Wakes<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    /// Makes the next attempt. The last that is possible takes the request itself.
    pub(crate) fn attempt(&mut self) -> S::Future {
        let more = self.ledger.may_follow(&self.shared.policy);
        let request = if more { self.request.clone() } else { self.request.take() };
        self.service.call(request.expect("kept as long as another attempt may follow"))
    }
}

impl<S, B> Run<S, B> {
    /// Judges a failed attempt, and tells what is to be told.
    pub(crate) fn judge(&mut self, failure: Failure) -> Next {
        let Shared { policy, random } = &*self.shared;
        let disposition = Disposition::of(&failure, policy.rules());
        let asked = disposition.circuit != CircuitOutcome::Untouched || failure.phase() == Phase::AfterOutput;
        self.asked += u32::from(asked);

        let budget = self.context.as_ref().and_then(Context::recovery);
        let now = budget.map(|_| Instant::now());
        let left = budget.zip(now).map(|(budget, now)| budget.remaining(now));
        match self.ledger.judge(&failure, policy, left, random) {
            Verdict::Again(wait, cause) => {
                // The clock of a recovery starts with the first failure that is recovered from.
                if let Some((budget, now)) = budget.zip(now) {
                    budget.start(now);
                }
                self.tell(RetryPhase::Scheduled, cause, Some(wait));
                if !wait.is_zero() {
                    return Next::After(wait);
                }
                self.begins();
                Next::AtOnce
            }
            verdict => Next::Leave(self.end(failure, verdict)),
        }
    }

    /// Tells that a retry begins.
    pub(crate) fn begins(&self) {
        if let Some(cause) = self.ledger.cause() {
            self.tell(RetryPhase::Attempt, cause, None);
        }
    }

    /// Tells a retry's success. Without a retry there is nothing to tell.
    pub(crate) fn recovered(&self) {
        if let Some(cause) = self.ledger.cause() {
            self.tell(RetryPhase::Recovered, cause, None);
        }
    }

    /// Ends with a service that failed to become ready: it must not be asked again.
    pub(crate) fn leave(&self, failure: Failure) -> Failure {
        let verdict = self.ledger.last(&failure, &self.shared.policy);
        self.end(failure, verdict)
    }

    /// Tells the end of retries, and gives the failure what this layer knows.
    fn end(&self, failure: Failure, verdict: Verdict) -> Failure {
        if let Verdict::Exhausted(cause) = verdict {
            self.tell(RetryPhase::Exhausted, cause, None);
        }
        let counted = self.context.as_ref().map_or(0, Context::attempts);
        let failure = match if counted > 0 { counted } else { self.asked } {
            0 => failure,
            attempts => failure.with_attempts(attempts),
        };
        match &self.candidate {
            Some(name) if failure.candidate().is_none() => failure.with_candidate(name.clone()),
            _ => failure,
        }
    }

    fn tell(&self, phase: RetryPhase, cause: Cause, delay: Option<Duration>) {
        Context::emit(self.context.as_ref(), || {
            Event::ProviderRetry(ProviderRetry {
                candidate: self.candidate.clone(),
                attempt: self.ledger.made(),
                max_retries: self.ledger.limit(&self.shared.policy),
                status_code: cause.status,
                delay,
                ..ProviderRetry::new(phase, cause.reason)
            })
        });
    }
}
