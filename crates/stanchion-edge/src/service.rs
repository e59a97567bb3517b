use std::{
    convert::Infallible,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use stanchion_core::Failure;
use tower_service::Service;

use crate::{EdgeBody, EdgeFuture, EdgeLayer};

/// The outermost layer. See the [crate page](crate).
#[derive(Debug, Clone)]
pub struct Edge<S> {
    inner: S,
    layer: EdgeLayer,
}

impl<S> Edge<S> {
    /// Wraps a service.
    pub const fn new(inner: S, layer: EdgeLayer) -> Self {
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

impl<S, B, R> Service<Request<B>> for Edge<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>> + Clone,
    S::Error: Into<Failure>,
    B: http_body::Body,
    B::Data: Into<Bytes>,
    R: http_body::Body<Data = Bytes>,
    R::Error: Into<Failure>,
{
    type Response = Response<EdgeBody<S::Future, R>>;
    type Error = Infallible;
    type Future = EdgeFuture<S, B, R>;

    /// Always ready: the service within is asked for readiness once there is a request for it, so that a reservation is never held over
    /// the collection of a slow body.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        EdgeFuture::new(request, self.inner.clone(), &self.layer)
    }
}
