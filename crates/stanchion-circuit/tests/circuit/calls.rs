//! What comes of calls, and what is told.

use std::sync::{Arc, Mutex};

use http::Response;
use http_body_util::Empty;
use stanchion_circuit::{Circuit, CircuitLayer, CircuitPolicy, CircuitState};
use stanchion_core::{
    BoxError, Candidate, CircuitTurn, Context, DispositionRules, Failure, FailureKind, ForceOpenOn, HintSource, Phase,
    StreamRecord, WaitsForCircuit,
};
use stanchion_testkit::{Events, candidate, request};
use tokio::time::Instant;
use tower::{Layer, Service, ServiceExt, service_fn};
use tower_test::mock;

use super::{Req, failure, hinted, layer, ms, overloaded, pass, request_for, status, touchy};

type Body = Empty<bytes::Bytes>;

/// A reply whose output has begun.
fn answer() -> Response<Body> {
    let (record, mut recorder) = StreamRecord::new();
    recorder.output();
    let mut response = Response::new(Empty::new());
    response.extensions_mut().insert(record);
    response
}

/// A layer around a provider whose answers come one after the other; one more is a panic.
struct Stage {
    layer: CircuitLayer,
    candidate: Arc<Candidate>,
    events: Events,
}

impl Stage {
    fn new(layer: CircuitLayer) -> Self {
        Self { layer, candidate: Arc::new(candidate("primary")), events: Events::new() }
    }

    fn request(&self) -> Req {
        request_for(&self.candidate, self.events.context())
    }

    /// Makes one call, which gets this answer.
    async fn play(&self, reply: Result<(), Failure>) -> Result<(), Failure> {
        self.play_request(self.request(), Some(reply)).await
    }

    /// Makes one call, which never comes to the provider.
    async fn refused(&self) -> Failure {
        self.play_request(self.request(), None).await.unwrap_err()
    }

    async fn play_request(&self, request: Req, reply: Option<Result<(), Failure>>) -> Result<(), Failure> {
        let reply = Mutex::new(reply);
        let provider = service_fn(|_: Req| {
            let reply = reply.lock().unwrap().take().expect("no call");
            std::future::ready(reply.map(|()| answer()).map_err(BoxError::from))
        });
        let result = self.layer.layer(provider).oneshot(request).await.map(drop);
        assert!(reply.lock().unwrap().is_none(), "the call did not come");
        result
    }

