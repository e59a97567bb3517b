//! What a request costs where there are many models, failure domains, owners, open streams, or requests that wait.
//!
//! `cargo bench -p stanchion-bench --bench scale` prints the figures, and draws them into `docs/benchmarks`. Each is the
//! best of many short runs, over a provider that is always ready, with every layer on.

#![expect(clippy::disallowed_types, reason = "real time is what is measured")]

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    hint::black_box,
    path::Path,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context as Wakes, Poll, Waker},
    time::Instant,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use http_body_util::Full;
use stanchion::{
    Onion,
    admission::{AdmissionHandle, AdmissionLayer, AdmissionPolicy, AdmissionScheduler, AdmissionTicket},
    cache_break::CacheBreakLayer,
    circuit::{CircuitLayer, CircuitPolicy, CircuitRegistry},
    core::{Candidate, Candidates, Family, RequestClass, Secret},
    credentials::{CredentialPools, CredentialsLayer},
    deadline::{AttemptLayer, RecoveryLayer},
    edge::EdgeLayer,
    fallback::FallbackLayer,
    retry::RetryLayer,
    stream::{CommitLayer, ObserveLayer},
    telemetry::{Live, LiveLimits, Metrics, TelemetryLayer},
    upstream::Upstream,
    usage::UsageLayer,
};
use stanchion_bench::{
    drive::{body, head},
    onions,
    plot::{Curve, Plot},
    ready::{Provider, request},
};
use tower_service::Service;

/// So many of each, up to ten thousand, or twice that.
const TO_10_000: [usize; 9] = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000];
const TO_20_000: [usize; 10] = [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000, 20_000];

fn main() {
    // What `cargo test` passes to a target without a harness; a smoke test is enough then, and nothing is drawn.
    let full = std::env::args().any(|argument| argument == "--bench");
    let effort = if full { Effort { runs: 100, rounds: 25 } } else { Effort { runs: 1, rounds: 3 } };
    let some = |counts: &'static [usize]| if full { counts } else { &counts[..3] };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // Timers want one; nothing is ever driven by it.
    let _entered = runtime.enter();

    let mut plots = Vec::new();
    plots.push(plot(
        "models",
        "models, asked for in turn",
        some(&TO_10_000),
        &[("all layers; models that lead to the same place", &|models| by_model(models, |_| "m".into(), effort))],
    ));
    plots.push(plot(
        "domains",
        "failure domains, asked in turn",
        some(&TO_10_000),
        &[
            ("all layers; each model a domain of its own", &|domains| by_model(domains, |n| format!("m{n}"), effort)),
            ("the circuit alone: check and settle", &|domains| by_circuit(domains, effort)),
            ("the queue alone: admit and release", &|domains| by_place(domains, effort)),
        ],
    ));
    plots.push(plot(
        "owners",
        "owners, each with a stream open",
        some(&TO_10_000),
        &[
            ("all layers", &|owners| beside_streams(owners, true, effort)),
            ("the queue alone: admit and release", &|owners| by_owner(owners, effort)),
        ],
    ));
    plots.push(plot(
        "streams",
        "streams that are open, of one owner",
        some(&TO_20_000),
        &[("all layers", &|streams| beside_streams(streams, false, effort))],
    ));
    plots.push(plot(
        "queue",
        "requests that wait",
        some(&TO_20_000),
        &[
            ("a hand-over, all of one owner", &|waiting| hand_over(waiting, 1, effort)),
            ("a hand-over, each of an owner of its own", &|waiting| hand_over(waiting, waiting, effort)),
            ("one comes and gives up, each of an owner of its own", &|waiting| gives_up(waiting, effort)),
            ("one to another place, where nobody waits", &|waiting| passes_by(waiting, effort)),
        ],
    ));

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks");
    for (name, plot) in plots {
        for curve in &plot.curves {
            let figures: Vec<_> = curve.points.iter().map(|(many, cost)| format!("{many}: {cost:.0}")).collect();
            println!("{name}, {}, ns: {}", curve.name, figures.join(", "));
            println!("    {}", growth(&curve.points));
        }
        if full {
            std::fs::create_dir_all(&folder).expect("the folder can be made");
            std::fs::write(folder.join(name).with_extension("svg"), plot.svg()).expect("the folder can be written");
        }
    }
}

