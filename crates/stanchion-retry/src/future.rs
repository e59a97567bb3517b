use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use http::Request;
use pin_project_lite::pin_project;
use stanchion_core::Failure;
use tokio::time::{Sleep, sleep_until};
use tower_service::Service;

use crate::{
    layer::Shared,
    run::{Next, Run, Tick, Turn},
};

pin_project! {
    /// The response future of [`Retry`](crate::Retry).
    pub struct RetryFuture<S, B>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S::Future>,
        // None where another owner retries. Boxed: it is as large as the call, and is moved through all the layers outside.
        run: Option<Box<Run<S, B>>>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F> {
        // An attempt is in flight.
        Calling { #[pin] call: F },
        // Nothing is in flight until the backoff ends.
        Sleeping { #[pin] sleep: Sleep },
        // Nothing is in flight until a circuit lets this call through.
        AtGate { turn: Turn, #[pin] sleep: Sleep },
        // The next attempt waits for the service.
        Readying,
        // The call is refused before any attempt is made.
        Refused { failure: Option<Failure> },
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
        match Run::new(ready, request, shared) {
            Ok((mut run, request)) => Self { state: State::Calling { call: run.first(request) }, run: Some(run) },
            Err(failure) => Self { state: State::Refused { failure: Some(failure) }, run: None },
        }
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
            match (this.state.as_mut().project(), this.run.as_deref_mut()) {
                (StateProjection::Calling { call }, run) => {
                    let result = ready!(call.poll(cx));
                    // Permits and connections of the attempt are free before anything else happens.
                    this.state.set(State::Over);
                    match (result, run) {
                        (Ok(response), run) => {
                            if let Some(run) = run {
                                run.succeeded();
                            }
                            return Poll::Ready(Ok(response));
                        }
                        (Err(error), None) => return Poll::Ready(Err(error.into())),
                        (Err(error), Some(run)) => match run.judge(error.into()) {
                            Next::AtOnce => this.state.set(State::Readying),
                            Next::Backoff(until) => {
                                this.state.set(State::Sleeping { sleep: sleep_until(until) });
                            }
                            Next::Gate(turn, until) => {
                                this.state.set(State::AtGate { turn, sleep: sleep_until(until) });
                            }
                            Next::Leave(failure) => return Poll::Ready(Err(failure)),
                        },
                    }
                }
                (StateProjection::Sleeping { sleep }, Some(run)) => {
                    if let Some(next) = ready!(poll_wait(sleep, run, cx)) {
                        this.state.set(State::Over);
                        this.state.set(next?);
                    }
                }
                (StateProjection::AtGate { turn, sleep }, Some(run)) => {
                    if let Poll::Ready(turn) = turn.as_mut().poll(cx) {
                        let over = run.has_turn(turn);
                        this.state.set(State::Over);
                        over?;
                        this.state.set(State::Readying);
                    } else if let Some(next) = ready!(poll_wait(sleep, run, cx)) {
                        this.state.set(State::Over);
                        this.state.set(next?);
                    }
                }
                (StateProjection::Refused { failure }, _) => {
                    return Poll::Ready(Err(failure.take().expect("polled after its end")));
                }
                (StateProjection::Readying, Some(run)) => {
                    if let Err(error) = ready!(run.poll_ready(cx)) {
                        this.state.set(State::Over);
                        return Poll::Ready(Err(run.leave(error.into())));
                    }
                    if let Err(failure) = run.may_go_on() {
                        this.state.set(State::Over);
                        return Poll::Ready(Err(failure));
                    }
                    this.state.set(State::Calling { call: run.attempt() });
                }
                _ => panic!("polled after its end"),
            }
        }
    }
}

/// Waits for the end of a part of a wait. Ready with nothing if another part begins, else with what comes after the wait.
fn poll_wait<S, B, F>(
    mut sleep: Pin<&mut Sleep>,
    run: &mut Run<S, B>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<State<F>, Failure>>> {
    ready!(sleep.as_mut().poll(cx));
    Poll::Ready(match run.tick() {
        Tick::More(until) => {
            sleep.reset(until);
            None
        }
        Tick::Over => Some(Ok(State::Readying)),
        Tick::Leave(failure) => Some(Err(failure)),
    })
}

impl<S, B> fmt::Debug for RetryFuture<S, B>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Calling { .. } => "calling",
            State::Sleeping { .. } => "sleeping",
            State::AtGate { .. } => "at a circuit",
            State::Refused { .. } => "refused",
            State::Readying => "readying",
            State::Over => "over",
        };
        f.debug_struct("RetryFuture").field("state", &state).finish_non_exhaustive()
    }
}
