use std::{fmt, time::Duration};

use stanchion_core::RecoveryBudget;

/// What the recovery of one foreground request may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoveryLimits {
    budget: Option<Duration>,
    attempts: u32,
}

impl RecoveryLimits {
    /// The default budget.
    pub const BUDGET: Duration = RecoveryBudget::DEFAULT;
    /// The shortest budget: less than that is a few quick retries, which need no budget.
    pub const MIN_BUDGET: Duration = Duration::from_secs(30);
    /// The longest budget.
    pub const MAX_BUDGET: Duration = Duration::from_secs(3600);
    /// The default number of attempts after the first.
    pub const ATTEMPTS: u32 = RecoveryBudget::DEFAULT_ATTEMPTS;

    /// Starts from the defaults.
    pub const fn builder() -> RecoveryLimitsBuilder {
        RecoveryLimitsBuilder { budget: Self::BUDGET, attempts: Self::ATTEMPTS }
    }

    /// The time from the first failure that is retried to the end of the request; `None` if no request gets a budget.
    pub const fn budget(&self) -> Option<Duration> {
        self.budget
    }

    /// How many attempts may follow the first, over all candidates.
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// A budget for one request, its clock not started.
    pub(super) fn new_budget(&self) -> Option<RecoveryBudget> {
        Some(RecoveryBudget::new(self.budget?).with_attempts(self.attempts))
    }
}

impl Default for RecoveryLimits {
    fn default() -> Self {
        Self { budget: Some(Self::BUDGET), attempts: Self::ATTEMPTS }
    }
}

/// Builds [`RecoveryLimits`].
#[derive(Debug, Clone, Copy)]
pub struct RecoveryLimitsBuilder {
    budget: Duration,
    attempts: u32,
}

impl RecoveryLimitsBuilder {
    /// The time from the first failure that is retried to the end of the request. Default 10 min, from 30 s to 1 h; zero gives no
    /// request a budget.
    #[must_use]
    pub const fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget;
        self
    }

    /// How many attempts may follow the first, over all candidates. Default 12.
    #[must_use]
    pub const fn attempts(mut self, additional: u32) -> Self {
        self.attempts = additional;
        self
    }

    /// The limits.
    ///
    /// # Errors
    ///
    /// If the budget is neither zero nor within its range.
    pub fn build(self) -> Result<RecoveryLimits, InvalidBudget> {
        let in_range = (RecoveryLimits::MIN_BUDGET..=RecoveryLimits::MAX_BUDGET).contains(&self.budget);
        match self.budget {
            Duration::ZERO => Ok(RecoveryLimits { budget: None, attempts: self.attempts }),
            budget if in_range => Ok(RecoveryLimits { budget: Some(budget), attempts: self.attempts }),
            budget => Err(InvalidBudget { budget }),
        }
    }
}

/// A budget outside of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidBudget {
    budget: Duration,
}

impl InvalidBudget {
    /// Which setting: `budget`.
    pub const fn name(&self) -> &'static str {
        "budget"
    }
}

impl fmt::Display for InvalidBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "recovery.budget is {:?}: set {:?} to {:?} (\"0s\" turns bounded recovery off)",
            self.budget,
            RecoveryLimits::MIN_BUDGET,
            RecoveryLimits::MAX_BUDGET
        )
    }
}

impl std::error::Error for InvalidBudget {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_nothing_or_in_its_range() {
        let build = |milliseconds| RecoveryLimits::builder().budget(Duration::from_millis(milliseconds)).build();
        for (milliseconds, budget) in [(0, None), (30_000, Some(30)), (600_000, Some(600)), (3_600_000, Some(3600))] {
            assert_eq!(build(milliseconds).unwrap().budget(), budget.map(Duration::from_secs));
        }
        for milliseconds in [1, 29_999, 3_600_001] {
            let error = build(milliseconds).unwrap_err();
            assert_eq!(error.name(), "budget");
        }
        assert_eq!(
            build(29_999).unwrap_err().to_string(),
            "recovery.budget is 29.999s: set 30s to 3600s (\"0s\" turns bounded recovery off)"
        );
    }

    #[test]
    fn the_defaults_are_ten_minutes_and_twelve_attempts() {
        let limits = RecoveryLimits::default();
        assert_eq!(limits, RecoveryLimits::builder().build().unwrap());
        assert_eq!((limits.budget(), limits.attempts()), (Some(Duration::from_secs(600)), 12));
        let budget = RecoveryLimits::builder().attempts(3).build().unwrap().new_budget().unwrap();
        assert_eq!((budget.budget(), budget.attempt_limit(), budget.deadline()), (Duration::from_secs(600), 3, None));
    }
}
