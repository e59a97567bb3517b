use std::{fmt, sync::Arc};

use stanchion_core::{Candidate, CircuitPhase, Context, DispositionRules, Failure, OpenCircuit};
use tokio::time::Instant;

use crate::{
    CircuitStatus,
    circuits::Circuits,
    entry::Entry,
    gate::Gate,
    judge::outcome,
    machine::{Key, Outcome, Settled},
    open_circuit, registry,
};

/// The circuit of one candidate, for whoever makes exchanges without a tower service, and for an operator's hand.
///
/// See [`CircuitLayer::circuit`](crate::CircuitLayer::circuit).
#[derive(Clone)]
pub struct CircuitHandle {
    circuits: Arc<Circuits>,
    candidate: Arc<Candidate>,
    /// In the model's list.
    place: usize,
}

/// The right to make one exchange. What came of it is to be said once; dropped without a word, nothing was learnt, and
/// a probe makes room for the next at once.
///
/// A token of the past counts for nothing: of a circuit that has opened or closed since, of a probe whose lease ran out
/// and was taken over.
#[must_use]
pub struct CircuitToken {
    entry: Arc<Entry>,
    /// `None` once it is settled.
    key: Option<Key>,
    is_probe: bool,
}

/// What the outcome of an exchange has changed.
pub struct CircuitChange {
    phase: CircuitPhase,
    circuit: Arc<OpenCircuit>,
}

impl CircuitHandle {
    pub(crate) fn new(circuits: Arc<Circuits>, candidate: Arc<Candidate>) -> Self {
        let place = circuits.place(&candidate);
        Self { circuits, candidate, place }
    }

    /// Whether a request would be let in at `now`. Claims nothing.
    pub fn preflight(&self, now: Instant) -> Result<(), Arc<OpenCircuit>> {
        self.circuits.preflight(&self.candidate, self.place, None, now)
    }

    /// Lets a request in at `now`, or turns it away. `None` where nothing is counted: circuits are off, or the registry
    /// is full of open ones.
    pub fn check(&self, now: Instant) -> Result<Option<CircuitToken>, Arc<OpenCircuit>> {
        let entered = self.circuits.check(&self.candidate, self.place, None, now)?;
        Ok(entered.map(|entered| entered.token))
    }

    /// How the circuit stands. `None` where nothing is counted, as long as nothing was asked of it.
    pub fn status(&self) -> Option<CircuitStatus> {
        let entry = self.circuits.entry(&self.candidate, self.place);
        entry.is_attached().then(|| CircuitStatus::of(&entry, Instant::now()))
    }

    /// Opens the circuit by hand, until a hand closes it. Returns whether there is one: not where circuits are off, or
    /// the registry is full of open ones.
    pub fn force_open(&self) -> bool {
        self.by_hand(registry::force_open)
    }

    /// Closes the circuit by hand. What it had learnt is forgotten; a closed one stays as it is.
    pub fn close(&self) -> bool {
        self.by_hand(registry::close)
    }

    /// Makes the circuit as new.
    pub fn reset(&self) -> bool {
        self.by_hand(registry::reset)
    }

    fn by_hand(&self, act: impl FnOnce(&Arc<Entry>, Instant)) -> bool {
        let now = Instant::now();
        let entry = self.circuits.attached(&self.candidate, self.place, now);
        entry.map(|entry| act(&entry, now)).is_some()
    }
}

impl CircuitToken {
    pub(crate) fn new(entry: Arc<Entry>, key: Key, is_probe: bool) -> Self {
        Self { entry, key: Some(key), is_probe }
    }

    /// Whether this exchange is the probe.
    pub fn is_probe(&self) -> bool {
        self.is_probe
    }

    /// The provider has answered.
    pub fn succeed(mut self, now: Instant) -> Option<CircuitChange> {
        self.settle(Outcome::Success, now).0
    }

    /// The exchange failed. What that means stands in the table: a failure, nothing, or an answer that the request was
    /// at fault.
    pub fn fail(mut self, failure: &Failure, rules: &DispositionRules, now: Instant) -> Option<CircuitChange> {
        self.settle(outcome(failure, *rules), now).0
    }

    pub(crate) fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// Says what came of it. Returns what it changed, and what a later failure is said with.
    pub(crate) fn settle(&mut self, outcome: Outcome, now: Instant) -> (Option<CircuitChange>, Option<Key>) {
        let Some(key) = self.key.take() else { return (None, None) };
        let Settled { change, late, .. } = self.entry.settle(key, outcome, now);
        let change = change.map(|change| {
            let (phase, view) = *change;
            let gate = Gate::new(self.entry.clone(), None);
            CircuitChange { phase, circuit: Arc::new(open_circuit(&self.entry, &view, gate, now)) }
        });
        (change, late)
    }

    /// The right to say one thing more.
    pub(crate) fn again(mut self, key: Key) -> Self {
        self.key = Some(key);
        self
    }
}

impl Drop for CircuitToken {
    fn drop(&mut self) {
        // Others leave no trace when they are given up; nobody need take the lock for it.
        if let Some(key @ Key::Probe { .. }) = self.key.take() {
            self.entry.abandon(key);
        }
    }
}

impl CircuitChange {
    /// Opened, reopened or closed.
    pub fn phase(&self) -> CircuitPhase {
        self.phase
    }

    /// The circuit as it stands after the change.
    pub fn circuit(&self) -> &Arc<OpenCircuit> {
        &self.circuit
    }

    /// Whether the circuit turns requests away from now on.
    pub fn opens(&self) -> bool {
        matches!(self.phase, CircuitPhase::Opened | CircuitPhase::Reopened)
    }

    /// Tells it.
    pub(crate) fn tell(&self, context: Option<&Context>, now: Instant) {
        Context::emit(context, || self.circuit.event(self.phase, context, now));
    }
}

impl fmt::Debug for CircuitHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitHandle").field("candidate", self.candidate.name()).finish_non_exhaustive()
    }
}

impl fmt::Debug for CircuitToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitToken")
            .field("candidate", self.entry.name())
            .field("is_probe", &self.is_probe)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for CircuitChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitChange").field("phase", &self.phase).field("circuit", &self.circuit).finish()
    }
}
