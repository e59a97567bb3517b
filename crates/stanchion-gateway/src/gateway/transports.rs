use std::{
    collections::HashMap,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use stanchion::{
    core::{Failure, Selected},
    upstream::{Transport, TransportFuture},
};
use tower_service::Service;

/// The connections to all providers, but for those that are spoken to in a way of their own: they have theirs. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Transports {
    common: Transport,
    own: Arc<HashMap<String, Transport>>,
}

impl Transports {
    /// One for all, and others by the names of their providers.
    pub fn new(common: Transport, own: HashMap<String, Transport>) -> Self {
        Self { common, own: Arc::new(own) }
    }
}

impl Service<Request<Full<Bytes>>> for Transports {
    type Response = <Transport as Service<Request<Full<Bytes>>>>::Response;
    type Error = Failure;
    type Future = TransportFuture;

    /// A transport is always ready.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> TransportFuture {
        if self.own.is_empty() {
            return self.common.call(request);
        }
        let own = request.extensions().get::<Selected>().and_then(|it| self.own.get(it.candidate.provider()));
        own.cloned().unwrap_or_else(|| self.common.clone()).call(request)
    }
}
