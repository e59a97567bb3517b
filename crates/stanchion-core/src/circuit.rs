use std::{any::Any, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    CircuitPhase, Context, Event, Failure, FailureKind, HintSource, Phase, ProviderCircuit, RetryHint, RetryReason,
};

/// An open circuit, as it tells those that it turns away, and those whose failure opened it. Carried by a
/// [`Failure`](crate::Failure).
#[derive(Clone)]
pub struct OpenCircuit {
    /// The candidate, as `provider/model`.
    pub candidate: Option<Arc<str>>,
    /// Why the circuit opened.
    pub reason: RetryReason,
    /// The status of the failure that opened it.
    pub status_code: Option<u16>,
    /// When the next probe may be made. While a probe is under way this is a guess: its end decides.
    pub next_probe: Instant,
    /// For how long the circuit opened.
    pub open_for: Duration,
    /// The samples in its window.
    pub sample_count: u32,
    /// Those of them that failed.
    pub failure_count: u32,
    /// Where to wait for it.
    pub gate: Arc<dyn CircuitGate>,
}

/// Where callers wait until an open circuit lets one of them through.
pub trait CircuitGate: Send + Sync {
    /// Waits for a turn: until a probe is due or the circuit has closed. Callers come through one by one and in order,
    /// the next when the turn of the one before is dropped. Dropping the future leaves the queue.
    fn turn(self: Arc<Self>) -> Pin<Box<dyn Future<Output = CircuitTurn> + Send>>;
}

/// A caller's turn at a circuit. It goes with the request, in its extensions; the circuit takes it where it decides.
/// Dropped, by whomever, it passes the turn on.
#[derive(Clone)]
pub struct CircuitTurn(Arc<dyn Any + Send + Sync>);

impl CircuitTurn {
    /// A turn that ends when `guard` is dropped.
    pub fn new(guard: impl Any + Send + Sync) -> Self {
        Self(Arc::new(guard))
    }

    /// The guard, for the circuit that gave it.
    pub fn guard<T: Any>(&self) -> Option<&T> {
        (*self.0).downcast_ref()
    }
}

impl fmt::Debug for CircuitTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CircuitTurn(..)")
    }
}

/// Says, in the extensions of a request, that whoever sent it waits for an open circuit and tells so itself. A circuit
/// that turns such a request away does not tell that it was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitsForCircuit;

impl OpenCircuit {
    /// How long until the next probe, at `now`.
    pub fn retry_after(&self, now: Instant) -> Duration {
        self.next_probe.saturating_duration_since(now)
    }

    /// The failure of a request that this circuit turns away at `now`.
    pub fn refuse(self: &Arc<Self>, now: Instant) -> Failure {
        let hint = RetryHint::new(self.retry_after(now), HintSource::Circuit);
        let failure = Failure::new(FailureKind::CircuitOpen).with_phase(Phase::Connect).with_hint(Some(hint));
        let failure = match &self.candidate {
            Some(candidate) => failure.with_candidate(candidate.clone()),
            None => failure,
        };
        failure.with_circuit(self.clone())
    }

    /// The event of what this circuit does to a request at `now`.
    pub fn event(&self, phase: CircuitPhase, context: Option<&Context>, now: Instant) -> Event {
        let waits = matches!(
            phase,
            CircuitPhase::Opened | CircuitPhase::Reopened | CircuitPhase::Waiting | CircuitPhase::Rejected
        );
        let retry_after = waits.then(|| self.retry_after(now));
        Event::ProviderCircuit(ProviderCircuit {
            phase,
            candidate: self.candidate.clone(),
            reason: self.reason,
            status_code: self.status_code,
            retry_after,
            next_probe_at: retry_after.map(crate::event::wall_clock_after),
            open_duration: self.open_for,
            sample_count: self.sample_count,
            failure_count: self.failure_count,
            recovery_remaining: context.and_then(Context::recovery).map(|recovery| recovery.remaining(now)),
        })
    }
}

impl fmt::Debug for OpenCircuit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenCircuit")
            .field("candidate", &self.candidate)
            .field("reason", &self.reason)
            .field("status_code", &self.status_code)
            .field("open_for", &self.open_for)
            .field("sample_count", &self.sample_count)
            .field("failure_count", &self.failure_count)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_with_its_last_clone_and_shows_its_guard_to_who_knows_it() {
        let guard = Arc::new(());
        let turn = CircuitTurn::new(guard.clone());
        let clone = turn.clone();
        assert!(turn.guard::<Arc<()>>().is_some_and(|shown| Arc::ptr_eq(shown, &guard)));
        assert!(turn.guard::<u32>().is_none());
        drop(turn);
        assert_eq!(Arc::strong_count(&guard), 2);
        drop(clone);
        assert_eq!(Arc::strong_count(&guard), 1);
    }
}
