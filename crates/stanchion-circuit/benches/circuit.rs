//! What a closed circuit costs a request: check and settle, alone and from two threads, on one circuit and on 128; and
//! both layers around a service that does nothing.
//!
//! `cargo bench -p stanchion-circuit`. Each line is the best of several runs, in nanoseconds for one request.

use std::{
    hint::black_box,
    pin::pin,
    sync::Barrier,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use stanchion_circuit::{CircuitHandle, CircuitLayer, CircuitPolicy, CircuitRegistry};
use stanchion_core::{Candidate, Candidates, Failure, Family, Selected, StreamRecord};
use tokio::time::Instant;
use tower::{Layer, Service, service_fn};

const RUNS: usize = 9;
/// How many requests are made before they are timed: few, so that they are still at hand when they are used.
const BATCH: usize = 64;

fn main() {
    // What `cargo test` passes to a target without a harness; a smoke test is enough then.
    let rounds = if std::env::args().any(|argument| argument == "--bench") { 500_000 } else { 1_000 };
    println!("two readings of the clock: {:.1} ns", clock(rounds));
    for circuits in [1, 128] {
        for named in [true, false] {
            let handles = handles(circuits, named);
            let found = if named { "in the model's list" } else { "by address" };
            for threads in [1, 2] {
                let cost = best(|| from_threads(threads, rounds, &handles));
                println!("check and settle, {circuits} circuits {found}, {threads} threads: {cost:.1} ns");
            }
        }
    }
    println!("the bare service: {:.1} ns", best(|| served(rounds, |service| service)));
    let (layer, _) = layer(1, true);
    println!("with the circuit around it: {:.1} ns", best(|| served(rounds, |service| layer.layer(service))));
    let both = |service| layer.preflight().layer(layer.layer(service));
    println!("with preflight, too: {:.1} ns", best(|| served(rounds, both)));
}

fn best(mut run: impl FnMut() -> f64) -> f64 {
    (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn layer(circuits: usize, named: bool) -> (CircuitLayer, Candidates) {
    let candidate = |number| Candidate::new(format!("p{number}"), Family::OpenAi, "https://provider.example/v1");
    let candidates = Candidates::new((0..circuits).map(candidate));
    let layer = CircuitLayer::new(CircuitRegistry::new(), CircuitPolicy::default());
    (if named { layer.with_candidates(candidates.clone()) } else { layer }, candidates)
}

fn handles(circuits: usize, named: bool) -> Vec<CircuitHandle> {
    let (layer, candidates) = layer(circuits, named);
    candidates.iter().map(|candidate| layer.circuit(candidate)).collect()
}

fn per_round(began: Instant, rounds: usize) -> f64 {
    began.elapsed().as_nanos() as f64 / rounds as f64
}

fn clock(rounds: usize) -> f64 {
    let began = Instant::now();
    for _ in 0..rounds {
        black_box((Instant::now(), Instant::now()));
    }
    per_round(began, rounds)
}

/// The time of a request in each thread, while all of them go on.
fn from_threads(threads: usize, rounds: usize, handles: &[CircuitHandle]) -> f64 {
    let start = Barrier::new(threads);
    let times: Vec<f64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let start = &start;
                scope.spawn(move || {
                    // So that the threads do not walk the circuits in step.
                    let mut next = thread * handles.len() / threads;
                    start.wait();
                    let began = Instant::now();
                    for _ in 0..rounds {
                        next = (next + 1) % handles.len();
                        let token = handles[next].check(Instant::now()).ok().flatten().expect("closed");
                        black_box(token.succeed(Instant::now()));
                    }
                    per_round(began, rounds)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().expect("no panic")).collect()
    });
    times.iter().sum::<f64>() / threads as f64
}

/// A call through the layers, with a reply whose output has begun. Requests are made beforehand.
fn served<S, L, R>(rounds: usize, layered: L) -> f64
where
    L: Fn(S0) -> S,
    S: Service<Request<()>, Response = Response<R>, Error = Failure>,
{
    let (record, mut recorder) = StreamRecord::new();
    recorder.output();
    let inner: S0 = service_fn(answer as fn(Request<()>) -> Answer);
    let mut service = layered(inner);
    let selected = Selected { candidate: layer(1, true).1.iter().next().expect("one").clone(), index: 0, last: true };
    let mut cx = Context::from_waker(Waker::noop());
    let mut spent = Duration::ZERO;
    for _ in 0..rounds.div_ceil(BATCH) {
        let requests: Vec<_> = (0..BATCH)
            .map(|_| {
                let mut request = Request::new(());
                request.extensions_mut().insert(selected.clone());
                request.extensions_mut().insert(record.clone());
                request
            })
            .collect();
        let began = Instant::now();
        for request in requests {
            let call = pin!(service.call(request));
            match call.poll(&mut cx) {
                Poll::Ready(response) => drop(black_box(response)),
                Poll::Pending => unreachable!("it answers at once"),
            }
        }
        spent += began.elapsed();
    }
    spent.as_nanos() as f64 / (rounds.div_ceil(BATCH) * BATCH) as f64
}

type Answer = std::future::Ready<Result<Response<Full<Bytes>>, Failure>>;
type S0 = tower::util::ServiceFn<fn(Request<()>) -> Answer>;

fn answer(mut request: Request<()>) -> Answer {
    let mut response = Response::new(Full::default());
    // The extensions with the record in them go back as they came.
    *response.extensions_mut() = std::mem::take(request.extensions_mut());
    std::future::ready(Ok(response))
}
