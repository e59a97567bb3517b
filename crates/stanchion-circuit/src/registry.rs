use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use stanchion_core::{Candidate, CircuitPhase, Context, DomainSecret, FailureDomain};
use tokio::time::Instant;

use crate::{
    CircuitPolicy, CircuitStatus, InvalidCircuit,
    entry::{Entry, since},
    gate::Gate,
    machine::View,
    open_circuit,
    policy::must,
    sync::{AtomicU64, Mutex, Ordering, lock},
};

/// The circuits of a process, shared by all layers that are made with it. Cheap to clone.
///
/// A circuit belongs to a failure domain: what leads to the same place under the same account, and under the same
/// settings of the circuit. Layers that agree in those share it. There are at most [`MAX_CIRCUITS`](Self::MAX_CIRCUITS)
/// circuits, unless [room is made](Self::make_room) for more: whoever has more candidates than that wants one for each, since a
/// circuit that has to go for another takes with it what it had learnt. Closed ones that nobody has used for [`IDLE`](Self::IDLE) are forgotten, and when there are too many, the
/// closed one that was used longest ago. An open circuit is never forgotten: when all are open, further candidates go
/// without one, since nobody is turned away for what others did.
///
/// `Debug` shows how many there are. The domain of a circuit is an HMAC under a secret of the registry's own, and is
/// shown nowhere.
#[derive(Clone)]
pub struct CircuitRegistry(Arc<Inner>);

struct Inner {
    secret: DomainSecret,
    epoch: Instant,
    idle: Duration,
    /// Before this moment, in milliseconds since the epoch, no circuit can have been idle for too long.
    sweep_at: AtomicU64,
    table: Mutex<Table>,
}

struct Table {
    /// How many circuits may count.
    room: usize,
    /// The circuits that count.
    attached: Vec<Arc<Entry>>,
    /// All that anybody still knows, so that there is one for each domain.
    known: HashMap<FailureDomain, Weak<Entry>>,
    /// Those that nobody knows any more are forgotten when so many are known.
    sweep_at: usize,
}

/// Builds a [`CircuitRegistry`].
#[derive(Debug)]
#[must_use]
pub struct CircuitRegistryBuilder {
    secret: DomainSecret,
    max_circuits: usize,
    idle: Duration,
}

impl CircuitRegistryBuilder {
    /// How many circuits there are at most. Between 1 and 65,536; 128 by default.
    pub fn max_circuits(mut self, circuits: usize) -> Self {
        self.max_circuits = circuits;
        self
    }

    /// How long a closed circuit is kept that nobody uses. Between 1 s and 24 h; 30 min by default.
    pub fn idle(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// The secret that domains are known under, for tests. Random by default.
    pub fn secret(mut self, secret: DomainSecret) -> Self {
        self.secret = secret;
        self
    }

    /// The registry, if every setting is within its range.
    pub fn build(self) -> Result<CircuitRegistry, InvalidCircuit> {
        let Self { secret, max_circuits, idle } = self;
        must((1..=CircuitRegistry::MOST_CIRCUITS).contains(&max_circuits), "max_circuits", "between 1 and 65,536")?;
        let idles = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
        must(idles.contains(&idle), "idle", "between 1 s and 24 h")?;
        let inner = Inner {
            secret,
            epoch: Instant::now(),
            idle,
            sweep_at: AtomicU64::new(u64::MAX),
            table: Mutex::new(Table {
                room: max_circuits,
                attached: Vec::new(),
                known: HashMap::new(),
                sweep_at: CircuitRegistry::SWEEP_AT,
            }),
        };
        Ok(CircuitRegistry(Arc::new(inner)))
    }
}

impl CircuitRegistry {
    /// How many circuits a registry holds by default.
    pub const MAX_CIRCUITS: usize = 128;
    /// How many it may be made to hold.
    pub const MOST_CIRCUITS: usize = 65_536;
    /// How long a closed circuit is kept by default that nobody uses: 30 min.
    pub const IDLE: Duration = Duration::from_secs(30 * 60);
    /// The least number of known circuits at which those are forgotten that nobody knows any more.
    const SWEEP_AT: usize = 2 * Self::MAX_CIRCUITS;

    /// An empty registry with a secret of its own.
    ///
    /// # Panics
    ///
    /// If the operating system has no randomness to give.
    pub fn new() -> Self {
        Self::builder().build().expect("the defaults are within their ranges")
    }

    /// Starts from the defaults.
    pub fn builder() -> CircuitRegistryBuilder {
        CircuitRegistryBuilder { secret: DomainSecret::random(), max_circuits: Self::MAX_CIRCUITS, idle: Self::IDLE }
    }

    /// Makes room for so many circuits, or [as many as there may be](Self::MOST_CIRCUITS). A registry that has as much keeps it.
    pub fn make_room(&self, circuits: usize) {
        let table = &mut *lock(&self.0.table);
        table.room = table.room.max(circuits.min(Self::MOST_CIRCUITS));
    }

