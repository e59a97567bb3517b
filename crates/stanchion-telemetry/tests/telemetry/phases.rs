//! Where a request stands, by its events.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use stanchion_core::{
    AdmissionPhase, AdmissionReason, AdmissionResource, AdmissionScope, AttemptPhase, CircuitPhase, Context, Event,
    Failure, FailureKind, FallbackEvent, ProviderAdmission, ProviderCircuit, ProviderRetry, ProviderStall,
    RequestClass, RetryPhase, RetryReason, StallPhase,
};
use stanchion_telemetry::{RequestPhase, RequestRecord, Wait};
use stanchion_testkit::{ScriptedBody, request};
use tower::{Layer, ServiceExt, service_fn};

use crate::{attempt, told};

pub(crate) fn admission(phase: AdmissionPhase) -> Event {
    Event::ProviderAdmission(ProviderAdmission {
        phase,
        candidate: Some("a/x".into()),
        request_class: RequestClass::Foreground,
        resource: AdmissionResource::Stream,
        scope: AdmissionScope::Global,
        reason: (phase != AdmissionPhase::Admitted).then_some(AdmissionReason::Capacity),
        queue_position: 1,
        queue_depth: 1,
        in_flight: 1,
        limit: 1,
        wait: Duration::ZERO,
        max_wait: Duration::from_secs(180),
        recovery_remaining: None,
    })
}

pub(crate) fn circuit(phase: CircuitPhase) -> Event {
    Event::ProviderCircuit(ProviderCircuit {
        phase,
        candidate: Some("a/x".into()),
        reason: RetryReason::ServerError,
        status_code: None,
        retry_after: None,
        next_probe_at: None,
        open_duration: Duration::from_secs(10),
        sample_count: 4,
        failure_count: 4,
        recovery_remaining: None,
    })
}

pub(crate) fn stall(phase: StallPhase, output_started: bool) -> Event {
    Event::ProviderStall(ProviderStall {
        phase,
        candidate: Some("a/x".into()),
        stall_count: 1,
        duration: Duration::from_secs(10),
        warning_after: Duration::from_secs(10),
        timeout: None,
        output_started,
    })
}

fn retry(phase: RetryPhase) -> Event {
    Event::ProviderRetry(ProviderRetry::new(phase, RetryReason::ServerError))
}

#[tokio::test(start_paused = true)]
async fn a_request_is_seen_through_all_its_phases_and_its_waits_are_added_up() {
    use RequestPhase::{FirstOutputPending as Pending, Queued, Stalled, Streaming, Waiting};
    let (told, layer) = told();
    let watching = told.clone();
    let service = service_fn(move |request: Request<Full<bytes::Bytes>>| {
        let told = watching.clone();
        async move {
            let context = Context::of(&request).cloned();
            let context = context.as_ref();
            let request = told.request();
            let stands = |phase, wait: Option<Wait>, attempt| {
                let standing = request.standing();
                assert_eq!((standing.phase, standing.wait, standing.attempt), (phase, wait, attempt));
            };
            let second = || tokio::time::sleep(Duration::from_secs(1));
            let emit = |event: Event| Context::emit(context, move || event);
            stands(Pending, None, 0);
            emit(admission(AdmissionPhase::Queued));
            second().await;
            // Told again while it goes on.
            emit(admission(AdmissionPhase::Queued));
            second().await;
            stands(Queued, Some(Wait::Queue), 0);
            assert_eq!(request.standing().phase_age, Duration::from_secs(2));
            emit(admission(AdmissionPhase::Admitted));
            attempt(context, AttemptPhase::Started, "a/x", None);
            stands(Pending, None, 1);
            second().await;
            emit(stall(StallPhase::Detected, false));
            stands(Stalled, None, 1);
            emit(stall(StallPhase::Recovered, false));
            stands(Pending, None, 1);
            attempt(context, AttemptPhase::Failed, "a/x", Some(FailureKind::ServerError));
            emit(retry(RetryPhase::Scheduled));
            second().await;
            second().await;
            second().await;
            stands(Waiting, Some(Wait::Backoff), 1);
            emit(circuit(CircuitPhase::Waiting));
            stands(Waiting, Some(Wait::Circuit), 1);
            second().await;
            emit(circuit(CircuitPhase::Probe));
            stands(Pending, None, 1);
            emit(retry(RetryPhase::Attempt));
            emit(retry(RetryPhase::Exhausted));
            let (from, to) = ("a/x".into(), "b/y".into());
            emit(Event::ModelFallback(FallbackEvent { from, to }));
            assert_eq!(request.standing().candidate.as_deref(), Some("b/y"));
            attempt(context, AttemptPhase::Started, "b/y", None);
            attempt(context, AttemptPhase::Committed, "b/y", None);
            stands(Streaming, None, 2);
            emit(stall(StallPhase::Detected, true));
            stands(Stalled, None, 2);
            second().await;
            emit(stall(StallPhase::Recovered, true));
            stands(Streaming, None, 2);
            Ok::<_, Failure>(Response::new(ScriptedBody::new([])))
        }
    });
    layer.layer(service).oneshot(request()).await.unwrap();
    let record = told.record();
    let waits = [record.waits.queue, record.waits.backoff, record.waits.circuit].map(|wait| wait.as_secs());
    assert_eq!((waits, record.duration.as_secs()), ([2, 3, 1], 8));
    assert_eq!((record.retries, record.fallbacks, record.stalls), (1, 1, 2));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_cut_by_the_end_counts() {
    let (told, layer) = told();
    let service = service_fn(|request: Request<Full<bytes::Bytes>>| async move {
        Context::emit(Context::of(&request), || admission(AdmissionPhase::Queued));
        tokio::time::sleep(Duration::from_secs(3)).await;
        Err::<Response<ScriptedBody>, _>(Failure::new(FailureKind::QueueTimeout))
    });
    layer.layer(service).oneshot(request()).await.unwrap_err();
    assert_eq!(told.record().waits.queue, Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded_and_the_last_is_kept() {
    let (told, layer) = told();
    let most = RequestRecord::MAX_ATTEMPTS as u32;
    let service = service_fn(move |request: Request<Full<bytes::Bytes>>| async move {
        for _ in 0..most + 5 {
            attempt(Context::of(&request), AttemptPhase::Started, "a/x", None);
        }
        Ok::<_, Failure>(Response::new(ScriptedBody::new([])))
    });
    layer.layer(service).oneshot(request()).await.unwrap();
    let record = told.record();
    let numbers: Vec<_> = record.attempts.iter().map(|attempt| attempt.number).collect();
    assert_eq!((numbers.len() as u32, numbers[30], numbers[31]), (most, 31, most + 5));
    assert_eq!(record.attempts_omitted, 5);
}
