//! What it costs to ask the first candidate, and to go on to the next when that fails.
//!
//! `cargo bench -p stanchion-fallback`. Each line is the best of several runs, in nanoseconds for one request, over
//! candidates that answer at once.

use std::{
    future::{Ready, ready},
    hint::black_box,
    pin::pin,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header::CONTENT_TYPE};
use http_body_util::Full;
use stanchion_core::{Candidate, Candidates, Failure, FailureKind, Family, Phase, Selected};
use stanchion_fallback::FallbackLayer;
use tokio::time::Instant;
use tower::{Layer, Service, service_fn};

const RUNS: usize = 9;

fn main() {
    // What `cargo test` passes to a target without a harness; a smoke test is enough then.
    let rounds = if std::env::args().any(|argument| argument == "--bench") { 50_000 } else { 100 };
    let bare = best(rounds, service_fn(answer as fn(Request<Full<Bytes>>) -> Answer));
    println!("the bare service: {bare:.0} ns");
    for candidates in [1, 2, 10] {
        let layer = FallbackLayer::new(Candidates::new((0..candidates).map(candidate)));
        for fails in (0..candidates).step_by((candidates - 1).max(1)) {
            let service = service_fn(move |request| answer_after(fails, request));
            println!(
                "{candidates} candidates, {fails} fail first: {:.0} ns more",
                best(rounds, layer.layer(service)) - bare
            );
        }
    }
}

fn candidate(number: usize) -> Candidate {
    Candidate::new(format!("provider-{number}"), Family::OpenAi, "https://provider.example/v1")
}

type Answer = Ready<Result<Response<Full<Bytes>>, Failure>>;

fn answer(_: Request<Full<Bytes>>) -> Answer {
    ready(Ok(Response::new(Full::new(Bytes::from_static(b"text")))))
}

/// So many candidates are overloaded, and the others answer.
fn answer_after(fails: usize, request: Request<Full<Bytes>>) -> Answer {
    let index = request.extensions().get::<Selected>().expect("set by the layer").index;
    if index < fails {
        return ready(Err(Failure::new(FailureKind::Overloaded).with_phase(Phase::BeforeOutput)));
    }
    answer(request)
}

/// Nanoseconds of a request, made and answered, in the best run.
fn best<S>(rounds: usize, mut service: S) -> f64
where
    S: Service<Request<Full<Bytes>>, Response = Response<Full<Bytes>>, Error = Failure>,
{
    let mut cx = Context::from_waker(Waker::noop());
    let mut run = || {
        let began = Instant::now();
        for _ in 0..rounds {
            let mut request = Request::new(Full::new(Bytes::from_static(b"{}")));
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            assert!(service.poll_ready(&mut cx).is_ready());
            match pin!(service.call(request)).poll(&mut cx) {
                Poll::Ready(response) => drop(black_box(response.expect("the last one answers"))),
                Poll::Pending => unreachable!("it answers at once"),
            }
        }
        began.elapsed().as_nanos() as f64 / rounds as f64
    };
    (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}
