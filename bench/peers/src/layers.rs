//! Each concern, by our layer and by what one would take instead; and all of them, stacked.
//!
//! Ours get a request with what the layers outside of them put into it (the call, its context, the chosen candidate).
//! The others get it plain, since their users would not have that; each is compared with the provider alone under the
//! same request.

use std::{
    future::{Ready, ready},
    hint::black_box,
    pin::pin,
    sync::Arc,
    task::{Context as Wakes, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use stanchion::{
    core::Context,
    deadline::{AttemptLayer, RecoveryLayer},
    retry::RetryLayer,
};
use stanchion_bench::{
    drive::body,
    measure::{Subject, alone, by_two},
    onions,
    ready::{Provider, ReadyBody, inner_request, request},
};
use tower::{
    limit::ConcurrencyLimit,
    retry::{
        Policy, Retry,
        budget::{Budget, TpsBudget},
    },
    timeout::Timeout,
};
use tower_layer::Layer;
use tower_resilience_bulkhead::BulkheadLayer;
use tower_resilience_circuitbreaker::{CircuitBreakerLayer, SlidingWindowType};
use tower_resilience_timelimiter::{FixedTimeout, TimeLimiterLayer};
use tower_service::Service;

use crate::{
    allocations,
    wrapped::{Governed, Reclosed},
};

/// The name of the row with all our layers.
pub const WHOLE: &str = "the whole onion";
/// The name of the row with our layers of the concerns that the others have, too.
pub const OURS: &str = "recovery, retry, admission, circuit, attempt";
/// The name of the row that both are to be cheaper than.
pub const RESILIENCE: &str = "tower-resilience: time limiter, retry, breaker, bulkhead";

/// A row of the table: what it is about, whose it is, and what it costs above the provider alone.
#[derive(Debug)]
pub struct Row {
    /// Empty where it is that of the row before.
    pub concern: &'static str,
    /// What was measured.
    pub name: String,
    /// Nanoseconds above the provider alone.
    pub alone: f64,
    /// The same in each of two threads.
    pub by_two: f64,
    /// How many times memory is asked for, above the provider alone.
    pub allocations: f64,
}

/// All rows. Wants to be called within a runtime that has a timer.
pub fn measure(runs: usize, rounds: usize) -> Vec<Row> {
    let bare = Provider::streaming(1);
    let admission = onions::admission();
    let circuit = onions::circuit();
    let mut table = Table::default();

    table.of("limits of time");
    table.ours("`AttemptLayer`", AttemptLayer::default().layer(bare.clone()));
    table.ours("`RecoveryLayer`", RecoveryLayer::default().layer(bare.clone()));
    table.theirs("tower `Timeout`", Timeout::new(bare.clone(), MINUTES));
    table.theirs("tower-resilience time limiter", time_limiter().layer(bare.clone()));
    table.of("retries");
    table.ours("`RetryLayer`", RetryLayer::default().layer(bare.clone()));
    table.theirs("tower `Retry` with `TpsBudget`", Retry::new(RetryFailures::new(), bare.clone()));
    table.theirs("tower-resilience retry", retry().layer(bare.clone()));
    table.of("how many at once");
    table.ours("`AdmissionLayer`", admission.layer(bare.clone()));
    table.theirs("tower `ConcurrencyLimit`", ConcurrencyLimit::new(bare.clone(), 100));
    table.theirs("tower-resilience bulkhead", bulkhead().layer(bare.clone()));
    table.theirs("governor, how many a second", Governed::new(bare.clone()));
    table.of("breakers");
    table.ours("`CircuitLayer`", circuit.layer(bare.clone()));
    table.theirs("tower-resilience breaker, the last 100", breaker().layer(bare.clone()));
    table.theirs("tower-resilience breaker, the last 10 ms", breaker_by_time().layer(bare.clone()));
    table.theirs("recloser", Reclosed::new(bare.clone()));
    table.of("stacked");
    let attempt = AttemptLayer::default().layer(bare.clone());
    let queued = admission.layer(circuit.layer(attempt));
    table.ours(OURS, RecoveryLayer::default().layer(RetryLayer::default().layer(queued)));
    let limited = ConcurrencyLimit::new(bare.clone(), 100);
    let tower = Timeout::new(Retry::new(RetryFailures::new(), limited), MINUTES);
    table.theirs("tower: timeout, retry, concurrency limit", tower);
    let guarded = breaker().layer(bulkhead().layer(bare.clone()));
    table.theirs(RESILIENCE, time_limiter().layer(retry().layer(guarded)));
    // It makes what its layers within need by itself.
    table.theirs(WHOLE, onions::whole(bare));
    table.measure(runs, rounds)
}

/// Longer than any bench.
const MINUTES: Duration = Duration::from_secs(600);

fn time_limiter() -> TimeLimiterLayer<FixedTimeout> {
    TimeLimiterLayer::builder().timeout_duration(MINUTES).build()
}

fn retry<E>() -> tower_resilience_retry::RetryLayer<Request<Full<Bytes>>, Response<ReadyBody>, E> {
    tower_resilience_retry::RetryLayer::builder()
        .max_attempts(3)
        .exponential_backoff(Duration::from_millis(100))
        .build()
}

fn bulkhead() -> BulkheadLayer {
    BulkheadLayer::builder().max_concurrent_calls(100).build().expect("valid")
}

fn breaker() -> CircuitBreakerLayer {
    CircuitBreakerLayer::builder().failure_rate_threshold(0.5).sliding_window_size(100).build().expect("valid")
}

/// Its cost grows with the calls in its window, so that this one is short.
fn breaker_by_time() -> CircuitBreakerLayer {
    CircuitBreakerLayer::builder()
        .failure_rate_threshold(0.5)
        .sliding_window_type(SlidingWindowType::TimeBased)
        .sliding_window_duration(Duration::from_millis(10))
        .minimum_number_of_calls(10)
        .build()
        .expect("valid")
}

/// Repeats what failed, as far as a budget goes.
#[derive(Debug, Clone)]
struct RetryFailures(Arc<TpsBudget>);

impl RetryFailures {
    fn new() -> Self {
        Self(Arc::new(TpsBudget::new(Duration::from_secs(10), 10, 0.2)))
    }
}

impl<E> Policy<Request<Full<Bytes>>, Response<ReadyBody>, E> for RetryFailures {
    type Future = Ready<()>;

    fn retry(
        &mut self,
        _: &mut Request<Full<Bytes>>,
        result: &mut Result<Response<ReadyBody>, E>,
    ) -> Option<Ready<()>> {
        if result.is_ok() {
            self.0.deposit();
            return None;
        }
        self.0.withdraw().then(|| ready(()))
    }

    fn clone_request(&mut self, request: &Request<Full<Bytes>>) -> Option<Request<Full<Bytes>>> {
        Some(request.clone())
    }
}

/// What is measured, before it is.
#[derive(Default)]
struct Table {
    concern: &'static str,
    // With the concern, and whether it is ours and gets what is put into requests.
    rows: Vec<(&'static str, bool)>,
    subjects: Vec<Subject>,
}

impl Table {
    fn of(&mut self, concern: &'static str) {
        self.concern = concern;
    }

    fn ours<S, R>(&mut self, name: &str, service: S)
    where
        S: Service<Request<Full<Bytes>>, Response = Response<R>> + Clone + Send + 'static,
        R: Body<Data = Bytes>,
    {
        self.rows.push((self.concern, true));
        self.subjects.push(subject(name, service, inner));
    }

    fn theirs<S, R>(&mut self, name: &str, service: S)
    where
        S: Service<Request<Full<Bytes>>, Response = Response<R>> + Clone + Send + 'static,
        R: Body<Data = Bytes>,
    {
        self.rows.push((self.concern, false));
        self.subjects.push(subject(name, service, request));
    }

    fn measure(mut self, runs: usize, rounds: usize) -> Vec<Row> {
        let bare = Provider::streaming(1);
        self.subjects.push(subject("the provider alone", bare.clone(), request));
        self.subjects.push(subject("the provider alone", bare, inner));
        let by_two = by_two(&self.subjects, runs, rounds);
        let alone = alone(&self.subjects, runs, rounds);
        let allocations: Vec<_> = self.subjects.iter().map(allocations).collect();
        let plain = self.rows.len();
        let rows = self.rows.into_iter().zip(self.subjects).enumerate();
        rows.map(|(row, ((concern, ours), subject))| {
            let above = |costs: &[f64]| costs[row] - costs[if ours { plain + 1 } else { plain }];
            Row {
                concern,
                name: subject.name,
                alone: above(&alone),
                by_two: above(&by_two),
                allocations: above(&allocations),
            }
        })
        .collect()
    }
}

/// A request as it comes to a layer within the onion, with a context of its own.
fn inner() -> Request<Full<Bytes>> {
    inner_request(Context::default())
}

/// A request to the service, and its reply to the end.
fn subject<S, R>(name: &str, service: S, request: fn() -> Request<Full<Bytes>>) -> Subject
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>> + Clone + Send + 'static,
    R: Body<Data = Bytes>,
{
    Subject::new(name, move || {
        let mut service = service.clone();
        Box::new(move || _ = black_box(body(head(&mut service, black_box(request())))))
    })
}

/// Asks, and returns the reply. Some of the others wait for each other where two threads ask: then it looks again and
/// again, which is the least that waiting can cost.
fn head<S, R>(service: &mut S, request: Request<Full<Bytes>>) -> Response<R>
where
    S: Service<Request<Full<Bytes>>, Response = Response<R>>,
{
    let cx = &mut Wakes::from_waker(Waker::noop());
    let ready = until_ready(|| service.poll_ready(cx));
    assert!(ready.is_ok(), "it fails before it is asked");
    let mut answer = pin!(service.call(request));
    until_ready(|| answer.as_mut().poll(cx)).unwrap_or_else(|_| panic!("it fails"))
}

fn until_ready<T>(mut poll: impl FnMut() -> Poll<T>) -> T {
    loop {
        match poll() {
            Poll::Ready(value) => return value,
            Poll::Pending => std::hint::spin_loop(),
        }
    }
}
