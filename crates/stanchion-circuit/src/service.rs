use std::{
    fmt,
    sync::Arc,
    task::{Context as Wakes, Poll},
};

use http::{Request, Response};
use http_body::Body;
use stanchion_core::{
    Candidate, CircuitPhase, CircuitTurn, Context, Failure, FailureKind, OpenCircuit, Phase, Selected, WaitsForCircuit,
};
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    CircuitBody, CircuitFuture, CircuitLayer, CircuitPolicy, CircuitPreflightFuture, CircuitRegistry,
    circuits::{Circuits, Entered},
    gate::Gate,
    judge::Watch,
    open_circuit,
};

/// Lets requests through to a candidate as long as its circuit is closed, and learns from what comes of them. See the
/// [crate's page](crate).
#[derive(Clone)]
pub struct Circuit<S> {
    pub(crate) inner: S,
    pub(crate) circuits: Arc<Circuits>,
}

/// Turns requests away whose circuit is open already, and learns nothing. See the [crate's page](crate).
#[derive(Clone)]
pub struct CircuitPreflight<S> {
    pub(crate) inner: S,
    pub(crate) circuits: Arc<Circuits>,
}

impl<S> Circuit<S> {
    /// Guards `inner` by circuits of `registry`, under `policy`.
    pub fn new(inner: S, registry: CircuitRegistry, policy: CircuitPolicy) -> Self {
        CircuitLayer::new(registry, policy).layer(inner)
    }

    /// The policy.
    pub fn policy(&self) -> &CircuitPolicy {
        &self.circuits.policy
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

impl<S> CircuitPreflight<S> {
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

impl<S, B, R> Service<Request<B>> for Circuit<S>
where
    S: Service<Request<B>, Response = Response<R>, Error: Into<Failure>>,
    R: Body,
{
    type Response = Response<CircuitBody<R>>;
    type Error = Failure;
    type Future = CircuitFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Wakes<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> CircuitFuture<S::Future> {
        let Some(Selected { candidate, index, .. }) = request.extensions().get() else {
            return CircuitFuture::new(self.inner.call(request), None);
        };
        if candidate.drain().is_drained() {
            return CircuitFuture::refuse(drained(candidate));
        }
        let now = Instant::now();
        let turn = request.extensions().get::<CircuitTurn>();
        let waits = turn.is_some();
        let checked = self.circuits.check(candidate, *index, turn, now);
        // Decided: the next of those who wait may come.
        if waits {
            request.extensions_mut().remove::<CircuitTurn>();
        }
        match checked {
            Ok(None) => CircuitFuture::new(self.inner.call(request), None),
            Ok(Some(Entered { token, probe })) => {
                let context = Context::of(&request).cloned();
                if let Some(view) = probe {
                    let context = context.as_ref();
                    Context::emit(context, || {
                        let gate = Gate::new(token.entry().clone(), None);
                        open_circuit(token.entry(), &view, gate, now).event(CircuitPhase::Probe, context, now)
                    });
                }
                let watch = Watch::new(token, self.circuits.policy.judging, context, now);
                CircuitFuture::new(self.inner.call(request), Some(watch))
            }
            Err(circuit) => CircuitFuture::refuse(refuse(&request, &circuit, now)),
        }
    }
}

impl<S, B> Service<Request<B>> for CircuitPreflight<S>
where
    S: Service<Request<B>, Error: Into<Failure>>,
{
    type Response = S::Response;
    type Error = Failure;
    type Future = CircuitPreflightFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Wakes<'_>) -> Poll<Result<(), Failure>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> CircuitPreflightFuture<S::Future> {
        if let Some(Selected { candidate, index, .. }) = request.extensions().get() {
            if candidate.drain().is_drained() {
                return CircuitPreflightFuture::refuse(drained(candidate));
            }
            let now = Instant::now();
            if let Err(circuit) = self.circuits.preflight(candidate, *index, request.extensions().get(), now) {
                return CircuitPreflightFuture::refuse(refuse(&request, &circuit, now));
            }
        }
        CircuitPreflightFuture::new(self.inner.call(request))
    }
}

/// Nobody waits for a candidate that a hand took out of service, and no circuit is told of.
fn drained(candidate: &Candidate) -> Failure {
    Failure::new(FailureKind::Drained).with_phase(Phase::Connect).with_candidate(candidate.name().clone())
}

/// Turns a request away, and tells so, unless whoever sent it tells it.
fn refuse<B>(request: &Request<B>, circuit: &Arc<OpenCircuit>, now: Instant) -> Failure {
    if request.extensions().get::<WaitsForCircuit>().is_none() {
        let context = Context::of(request);
        Context::emit(context, || circuit.event(CircuitPhase::Rejected, context, now));
    }
    circuit.refuse(now)
}

impl<S: fmt::Debug> fmt::Debug for Circuit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Circuit").field("inner", &self.inner).field("circuits", &self.circuits).finish_non_exhaustive()
    }
}

impl<S: fmt::Debug> fmt::Debug for CircuitPreflight<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitPreflight")
            .field("inner", &self.inner)
            .field("circuits", &self.circuits)
            .finish_non_exhaustive()
    }
}
