use std::task::{Context as Wakes, Poll};

use http::Request;
use stanchion_core::{Context, Disposition, Event, Failure, FallbackEvent, RecoveryBudget, Selected};
use tower_service::Service;

use crate::{
    route::Route,
    verdict::{better, was_asked},
};

/// One call on its way through the candidates, but for the waiting.
pub(crate) struct Walk<S, B> {
    service: S,
    /// Kept as long as another candidate follows.
    request: Option<Request<B>>,
    route: Route,
    selected: Selected,
    context: Option<Context>,
    /// The best failure of the candidates before.
    best: Option<Failure>,
    /// Attempts, as far as can be seen from here.
    attempts: u32,
}

/// What comes after a failure.
pub(crate) enum Next {
    /// The next candidate, which has been told.
    Candidate,
    /// The end.
    Leave(Failure),
}

impl<S, B> Walk<S, B>
where
    S: Service<Request<B>>,
    B: Clone,
{
    pub(crate) fn poll_ready(&mut self, cx: &mut Wakes<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    /// Calls the service for the candidate that is selected. The last takes the request itself.
    pub(crate) fn call(&mut self) -> S::Future {
        let request = if self.selected.last { self.request.take() } else { self.request.clone() };
        let mut request = request.expect("kept as long as another candidate follows");
        request.extensions_mut().insert(self.selected.clone());
        self.service.call(request)
    }
}

impl<S, B> Walk<S, B> {
    pub(crate) fn new(service: S, request: Request<B>, route: Route, first: Selected) -> Self {
        let context = Context::of(&request).cloned();
        Self { service, request: Some(request), route, selected: first, context, best: None, attempts: 0 }
    }

    /// Judges the failure of the candidate that is selected, and moves on to the next if there is one to move on to.
    pub(crate) fn judge(&mut self, failure: Failure) -> Next {
        let rules = *self.route.rules();
        let asked = u32::from(was_asked(&failure, rules));
        self.attempts = self.attempts.saturating_add(failure.attempts().max(asked));
        // Without an attempt left the next candidate could not be asked.
        let has_attempts = self.context.as_ref().and_then(Context::recovery).is_none_or(RecoveryBudget::has_attempts);
        let next = self.route.after(&self.selected, &failure);
        let failure = self.weigh(failure, next.is_some());
        // Who was taken for the last has the request itself, whoever has come back into service since.
        let Some(next) = next.filter(|_| has_attempts && self.request.is_some()) else {
            return Next::Leave(self.count(failure));
        };
        self.best = Some(failure);
        Context::emit(self.context.as_ref(), || {
            let (from, to) = (self.selected.candidate.name().clone(), next.candidate.name().clone());
            Event::ModelFallback(FallbackEvent { from, to })
        });
        self.selected = next;
        Next::Candidate
    }

    /// Ends with a service that failed to become ready: it must not be asked again.
    pub(crate) fn leave(&mut self, failure: Failure) -> Failure {
        let passes = Disposition::of(&failure, self.route.rules()).fallback;
        let failure = self.weigh(failure, passes);
        self.count(failure)
    }

    /// The failure to answer with if this one were the last. One that nobody else could cure is the answer, whatever
    /// came before it.
    fn weigh(&mut self, failure: Failure, passes: bool) -> Failure {
        let failure = match failure.candidate() {
            Some(_) => failure,
            None => failure.with_candidate(self.selected.candidate.name().clone()),
        };
        let passes = passes || Disposition::of(&failure, self.route.rules()).fallback;
        let best = self.best.take().filter(|_| passes);
        better(best, failure, *self.route.rules())
    }

    /// Tells a failure that leaves how many attempts were made, over all candidates.
    fn count(&self, failure: Failure) -> Failure {
        let counted = self.context.as_ref().map_or(0, Context::attempts);
        match if counted > 0 { counted } else { self.attempts } {
            0 => failure,
            attempts => failure.with_attempts(attempts),
        }
    }
}
