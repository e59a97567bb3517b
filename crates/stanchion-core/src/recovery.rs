use std::{
    fmt,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use serde::Serialize;
use tokio::time::Instant;

use crate::{
    Context, Event, ExhaustedBy, Failure, FailureKind, Phase, ProviderRetry, RecoverySnapshot, RetryHint, RetryPhase,
    RetryReason,
};

/// How a logical request recovers from failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecoveryMode {
    /// A few quick retries; nothing is waited out for long.
    #[default]
    Standard,
    /// A person waits: recovery goes on until a [`RecoveryBudget`] is spent.
    BoundedForeground,
}

/// The budget of one bounded foreground request: a time that starts once and that nothing extends, and a number of
/// attempts that all candidates share.
///
/// The clock starts with the first failure before output that will be retried, or with the first wait for the circuit
/// of the last candidate; what passed before, the whole first attempt with it, does not count. It is monotonic.
pub struct RecoveryBudget {
    budget: Duration,
    attempt_limit: u32,
    started: OnceLock<Instant>,
    attempts: AtomicU32,
    /// What goes on: how the end is told.
    last: Mutex<Option<Remembered>>,
    ended: AtomicBool,
}

/// What is known of a recovery that goes on.
#[derive(Clone)]
struct Remembered {
    retry: ProviderRetry,
    hint: Option<RetryHint>,
}

impl RecoveryBudget {
    /// The time that a budget has unless another is set: 10 minutes.
    pub const DEFAULT: Duration = Duration::from_secs(600);
    /// How many attempts may follow the first, over all candidates, unless another number is set.
    pub const DEFAULT_ATTEMPTS: u32 = 12;

    /// A budget whose clock has not started, with [`DEFAULT_ATTEMPTS`](Self::DEFAULT_ATTEMPTS). Sensible between 30 s and 1 h.
    pub const fn new(budget: Duration) -> Self {
        Self {
            budget,
            attempt_limit: Self::DEFAULT_ATTEMPTS,
            started: OnceLock::new(),
            attempts: AtomicU32::new(0),
            last: Mutex::new(None),
            ended: AtomicBool::new(false),
        }
    }

    /// Sets how many attempts may follow the first, over all candidates.
    #[must_use]
    pub const fn with_attempts(mut self, additional: u32) -> Self {
        self.attempt_limit = additional;
        self
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

    /// Whether the budget is spent at `now`. The instant of the deadline itself is too late.
    pub fn is_spent(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= now)
    }

    /// Whether the budget is spent by now. The time is looked at only where the clock has started.
    pub fn is_spent_by_now(&self) -> bool {
        self.started.get().is_some() && self.is_spent(Instant::now())
    }

    /// What is left at `now`: the whole budget while the clock has not started.
    pub fn remaining(&self, now: Instant) -> Duration {
        self.budget.saturating_sub(self.elapsed(now))
    }

    /// What is spent at `now`, at most the budget.
    pub fn elapsed(&self, now: Instant) -> Duration {
        self.started.get().map_or(Duration::ZERO, |started| now.saturating_duration_since(*started).min(self.budget))
    }

    /// What events tell of it.
    pub fn snapshot(&self, now: Instant) -> RecoverySnapshot {
        RecoverySnapshot { budget: self.budget, elapsed: self.elapsed(now), remaining: self.remaining(now) }
    }

    /// The same for this moment. The time is looked at only where the clock has started.
    pub fn snapshot_by_now(&self) -> RecoverySnapshot {
        match self.started.get() {
            Some(_) => self.snapshot(Instant::now()),
            None => RecoverySnapshot { budget: self.budget, elapsed: Duration::ZERO, remaining: self.budget },
        }
    }

    /// How many attempts may follow the first, over all candidates.
    pub const fn attempt_limit(&self) -> u32 {
        self.attempt_limit
    }

    /// How many attempts were made out of this budget, the first included.
    pub fn attempts(&self) -> u32 {
        self.attempts.load(Ordering::Relaxed)
    }

    /// Whether another attempt may be made.
    pub fn has_attempts(&self) -> bool {
        self.attempts() <= self.attempt_limit
    }

