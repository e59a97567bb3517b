//! Failures of circuits further in.

use std::sync::Arc;

use stanchion_core::{CircuitGate, CircuitTurn, Failure, FailureKind, OpenCircuit, PoolState, RetryReason};
use stanchion_credentials::CredentialState::{PassedOver, Ready};
use tokio::time::Instant;

use super::{Stage, builder, failure, pass, seconds};

struct Gate;

impl CircuitGate for Gate {
    fn turn(self: Arc<Self>) -> std::pin::Pin<Box<dyn Future<Output = CircuitTurn> + Send>> {
        Box::pin(std::future::pending())
    }
}

fn circuit(wait: u64) -> Arc<OpenCircuit> {
    Arc::new(OpenCircuit {
        candidate: Some("primary/gpt-x".into()),
        reason: RetryReason::ServerError,
        status_code: Some(503),
        next_probe: Instant::now() + seconds(wait),
        open_for: seconds(wait),
        sample_count: 4,
        failure_count: 4,
        gate: Arc::new(Gate),
    })
}

fn open(wait: u64) -> Failure {
    circuit(wait).refuse(Instant::now())
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_circuit_is_open_is_passed_over_for_as_long() {
    let mut stage = Stage::new(builder(["a", "b"]));
    let (key, failure) = stage.fail(open(10)).await;
    assert_eq!((key, failure.pool()), ('a', Some(PoolState::AnotherReady)));
    assert!(failure.circuit().is_none() && failure.hint().is_none(), "nobody waits for the circuit that is left");
    assert_eq!(stage.states(), [PassedOver, Ready]);
    pass(seconds(9)).await;
    assert_eq!(stage.serve().await, 'b');
    pass(seconds(1)).await;
    assert_eq!(stage.serve().await, 'a');
}

#[tokio::test(start_paused = true)]
async fn where_every_circuit_is_open_the_failure_keeps_its_circuit_to_wait_for() {
    let mut stage = Stage::new(builder(["a", "b"]));
    stage.fail(open(10)).await;
    let (key, failure) = stage.fail(open(20)).await;
    assert_eq!((key, failure.pool(), failure.kind()), ('b', None, FailureKind::CircuitOpen));
    assert!(failure.circuit().is_some());
    // Circuits decide themselves whom they let in.
    assert_eq!(stage.serve().await, 'a');
}

#[tokio::test(start_paused = true)]
async fn a_key_whose_circuit_still_lets_in_is_found_behind_those_that_do_not() {
    let mut stage = Stage::new(builder(["a", "b", "c"]));
    for expected in ['a', 'b', 'c'] {
        let failure = failure(FailureKind::Overloaded, 503).with_circuit(circuit(10));
        assert_eq!(stage.fail(failure).await.0, expected);
    }
    assert_eq!(stage.states(), [PassedOver; 3]);
    // The last of a model's circuits does not turn away; the pool cannot know which that is.
    for expected in ['a', 'b'] {
        let (key, failure) = stage.fail(open(10)).await;
        assert_eq!((key, failure.pool()), (expected, Some(PoolState::AnotherReady)));
    }
    assert_eq!(stage.serve().await, 'c');
    // From then on it is the one.
    let (key, limited) = stage.fail(failure(FailureKind::Overloaded, 503).with_circuit(circuit(10))).await;
    assert_eq!((key, limited.pool()), ('c', None));
    assert_eq!(stage.serve().await, 'c');
    // Where all turn away, each is asked once, and the failure says so.
    let mut stage = Stage::new(builder(["a", "b", "c"]));
    for (expected, pool) in [('a', Some(PoolState::AnotherReady)), ('b', Some(PoolState::AnotherReady)), ('c', None)] {
        let (key, failure) = stage.fail(open(10)).await;
        assert_eq!((key, failure.pool()), (expected, pool));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_opens_the_circuit_moves_the_next_request_on() {
    let mut stage = Stage::new(builder(["a", "b"]));
    let (_, failure) = stage.fail(failure(FailureKind::Overloaded, 503).with_circuit(circuit(10))).await;
    assert_eq!(failure.pool(), None, "a provider in trouble is not asked again at once");
    assert!(failure.circuit().is_some());
    assert_eq!(stage.serve().await, 'b');
}
