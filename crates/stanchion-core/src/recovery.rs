use std::{sync::OnceLock, time::Duration};

use tokio::time::Instant;

/// How long a logical request may go on recovering from failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RecoveryMode {
    /// A few quick retries; nothing is waited out for long.
    #[default]
    Standard,
    /// A person waits: recovery goes on until a budget of time is spent.
    BoundedForeground {
        /// Time for recovery, counted from the first failure that is recovered from. Sensible between 30 s and 1 h.
        budget: Duration,
    },
}

/// The clock of a recovery: it starts once and nothing extends it. Monotonic.
#[derive(Debug)]
pub struct RecoveryBudget {
    budget: Duration,
    started: OnceLock<Instant>,
}

impl RecoveryBudget {
    /// A budget whose clock has not started.
    pub const fn new(budget: Duration) -> Self {
        Self { budget, started: OnceLock::new() }
    }

    /// Starts the clock at `now`, unless it runs already.
    pub fn start(&self, now: Instant) {
        let _ = self.started.set(now);
    }

    /// The whole budget.
    pub const fn budget(&self) -> Duration {
        self.budget
    }

    /// When recovery must have ended; `None` while the clock has not started.
    pub fn deadline(&self) -> Option<Instant> {
        self.started.get().and_then(|started| started.checked_add(self.budget))
    }

    /// What is left at `now`: the whole budget while the clock has not started.
    pub fn remaining(&self, now: Instant) -> Duration {
        self.budget.saturating_sub(self.elapsed(now))
    }

    /// What is spent at `now`, at most the budget.
    pub fn elapsed(&self, now: Instant) -> Duration {
        self.started.get().map_or(Duration::ZERO, |started| now.saturating_duration_since(*started).min(self.budget))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_extends_a_budget() {
        let budget = RecoveryBudget::new(Duration::from_secs(30));
        let start = Instant::now();
        assert_eq!(budget.remaining(start + Duration::from_secs(99)), Duration::from_secs(30));
        assert_eq!(budget.deadline(), None);
        budget.start(start);
        budget.start(start + Duration::from_secs(20));
        assert_eq!(budget.remaining(start + Duration::from_secs(10)), Duration::from_secs(20));
        assert_eq!(budget.remaining(start + Duration::from_secs(31)), Duration::ZERO);
        assert_eq!(budget.elapsed(start + Duration::from_secs(31)), Duration::from_secs(30));
    }
}
