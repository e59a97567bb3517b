use std::time::Duration;

use stanchion_core::{
    CircuitOutcome, Disposition, ExhaustedBy, Failure, FailureKind, Phase, PoolState, RecoveryMode, Retry, RetryClass,
    RetryReason,
};

use crate::{RetryPolicy, policy::Limits};

/// The retries of one call: how many were made, and whether another may be.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Retries made.
    made: u32,
    /// Those of them that were made before, for other candidates.
    carried: u32,
    /// Those of them that count against a limit, by class.
    charged: [u32; 2],
    free_spent: bool,
    once_spent: bool,
    /// Why the last one was made, or the last circuit waited for.
    cause: Option<Cause>,
}

/// Why a retry is made, as events tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) reason: RetryReason,
    pub(crate) status: Option<u16>,
}

/// What a call may use up.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Allowance {
    /// Its own retries.
    Own {
        limits: Limits,
        /// Within a recovery budget: waits may be long.
        recovering: bool,
    },
    /// Attempts that all candidates of the request share.
    Shared {
        /// How many were made, the first included: the number of the next one after the first.
        attempts: u32,
        /// Whether there is one left.
        left: bool,
        /// The most retries of this candidate; only the last has no limit of its own.
        own: Option<u32>,
    },
}

/// A retry that may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) wait: Duration,
    pub(crate) cause: Cause,
    pub(crate) class: RetryClass,
    /// It counts against no limit.
    pub(crate) free: bool,
    once: bool,
}

/// What comes after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Another attempt, which is to be counted with [`Ledger::take`] if nothing else forbids it.
    Again(Step),
    /// Nothing more here; it is to be told, for this cause.
    Exhausted(Cause, Option<ExhaustedBy>),
    /// Nothing more here, and nothing to tell.
    Leave,
}

impl Ledger {
    /// A ledger that goes on counting where the candidates before left off.
    pub(crate) fn carried_over(charged: [u32; 2]) -> Self {
        let carried = charged.iter().sum();
        Self { made: carried, carried, charged, ..Self::default() }
    }

    /// How many retries were made.
    pub(crate) fn made(&self) -> u32 {
        self.made
    }

    /// How many of them this call made itself.
    pub(crate) fn made_here(&self) -> u32 {
        self.made - self.carried
    }

    /// How many retries this call may come to, at most: those that are allowed, and the free one once it is spent.
    pub(crate) fn limit(&self, limits: Limits) -> u32 {
        limits.total().saturating_add(u32::from(self.free_spent))
    }

    /// Why the last retry was made; `None` if none was.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// Remembers why a circuit is waited for.
    pub(crate) fn waits_for(&mut self, cause: Cause) {
        self.cause = Some(cause);
    }

    /// Whether another retry could be made, whatever its cause.
    pub(crate) fn may_go_on(&self, allowance: Allowance) -> bool {
        match allowance {
            Allowance::Own { limits, .. } => {
                limits.total() > 0
                    && (!self.free_spent
                        || [RetryClass::RateLimit, RetryClass::Transient]
                            .into_iter()
                            .any(|class| self.charged[class as usize] < limits.of(class, self.charged[other(class)])))
            }
            Allowance::Shared { left, .. } => left,
        }
    }

    /// Judges a failed attempt.
    pub(crate) fn judge(
        &self,
        failure: &Failure,
        policy: &RetryPolicy,
        allowance: Allowance,
        random: impl FnOnce() -> f64,
    ) -> Verdict {
        let disposition = Disposition::of(failure, policy.rules());
        if disposition.retry == Retry::Never {
            return self.last(failure, policy);
        }
        let cause = Cause::of(failure, disposition);
        let class = class(disposition.reason);
        let hint = policy.hint(failure);
        let charged = self.charged[class as usize];
        let (left, any_at_all, mode, number) = match allowance {
            Allowance::Own { limits, recovering } => {
                let left = charged < limits.of(class, self.charged[other(class)]);
                let number = match limits {
                    Limits::One(_) => self.charged.iter().sum::<u32>() + 1,
                    Limits::Two { .. } => charged + 1,
                };
                let mode = if recovering { RecoveryMode::BoundedForeground } else { RecoveryMode::Standard };
                (left, limits.total() > 0, mode, number)
            }
            Allowance::Shared { attempts, left, own } => {
                let left = left && own.is_none_or(|own| self.charged.iter().sum::<u32>() < own);
                (left, left, RecoveryMode::BoundedForeground, attempts)
            }
        };
        // A hint outweighs "at once": it is never shortened.
        let free = disposition.retry == Retry::AtOnce && !self.free_spent && any_at_all && hint.is_none();
        let wait = if free {
            Some(Duration::ZERO)
        } else if !left {
            return Verdict::Exhausted(cause, Some(ExhaustedBy::AttemptLimit));
        } else if disposition.retry == Retry::Once && self.once_spent {
            None
        } else if failure.pool() == Some(PoolState::AnotherReady) {
            // With another key there is nothing to wait for.
            Some(Duration::ZERO)
        } else {
            policy.wait(mode, class, number, hint, random)
        };
        match wait {
            Some(wait) => Verdict::Again(Step { wait, cause, class, free, once: disposition.retry == Retry::Once }),
            None => Verdict::Exhausted(cause, None),
        }
    }

    /// Counts a retry.
    pub(crate) fn take(&mut self, step: &Step) {
        self.cause = Some(step.cause);
        self.made += 1;
        self.charged[step.class as usize] += u32::from(!step.free);
        self.free_spent |= step.free;
        self.once_spent |= step.once;
    }

    /// The verdict on a failure that is not retried, whatever the limits say.
    ///
    /// Retries that end are told with the cause of this failure if it is one to retry, else with that of the last
    /// retry. A candidate that was not even asked has told why by itself.
    pub(crate) fn last(&self, failure: &Failure, policy: &RetryPolicy) -> Verdict {
        let disposition = Disposition::of(failure, policy.rules());
        let told = match failure.kind() {
            // Nobody is left to be told, or it was told where it came from.
            FailureKind::Cancelled | FailureKind::RecoveryBudget => None,
            _ if was_not_asked(failure, disposition) => None,
            _ if disposition.retry == Retry::Never => self.cause.filter(|_| self.made > 0),
            _ => Some(Cause::of(failure, disposition)),
        };
        told.map_or(Verdict::Leave, |cause| Verdict::Exhausted(cause, None))
    }
}

/// Whether a failure came from before the candidate: its circuit, its queue, its configuration.
pub(crate) fn was_not_asked(failure: &Failure, disposition: Disposition) -> bool {
    disposition.circuit == CircuitOutcome::Untouched && failure.phase() != Phase::AfterOutput
}

/// Which budget a retry for this reason is taken from.
pub(crate) fn class(reason: RetryReason) -> RetryClass {
    match reason {
        RetryReason::RateLimit => RetryClass::RateLimit,
        RetryReason::ServerError | RetryReason::Transport | RetryReason::StreamClosed | RetryReason::Timeout => {
            RetryClass::Transient
        }
    }
}

const fn other(class: RetryClass) -> usize {
    1 - class as usize
}

impl Cause {
    fn of(failure: &Failure, disposition: Disposition) -> Self {
        Self { reason: disposition.reason, status: failure.status().map(|status| status.as_u16()) }
    }
}
