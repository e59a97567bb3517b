//! What the layer promises, through its public face.

mod contract;
mod endings;
mod live;
mod phases;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use stanchion_core::{AttemptPhase, Context, Event, Failure, FailureKind, Phase, ProviderAttempt};
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
