use std::{fmt, sync::Arc};

use stanchion_core::{Candidate, Candidates};
use tower_layer::Layer;

use crate::{Circuit, CircuitHandle, CircuitPolicy, CircuitPreflight, CircuitRegistry, circuits::Circuits};

/// Puts [`Circuit`] around a service. Its place is inside of whatever makes requests queue, and outside of `Commit`.
///
/// Every service that one layer makes shares its circuits, and so do layers of one registry whose policies agree.
#[derive(Clone)]
pub struct CircuitLayer {
    circuits: Arc<Circuits>,
    candidates: Option<Candidates>,
}

/// Puts [`CircuitPreflight`] around a service. Its place is outside of whatever makes requests queue. See
/// [`CircuitLayer::preflight`].
#[derive(Clone)]
pub struct CircuitPreflightLayer {
    circuits: Arc<Circuits>,
}

impl CircuitLayer {
    /// Keeps circuits in `registry`, under `policy`.
    pub fn new(registry: CircuitRegistry, policy: CircuitPolicy) -> Self {
        Self { circuits: Arc::new(Circuits::new(registry, policy, None)), candidates: None }
    }

    /// Names the candidates of the model, so that they are not all open at once: see the
    /// [crate's page](crate#the-others-of-a-model). Their circuits are also found faster.
    #[must_use]
    pub fn with_candidates(self, candidates: Candidates) -> Self {
        let Circuits { registry, policy, .. } = &*self.circuits;
        let circuits = Circuits::new(registry.clone(), policy.clone(), Some(&candidates));
        Self { circuits: Arc::new(circuits), candidates: Some(candidates) }
    }

    /// The layer that turns requests away before they queue. It shares everything with this one.
    pub fn preflight(&self) -> CircuitPreflightLayer {
        CircuitPreflightLayer { circuits: self.circuits.clone() }
    }

    /// The circuit of one candidate.
    pub fn circuit(&self, candidate: &Arc<Candidate>) -> CircuitHandle {
        CircuitHandle::new(self.circuits.clone(), candidate.clone())
    }

    /// The policy.
    pub fn policy(&self) -> &CircuitPolicy {
        &self.circuits.policy
    }

    /// Where the circuits are.
    pub fn registry(&self) -> &CircuitRegistry {
        &self.circuits.registry
    }

    /// The candidates of the model, if they were named.
    pub fn candidates(&self) -> Option<&Candidates> {
        self.candidates.as_ref()
    }
}

/// A registry of its own, and the default policy.
impl Default for CircuitLayer {
    fn default() -> Self {
        Self::new(CircuitRegistry::new(), CircuitPolicy::default())
    }
}

impl<S> Layer<S> for CircuitLayer {
    type Service = Circuit<S>;

    fn layer(&self, inner: S) -> Circuit<S> {
        Circuit { inner, circuits: self.circuits.clone() }
    }
}

impl<S> Layer<S> for CircuitPreflightLayer {
    type Service = CircuitPreflight<S>;

    fn layer(&self, inner: S) -> CircuitPreflight<S> {
        CircuitPreflight { inner, circuits: self.circuits.clone() }
    }
}

impl fmt::Debug for CircuitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitLayer").field("circuits", &self.circuits).finish_non_exhaustive()
    }
}

impl fmt::Debug for CircuitPreflightLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CircuitPreflightLayer").field("circuits", &self.circuits).finish_non_exhaustive()
    }
}
