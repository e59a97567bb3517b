use tower_layer::Layer;

use super::{Recovery, RecoveryLimits};

/// Makes [`Recovery`] services.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecoveryLayer {
    limits: RecoveryLimits,
}

impl RecoveryLayer {
    /// A layer with these limits.
    pub const fn new(limits: RecoveryLimits) -> Self {
        Self { limits }
    }
}

impl<S> Layer<S> for RecoveryLayer {
    type Service = Recovery<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Recovery::new(inner, self.limits)
    }
}
