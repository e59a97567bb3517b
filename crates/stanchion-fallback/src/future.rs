use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::Request;
use pin_project_lite::pin_project;
use stanchion_core::Failure;
use tower_service::Service;

use crate::walk::{Next, Walk};

pin_project! {
    /// The response future of [`Fallback`](crate::Fallback).
    pub struct FallbackFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S::Future>,
        // None if the call was refused.
        walk: Option<Walk<S, B>>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F> {
        // A candidate is being asked.
        Calling { #[pin] call: F },
        // The next candidate waits for the service.
        Readying,
        // The call is refused before any candidate is asked.
        Refused { failure: Option<Failure> },
        // It is over.
        Over,
    }
}

impl<S, B> FallbackFuture<S, B>
where
    S: Service<Request<B>>,
{
    /// Fails without asking anybody.
    pub(crate) fn refuse(failure: Failure) -> Self {
        Self { state: State::Refused { failure: Some(failure) }, walk: None }
    }
}

impl<S, B> FallbackFuture<S, B>
where
    S: Service<Request<B>, Error: Into<Failure>>,
    B: Clone,
{
    /// A candidate that no other follows is being asked.
    pub(crate) fn only(call: S::Future, walk: Walk<S, B>) -> Self {
        Self { state: State::Calling { call }, walk: Some(walk) }
    }

    /// Asks the first candidate with a service that is ready.
    pub(crate) fn start(mut walk: Walk<S, B>) -> Self {
        Self { state: State::Calling { call: walk.call() }, walk: Some(walk) }
    }
}

impl<S, B> Future for FallbackFuture<S, B>
where
    S: Service<Request<B>, Error: Into<Failure>>,
    B: Clone,
{
    type Output = Result<S::Response, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match (this.state.as_mut().project(), this.walk.as_mut()) {
                (StateProjection::Calling { call }, Some(walk)) => {
                    let result = ready!(call.poll(cx));
                    // What the call held is free before anything else happens.
                    this.state.set(State::Over);
                    match result {
                        Ok(response) => return Poll::Ready(Ok(response)),
                        Err(error) => match walk.judge(error.into()) {
                            Next::Candidate => this.state.set(State::Readying),
                            Next::Leave(failure) => return Poll::Ready(Err(failure)),
                        },
                    }
                }
                (StateProjection::Readying, Some(walk)) => {
                    if let Err(error) = ready!(walk.poll_ready(cx)) {
                        this.state.set(State::Over);
                        return Poll::Ready(Err(walk.leave(error.into())));
                    }
                    this.state.set(State::Calling { call: walk.call() });
                }
                (StateProjection::Refused { failure }, _) => {
                    return Poll::Ready(Err(failure.take().expect("polled after its end")));
                }
                _ => panic!("polled after its end"),
            }
        }
    }
}

impl<S, B> fmt::Debug for FallbackFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Calling { .. } => "calling",
            State::Readying => "readying",
            State::Refused { .. } => "refused",
            State::Over => "over",
        };
        f.debug_struct("FallbackFuture").field("state", &state).finish_non_exhaustive()
    }
}
