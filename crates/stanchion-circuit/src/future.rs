use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;
use stanchion_core::{Failure, StreamRecord};

use crate::{CircuitBody, judge::Watch};

pin_project! {
    /// The response future of [`Circuit`](crate::Circuit).
    pub struct CircuitFuture<F> {
        #[pin]
        state: State<F>,
        // None where no circuit counts.
        watch: Option<Watch>,
    }
}

pin_project! {
    /// The response future of [`CircuitPreflight`](crate::CircuitPreflight).
    pub struct CircuitPreflightFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F> {
        // The request was let in.
        Calling { #[pin] call: F },
        // It was turned away.
        Refused { failure: Option<Failure> },
        // It is over.
        Over,
    }
}

impl<F> CircuitFuture<F> {
    pub(crate) fn new(call: F, watch: Option<Watch>) -> Self {
        Self { state: State::Calling { call }, watch }
    }

    pub(crate) fn refuse(failure: Failure) -> Self {
        Self { state: State::Refused { failure: Some(failure) }, watch: None }
    }
}

impl<F> CircuitPreflightFuture<F> {
    pub(crate) fn new(call: F) -> Self {
        Self { state: State::Calling { call } }
    }

    pub(crate) fn refuse(failure: Failure) -> Self {
        Self { state: State::Refused { failure: Some(failure) } }
    }
}

impl<F, R, E> Future for CircuitFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<Failure>,
    R: Body,
{
    type Output = Result<Response<CircuitBody<R>>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let result = ready!(this.state.as_mut().poll(cx));
        let watch = this.watch.take();
        Poll::Ready(match (result, watch) {
            (Ok(response), None) => Ok(response.map(CircuitBody::unwatched)),
            (Ok(response), Some(mut watch)) => {
                let (parts, body) = response.into_parts();
                let record = parts.extensions.get::<StreamRecord>().cloned();
                let refused = parts.status.is_client_error() || parts.status.is_server_error();
                let body = if refused {
                    // A commit layer would have made a failure of it. What it says is for whoever reads it.
                    CircuitBody::unwatched(body)
                } else {
                    watch.look(record.as_ref(), false);
                    CircuitBody::new(body, record, watch)
                };
                Ok(Response::from_parts(parts, body))
            }
            (Err(error), None) => Err(error.into()),
            (Err(error), Some(mut watch)) => Err(watch.failed(error.into())),
        })
    }
}

impl<F, T, E> Future for CircuitPreflightFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<Failure>,
{
    type Output = Result<T, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().state.poll(cx).map_err(Into::into)
    }
}

/// Of whatever the call fails with, or of what the request was refused with.
enum Error<E> {
    Call(E),
    Refused(Failure),
}

impl<E: Into<Failure>> From<Error<E>> for Failure {
    fn from(error: Error<E>) -> Self {
        match error {
            Error::Call(error) => error.into(),
            Error::Refused(failure) => failure,
        }
    }
}

impl<F, T, E> Future for State<F>
where
    F: Future<Output = Result<T, E>>,
{
    type Output = Result<T, Error<E>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = match self.as_mut().project() {
            StateProjection::Calling { call } => ready!(call.poll(cx)).map_err(Error::Call),
            StateProjection::Refused { failure } => Err(Error::Refused(failure.take().expect("polled after its end"))),
            StateProjection::Over => panic!("polled after its end"),
        };
        // What the call held is free before anything else happens.
        self.set(Self::Over);
        Poll::Ready(result)
    }
}

impl<F> State<F> {
    fn name(&self) -> &'static str {
        match self {
            Self::Calling { .. } => "calling",
            Self::Refused { .. } => "refused",
            Self::Over => "over",
        }
    }
}

impl<F> fmt::Debug for CircuitFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitFuture").field("state", &self.state.name()).finish_non_exhaustive()
    }
}

impl<F> fmt::Debug for CircuitPreflightFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitPreflightFuture").field("state", &self.state.name()).finish_non_exhaustive()
    }
}
