//! What the layer costs a request and a chunk: not at all there, without a sink, and with sinks.
//!
//! `cargo bench -p stanchion-telemetry`. Each line is the best of several runs.

use std::{
    hint::black_box,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context as Wakes, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use http_body_util::Full;
use stanchion_core::{
    AttemptPhase, Call, Context, Dialect, Event, Failure, ProviderAttempt, RequestClass, Usage, UsageEvent,
    UsageQuality,
};
use stanchion_telemetry::{CallRecords, Live, Metrics, TelemetryLayer, call_records::Storage};
use tokio::time::Instant;
use tower::{Layer, Service, service_fn};

/// Many short ones: the best of them was not interrupted.
const RUNS: usize = 201;

fn main() {
    // What `cargo test` passes to a target without a harness; a smoke test is enough then.
    let full = std::env::args().any(|argument| argument == "--bench");
    let (requests, chunks) = if full { (500, 20_000) } else { (10, 100) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _entered = runtime.enter();

    let (live, metrics) = (Arc::new(Live::default()), Arc::new(Metrics::new()));
    let records = Arc::new(CallRecords::start(Nowhere, 4096).expect("a thread"));
    let layer = || TelemetryLayer::new().models(["m"]);
    let layers = [
        ("without a sink", layer()),
        ("with Live", layer().sink(live.clone())),
        ("with CallRecords", layer().sink(records.clone())),
        ("with Metrics", layer().sink(metrics.clone())),
        ("with all three", layer().sink(metrics).sink(live).sink(records)),
    ];
    for (what, requests, chunks) in [("a request", requests, 1), ("a chunk", 1, chunks)] {
        let each = f64::from(chunks);
        let mut alone = f64::INFINITY;
        let mut best = layers.each_ref().map(|(name, _)| (*name, f64::INFINITY));
        // In turns, so that a busy moment of the machine hits all.
        for _ in 0..RUNS {
            alone = alone.min(serve(provider(chunks), requests) / each);
            for ((_, layer), (_, best)) in layers.iter().zip(&mut best) {
                *best = best.min(serve(layer.layer(provider(chunks)), requests) / each);
            }
        }
        println!("{what}, its provider alone: {alone:.1} ns");
        for (name, best) in best {
            println!("{what}, {name}: {best:.1} ns");
        }
    }
}

struct Nowhere;

impl Storage for Nowhere {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        black_box(line);
        Ok(())
    }
}

/// So many chunks, each ready at once.
struct Chunks(u32);

impl Body for Chunks {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Wakes<'_>) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let Some(left) = self.0.checked_sub(1) else { return Poll::Ready(None) };
        self.0 = left;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"data: x\n\n")))))
    }
}

/// Tells of an attempt, its first output and its usage, and answers.
fn provider(
    chunks: u32,
) -> impl Service<Request<Full<Bytes>>, Response = Response<Chunks>, Error = Failure, Future: Send> + Clone {
    let candidate: Arc<str> = "p/m".into();
    service_fn(move |request: Request<Full<Bytes>>| {
        let context = Context::of(&request);
        for phase in [AttemptPhase::Started, AttemptPhase::Committed] {
            Context::emit(context, || {
                Event::ProviderAttempt(ProviderAttempt {
                    phase,
                    candidate: candidate.clone(),
                    attempt: 1,
                    failure: None,
                    failed_in: None,
                    status_code: None,
                    elapsed: Duration::from_millis(7),
                })
            });
        }
        Context::emit(context, || {
            Event::Usage(UsageEvent {
                candidate: Some(candidate.clone()),
                model: None,
                request_class: RequestClass::Foreground,
                quality: UsageQuality::Measured,
                tokens: Usage { input: Some(10), cache_read: Some(90), output: Some(5), ..Usage::default() },
                cost_nanodollars: Some(7),
            })
        });
        std::future::ready(Ok(Response::new(Chunks(chunks))))
    })
}

/// Nanoseconds for each request, read to its end.
fn serve<S, B>(mut service: S, requests: u32) -> f64
where
    S: Service<Request<Full<Bytes>>, Response = Response<B>>,
    B: Body,
{
    let mut cx = Wakes::from_waker(Waker::noop());
    let call = Call::new(Dialect::OpenAiChat, true).with_model("m");
    let began = Instant::now();
    for _ in 0..requests {
        let mut request = Request::new(Full::default());
        request.extensions_mut().insert(Context::default());
        request.extensions_mut().insert(call.clone());
        let Poll::Ready(Ok(reply)) = pin!(service.call(request)).poll(&mut cx) else { panic!("it answers at once") };
        let mut body = pin!(reply.into_body());
        while let Poll::Ready(Some(frame)) = body.as_mut().poll_frame(&mut cx) {
            black_box(frame.is_ok());
        }
    }
    began.elapsed().as_nanos() as f64 / f64::from(requests)
}
