use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::Request;
use pin_project_lite::pin_project;
use stanchion_core::Failure;
use tokio::time::{Sleep, sleep};
use tower_service::Service;

use crate::{
    layer::Shared,
    run::{Next, Run},
};

pin_project! {
    /// The response future of [`Retry`](crate::Retry).
    pub struct RetryFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S::Future>,
        // None where another owner retries.
        run: Option<Run<S, B>>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F> {
        // An attempt is in flight.
        Calling { #[pin] call: F },
        // Nothing is in flight until the backoff ends.
        Sleeping { #[pin] sleep: Sleep },
        // The next attempt waits for the service.
        Readying,
        // It is over.
        Over,
    }
}

impl<S, B> RetryFuture<S, B>
where
    S: Service<Request<B>>,
{
    /// Makes one call and leaves its result alone.
    pub(crate) fn pass(call: S::Future) -> Self {
        Self { state: State::Calling { call }, run: None }
    }
}

impl<S, B> RetryFuture<S, B>
where
    S: Service<Request<B>, Error: Into<Failure>>,
    B: Clone,
{
    /// Makes the first attempt with a service that is ready.
    pub(crate) fn start(ready: S, request: Request<B>, shared: Arc<Shared>) -> Self {
        let mut run = Run::new(ready, request, shared);
        Self { state: State::Calling { call: run.attempt() }, run: Some(run) }
    }
}

impl<S, B> Future for RetryFuture<S, B>
where
    S: Service<Request<B>, Error: Into<Failure>>,
    B: Clone,
{
    type Output = Result<S::Response, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match (this.state.as_mut().project(), this.run.as_mut()) {
                (StateProjection::Calling { call }, run) => {
                    let result = ready!(call.poll(cx));
                    // Permits and connections of the attempt are free before anything else happens.
                    this.state.set(State::Over);
                    match (result, run) {
                        (Ok(response), run) => {
                            if let Some(run) = run {
                                run.recovered();
                            }
                            return Poll::Ready(Ok(response));
                        }
                        (Err(error), None) => return Poll::Ready(Err(error.into())),
                        (Err(error), Some(run)) => match run.judge(error.into()) {
                            Next::AtOnce => this.state.set(State::Readying),
                            Next::After(wait) => this.state.set(State::Sleeping { sleep: sleep(wait) }),
                            Next::Leave(failure) => return Poll::Ready(Err(failure)),
                        },
                    }
                }
                (StateProjection::Sleeping { sleep }, Some(run)) => {
                    ready!(sleep.poll(cx));
                    run.begins();
                    this.state.set(State::Readying);
                }
                (StateProjection::Readying, Some(run)) => {
                    if let Err(error) = ready!(run.poll_ready(cx)) {
                        this.state.set(State::Over);
                        return Poll::Ready(Err(run.leave(error.into())));
                    }
                    this.state.set(State::Calling { call: run.attempt() });
                }
                _ => panic!("polled after its end"),
            }
        }
    }
}

impl<S, B> fmt::Debug for RetryFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Calling { .. } => "calling",
            State::Sleeping { .. } => "sleeping",
            State::Readying => "readying",
            State::Over => "over",
        };
        f.debug_struct("RetryFuture").field("state", &state).finish_non_exhaustive()
    }
}
