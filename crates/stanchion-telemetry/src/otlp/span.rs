//! From what became of a request to its spans.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use stanchion_core::{Dialect, Ending, Event, FailureKind, Phase, SpanId, UsageQuality};

use super::message::{self, KeyValue, SpanKind, Status, StatusCode, Value};
use crate::{AttemptOutcome, AttemptRecord, RequestRecord, RequestTrace, metrics::operation_and_provider};

/// How many events of a request are kept; those after them are counted.
const MOST_EVENTS: usize = 128;

/// The low byte is that of `traceparent`; the others say that it is known whether the parent is elsewhere, and that it is.
const HAS_PARENT_LOCALITY: u32 = 0x100;
const PARENT_IS_REMOTE: u32 = 0x200;

/// What happened in a request, until it is over.
#[derive(Debug, Default)]
pub(super) struct Told {
    events: Vec<message::Event>,
    omitted: u32,
}

impl Told {
    /// An event of the request, with whatever of it is one number, word or truth.
    pub(super) fn event(&mut self, event: &Event, at: SystemTime) {
        // Attempts are spans.
        if matches!(event, Event::ProviderAttempt(_)) || self.is_full() {
            return;
        }
        let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(event) else { return };
        let attributes = fields.into_iter().filter(|(key, _)| key != "type").filter_map(|(key, value)| {
            let value = match value {
                serde_json::Value::String(text) => Value::String(text),
                serde_json::Value::Bool(truth) => truth.into(),
                serde_json::Value::Number(number) => match number.as_i64() {
                    Some(number) => Value::Int(number),
                    None => number.as_f64()?.into(),
                },
                _ => return None,
            };
            Some(KeyValue::new(format!("stanchion.{key}"), value))
        });
        let attributes = attributes.collect();
        self.events.push(message::Event { time_unix_nano: nanoseconds(at), name: event.name().to_owned(), attributes });
    }

    /// A moment of the request.
    pub(super) fn moment(&mut self, name: &str, at: SystemTime) {
        if !self.is_full() {
            let name = name.to_owned();
            self.events.push(message::Event { time_unix_nano: nanoseconds(at), name, attributes: Vec::new() });
        }
    }

    fn is_full(&mut self) -> bool {
        let full = self.events.len() >= MOST_EVENTS;
        self.omitted += u32::from(full);
        full
    }
}

/// A request that is over, with what happened in it.
pub(super) struct Finished {
    pub(super) record: Arc<RequestRecord>,
    pub(super) trace: RequestTrace,
    pub(super) told: Told,
}

impl Finished {
    /// How many spans it is.
    pub(super) fn spans(&self) -> u64 {
        1 + self.record.attempts.len() as u64
    }

    /// The span of the request, and one for each attempt.
    pub(super) fn into_spans(self) -> impl Iterator<Item = message::Span> {
        let Self { record, trace, told } = self;
        let attempts: Vec<_> = record.attempts.iter().map(|attempt| attempt_span(&record, &trace, attempt)).collect();
        [request_span(&record, &trace, told)].into_iter().chain(attempts)
    }
}

