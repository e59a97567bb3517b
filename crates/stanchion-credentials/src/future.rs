use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll, ready},
};

use http::Response;
use http_body::Body;
use pin_project_lite::pin_project;
use stanchion_core::{Failure, StreamRecord};

use crate::{CredentialsBody, lease::Lease};

pin_project! {
    /// The response future of [`Credentials`](crate::Credentials).
    pub struct CredentialsFuture<F> {
        #[pin]
        state: State<F>,
        // None where the provider has no pool.
        lease: Option<Lease>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F> {
        // The request was sent on.
        Calling { #[pin] call: F },
        // There is no credential for it.
        Refused { failure: Option<Failure> },
        // It is over.
        Over,
    }
}

impl<F> CredentialsFuture<F> {
    pub(crate) fn new(call: F, lease: Option<Lease>) -> Self {
        Self { state: State::Calling { call }, lease }
    }

    pub(crate) fn refuse(failure: Failure) -> Self {
        Self { state: State::Refused { failure: Some(failure) }, lease: None }
    }
}

impl<F, R, E> Future for CredentialsFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
    E: Into<Failure>,
    R: Body,
{
    type Output = Result<Response<CredentialsBody<R>>, Failure>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let result = match this.state.as_mut().project() {
            StateProjection::Calling { call } => ready!(call.poll(cx)).map_err(Into::into),
            StateProjection::Refused { failure } => Err(failure.take().expect("polled after its end")),
            StateProjection::Over => panic!("polled after its end"),
        };
        // What the call held is free before anything else happens.
        this.state.set(State::Over);
        Poll::Ready(match (result, this.lease.take()) {
            (Ok(response), None) => Ok(response.map(CredentialsBody::unwatched)),
            (Ok(response), Some(lease)) => {
                lease.answered(response.status());
                let record = response.extensions().get::<StreamRecord>().cloned();
                Ok(response.map(|body| CredentialsBody::new(body, record, lease)))
            }
            (Err(failure), None) => Err(failure),
            (Err(failure), Some(lease)) => Err(lease.failed(failure)),
        })
    }
}

impl<F> fmt::Debug for CredentialsFuture<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Calling { .. } => "calling",
            State::Refused { .. } => "refused",
            State::Over => "over",
        };
        f.debug_struct("CredentialsFuture").field("state", &state).finish_non_exhaustive()
    }
}
