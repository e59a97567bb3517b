use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use tower_layer::Layer;

use crate::{Retry, RetryPolicy};

/// Puts [`Retry`] around a service.
///
/// Every service that one layer makes shares its policy and its source of randomness.
#[derive(Clone)]
pub struct RetryLayer {
    shared: Arc<Shared>,
}

/// What all services of a layer have in common.
pub(crate) struct Shared {
    pub(crate) policy: RetryPolicy,
    pub(crate) random: Box<dyn Fn() -> f64 + Send + Sync>,
}

impl RetryLayer {
    /// Retries by `policy`, with jitter from a seed that nobody knows.
    pub fn new(policy: RetryPolicy) -> Self {
        Self { shared: Arc::new(Shared { policy, random: seeded(fastrand::Rng::new()) }) }
    }

    /// Takes the jitter from a known seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        self.with(seeded(fastrand::Rng::with_seed(seed)))
    }

    /// Takes the jitter from `random`, which gives numbers from 0 (the shortest wait) to 1 (the longest).
    #[must_use]
    pub fn with_random(self, random: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        self.with(Box::new(random))
    }

    fn with(self, random: Box<dyn Fn() -> f64 + Send + Sync>) -> Self {
        Self { shared: Arc::new(Shared { policy: self.shared.policy.clone(), random }) }
    }

    /// The policy.
    pub fn policy(&self) -> &RetryPolicy {
        &self.shared.policy
    }
}

/// The lock is taken only where a backoff begins.
fn seeded(rng: fastrand::Rng) -> Box<dyn Fn() -> f64 + Send + Sync> {
    let rng = Mutex::new(rng);
    Box::new(move || rng.lock().unwrap_or_else(PoisonError::into_inner).f64())
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
