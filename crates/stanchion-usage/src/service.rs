use std::task::{Context as Wakes, Poll};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header::CONTENT_LENGTH};
use http_body::Body;
use http_body_util::Full;
use stanchion_core::{Call, Dialect, Failure, HidesUsage};
use stanchion_wire::request::with_usage;
use tower_service::Service;

use crate::{
    UsageBody, UsageFuture, UsageLayer,
    account::{Account, whole},
};

/// Tells what each reply has used and what it costs. See the [crate's page](crate).
#[derive(Debug, Clone)]
pub struct UsageService<S> {
    pub(crate) inner: S,
    pub(crate) layer: UsageLayer,
}

impl<S> UsageService<S> {
    /// Puts the layer's settings around `inner`.
    pub const fn new(inner: S, layer: UsageLayer) -> Self {
        Self { inner, layer }
    }

    /// The inner service.
    pub const fn get_ref(&self) -> &S {
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

impl<S, R> Service<Request<Full<Bytes>>> for UsageService<S>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>, Error: Into<Failure>>,
    R: Body,
{
    type Response = Response<UsageBody<R>>;
    type Error = Failure;
    type Future = UsageFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Wakes<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<Full<Bytes>>) -> UsageFuture<S::Future> {
        let account = Account::open(&mut request, &self.layer);
        let request = if self.layer.request_usage { asking(request) } else { request };
        UsageFuture::new(self.inner.call(request), account)
    }
}

/// The request, asking for usage if it is one that can and does not.
fn asking(request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
    let can = |call: &Call| call.stream && call.dialect == Dialect::OpenAiChat;
    if !request.extensions().get().is_some_and(can) {
        return request;
    }
    let (mut head, body) = request.into_parts();
    let body = whole(body);
    let body = match with_usage(&body) {
        None => body,
        Some(asking) => {
            head.extensions.insert(HidesUsage);
            if head.headers.contains_key(CONTENT_LENGTH) {
                head.headers.insert(CONTENT_LENGTH, HeaderValue::from(asking.len()));
            }
            asking
        }
    };
    Request::from_parts(head, Full::new(body))
}
