use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use stanchion_core::{Candidate, DomainSecret, FailureDomain, RequestClass, RetainedBytes};
use tokio::time::Instant;

use crate::{
    AdmissionPolicy, Footprint,
    adaptive::{Limit, Signal},
    scheduler::{Arrival, Constraint, DomainLimits, Grant, Limits, Scheduler, Turn},
    sync::{Mutex, lock},
};

/// What all layers of one scheduler share.
pub(crate) struct Shared {
    state: Mutex<Scheduler<Option<Waker>>>,
    epoch: Instant,
    secret: DomainSecret,
    names: [RandomState; 2],
    weights: RwLock<Weights>,
    /// Whether any owner has a weight: most schedulers know none, and then nobody looks.
    weighs: AtomicBool,
    limits_concurrency: AtomicBool,
    /// What layers hold for requests that run.
    pub(crate) retained: RetainedBytes,
    domains: RwLock<HashMap<FailureDomain, Weak<Domain>>>,
    next: AtomicU64,
}

/// What owners count in the rotation, those that count more than 1.
#[derive(Default)]
struct Weights {
    /// As they were set, for whoever takes them over.
    named: Vec<(Box<str>, u32)>,
    by_account: HashMap<u128, u32>,
}

impl Weights {
    fn new(names: &[RandomState; 2], named: Vec<(Box<str>, u32)>) -> Self {
        let by_account = named.iter().map(|(name, weight)| (key(names, Some(name)), *weight)).collect();
        Self { named, by_account }
    }

    fn of(&self, owner: u128) -> u32 {
        self.by_account.get(&owner).copied().unwrap_or(1)
    }
}

/// A failure domain, as long as anybody knows it.
pub(crate) struct Domain {
    pub(crate) id: u64,
    /// The candidate by which it was found first; `None` for requests without one.
    pub(crate) name: Option<Arc<str>>,
    /// What `adaptive` has come to.
    cap: AtomicU32,
    adaptive: RwLock<Option<Limit>>,
}

/// A request, as it asks for its turn.
pub(crate) struct Ask {
    pub(crate) domain: Arc<Domain>,
    pub(crate) limits: DomainLimits,
    pub(crate) owner: u128,
    pub(crate) class: RequestClass,
    pub(crate) cost: u8,
    pub(crate) max_wait: Duration,
}

/// What comes of asking.
pub(crate) enum Asked {
    Runs(Permit),
    Waits(Waiter),
    Refused(Refusal),
}

/// Why a request was turned away.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refusal {
    pub(crate) kind: Refused,
    pub(crate) constraint: Constraint,
    /// How many wait.
    pub(crate) depth: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Refused {
    Full { drains_in: Option<Duration> },
    Timeout,
    Closed,
}

/// How a ticket stands.
pub(crate) struct Standing {
    pub(crate) constraint: Constraint,
    pub(crate) position: u64,
    pub(crate) depth: u32,
}

/// The right to run, given back when it is dropped.
pub(crate) struct Permit {
    shared: Arc<Shared>,
    grant: Option<Grant>,
    /// The domain whose limit adapts, when the run began, and in which epoch. Said once.
    adapts: Option<(Arc<Domain>, Instant, u64)>,
}

/// A place in the queue, given up when it is dropped, whatever has become of it.
pub(crate) struct Waiter {
    shared: Arc<Shared>,
    domain: Arc<Domain>,
    /// `None` once it is over.
    ticket: Option<u32>,
}

/// Whom to wake once the lock is free. One, as a rule.
#[derive(Default)]
struct Wakes(Option<Waker>, Vec<Waker>);

impl Wakes {
    fn add(&mut self, waker: Option<Waker>) {
        if let Some(waker) = waker
            && let Some(more) = self.0.replace(waker)
        {
            self.1.push(more);
        }
    }

    fn wake(self) {
        self.1.into_iter().for_each(Waker::wake);
        if let Some(last) = self.0 {
            last.wake();
        }
    }
}

impl Shared {
    /// Domains of the past are forgotten when so many are known.
    const SWEEP_AT: usize = 256;

    pub(crate) fn new(
        limits: Limits,
        limits_concurrency: bool,
        secret: DomainSecret,
        weights: Vec<(Box<str>, u32)>,
    ) -> Self {
        let names = [RandomState::new(), RandomState::new()];
        let weights = Weights::new(&names, weights);
        Self {
            state: Mutex::new(Scheduler::new(limits)),
            epoch: Instant::now(),
            secret,
            names,
            weighs: AtomicBool::new(!weights.named.is_empty()),
            weights: RwLock::new(weights),
            limits_concurrency: AtomicBool::new(limits_concurrency),
            retained: RetainedBytes::default(),
            domains: RwLock::default(),
            next: AtomicU64::new(0),
        }
    }

    pub(crate) fn limits_concurrency(&self) -> bool {
        self.limits_concurrency.load(Ordering::Relaxed)
    }

