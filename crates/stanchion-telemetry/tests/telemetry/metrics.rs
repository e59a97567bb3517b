//! What is counted, and how it is shown.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use stanchion_core::{
    AttemptPhase, CacheBreakReason, CircuitPhase, Context, CredentialRotation, CredentialStrategy, Event, ExhaustedBy,
    Failure, FailureKind, FallbackEvent, FrameEvent, FrameFault, HoldEvent, Phase, PromptCacheVolatile, ProviderRetry,
    RequestClass, RetryPhase, RetryReason, RotationReason, StallPhase, Usage, UsageEvent, UsageQuality,
};
use stanchion_telemetry::{
    Metrics, MetricsFormat, TelemetryLayer,
    metrics::{CircuitGauge, MetricKind},
};
use stanchion_testkit::{ScriptedBody, request, request_in};
use tower::{Layer, ServiceExt, service_fn};

use crate::{
    answering, attempt,
    phases::{admission, circuit, stall},
};

fn metrics() -> (Metrics, TelemetryLayer) {
    let metrics = Metrics::new();
    let layer = TelemetryLayer::new().models(["gpt-x"]).sink(Arc::new(metrics.clone()));
    (metrics, layer)
}

/// Each sample with its value.
fn samples(metrics: &Metrics) -> BTreeMap<String, f64> {
    let text = metrics.encode(MetricsFormat::Prometheus);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.into(), value.parse().unwrap()))
        .collect()
}

fn expect(told: &BTreeMap<String, f64>, sample: &str, value: f64) {
    let is = told.get(sample).unwrap_or_else(|| panic!("no {sample}\n{told:#?}"));
    assert!((is - value).abs() < 1e-9, "{sample} is {is}");
}

/// A service that tells these events, and then answers.
fn telling(
    events: Vec<Event>,
    answer: fn() -> Result<Response<ScriptedBody>, Failure>,
) -> impl tower::Service<Request<Full<bytes::Bytes>>, Response = Response<ScriptedBody>, Error = Failure, Future: Send>
{
    service_fn(move |request: Request<Full<bytes::Bytes>>| {
        for event in events.clone() {
            Context::emit(Context::of(&request), || event);
        }
        std::future::ready(answer())
    })
}

fn retry(phase: RetryPhase) -> Event {
    Event::ProviderRetry(ProviderRetry {
        candidate: Some("a/x".into()),
        exhausted_by: (phase == RetryPhase::Exhausted).then_some(ExhaustedBy::RetryBudget),
        ..ProviderRetry::new(phase, RetryReason::RateLimit)
    })
}

fn usage(quality: UsageQuality, tokens: Usage, cost_nanodollars: Option<u64>) -> Event {
    let (candidate, model) = (Some("a/x".into()), Some("x".into()));
    Event::Usage(UsageEvent {
        candidate,
        model,
        request_class: RequestClass::Foreground,
        quality,
        tokens,
        cost_nanodollars,
    })
}

