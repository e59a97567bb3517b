//! What the layer promises, through its public face.

mod call_records;
mod contract;
mod endings;
mod live;
mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
mod phases;
#[cfg(feature = "tracing")]
mod spans;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use stanchion_core::{
    AttemptPhase, CacheBreakReason, Context, Event, Failure, FailureKind, Phase, PromptCacheBreak, ProviderAttempt,
    RequestClass,
};
use stanchion_telemetry::{InFlight, RequestRecord, Sink, TelemetryLayer};
use stanchion_testkit::ScriptedBody;

/// A sink that writes everything down.
#[derive(Default)]
struct Told(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    lines: Vec<String>,
    records: Vec<Arc<RequestRecord>>,
    requests: Vec<Arc<InFlight>>,
}

impl Told {
    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().lines)
    }

    fn record(&self) -> Arc<RequestRecord> {
        let mut inner = self.0.lock().unwrap();
        assert_eq!(inner.records.len(), 1, "one request, one record");
        inner.requests.clear();
        inner.records.remove(0)
    }

    fn request(&self) -> Arc<InFlight> {
        self.0.lock().unwrap().requests.last().unwrap().clone()
    }

    fn push(&self, line: String) {
        self.0.lock().unwrap().lines.push(line);
    }
}

impl Sink for Told {
    fn began(&self, request: &Arc<InFlight>) {
        self.push("began".into());
        self.0.lock().unwrap().requests.push(request.clone());
    }

    fn event(&self, _: &InFlight, event: &Event) {
        self.push(event.name().into());
    }

    fn first_chunk(&self, _: &InFlight, after: Duration) {
        self.push(format!("first chunk {}", after.as_millis()));
    }

    fn first_output(&self, _: &InFlight, after: Duration) {
        self.push(format!("first output {}", after.as_millis()));
    }

    fn ended(&self, record: &Arc<RequestRecord>) {
        let failure = record.failure.map(|kind| format!(" {}", kind.code())).unwrap_or_default();
        self.push(format!("{}{failure}", record.ending.as_str()));
        self.0.lock().unwrap().records.push(record.clone());
    }
}

fn told() -> (Arc<Told>, TelemetryLayer) {
    let told = Arc::<Told>::default();
    let layer = TelemetryLayer::new().models(["gpt-x"]).seed(7).sink(told.clone());
    (told, layer)
}

/// An attempt's event, as the layers further in tell it.
fn attempt(context: Option<&Context>, phase: AttemptPhase, candidate: &str, failure: Option<FailureKind>) {
    let attempt = match phase {
        AttemptPhase::Started => context.unwrap().count_attempt(),
        _ => context.unwrap().attempts(),
    };
    Context::emit(context, || {
        Event::ProviderAttempt(ProviderAttempt {
            phase,
            candidate: candidate.into(),
            attempt,
            failure,
            failed_in: failure.map(|_| Phase::Head),
            status_code: failure.map(|_| 503),
            elapsed: Duration::ZERO,
        })
    });
}

/// What a provider answers, one after the other.
type Script = Mutex<VecDeque<Result<Response<ScriptedBody>, Failure>>>;

fn answering(
    answers: impl IntoIterator<Item = Result<Response<ScriptedBody>, Failure>>,
) -> impl tower::Service<Request<Full<Bytes>>, Response = Response<ScriptedBody>, Error = Failure, Future: Send> + Clone
{
    let script: Arc<Script> = Arc::new(Mutex::new(answers.into_iter().collect()));
    tower::service_fn(move |_| {
        std::future::ready(script.lock().unwrap().pop_front().expect("one more call than answers"))
    })
}

/// A prompt cache that broke.
fn broken(reason: CacheBreakReason, lost_tokens: u64) -> PromptCacheBreak {
    PromptCacheBreak {
        reason,
        candidate: Some("a/x".into()),
        model: None,
        request_class: RequestClass::Foreground,
        previous_cache_read_tokens: 6000,
        cache_read_tokens: 500,
        cache_write_tokens: None,
        token_drop: 5500,
        lost_tokens,
        lost_nanodollars: Some(70),
        elapsed: Duration::ZERO,
        call_number: 2,
        system_prompt_changed: false,
        system_char_delta: 0,
        tools_changed: false,
        added_tool_count: 0,
        removed_tool_count: 0,
        changed_tool_count: 0,
        tool_order_changed: false,
        model_changed: false,
        request_policy_changed: false,
        first_changed_message: None,
        previous_message_count: 1,
        message_count: 3,
        previous_breakpoint_count: 0,
        breakpoint_count: 0,
        tool_breakpoint_count: 0,
        system_breakpoint_count: 0,
        lost_breakpoint_count: 0,
        breakpoints_moved: false,
        volatile_prefix: false,
    }
}
