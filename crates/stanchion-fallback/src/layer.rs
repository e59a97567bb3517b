use std::sync::Arc;

use stanchion_core::{Candidates, DispositionRules};
use tower_layer::Layer;

use crate::Fallback;

/// Puts [`Fallback`] around a service.
#[derive(Debug, Clone)]
pub struct FallbackLayer {
    settings: Arc<Settings>,
}

/// What all services of a layer have in common.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) candidates: Candidates,
    pub(crate) rules: DispositionRules,
}

impl FallbackLayer {
    /// Asks `candidates` in order, where a request does not bring its own.
    pub fn new(candidates: Candidates) -> Self {
        Self { settings: Arc::new(Settings { candidates, rules: DispositionRules::default() }) }
    }

    /// Moves the disputed cells of the table.
    #[must_use]
    pub fn with_rules(self, rules: DispositionRules) -> Self {
        Self { settings: Arc::new(Settings { candidates: self.settings.candidates.clone(), rules }) }
    }

    /// The candidates of requests that do not bring their own.
    pub fn candidates(&self) -> &Candidates {
        &self.settings.candidates
    }

    /// The disputed cells of the table.
    pub fn rules(&self) -> &DispositionRules {
        &self.settings.rules
    }
}

/// Without candidates of its own: every request must bring some.
impl Default for FallbackLayer {
    fn default() -> Self {
        Self::new(Candidates::new([]))
    }
}

impl<S> Layer<S> for FallbackLayer {
    type Service = Fallback<S>;

    fn layer(&self, inner: S) -> Fallback<S> {
        Fallback { inner, settings: self.settings.clone() }
    }
}