/// How many times each point is measured anew.
const VISITS: usize = 4;

type Measured<'a> = (&'a str, &'a dyn Fn(usize) -> f64);

fn plot(name: &'static str, across: &str, counts: &[usize], costs: &[Measured<'_>]) -> (&'static str, Plot) {
    let points = || counts.iter().map(|&many| (many as f64, f64::INFINITY)).collect();
    let mut curves: Vec<Curve> =
        costs.iter().map(|(name, _)| Curve { name: (*name).into(), points: points() }).collect();
    // In turns, so that whatever disturbs the machine for a while spoils no point for good.
    for _ in 0..VISITS {
        for (curve, (_, cost)) in curves.iter_mut().zip(costs) {
            for point in &mut curve.points {
                point.1 = point.1.min(cost(point.0 as usize));
            }
        }
    }
    let plot = Plot {
        title: format!("What a request costs, by {across}"),
        across: across.into(),
        up: "nanoseconds".into(),
        curves,
    };
    (name, plot)
}

/// How the cost grows with ten times as many: by a factor, which is 10 for what is proportional, and by nanoseconds,
/// which stay the same for what is logarithmic.
fn growth(points: &[(f64, f64)]) -> String {
    let (first, last) = (points[0], points[points.len() - 1]);
    let decades = (last.0 / first.0).log10();
    let factor = (last.1 / first.1).powf(1.0 / decades);
    format!("for each ten times as many: {factor:.2} times the cost, or {:+.0} ns", (last.1 - first.1) / decades)
}

#[derive(Clone, Copy)]
struct Effort {
    runs: usize,
    rounds: usize,
}

/// Nanoseconds of a round, in the best run.
fn best(effort: Effort, mut round: impl FnMut()) -> f64 {
    let Effort { runs, rounds } = effort;
    (0..rounds).for_each(|_| round());
    let run = |_| {
        let began = Instant::now();
        (0..rounds).for_each(|_| round());
        began.elapsed().as_nanos() as f64 / rounds as f64
    };
    (0..runs).map(run).fold(f64::INFINITY, f64::min)
}

/// What all models of a gateway share.
struct Shared {
    scheduler: AdmissionScheduler,
    circuits: CircuitRegistry,
    telemetry: TelemetryLayer,
    usage: UsageLayer,
}

impl Shared {
    fn new() -> Self {
        let live = Live::new(LiveLimits::default());
        Self {
            scheduler: queue(1).scheduler().clone(),
            circuits: circuits(),
            telemetry: TelemetryLayer::new().sink(Arc::new(live)).sink(Arc::new(Metrics::new())),
            usage: onions::usage(),
        }
    }

    /// Every layer there is, before one candidate.
    fn onion(
        &self,
        candidate: Candidate,
        provider: Provider,
    ) -> impl Service<Request<Full<Bytes>>, Response = Response<impl Body<Data = Bytes> + use<>>, Error = Infallible>
    + Clone
    + use<> {
        let candidates = Candidates::new([candidate]);
        let circuit = CircuitLayer::new(self.circuits.clone(), CircuitPolicy::default());
        Onion::new()
            .edge(EdgeLayer::new())
            .telemetry(self.telemetry.clone())
            .cache_break(CacheBreakLayer::default())
            .usage(self.usage.clone())
            .recovery(RecoveryLayer::default())
            .fallback(FallbackLayer::new(candidates.clone()))
            .retry(RetryLayer::default())
            .credentials(CredentialsLayer::new(CredentialPools::default()))
            .circuit(circuit.with_candidates(candidates))
            .admission(AdmissionLayer::new(self.scheduler.clone(), up_to(1_000_000)))
            .commit(CommitLayer::new())
            .attempt(AttemptLayer::default())
            .observe(ObserveLayer::new())
            .service(Upstream::new(provider))
    }
}