    /// Takes one attempt, if there is one left. For the layer that retries; where retries are counted for each
    /// candidate by itself, nobody takes any.
    pub fn take_attempt(&self) -> bool {
        self.attempts
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| (made <= self.attempt_limit).then_some(made + 1))
            .is_ok()
    }

    /// Gives back an attempt that never reached a provider.
    pub fn give_back_attempt(&self) {
        let _ = self.attempts.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |made| made.checked_sub(1));
    }

    /// Remembers what goes on: with this number, reason and candidate the end of the budget is told, and with this hint of
    /// the provider's. For the layer that retries, at each wait and each attempt.
    pub fn remember(&self, retry: &ProviderRetry, hint: Option<RetryHint>) {
        let remembered = Remembered { retry: retry.clone(), hint };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(remembered);
    }

    /// The failure that ends the request because the budget is spent. The first call tells it as an event too:
    /// `exhausted` by `recovery_budget`.
    pub fn end(&self, context: Option<&Context>, now: Instant) -> Failure {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let hint = last.as_ref().and_then(|last| last.hint);
        let last = last.map(|last| last.retry);
        let mut failure = Failure::new(FailureKind::RecoveryBudget)
            .with_phase(Phase::BeforeOutput)
            .with_limit(self.budget)
            .with_hint(hint);
        if let Some(candidate) = last.as_ref().and_then(|last| last.candidate.clone()) {
            failure = failure.with_candidate(candidate);
        }
        if let Some(attempts) = context.map(Context::attempts).filter(|attempts| *attempts > 0) {
            failure = failure.with_attempts(attempts);
        }
        if !self.ended.swap(true, Ordering::Relaxed) {
            Context::emit(context, || {
                let last = last.unwrap_or_else(|| ProviderRetry {
                    max_retries: self.attempt_limit,
                    ..ProviderRetry::new(RetryPhase::Exhausted, RetryReason::Timeout)
                });
                Event::ProviderRetry(ProviderRetry {
                    phase: RetryPhase::Exhausted,
                    delay: None,
                    next_retry_at: None,
                    recovery: Some(self.snapshot(now)),
                    exhausted_by: Some(ExhaustedBy::RecoveryBudget),
                    ..last
                })
            });
        }
        failure
    }
}

impl fmt::Debug for RecoveryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecoveryBudget")
            .field("budget", &self.budget)
            .field("attempt_limit", &self.attempt_limit)
            .field("attempts", &self.attempts())
            .field("started", &self.started.get().is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::HintSource;

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

    #[test]
    fn the_deadline_itself_is_too_late() {
        let budget = RecoveryBudget::new(Duration::from_secs(30));
        let start = Instant::now();
        assert!(!budget.is_spent(start + Duration::from_secs(999)), "not started");
        assert!(!budget.is_spent_by_now());
        assert_eq!(budget.snapshot_by_now(), budget.snapshot(start + Duration::from_secs(999)));
        budget.start(start);
        assert!(!budget.is_spent_by_now());
        let past = RecoveryBudget::new(Duration::from_secs(1));
        past.start(start - Duration::from_secs(2));
        assert!(past.is_spent_by_now() && past.snapshot_by_now().remaining.is_zero());
        assert!(!budget.is_spent(start + Duration::from_secs(30) - Duration::from_nanos(1)));
        assert!(budget.is_spent(start + Duration::from_secs(30)));
    }

    #[test]
    fn attempts_are_shared_and_what_was_not_asked_is_given_back() {
        let budget = RecoveryBudget::new(Duration::from_secs(30)).with_attempts(1);
        assert!(budget.take_attempt());
        assert!(budget.has_attempts() && budget.take_attempt());
        assert!(!budget.has_attempts() && !budget.take_attempt());
        budget.give_back_attempt();
        assert_eq!((budget.attempts(), budget.has_attempts()), (1, true));
        let none = RecoveryBudget::new(Duration::from_secs(30));
        none.give_back_attempt();
        assert_eq!(none.attempts(), 0);
    }

    #[test]
    fn the_end_is_told_once_as_the_last_retry_was() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = seen.clone();
        let context = Context::builder()
            .observer(Arc::new(move |event: &Event| into.lock().unwrap().push(event.clone())))
            .build();
        let budget = RecoveryBudget::new(Duration::from_secs(30));
        let start = Instant::now();
        budget.start(start);
        budget.remember(
            &ProviderRetry {
                attempt: 3,
                status_code: Some(503),
                delay: Some(Duration::from_secs(4)),
                candidate: Some("a/x".into()),
                ..ProviderRetry::new(RetryPhase::Scheduled, RetryReason::ServerError)
            },
            Some(RetryHint::new(Duration::from_secs(60), HintSource::RetryAfter)),
        );
        let end = start + Duration::from_secs(30);
        let failures = [budget.end(Some(&context), end), budget.end(Some(&context), end)];
        for failure in failures {
            assert_eq!((failure.kind(), failure.limit()), (FailureKind::RecoveryBudget, Some(Duration::from_secs(30))));
            assert_eq!(failure.candidate().map(|name| &**name), Some("a/x"));
            assert_eq!(failure.hint().map(RetryHint::delay), Some(Duration::from_secs(60)));
        }
        let seen = seen.lock().unwrap();
        let [Event::ProviderRetry(event)] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!((event.phase, event.attempt, event.status_code), (RetryPhase::Exhausted, 3, Some(503)));
        assert_eq!(event.exhausted_by, Some(ExhaustedBy::RecoveryBudget));
        assert_eq!(event.recovery.unwrap().remaining, Duration::ZERO);
        assert_eq!(event.delay, None);
    }
}
