use std::{
    fmt,
    sync::Arc,
    task::{Context as Wakes, Poll},
};

use http::{Request, Response};
use http_body::Body;
use stanchion_core::Failure;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    AdmissionBody, AdmissionFuture, AdmissionLayer, AdmissionPolicy, AdmissionScheduler,
    gate::{Gate, Passage},
};

/// Has requests wait for a permit, and holds it until the reply's end. See the [crate's page](crate).
#[derive(Clone)]
pub struct Admission<S> {
    pub(crate) inner: S,
    pub(crate) gate: Option<Arc<Gate>>,
}

impl<S> Admission<S> {
    /// Has requests queue at `scheduler`, under `policy`, before they come to `inner`.
    pub fn new(inner: S, scheduler: AdmissionScheduler, policy: AdmissionPolicy) -> Self {
        AdmissionLayer::new(scheduler, policy).layer(inner)
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

impl<S, B, R> Service<Request<B>> for Admission<S>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<Failure>> + Clone,
    B: Body,
    R: Body,
{
    type Response = Response<AdmissionBody<R>>;
    type Error = Failure;
    type Future = AdmissionFuture<S, B>;

    fn poll_ready(&mut self, cx: &mut Wakes<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> AdmissionFuture<S, B> {
        let Some(gate) = &self.gate else {
            return AdmissionFuture::calling(self.inner.call(request), None);
        };
        let passage = gate.pass(&request);
        gate.retained().attach(&mut request);
        match passage {
            Passage::Runs(permit) => AdmissionFuture::calling(self.inner.call(request), Some(permit)),
            // A clone, which is not ready: what the one that is ready has reserved is not to be held over a wait.
            Passage::Waits(wait) => AdmissionFuture::waiting(wait, self.inner.clone(), request),
            Passage::Ends(told, ended) => AdmissionFuture::refuse(ended.into_failure(&told)),
        }
    }
}

impl<S: fmt::Debug> fmt::Debug for Admission<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admission").field("inner", &self.inner).field("gate", &self.gate).finish_non_exhaustive()
    }
}