fn request_span(record: &RequestRecord, trace: &RequestTrace, told: Told) -> message::Span {
    let began = &record.began;
    let [operation, provider] = operation_and_provider(began.dialect);
    let mut attributes = Attributes::default();
    attributes.add("gen_ai.operation.name", operation);
    attributes.add("gen_ai.provider.name", provider);
    attributes.add("gen_ai.request.model", &*began.model);
    // Which model has answered only its reply would say, and nobody reads that out of it.
    attributes.add_some("stanchion.provider.model", record.provider_model.as_deref());
    attributes.add_some("error.type", error(record));
    attributes.add_some("http.response.status_code", record.status_code.map(u64::from));
    attributes.add("stanchion.request.id", &*began.id.to_string());
    attributes.add("stanchion.class", began.class.as_str());
    attributes.add("stanchion.stream", began.stream);
    attributes.add_some("stanchion.dialect", began.dialect.map(Dialect::as_str));
    attributes.add_some("stanchion.candidate", record.candidate.as_deref());
    attributes.add("stanchion.ending", record.ending.as_str());
    attributes.add_some("stanchion.failed_in", record.failed_in.map(Phase::name));
    attributes.add("stanchion.retries", u64::from(record.retries));
    attributes.add("stanchion.fallbacks", u64::from(record.fallbacks));
    attributes.add("stanchion.stalls", u64::from(record.stalls));
    attributes.add("stanchion.bytes", record.bytes);
    let waits = record.waits;
    for (name, waited) in [("queue", waits.queue), ("backoff", waits.backoff), ("circuit", waits.circuit)] {
        if !waited.is_zero() {
            attributes.add(&format!("stanchion.wait.{name}"), waited.as_secs_f64());
        }
    }
    if let Some(usage) = &record.usage {
        // The conventions want counts, and no guesses.
        if usage.quality == UsageQuality::Measured {
            attributes.add_some("gen_ai.usage.input_tokens", usage.tokens.input_total());
            attributes.add_some("gen_ai.usage.output_tokens", usage.tokens.output);
        }
        attributes.add_some("stanchion.cost.dollars", usage.cost_nanodollars.map(|cost| cost as f64 / 1e9));
    }
    let is_wrong = matches!(record.ending, Ending::Failed | Ending::Truncated);
    message::Span {
        parent_span_id: trace.parent_span_id.map_or_else(Vec::new, |parent| parent.get().to_be_bytes().to_vec()),
        name: format!("{operation} {}", began.model),
        kind: SpanKind::Server.into(),
        attributes: attributes.0,
        events: told.events,
        dropped_events_count: told.omitted,
        flags: flags(trace) | if trace.parent_span_id.is_some() { PARENT_IS_REMOTE } else { 0 },
        ..span(record, trace, trace.span_id, Duration::ZERO, record.duration, is_wrong)
    }
}

fn attempt_span(record: &RequestRecord, trace: &RequestTrace, attempt: &AttemptRecord) -> message::Span {
    let mut attributes = Attributes::default();
    attributes.add("stanchion.attempt", u64::from(attempt.number));
    attributes.add("stanchion.candidate", &*attempt.candidate);
    attributes.add("stanchion.outcome", attempt.outcome.as_str());
    attributes.add_some("error.type", attempt.failure.map(FailureKind::code));
    attributes.add_some("stanchion.failed_in", attempt.failed_in.map(Phase::name));
    attributes.add_some("http.response.status_code", attempt.status_code.map(u64::from));
    attributes.add_some("stanchion.first_output", attempt.first_output.map(|after| after.as_secs_f64()));
    let duration = attempt.duration.unwrap_or_default();
    let is_wrong = attempt.outcome == AttemptOutcome::Failed;
    message::Span {
        parent_span_id: trace.span_id.get().to_be_bytes().to_vec(),
        name: format!("attempt {}", attempt.candidate),
        kind: SpanKind::Client.into(),
        attributes: attributes.0,
        flags: flags(trace),
        ..span(record, trace, trace.attempt(attempt.number), attempt.started_after, duration, is_wrong)
    }
}

/// What all spans of a request have.
fn span(
    record: &RequestRecord,
    trace: &RequestTrace,
    id: SpanId,
    began_after: Duration,
    duration: Duration,
    is_wrong: bool,
) -> message::Span {
    let code = if is_wrong { StatusCode::Error } else { StatusCode::Unset };
    message::Span {
        trace_id: trace.trace_id.get().to_be_bytes().to_vec(),
        span_id: id.get().to_be_bytes().to_vec(),
        start_time_unix_nano: nanoseconds(record.after(began_after)),
        end_time_unix_nano: nanoseconds(record.after(began_after + duration)),
        status: Some(Status { code: code.into() }),
        ..message::Span::default()
    }
}

fn flags(trace: &RequestTrace) -> u32 {
    u32::from(trace.sampled) | HAS_PARENT_LOCALITY
}

fn error(record: &RequestRecord) -> Option<&'static str> {
    match record.ending {
        Ending::Complete => None,
        other => Some(record.failure.map_or(other.as_str(), |kind| kind.code())),
    }
}

#[derive(Default)]
struct Attributes(Vec<KeyValue>);

impl Attributes {
    fn add(&mut self, key: &str, value: impl Into<Value>) {
        self.0.push(KeyValue::new(key, value.into()));
    }

    fn add_some(&mut self, key: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.add(key, value);
        }
    }
}

/// Since the epoch.
pub(super) fn nanoseconds(at: SystemTime) -> u64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
