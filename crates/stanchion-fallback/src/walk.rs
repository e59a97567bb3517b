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
    /// As long as another candidate follows. Boxed: where there is but one, nobody carries the room for it about.
    others: Option<Box<ForOthers<S, B>>>,
    route: Route,
    selected: Selected,
    context: Option<Context>,
    /// The best failure of the candidates before.
    best: Option<Failure>,
    /// Attempts, as far as can be seen from here.
    attempts: u32,
}

const KEPT: &str = "kept as long as another candidate follows";

/// What the other candidates are asked with.
struct ForOthers<S, B> {
    service: S,
    request: Request<B>,
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
        self.others.as_mut().expect(KEPT).service.poll_ready(cx)
    }

    /// Calls the service for the candidate that is selected. The last takes the request itself.
    pub(crate) fn call(&mut self) -> S::Future {
        if self.selected.last {
            let ForOthers { mut service, request } = *self.others.take().expect(KEPT);
            return send(&mut service, request, &self.selected);
        }
        let others = self.others.as_mut().expect(KEPT);
        let request = others.request.clone();
        send(&mut others.service, request, &self.selected)
    }

    /// Calls a service that is ready for the candidate that is selected.
    pub(crate) fn send(&self, service: &mut S, request: Request<B>) -> S::Future {
        send(service, request, &self.selected)
    }
}

fn send<S: Service<Request<B>>, B>(service: &mut S, mut request: Request<B>, selected: &Selected) -> S::Future {
    request.extensions_mut().insert(selected.clone());
    service.call(request)
}

impl<S, B> Walk<S, B> {
    pub(crate) fn new(context: Option<Context>, route: Route, first: Selected) -> Self {
        Self { others: None, route, selected: first, context, best: None, attempts: 0 }
    }

    /// Keeps what others may be asked with.
    pub(crate) fn with(self, service: S, request: Request<B>) -> Self {
        Self { others: Some(Box::new(ForOthers { service, request })), ..self }
    }

    /// Whether nobody follows the candidate that is selected.
    pub(crate) fn is_last(&self) -> bool {
        self.selected.last
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
        let Some(next) = next.filter(|_| has_attempts && self.others.is_some()) else {
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
