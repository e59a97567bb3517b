use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use proptest::prelude::*;
use stanchion::{
    core::{Ending, Event, FailureKind, Phase, TraceContext},
    telemetry::{
        AttemptOutcome, InFlight, Live, Metrics, MetricsFormat, RequestId, RequestRecord, Sink, TelemetryLayer, Wait,
    },
    usage::UsageLayer,
};
use stanchion_faults::scenario::{End, Script};
use stanchion_testkit::Events;
use stanchion_tests::{
    provider::Provider,
    replies::{done, ending, finish, json, millis, ok, role, secs, stream, text},
    stack::{Outcome, Stack},
};
use tokio::time::timeout;
use tower::{Layer, Service};

use crate::recovery::{Fault, faults};

/// A sink that checks the order of what it is told, and keeps the records.
#[derive(Default)]
struct Ledger(Mutex<Vec<(RequestId, Option<Arc<RequestRecord>>)>>);

impl Ledger {
    fn records(&self) -> Vec<Arc<RequestRecord>> {
        let requests = self.0.lock().unwrap();
        requests.iter().map(|(_, record)| record.clone().expect("a request has not ended")).collect()
    }

    fn running(&self, id: RequestId) {
        let requests = self.0.lock().unwrap();
        assert!(requests.iter().any(|(other, record)| *other == id && record.is_none()), "told outside of its time");
    }
}

impl Sink for Ledger {
    fn began(&self, request: &Arc<InFlight>) {
        self.0.lock().unwrap().push((request.id(), None));
    }

    fn event(&self, request: &InFlight, _: &Event) {
        self.running(request.id());
    }

    fn first_chunk(&self, request: &InFlight, _: Duration) {
        self.running(request.id());
    }

    fn first_output(&self, request: &InFlight, _: Duration) {
        self.running(request.id());
    }

    fn ended(&self, record: &Arc<RequestRecord>) {
        let mut requests = self.0.lock().unwrap();
        let (_, kept) = requests.iter_mut().find(|(id, _)| *id == record.began.id).expect("it began");
        assert!(kept.replace(record.clone()).is_none(), "it ended twice");
    }
}

struct Watched {
    ledger: Arc<Ledger>,
    live: Live,
    metrics: Metrics,
    layer: TelemetryLayer,
}

impl Watched {
    fn new() -> Self {
        let (ledger, live, metrics) = (Arc::<Ledger>::default(), Live::default(), Metrics::new());
        let layer = TelemetryLayer::new().models(["any"]).seed(7).start_traces(true);
        let layer = layer.sink(ledger.clone()).sink(Arc::new(live.clone())).sink(Arc::new(metrics.clone()));
        Self { ledger, live, metrics, layer }
    }

    /// All layers within the edge, watched.
    fn service(
        &self,
        stack: &Stack,
        provider: &Provider,
    ) -> impl Service<
        Request<Full<Bytes>>,
        Response = http::Response<impl http_body::Body<Data = Bytes, Error = stanchion::core::Failure> + Send + use<>>,
        Error = stanchion::core::Failure,
        Future: Send,
    > + Send
    + use<> {
        self.layer.layer(UsageLayer::new().layer(stack.service(provider.clone()).into_inner()))
    }

    async fn ask(&self, stack: &Stack, provider: &Provider) -> Outcome {
        let events = Events::new();
        Outcome::of(self.service(stack, provider), stack.request(events.context()), &events).await
    }

    fn record(&self) -> Arc<RequestRecord> {
        let [record] = &self.ledger.records()[..] else { panic!("one request, one record") };
        record.clone()
    }

