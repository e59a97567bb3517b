use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context as Wakes, Poll, Waker},
};

use bytes::Bytes;
use http::{Request, Response, header::CONTENT_LENGTH};
use http_body::Body;
use http_body_util::Full;
use stanchion_core::{CacheRetention, Call, Dialect, Failure};
use stanchion_wire::request::with_cache_retention;
use tower_layer::Layer;
use tower_service::Service;

use crate::{CacheBreakBody, CacheBreakFuture, CacheBreakLayer, CacheBreakPolicy, layer::Shared, watch::Asked};

/// A request's body that is at hand as a whole.
pub trait WholeBody {
    /// Its bytes. Cheap: they are shared, not copied.
    fn whole(&self) -> Bytes;

    /// A body of these bytes.
    fn of(bytes: Bytes) -> Self;
}

impl WholeBody for Bytes {
    fn whole(&self) -> Bytes {
        self.clone()
    }

    fn of(bytes: Bytes) -> Self {
        bytes
    }
}

impl WholeBody for Full<Bytes> {
    fn whole(&self) -> Bytes {
        match Pin::new(&mut self.clone()).poll_frame(&mut Wakes::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
            _ => Bytes::new(),
        }
    }

    fn of(bytes: Bytes) -> Self {
        Self::new(bytes)
    }
}

/// Watches the prompt caches of sessions. See the [crate's page](crate).
#[derive(Clone)]
pub struct CacheBreak<S> {
    pub(crate) inner: S,
    pub(crate) shared: Arc<Shared>,
}

impl<S> CacheBreak<S> {
    /// Watches calls of `inner` by `policy`.
    pub fn new(inner: S, policy: CacheBreakPolicy) -> Self {
        CacheBreakLayer::new(policy).layer(inner)
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

impl<S, B, R> Service<Request<B>> for CacheBreak<S>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<Failure>>,
    B: WholeBody,
    R: Body,
{
    type Response = Response<CacheBreakBody<R>>;
    type Error = Failure;
    type Future = CacheBreakFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Wakes<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> CacheBreakFuture<S::Future> {
        retain(&mut request);
        let asked = Asked::of(&request, &self.shared);
        CacheBreakFuture::new(self.inner.call(request), asked)
    }
}

/// Writes into the body for how long its prompt is to be kept, where the request's extensions say so.
fn retain<B: WholeBody>(request: &mut Request<B>) {
    let Some(&retention) = request.extensions().get::<CacheRetention>() else { return };
    let dialect = request.extensions().get::<Call>().map(|call| call.dialect);
    if retention == CacheRetention::Default || dialect != Some(Dialect::AnthropicMessages) {
        return;
    }
    let body = request.body().whole();
    let retained = with_cache_retention(Dialect::AnthropicMessages, &body, retention);
    if retained.len() != body.len() || retained.as_ptr() != body.as_ptr() {
        request.headers_mut().remove(CONTENT_LENGTH);
        *request.body_mut() = B::of(retained);
    }
}

impl<S: fmt::Debug> fmt::Debug for CacheBreak<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheBreak")
            .field("inner", &self.inner)
            .field("monitor", &self.shared.monitor)
            .finish_non_exhaustive()
    }
}
