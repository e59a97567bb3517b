use std::{fmt, sync::Arc};

use stanchion_core::Candidate;
use tower_layer::Layer;

use crate::{Admission, AdmissionHandle, AdmissionPolicy, AdmissionScheduler, gate::Gate, policy::Policies};

/// Puts [`Admission`] around a service. Its place is inside of whatever retries, and outside of whatever must not begin
/// before the request has its permit: the circuit's check, the clocks of an attempt.
///
/// Every service that one layer makes shares its scheduler, and so do all layers of one scheduler.
#[derive(Clone)]
pub struct AdmissionLayer {
    scheduler: AdmissionScheduler,
    policies: Arc<Policies>,
    /// None if nothing limits how many are in flight.
    gate: Option<Arc<Gate>>,
}

impl AdmissionLayer {
    /// Has requests queue at `scheduler`, under `policy`.
    pub fn new(scheduler: AdmissionScheduler, policy: AdmissionPolicy) -> Self {
        Self::with_policies(scheduler, Policies::new(policy))
    }

    fn with_policies(scheduler: AdmissionScheduler, policies: Policies) -> Self {
        let policies = Arc::new(policies);
        let limits = scheduler.0.limits_concurrency() || policies.limit_concurrency();
        let gate = limits.then(|| Arc::new(Gate::new(scheduler.0.clone(), policies.clone())));
        Self { scheduler, policies, gate }
    }

    /// Has the requests to one provider's candidates queue under another policy, whole: nothing of the one for all holds
    /// for them.
    ///
    /// To be called before services are made: what they count of requests without an owner is of their layer, and this is
    /// another.
    #[must_use]
    pub fn policy_for(self, provider: impl Into<Box<str>>, policy: AdmissionPolicy) -> Self {
        let mut policies = Arc::unwrap_or_clone(self.policies);
        policies.set(provider.into(), policy);
        Self::with_policies(self.scheduler, policies)
    }

    /// The queue, as one candidate's requests see it, for whoever makes exchanges without a tower service.
    pub fn handle(&self, candidate: &Arc<Candidate>) -> AdmissionHandle {
        let gate =
            self.gate.clone().unwrap_or_else(|| Arc::new(Gate::new(self.scheduler.0.clone(), self.policies.clone())));
        AdmissionHandle::new(gate, candidate)
    }

    /// Whether neither the scheduler nor a policy limits how many are in flight. Then requests pass without a look.
    pub fn is_off(&self) -> bool {
        self.gate.is_none()
    }

    /// The scheduler.
    pub fn scheduler(&self) -> &AdmissionScheduler {
        &self.scheduler
    }

    /// The policy of all candidates whose provider has none of its own.
    pub fn policy(&self) -> &AdmissionPolicy {
        self.policies.get(Policies::GENERAL)
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
            .field("policies", &self.policies)
            .finish_non_exhaustive()
    }
}