    /// Takes over what another was set up with.
    pub(crate) fn adopt(&self, other: &Self) {
        let named = other.weights.read().unwrap_or_else(PoisonError::into_inner).named.clone();
        let limits = other.read(|state| state.limits().clone());
        let weights = &mut *self.weights.write().unwrap_or_else(PoisonError::into_inner);
        *weights = Weights::new(&self.names, named);
        self.weighs.store(!weights.named.is_empty(), Ordering::Relaxed);
        self.limits_concurrency.store(other.limits_concurrency(), Ordering::Relaxed);
        self.change(|state| state.set_limits(limits, |owner| weights.of(owner)));
    }

    /// Forgets what limits that adapt have come to.
    pub(crate) fn forget_adapted(&self) {
        for domain in self.domains() {
            *domain.adaptive.write().unwrap_or_else(PoisonError::into_inner) = None;
            domain.cap.store(u32::MAX, Ordering::Relaxed);
            self.change(|state| state.cap(domain.id, u32::MAX));
        }
    }

    fn weight(&self, owner: u128) -> u32 {
        if !self.weighs.load(Ordering::Relaxed) {
            return 1;
        }
        self.weights.read().unwrap_or_else(PoisonError::into_inner).of(owner)
    }

    /// A number that nobody else has.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The account of a named owner. Its name is not kept.
    pub(crate) fn owner(&self, name: &str) -> u128 {
        key(&self.names, Some(name))
    }

    /// The account of those who name none, by a number that nobody else has.
    pub(crate) fn anonymous(&self, number: u64) -> u128 {
        key(&self.names, None::<&str>) ^ u128::from(number)
    }

    /// A domain of no candidate.
    pub(crate) fn nameless(&self) -> Arc<Domain> {
        Arc::new(Domain::new(self.number(), None))
    }

    /// The domain of a candidate: one for all that fail together.
    pub(crate) fn domain(&self, candidate: &Candidate, policy: &AdmissionPolicy) -> Arc<Domain> {
        let identity = candidate.domain(&self.secret, &[]);
        let mut domains = self.domains.write().unwrap_or_else(PoisonError::into_inner);
        let domain = domains.get(&identity).and_then(Weak::upgrade).unwrap_or_else(|| {
            if domains.len() >= Self::SWEEP_AT {
                domains.retain(|_, domain| domain.strong_count() > 0);
            }
            let domain = Arc::new(Domain::new(self.number(), Some(candidate.name().clone())));
            domains.insert(identity, Arc::downgrade(&domain));
            domain
        });
        drop(domains);
        if let Some(settings) = policy.adaptive {
            let mut adaptive = domain.adaptive.write().unwrap_or_else(PoisonError::into_inner);
            let limit = adaptive.get_or_insert_with(|| Limit::new(settings));
            limit.narrow(settings);
            domain.cap.store(limit.limit(), Ordering::Relaxed);
            drop(adaptive);
            self.change(|state| state.cap(domain.id, domain.cap.load(Ordering::Relaxed)));
        }
        domain
    }

    /// The domains of candidates that anybody knows.
    pub(crate) fn domains(&self) -> Vec<Arc<Domain>> {
        let domains = self.domains.read().unwrap_or_else(PoisonError::into_inner);
        domains.values().filter_map(Weak::upgrade).collect()
    }

    /// Reads the state.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Scheduler<Option<Waker>>) -> T) -> T {
        read(&lock(&self.state))
    }

    fn nanoseconds(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Asks for a turn. What is only to be known where one has to wait, the time and the bytes, is found out only then.
    pub(crate) fn ask(self: &Arc<Self>, ask: &Ask, facts: impl FnOnce() -> (Instant, u64)) -> Asked {
        let mut arrival = Arrival {
            domain: ask.domain.id,
            limits: ask.limits,
            cap: 0,
            owner: ask.owner,
            weight: self.weight(ask.owner),
            class: ask.class,
            bytes: 0,
            cost: ask.cost,
        };
        let start = |arrival: &mut Arrival| {
            let mut state = lock(&self.state);
            arrival.cap = ask.domain.cap.load(Ordering::Relaxed);
            let grant = state.start(arrival);
            (grant, state)
        };
        let (mut grant, mut state) = start(&mut arrival);
        let mut now = 0;
        if grant.is_none() {
            drop(state);
            let (at, bytes) = facts();
            (now, arrival.bytes) = (self.nanoseconds(at), bytes.min(Footprint::SATURATED) as u32);
            (grant, state) = start(&mut arrival);
        }
        if let Some(grant) = grant {
            drop(state);
            return Asked::Runs(self.permit(grant, &ask.domain));
        }
        let depth = state.counts().queued();
        if state.is_closed() {
            return Asked::Refused(Refusal { kind: Refused::Closed, constraint: state.all(), depth });
        }
        state.retain_elsewhere(self.retained.bytes());
        if let Err(full) = state.may_wait(&arrival, now) {
            let kind = Refused::Full { drains_in: full.drains_in.map(Duration::from_nanos) };
            return Asked::Refused(Refusal { kind, constraint: full.constraint, depth });
        }
        if ask.max_wait.is_zero() {
            let constraint = state.obstacle(&arrival);
            return Asked::Refused(Refusal { kind: Refused::Timeout, constraint, depth });
        }
        let ticket = state.enqueue(&arrival, None, now);
        drop(state);
        Asked::Waits(Waiter { shared: self.clone(), domain: ask.domain.clone(), ticket: Some(ticket) })
    }

    fn permit(self: &Arc<Self>, grant: Grant, domain: &Arc<Domain>) -> Permit {
        let epoch = if domain.cap.load(Ordering::Relaxed) == u32::MAX {
            None
        } else {
            domain.adaptive.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(Limit::epoch)
        };
        let adapts = epoch.map(|epoch| (domain.clone(), Instant::now(), epoch));
        Permit { shared: self.clone(), grant: Some(grant), adapts }
    }

    /// Changes the state, grants what can start then, and wakes those.
    fn change<T>(&self, change: impl FnOnce(&mut Scheduler<Option<Waker>>) -> T) -> T {
        let mut wakes = Wakes::default();
        let mut state = lock(&self.state);
        let result = change(&mut state);
        // Without waiters nobody need know the time.
        if state.has_waiters() {
            state.drain(self.nanoseconds(Instant::now()), |_, waiter| wakes.add(waiter.take()));
        }
        drop(state);
        wakes.wake();
        result
    }

    pub(crate) fn close(&self) {
        let mut wakes = Wakes::default();
        lock(&self.state).close(|waiter| wakes.add(waiter.take()));
        wakes.wake();
    }
}

