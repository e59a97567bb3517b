use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    task::Waker,
    time::Duration,
};

use stanchion_core::{BuildMix, Candidate, DomainSecret, FailureDomain, RequestClass, RetainedBytes};
use tokio::time::Instant;

use crate::{
    AdmissionPolicy, Footprint,
    adaptive::Limit,
    domain::{Domain, Known, Share},
    permit::{Permit, Waiter},
    scheduler::{Arrival, Constraint, DomainLimits, Limits, Scheduler},
    sync::{Mutex, MutexGuard, lock},
};

/// Who waits is woken by these.
type State = Scheduler<Option<Waker>>;

/// What all layers of one scheduler share.
pub(crate) struct Shared {
    state: Mutex<State>,
    epoch: Instant,
    secret: DomainSecret,
    names: RandomState,
    weights: RwLock<Weights>,
    /// Whether any owner has a weight: most schedulers know none, and then nobody looks.
    weighs: AtomicBool,
    limits_concurrency: AtomicBool,
    /// What layers hold for requests that run.
    pub(crate) retained: RetainedBytes,
    domains: RwLock<HashMap<FailureDomain, Weak<Domain>>>,
    /// What limits that adapt had come to, of domains that nobody has asked for since, with their providers.
    adapted: Mutex<HashMap<FailureDomain, (Box<str>, Limit)>>,
}

/// What owners count in the rotation, those that count more than 1.
struct Weights {
    /// As they were set, for whoever takes them over.
    named: Vec<(Box<str>, u8)>,
    by_account: HashMap<u64, u8, BuildMix>,
}

impl Weights {
    fn new(names: &RandomState, named: Vec<(Box<str>, u8)>) -> Self {
        let by_account = named.iter().map(|(name, weight)| (names.hash_one(name), *weight)).collect();
        Self { named, by_account }
    }

    fn of(&self, owner: u64) -> u8 {
        self.by_account.get(&owner).copied().unwrap_or(1)
    }
}

