//! What holds for every layer.

use http::Response;
use stanchion_core::{CredentialStrategy, FailureKind, Selected};
use stanchion_credentials::{CredentialPools, Credentials, CredentialsLayer};
use stanchion_testkit::{Contract, Probe, ScriptedBody, candidate, request, shares_state};
use tower::{ServiceExt, service_fn};

use super::{Req, builder, pools};

#[tokio::test(start_paused = true)]
async fn the_contract_of_every_layer() {
    for strategy in CredentialStrategy::ALL {
        Contract::new(CredentialsLayer::new(pools(builder(["a", "b"]).strategy(strategy)))).check().await;
    }
    let without = || {
        let mut request = request();
        request.extensions_mut().remove::<Selected>();
        request
    };
    Contract::new(CredentialsLayer::new(pools(builder(["a"])))).with_request(without).check().await;
    Contract::new(CredentialsLayer::default()).check().await;
}

#[tokio::test(start_paused = true)]
async fn the_services_of_a_layer_share_its_pools() {
    let layer = CredentialsLayer::new(pools(builder(["a"])));
    let probe = Probe::new(|| Response::new(ScriptedBody::frames(["x"]))).failing([FailureKind::RateLimited]);
    shares_state(&layer, probe.clone(), async |first, second| {
        assert!(first.oneshot(request()).await.is_err());
        assert!(second.oneshot(request()).await.is_err());
    })
    .await;
    assert_eq!(probe.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn who_has_no_pool_goes_through_with_what_it_has() {
    let seen = service_fn(|request: Req| async move {
        let key = request.extensions().get::<Selected>().and_then(|selected| selected.candidate.credential().cloned());
        let response = Response::new(ScriptedBody::frames([key.map_or("none", |_| "some")]));
        Ok::<_, stanchion_core::Failure>(response)
    });
    let service = Credentials::new(seen, pools(builder(["a"])));
    for (provider, expected) in [("primary", "some"), ("other", "none")] {
        let mut request = request();
        request.extensions_mut().insert(Selected::only(candidate(provider)));
        let body = service.clone().oneshot(request).await.unwrap().into_body();
        let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
        assert_eq!(body, expected, "{provider}");
    }
    assert_eq!(service.pools().iter().count(), 1);
    assert!(CredentialPools::default().get("primary").is_none());
}

#[tokio::test(start_paused = true)]
async fn one_candidate_with_one_key_is_always_the_same() {
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let into = seen.clone();
    let inner = service_fn(move |request: Req| {
        into.lock().unwrap().push(request.extensions().get::<Selected>().unwrap().candidate.clone());
        std::future::ready(Ok::<_, stanchion_core::Failure>(Response::new(ScriptedBody::frames(["x"]))))
    });
    let pools = pools(builder(["a", "b"]).strategy(CredentialStrategy::RoundRobin));
    let service = Credentials::new(inner, pools);
    let selected = Selected { candidate: candidate("primary").into(), index: 3, last: false };
    for _ in 0..4 {
        let mut request = request();
        request.extensions_mut().insert(selected.clone());
        service.clone().oneshot(request).await.unwrap();
    }
    let seen = seen.lock().unwrap();
    assert!(std::sync::Arc::ptr_eq(&seen[0], &seen[2]) && std::sync::Arc::ptr_eq(&seen[1], &seen[3]));
    assert_eq!(seen[0].credential().unwrap().expose(), "key-a");
    assert_eq!(seen[1].credential().unwrap().expose(), "key-b");
}

#[tokio::test(start_paused = true)]
async fn layers_are_shown_without_what_is_secret() {
    let builder = builder(["a", "b"]);
    let settings = format!("{builder:?}");
    let layer = CredentialsLayer::new(pools(builder));
    let service = Credentials::new((), layer.pools().clone());
    let shown = format!("{settings} {layer:?} {service:?} {:?}", layer.pools().status());
    assert!(shown.contains("primary") && !shown.contains("key-"), "{shown}");
}
