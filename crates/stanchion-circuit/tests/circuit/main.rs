//! Circuits around a mock that answers as told, on a paused clock.

mod bodies;
mod by_hand;
mod calls;
mod catalogue;
mod drops;
mod laws;
mod others;
mod registry;
mod traces;
mod waiters;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use stanchion_circuit::{
    CircuitChange, CircuitHandle, CircuitLayer, CircuitPolicy, CircuitPolicyBuilder, CircuitRegistry, CircuitState,
    CircuitToken,
};
use stanchion_core::{
    Candidate, Context, DispositionRules, Failure, FailureKind, HintSource, OpenCircuit, Phase, RetryHint, Selected,
};
use stanchion_testkit::{candidate, request_in};
use tokio::time::{Instant, advance};

type Req = Request<Full<Bytes>>;

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn failure(kind: FailureKind) -> Failure {
    Failure::new(kind).with_phase(Phase::BeforeOutput)
}

fn status(kind: FailureKind, status: u16) -> Failure {
    failure(kind).with_status(StatusCode::from_u16(status).unwrap())
}

fn overloaded() -> Failure {
    status(FailureKind::Overloaded, 503)
}

fn hinted(failure: Failure, milliseconds: u64) -> Failure {
    failure.with_hint(Some(RetryHint::new(ms(milliseconds), HintSource::RetryAfter)))
}

/// A layer with a registry of its own.
fn layer(policy: CircuitPolicyBuilder) -> CircuitLayer {
    CircuitLayer::new(CircuitRegistry::new(), policy.build().unwrap())
}

/// A policy whose circuits open at the first failure.
fn touchy() -> CircuitPolicyBuilder {
    CircuitPolicy::builder().consecutive(1)
}

/// A request for a candidate.
fn request_for(candidate: &Arc<Candidate>, context: Context) -> Req {
    let mut request = request_in(context);
    request.extensions_mut().insert(Selected { candidate: candidate.clone(), index: 0, last: true });
    request
}

/// The circuit of one candidate, used without a service.
struct One {
    layer: CircuitLayer,
    handle: CircuitHandle,
}

impl One {
    fn new(policy: CircuitPolicyBuilder) -> Self {
        Self::of(layer(policy), candidate("primary"))
    }

    fn of(layer: CircuitLayer, candidate: Candidate) -> Self {
        let handle = layer.circuit(&Arc::new(candidate));
        Self { layer, handle }
    }

    fn preflight(&self) -> Result<(), Arc<OpenCircuit>> {
        self.handle.preflight(Instant::now())
    }

    fn check(&self) -> Result<CircuitToken, Arc<OpenCircuit>> {
        self.handle.check(Instant::now()).map(|token| token.expect("it counts"))
    }

    fn allowed(&self) -> CircuitToken {
        self.check().unwrap_or_else(|open| panic!("turned away: {open:?}"))
    }

    fn probe(&self) -> CircuitToken {
        let token = self.allowed();
        assert!(token.is_probe());
        token
    }

    fn denied(&self) -> Arc<OpenCircuit> {
        match self.check() {
            Err(open) => open,
            Ok(token) => panic!("let in: {token:?}"),
        }
    }

    fn fail(&self) -> Option<CircuitChange> {
        fail(self.allowed(), overloaded())
    }

    /// Fails until it opens.
    fn open(&self) -> CircuitChange {
        loop {
            if let Some(change) = self.fail() {
                return change;
            }
        }
    }

    fn state(&self) -> CircuitState {
        self.handle.status().expect("it counts").state
    }

    /// Failures and samples.
    fn counts(&self) -> (u32, u32) {
        let status = self.handle.status().expect("it counts");
        (status.failure_count, status.sample_count)
    }
}

fn fail(token: CircuitToken, failure: Failure) -> Option<CircuitChange> {
    token.fail(&failure, &DispositionRules::default(), Instant::now())
}

fn succeed(token: CircuitToken) -> Option<CircuitChange> {
    token.succeed(Instant::now())
}

async fn pass(milliseconds: u64) {
    advance(ms(milliseconds)).await;
}
