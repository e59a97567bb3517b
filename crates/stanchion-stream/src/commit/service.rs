use std::{
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use http::{Request, Response};
use stanchion_core::{Call, CommitPolicy, Context, Dialect, Failure, RetainedBytes, Selected};
use tokio::time::Instant;
use tower_service::Service;

use super::{CommitBody, CommitFuture, CommitLayer};

/// Turns every reply into either a response whose first output is at hand, or a [`Failure`].
///
/// It reads what has come from the [`StreamRecord`](stanchion_core::StreamRecord) that [`Observe`](crate::Observe) keeps. Without one, the
/// first byte of the body counts as output.
#[derive(Debug, Clone)]
pub struct Commit<S> {
    inner: S,
    // Shared, so that a clone is small: who retries makes one of all that is within, for each request.
    layer: Arc<CommitLayer>,
}

/// What is known of the attempt from its request.
#[derive(Debug)]
pub(super) struct AttemptInfo {
    pub(super) dialect: Dialect,
    pub(super) policy: CommitPolicy,
    pub(super) context: Option<Context>,
    pub(super) candidate: Option<Arc<str>>,
    pub(super) started: Instant,
    /// Where what is held back counts, if anybody bounds it.
    pub(super) retained: Option<RetainedBytes>,
}

impl<S> Commit<S> {
    /// Wraps a service.
    pub fn new(inner: S, layer: CommitLayer) -> Self {
        Self { inner, layer: Arc::new(layer) }
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

impl<S, B, R> Service<Request<B>> for Commit<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<Failure>,
    R: http_body::Body<Data = bytes::Bytes>,
    R::Error: Into<Failure>,
{
    type Response = Response<CommitBody<R>>;
    type Error = Failure;
    type Future = CommitFuture<S::Future, R>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let extensions = request.extensions();
        let info = AttemptInfo {
            dialect: extensions.get::<Call>().map_or(Dialect::OpenAiChat, |call| call.dialect),
            policy: self.layer.policy_of(&request),
            context: Context::of(&request).cloned(),
            candidate: extensions.get::<Selected>().map(|selected| selected.candidate.name().clone()),
            started: Instant::now(),
            retained: RetainedBytes::of(&request).cloned(),
        };
        CommitFuture::new(self.inner.call(request), self.layer.clone(), info)
    }
}
