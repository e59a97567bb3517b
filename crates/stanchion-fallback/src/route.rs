use std::sync::Arc;

use stanchion_core::{
    Call, Candidate, Candidates, Disposition, DispositionRules, Failure, FailureKind, Phase, Selected,
};

use crate::{OnOverflow, layer::Settings};

/// The candidates that one request may be sent to, in order.
#[derive(Debug)]
pub(crate) struct Route {
    candidates: Candidates,
    rules: DispositionRules,
    on_overflow: OnOverflow,
    /// About how many tokens the request holds, where it is to be held against the windows.
    tokens: Option<usize>,
    /// The smallest window that will do, now that a smaller one did not.
    least_window: u32,
}

impl Route {
    pub(crate) fn new(candidates: Candidates, settings: &Settings, call: Option<&Call>) -> Self {
        let tokens = call.filter(|_| settings.fit_guard).map(Call::estimated_tokens);
        // A guess refuses nobody: where no candidate fits all are asked, and the provider is the judge.
        let takes = |candidate: &Arc<Candidate>, tokens| !candidate.drain().is_drained() && candidate.fits(tokens);
        let tokens = tokens.filter(|tokens| candidates.iter().any(|candidate| takes(candidate, *tokens)));
        Self { candidates, rules: settings.rules, on_overflow: settings.on_overflow, tokens, least_window: 0 }
    }

    pub(crate) fn rules(&self) -> &DispositionRules {
        &self.rules
    }

    /// The first candidate, or why there is none.
    pub(crate) fn first(&self) -> Result<Selected, Failure> {
        self.from(0).ok_or_else(|| match self.candidates.iter().next_back() {
            Some(drained) => {
                Failure::new(FailureKind::Drained).with_phase(Phase::Connect).with_candidate(drained.name().clone())
            }
            None => Failure::new(FailureKind::Misconfigured)
                .with_phase(Phase::Connect)
                .with_source("neither the request nor the layer names a candidate"),
        })
    }

    /// Who is asked after `selected` has failed so; `None` if nobody is.
    pub(crate) fn after(&mut self, selected: &Selected, failure: &Failure) -> Option<Selected> {
        let passes = Disposition::of(failure, &self.rules).fallback;
        let overflows = failure.kind() == FailureKind::ContextOverflow && self.on_overflow == OnOverflow::LargerWindow;
        match selected.candidate.context_window().filter(|_| overflows) {
            // Whoever is asked from now on, and whatever for: the prompt does not become shorter.
            Some(window) => self.least_window = self.least_window.max(window.saturating_add(1)),
            None if passes => {}
            None => return None,
        }
        self.from(selected.index + 1)
    }

    /// The first candidate from a place on that fits.
    fn from(&self, place: usize) -> Option<Selected> {
        let fits = |index: usize| self.candidates.select(index).filter(|selected| self.takes(selected));
        let mut found = (place..self.candidates.len()).find_map(fits)?;
        found.last = (found.index + 1..self.candidates.len()).all(|later| fits(later).is_none());
        Some(found)
    }

    fn takes(&self, selected: &Selected) -> bool {
        let candidate = &selected.candidate;
        let is_wide = self.least_window == 0 || candidate.context_window().is_some_and(|own| own >= self.least_window);
        // What was drained since a request came is noticed further in, before the next attempt.
        !candidate.drain().is_drained() && is_wide && self.tokens.is_none_or(|tokens| candidate.fits(tokens))
    }
}