fn key(states: &[RandomState; 2], name: Option<&str>) -> u128 {
    let [high, low] = [&states[0], &states[1]].map(|state| u128::from(state.hash_one(name)));
    high << 64 | low
}

impl Domain {
    fn new(id: u64, name: Option<Arc<str>>) -> Self {
        Self { id, name, cap: AtomicU32::new(u32::MAX), adaptive: RwLock::default() }
    }

    /// What the limit has come to, if it adapts.
    pub(crate) fn adapted(&self) -> Option<u32> {
        Some(self.cap.load(Ordering::Relaxed)).filter(|cap| *cap != u32::MAX)
    }
}

impl Permit {
    /// Says what has come of the run. Only the first word counts.
    pub(crate) fn learn(&mut self, signal: impl FnOnce(Duration) -> Option<Signal>) {
        let Some((domain, began, epoch)) = self.adapts.take() else { return };
        let Some(signal) = signal(began.elapsed()) else { return };
        let in_flight = self.shared.read(|state| state.domain_counts(domain.id).in_flight());
        let mut adaptive = domain.adaptive.write().unwrap_or_else(PoisonError::into_inner);
        let Some(limit) = adaptive.as_mut() else { return };
        limit.learn(signal, epoch, in_flight);
        let cap = limit.limit();
        let before = domain.cap.swap(cap, Ordering::Relaxed);
        drop(adaptive);
        if before != cap {
            // What stands there by then, since another may have moved it on.
            self.shared.change(|state| state.cap(domain.id, domain.cap.load(Ordering::Relaxed)));
        }
    }

    /// Whether anybody learns from this run.
    pub(crate) fn adapts(&self) -> bool {
        self.adapts.is_some()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(grant) = self.grant.take() {
            self.shared.change(|state| state.release(grant));
        }
    }
}

impl Waiter {
    /// Waits for the turn. `Err` if there will be none.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<Permit, Refusal>> {
        let ticket = self.ticket.expect("polled after its end");
        let mut state = lock(&self.shared.state);
        match state.turn(ticket) {
            Turn::Waits(waiter) => {
                match waiter {
                    Some(known) => known.clone_from(cx.waker()),
                    None => *waiter = Some(cx.waker().clone()),
                }
                return Poll::Pending;
            }
            Turn::Granted | Turn::Closed => {}
        }
        self.ticket = None;
        let (grant, _) = state.take(ticket);
        let closed = (state.all(), state.counts().queued());
        drop(state);
        Poll::Ready(match grant {
            Some(grant) => Ok(self.shared.permit(grant, &self.domain)),
            None => Err(Refusal { kind: Refused::Closed, constraint: closed.0, depth: closed.1 }),
        })
    }

    /// How the ticket stands. `None` if it waits no longer.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let ticket = self.ticket?;
        let mut state = lock(&self.shared.state);
        if !matches!(state.turn(ticket), Turn::Waits(_)) {
            return None;
        }
        let snapshot = state.snapshot(ticket);
        Some(Standing { constraint: snapshot.constraint, position: snapshot.position, depth: state.counts().queued() })
    }

    /// The limits of all, for what is told of those who run.
    pub(crate) fn all(&self) -> (Constraint, u32) {
        self.shared.read(|state| (state.all(), state.counts().queued()))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            // Its waker is dropped once the lock is free.
            let _waker = self.shared.change(|state| {
                let (grant, waker) = state.take(ticket);
                if let Some(grant) = grant {
                    state.release(grant);
                }
                waker
            });
        }
    }
}
