//! What every layer keeps.

use std::sync::Arc;

use stanchion_telemetry::{Live, TelemetryLayer};
use stanchion_testkit::{Contract, Probe, ScriptedBody, request, shares_state};
use tower::ServiceExt;

use crate::told;

#[tokio::test(start_paused = true)]
async fn the_contract_of_a_layer_is_kept_with_and_without_sinks() {
    Contract::new(TelemetryLayer::new()).check().await;
    let live = Live::default();
    Contract::new(told().1.sink(Arc::new(live.clone()))).check().await;
    assert_eq!(live.in_flight(), 0);
    assert!(live.snapshot().requests.is_empty());
}

#[tokio::test(start_paused = true)]
async fn services_of_one_layer_tell_the_same_sinks() {
    let (told, layer) = told();
    let probe = Probe::new(|| http::Response::new(ScriptedBody::new([])));
    shares_state(&layer, probe, async |one, two| {
        for service in [one, two] {
            service.oneshot(request()).await.unwrap();
        }
    })
    .await;
    assert_eq!(told.lines(), ["began", "complete", "began", "complete"]);
}
