//! What each layer costs a request and a frame, and all of them together, over a provider that is always ready.
//!
//! `cargo bench -p stanchion-bench --bench layers`. Everything is built once, outside of what is timed; the cost of the
//! provider and of making the request is taken off. Nanoseconds are the best of several runs.

#![expect(clippy::disallowed_types, reason = "real time is what is measured")]

use std::{hint::black_box, time::Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use stanchion::{
    cache_break::CacheBreakLayer,
    core::Context,
    credentials::{CredentialPools, CredentialsLayer},
    deadline::{AttemptLayer, RecoveryLayer},
    edge::EdgeLayer,
    fallback::FallbackLayer,
    retry::RetryLayer,
    stream::{CommitLayer, ObserveLayer},
    upstream::Upstream,
};
use stanchion_bench::{
    drive::{body, head},
    measure::{Subject, alone, by_two},
    onions,
    ready::{Provider, inner_request, request},
};
use tower_layer::Layer;
use tower_service::Service;

const RUNS: usize = 7;
const EVENTS: usize = 100;

/// What one request costs.
#[derive(Debug, Clone, Copy)]
struct Cost {
    /// Nanoseconds to the head of the reply, with a body that is dropped unread.
    head: f64,
    /// Nanoseconds for each piece of the body.
    piece: f64,
    /// Allocations to the head.
    head_allocations: f64,
    /// Allocations for each piece of the body, between the tenth and the last.
    piece_allocations: f64,
}

fn main() {
    // What `cargo test` passes to a target without a harness; a smoke test is enough then.
    let rounds = if std::env::args().any(|argument| argument == "--bench") { 20_000 } else { 50 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // Timers want one; nothing is ever driven by it.
    let _entered = runtime.enter();

    let outer = |_: &Context| request();
    let inner = |context: &Context| inner_request(context.clone());
    let bare = cost(rounds, Provider::streaming, inner);
    let bare_outer = cost(rounds, Provider::streaming, outer);
    println!("{:<28} {:>9} {:>9} {:>12} {:>12}", "", "head, ns", "piece, ns", "head, allocs", "piece, allocs");
    show("the provider alone", bare, None);
    macro_rules! each {
        ($($name:literal: $layer:expr;)+) => {$({
            let layer = $layer;
            show($name, cost(rounds, |events| layer.layer(Provider::streaming(events)), inner), Some(bare));
        })+};
    }
    each! {
        "cache break, no session": CacheBreakLayer::default();
        "usage": onions::usage();
        "recovery": RecoveryLayer::default();
        "fallback": FallbackLayer::new(onions::candidates());
        "retry": RetryLayer::default();
        "credentials, none": CredentialsLayer::new(CredentialPools::default());
        "circuit, before the queue": onions::circuit().preflight();
        "admission": onions::admission();
        "circuit": onions::circuit();
        "attempt": AttemptLayer::default();
        "observe": ObserveLayer::new();
    }
    let observed = ObserveLayer::new();
    let observing = cost(rounds, |events| observed.layer(Provider::streaming(events)), inner);
    let commit = CommitLayer::new();
    show(
        "commit, over observe",
        cost(rounds, |events| commit.layer(observed.layer(Provider::streaming(events))), inner),
        Some(observing),
    );
    show("upstream", cost(rounds, |events| Upstream::new(Provider::streaming(events)), inner), Some(bare));
    let edge = EdgeLayer::new();
    show("edge", cost(rounds, |events| edge.layer(Provider::streaming(events)), outer), Some(bare_outer));
    show("all of them", cost(rounds, |events| onions::whole(Provider::streaming(events)), outer), Some(bare_outer));

    let mut refused = onions::whole(Provider::refusing());
    let failed = best(rounds, || body(head(&mut refused, request())));
    println!("\na request that the provider refuses, through all of them: {failed:.0} ns");

    let service = onions::whole(Provider::streaming(10));
    let whole = Subject::new("all of them", move || {
        let mut service = service.clone();
        Box::new(move || _ = black_box(body(head(&mut service, request()))))
    });
    let (runs, rounds) = (rounds.div_ceil(200), rounds.div_ceil(200));
    let subjects = [whole];
    let (one, two) = (alone(&subjects, runs, rounds)[0], by_two(&subjects, runs, rounds)[0]);
    println!("all of them on 1 thread: {one:.0} ns, on 2 threads: {two:.0} ns each ({:.2} times)", two / one);
}

fn show(name: &str, cost: Cost, less: Option<Cost>) {
    let none = Cost { head: 0.0, piece: 0.0, head_allocations: 0.0, piece_allocations: 0.0 };
    let less = less.unwrap_or(none);
    println!(
        "{name:<28} {:>9.0} {:>9.1} {:>12.1} {:>12.2}",
        cost.head - less.head,
        cost.piece - less.piece,
        cost.head_allocations - less.head_allocations,
        cost.piece_allocations - less.piece_allocations,
    );
}

fn cost<S, R>(rounds: usize, service: impl Fn(usize) -> S, request: impl Fn(&Context) -> Request<Full<Bytes>>) -> Cost
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>>,
    R: Body<Data = Bytes>,
{
    let context = Context::default();
    let mut short = service(10);
    let mut long = service(EVENTS + 10);
    let heads = best(rounds, || drop(black_box(head(&mut short, request(&context)))));
    let shorts = best(rounds / 10, || body(head(&mut short, request(&context))));
    let longs = best(rounds / 10, || body(head(&mut long, request(&context))));
    let head_allocations = allocations(|| drop(head(&mut short, request(&context))));
    let in_short = allocations(|| _ = body(head(&mut short, request(&context))));
    let in_long = allocations(|| _ = body(head(&mut long, request(&context))));
    Cost {
        head: heads,
        piece: (longs - shorts) / EVENTS as f64,
        head_allocations,
        piece_allocations: (in_long - in_short) / EVENTS as f64,
    }
}

/// The best time of one round, in nanoseconds.
fn best<T>(rounds: usize, mut round: impl FnMut() -> T) -> f64 {
    let run = |_| {
        let began = Instant::now();
        for _ in 0..rounds {
            black_box(round());
        }
        began.elapsed().as_nanos() as f64 / rounds as f64
    };
    (0..RUNS).map(run).fold(f64::INFINITY, f64::min)
}

/// How many times one round asks for memory, once everything that is made once is there.
fn allocations(mut round: impl FnMut()) -> f64 {
    const ROUNDS: u32 = 16;
    (0..ROUNDS).for_each(|_| round());
    let counted = allocation_counter::measure(|| (0..ROUNDS).for_each(|_| round()));
    counted.count_total as f64 / f64::from(ROUNDS)
}
