use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll, ready},
};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;
use stanchion_core::{Context, Failure, Selected};

use crate::{UpstreamBody, decode::Coding, headers};

/// What every failure of one attempt is told with: the candidate's name and the number of attempts.
#[derive(Clone)]
pub(crate) struct Stamp {
    candidate: Option<Arc<str>>,
    context: Option<Context>,
}

impl Stamp {
    pub(crate) fn new(candidate: Option<Arc<str>>, context: Option<Context>) -> Self {
        Self { candidate, context }
    }

    pub(crate) fn context(&self) -> Option<&Context> {
        self.context.as_ref()
    }

    /// Counts one more attempt. Without a context every attempt is the first that is known of.
    pub(crate) fn count(&self) -> u32 {
        self.context.as_ref().map_or(1, Context::count_attempt)
    }

    pub(crate) fn on(&self, mut failure: Failure) -> Failure {
        if let Some(candidate) = &self.candidate {
            failure = failure.with_candidate(candidate.clone());
        }
        if let Some(context) = &self.context {
            failure = failure.with_attempts(context.attempts());
        }
        failure
    }
}

/// One exchange, as far as its response head.
pub(crate) struct Attempt {
    pub(crate) stamp: Stamp,
    pub(crate) selected: Selected,
}

pin_project! {
    /// The future of [`Upstream`](crate::Upstream). Dropping it ends the exchange.
    pub struct UpstreamFuture<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F> {
        Refused { failure: Option<Failure> },
        Sent { #[pin] response: F, attempt: Option<Attempt> },
    }
}

impl<F> UpstreamFuture<F> {
    pub(crate) fn refused(failure: Failure) -> Self {
        Self { state: State::Refused { failure: Some(failure) } }
    }

    pub(crate) fn sent(response: F, attempt: Attempt) -> Self {
        Self { state: State::Sent { response, attempt: Some(attempt) } }
    }
}

impl<F, B, E> Future for UpstreamFuture<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    E: Into<Failure>,
    B: Body<Data = Bytes>,
    B::Error: Into<Failure>,
{
    type Output = Result<Response<UpstreamBody<B>>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Refused { failure } => {
                Poll::Ready(Err(failure.take().expect("a future is not polled after its end")))
            }
            StateProjection::Sent { response, attempt } => {
                let result = ready!(response.poll(cx));
                let attempt = attempt.take().expect("a future is not polled after its end");
                Poll::Ready(attempt.settle(result))
            }
        }
    }
}

impl Attempt {
    fn settle<B, E>(self, result: Result<Response<B>, E>) -> Result<Response<UpstreamBody<B>>, Failure>
    where
        E: Into<Failure>,
        B: Body<Data = Bytes>,
        B::Error: Into<Failure>,
    {
        match result {
            Ok(response) => {
                let (mut head, body) = response.into_parts();
                headers::from_provider(&mut head.headers);
                let coding = Coding::take(&mut head.headers);
                head.extensions.insert(self.selected);
                Ok(Response::from_parts(head, UpstreamBody::new(body, coding, self.stamp)))
            }
            Err(error) => Err(self.stamp.on(error.into())),
        }
    }
}

impl<F> fmt::Debug for UpstreamFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamFuture").finish_non_exhaustive()
    }
}
