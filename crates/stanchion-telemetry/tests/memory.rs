//! What the sinks keep, counted by the allocator. One test, so that nobody else allocates.

use std::{alloc::System, io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use stanchion_core::{
    AttemptPhase, Context, Event, Failure, ProviderAttempt, RequestClass, Usage, UsageEvent, UsageQuality,
};
use stanchion_telemetry::{
    CallRecords, Live, Metrics, MetricsFormat, TelemetryLayer,
    call_records::Storage,
    live::{LiveTold, Subscription},
};
use stanchion_testkit::{ScriptedBody, Step, request_in};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use tower::{Layer, Service, ServiceExt, service_fn};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn allocated() -> isize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.cast_signed() - stats.bytes_deallocated.cast_signed()
}

/// A disk that takes everything.
struct Nowhere;

impl Storage for Nowhere {
    fn append(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// Two hundred candidates, more than there are charts for; a stream that goes on after its first pieces.
fn provider()
-> impl Service<Request<Full<Bytes>>, Response = Response<ScriptedBody>, Error = Failure, Future: Send> + Clone {
    let count = Arc::new(std::sync::atomic::AtomicU32::new(0));
    service_fn(move |request: Request<Full<Bytes>>| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) % 200;
        let context = Context::of(&request);
        let candidate: Arc<str> = format!("p/{number}").into();
        for phase in [AttemptPhase::Started, AttemptPhase::Committed] {
            Context::emit(context, || {
                Event::ProviderAttempt(ProviderAttempt {
                    phase,
                    candidate: candidate.clone(),
                    attempt: 1,
                    failure: None,
                    failed_in: None,
                    status_code: None,
                    elapsed: Duration::from_millis(number.into()),
                })
            });
        }
        Context::emit(context, || {
            Event::Usage(UsageEvent {
                candidate: Some(candidate),
                model: None,
                request_class: RequestClass::Foreground,
                quality: UsageQuality::Measured,
                tokens: Usage { input: Some(10), cache_read: Some(90), output: Some(5), ..Usage::default() },
                cost_nanodollars: Some(7),
            })
        });
        let pieces = (0..4).map(|_| Step::Data("data: x\n\n".into()));
        std::future::ready(Ok(Response::new(ScriptedBody::new(pieces.chain([Step::Hang])))))
    })
}

async fn drained(mut subscription: Subscription) -> u64 {
    let mut lost = 0;
    while let Ok(Some(told)) = tokio::time::timeout(Duration::from_secs(1), subscription.next()).await {
        if let LiveTold::Lost(more) = told {
            lost += more;
        }
    }
    lost
}

#[tokio::test(start_paused = true)]
async fn after_500_streams_and_10_000_requests_nothing_has_grown() {
    let (live, metrics) = (Live::default(), Metrics::new());
    let records = CallRecords::start(Nowhere, 64).unwrap();
    let layer = TelemetryLayer::new().start_traces(true);
    let layer = layer.sink(Arc::new(live.clone())).sink(Arc::new(metrics.clone())).sink(Arc::new(records.clone()));
    let service = layer.layer(provider());
    // Subscribes, and never listens.
    let slow = live.subscribe();
    let ask = async || {
        let request = request_in(Context::default());
        let mut body = service.clone().oneshot(request).await.unwrap().into_body();
        for _ in 0..4 {
            body.frame().await.unwrap().unwrap();
        }
        body
    };
    let settled = async || {
        tokio::time::advance(Duration::from_millis(30)).await;
        while records.status().written + records.status().dropped < metrics_requests(&metrics) {
            std::thread::yield_now();
        }
        // The snapshot is gone before it is counted what is left.
        let listed = live.snapshot().requests.len();
        (listed, allocated())
    };

    // Until everything that is kept at all is there: charts, series, a full backlog.
    for _ in 0..2_000 {
        drop(ask().await);
    }
    let (none, before) = settled().await;
    let mut streams = Vec::with_capacity(500);
    for _ in 0..500 {
        streams.push(ask().await);
    }
    let (listed, with_streams) = settled().await;
    let each = (with_streams - before) / 500;
    assert_eq!((none, listed, live.in_flight()), (0, 500, 500));
    drop(streams);
    for number in 0..10_000 {
        drop(ask().await);
        if number % 100 == 0 {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
    }
    let (left, after) = settled().await;
    assert_eq!((left, live.in_flight()), (0, 0));
    let grown = after - before;
    println!("{each} bytes for each stream; {grown} more after all");
    assert!(each < 4 << 10, "{each} bytes for each stream");
    assert!(grown < 64 << 10, "{grown} bytes have grown");
    assert!(drained(slow).await > 10_000, "the slow one has lost what was not kept for it");
}

fn metrics_requests(metrics: &Metrics) -> u64 {
    let text = metrics.encode(MetricsFormat::Prometheus);
    let requests = text.lines().filter(|line| line.starts_with("stanchion_requests_total"));
    requests.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64).sum()
}
