use std::time::Duration;

use stanchion_core::{Disposition, Failure, FailureKind, Retry, RetryReason};

use crate::RetryPolicy;

/// The retries of one call: how many were made, and whether another may be.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Retries made.
    made: u32,
    /// Those of them that count against the limit.
    charged: u32,
    free_spent: bool,
    once_spent: bool,
    /// Why the last one was made.
    cause: Option<Cause>,
}

/// Why a retry is made, as events tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) reason: RetryReason,
    pub(crate) status: Option<u16>,
}

/// What comes after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Another attempt, after a wait.
    Again(Duration, Cause),
    /// Nothing more here; it is to be told, for this cause.
    Exhausted(Cause),
    /// Nothing more here, and nothing to tell.
    Leave,
}

impl Ledger {
    /// How many retries were made.
    pub(crate) fn made(&self) -> u32 {
        self.made
    }

    /// How many retries this call may come to, at most: the policy's, and the free one once it is spent.
    pub(crate) fn limit(&self, policy: &RetryPolicy) -> u32 {
        policy.max_retries().saturating_add(u32::from(self.free_spent))
    }

    /// Why the last retry was made; `None` if none was.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.cause
    }

    /// Whether the next attempt may be followed by another, so that the request must be kept.
    pub(crate) fn may_follow(&self, policy: &RetryPolicy) -> bool {
        policy.max_retries() > 0 && (self.charged < policy.max_retries() || !self.free_spent)
    }

    /// Judges a failed attempt. `left` is what remains of a recovery budget, if there is one.
    pub(crate) fn judge(
        &mut self,
        failure: &Failure,
        policy: &RetryPolicy,
        left: Option<Duration>,
        random: impl FnOnce() -> f64,
    ) -> Verdict {
        let retry = Disposition::of(failure, policy.rules()).retry;
        if retry == Retry::Never {
            return self.last(failure, policy);
        }
        let max = policy.max_retries();
        // A hint outweighs "at once": it is never shortened.
        let free = retry == Retry::AtOnce && !self.free_spent && max > 0 && failure.hint().is_none();
        let spent = retry == Retry::Once && self.once_spent;
        let wait = if free {
            Some(Duration::ZERO)
        } else if spent || self.charged == max {
            None
        } else {
            policy.wait(self.charged + 1, failure.hint(), random)
        };
        let in_time = |wait: &Duration| left.is_none_or(|left| *wait < left);
        let Some(wait) = wait.filter(in_time) else {
            return self.last(failure, policy);
        };
        let cause = Cause::of(failure, policy);
        self.cause = Some(cause);
        self.made += 1;
        self.charged += u32::from(!free);
        self.free_spent |= free;
        self.once_spent |= retry == Retry::Once;
        Verdict::Again(wait, cause)
    }

    /// The verdict on a failure that is not retried, whatever the limits say.
    ///
    /// Retries that end are told with the cause of this failure if it is one to retry, else with that of the last
    /// retry.
    pub(crate) fn last(&self, failure: &Failure, policy: &RetryPolicy) -> Verdict {
        let told = match failure.kind() {
            // Nobody is left to be told.
            FailureKind::Cancelled => None,
            _ if Disposition::of(failure, policy.rules()).retry == Retry::Never => self.cause,
            _ => Some(Cause::of(failure, policy)),
        };
        told.map_or(Verdict::Leave, Verdict::Exhausted)
    }
}

impl Cause {
    fn of(failure: &Failure, policy: &RetryPolicy) -> Self {
        let reason = Disposition::of(failure, policy.rules()).reason;
        Self { reason, status: failure.status().map(|status| status.as_u16()) }
    }
}
