use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use stanchion_core::{Failure, FailureKind, StreamRecord};
use tokio::time::Instant;
use tower_service::Service;

use crate::{AdmissionBody, adaptive::Signal, permit::Permit, wait::Wait};

pin_project! {
    /// The response future of [`Admission`](crate::Admission).
    pub struct AdmissionFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, B, S::Future>,
        // Dropped behind the call, so that what it frees is not given to another while the call still holds anything.
        permit: Option<Permit>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, B, F> {
        // There is no permit yet; or there is, and the inner service is asked for readiness. Boxed, so that those who
        // need not wait do not carry the room for it about.
        Waiting { waiting: Pin<Box<Waiting<S, B>>> },
        // The inner service works.
        Calling { #[pin] call: F },
        // It was turned away.
        Refused { failure: Option<Failure> },
        // It is over.
        Over,
    }
}

pin_project! {
    #[project = WaitingProjection]
    struct Waiting<S, B> {
        #[pin]
        wait: Wait,
        calls: Option<(S, Request<B>)>,
    }
}

impl<S, B> AdmissionFuture<S, B>
where
    S: Service<Request<B>>,
{
    pub(crate) fn calling(call: S::Future, permit: Option<Permit>) -> Self {
        Self { state: State::Calling { call }, permit }
    }

    pub(crate) fn waiting(wait: Wait, service: S, request: Request<B>) -> Self {
        let waiting = Box::pin(Waiting { wait, calls: Some((service, request)) });
        Self { state: State::Waiting { waiting }, permit: None }
    }

    pub(crate) fn refuse(failure: Failure) -> Self {
        Self { state: State::Refused { failure: Some(failure) }, permit: None }
    }
}

impl<S, B, R> Future for AdmissionFuture<S, B>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<Failure>>,
    R: Body,
{
    type Output = Result<Response<AdmissionBody<R>>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let result = match this.state.as_mut().project() {
                StateProjection::Waiting { waiting } => {
                    let WaitingProjection { mut wait, calls } = waiting.as_mut().project();
                    let granted = if this.permit.is_some() {
                        Ok(())
                    } else {
                        ready!(wait.as_mut().poll(cx)).map(|permit| *this.permit = Some(permit))
                    };
                    match granted {
                        Ok(()) => {
                            let (service, _) = calls.as_mut().expect("taken once it is ready");
                            match ready!(service.poll_ready(cx)) {
                                Ok(()) => {
                                    let (mut service, request) = calls.take().expect("looked at just now");
                                    let call = service.call(request);
                                    this.state.set(State::Calling { call });
                                    continue;
                                }
                                Err(error) => Err(error.into()),
                            }
                        }
                        Err(ended) => Err(ended.into_failure(wait.told())),
                    }
                }
                StateProjection::Calling { call } => ready!(call.poll(cx)).map_err(Into::into),
                StateProjection::Refused { failure } => Err(failure.take().expect("polled after its end")),
                StateProjection::Over => panic!("polled after its end"),
            };
            // What the call held is free before the permit is.
            this.state.set(State::Over);
            let mut permit = this.permit.take();
            if let Some(permit) = permit.as_mut().filter(|permit| permit.adapts()) {
                permit.learn(|began| signal(&result, began));
            }
            return Poll::Ready(result.map(|response| response.map(|body| AdmissionBody::new(body, permit))));
        }
    }
}

/// What the result of a request that began then tells of the provider's capacity. A response with an error status that
/// nobody read tells nothing.
fn signal<R>(result: &Result<Response<R>, Failure>, began: Instant) -> Option<Signal> {
    use FailureKind::{FirstOutputTimeout, Overloaded, RateLimited};

    match result {
        Ok(response) => {
            // The head may have been held back long after that, as of a reply that is to be whole.
            let output_at = response.extensions().get::<StreamRecord>().and_then(StreamRecord::output_at);
            let after = output_at.unwrap_or_else(Instant::now).saturating_duration_since(began);
            response.status().is_success().then_some(Signal::Output(after))
        }
        Err(failure) => {
            matches!(failure.kind(), RateLimited | Overloaded | FirstOutputTimeout).then_some(Signal::TooMuch)
        }
    }
}

impl<S, B> fmt::Debug for AdmissionFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Waiting { .. } if self.permit.is_some() => "readying",
            State::Waiting { .. } => "waiting",
            State::Calling { .. } => "calling",
            State::Refused { .. } => "refused",
            State::Over => "over",
        };
        f.debug_struct("AdmissionFuture").field("state", &state).finish_non_exhaustive()
    }
}
