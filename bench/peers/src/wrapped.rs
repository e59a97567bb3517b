//! What one would write to put a limiter or a breaker that is no tower layer around a service.

use std::{
    future::{Ready, ready},
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::future::Either;
use governor::DefaultDirectRateLimiter;
use recloser::{AnyError, AsyncRecloser, RecloserFuture};
use stanchion::core::{Failure, FailureKind};
use tower_service::Service;

/// Asks a rate limiter of governor before each call, and refuses what is too much.
#[derive(Debug, Clone)]
pub struct Governed<S> {
    inner: S,
    limiter: Arc<DefaultDirectRateLimiter>,
}

impl<S> Governed<S> {
    /// So much per second, which a bench does not reach.
    pub fn new(inner: S) -> Self {
        let quota = governor::Quota::per_second(std::num::NonZeroU32::MAX);
        Self { inner, limiter: Arc::new(governor::RateLimiter::direct(quota)) }
    }
}

impl<S, R> Service<R> for Governed<S>
where
    S: Service<R, Error = Failure>,
{
    type Response = S::Response;
    type Error = Failure;
    type Future = Either<S::Future, Ready<Result<S::Response, Failure>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        match self.limiter.check() {
            Ok(()) => Either::Left(self.inner.call(request)),
            Err(_) => Either::Right(ready(Err(Failure::new(FailureKind::QueueFull)))),
        }
    }
}

/// Puts a breaker of recloser around each call.
#[derive(Debug, Clone)]
pub struct Reclosed<S> {
    inner: S,
    breaker: AsyncRecloser,
}

impl<S> Reclosed<S> {
    /// Opens when half of the last hundred calls failed.
    pub fn new(inner: S) -> Self {
        let breaker = recloser::Recloser::custom().error_rate(0.5).closed_len(100).build();
        Self { inner, breaker: breaker.into() }
    }
}

impl<S, R> Service<R> for Reclosed<S>
where
    S: Service<R>,
{
    type Response = S::Response;
    type Error = recloser::Error<S::Error>;
    type Future = RecloserFuture<S::Future, AnyError>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(recloser::Error::Inner)
    }

    fn call(&mut self, request: R) -> Self::Future {
        self.breaker.call(self.inner.call(request))
    }
}
