//! One span for each request, with one for each attempt.

use std::sync::Arc;

use http::{HeaderValue, Request, Response};
use http_body_util::Full;
use stanchion_core::{AttemptPhase, Context, Failure, FailureKind};
use stanchion_telemetry::{Spans, TelemetryLayer};
use stanchion_testkit::{ScriptedBody, Step, request};
use tower::{Layer, ServiceExt, service_fn};

use crate::{attempt, call_records::logged};

#[test]
fn a_request_is_a_span_and_its_attempts_are_spans_within_it() {
    let spans = Arc::new(Spans::new());
    let layer = TelemetryLayer::new().models(["gpt-x"]).seed(7).sink(spans.clone());
    let log = logged(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let service = service_fn(|request: Request<Full<bytes::Bytes>>| async move {
                let context = Context::of(&request);
                attempt(context, AttemptPhase::Started, "a/x", None);
                attempt(context, AttemptPhase::Failed, "a/x", Some(FailureKind::Overloaded));
                attempt(context, AttemptPhase::Started, "b/y", None);
                attempt(context, AttemptPhase::Committed, "b/y", None);
                Ok::<_, Failure>(Response::new(ScriptedBody::new([Step::Hang])))
            });
            let mut request = request();
            let parent = HeaderValue::from_static("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
            request.headers_mut().insert("traceparent", parent);
            let reply = layer.layer(service).oneshot(request).await.unwrap();
            drop(reply);
        });
    });
    let ours: Vec<_> = log.lines().filter(|line| line.contains("stanchion::trace")).collect();
    let all = |parts: &[&str]| ours.iter().filter(|line| parts.iter().all(|part| line.contains(part))).count();
    assert_eq!(all(&["request{", ": new"]), 3, "{log}");
    assert_eq!(all(&["request{", "attempt{number=1 candidate=\"a/x\"", ": new"]), 1, "{log}");
    assert_eq!(
        all(&["attempt{number=1", "outcome=\"failed\" failure=\"overloaded\" status_code=503", ": close"]),
        1,
        "{log}"
    );
    assert_eq!(all(&["attempt{number=2", "candidate=\"b/y\"", "outcome=\"answered\"", ": close"]), 1, "{log}");
    let request = ["request{", "model=\"gpt-x\"", "trace_id=4bf92f3577b34da6a3ce929d0e0e4736", "ending=\"cancelled\""];
    assert_eq!(all(&[&request[..], &[": close"]].concat()), 1, "{log}");
    assert_eq!(all(&["attempt{number=1", "event=\"provider_attempt\""]), 2, "{log}");
    assert_eq!(all(&["attempt{number=2", "event=\"provider_attempt\""]), 2, "{log}");
    assert_eq!(format!("{spans:?}"), "Spans { open: 0 }");
}

#[test]
fn what_the_subscriber_does_not_want_is_not_kept() {
    let quiet = tracing_subscriber::fmt().with_max_level(tracing::Level::WARN).with_writer(std::io::sink).finish();
    tracing::subscriber::with_default(quiet, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let spans = Arc::new(Spans::new());
            let layer = TelemetryLayer::new().sink(spans.clone());
            let service = service_fn(|_: Request<Full<bytes::Bytes>>| async {
                Ok::<_, Failure>(Response::new(ScriptedBody::new([Step::Hang])))
            });
            let reply = layer.layer(service).oneshot(request()).await.unwrap();
            assert_eq!(format!("{spans:?}"), "Spans { open: 0 }");
            drop(reply);
        });
    });
}
