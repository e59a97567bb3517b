use std::{
    task::{Context as TaskContext, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use stanchion_core::{AttemptPhase, Context, Event, Failure, ProviderAttempt, Selected};
use tower_service::Service;

use crate::{
    Unsendable, UpstreamBody, UpstreamFuture,
    future::{Attempt, Stamp},
    request,
};

/// Makes the provider's request and sends it over the transport `T`.
///
/// Each call that reaches the transport is one physical attempt: it is counted in the request's [`Context`], and told
/// as [`Event::ProviderAttempt`], `started`. Ready when the transport is.
#[derive(Debug, Clone, Copy)]
pub struct Upstream<T> {
    transport: T,
}

impl<T> Upstream<T> {
    /// Sends over `transport`.
    pub const fn new(transport: T) -> Self {
        Self { transport }
    }

    /// The transport.
    pub const fn get_ref(&self) -> &T {
        &self.transport
    }

    /// The transport.
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.transport
    }

    /// The transport.
    pub fn into_inner(self) -> T {
        self.transport
    }
}

impl<T, B> Service<Request<Full<Bytes>>> for Upstream<T>
where
    T: Service<Request<Full<Bytes>>, Response = Response<B>>,
    T::Error: Into<Failure>,
    B: Body<Data = Bytes>,
    B::Error: Into<Failure>,
{
    type Response = Response<UpstreamBody<B>>;
    type Error = Failure;
    type Future = UpstreamFuture<T::Future>;

    fn poll_ready(&mut self, cx: &mut TaskContext<'_>) -> Poll<Result<(), Failure>> {
        self.transport.poll_ready(cx).map_err(Into::into)
    }

    // The request is made here and not in the future, so the service that was polled ready is the one that is called.
    fn call(&mut self, request: Request<Full<Bytes>>) -> Self::Future {
        let context = Context::of(&request).cloned();
        let Some(selected) = request.extensions().get::<Selected>().cloned() else {
            return UpstreamFuture::refused(Stamp::new(None, context).on(Unsendable::NoCandidate.into()));
        };
        let stamp = Stamp::new(Some(selected.candidate.name().clone()), context);
        let mut request = match request::for_provider(request, &selected.candidate) {
            Ok(request) => request,
            Err(problem) => return UpstreamFuture::refused(stamp.on(problem.into())),
        };
        let attempt = stamp.count();
        if let Some(trace) = stamp.context().and_then(Context::trace) {
            trace.write(trace.attempt(attempt), request.headers_mut());
        }
        Context::emit(stamp.context(), || {
            Event::ProviderAttempt(ProviderAttempt {
                phase: AttemptPhase::Started,
                candidate: selected.candidate.name().clone(),
                attempt,
                failure: None,
                failed_in: None,
                status_code: None,
                elapsed: Duration::ZERO,
            })
        });
        UpstreamFuture::sent(self.transport.call(request), Attempt { stamp, selected })
    }
}
