use std::{
    fmt, mem,
    sync::Arc,
    task::{Context, Poll},
};

use http::Request;
use stanchion_core::Failure;
use tower_layer::Layer;
use tower_service::Service;

use crate::{RetryFuture, RetryLayer, RetryPolicy, layer::Shared};

/// Says, in the extensions of a request, that somebody outside retries it already.
///
/// [`Retry`] sets it on every request that it passes on, and only passes on a request that bears it. An application
/// that retries by itself sets it to switch the layers' own retries off for one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetryOwner;

/// Calls a service again when a call fails before output. See the [crate's page](crate).
#[derive(Clone)]
pub struct Retry<S> {
    pub(crate) inner: S,
    pub(crate) shared: Arc<Shared>,
}

impl<S> Retry<S> {
    /// Retries calls of `inner` by `policy`.
    pub fn new(inner: S, policy: RetryPolicy) -> Self {
        RetryLayer::new(policy).layer(inner)
    }

    /// The policy.
    pub fn policy(&self) -> &RetryPolicy {
        &self.shared.policy
    }

    /// The inner service.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The inner service.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The inner service.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B> Service<Request<B>> for Retry<S>
where
    S: Service<Request<B>, Error: Into<Failure>> + Clone,
    B: Clone,
{
    type Response = S::Response;
    type Error = Failure;
    type Future = RetryFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> RetryFuture<S, B> {
        if request.extensions().get::<RetryOwner>().is_some() {
            return RetryFuture::pass(self.inner.call(request));
        }
        // The service that is ready makes the attempts; a clone, which is not, takes its place.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        RetryFuture::start(ready, request, self.shared.clone())
    }
}

impl<S: fmt::Debug> fmt::Debug for Retry<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry").field("inner", &self.inner).field("policy", self.policy()).finish_non_exhaustive()
    }
}
