use tower_layer::Layer;

use super::{Attempt, AttemptLimits};

/// Makes [`Attempt`] services.
#[derive(Debug, Clone, Copy, Default)]
pub struct AttemptLayer {
    limits: AttemptLimits,
}

impl AttemptLayer {
    /// A layer with these limits.
    pub const fn new(limits: AttemptLimits) -> Self {
        Self { limits }
    }
}

impl<S> Layer<S> for AttemptLayer {
    type Service = Attempt<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Attempt::new(inner, self.limits)
    }
}