    fn is_idle(&self) -> bool {
        let text = self.metrics.encode(MetricsFormat::Prometheus);
        let mut gauges = text.lines().filter(|line| line.starts_with("stanchion_requests_in_flight"));
        self.live.in_flight() == 0
            && self.live.snapshot().requests.is_empty()
            && gauges.all(|line| line.ends_with(" 0.0"))
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_failed_over_and_recovered_is_told_as_it_was() {
    let provider = Provider::with([
        ("a", vec![json(503, r#"{"error":{"message":"down"}}"#), json(404, r#"{"error":{"message":"gone"}}"#)]),
        (
            "b",
            vec![Script {
                delay: Some(secs(2)),
                ..stream([role(), text("Hi").after(millis(700)), finish("stop"), done()])
            }],
        ),
    ]);
    let rules = stanchion::core::DispositionRules::default().with_fallback_on(stanchion::core::FallbackOn::NotFound);
    let watched = Watched::new();
    let outcome = watched.ask(&Stack::chat(&provider).rules(rules), &provider).await;
    assert_eq!(outcome.failure.map(|failure| failure.kind()), None);

    let record = watched.record();
    assert_eq!((record.ending, record.candidate.as_deref()), (Ending::Complete, Some("b/m")));
    assert_eq!((record.retries, record.fallbacks, record.provider_model.as_deref()), (1, 1, Some("m")));
    let outcomes: Vec<_> =
        record.attempts.iter().map(|attempt| (&*attempt.candidate, attempt.outcome, attempt.status_code)).collect();
    assert_eq!(
        outcomes,
        [
            ("a/m", AttemptOutcome::Failed, Some(503)),
            ("a/m", AttemptOutcome::Failed, Some(404)),
            ("b/m", AttemptOutcome::Answered, None)
        ]
    );
    let backoff = record.waits.backoff;
    assert!(!backoff.is_zero());
    assert_eq!((record.first_chunk, record.first_output), (Some(backoff + secs(2)), Some(backoff + millis(2_700))));
    assert_eq!(record.attempts[2].first_output, Some(millis(2_700)));
    // What each provider was told is the span of its attempt.
    for (seen, attempt) in provider.seen().iter().zip(&record.attempts) {
        let (trace, span) = (record.began.trace.expect("begun here").trace_id, attempt.span_id.expect("in a trace"));
        assert_eq!(seen.headers[TraceContext::TRACEPARENT], format!("00-{trace}-{span}-01"));
    }
    assert!(watched.is_idle());
}

#[tokio::test(start_paused = true)]
async fn a_silence_before_output_and_a_cut_after_it_are_told_apart() {
    let provider = Provider::new([ending(End::Hang, [role(), text("x")])]);
    let watched = Watched::new();
    watched.ask(&Stack::chat(&provider).limits(0, 30, 0), &provider).await;
    let record = watched.record();
    assert_eq!((record.ending, record.failure), (Ending::Failed, Some(FailureKind::IdleTimeout)));
    assert_eq!((record.failed_in, record.stalls), (Some(Phase::AfterOutput), 1));
    let [attempt] = &record.attempts[..] else { panic!("one attempt") };
    assert_eq!((attempt.outcome, attempt.failure), (AttemptOutcome::Failed, Some(FailureKind::IdleTimeout)));
    assert!(attempt.first_output.is_some() && record.usage.is_some());

    let provider = Provider::new([stream([role(), text("x")])]);
    let watched = Watched::new();
    watched.ask(&Stack::chat(&provider), &provider).await;
    assert_eq!(watched.record().ending, Ending::Truncated);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_queues_is_seen_in_the_queue() {
    let provider = Provider::new([ending(End::Hang, [role(), text("x")]), ok()]);
    let stack = Stack::chat(&provider).concurrency(1);
    let watched = Watched::new();
    let first = watched.ask(&stack, &provider);
    let second = watched.ask(&stack, &provider);
    let watching = async {
        tokio::time::sleep(secs(5)).await;
        let shown = watched.live.snapshot();
        let waits: Vec<_> = shown.requests.iter().map(|request| request.standing.wait).collect();
        assert!(waits.contains(&Some(Wait::Queue)) && waits.contains(&None), "{shown:?}");
    };
    let _ = timeout(secs(20), Box::pin(async { tokio::join!(first, second, watching) })).await;
    let queued: Vec<_> = watched.ledger.records().iter().map(|record| record.waits.queue).collect();
    assert_eq!(queued.iter().max(), Some(&secs(20)));
    assert!(watched.is_idle());
}

/// What a client does with its request: reads it to the end, or leaves after so many milliseconds.
fn patience() -> impl Strategy<Value = Option<u64>> {
    prop_oneof![Just(None), (0_u64..60_000).prop_map(Some)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn whatever_happens_each_request_begins_once_and_ends_once(
        first in prop::collection::vec(faults(), 1..12),
        second in prop::collection::vec(faults(), 1..12),
        clients in prop::collection::vec((0_u64..5_000, patience()), 1..6),
        budget in prop::option::of(30_u64..=120),
        places in prop::option::of(1_u32..3),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let scripts = |faults: Vec<Fault>| faults.into_iter().map(Fault::script).collect();
            let provider = Provider::with([("a", scripts(first)), ("b", scripts(second))]);
            let mut stack = Stack::chat(&provider).limits(20, 20, 0);
            if let Some(budget) = budget {
                stack = stack.recovery(budget);
            }
            if let Some(places) = places {
                stack = stack.concurrency(places);
            }
            let watched = Arc::new(Watched::new());
            let tasks: Vec<_> = clients.into_iter().map(|(delay, patience)| {
                let (watched, stack, provider) = (watched.clone(), stack.clone(), provider.clone());
                tokio::spawn(async move {
                    tokio::time::sleep(millis(delay)).await;
                    let events = Events::new();
                    let asking = Outcome::of(watched.service(&stack, &provider), stack.request(events.context()), &events);
                    timeout(patience.map_or(secs(100_000), millis), asking).await.ok()
                })
            }).collect();
            let mut outcomes = Vec::new();
            for task in tasks {
                outcomes.push(task.await.unwrap());
            }
            prop_assert!(watched.is_idle());
            let records = watched.ledger.records();
            prop_assert_eq!(records.len(), outcomes.len());
            let attempts: usize = records.iter().map(|record| record.attempts.len() + record.attempts_omitted as usize).sum();
            prop_assert_eq!(attempts, provider.attempts());
            let told = |ending: fn(Ending) -> bool| records.iter().filter(|record| ending(record.ending)).count();
            let failed = outcomes.iter().flatten().filter(|outcome| outcome.failure.is_some()).count();
            let left = outcomes.iter().filter(|outcome| outcome.is_none()).count();
            prop_assert_eq!(told(|ending| matches!(ending, Ending::Failed | Ending::Truncated)), failed);
            // One that leaves between the end and its telling has lost nothing.
            prop_assert!(told(|ending| ending == Ending::Cancelled) <= left);
            prop_assert_eq!(told(|ending| matches!(ending, Ending::Cancelled | Ending::Complete)), outcomes.len() - failed);
            for record in &records {
                let waits = record.waits;
                prop_assert!(waits.queue + waits.backoff + waits.circuit <= record.duration, "{record:?}");
                prop_assert!(record.first_output.is_none_or(|after| after <= record.duration), "{record:?}");
                prop_assert!(record.first_output.is_none() || record.first_chunk <= record.first_output, "{record:?}");
                for attempt in &record.attempts {
                    let took = attempt.duration.unwrap_or_default();
                    prop_assert!(attempt.started_after + took <= record.duration + millis(1), "{record:?}");
                    prop_assert_eq!(attempt.outcome == AttemptOutcome::Failed, attempt.failure.is_some());
                }
                let answered = record.attempts.iter().filter(|attempt| attempt.outcome == AttemptOutcome::Answered);
                prop_assert!(answered.count() <= 1);
            }
            Ok(())
        })?;
    }
}
