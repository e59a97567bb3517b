use std::{
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response};
use stanchion_core::Failure;
use tower_service::Service;

use super::{AttemptBody, AttemptFuture, AttemptLimits, about::About};

/// Bounds one physical attempt by its clocks.
#[derive(Debug, Clone)]
pub struct Attempt<S> {
    inner: S,
    // Shared, so that a clone is small: who retries makes one of all that is within, for each request.
    limits: Arc<AttemptLimits>,
}

impl<S> Attempt<S> {
    /// Wraps a service.
    pub fn new(inner: S, limits: AttemptLimits) -> Self {
        Self { inner, limits: Arc::new(limits) }
    }

    /// The service within.
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The service within.
    pub fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The service within.
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, B, R> Service<Request<B>> for Attempt<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<Failure>,
    R: http_body::Body<Data = bytes::Bytes>,
    R::Error: Into<Failure>,
{
    type Response = Response<AttemptBody<R>>;
    type Error = Failure;
    type Future = AttemptFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let about = About::of(&request);
        AttemptFuture::new(self.inner.call(request), &self.limits, about)
    }
}
