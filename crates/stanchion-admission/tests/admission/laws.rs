//! What holds for every layer.

use stanchion_admission::{Adaptive, AdmissionLayer, AdmissionPolicy, AdmissionScheduler};
use stanchion_core::RequestClass;
use stanchion_testkit::{Contract, request, shares_state};

use super::*;

#[tokio::test(start_paused = true)]
async fn the_contract_of_every_layer() {
    let without_candidate = || {
        let mut request = request();
        request.extensions_mut().remove::<Selected>();
        request
    };
    let without_context = || {
        let mut request = request();
        request.extensions_mut().remove::<Context>();
        request
    };
    for layer in [
        AdmissionLayer::default(),
        layer(one_at_a_time()),
        layer(AdmissionPolicy::builder().adaptive(Adaptive::builder().build().unwrap())),
        AdmissionLayer::new(
            scheduler(AdmissionScheduler::builder().global_concurrency(1).owner_concurrency(1)),
            AdmissionPolicy::default(),
        ),
    ] {
        Contract::new(layer.clone()).check().await;
        Contract::new(layer.clone()).with_request(without_candidate).check().await;
        Contract::new(layer).with_request(without_context).check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_services_of_a_layer_share_its_permits() {
    let layer = layer(one_at_a_time());
    shares_state(&layer, provider(), async |mut first, mut second| {
        std::future::poll_fn(|cx| Service::<Req>::poll_ready(&mut first, cx)).await.unwrap();
        std::future::poll_fn(|cx| Service::<Req>::poll_ready(&mut second, cx)).await.unwrap();
        let held = first.call(request()).await.unwrap();
        let mut waiting = task::spawn(Box::pin(second.call(request())));
        assert!(waiting.poll().is_pending());
        drop(held);
        assert!(waiting.is_woken());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_is_shown_names_nobody_and_nothing_secret() {
    let layer = AdmissionLayer::new(
        scheduler(AdmissionScheduler::builder().weight("alice", 2).owner_concurrency(1)),
        one_at_a_time().build().unwrap(),
    );
    let mut running = call(&layer, &provider(), of("alice", RequestClass::Foreground)).await;
    let running = settle(&mut running).unwrap().unwrap();
    let mut waiting = call(&layer, &provider(), of("bob", RequestClass::Background)).await;
    assert!(settle(&mut waiting).is_none());
    let service = layer.layer(provider());
    let builder = AdmissionScheduler::builder().weight("alice", 2);
    let status = layer.scheduler().status();
    let shown = format!(
        "{layer:?} {:?} {waiting:?} {:?} {service:?} {builder:?} {status:?}",
        layer.scheduler(),
        running.body()
    );
    for secret in ["alice", "bob", "primary.test"] {
        assert!(!shown.contains(secret), "{shown}");
    }
    let status = serde_json::to_value(status).unwrap();
    assert_eq!(
        status,
        serde_json::json!({
            "in_flight": 1, "owner_limit": 1, "queued": 1, "max_pending": 128,
            "non_foreground": { "in_flight": 0, "queued": 1 }, "internal": { "in_flight": 0, "queued": 0 },
            "owner_count": 2, "domain_count": 1, "closed": false,
            "domains": [{ "candidate": "primary/gpt-x", "in_flight": 1, "queued": 1 }],
        })
    );
}
