//! What the circuits of one model owe each other.

use std::sync::Arc;

use http::Response;
use stanchion_circuit::{CircuitHandle, CircuitLayer, CircuitPolicyBuilder, CircuitState, Recovery};
use stanchion_core::{Candidate, Candidates, CircuitPhase, Context, Failure, Secret};
use stanchion_testkit::{candidate, candidates};
use tokio::time::Instant;
use tower::{Layer, ServiceExt};

use super::{layer, overloaded, pass, succeed, touchy};

type Body = http_body_util::Empty<bytes::Bytes>;

struct Model {
    layer: CircuitLayer,
    circuits: Vec<CircuitHandle>,
}

impl Model {
    fn new(policy: CircuitPolicyBuilder, candidates: Candidates) -> Self {
        let layer = layer(policy).with_candidates(candidates.clone());
        let circuits = candidates.iter().map(|candidate| layer.circuit(candidate)).collect();
        Self { layer, circuits }
    }

    /// Fails, if it is let in.
    fn fail(&self, place: usize) -> bool {
        let token = self.circuits[place].check(Instant::now());
        token.map(|token| super::fail(token.expect("it counts"), overloaded())).is_ok()
    }

    /// Which of them let requests through.
    fn lets_in(&self) -> Vec<bool> {
        let now = Instant::now();
        let all: Vec<_> = self.circuits.iter().map(|circuit| circuit.preflight(now).is_ok()).collect();
        for (circuit, let_in) in self.circuits.iter().zip(&all) {
            assert_eq!(circuit.check(now).is_ok(), *let_in, "check and preflight agree");
        }
        all
    }

    fn states(&self) -> Vec<CircuitState> {
        self.circuits.iter().map(|circuit| circuit.status().unwrap().state).collect()
    }
}

use CircuitState::{Closed, Open};

