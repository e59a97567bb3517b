use std::task::{Context as TaskContext, Poll};

use http::{Request, Response};
use stanchion_core::{Attempts, Call, Context, Failure, HidesUsage};
use tower_service::Service;

use super::{ObserveBody, ObserveFuture, ObserveLayer};

/// Reads each reply once as it passes, and tells of it in a [`StreamRecord`](stanchion_core::StreamRecord) in the response's extensions.
///
/// It needs the [`Call`] in the request's extensions to know the dialect. Without one, for replies with an error status, and for those in a
/// content coding that was not taken off within, the body passes unread and there is no record.
///
/// A [`HidesUsage`] in the request's extensions says that the client did not ask for the usage that the provider sends: a chunk of chat
/// completions that has no choices and is there for the usage alone is read and not passed on.
///
/// Where the request carries [`Attempts`], each attempt is written down in them, with its record.
#[derive(Debug, Clone)]
pub struct Observe<S> {
    inner: S,
    layer: ObserveLayer,
}

impl<S> Observe<S> {
    /// Wraps a service.
    pub const fn new(inner: S, layer: ObserveLayer) -> Self {
        Self { inner, layer }
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

impl<S, B, R> Service<Request<B>> for Observe<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Into<Failure>,
    R: http_body::Body<Data = bytes::Bytes>,
    R::Error: Into<Failure>,
{
    type Response = Response<ObserveBody<R>>;
    type Error = Failure;
    type Future = ObserveFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let call = request.extensions().get::<Call>().map(|call| (call.dialect, call.stream));
        let hides_usage = request.extensions().get::<HidesUsage>().is_some();
        let context = Context::of(&request).cloned();
        let attempts = Attempts::of(&request);
        let entry = attempts.and_then(|attempts| attempts.begin(request.extensions().get().cloned()));
        ObserveFuture::new(self.inner.call(request), self.layer.settings, call, hides_usage, context, entry)
    }
}
