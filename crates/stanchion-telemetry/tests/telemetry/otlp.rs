//! What a collector is sent: read with the crate of the protocol itself.

use std::{
    collections::{HashMap, VecDeque},
    future::{Future, pending},
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use opentelemetry_proto::tonic::{
    collector::{
        metrics::v1::ExportMetricsServiceRequest,
        trace::v1::{ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse},
    },
    common::v1::{KeyValue, any_value::Value},
    metrics::v1::metric::Data,
    trace::v1::Span,
};
use prost::Message;
use stanchion_core::{AttemptPhase, Context, Event, Failure, FailureKind, FallbackEvent};
use stanchion_telemetry::{Metrics, Otlp, OtlpSettings, TelemetryLayer};
use stanchion_testkit::{ScriptedBody, Step, request};
use tokio::{sync::oneshot, time::sleep};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::attempt;

/// A collector that answers with these statuses, then with 200; none answers never.
#[derive(Clone, Default)]
struct Collector {
    answers: Arc<Mutex<VecDeque<Option<StatusCode>>>>,
    /// What it says besides.
    says: Bytes,
    got: Arc<Mutex<Vec<(String, http::HeaderMap, Bytes)>>>,
}

impl Collector {
    fn answering(answers: impl IntoIterator<Item = Option<StatusCode>>) -> Self {
        Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), ..Self::default() }
    }

    fn service(
        &self,
    ) -> impl Service<Request<Full<Bytes>>, Response = Response<Full<Bytes>>, Error = Failure, Future: Send> + Clone + use<>
    {
        let collector = self.clone();
        service_fn(move |request: Request<Full<Bytes>>| {
            let collector = collector.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await.unwrap().to_bytes();
                collector.got.lock().unwrap().push((head.uri.to_string(), head.headers, body));
                let answer = collector.answers.lock().unwrap().pop_front().unwrap_or(Some(StatusCode::OK));
                let Some(status) = answer else { return pending().await };
                Ok(Response::builder().status(status).body(Full::new(collector.says)).unwrap())
            }
        })
    }

    fn uris(&self) -> Vec<String> {
        self.got.lock().unwrap().iter().map(|(uri, ..)| uri.clone()).collect()
    }

    fn spans(&self) -> Vec<Span> {
        let got = self.got.lock().unwrap();
        let traces = got.iter().filter(|(uri, ..)| uri.ends_with("/v1/traces"));
        let messages = traces.map(|(_, _, body)| ExportTraceServiceRequest::decode(body.clone()).unwrap());
        let resources = messages.flat_map(|message| message.resource_spans);
        resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
    }
}

fn texts(attributes: &[KeyValue]) -> HashMap<&str, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::BoolValue(truth) => truth.to_string(),
        Value::DoubleValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|pair| (&*pair.key, text(pair.value.as_ref().unwrap().value.as_ref().unwrap()))).collect()
}