#[tokio::test(start_paused = true)]
async fn the_last_door_stays_open() {
    let model = Model::new(touchy(), candidates(["a", "b", "c"]));
    model.fail(0);
    assert_eq!(model.lets_in(), [false, true, true]);
    model.fail(1);
    assert_eq!(model.lets_in(), [false, false, true]);
    model.fail(2);
    // All have failed once: the first choice is asked.
    assert_eq!((model.lets_in(), model.states()), (vec![true, false, false], vec![Open; 3]));
    // Each failure makes another the least failed.
    assert!(model.fail(0));
    assert_eq!(model.lets_in(), [false, true, false]);
    assert!(model.fail(1) && model.fail(2));
    assert_eq!(model.lets_in(), [true, false, false]);
    // A success closes it at once, and there is a door again.
    let change = succeed(model.circuits[0].check(Instant::now()).unwrap().unwrap()).unwrap();
    assert_eq!((change.phase(), model.states()), (CircuitPhase::Closed, vec![Closed, Open, Open]));
    assert_eq!(model.lets_in(), [true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn a_spared_circuit_still_makes_its_probe() {
    let model = Model::new(touchy(), candidates(["a", "b"]));
    model.fail(0);
    model.fail(1);
    let spared = model.circuits[0].check(Instant::now()).unwrap().unwrap();
    assert!(!spared.is_probe());
    pass(10_000).await;
    let probe = model.circuits[0].check(Instant::now()).unwrap().unwrap();
    assert!(probe.is_probe());
    // What was let in before the probe counts for nothing beside it.
    assert!(succeed(spared).is_none());
    // While the probe is under way the circuit is still spared.
    assert!(!model.circuits[0].check(Instant::now()).unwrap().unwrap().is_probe());
    assert_eq!(succeed(probe).unwrap().phase(), CircuitPhase::Closed);
}

#[tokio::test(start_paused = true)]
async fn alone_a_candidate_keeps_its_circuit() {
    for list in [candidates(["a"]), candidates(["a", "a", "a"])] {
        // Candidates that fail together are one.
        let model = Model::new(touchy(), list);
        model.fail(0);
        assert!(model.lets_in().iter().all(|let_in| !let_in));
    }
    // As does one that the model does not know.
    let model = Model::new(touchy(), candidates(["a", "b"]));
    model.fail(0);
    let stranger = model.layer.circuit(&Arc::new(candidate("c")));
    super::fail(stranger.check(Instant::now()).unwrap().unwrap(), overloaded());
    assert!(stranger.check(Instant::now()).is_err());
    // And it is no door for the others.
    model.fail(1);
    assert_eq!(model.lets_in(), [true, false]);
}

#[tokio::test(start_paused = true)]
async fn the_share_is_a_setting() {
    for (share, open) in [(0.0, 0), (0.24, 0), (0.25, 1), (0.5, 2), (0.99, 3), (1.0, 4)] {
        let model = Model::new(touchy().max_open_share(share), candidates(["a", "b", "c", "d"]));
        for place in 0..4 {
            model.fail(place);
        }
        assert_eq!(model.lets_in().iter().filter(|let_in| !**let_in).count(), open, "{share}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_hand_has_opened_is_not_spared() {
    let model = Model::new(touchy(), candidates(["a", "b"]));
    assert!(model.circuits[0].force_open());
    assert_eq!(model.lets_in(), [false, true]);
    // It counts among the open ones, so the other stays a door.
    model.fail(1);
    assert_eq!(model.lets_in(), [false, true]);
    assert!(model.circuits[1].force_open());
    assert_eq!(model.lets_in(), [false, false]);
}

#[tokio::test(start_paused = true)]
async fn without_probes_a_circuit_opens_for_good_unless_all_are_open() {
    let model = Model::new(touchy().recovery(Recovery::None), candidates(["a", "b"]));
    model.fail(0);
    pass(86_400_000).await;
    assert_eq!(model.lets_in(), [false, true]);
    model.fail(1);
    assert!(model.fail(0));
    assert_eq!(model.lets_in(), [false, true]);
    let token = model.circuits[1].check(Instant::now()).unwrap().unwrap();
    assert_eq!(succeed(token).unwrap().phase(), CircuitPhase::Closed);
    assert_eq!(model.states(), [Open, Closed]);
    assert_eq!(model.lets_in(), [false, true]);
}

#[tokio::test(start_paused = true)]
async fn without_probes_and_without_others_nobody_is_turned_away() {
    for layer in [
        layer(touchy().recovery(Recovery::None)),
        layer(touchy().recovery(Recovery::None)).with_candidates(candidates(["a"])),
        layer(touchy().recovery(Recovery::None).max_open_share(1.0)).with_candidates(candidates(["a"])),
    ] {
        let own = layer.candidates().and_then(|list| list.iter().next().cloned());
        let circuit = layer.circuit(&own.unwrap_or_else(|| Arc::new(candidate("a"))));
        for _ in 0..5 {
            super::fail(circuit.check(Instant::now()).unwrap().unwrap(), overloaded());
        }
        assert_eq!(circuit.status().unwrap().state, Open);
        assert!(succeed(circuit.check(Instant::now()).unwrap().unwrap()).is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_candidate_is_known_by_what_it_is_not_by_its_place() {
    // The list in another order, and equal candidates that are others: all find the same circuits.
    let model = Model::new(touchy(), candidates(["a", "b"]));
    model.fail(0);
    let equal: Arc<Candidate> = Arc::new(candidate("a"));
    assert!(model.layer.circuit(&equal).check(Instant::now()).is_err());
    let turned = CircuitLayer::new(model.layer.registry().clone(), model.layer.policy().clone());
    let turned = turned.with_candidates(candidates(["b", "a"]));
    let list: Vec<_> = turned.candidates().unwrap().iter().cloned().collect();
    assert!(turned.circuit(&list[1]).check(Instant::now()).is_err());
    assert!(turned.circuit(&list[0]).check(Instant::now()).is_ok());
    assert_eq!(model.layer.registry().len(), 2);
    // One of the same name in the same place, but under another account, is another.
    let provider = tower::service_fn(|_: super::Req| std::future::ready(Ok::<_, Failure>(Response::new(Body::new()))));
    let other = Arc::new(candidate("a").with_credential(Secret::new("k")));
    assert!(model.layer.layer(provider).oneshot(super::request_for(&equal, Context::default())).await.is_err());
    model.layer.layer(provider).oneshot(super::request_for(&other, Context::default())).await.unwrap();
    assert_eq!(model.layer.registry().len(), 3);
}
