//! How requests end, each exactly once.

use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use stanchion_core::{
    AttemptPhase, Candidate, Context, Ending, Event, Failure, FailureKind, Family, Framing, Phase, Selected,
    StreamRecord, Usage, UsageEvent, UsageQuality,
};
use stanchion_telemetry::{AttemptOutcome, RequestBegan};
use stanchion_testkit::{Probe, ScriptedBody, Step, request, request_in};
use tokio_test::{assert_pending, assert_ready};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::{answering, attempt, told};

fn stream() -> ScriptedBody {
    ScriptedBody::new([Step::Data("ab".into()), Step::Pending, Step::Data("c".into()), Step::Pending])
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_ends_is_complete() {
    let (told, layer) = told();
    let body = stream().then(Step::Delay(Duration::from_secs(2))).then(Step::End).hides_end();
    let reply = layer.layer(answering([Ok(Response::new(body))])).oneshot(request()).await.unwrap();
    assert_eq!(reply.into_body().collect().await.unwrap().to_bytes(), "abc");
    assert_eq!(told.lines(), ["began", "first chunk 0", "complete"]);
    let record = told.record();
    assert_eq!((record.ending, record.replied, record.status_code), (Ending::Complete, true, Some(200)));
    assert_eq!((record.bytes, record.duration.as_secs(), record.failure), (3, 2, None));
    assert_eq!((&*record.began.model, record.began.requested_model.as_deref()), ("gpt-x", Some("gpt-x")));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_reports_its_end_need_not_be_asked_once_more() {
    let (told, layer) = told();
    let body = ScriptedBody::frames(["ab", "c"]);
    let mut body = layer.layer(answering([Ok(Response::new(body))])).oneshot(request()).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(told.lines(), ["began", "first chunk 0"]);
    body.frame().await.unwrap().unwrap();
    assert_eq!(told.lines(), ["complete"]);
    drop(body);
    assert_eq!(told.record().bytes, 3);
}

#[tokio::test(start_paused = true)]
async fn a_reply_without_a_body_is_complete_at_once() {
    let (told, layer) = told();
    let reply = layer.layer(answering([Ok(Response::new(ScriptedBody::new([])))])).oneshot(request()).await.unwrap();
    assert_eq!(told.lines(), ["began", "complete"]);
    drop(reply);
    assert_eq!(told.lines(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_instead_of_a_reply_has_its_kind_phase_status_and_candidate() {
    let (told, layer) = told();
    let failure = Failure::new(FailureKind::Overloaded)
        .with_phase(Phase::BeforeOutput)
        .with_status(StatusCode::SERVICE_UNAVAILABLE)
        .with_candidate("b/y");
    let failed = layer.layer(answering([Err(failure)])).oneshot(request()).await.unwrap_err();
    assert_eq!(failed.kind(), FailureKind::Overloaded);
    assert_eq!(told.lines(), ["began", "failed overloaded"]);
    let record = told.record();
    assert_eq!((record.failed_in, record.status_code), (Some(Phase::BeforeOutput), Some(503)));
    assert_eq!((record.candidate.as_deref(), record.replied), (Some("b/y"), false));
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_breaks_off_has_failed_and_one_that_is_cut_is_truncated() {
    for (kind, line) in [
        (FailureKind::Transport, "failed connection_broken"),
        (FailureKind::Truncated, "truncated stream_truncated"),
        (FailureKind::IdleTimeout, "failed idle_timeout"),
    ] {
        let (told, layer) = told();
        let reply = layer.layer(answering([Ok(Response::new(stream().then(Step::Error(kind))))])).oneshot(request());
        assert!(reply.await.unwrap().into_body().collect().await.is_err());
        assert_eq!(told.lines(), ["began", "first chunk 0", line]);
        let record = told.record();
        assert_eq!((record.failure, record.failed_in, record.bytes), (Some(kind), Some(Phase::AfterOutput), 3));
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_nobody_made_a_failure_of_is_one() {
    let (told, layer) = told();
    let mut response = Response::new(ScriptedBody::new([]));
    *response.status_mut() = StatusCode::BAD_GATEWAY;
    layer.layer(answering([Ok(response)])).oneshot(request()).await.unwrap();
    let record = told.record();
    assert_eq!((record.ending, record.failure, record.status_code), (Ending::Failed, None, Some(502)));
}

/// What an observing layer would write down.
fn observed(body: ScriptedBody) -> (Response<ScriptedBody>, stanchion_core::StreamRecorder) {
    let (record, recorder) = StreamRecord::new();
    let mut response = Response::new(body);
    response.extensions_mut().insert(record);
    (response, recorder)
}

#[tokio::test(start_paused = true)]
async fn the_end_is_told_before_the_end_marker_leaves() {
    let (told, layer) = told();
    let (response, mut recorder) = observed(stream().hides_end());
    let mut service = layer.layer(answering([Ok(response)]));
    let mut body = service.ready().await.unwrap().call(request()).await.unwrap().into_body();
    body.frame().await.unwrap().unwrap();
    assert_eq!(told.lines(), ["began", "first chunk 0"]);
    recorder.terminal();
    body.frame().await.unwrap().unwrap();
    assert_eq!(told.lines(), ["complete"]);
    drop(body);
    assert_eq!(told.record().bytes, 3);
}

#[tokio::test(start_paused = true)]
async fn an_error_that_was_passed_on_in_band_is_a_failure() {
    let (told, layer) = told();
    let (response, mut recorder) = observed(stream());
    recorder.error(Failure::new(FailureKind::ServerError));
    let reply = layer.layer(answering([Ok(response)])).oneshot(request()).await.unwrap();
    reply.into_body().collect().await.unwrap();
    let record = told.record();
    assert_eq!((record.ending, record.failure), (Ending::Failed, Some(FailureKind::ServerError)));
    assert_eq!(record.failed_in, Some(Phase::AfterOutput));
}

#[tokio::test(start_paused = true)]
async fn what_is_dropped_is_cancelled_before_the_reply_and_within_it_at_every_poll() {
    for polls in 0..4 {
        let (told, layer) = told();
        let probe = Probe::new(|| Response::new(stream().hides_end()));
        let mut service = layer.layer(probe.clone());
        ServiceExt::<Request<Full<bytes::Bytes>>>::ready(&mut service).await.unwrap();
        let mut call = tokio_test::task::spawn(service.call(request()));
        for _ in 0..polls.min(1) {
            assert_pending!(call.poll());
        }
        if polls < 2 {
            drop(call);
            assert_eq!(told.lines(), ["began", "cancelled"], "{polls}");
            assert!(!told.record().replied);
            continue;
        }
        let mut body = assert_ready!(call.poll()).unwrap().into_body();
        if polls > 2 {
            body.frame().await.unwrap().unwrap();
        }
        drop((call, body));
        let record = told.record();
        assert_eq!((record.ending, record.replied), (Ending::Cancelled, true));
        assert_eq!((record.bytes, probe.live()), (if polls > 2 { 2 } else { 0 }, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_left_after_its_end_is_complete() {
    for ended in [true, false] {
        let (told, layer) = told();
        let (response, mut recorder) = observed(stream());
        let reply = layer.layer(answering([Ok(response)])).oneshot(request()).await.unwrap();
        // What the observing layer decides when it is dropped.
        recorder.end(if ended { Ending::Complete } else { Ending::Cancelled });
        drop(reply);
        assert_eq!(told.record().ending, if ended { Ending::Complete } else { Ending::Cancelled });
    }
}

/// Tells an event when it is dropped, as an account of usage does.
struct TellsAtDrop(Context);

impl Drop for TellsAtDrop {
    fn drop(&mut self) {
        Context::emit(Some(&self.0), || {
            Event::Usage(UsageEvent {
                candidate: None,
                model: Some("gpt-x-2026".into()),
                request_class: stanchion_core::RequestClass::default(),
                quality: UsageQuality::Estimated,
                tokens: Usage { input: Some(5), output: Some(1), ..Usage::default() },
                cost_nanodollars: Some(9),
            })
        });
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_layers_within_tell_as_they_are_dropped_belongs_to_the_request() {
    let (told, layer) = told();
    let service = service_fn(|request: Request<Full<bytes::Bytes>>| async move {
        let _tells = TellsAtDrop(Context::of(&request).unwrap().clone());
        std::future::pending::<Result<Response<ScriptedBody>, Failure>>().await
    });
    let mut call = tokio_test::task::spawn(layer.layer(service).oneshot(request()));
    assert_pending!(call.poll());
    drop(call);
    assert_eq!(told.lines(), ["began", "usage", "cancelled"]);
    let record = told.record();
    let usage = record.usage.unwrap();
    assert_eq!((usage.tokens.input, usage.cost_nanodollars), (Some(5), Some(9)));
    assert_eq!(record.provider_model.as_deref(), Some("gpt-x-2026"));
}

#[tokio::test(start_paused = true)]
async fn what_several_attempts_have_used_comes_together() {
    let used = |quality, tokens, cost_nanodollars| {
        Event::Usage(UsageEvent {
            candidate: None,
            model: None,
            request_class: stanchion_core::RequestClass::default(),
            quality,
            tokens,
            cost_nanodollars,
        })
    };
    let cut = Usage { input: Some(5), output: Some(1), ..Usage::default() };
    let whole = Usage { input: Some(2), cache_read: Some(3), output: Some(9), ..Usage::default() };
    for (first_cost, cost) in [(Some(9), Some(12)), (None, None)] {
        let (told, layer) = told();
        let service = service_fn(move |request: Request<Full<bytes::Bytes>>| {
            let context = Context::of(&request);
            Context::emit(context, || used(UsageQuality::Estimated, cut, first_cost));
            Context::emit(context, || used(UsageQuality::Measured, whole, Some(3)));
            std::future::ready(Ok::<_, Failure>(Response::new(ScriptedBody::new([]))))
        });
        layer.layer(service).oneshot(request()).await.unwrap();
        let usage = told.record().usage.unwrap();
        let tokens = Usage { input: Some(7), cache_read: Some(3), output: Some(10), ..Usage::default() };
        assert_eq!((usage.quality, usage.tokens, usage.cost_nanodollars), (UsageQuality::Estimated, tokens, cost));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_after_the_end() {
    let (told, layer) = told();
    let (into, mut kept) = tokio::sync::mpsc::unbounded_channel();
    let service = service_fn(move |request: Request<Full<bytes::Bytes>>| {
        into.send(Context::of(&request).unwrap().clone()).unwrap();
        std::future::ready(Ok::<_, Failure>(Response::new(ScriptedBody::new([]))))
    });
    layer.layer(service).oneshot(request()).await.unwrap();
    attempt(Some(&kept.recv().await.unwrap()), AttemptPhase::Started, "a/x", None);
    assert_eq!(told.lines(), ["began", "complete"]);
}

#[tokio::test(start_paused = true)]
async fn first_chunk_and_first_output_are_what_the_observing_layer_saw_of_the_attempt_that_answers() {
    let (told, layer) = told();
    let service = service_fn(|request: Request<Full<bytes::Bytes>>| async move {
        let context = Context::of(&request).cloned();
        let second = || tokio::time::sleep(Duration::from_secs(1));
        attempt(context.as_ref(), AttemptPhase::Started, "a/x", None);
        second().await;
        attempt(context.as_ref(), AttemptPhase::Failed, "a/x", Some(FailureKind::ServerError));
        second().await;
        attempt(context.as_ref(), AttemptPhase::Started, "b/y", None);
        second().await;
        let (mut response, mut recorder) = observed(stream());
        recorder.framing(Framing::Sse);
        second().await;
        recorder.output();
        // Held back for a while: what leaves late came in time.
        second().await;
        attempt(context.as_ref(), AttemptPhase::Committed, "b/y", None);
        response
            .extensions_mut()
            .insert(Selected::only(Candidate::new("b", Family::OpenAi, "http://b").with_model("y")));
        Ok::<_, Failure>(response)
    });
    let reply = layer.layer(service).oneshot(request()).await.unwrap();
    reply.into_body().collect().await.unwrap();
    assert_eq!(
        told.lines(),
        [
            "began",
            "provider_attempt",
            "provider_attempt",
            "provider_attempt",
            "provider_attempt",
            "first chunk 3000",
            "first output 4000",
            "complete"
        ]
    );
    let record = told.record();
    assert_eq!((record.candidate.as_deref(), record.provider_model.as_deref()), (Some("b/y"), Some("y")));
    let seconds = |duration: Option<Duration>| duration.map(|duration| duration.as_secs());
    assert_eq!((seconds(record.first_chunk), seconds(record.first_output)), (Some(3), Some(4)));
    let [first, second] = &record.attempts[..] else { panic!("{:?}", record.attempts) };
    assert_eq!((first.outcome, first.failure), (AttemptOutcome::Failed, Some(FailureKind::ServerError)));
    assert_eq!((first.started_after.as_secs(), seconds(first.duration), first.status_code), (0, Some(1), Some(503)));
    assert_eq!((second.outcome, &*second.candidate, second.number), (AttemptOutcome::Answered, "b/y", 2));
    assert_eq!(
        (second.started_after.as_secs(), seconds(second.first_output), seconds(second.duration)),
        (2, Some(2), Some(3))
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_not_configured_is_cut_and_is_other() {
    let (told, layer) = told();
    let mut request = request_in(Context::default());
    let call = request.extensions_mut().get_mut::<stanchion_core::Call>().unwrap();
    call.model = Some("ü".repeat(100).into());
    layer.layer(answering([Ok(Response::new(ScriptedBody::new([])))])).oneshot(request).await.unwrap();
    let record = told.record();
    assert_eq!(&*record.began.model, RequestBegan::OTHER);
    assert_eq!(record.began.requested_model.as_deref(), Some(&*"ü".repeat(64)));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_carries_nothing_is_told_of_too() {
    let (told, layer) = told();
    let bare = Request::new(Full::default());
    layer.layer(answering([Ok(Response::new(ScriptedBody::new([])))])).oneshot(bare).await.unwrap();
    let record = told.record();
    assert_eq!((record.began.dialect, record.began.stream, &*record.began.model), (None, false, "other"));
}

#[tokio::test(start_paused = true)]
async fn a_record_serialises_flat_and_without_what_is_not_known() {
    let (told, layer) = told();
    layer.layer(answering([Ok(Response::new(ScriptedBody::new([])))])).oneshot(request()).await.unwrap();
    let record = told.record();
    let mut shown = serde_json::to_value(&*record).unwrap();
    let time = shown["time"].take();
    assert!(time.as_str().unwrap().ends_with('Z') && time.as_str().unwrap().len() == "2026-01-01T00:00:00.000Z".len());
    let expected = serde_json::json!({
        "id": record.began.id.to_string(), "time": null, "model": "gpt-x", "requested_model": "gpt-x", "dialect": "openai-chat",
        "stream": true, "class": "foreground", "request_bytes": 0, "ending": "complete", "status_code": 200, "replied": true,
        "duration_ms": 0, "waits": { "queue_ms": 0, "backoff_ms": 0, "circuit_ms": 0 }, "retries": 0, "fallbacks": 0,
        "rotations": 0, "stalls": 0, "bytes": 0, "attempts": [],
    });
    assert_eq!(shown, expected);
}