fn queue(concurrency: u32) -> AdmissionLayer {
    let scheduler = AdmissionScheduler::builder().max_pending(1_000_000).owner_max_pending(1_000_000);
    AdmissionLayer::new(scheduler.build().expect("within range"), up_to(concurrency))
}

fn up_to(concurrency: u32) -> AdmissionPolicy {
    let policy = AdmissionPolicy::builder().concurrency(concurrency).max_pending(1_000_000);
    policy.build().expect("within range")
}

fn candidate(model: &str) -> Candidate {
    Candidate::new("provider", Family::OpenAi, "http://provider.test/v1")
        .with_model(model)
        .with_credential(Secret::new("k"))
}

/// Models by their names, as the gateway keeps them, each with an onion of its own; they are asked for in turn.
fn by_model(models: usize, asks_for: impl Fn(usize) -> String, effort: Effort) -> f64 {
    let shared = Shared::new();
    let names: Vec<_> = (0..models).map(|model| format!("model-{model}")).collect();
    let onion = |model| shared.onion(candidate(&asks_for(model)), Provider::streaming(1));
    let mut services: HashMap<_, _> =
        names.iter().enumerate().map(|(model, name)| (name.clone(), onion(model))).collect();
    let mut turn = names.iter().cycle();
    let mut ask = || {
        let name = turn.next().expect("there are some");
        let mut service = services.get_mut(name).expect("each has one").clone();
        black_box(body(head(&mut service, request())));
    };
    // What is made with the first request of each is there.
    (0..models).for_each(|_| ask());
    best(effort, ask)
}

/// Circuits, with room for all that are measured, as a gateway has.
fn circuits() -> CircuitRegistry {
    let circuits = CircuitRegistry::new();
    circuits.make_room(CircuitRegistry::MOST_CIRCUITS);
    circuits
}

/// Circuits that are found by their candidates' addresses.
fn by_circuit(domains: usize, effort: Effort) -> f64 {
    let layer = CircuitLayer::new(circuits(), CircuitPolicy::default());
    let candidates: Vec<_> = (0..domains).map(|domain| Arc::new(candidate(&domain.to_string()))).collect();
    let handles: Vec<_> = candidates.iter().map(|candidate| layer.circuit(candidate)).collect();
    let mut turn = handles.iter().cycle();
    let mut check = || {
        let handle = turn.next().expect("there are some");
        let token = handle.check(tokio::time::Instant::now()).ok().flatten();
        black_box(token.map(|token| token.succeed(tokio::time::Instant::now())));
    };
    (0..domains).for_each(|_| check());
    best(effort, check)
}

fn by_place(domains: usize, effort: Effort) -> f64 {
    let layer = queue(64);
    let handles: Vec<_> = (0..domains).map(|domain| layer.handle(&Arc::new(candidate(&domain.to_string())))).collect();
    let mut turn = handles.iter().cycle();
    let mut admit = || drop(black_box(granted(turn.next().expect("there are some"), Some("owner"))));
    (0..domains).for_each(|_| admit());
    best(effort, admit)
}

fn by_owner(owners: usize, effort: Effort) -> f64 {
    let handle = queue(1_000_000).handle(&Arc::new(candidate("m")));
    let names: Vec<_> = (0..owners).map(|owner| format!("owner-{owner}")).collect();
    let _open: Vec<_> = names.iter().map(|name| granted(&handle, Some(name))).collect();
    let mut turn = names.iter().cycle();
    best(effort, || drop(black_box(granted(&handle, turn.next().map(String::as_str)))))
}

fn granted(handle: &AdmissionHandle, owner: Option<&str>) -> impl Sized + use<> {
    let ticket = handle.admit(owner, RequestClass::Foreground, 0);
    match pin!(ticket).poll(&mut Wakes::from_waker(Waker::noop())) {
        Poll::Ready(permit) => permit.expect("there is room"),
        Poll::Pending => unreachable!("there is room"),
    }
}

