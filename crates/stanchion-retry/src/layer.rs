use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use tower_layer::Layer;

use crate::{Retry, RetryBudget, RetryPolicy};

/// Puts [`Retry`] around a service.
///
/// Every service that one layer makes shares its policy, its [`RetryBudget`] and its source of randomness.
#[derive(Clone)]
pub struct RetryLayer {
    shared: Arc<Shared>,
}

type Random = Arc<dyn Fn() -> f64 + Send + Sync>;

/// What all services of a layer have in common.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) policy: RetryPolicy,
    pub(crate) budget: Option<RetryBudget>,
    pub(crate) random: Random,
}

impl RetryLayer {
    /// Retries by `policy`, with jitter from a seed that nobody knows, and with a budget of its own.
    pub fn new(policy: RetryPolicy) -> Self {
        let random = seeded(fastrand::Rng::new());
        Self { shared: Arc::new(Shared { policy, budget: Some(RetryBudget::default()), random }) }
    }

    /// Takes retries out of `budget`, which other layers may share, or out of none.
    #[must_use]
    pub fn with_budget(self, budget: impl Into<Option<RetryBudget>>) -> Self {
        let Shared { policy, random, .. } = self.into_parts();
        Self { shared: Arc::new(Shared { policy, budget: budget.into(), random }) }
    }

    /// Takes the jitter from a known seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        self.with(seeded(fastrand::Rng::with_seed(seed)))
    }

    /// Takes the jitter from `random`, which gives numbers from 0 (the shortest wait) to 1 (the longest).
    #[must_use]
    pub fn with_random(self, random: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.with(Arc::new(random))
    }

    fn with(self, random: Random) -> Self {
        let Shared { policy, budget, .. } = self.into_parts();
        Self { shared: Arc::new(Shared { policy, budget, random }) }
    }

    fn into_parts(self) -> Shared {
        Arc::unwrap_or_clone(self.shared)
    }

    /// The policy.
    pub fn policy(&self) -> &RetryPolicy {
        &self.shared.policy
    }

    /// What retries are taken out of.
    pub fn budget(&self) -> Option<&RetryBudget> {
        self.shared.budget.as_ref()
    }
}

/// The lock is taken only where a backoff begins.
fn seeded(rng: fastrand::Rng) -> Random {
    let rng = Mutex::new(rng);
    Arc::new(move || rng.lock().unwrap_or_else(PoisonError::into_inner).f64())
}

impl Default for RetryLayer {
    fn default() -> Self {
        Self::new(RetryPolicy::default())
    }
}

impl<S> Layer<S> for RetryLayer {
    type Service = Retry<S>;

    fn layer(&self, inner: S) -> Retry<S> {
        Retry { inner, shared: self.shared.clone() }
    }
}

impl fmt::Debug for RetryLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryLayer").field("policy", self.policy()).finish_non_exhaustive()
    }
}
