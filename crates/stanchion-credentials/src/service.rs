use std::task::{Context as Wakes, Poll};

use http::{Request, Response};
use http_body::Body;
use stanchion_core::{Context, Failure, Selected};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use crate::{CredentialPools, CredentialsBody, CredentialsFuture, CredentialsLayer, lease::Lease};

/// Sends each attempt with a credential out of its provider's pool. See the [crate's page](crate).
#[derive(Debug, Clone)]
pub struct Credentials<S> {
    pub(crate) inner: S,
    pub(crate) pools: CredentialPools,
}

impl<S> Credentials<S> {
    /// Chooses credentials out of `pools` for calls of `inner`.
    pub fn new(inner: S, pools: CredentialPools) -> Self {
        CredentialsLayer::new(pools).layer(inner)
    }

    /// The pools.
    pub fn pools(&self) -> &CredentialPools {
        &self.pools
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

impl<S, B, R> Service<Request<B>> for Credentials<S>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<Failure>>,
    R: Body,
{
    type Response = Response<CredentialsBody<R>>;
    type Error = Failure;
    type Future = CredentialsFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Wakes<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> CredentialsFuture<S::Future> {
        let candidate = request.extensions().get().map(|selected: &Selected| &selected.candidate);
        let Some((plain, pool)) = candidate.and_then(|plain| Some((plain, self.pools.get(plain.provider())?))) else {
            return CredentialsFuture::new(self.inner.call(request), None);
        };
        let now = Instant::now();
        let pick = match pool.pick(now) {
            Ok(pick) => pick,
            Err(empty) => return CredentialsFuture::refuse(empty.refuse(plain, now)),
        };
        let candidate = pool.candidate(plain, pick.ticket.index);
        let context = Context::of(&request).cloned();
        // Before anybody is told, who may panic.
        let lease = Lease::new(pool.clone(), pick.ticket, candidate.clone(), context.clone());
        if let Some(reason) = pick.told {
            pool.tell(context.as_ref(), Some(&candidate), pick.ticket.index, reason, None);
        }
        if let Some(selected) = request.extensions_mut().get_mut::<Selected>() {
            selected.candidate = candidate;
        }
        CredentialsFuture::new(self.inner.call(request), Some(lease))
    }
}