/// Requests to a gateway that has so many streams open which have begun and do not go on.
fn beside_streams(streams: usize, an_owner_each: bool, effort: Effort) -> f64 {
    let shared = Shared::new();
    let mut opens = shared.onion(candidate("m"), Provider::falling_silent(1));
    let mut ends = shared.onion(candidate("m"), Provider::streaming(1));
    let owners: Vec<_> = (0..if an_owner_each { streams } else { 1 })
        .map(|owner| HeaderValue::try_from(format!("owner-{owner}")).expect("a header"))
        .collect();
    let of = |owner: &HeaderValue| {
        let mut request = request();
        request.headers_mut().insert("x-stanchion-owner", owner.clone());
        request
    };
    let _open: Vec<_> = owners.iter().cycle().take(streams).map(|owner| begun(head(&mut opens, of(owner)))).collect();
    let mut turn = owners.iter().cycle();
    best(effort, || _ = black_box(body(head(&mut ends, of(turn.next().expect("there are some"))))))
}

/// A body that has given what there is, and waits for more.
fn begun<B: Body<Data = Bytes>>(response: Response<B>) -> Pin<Box<B>> {
    let mut body = Box::pin(response.into_body());
    while let Poll::Ready(frame) = body.as_mut().poll_frame(&mut Wakes::from_waker(Waker::noop())) {
        assert!(matches!(frame, Some(Ok(_))), "the stream does not end");
    }
    body
}

/// One permit, and so many who wait for it.
struct Queue {
    layer: AdmissionLayer,
    handle: AdmissionHandle,
    names: Vec<String>,
    tickets: VecDeque<Pin<Box<AdmissionTicket>>>,
    come: usize,
}

impl Queue {
    fn new(waiting: usize, owners: usize) -> (Self, impl Sized + use<>) {
        let layer = queue(1);
        let handle = layer.handle(&Arc::new(candidate("m")));
        let names = (0..owners).map(|owner| format!("owner-{owner}")).collect();
        let mut queue = Self { layer, handle, names, tickets: VecDeque::new(), come: 0 };
        let permit = granted(&queue.handle, Some("the first"));
        (0..waiting).for_each(|_| queue.comes());
        (queue, permit)
    }

    fn comes(&mut self) {
        let owner = &self.names[self.come % self.names.len()];
        let mut ticket = Box::pin(self.handle.admit(Some(owner), RequestClass::Foreground, 0));
        assert!(ticket.as_mut().poll(&mut Wakes::from_waker(Waker::noop())).is_pending(), "it waits");
        self.tickets.push_back(ticket);
        self.come += 1;
    }
}

/// A release, the next one's look, and one more who comes: owners come in the order of their numbers, so the first of
/// the queue is next.
fn hand_over(waiting: usize, owners: usize, effort: Effort) -> f64 {
    let (mut queue, first) = Queue::new(waiting, owners);
    let mut cx = Wakes::from_waker(Waker::noop());
    drop(first);
    let mut next = move || {
        let mut ticket = queue.tickets.pop_front().expect("as many wait as before");
        let Poll::Ready(permit) = ticket.as_mut().poll(&mut cx) else { unreachable!("it is its turn") };
        queue.comes();
        drop(permit.expect("nothing is closed"));
    };
    best(effort, &mut next)
}

/// One more who comes, and leaves.
fn gives_up(waiting: usize, effort: Effort) -> f64 {
    let (mut queue, _permit) = Queue::new(waiting, waiting);
    best(effort, || {
        queue.comes();
        queue.tickets.pop_back();
    })
}

/// One to another place, while so many wait here.
fn passes_by(waiting: usize, effort: Effort) -> f64 {
    let (queue, _permit) = Queue::new(waiting, waiting);
    let other = queue.layer.handle(&Arc::new(candidate("another")));
    best(effort, || drop(black_box(granted(&other, Some("owner")))))
}
