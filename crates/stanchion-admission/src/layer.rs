use std::{fmt, sync::Arc};

use stanchion_core::Candidate;
use tower_layer::Layer;

use crate::{Admission, AdmissionHandle, AdmissionPolicy, AdmissionScheduler, gate::Gate};

/// Puts [`Admission`] around a service. Its place is inside of whatever retries, and outside of whatever must not begin
/// before the request has its permit: the circuit's check, the clocks of an attempt.
///
/// Every service that one layer makes shares its scheduler, and so do all layers of one scheduler.
#[derive(Clone)]
pub struct AdmissionLayer {
    scheduler: AdmissionScheduler,
    policy: AdmissionPolicy,
    /// None if nothing limits how many are in flight.
    gate: Option<Arc<Gate>>,
}

impl AdmissionLayer {
    /// Has requests queue at `scheduler`, under `policy`.
    pub fn new(scheduler: AdmissionScheduler, policy: AdmissionPolicy) -> Self {
        let limits = scheduler.0.limits_concurrency() || policy.limits_concurrency();
        let gate = limits.then(|| Arc::new(Gate::new(scheduler.0.clone(), policy.clone())));
        Self { scheduler, policy, gate }
    }

    /// The queue, as one candidate's requests see it, for whoever makes exchanges without a tower service.
    pub fn handle(&self, candidate: &Arc<Candidate>) -> AdmissionHandle {
        let gate =
            self.gate.clone().unwrap_or_else(|| Arc::new(Gate::new(self.scheduler.0.clone(), self.policy.clone())));
        AdmissionHandle::new(gate, candidate)
    }

    /// Whether neither the scheduler nor the policy limits how many are in flight. Then requests pass without a look.
    pub fn is_off(&self) -> bool {
        self.gate.is_none()
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &AdmissionScheduler {
        &self.scheduler
    }

    /// The policy.
    pub fn policy(&self) -> &AdmissionPolicy {
        &self.policy
    }
}

/// No limit: everyone passes.
impl Default for AdmissionLayer {
    fn default() -> Self {
        Self::new(AdmissionScheduler::new(), AdmissionPolicy::default())
    }
}

impl<S> Layer<S> for AdmissionLayer {
    type Service = Admission<S>;

    fn layer(&self, inner: S) -> Admission<S> {
        Admission { inner, gate: self.gate.clone() }
    }
}

impl fmt::Debug for AdmissionLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionLayer")
            .field("scheduler", &self.scheduler)
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}