    fn state(&self) -> CircuitState {
        self.layer.circuit(&self.candidate).status().expect("it counts").state
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_is_turned_away_is_told_everything_and_the_provider_nothing() {
    let stage = Stage::new(layer(touchy()));
    let opened = stage.play(Err(hinted(status(FailureKind::RateLimited, 429), 20_000))).await.unwrap_err();
    // The failure is the provider's own, and brings the circuit that it opened.
    assert_eq!((opened.kind(), opened.status().map(|status| status.as_u16())), (FailureKind::RateLimited, Some(429)));
    let open = opened.circuit().expect("it opened");
    assert_eq!((open.open_for, open.next_probe), (ms(20_000), Instant::now() + ms(20_000)));

    pass(1_500).await;
    let refused = stage.refused().await;
    assert_eq!((refused.kind(), refused.phase()), (FailureKind::CircuitOpen, Phase::Connect));
    assert_eq!(refused.candidate().map(|name| &**name), Some("primary/gpt-x"));
    let hint = refused.hint().expect("the wait is known");
    assert_eq!((hint.delay(), hint.source()), (ms(18_500), HintSource::Circuit));
    let open = refused.circuit().expect("it is open");
    assert_eq!((open.failure_count, open.sample_count, open.status_code), (1, 1, Some(429)));
    assert_eq!(stage.events.lines(), ["C.opened~20000(1/1)", "C.rejected~18500"]);
}

#[tokio::test(start_paused = true)]
async fn preflight_turns_away_before_anything_queues_and_learns_nothing() {
    let stage = Stage::new(layer(touchy()));
    stage.play(Err(overloaded())).await.unwrap_err();
    let (mut service, mut handle) = mock::spawn_layer::<Req, Response<Body>, _>(stage.layer.preflight());
    std::future::poll_fn(|_| service.poll_ready()).await.unwrap();
    let refused = service.call(stage.request()).await.unwrap_err();
    assert_eq!(refused.kind(), FailureKind::CircuitOpen);
    assert!(refused.circuit().is_some());
    assert_eq!(stage.events.lines(), ["C.opened~10000(1/1)", "C.rejected~10000"]);

    // When the probe is due everyone may pass: which of them is the probe is decided further in.
    pass(10_000).await;
    for _ in 0..3 {
        let call = service.call(stage.request());
        let (_, send) = handle.next_request().await.unwrap();
        send.send_response(answer());
        call.await.unwrap();
        std::future::poll_fn(|_| service.poll_ready()).await.unwrap();
    }
    assert_eq!(stage.state(), CircuitState::Open);
    assert_eq!(stage.events.lines().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_who_waits_tells_it_himself() {
    let stage = Stage::new(layer(touchy()));
    stage.play(Err(overloaded())).await.unwrap_err();
    let mut request = stage.request();
    request.extensions_mut().insert(WaitsForCircuit);
    let refused = stage.play_request(request.clone(), None).await.unwrap_err();
    assert!(refused.circuit().is_some());
    let provider = service_fn(|_: Req| std::future::ready(Ok::<_, Failure>(answer())));
    let service = stage.layer.preflight().layer(provider);
    assert!(service.oneshot(request).await.is_err());
    assert_eq!(stage.events.lines(), ["C.opened~10000(1/1)"]);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_fails_brings_the_circuit_along_too() {
    let stage = Stage::new(layer(touchy()));
    stage.play(Err(overloaded())).await.unwrap_err();
    pass(10_000).await;
    let reopened = stage.play(Err(failure(FailureKind::Truncated))).await.unwrap_err();
    assert_eq!(reopened.kind(), FailureKind::Truncated);
    assert_eq!(reopened.circuit().map(|open| open.retry_after(Instant::now())), Some(ms(10_000)));
    pass(10_000).await;
    stage.play(Ok(())).await.unwrap();
    let lines = ["C.opened~10000(1/1)", "C.probe", "C.reopened~10000(stream_closed)", "C.probe", "C.closed"];
    assert_eq!(stage.events.lines(), lines);
    assert_eq!(stage.state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn the_callers_mistakes_and_our_limits_open_nothing() {
    let stage = Stage::new(layer(CircuitPolicy::builder()));
    for kind in FailureKind::ALL {
        let innocent = stanchion_core::Disposition::of(&failure(kind), &DispositionRules::default()).circuit
            != stanchion_core::CircuitOutcome::Failure;
        for code in [None, Some(400), Some(200), Some(503)] {
            if innocent {
                let failed = code.map_or_else(|| failure(kind), |code| status(kind, code));
                assert!(stage.play(Err(failed)).await.unwrap_err().circuit().is_none());
            }
        }
    }
    let status = stage.layer.registry().status();
    assert_eq!((status.len(), status[0].sample_count, status[0].state), (1, 0, CircuitState::Closed));
    assert!(stage.events.lines().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_table_and_nothing_else_decides() {
    let rules = DispositionRules::default().with_rate_limit_opening_circuit(false);
    let stage = Stage::new(layer(touchy().rules(rules)));
    stage.play(Err(status(FailureKind::RateLimited, 429))).await.unwrap_err();
    assert_eq!(stage.state(), CircuitState::Closed);
    stage.play(Err(overloaded())).await.unwrap_err();
    assert_eq!(stage.state(), CircuitState::Open);
}

#[tokio::test(start_paused = true)]
async fn a_class_of_failures_may_open_at_once() {
    for (class, kind, other) in [
        (ForceOpenOn::Auth, FailureKind::Authentication, FailureKind::QuotaExhausted),
        (ForceOpenOn::Auth, FailureKind::PermissionDenied, FailureKind::QuotaExhausted),
        (ForceOpenOn::Quota, FailureKind::QuotaExhausted, FailureKind::Authentication),
    ] {
        let stage = Stage::new(layer(CircuitPolicy::builder().force_open_on(class)));
        assert!(stage.play(Err(status(other, 403))).await.unwrap_err().circuit().is_none());
        assert!(stage.play(Err(status(kind, 403))).await.unwrap_err().circuit().is_some(), "{kind:?}");
        assert_eq!(stage.refused().await.kind(), FailureKind::CircuitOpen);
        // And a probe that is refused so opens it again.
        pass(10_000).await;
        assert!(stage.play(Err(status(kind, 403))).await.unwrap_err().circuit().is_some());
        assert_eq!(stage.state(), CircuitState::Open);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_inside_a_foreign_error_is_found() {
    let stage = Stage::new(layer(touchy()));
    let provider = service_fn(|_: Req| std::future::ready(Err::<Response<Body>, BoxError>(overloaded().into())));
    let failed = stage.layer.layer(provider).oneshot(stage.request()).await.map(drop).unwrap_err();
    assert!(failed.circuit().is_some());
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_candidate_pass_untouched() {
    let layer = layer(touchy());
    let turn = CircuitTurn::new(());
    let provider = service_fn(|request: Req| {
        assert!(request.extensions().get::<CircuitTurn>().is_some());
        std::future::ready(Err::<Response<Body>, _>(overloaded()))
    });
    for _ in 0..5 {
        let mut request = request();
        request.extensions_mut().remove::<stanchion_core::Selected>();
        request.extensions_mut().insert(turn.clone());
        let failed = layer.preflight().layer(layer.layer(provider)).oneshot(request).await.map(drop).unwrap_err();
        assert!(failed.circuit().is_none());
    }
    assert!(layer.registry().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_turned_away_from_is_still_ready() {
    let stage = Stage::new(layer(touchy()));
    stage.play(Err(overloaded())).await.unwrap_err();
    let (mut service, mut handle) = mock::spawn_layer::<Req, Response<Body>, _>(stage.layer.clone());
    std::future::poll_fn(|_| service.poll_ready()).await.unwrap();
    for _ in 0..3 {
        assert_eq!(service.call(stage.request()).await.map(drop).unwrap_err().kind(), FailureKind::CircuitOpen);
    }
    pass(10_000).await;
    let call = service.call(stage.request());
    let (request, send) = handle.next_request().await.unwrap();
    assert!(Context::of(&request).is_some());
    send.send_response(answer());
    assert!(call.await.is_ok());
    assert_eq!(stage.state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_requests_while_a_probe_is_under_way_reach_nobody() {
    let stage = Stage::new(layer(touchy()));
    stage.play(Err(overloaded())).await.unwrap_err();
    pass(10_000).await;
    let (mut service, mut handle) = mock::spawn_layer::<Req, Response<Body>, _>(stage.layer.clone());
    std::future::poll_fn(|_| service.poll_ready()).await.unwrap();
    let request = request_for(&stage.candidate, Context::default());
    let calls: Vec<_> = (0..10_000).map(|_| service.call(request.clone())).collect();
    let (_, send) = handle.next_request().await.unwrap();
    send.send_response(answer());
    let mut answered = 0;
    for call in calls {
        match call.await {
            Ok(_) => answered += 1,
            Err(refused) => assert_eq!(refused.kind(), FailureKind::CircuitOpen),
        }
    }
    assert_eq!(answered, 1);
    drop(service);
    assert!(handle.next_request().await.is_none(), "a second request came to the provider");
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_a_failure_for_the_circuit_alone() {
    let stage = Stage::new(layer(CircuitPolicy::builder().slow_call(ms(3_000))));
    let slow = |wait| {
        service_fn(move |_: Req| async move {
            tokio::time::sleep(ms(wait)).await;
            Ok::<_, Failure>(answer())
        })
    };
    for _ in 0..10 {
        stage.layer.layer(slow(3_000)).oneshot(stage.request()).await.unwrap();
    }
    assert_eq!(stage.layer.registry().status()[0].failure_count, 0);
    pass(60_001).await;
    for _ in 0..4 {
        stage.layer.layer(slow(3_001)).oneshot(stage.request()).await.unwrap();
    }
    assert_eq!(stage.events.lines(), ["C.opened~10000(4/4)"]);
    assert_eq!(stage.refused().await.circuit().unwrap().reason, stanchion_core::RetryReason::Timeout);
    // A probe that is as slow finds the provider as slow as it was.
    pass(10_000).await;
    stage.layer.layer(slow(3_001)).oneshot(stage.request()).await.unwrap();
    assert_eq!(stage.state(), CircuitState::Open);
    pass(10_000).await;
    stage.layer.layer(slow(1)).oneshot(stage.request()).await.unwrap();
    assert_eq!(stage.state(), CircuitState::Closed);
}

#[tokio::test(start_paused = true)]
async fn the_service_is_made_without_a_layer_too() {
    let provider = service_fn(|_: Req| std::future::ready(Ok::<_, Failure>(answer())));
    let mut service = Circuit::new(provider, stanchion_circuit::CircuitRegistry::new(), CircuitPolicy::default());
    assert!(!service.policy().is_off());
    service.ready().await.unwrap().call(request()).await.unwrap();
    let _ = service.get_ref();
    let _ = service.get_mut();
    let _ = service.into_inner();
}
