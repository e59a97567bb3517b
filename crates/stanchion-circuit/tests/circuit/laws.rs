//! What holds for every layer.

use http::Response;
use stanchion_circuit::{CircuitLayer, CircuitPolicy, CircuitState, LateFailure, SuccessOn};
use stanchion_core::FailureKind;
use stanchion_testkit::{Contract, Probe, ScriptedBody, candidates, request, shares_state};
use tower::ServiceExt;

use super::{layer, touchy};

#[tokio::test(start_paused = true)]
async fn the_contract_of_every_layer() {
    for policy in [
        CircuitPolicy::builder(),
        CircuitPolicy::builder().open(super::ms(0)),
        CircuitPolicy::builder().success_on(SuccessOn::End).late_failure(LateFailure::Count),
    ] {
        let layer = layer(policy);
        Contract::new(layer.clone()).check().await;
        Contract::new(layer.preflight()).check().await;
        let without = || {
            let mut request = request();
            request.extensions_mut().remove::<stanchion_core::Selected>();
            request
        };
        Contract::new(layer.clone()).with_request(without).check().await;
        Contract::new(layer.preflight()).with_request(without).check().await;
        let known = layer.with_candidates(candidates(["primary", "spare"]));
        Contract::new(known).check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_services_of_a_layer_share_its_circuits() {
    let layer = layer(touchy());
    let probe = Probe::new(|| Response::new(ScriptedBody::frames(["x"]))).failing([FailureKind::Overloaded]);
    shares_state(&layer, probe.clone(), async |first, second| {
        assert!(first.oneshot(request()).await.is_err());
        let refused = second.oneshot(request()).await.map(drop).unwrap_err();
        assert_eq!(refused.kind(), FailureKind::CircuitOpen);
    })
    .await;
    shares_state(&layer.preflight(), probe.clone(), async |first, second| {
        for service in [first, second] {
            assert!(service.oneshot(request()).await.is_err());
        }
    })
    .await;
    assert_eq!(probe.calls(), 1);
    assert_eq!(layer.registry().status()[0].state, CircuitState::Open);
}

#[test]
fn layers_are_shown_without_what_is_secret() {
    let layer = CircuitLayer::default().with_candidates(candidates(["primary"]));
    let shown = format!("{layer:?} {:?} {:?}", layer.preflight(), layer.registry());
    assert!(shown.contains("primary/gpt-x") && !shown.contains("primary.test"), "{shown}");
    assert_eq!(layer.candidates().map(stanchion_core::Candidates::len), Some(1));
}
