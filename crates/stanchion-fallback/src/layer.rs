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
    pub(crate) fit_guard: bool,
    pub(crate) on_overflow: OnOverflow,
}

/// Where a request goes whose prompt is too long for the candidate that was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnOverflow {
    /// Nowhere: the same prompt is likely to be too long for others as well.
    #[default]
    Stop,
    /// To the next candidate whose [window](stanchion_core::Candidate::with_context_window) is larger. From one without a window it
    /// goes nowhere, or to the next where [rules](FallbackLayer::with_rules) let overflows pass on anyhow.
    LargerWindow,
}

impl FallbackLayer {
    /// Asks `candidates` in order, where a request does not bring its own.
    pub fn new(candidates: Candidates) -> Self {
        let settings = Settings {
            candidates,
            rules: DispositionRules::default(),
            fit_guard: true,
            on_overflow: OnOverflow::default(),
        };
        Self { settings: Arc::new(settings) }
    }

    /// Moves the disputed cells of the table.
    #[must_use]
    pub fn with_rules(self, rules: DispositionRules) -> Self {
        self.with(|settings| settings.rules = rules)
    }

    /// Whether candidates are passed over that a request cannot fit. Default: yes.
    ///
    /// It goes by the estimate of the request's [`Call`](stanchion_core::Call) and by the windows that candidates were
    /// given, and only if another candidate is left that fits: a guess refuses nobody.
    #[must_use]
    pub fn with_fit_guard(self, guards: bool) -> Self {
        self.with(|settings| settings.fit_guard = guards)
    }

    /// Where a request goes whose prompt is too long for the candidate that was asked.
    #[must_use]
    pub fn with_overflow(self, on_overflow: OnOverflow) -> Self {
        self.with(|settings| settings.on_overflow = on_overflow)
    }

    fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(Arc::make_mut(&mut self.settings));
        self
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
