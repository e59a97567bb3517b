//! What a permit costs: uncontended, beside the semaphore of tokio and tower's limit; and a hand-over with 1, 1,000 and
//! 100,000 who wait.
//!
//! `cargo bench -p stanchion-admission`. Each line is the best of several runs.

use std::{
    hint::black_box,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Empty, Full};
use stanchion_admission::{AdmissionLayer, AdmissionPolicy, AdmissionScheduler, AdmissionTicket};
use stanchion_core::{Candidate, Context as About, Failure, Family, RequestClass, Selected};
use tokio::{sync::Semaphore, time::Instant};
use tower::{Layer, Service, limit::ConcurrencyLimitLayer, service_fn};

const RUNS: usize = 9;
/// How many requests are made before they are timed: few, so that they are still at hand when they are used.
const BATCH: usize = 64;

fn main() {
    // What `cargo test` passes to a target without a harness; a smoke test is enough then.
    let full = std::env::args().any(|argument| argument == "--bench");
    let rounds = if full { 500_000 } else { 1_000 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _entered = runtime.enter();

    let handle = layer(64).handle(&candidate());
    println!(
        "admit and release, named owner: {:.1} ns",
        best(|| uncontended(rounds, || handle.admit(Some("owner"), RequestClass::Foreground, 0)))
    );
    println!(
        "admit and release, no owner: {:.1} ns",
        best(|| uncontended(rounds, || handle.admit(None, RequestClass::Foreground, 0)))
    );
    // One of the owner's and one of the candidate's runs, so that their records stay.
    let held = now(handle.admit(Some("owner"), RequestClass::Foreground, 0));
    println!(
        "the same while another of its runs: {:.1} ns",
        best(|| uncontended(rounds, || handle.admit(Some("owner"), RequestClass::Foreground, 0)))
    );
    drop(held);
    let semaphore = Arc::new(Semaphore::new(64));
    println!(
        "tokio::sync::Semaphore, owned permit: {:.1} ns",
        best(|| uncontended(rounds, || semaphore.clone().acquire_owned()))
    );

    println!("the bare service: {:.1} ns", best(|| served(rounds, |service| service)));
    let admission = layer(64);
    println!("with Admission around it: {:.1} ns", best(|| served(rounds, |service| admission.layer(service))));
    let off = AdmissionLayer::default();
    println!("with Admission that is off: {:.1} ns", best(|| served(rounds, |service| off.layer(service))));
    let limit = ConcurrencyLimitLayer::new(64);
    println!("with tower's ConcurrencyLimit: {:.1} ns", best(|| served(rounds, |service| limit.layer(service))));

    for waiting in [1, 1_000, 100_000] {
        for owners in [1, 100, 100_000] {
            if owners > waiting.max(1) {
                continue;
            }
            let grants = if full { waiting.max(20_000) } else { waiting.min(1_000) };
            let per_second = (0..3).map(|_| grants_a_second(waiting, owners, grants)).fold(0.0, f64::max);
            println!(
                "{waiting} wait, {owners} owners: {:.0} grants a second ({:.0} ns each)",
                per_second,
                1e9 / per_second
            );
        }
    }
}

fn best(mut run: impl FnMut() -> f64) -> f64 {
    (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn candidate() -> Arc<Candidate> {
    Arc::new(Candidate::new("p", Family::OpenAi, "https://provider.example/v1"))
}

fn layer(concurrency: u32) -> AdmissionLayer {
    let scheduler = AdmissionScheduler::builder().max_pending(1_000_000).owner_max_pending(1_000_000);
    let policy = AdmissionPolicy::builder().concurrency(concurrency).max_pending(1_000_000);
    AdmissionLayer::new(scheduler.build().expect("within range"), policy.build().expect("within range"))
}

fn per_round(began: Instant, rounds: usize) -> f64 {
    began.elapsed().as_nanos() as f64 / rounds as f64
}

fn now<T>(ready: impl Future<Output = T>) -> T {
    match pin!(ready).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("there is room"),
    }
}

fn uncontended<F: Future>(rounds: usize, acquire: impl Fn() -> F) -> f64 {
    let began = Instant::now();
    for _ in 0..rounds {
        black_box(now(acquire()));
    }
    per_round(began, rounds)
}

/// Each grant is one release, the wake, the next one's look, and one more who enqueues at the end.
fn grants_a_second(waiting: usize, owners: usize, grants: usize) -> f64 {
    let handle = layer(1).handle(&candidate());
    let names: Vec<String> = (0..owners).map(|owner| format!("owner {owner}")).collect();
    let mut cx = Context::from_waker(Waker::noop());
    let admit = |number: usize| handle.admit(Some(&names[number % owners]), RequestClass::Foreground, 0);
    let mut permit = now(admit(0)).expect("there is room");
    let mut queue: std::collections::VecDeque<Pin<Box<AdmissionTicket>>> =
        (0..waiting).map(|number| Box::pin(admit(number))).collect();
    for ticket in &mut queue {
        assert!(ticket.as_mut().poll(&mut cx).is_pending());
    }
    let began = Instant::now();
    for grant in 0..grants {
        drop(permit);
        // Owners come in the order of their numbers, so the first of the queue is next.
        let mut next = queue.pop_front().expect("as many wait as before");
        let Poll::Ready(granted) = next.as_mut().poll(&mut cx) else { unreachable!("it is its turn") };
        permit = granted.expect("nothing is closed");
        let mut ticket = Box::pin(admit(waiting + grant));
        assert!(ticket.as_mut().poll(&mut cx).is_pending());
        queue.push_back(ticket);
    }
    grants as f64 / began.elapsed().as_secs_f64()
}

/// A call through the layers, with a reply at once. Requests are made beforehand.
fn served<S, L, R>(rounds: usize, layered: L) -> f64
where
    L: Fn(S0) -> S,
    S: Service<Request<Empty<Bytes>>, Response = R, Error = Failure>,
{
    let inner: S0 = service_fn(answer as fn(Request<Empty<Bytes>>) -> Answer);
    let mut service = layered(inner);
    let selected = Selected { candidate: candidate(), index: 0, last: true };
    let about = About::builder().owner("owner").build();
    let mut cx = Context::from_waker(Waker::noop());
    let mut spent = Duration::ZERO;
    for _ in 0..rounds.div_ceil(BATCH) {
        let requests: Vec<_> = (0..BATCH)
            .map(|_| {
                let mut request = Request::new(Empty::<Bytes>::new());
                request.extensions_mut().insert(selected.clone());
                request.extensions_mut().insert(about.clone());
                request
            })
            .collect();
        let began = Instant::now();
        for request in requests {
            assert!(service.poll_ready(&mut cx).is_ready());
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
type S0 = tower::util::ServiceFn<fn(Request<Empty<Bytes>>) -> Answer>;

fn answer(_: Request<Empty<Bytes>>) -> Answer {
    std::future::ready(Ok(Response::new(Full::new(Bytes::from_static(b"text")))))
}
