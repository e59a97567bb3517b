//! What an operator sees, and does.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::Response;
use http_body_util::Empty;
use serde_json::json;
use stanchion_circuit::{CircuitPolicy, CircuitState};
use stanchion_core::{BoxError, FailureKind, Phase};
use stanchion_testkit::{Events, candidate};
use tower::{Layer, ServiceExt, service_fn};

use super::{One, Req, layer, ms, overloaded, pass, request_for, succeed};

#[tokio::test(start_paused = true)]
async fn a_listing_tells_each_circuit_by_its_candidates_name() {
    let one = One::new(CircuitPolicy::builder());
    let other = One::of(one.layer.clone(), candidate("another"));
    succeed(other.allowed());
    other.fail();
    one.open();
    pass(2_500).await;
    let shown = serde_json::to_value(one.layer.registry().status()).unwrap();
    let open = json!({
        "candidate": "primary/gpt-x", "state": "open", "by_hand": false, "sample_count": 4, "failure_count": 4,
        "consecutive_failures": 4, "waiting": 0, "next_probe_ms": 7500, "open_duration_ms": 10_000,
        "reason": "server_error", "status_code": 503,
    });
    let closed = json!({
        "candidate": "another/gpt-x", "state": "closed", "by_hand": false, "sample_count": 2, "failure_count": 1,
        "consecutive_failures": 1, "waiting": 0,
    });
    assert_eq!(shown, json!([closed, open]));
    pass(7_500).await;
    let probe = one.probe();
    let shown = serde_json::to_value(one.handle.status()).unwrap();
    assert_eq!((&shown["state"], &shown["next_probe_ms"]), (&json!("half_open"), &json!(50)));
    drop(probe);
}

#[tokio::test(start_paused = true)]
async fn a_hand_opens_until_a_hand_closes() {
    let one = One::new(CircuitPolicy::builder());
    let registry = one.layer.registry().clone();
    assert_eq!(registry.force_open("primary/gpt-x"), 0, "it is not known before it is used");
    let under_way = one.allowed();
    assert_eq!(registry.force_open("primary/gpt-x"), 1);
    assert!(succeed(under_way).is_none());
    let status = one.handle.status().unwrap();
    assert_eq!((status.state, status.by_hand, status.next_probe), (CircuitState::Open, true, None));
    pass(86_400_000).await;
    // Those who are turned away are told to ask again after the usual time.
    assert_eq!(one.denied().open_for, ms(10_000));
    assert_eq!(registry.close("primary/gpt-x"), 1);
    assert_eq!(one.state(), CircuitState::Closed);
    assert_eq!((registry.close("primary/gpt-x"), registry.close("nobody")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn closing_forgets_the_samples_of_an_open_circuit_and_leaves_a_closed_one_alone() {
    let one = One::new(CircuitPolicy::builder());
    one.fail();
    assert!(one.handle.close());
    assert_eq!(one.counts(), (1, 1));
    one.open();
    assert!(one.handle.close());
    assert_eq!((one.state(), one.counts()), (CircuitState::Closed, (0, 0)));
    one.fail();
    let under_way = one.allowed();
    assert!(one.handle.reset());
    super::fail(under_way, overloaded());
    assert_eq!(one.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn one_name_may_have_several_circuits() {
    let first = layer(CircuitPolicy::builder());
    let policy = CircuitPolicy::builder().open(ms(20_000)).build().unwrap();
    let second = stanchion_circuit::CircuitLayer::new(first.registry().clone(), policy);
    let (one, other) = (One::of(first.clone(), candidate("primary")), One::of(second, candidate("primary")));
    drop(one.allowed());
    drop(other.allowed());
    assert_eq!(first.registry().force_open("primary/gpt-x"), 2);
    one.denied();
    other.denied();
    assert_eq!(first.registry().reset("primary/gpt-x"), 2);
    drop(one.allowed());
    assert!(!first.registry().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_drained_candidate_is_asked_by_nobody_and_its_circuit_learns_nothing() {
    for policy in [CircuitPolicy::builder(), CircuitPolicy::builder().open(ms(0))] {
        let layer = layer(policy);
        let (candidate, events) = (Arc::new(candidate("primary")), Events::new());
        let calls = Arc::new(AtomicUsize::new(0));
        let provider = service_fn({
            let calls = calls.clone();
            move |_: Req| {
                calls.fetch_add(1, Ordering::Relaxed);
                std::future::ready(Ok::<_, BoxError>(Response::new(Empty::<bytes::Bytes>::new())))
            }
        });
        let guarded = layer.layer(provider);
        let preflight = layer.preflight().layer(guarded.clone());
        let request = || request_for(&candidate, events.context());
        guarded.clone().oneshot(request()).await.unwrap();
        candidate.drain().set(true);
        let turned_away = [
            guarded.clone().oneshot(request()).await.map(drop).unwrap_err(),
            preflight.clone().oneshot(request()).await.map(drop).unwrap_err(),
        ];
        for failure in turned_away {
            assert_eq!((failure.kind(), failure.phase()), (FailureKind::Drained, Phase::Connect));
            assert!(failure.circuit().is_none() && failure.hint().is_none(), "nobody waits for it");
        }
        assert!(layer.registry().status().iter().all(|status| status.sample_count <= 1));
        candidate.drain().set(false);
        preflight.oneshot(request()).await.unwrap();
        assert_eq!((calls.load(Ordering::Relaxed), events.lines().len()), (2, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn the_circuit_of_a_candidate_that_is_no_more_is_forgotten_even_if_it_is_open() {
    let one = One::new(CircuitPolicy::builder());
    let registry = one.layer.registry().clone();
    let other = One::of(one.layer.clone(), candidate("another"));
    other.fail();
    let under_way = one.allowed();
    one.open();
    let (gone, kept) = (candidate("primary"), candidate("another"));
    let stricter = CircuitPolicy::builder().consecutive(2).build().unwrap();
    assert_eq!(registry.retain([(&gone, one.layer.policy()), (&kept, one.layer.policy())]), 0);
    assert_eq!(one.state(), CircuitState::Open);
    assert_eq!(
        registry.retain([(&gone, &stricter), (&kept, one.layer.policy())]),
        1,
        "another policy is another circuit"
    );
    assert_eq!(registry.retain([(&kept, one.layer.policy())]), 0);
    assert_eq!((registry.len(), other.handle.status().unwrap().failure_count), (1, 1));
    // What was under way counts for nothing, and whoever comes after all finds a new one.
    assert!(succeed(under_way).is_none());
    assert_eq!(registry.len(), 1);
    succeed(one.allowed());
    assert_eq!((one.state(), registry.len()), (CircuitState::Closed, 2));
}