fn settings() -> OtlpSettings {
    let mut settings = OtlpSettings::new("http://collector:4318/");
    settings.headers.insert("authorization", HeaderValue::from_static("Bearer canary"));
    settings.resource = vec![("service.name".to_owned(), "stanchion".to_owned())];
    settings
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// A request in a trace: an attempt that fails, a fallback, and one that answers.
async fn ask(layer: &TelemetryLayer, flags: &str) {
    let within = service_fn(|request: Request<Full<Bytes>>| async move {
        let context = Context::of(&request);
        attempt(context, AttemptPhase::Started, "a/x", None);
        sleep(Duration::from_secs(1)).await;
        attempt(context, AttemptPhase::Failed, "a/x", Some(FailureKind::Overloaded));
        Context::emit(context, || Event::ModelFallback(FallbackEvent { from: "a/x".into(), to: "b/y".into() }));
        attempt(context, AttemptPhase::Started, "b/y", None);
        attempt(context, AttemptPhase::Committed, "b/y", None);
        Ok::<_, Failure>(Response::new(ScriptedBody::new([Step::Data(Bytes::from_static(b"data: {}\n\n"))])))
    });
    let mut request = request();
    let parent = format!("00-{TRACE}-00f067aa0ba902b7-{flags}");
    request.headers_mut().insert("traceparent", HeaderValue::try_from(parent).unwrap());
    layer.layer(within).oneshot(request).await.unwrap().into_body().collect().await.unwrap();
}

/// Sends until the work is done, and then what is left.
async fn while_sending(
    exporter: stanchion_telemetry::OtlpExporter,
    collector: &Collector,
    work: impl Future<Output = ()>,
) {
    let (end, ended) = oneshot::channel::<()>();
    let sending = exporter.run(collector.service(), async {
        let _ = ended.await;
    });
    tokio::join!(sending, async {
        work.await;
        let _ = end.send(());
    });
}

#[tokio::test(start_paused = true)]
async fn a_request_is_a_span_with_its_events_and_each_attempt_a_child_of_it() {
    let (otlp, exporter) = Otlp::new(settings());
    let layer = TelemetryLayer::new().models(["gpt-x"]).seed(7).sink(Arc::new(otlp.clone()));
    let collector = Collector::default();
    while_sending(exporter, &collector, async {
        ask(&layer, "01").await;
        // Not sampled: nobody wants to see it.
        ask(&layer, "00").await;
    })
    .await;
    assert_eq!(collector.uris(), ["http://collector:4318/v1/traces"]);
    assert_eq!((otlp.status().sent, otlp.status().dropped, otlp.status().failing), (3, 0, false));
    {
        let got = collector.got.lock().unwrap();
        let (_, headers, body) = &got[0];
        assert_eq!(headers["content-type"], "application/x-protobuf");
        assert_eq!(headers["authorization"], "Bearer canary");
        let message = ExportTraceServiceRequest::decode(body.clone()).unwrap();
        let resource = message.resource_spans[0].resource.as_ref().unwrap();
        assert_eq!(texts(&resource.attributes)["service.name"], "stanchion");
    }

    let spans = collector.spans();
    let [request, first, second] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!((&*request.name, request.kind), ("chat gpt-x", 2));
    assert_eq!((&*first.name, first.kind, &*second.name), ("attempt a/x", 3, "attempt b/y"));
    let trace =
        TRACE.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap());
    let trace: Vec<u8> = trace.collect();
    assert!(spans.iter().all(|span| span.trace_id == trace && span.span_id.len() == 8));
    assert_eq!(request.parent_span_id, 0x00f0_67aa_0ba9_02b7_u64.to_be_bytes());
    assert!([first, second].iter().all(|attempt| attempt.parent_span_id == request.span_id));
    assert_ne!(first.span_id, second.span_id);

    let told = texts(&request.attributes);
    for (key, value) in [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.request.model", "gpt-x"),
        ("stanchion.ending", "complete"),
        ("stanchion.fallbacks", "1"),
    ] {
        assert_eq!(told[key], value, "{told:?}");
    }
    assert_eq!(texts(&first.attributes)["error.type"], FailureKind::Overloaded.code());
    assert_eq!(
        (&*texts(&first.attributes)["http.response.status_code"], first.status.as_ref().unwrap().code),
        ("503", 2)
    );
    assert_eq!(
        (&*texts(&second.attributes)["stanchion.outcome"], second.status.as_ref().unwrap().code),
        ("answered", 0)
    );
    assert_eq!(first.end_time_unix_nano - first.start_time_unix_nano, 1_000_000_000);
    assert!(
        second.start_time_unix_nano >= first.end_time_unix_nano
            && request.end_time_unix_nano >= second.end_time_unix_nano
    );

    let events: Vec<_> = request.events.iter().map(|event| &*event.name).collect();
    assert_eq!(events[0], "model_fallback", "{events:?}");
    assert!(events.contains(&"first_chunk"), "{events:?}");
    assert_eq!(texts(&request.events[0].attributes)["stanchion.to"], "b/y");
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_fails_is_asked_again_and_one_that_refuses_is_not() {
    use StatusCode as Status;
    let cases = [
        (vec![Some(Status::SERVICE_UNAVAILABLE), Some(Status::TOO_MANY_REQUESTS)], 3, (3, 0)),
        (vec![Some(Status::BAD_REQUEST)], 1, (0, 3)),
        (vec![Some(Status::BAD_GATEWAY); 9], 4, (0, 3)),
        // One that never answers is given up after a while.
        (vec![None], 2, (3, 0)),
    ];
    for (answers, requests, counted) in cases {
        let (otlp, exporter) = Otlp::new(settings());
        let layer = TelemetryLayer::new().seed(7).sink(Arc::new(otlp.clone()));
        let collector = Collector::answering(answers);
        while_sending(exporter, &collector, async {
            ask(&layer, "01").await;
            sleep(Duration::from_secs(60)).await;
        })
        .await;
        assert_eq!((collector.uris().len(), (otlp.status().sent, otlp.status().dropped)), (requests, counted));
        assert_eq!(otlp.status().failing, counted.0 == 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_collector_takes_and_rejects_all_the_same_is_lost() {
    let says = |rejected_spans| {
        let partial_success = ExportTracePartialSuccess { rejected_spans, error_message: "canary".to_owned() };
        ExportTraceServiceResponse { partial_success: Some(partial_success) }.encode_to_vec().into()
    };
    // Two of three spans, more than there were, a mere warning, nonsense, and more than is read.
    for (says, counted) in [
        (says(2), (1, 2)),
        (says(7), (0, 3)),
        (says(0), (3, 0)),
        (says(-1), (3, 0)),
        (Bytes::from_static(b"{}"), (3, 0)),
        (says(2).repeat(10_000).into(), (3, 0)),
    ] {
        let (otlp, exporter) = Otlp::new(settings());
        let layer = TelemetryLayer::new().seed(7).sink(Arc::new(otlp.clone()));
        let collector = Collector { says, ..Collector::default() };
        while_sending(exporter, &collector, ask(&layer, "01")).await;
        let status = otlp.status();
        assert_eq!((status.sent, status.dropped), counted);
        assert_eq!((collector.uris().len(), status.failing), (1, false), "it is not sent a second time");
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_sends_is_dropped_and_counted_and_no_request_waits_for_it() {
    let (otlp, exporter) = Otlp::new(OtlpSettings { backlog: 2, ..settings() });
    let layer = TelemetryLayer::new().seed(7).sink(Arc::new(otlp.clone()));
    let began = tokio::time::Instant::now();
    for _ in 0..5 {
        ask(&layer, "01").await;
    }
    assert_eq!(began.elapsed(), Duration::from_secs(5), "what the provider took");
    assert_eq!(otlp.status().dropped, 9);
    // What was kept is sent at the end, once.
    let collector = Collector::answering([Some(StatusCode::SERVICE_UNAVAILABLE)]);
    while_sending(exporter, &collector, async {}).await;
    assert_eq!((collector.uris().len(), otlp.status().sent, otlp.status().dropped), (1, 0, 15));
    let (otlp, exporter) = Otlp::new(settings());
    drop(exporter);
    ask(&TelemetryLayer::new().sink(Arc::new(otlp.clone())), "01").await;
    assert_eq!(otlp.status().dropped, 3);
}

#[tokio::test(start_paused = true)]
async fn metrics_are_sent_as_a_scrape_shows_them() {
    let (otlp, exporter) = Otlp::new(OtlpSettings { metrics_every: Duration::from_secs(10), ..settings() });
    let metrics = Metrics::new();
    metrics.pull(move |pulled| otlp.pull(pulled));
    let layer = TelemetryLayer::new().models(["gpt-x"]).seed(7).sink(Arc::new(metrics.clone()));
    let collector = Collector::default();
    while_sending(exporter.metrics(metrics), &collector, async {
        ask(&layer, "01").await;
        ask(&layer, "01").await;
        sleep(Duration::from_secs(20)).await;
    })
    .await;
    assert_eq!(collector.uris(), ["http://collector:4318/v1/metrics"; 3], "twice in 22 s, and at the end");
    let got = collector.got.lock().unwrap();
    let message = ExportMetricsServiceRequest::decode(got[2].2.clone()).unwrap();
    let metrics: HashMap<_, _> = message.resource_metrics[0].scope_metrics[0]
        .metrics
        .iter()
        .map(|metric| (&*metric.name, (&*metric.unit, metric.data.as_ref().unwrap())))
        .collect();
    let (unit, Data::Sum(attempts)) = metrics["stanchion_attempts_total"] else { panic!("{metrics:?}") };
    assert_eq!((unit, attempts.is_monotonic, attempts.aggregation_temporality), ("{attempt}", true, 2));
    let mut candidates: Vec<_> =
        attempts.data_points.iter().map(|point| texts(&point.attributes)["candidate"].clone()).collect();
    candidates.sort();
    assert_eq!(candidates, ["a/x", "b/y"]);
    let (_, Data::Gauge(in_flight)) = metrics["stanchion_requests_in_flight"] else { panic!("{metrics:?}") };
    assert_eq!(in_flight.data_points.len(), 1);
    let (unit, Data::Histogram(durations)) = metrics["gen_ai.client.operation.duration"] else { panic!("{metrics:?}") };
    let point = &durations.data_points[0];
    assert_eq!((unit, point.count, point.sum), ("s", 2, Some(2.0)));
    assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
    assert_eq!(point.bucket_counts.iter().sum::<u64>(), 2);
    let at = point.explicit_bounds.iter().position(|bound| *bound >= 1.0).unwrap();
    assert_eq!(point.bucket_counts[at], 2, "{point:?}");
    assert_eq!(texts(&point.attributes)["gen_ai.request.model"], "gpt-x");
    assert!(metrics.contains_key("stanchion_otlp_spans_sent_total"));
}
