use std::{
    mem,
    sync::Arc,
    task::{Context, Poll},
};

use http::Request;
use stanchion_core::{Candidates, Failure};
use tower_layer::Layer;
use tower_service::Service;

use crate::{FallbackFuture, FallbackLayer, layer::Settings, route::Route, walk::Walk};

/// Calls a service for one candidate after the other. See the [crate's page](crate).
#[derive(Debug, Clone)]
pub struct Fallback<S> {
    pub(crate) inner: S,
    pub(crate) settings: Arc<Settings>,
}

impl<S> Fallback<S> {
    /// Calls `inner` for `candidates` in order, where a request does not bring its own.
    pub fn new(inner: S, candidates: Candidates) -> Self {
        FallbackLayer::new(candidates).layer(inner)
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

impl<S, B> Service<Request<B>> for Fallback<S>
where
    S: Service<Request<B>, Error: Into<Failure>> + Clone,
    B: Clone,
{
    type Response = S::Response;
    type Error = Failure;
    type Future = FallbackFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> FallbackFuture<S, B> {
        let own = request.extensions_mut().remove::<Candidates>();
        let candidates = own.unwrap_or_else(|| self.settings.candidates.clone());
        let route = Route::new(candidates, &self.settings, request.extensions().get());
        let first = match route.first() {
            Ok(first) => first,
            Err(failure) => return FallbackFuture::refuse(failure),
        };
        let walk = Walk::new(request.extensions().get().cloned(), route, first);
        if walk.is_last() {
            let call = walk.send(&mut self.inner, request);
            return FallbackFuture::only(call, walk);
        }
        // The service that is ready makes the calls; a clone, which is not, takes its place.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        FallbackFuture::start(walk.with(ready, request))
    }
}
