use std::{error::Error, fmt, time::Duration};

use stanchion_core::{
    AdmissionReason, AdmissionResource, AdmissionScope, Failure, FailureKind, HintSource, Phase, RequestClass,
    RetryHint,
};

use crate::{
    scheduler::Constraint,
    shared::{Refusal, Refused},
};

/// Why a request was turned away, in numbers of requests. The source of the [`Failure`] that the layer ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdmissionError {
    /// [`QueueFull`](AdmissionReason::QueueFull), [`WaitTimeout`](AdmissionReason::WaitTimeout) or
    /// [`Closed`](AdmissionReason::Closed).
    pub reason: AdmissionReason,
    /// Whose limit it was.
    pub scope: AdmissionScope,
    /// What there was not enough of.
    pub resource: AdmissionResource,
    /// The class of the request.
    pub class: RequestClass,
    /// How many were in flight in the scope; how many waited, where as many wait as may.
    pub in_flight: u64,
    /// How many may be; [`ProviderAdmission::UNLIMITED`](stanchion_core::ProviderAdmission::UNLIMITED) if there is no
    /// limit.
    pub limit: u64,
    /// How many waited in all.
    pub queued: u64,
    /// How long the request could have waited.
    pub max_wait: Duration,
    /// How long what waits in the scope will take at the pace of late: between 1 s and 10 min. Only where the queue is
    /// full, and once a pace is known.
    pub retry_after: Option<Duration>,
}

impl AdmissionError {
    const MIN_RETRY_AFTER: Duration = Duration::from_secs(1);
    const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

    pub(crate) fn new(refusal: Refusal, class: RequestClass, max_wait: Duration) -> Self {
        let Constraint { resource, scope, in_flight, limit } = refusal.constraint;
        let (reason, drains_in) = match refusal.kind {
            Refused::Full { drains_in } => (AdmissionReason::QueueFull, drains_in),
            Refused::Timeout => (AdmissionReason::WaitTimeout, None),
            Refused::Closed => (AdmissionReason::Closed, None),
        };
        let clamp = |time: Duration| time.clamp(Self::MIN_RETRY_AFTER, Self::MAX_RETRY_AFTER);
        Self {
            reason,
            scope,
            resource,
            class,
            in_flight: in_flight.into(),
            limit: told_limit(limit),
            queued: refusal.depth.into(),
            max_wait,
            retry_after: drains_in.map(clamp),
        }
    }

    /// Whether the same request may be let in later.
    pub fn is_retryable(&self) -> bool {
        self.reason != AdmissionReason::Closed
    }

    /// The failure that a request ends with.
    pub(crate) fn into_failure(self, candidate: Option<&std::sync::Arc<str>>) -> Failure {
        let kind = match self.reason {
            AdmissionReason::QueueFull => FailureKind::QueueFull,
            AdmissionReason::Closed => FailureKind::QueueClosed,
            _ => FailureKind::QueueTimeout,
        };
        let hint = self.retry_after.map(|wait| RetryHint::new(wait, HintSource::Admission));
        let mut failure = Failure::new(kind).with_phase(Phase::Connect).with_hint(hint);
        if kind == FailureKind::QueueTimeout {
            failure = failure.with_limit(self.max_wait);
        }
        if let Some(candidate) = candidate {
            failure = failure.with_candidate(candidate.clone());
        }
        failure.with_source(self)
    }
}

/// A limit as it is told.
pub(crate) fn told_limit(limit: u32) -> u64 {
    if limit == u32::MAX { stanchion_core::ProviderAdmission::UNLIMITED } else { limit.into() }
}

impl fmt::Display for AdmissionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.resource {
            AdmissionResource::PendingCount => "waiting requests",
            AdmissionResource::PendingBytes => "the memory of waiting requests",
            _ => "requests in flight",
        };
        let whose = match self.scope {
            AdmissionScope::Domain => "the provider's",
            AdmissionScope::Owner => "the owner's",
            AdmissionScope::Class => "the class's",
            _ => "the global",
        };
        match self.reason {
            AdmissionReason::Closed => f.write_str("no more requests are let in"),
            AdmissionReason::QueueFull => write!(f, "{whose} limit of {what} is reached"),
            _ => write!(f, "no permit in time: {whose} limit of {what} is reached"),
        }
    }
}

impl Error for AdmissionError {}
