use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use proptest::prelude::*;
use stanchion::{
    core::{Dialect, Ending, Event, FailureKind, Phase, Secret, TraceContext},
    telemetry::{
        AttemptOutcome, CallRecordSettings, CallRecords, InFlight, Live, Metrics, MetricsFormat, RequestId,
        RequestRecord, Sink, Spans, TelemetryLayer, Wait, live::LiveTold,
    },
    usage::UsageLayer,
};
use stanchion_faults::scenario::{End, Script};
use stanchion_testkit::Events;
use stanchion_tests::{
    provider::Provider,
    replies::{done, ending, finish, json, millis, ok, role, secs, stream, text},
    stack::{Outcome, Stack, candidate},
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

/// Everything that `tracing` is told, spans and all, as text.
fn logged(run: impl FnOnce()) -> String {
    use tracing_subscriber::fmt::{MakeWriter, format::FmtSpan};

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Kept {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    let kept = Kept::default();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
    let subscriber = subscriber.with_span_events(FmtSpan::FULL);
    tracing::subscriber::with_default(subscriber.with_writer(kept.clone()).finish(), run);
    let bytes = kept.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

/// What no sink may ever show. Their names say where they are planted.
const SECRETS: [&str; 9] = [
    "canary-key",
    "canary-session",
    "canary-owner",
    "canary-prompt",
    "canary-output",
    "canary-tool",
    "canary-state",
    "canary-error",
    "canary-address",
];

fn secretive() -> impl Iterator<Item = Script> {
    let quoting = r#"{"error":{"message":"canary-error: you asked canary-prompt","type":"server_error"}}"#;
    let call = r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"canary-tool","arguments":"{}"}}]}}]}"#;
    let told = stanchion_faults::scenario::Step::sse(
        r#"{"error":{"message":"canary-error in the middle of canary-output","type":"server_error"}}"#,
    );
    [
        json(503, quoting),
        json(429, quoting),
        stream([
            role(),
            text("canary-output"),
            stanchion_faults::scenario::Step::sse(call),
            finish("tool_calls"),
            done(),
        ]),
        stream([role(), text("canary-output"), told]),
        ending(End::Hang, [role(), text("canary-output")]),
        json(400, quoting),
    ]
    .into_iter()
}

#[test]
fn no_sink_shows_a_secret() {
    let folder = std::env::temp_dir().join(format!("stanchion-canaries-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("calls.jsonl");
    let mut emitted = Vec::new();
    let log = logged(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let watched = Watched::new();
            let records = CallRecords::open(CallRecordSettings::new(&path)).unwrap();
            let layer = watched.layer.clone().sink(Arc::new(records.clone())).sink(Arc::new(Spans::new()));
            let watched = Watched { layer, ..watched };
            let mut told = watched.live.subscribe();
            let provider = Provider::new(secretive());
            let candidate = candidate(Dialect::OpenAiChat, "a", "http://a.test/canary-address");
            let candidate = candidate.with_credential(Secret::new("canary-key"));
            let stack = Stack::of(Dialect::OpenAiChat, [candidate]).limits(20, 20, 0).max_retries(2);
            for _ in 0..4 {
                let events = Events::new();
                let context = events.context_builder().session("canary-session").owner("canary-owner");
                let mut request = stack.request(context.build());
                let headers = request.headers_mut();
                headers.insert("authorization", "Bearer canary-key".parse().unwrap());
                headers.insert("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap());
                headers.insert("tracestate", "vendor=canary-state".parse().unwrap());
                let body = r#"{"model":"any","stream":true,"messages":[{"role":"user","content":"canary-prompt"}],"tools":[{"type":"function","function":{"name":"canary-tool"}}]}"#;
                *request.body_mut() = Full::from(body);
                emitted.push(serde_json::to_string(&watched.live.snapshot()).unwrap());
                let outcome = Outcome::of(watched.service(&stack, &provider), request, &events).await;
                assert!(outcome.failure.is_some() || outcome.body().contains("canary-output"), "{outcome:?}");
            }
            assert_eq!(provider.attempts(), 6, "all that is planted has been played");
            assert!(provider.seen()[0].headers.values().any(|value| value == "vendor=canary-state"));
            while let Ok(Some(LiveTold::Event(event))) = timeout(secs(1), told.next()).await {
                emitted.push(serde_json::to_string(&*event).unwrap());
                emitted.push(format!("{event:?}"));
            }
            emitted.push(serde_json::to_string(&watched.live.snapshot()).unwrap());
            emitted.push(watched.metrics.encode(MetricsFormat::Prometheus));
            emitted.push(watched.metrics.encode(MetricsFormat::OpenMetrics));
            emitted.push(format!("{:?}", watched.ledger.records()));
            assert!(records.close(secs(60)));
        });
    });
    emitted.push(std::fs::read_to_string(&path).unwrap());
    emitted.push(log);
    let emitted = emitted.concat();
    std::fs::remove_dir_all(&folder).unwrap();
    for shown in
        ["provider_retry", "stanchion_requests_total", "\"ending\":\"failed\"", "attempt{number=2", "idle_timeout"]
    {
        assert!(emitted.contains(shown), "{shown} is missing");
    }
    for secret in SECRETS {
        let at = emitted.find(secret);
        assert!(at.is_none(), "{secret}: {}", &emitted[at.unwrap().saturating_sub(200)..at.unwrap() + 40]);
    }
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
