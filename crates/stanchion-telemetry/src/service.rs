use std::{
    sync::Arc,
    task::{Context as Wakes, Poll},
    time::SystemTime,
};

use http::{Request, Response};
use http_body::Body;
use stanchion_core::{Call, Context, Failure, SpanId, TraceContext, TraceId};
use tower_service::Service;

use crate::{
    InFlight, RequestBegan, RequestId, TelemetryBody, TelemetryFuture, TelemetryLayer, layer::Settings, request::cut,
};

/// Tells sinks what becomes of each request. See the [crate's page](crate).
#[derive(Debug, Clone)]
pub struct Telemetry<S> {
    inner: S,
    layer: TelemetryLayer,
}

impl<S> Telemetry<S> {
    /// Puts the layer's settings around `inner`.
    pub const fn new(inner: S, layer: TelemetryLayer) -> Self {
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

impl<S, B, R> Service<Request<B>> for Telemetry<S>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<Failure>>,
    R: Body<Error: Into<Failure>>,
{
    type Response = Response<TelemetryBody<R>>;
    type Error = Failure;
    type Future = TelemetryFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Wakes<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> TelemetryFuture<S::Future> {
        let watched = (!self.layer.0.sinks.is_empty()).then(|| self.layer.0.begin(&mut request));
        TelemetryFuture::new(self.inner.call(request), watched)
    }
}

impl Settings {
    /// Tells that a request begins, and has its events told.
    fn begin<B>(&self, request: &mut Request<B>) -> Arc<InFlight> {
        let context = Context::of(request).cloned().unwrap_or_default();
        let trace = context.trace_or_init(|| {
            let span = SpanId::new(self.random());
            let incoming = TraceContext::from_headers(request.headers(), span);
            incoming.or_else(|| self.starts_traces.then(|| TraceContext::root(self.trace_id(), span, true)))
        });
        let call = request.extensions().get::<Call>();
        let requested = call.and_then(|call| call.model.as_ref());
        let began = RequestBegan {
            id: RequestId::new(self.random()),
            at: SystemTime::now(),
            model: self.model(requested),
            requested_model: requested.map(cut),
            dialect: call.map(|call| call.dialect),
            stream: call.is_some_and(|call| call.stream),
            class: context.class(),
            request_bytes: call.map_or(0, |call| call.request_bytes as u64),
            trace: trace.map(Into::into),
        };
        let watched = InFlight::begin(began, self.sinks.clone());
        request.extensions_mut().insert(context.with_observer(watched.clone()));
        watched
    }

    fn trace_id(&self) -> TraceId {
        TraceId::new(u128::from(self.random()) << 64 | u128::from(self.random()))
    }
}