    /// How many circuits there are.
    pub fn len(&self) -> usize {
        lock(&self.0.table).attached.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All circuits as they stand, by the name of their candidate. For an operator's page: it changes nothing, and does
    /// not count as use.
    pub fn status(&self) -> Vec<CircuitStatus> {
        let now = Instant::now();
        let mut entries = lock(&self.0.table).attached.clone();
        // Stable, so that circuits of one name keep their order.
        entries.sort_by(|a, b| a.name().cmp(b.name()));
        entries.iter().map(|entry| CircuitStatus::of(entry, now)).collect()
    }

    /// Opens the circuits of a candidate by hand, until [`close`](Self::close) or [`reset`](Self::reset) ends it: no
    /// probe is let through, and no rule spares it. Returns how many circuits there are of that name.
    pub fn force_open(&self, candidate: &str) -> usize {
        self.each(candidate, force_open)
    }

    /// Closes the circuits of a candidate by hand. What they had learnt is forgotten; a closed one stays as it is.
    /// Returns how many circuits there are of that name.
    pub fn close(&self, candidate: &str) -> usize {
        self.each(candidate, close)
    }

    /// Makes the circuits of a candidate as new: closed, with no samples and no memory of a failure. What is under way
    /// counts for nothing any more. Returns how many circuits there are of that name.
    pub fn reset(&self, candidate: &str) -> usize {
        self.each(candidate, reset)
    }

    /// Forgets the circuits of all but these candidates under these policies, open ones too: for when others are configured. Returns how
    /// many there were. One that is used again begins anew.
    pub fn retain<'a>(&self, kept: impl IntoIterator<Item = (&'a Candidate, &'a CircuitPolicy)>) -> usize {
        let domain =
            |(candidate, policy): (&Candidate, &CircuitPolicy)| candidate.domain(&self.0.secret, &policy.key());
        let kept: HashSet<FailureDomain> = kept.into_iter().map(domain).collect();
        let known = lock(&self.0.table).known.clone();
        let gone: Vec<Arc<Entry>> = known
            .iter()
            .filter(|(domain, _)| !kept.contains(domain))
            .filter_map(|(_, entry)| entry.upgrade())
            .collect();
        let now = Instant::now();
        // Only what is closed is let go.
        for entry in &gone {
            reset(entry, now);
        }
        let attached = &mut lock(&self.0.table).attached;
        let before = attached.len();
        attached.retain(|entry| !gone.iter().any(|gone| Arc::ptr_eq(gone, entry)) || !entry.detach(now));
        before - attached.len()
    }

    fn each(&self, candidate: &str, act: impl Fn(&Arc<Entry>, Instant)) -> usize {
        let now = Instant::now();
        let entries: Vec<_> =
            lock(&self.0.table).attached.iter().filter(|entry| &**entry.name() == candidate).cloned().collect();
        for entry in &entries {
            act(entry, now);
        }
        entries.len()
    }

    /// The circuit of a candidate under a policy, whether it counts or not.
    pub(crate) fn entry(&self, candidate: &Candidate, policy: &CircuitPolicy) -> Arc<Entry> {
        let domain = candidate.domain(&self.0.secret, &policy.key());
        let table = &mut *lock(&self.0.table);
        if let Some(entry) = table.known.get(&domain).and_then(Weak::upgrade) {
            return entry;
        }
        if table.known.len() >= table.sweep_at {
            table.known.retain(|_, entry| entry.strong_count() > 0);
            table.sweep_at = Self::SWEEP_AT.max(2 * table.known.len());
        }
        let entry = Arc::new(Entry::new(candidate.name().clone(), policy.trip, self.0.epoch));
        table.known.insert(domain, Arc::downgrade(&entry));
        entry
    }

    /// Makes a circuit count, if it does not and there is room, and notes that it is used. Forgets those that have been
    /// idle for too long, this one among them. Returns whether it counts.
    pub(crate) fn attach(&self, entry: &Arc<Entry>, now: Instant) -> bool {
        let millis = since(self.0.epoch, now);
        if millis > self.0.sweep_at.load(Ordering::Relaxed) || !entry.is_attached() {
            return self.attach_slowly(entry, now, millis);
        }
        entry.touch(millis);
        true
    }

    #[cold]
    fn attach_slowly(&self, entry: &Arc<Entry>, now: Instant, millis: u64) -> bool {
        let idle = self.0.idle.as_millis() as u64;
        let table = &mut *lock(&self.0.table);
        table.attached.retain(|other| millis <= other.touched().saturating_add(idle) || !other.detach(now));
        if !entry.is_attached() {
            if table.attached.len() >= table.room && !table.evict(now) {
                return false;
            }
            entry.attach(now);
            table.attached.push(entry.clone());
        }
        entry.touch(millis);
        // One that is open is not swept, and can only close by being used.
        let used = |entry: &Arc<Entry>| if entry.is_closed() { entry.touched() } else { millis };
        let next = table.attached.iter().map(used).min().unwrap_or(millis).saturating_add(idle);
        self.0.sweep_at.store(next, Ordering::Relaxed);
        true
    }
}

impl Table {
    /// Forgets the closed circuit that was used longest ago. Returns whether there was one.
    fn evict(&mut self, now: Instant) -> bool {
        let mut order: Vec<_> = (0..self.attached.len()).collect();
        order.sort_by_key(|index| self.attached[*index].touched());
        // It may open before it is let go; then it is the next one's turn.
        let evicted = order.into_iter().find(|index| self.attached[*index].detach(now));
        evicted.map(|index| self.attached.remove(index)).is_some()
    }
}

pub(crate) fn force_open(entry: &Arc<Entry>, now: Instant) {
    tell(entry, CircuitPhase::Opened, entry.force_open(now), now);
}

pub(crate) fn close(entry: &Arc<Entry>, now: Instant) {
    tell(entry, CircuitPhase::Closed, entry.force_close(now), now);
}

pub(crate) fn reset(entry: &Arc<Entry>, now: Instant) {
    tell(entry, CircuitPhase::Closed, entry.reset(now), now);
}

/// What a hand did is told to nobody's request, but to the log.
fn tell(entry: &Arc<Entry>, phase: CircuitPhase, view: Option<View>, now: Instant) {
    if let Some(view) = view {
        Context::emit(None, || open_circuit(entry, &view, Gate::new(entry.clone(), None), now).event(phase, None, now));
    }
}

impl Default for CircuitRegistry {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CircuitRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitRegistry").field("circuits", &self.len()).finish_non_exhaustive()
    }
}