/// A request, as it asks for its turn.
pub(crate) struct Ask {
    pub(crate) share: Arc<Share>,
    pub(crate) limits: DomainLimits,
    pub(crate) owner: u64,
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
        weights: Vec<(Box<str>, u8)>,
    ) -> Self {
        let names = RandomState::new();
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
            adapted: Mutex::new(HashMap::new()),
        }
    }

    pub(crate) fn limits_concurrency(&self) -> bool {
        self.limits_concurrency.load(Ordering::Relaxed)
    }

    /// Takes over what another was set up with.
    pub(crate) fn adopt(&self, other: &Self) {
        let named = other.weights.read().unwrap_or_else(PoisonError::into_inner).named.clone();
        let limits = other.read(|state| state.limits().clone());
        let weights = Weights::new(&self.names, named);
        self.weighs.store(!weights.named.is_empty(), Ordering::Relaxed);
        self.limits_concurrency.store(other.limits_concurrency(), Ordering::Relaxed);
        // Whoever is woken may ask for something at once: the weights are not locked by then. They change under the lock of
        // the state, so that no owner comes in between with a weight of before.
        self.change(|state| {
            state.set_limits(limits, |owner| weights.of(owner));
            *self.weights.write().unwrap_or_else(PoisonError::into_inner) = weights;
        });
    }

    /// Forgets what limits that adapt have come to.
    pub(crate) fn forget_adapted(&self) {
        // In this order: a domain that goes meanwhile leaves what its limit has come to.
        self.domains().iter().for_each(|domain| domain.forget_adapted());
        lock(&self.adapted).clear();
    }

    /// The same for the domains of one provider.
    pub(crate) fn forget_adapted_of(&self, provider: &str) {
        self.domains().iter().filter(|domain| domain.is_of(provider)).for_each(|domain| domain.forget_adapted());
        lock(&self.adapted).retain(|_, (other, _)| **other != *provider);
    }

    fn weight(&self, owner: u64) -> u8 {
        if !self.weighs.load(Ordering::Relaxed) {
            return 1;
        }
        self.weights.read().unwrap_or_else(PoisonError::into_inner).of(owner)
    }

    /// The account of a named owner. Its name is not kept.
    pub(crate) fn owner(&self, name: &str) -> u64 {
        self.names.hash_one(name)
    }

    /// The domain of a candidate: one for all that fail together.
    pub(crate) fn domain(self: &Arc<Self>, candidate: &Candidate, policy: &AdmissionPolicy) -> Arc<Domain> {
        let identity = candidate.domain(&self.secret, &[]);
        let mut domains = self.domains.write().unwrap_or_else(PoisonError::into_inner);
        let domain = domains.get(&identity).and_then(Weak::upgrade).unwrap_or_else(|| {
            if domains.len() >= Self::SWEEP_AT {
                domains.retain(|_, domain| domain.strong_count() > 0);
            }
            let known = Known { identity, provider: candidate.provider().into(), name: candidate.name().clone() };
            let domain = Domain::new(self, Some(known));
            domains.insert(identity, Arc::downgrade(&domain));
            domain
        });
        drop(domains);
        if let Some(settings) = policy.adaptive {
            domain.adapt(settings);
        }
        domain
    }

    /// What a domain's limit had come to when it was last asked for.
    pub(crate) fn recall(&self, domain: &FailureDomain) -> Option<Limit> {
        lock(&self.adapted).remove(domain).map(|(_, limit)| limit)
    }

    /// Keeps what a domain's limit has come to until it is asked for again.
    pub(crate) fn remember(&self, domain: Known, limit: Limit) {
        let mut adapted = lock(&self.adapted);
        if adapted.len() >= Self::SWEEP_AT {
            adapted.clear();
        }
        adapted.insert(domain.identity, (domain.provider, limit));
    }

    /// The domains of candidates that anybody knows.
    pub(crate) fn domains(&self) -> Vec<Arc<Domain>> {
        let domains = self.domains.read().unwrap_or_else(PoisonError::into_inner);
        domains.values().filter_map(Weak::upgrade).collect()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Reads the state.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.lock())
    }

    fn nanoseconds(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Asks for a turn. What is only to be known where one has to wait, the time and the bytes, is found out only then.
    pub(crate) fn ask(&self, ask: Ask, facts: impl FnOnce() -> (Instant, u64)) -> Asked {
        let Ask { share, limits, owner, class, cost, max_wait } = ask;
        let (domain, at) = (share.domain.at, share.at);
        let mut arrival = Arrival { domain, share: at, limits, owner, weight: 1, class, bytes: 0, cost };
        let mut state = self.lock();
        arrival.weight = self.weight(owner);
        let grant = state.start(&arrival);
        drop(state);
        if let Some(grant) = grant {
            return Asked::Runs(Permit::new(share, grant));
        }
        let (now, bytes) = facts();
        arrival.bytes = bytes.min(Footprint::SATURATED) as u32;
        let now = self.nanoseconds(now);
        let mut state = self.lock();
        arrival.weight = self.weight(owner);
        // Somebody may have left meanwhile.
        if let Some(grant) = state.start(&arrival) {
            drop(state);
            return Asked::Runs(Permit::new(share, grant));
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
        if max_wait.is_zero() {
            let constraint = state.obstacle(&arrival);
            return Asked::Refused(Refusal { kind: Refused::Timeout, constraint, depth });
        }
        let ticket = state.enqueue(&arrival, None, now);
        drop(state);
        Asked::Waits(Waiter::new(share, ticket))
    }

    /// Changes the state, grants what can start then, and wakes those.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state);
        // Without waiters nobody need know the time.
        if state.has_waiters() {
            let mut wakes = Wakes::default();
            state.drain(self.nanoseconds(Instant::now()), |_, waiter| wakes.add(waiter.take()));
            drop(state);
            wakes.wake();
        }
        result
    }

    pub(crate) fn close(&self) {
        let mut wakes = Wakes::default();
        self.lock().close(|waiter| wakes.add(waiter.take()));
        wakes.wake();
    }
}
