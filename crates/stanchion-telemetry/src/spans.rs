use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use stanchion_core::{AttemptPhase, Dialect, Event, ProviderAttempt};
use tracing::{Span, field::Empty};

use crate::{InFlight, RequestBegan, RequestId, RequestRecord, Sink};

/// A [`Sink`] that opens a `tracing` span for each request, and within it one for each attempt.
///
/// The spans are called `request` and `attempt`, at the level INFO and under the target `stanchion::trace`; what happens in them is told
/// at the level DEBUG, since events are written to the log by themselves. They are open as long as what they stand for, and close
/// with its outcome in their fields.
#[derive(Default)]
pub struct Spans(Mutex<HashMap<RequestId, Open>>);

struct Open {
    request: Span,
    attempt: Option<Span>,
}

impl Spans {
    /// No span is open.
    pub fn new() -> Self {
        Self::default()
    }

    fn open(&self) -> MutexGuard<'_, HashMap<RequestId, Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Spans {
    fn began(&self, request: &Arc<InFlight>) {
        let began = request.began();
        let span = tracing::info_span!(
            target: "stanchion::trace",
            parent: None,
            "request",
            id = %began.id,
            model = &*began.model,
            class = began.class.as_str(),
            dialect = began.dialect.map(Dialect::as_str),
            stream = began.stream,
            trace_id = began.trace.map(|trace| tracing::field::display(trace.trace_id)),
            span_id = began.trace.map(|trace| tracing::field::display(trace.span_id)),
            candidate = Empty,
            ending = Empty,
            failure = Empty,
            status_code = Empty,
            retries = Empty,
            fallbacks = Empty,
            first_output_ms = Empty,
            duration_ms = Empty,
            bytes = Empty,
        );
        if !span.is_disabled() {
            self.open().insert(began.id, Open { request: span, attempt: None });
        }
    }

    fn event(&self, request: &InFlight, event: &Event) {
        // Out of the map meanwhile: subscribers take their time, and other requests are not to wait for them.
        let Some(mut open) = self.open().remove(&request.id()) else { return };
        let attempt = open.attempt.clone();
        if let Event::ProviderAttempt(event) = event {
            open.follow(request.began(), event);
        }
        let span = open.attempt.as_ref().or(attempt.as_ref()).unwrap_or(&open.request);
        tracing::debug!(target: "stanchion::trace", parent: span, event = event.name(), "event");
        self.open().insert(request.id(), open);
    }

    fn ended(&self, record: &Arc<RequestRecord>) {
        let Some(open) = self.open().remove(&record.began.id) else { return };
        if let (Some(span), Some(last)) = (&open.attempt, record.attempts.last()) {
            span.record("outcome", last.outcome.as_str());
        }
        drop(open.attempt);
        let span = open.request;
        if let Some(candidate) = &record.candidate {
            span.record("candidate", &**candidate);
        }
        span.record("ending", record.ending.as_str());
        if let Some(failure) = record.failure {
            span.record("failure", failure.code());
        }
        if let Some(status) = record.status_code {
            span.record("status_code", status);
        }
        span.record("retries", record.retries);
        span.record("fallbacks", record.fallbacks);
        if let Some(after) = record.first_output {
            span.record("first_output_ms", after.as_millis() as u64);
        }
        span.record("duration_ms", record.duration.as_millis() as u64);
        span.record("bytes", record.bytes);
    }
}

impl Open {
    /// Opens and closes the spans of attempts.
    fn follow(&mut self, began: &RequestBegan, event: &ProviderAttempt) {
        match event.phase {
            AttemptPhase::Started => {
                if let Some(given_up) = self.attempt.take() {
                    given_up.record("outcome", "abandoned");
                }
                let span = tracing::info_span!(
                    target: "stanchion::trace",
                    parent: &self.request,
                    "attempt",
                    number = event.attempt,
                    candidate = &*event.candidate,
                    span_id = began.trace.map(|trace| tracing::field::display(trace.attempt(event.attempt))),
                    outcome = Empty,
                    failure = Empty,
                    status_code = Empty,
                );
                self.attempt = Some(span);
            }
            AttemptPhase::Failed => {
                let Some(span) = self.attempt.take() else { return };
                span.record("outcome", "failed");
                if let Some(failure) = event.failure {
                    span.record("failure", failure.code());
                }
                if let Some(status) = event.status_code {
                    span.record("status_code", status);
                }
            }
            _ => {}
        }
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spans").field("open", &self.open().len()).finish()
    }
}