#[tokio::test(start_paused = true)]
async fn events_are_counted_by_candidate_kind_phase_and_reason() {
    let (metrics, layer) = metrics();
    let mut queued = admission(stanchion_core::AdmissionPhase::Admitted);
    if let Event::ProviderAdmission(event) = &mut queued {
        event.wait = Duration::from_secs(2);
    }
    let events = vec![
        admission(stanchion_core::AdmissionPhase::Queued),
        queued,
        admission(stanchion_core::AdmissionPhase::Rejected),
        retry(RetryPhase::Scheduled),
        retry(RetryPhase::Attempt),
        retry(RetryPhase::Attempt),
        retry(RetryPhase::Recovered),
        retry(RetryPhase::Exhausted),
        circuit(CircuitPhase::Opened),
        circuit(CircuitPhase::Waiting),
        circuit(CircuitPhase::Rejected),
        stall(StallPhase::Detected, true),
        stall(StallPhase::Recovered, true),
        Event::ModelFallback(FallbackEvent { from: "a/x".into(), to: "b/y".into() }),
        Event::CredentialRotation(CredentialRotation {
            reason: RotationReason::Quota,
            provider: "a".into(),
            candidate: Some("a/x".into()),
            credential_id: "THE_ID_OF_A_KEY".into(),
            strategy: CredentialStrategy::RoundRobin,
            cooldown: None,
            ready_count: 1,
        }),
        Event::StreamFrame(FrameEvent { fault: FrameFault::TooLarge, bytes: 7 }),
        Event::CommitHold(HoldEvent { bytes: 7 }),
        Event::PromptCacheBreak(Box::new(crate::broken(CacheBreakReason::TtlExpired, 5_500))),
        Event::PromptCacheVolatile(PromptCacheVolatile {
            candidate: Some("a/x".into()),
            model: None,
            request_class: RequestClass::Foreground,
            call_number: 3,
            change_count: 2,
            system_char_delta: 0,
            cache_read_tokens: 0,
        }),
    ];
    layer.layer(telling(events, || Ok(Response::new(ScriptedBody::new([]))))).oneshot(request()).await.unwrap();
    let told = samples(&metrics);
    for (sample, value) in [
        (r#"stanchion_queue_wait_seconds_sum{class="foreground",outcome="admitted"}"#, 2.0),
        (r#"stanchion_queue_wait_seconds_count{class="foreground",outcome="rejected"}"#, 1.0),
        (r#"stanchion_queue_rejections_total{class="foreground",scope="global",reason="capacity"}"#, 1.0),
        (r#"stanchion_retries_total{candidate="a/x",reason="rate_limit"}"#, 2.0),
        (r#"stanchion_recoveries_total{candidate="a/x"}"#, 1.0),
        (r#"stanchion_retries_exhausted_total{candidate="a/x",limit="retry_budget"}"#, 1.0),
        (r#"stanchion_circuit_transitions_total{candidate="a/x",to="opened"}"#, 1.0),
        (r#"stanchion_circuit_rejections_total{candidate="a/x"}"#, 1.0),
        (r#"stanchion_stalls_total{candidate="a/x",phase="after_output"}"#, 1.0),
        (r#"stanchion_fallbacks_total{from="a/x",to="b/y"}"#, 1.0),
        (r#"stanchion_credential_rotations_total{provider="a",reason="quota"}"#, 1.0),
        (r#"stanchion_stream_frame_faults_total{fault="too_large"}"#, 1.0),
        ("stanchion_commit_holds_let_go_total", 1.0),
        (r#"stanchion_prompt_cache_breaks_total{candidate="a/x",reason="ttl_expired",class="foreground"}"#, 1.0),
        (
            r#"stanchion_prompt_cache_lost_tokens_total{candidate="a/x",reason="ttl_expired",class="foreground"}"#,
            5_500.0,
        ),
        (r#"stanchion_prompt_cache_lost_dollars_total{candidate="a/x",reason="ttl_expired",class="foreground"}"#, 7e-8),
        (r#"stanchion_prompt_cache_volatile_total{candidate="a/x"}"#, 1.0),
    ] {
        expect(&told, sample, value);
    }
    assert!(!told.keys().any(|sample| sample.contains(r#"to="waiting""#) || sample.contains("THE_ID_OF_A_KEY")));
}

#[tokio::test(start_paused = true)]
async fn attempts_and_requests_are_counted_apart() {
    let (metrics, layer) = metrics();
    let service = service_fn(|request: Request<Full<bytes::Bytes>>| async move {
        let context = Context::of(&request);
        attempt(context, AttemptPhase::Started, "a/x", None);
        attempt(context, AttemptPhase::Failed, "a/x", Some(FailureKind::Overloaded));
        attempt(context, AttemptPhase::Started, "b/y", None);
        attempt(context, AttemptPhase::Committed, "b/y", None);
        Ok::<_, Failure>(Response::new(ScriptedBody::frames(["12345"])))
    });
    let reply = layer.layer(service).oneshot(request()).await.unwrap();
    let in_flight = r#"stanchion_requests_in_flight{model="gpt-x",class="foreground"}"#;
    expect(&samples(&metrics), in_flight, 1.0);
    reply.into_body().collect().await.unwrap();
    let failure = Failure::new(FailureKind::QueueFull).with_phase(Phase::Connect);
    layer.layer(answering([Err(failure)])).oneshot(request()).await.unwrap_err();
    let told = samples(&metrics);
    for (sample, value) in [
        (in_flight, 0.0),
        (r#"stanchion_attempts_total{candidate="a/x"}"#, 1.0),
        (r#"stanchion_commits_total{candidate="b/y"}"#, 1.0),
        (r#"stanchion_attempt_failures_total{candidate="a/x",kind="overloaded",phase="head"}"#, 1.0),
        (r#"stanchion_requests_total{model="gpt-x",class="foreground",dialect="openai-chat",ending="complete"}"#, 1.0),
        (r#"stanchion_requests_total{model="gpt-x",class="foreground",dialect="openai-chat",ending="failed"}"#, 1.0),
        (r#"stanchion_request_failures_total{model="gpt-x",kind="queue_full",phase="connect"}"#, 1.0),
        (r#"stanchion_response_bytes_total{model="gpt-x"}"#, 5.0),
        (
            r#"gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="gpt-x"}"#,
            1.0,
        ),
        (
            r#"gen_ai_client_operation_duration_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="gpt-x",error_type="queue_full"}"#,
            1.0,
        ),
        (
            r#"gen_ai_client_operation_time_to_first_chunk_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="gpt-x"}"#,
            1.0,
        ),
        (
            r#"gen_ai_server_time_to_first_token_seconds_count{gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="gpt-x"}"#,
            1.0,
        ),
    ] {
        expect(&told, sample, value);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_known_of_tokens_and_costs_is_not_counted_as_nothing() {
    let (metrics, layer) = metrics();
    let whole =
        Usage { input: Some(100), cache_read: Some(800), cache_write: Some(100), output: Some(50), ..Usage::default() };
    let silent = Usage { input: Some(70), output: Some(5), ..Usage::default() };
    let (whole, silent) =
        (usage(UsageQuality::Measured, whole, Some(1_500_000_000)), usage(UsageQuality::Estimated, silent, None));
    // An attempt that was thrown away is counted beside the reply of its request.
    for told in [vec![whole.clone()], vec![silent], vec![usage(UsageQuality::Unknown, Usage::default(), None), whole]] {
        let service = telling(told, || Ok(Response::new(ScriptedBody::new([]))));
        layer.layer(service).oneshot(request()).await.unwrap();
    }
    let told = samples(&metrics);
    for (sample, value) in [
        (r#"stanchion_prompt_cache_read_tokens_total{model="gpt-x",candidate="a/x"}"#, 1_600.0),
        (r#"stanchion_prompt_cache_input_tokens_total{model="gpt-x",candidate="a/x"}"#, 2_000.0),
        (r#"stanchion_prompt_cache_written_tokens_total{model="gpt-x",candidate="a/x"}"#, 200.0),
        (r#"stanchion_cost_dollars_total{model="gpt-x",class="foreground"}"#, 3.0),
        (r#"stanchion_unpriced_requests_total{model="gpt-x",class="foreground"}"#, 2.0),
        (
            r#"gen_ai_client_token_usage_sum{gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="gpt-x",gen_ai_token_type="input"}"#,
            2_000.0,
        ),
        (
            r#"gen_ai_client_token_usage_count{gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_request_model="gpt-x",gen_ai_token_type="output"}"#,
            2.0,
        ),
    ] {
        expect(&told, sample, value);
    }
}

#[tokio::test(start_paused = true)]
async fn models_that_are_not_configured_are_one() {
    let (metrics, layer) = metrics();
    for model in ["gpt-x", "gpt-y", "gpt-z", "<script>"] {
        let mut request = request_in(Context::default());
        request.extensions_mut().get_mut::<stanchion_core::Call>().unwrap().model = Some(model.into());
        layer.layer(answering([Ok(Response::new(ScriptedBody::new([])))])).oneshot(request).await.unwrap();
    }
    let told = samples(&metrics);
    expect(&told, r#"stanchion_request_bytes_total{model="other"}"#, 0.0);
    for (model, requests) in [("gpt-x", 1.0), ("other", 3.0)] {
        let labels = format!(r#"model="{model}",class="foreground",dialect="openai-chat",ending="complete""#);
        expect(&told, &format!("stanchion_requests_total{{{labels}}}"), requests);
    }
    assert!(!told.keys().any(|sample| sample.contains("gpt-y") || sample.contains("script")));
}

#[tokio::test(start_paused = true)]
async fn label_sets_are_bounded_and_what_is_too_much_is_counted() {
    let metrics = Metrics::with_label_sets(3);
    let layer = TelemetryLayer::new().sink(Arc::new(metrics.clone()));
    let service = service_fn(|request: Request<Full<bytes::Bytes>>| async move {
        for number in 0..50 {
            attempt(Context::of(&request), AttemptPhase::Started, &format!("a/{number}"), None);
        }
        attempt(Context::of(&request), AttemptPhase::Started, "a/0", None);
        Ok::<_, Failure>(Response::new(ScriptedBody::new([])))
    });
    layer.layer(service).oneshot(request()).await.unwrap();
    metrics.pull(|pulled| {
        for number in 0..50 {
            pulled.candidate(&format!("a/{number}").into(), 1, 1, None);
        }
    });
    let told = samples(&metrics);
    let of = |name: &str| told.keys().filter(|sample| sample.starts_with(name)).count();
    assert_eq!((of("stanchion_attempts_total"), of("stanchion_candidate_queue_depth")), (3, 3));
    expect(&told, r#"stanchion_attempts_total{candidate="a/0"}"#, 2.0);
    expect(&told, r#"stanchion_metrics_overflow_total{metric="stanchion_attempts_total"}"#, 47.0);
}

#[tokio::test(start_paused = true)]
async fn what_others_know_is_asked_at_the_scrape() {
    let (metrics, _) = metrics();
    assert_eq!(metrics.encode(MetricsFormat::Prometheus), "");
    let depth = Arc::new(std::sync::atomic::AtomicU64::new(3));
    let asked = depth.clone();
    metrics.pull(move |pulled| {
        pulled.class(RequestClass::Background, asked.load(std::sync::atomic::Ordering::SeqCst), 2);
        pulled.permit_limit(8);
        pulled.circuit(&"a/x".into(), CircuitGauge::Open);
        pulled.circuit(&"a/x".into(), CircuitGauge::Closed);
    });
    metrics.pull(|pulled| {
        pulled.call_records(10, 4);
        pulled.refusals("unknown_key", 7);
        pulled.refusals("rate", 0);
        pulled.connections(3, 10);
        pulled.configuration(SystemTime::UNIX_EPOCH + Duration::from_secs(9), false, "1.2.3");
    });
    let told = samples(&metrics);
    for (sample, value) in [
        (r#"stanchion_queue_depth{class="background"}"#, 3.0),
        (r#"stanchion_permits_in_flight{class="background"}"#, 2.0),
        ("stanchion_permits_limit", 8.0),
        // Of a provider with two credentials.
        (r#"stanchion_circuit_state{candidate="a/x",state="open"}"#, 1.0),
        (r#"stanchion_circuit_state{candidate="a/x",state="closed"}"#, 1.0),
        (r#"stanchion_circuit_state{candidate="a/x",state="half_open"}"#, 0.0),
        ("stanchion_call_records_dropped_total", 4.0),
        (r#"stanchion_refusals_total{reason="unknown_key"}"#, 7.0),
        (r#"stanchion_refusals_total{reason="rate"}"#, 0.0),
        ("stanchion_connections", 3.0),
        ("stanchion_connections_limit", 10.0),
        ("stanchion_config_last_reload_successful", 0.0),
        ("stanchion_config_last_reload_success_timestamp_seconds", 9.0),
        (r#"stanchion_build_info{version="1.2.3"}"#, 1.0),
    ] {
        expect(&told, sample, value);
    }
    depth.store(0, std::sync::atomic::Ordering::SeqCst);
    expect(&samples(&metrics), r#"stanchion_queue_depth{class="background"}"#, 0.0);
}

#[tokio::test(start_paused = true)]
async fn both_formats_name_every_metric_with_its_type() {
    let (metrics, layer) = metrics();
    layer.layer(answering([Ok(Response::new(ScriptedBody::new([])))])).oneshot(request()).await.unwrap();
    let text = metrics.encode(MetricsFormat::accepted("text/plain"));
    assert!(text.contains("# TYPE stanchion_requests_total counter\n"), "{text}");
    assert!(text.contains("# TYPE stanchion_requests_in_flight gauge\n"), "{text}");
    assert!(text.contains("# TYPE gen_ai_client_operation_duration_seconds histogram\n"), "{text}");
    assert!(text.contains(r#",le="81.92"} 1"#), "{text}");
    let open = MetricsFormat::accepted("application/openmetrics-text; version=1.0.0,text/plain;q=0.5");
    assert!(open.content_type().starts_with("application/openmetrics-text"));
    let text = metrics.encode(open);
    assert!(text.contains("# TYPE stanchion_requests counter\n") && text.ends_with("# EOF\n"), "{text}");
}

#[test]
fn names_have_their_units_and_suffixes() {
    for info in Metrics::list() {
        assert!(info.name.starts_with("stanchion_") || info.name.starts_with("gen_ai_"), "{}", info.name);
        assert_eq!(info.name.ends_with("_total"), info.kind == MetricKind::Counter, "{}", info.name);
        let unit = ["seconds", "bytes", "dollars"].into_iter().find(|unit| info.unit.ends_with(unit));
        let name = info.name.trim_end_matches("_total");
        assert!(unit.is_none_or(|unit| name.ends_with(unit)), "{}", info.name);
        assert_eq!(info.kind == MetricKind::Histogram, !info.buckets.is_empty(), "{}", info.name);
        assert!(info.buckets.is_sorted(), "{}", info.name);
        for secret in ["session", "owner", "credential_id", "key"] {
            assert!(!info.labels.contains(&secret), "{}", info.name);
        }
    }
}

#[test]
fn the_page_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let how = "docs/metrics.md is not what the code says. Run: cargo run -p stanchion-telemetry --example metrics_page > docs/metrics.md";
    assert!(committed == Metrics::page(), "{how}");
}
