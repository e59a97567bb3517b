use std::{fmt, sync::Arc};

use stanchion_core::{Candidate, Dialect, PromptCacheBreak, Usage};
use tower_layer::Layer;

use crate::{CacheBreak, CacheBreakMonitor, CacheBreakPolicy};

/// Puts [`CacheBreak`] around a service.
///
/// Every service that one layer makes shares its monitor.
#[derive(Clone, Default)]
pub struct CacheBreakLayer {
    shared: Arc<Shared>,
}

/// What was lost by a break, for whoever knows prices. See [`CacheBreakLayer::with_price`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Loss<'a> {
    /// The break. Its [`lost_tokens`](PromptCacheBreak::lost_tokens) are what is to be priced.
    pub broken: &'a PromptCacheBreak,
    /// What the reply has used: what it wrote to the cache has a price of its own.
    pub usage: &'a Usage,
    /// The request's dialect.
    pub dialect: Dialect,
    /// Who answered, where that is known.
    pub candidate: Option<&'a Candidate>,
    /// The model that the provider was asked for.
    pub model: Option<&'a str>,
}

type Price = dyn Fn(&Loss<'_>) -> Option<u64> + Send + Sync;

/// What all services of a layer have in common.
#[derive(Clone, Default)]
pub(crate) struct Shared {
    pub(crate) monitor: CacheBreakMonitor,
    pub(crate) price: Option<Arc<Price>>,
}

impl CacheBreakLayer {
    /// Observes by `policy`, with a monitor of its own.
    pub fn new(policy: CacheBreakPolicy) -> Self {
        Self::with_monitor(CacheBreakMonitor::new(policy))
    }

    /// Observes with `monitor`, which other layers may share.
    pub fn with_monitor(monitor: CacheBreakMonitor) -> Self {
        Self { shared: Arc::new(Shared { monitor, price: None }) }
    }

    /// Says what a break cost: `price` gives what the lost tokens cost above the price of a read, in billionths of a US
    /// dollar, or `None` where it does not know both prices. Called only for a break that somebody listens to.
    #[must_use]
    pub fn with_price(self, price: impl Fn(&Loss<'_>) -> Option<u64> + Send + Sync + 'static) -> Self {
        let shared = Arc::unwrap_or_clone(self.shared);
        Self { shared: Arc::new(Shared { price: Some(Arc::new(price)), ..shared }) }
    }

    /// The monitor.
    pub fn monitor(&self) -> &CacheBreakMonitor {
        &self.shared.monitor
    }
}

impl<S> Layer<S> for CacheBreakLayer {
    type Service = CacheBreak<S>;

    fn layer(&self, inner: S) -> CacheBreak<S> {
        CacheBreak { inner, shared: self.shared.clone() }
    }
}

impl fmt::Debug for CacheBreakLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheBreakLayer")
            .field("monitor", &self.shared.monitor)
            .field("prices", &self.shared.price.is_some())
            .finish()
    }
}
