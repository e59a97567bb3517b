use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use stanchion_core::{Candidate, CandidateCache, Candidates, CircuitTurn, OpenCircuit};
use tokio::time::Instant;

use crate::{
    CircuitPolicy, CircuitRegistry, CircuitToken,
    entry::Entry,
    gate::Gate,
    machine::{Check, View},
    open_circuit,
    policy::Recovery,
};

/// The circuits of one layer: which candidate has which, and what the others of its model have to say.
pub(crate) struct Circuits {
    pub(crate) registry: CircuitRegistry,
    pub(crate) policy: CircuitPolicy,
    /// The model's own list. Its circuits are found by the place in the list, without a lock.
    model: Vec<(Arc<Candidate>, OnceLock<Arc<Entry>>)>,
    /// Those of other candidates.
    known: CandidateCache<Arc<Entry>>,
}

/// A request that was let in.
pub(crate) struct Entered {
    pub(crate) token: CircuitToken,
    /// How the circuit stood, where this is its probe.
    pub(crate) probe: Option<Box<View>>,
}

impl Circuits {
    pub(crate) fn new(registry: CircuitRegistry, policy: CircuitPolicy, candidates: Option<&Candidates>) -> Self {
        let model = candidates.into_iter().flat_map(Candidates::iter);
        let model = model.map(|candidate| (candidate.clone(), OnceLock::new())).collect();
        Self { registry, policy, model, known: CandidateCache::new() }
    }

    /// The circuit of a candidate. The place in the list is a hint where to look first.
    pub(crate) fn entry(&self, candidate: &Arc<Candidate>, place: usize) -> Arc<Entry> {
        match self.model.get(place) {
            Some((own, entry)) if Arc::ptr_eq(own, candidate) => {
                entry.get_or_init(|| self.registry.entry(candidate, &self.policy)).clone()
            }
            _ => self.known.get_or_insert_with(candidate, || self.registry.entry(candidate, &self.policy)),
        }
    }

    /// The circuit of a candidate that counts; `None` where circuits are off, or there is no room for another.
    pub(crate) fn attached(&self, candidate: &Arc<Candidate>, place: usize, now: Instant) -> Option<Arc<Entry>> {
        if self.policy.is_off() {
            return None;
        }
        let entry = self.entry(candidate, place);
        self.registry.attach(&entry, now).then_some(entry)
    }

    /// Where a candidate stands in the model's list; past its end if it does not.
    pub(crate) fn place(&self, candidate: &Arc<Candidate>) -> usize {
        self.model.iter().position(|(own, _)| Arc::ptr_eq(own, candidate)).unwrap_or(self.model.len())
    }

    /// Whether a request would be let in. Claims nothing.
    pub(crate) fn preflight(
        &self,
        candidate: &Arc<Candidate>,
        place: usize,
        turn: Option<&CircuitTurn>,
        now: Instant,
    ) -> Result<(), Arc<OpenCircuit>> {
        let Some(entry) = self.attached(candidate, place, now) else { return Ok(()) };
        match entry.preflight(now) {
            Err(view) if !self.spares(&entry) => Err(denied(&entry, &view, turn, now)),
            _ => Ok(()),
        }
    }

    /// Lets a request in, or turns it away. `None` where nothing counts.
    pub(crate) fn check(
        &self,
        candidate: &Arc<Candidate>,
        place: usize,
        turn: Option<&CircuitTurn>,
        now: Instant,
    ) -> Result<Option<Entered>, Arc<OpenCircuit>> {
        let Some(entry) = self.attached(candidate, place, now) else { return Ok(None) };
        let (key, probe) = match entry.check(now, self.policy.probe_lease) {
            None => return Ok(None),
            Some(Check::Allowed(key)) => (key, None),
            Some(Check::Probe(key, view)) => (key, Some(Box::new(view))),
            Some(Check::Denied(_)) if self.spares(&entry) => (entry.spare(), None),
            Some(Check::Denied(view)) => return Err(denied(&entry, &view, turn, now)),
        };
        Ok(Some(Entered { token: CircuitToken::new(entry, key, probe.is_some()), probe }))
    }

    /// Whether a circuit that is open lets requests through, because too many others of its model are open.
    fn spares(&self, entry: &Arc<Entry>) -> bool {
        let mut others: Vec<&Arc<Entry>> = Vec::with_capacity(self.model.len());
        for (candidate, other) in &self.model {
            let other = other.get_or_init(|| self.registry.entry(candidate, &self.policy));
            // Candidates that fail together are one.
            if !others.iter().any(|known| Arc::ptr_eq(known, other)) {
                others.push(other);
            }
        }
        let place = others.iter().position(|other| Arc::ptr_eq(other, entry));
        let count = others.len();
        let all_but_one = count.saturating_sub(1);
        let share = self.policy.max_open_share.map(|share| (share * count as f64).floor() as usize);
        let may_be_open = match (self.policy.recovery(), share) {
            // Whoever is alone is the least failed of all.
            (Recovery::None, _) if place.is_none() => 0,
            (Recovery::None, share) => share.unwrap_or(all_but_one).min(all_but_one),
            (Recovery::Lease, _) if place.is_none() || count < 2 => return false,
            (Recovery::Lease, share) => share.unwrap_or(all_but_one),
        };
        let Some((by_hand, failures)) = entry.standing() else { return true };
        let worse = |(index, other): (usize, &&Arc<Entry>)| {
            let Some(standing) = other.standing().filter(|_| Some(index) != place) else { return false };
            // Of equals the one that comes first in the list is the better.
            (standing.0, standing.1, Some(index)) > (by_hand, failures, place)
        };
        !by_hand && others.iter().enumerate().filter(|other| worse(*other)).count() >= may_be_open
    }
}

/// What one that is turned away is told.
fn denied(entry: &Arc<Entry>, view: &View, turn: Option<&CircuitTurn>, now: Instant) -> Arc<OpenCircuit> {
    Arc::new(open_circuit(entry, view, Gate::new(entry.clone(), turn), now))
}

impl fmt::Debug for Circuits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Circuits")
            .field("policy", &self.policy)
            .field("candidates", &self.model.iter().map(|(candidate, _)| candidate.name()).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
