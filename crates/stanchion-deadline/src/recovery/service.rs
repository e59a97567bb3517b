use std::task::{self, Poll};

use http::{Request, Response};
use stanchion_core::{Context, Failure, RequestClass};
use tower_service::Service;

use super::{RecoveryBody, RecoveryFuture, RecoveryLimits};

/// Bounds the recovery of one logical request.
#[derive(Debug, Clone)]
pub struct Recovery<S> {
    inner: S,
    limits: RecoveryLimits,
}

impl<S> Recovery<S> {
    /// Wraps a service.
    pub const fn new(inner: S, limits: RecoveryLimits) -> Self {
        Self { inner, limits }
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

    /// Says whether the request has a budget, unless that was said before. The context, if it has one.
    fn bounded<B>(&self, request: &mut Request<B>) -> Option<Context> {
        let extensions = request.extensions_mut();
        if self.limits.budget().is_some() && extensions.get::<Context>().is_none() {
            extensions.insert(Context::default());
        }
        let context = extensions.get::<Context>()?;
        let waits = context.class() == RequestClass::Foreground;
        context.recover_within(|| if waits { self.limits.new_budget() } else { None });
        context.recovery().is_some().then(|| context.clone())
    }
}

impl<S, B, R> Service<Request<B>> for Recovery<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<Failure>,
    R: http_body::Body,
    R::Error: Into<Failure>,
{
    type Response = Response<RecoveryBody<R>>;
    type Error = Failure;
    type Future = RecoveryFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let context = self.bounded(&mut request);
        RecoveryFuture::new(self.inner.call(request), context)
    }
}
