use std::{fmt, sync::Arc};

use stanchion_core::{Candidate, Dialect, PromptCacheBreak};
use tower_layer::Layer;

use crate::{CacheBreak, CacheBreakMonitor, CacheBreakPolicy};

/// Puts [`CacheBreak`] around a service.
///
/// Every service that one layer makes shares its monitor.
#[derive(Clone, Default)]
pub struct CacheBreakLayer {
    shared: Arc<Shared>,
}

type Price = dyn Fn(&PromptCacheBreak, Dialect, Option<&Candidate>) -> Option<u64> + Send + Sync;

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

    /// Says what a break cost: `price` gets the break, the dialect, and who answered if that is known, and gives what
    /// [`lost_tokens`](PromptCacheBreak::lost_tokens) cost above the price of a read, in billionths of a US dollar, or
    /// `None` where it knows no price. Called only for a break that somebody listens to.
    #[must_use]
    pub fn with_price(
        self,
        price: impl Fn(&PromptCacheBreak, Dialect, Option<&Candidate>) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
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
