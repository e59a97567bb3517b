use std::sync::Arc;

use serde::Serialize;

use crate::{
    scheduler::{Counts, Scheduler},
    shared::Shared,
};

/// The queue as it stands, for an operator. Names candidates, counts owners, and tells nothing of them.
///
/// Serialises without limits that are not set, and without bytes: those say how large somebody's prompts are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct AdmissionStatus {
    /// How many requests are in flight.
    pub in_flight: u32,
    /// How many may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// How many of one owner may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_limit: Option<u32>,
    /// How many wait.
    pub queued: u32,
    /// How many may wait.
    pub max_pending: u32,
    /// How many bytes those that wait hold. Not serialised.
    #[serde(skip)]
    pub pending_bytes: u64,
    /// Those of them that are background or internal.
    pub non_foreground: ClassStatus,
    /// Those of them that are internal.
    pub internal: ClassStatus,
    /// How many owners have requests that run or wait.
    pub owner_count: usize,
    /// How many failure domains have.
    pub domain_count: usize,
    /// Whether nobody is let in any more.
    pub closed: bool,
    /// The domains that layers know, by the name of their first candidate.
    pub domains: Vec<DomainStatus>,
}

/// The part of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ClassStatus {
    /// How many requests are in flight.
    pub in_flight: u32,
    /// How many wait.
    pub queued: u32,
    /// How many bytes those that wait hold. Not serialised.
    #[serde(skip)]
    pub pending_bytes: u64,
}

/// One failure domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DomainStatus {
    /// The candidate by which it was found first, as `provider/model`.
    pub candidate: Arc<str>,
    /// How many requests are in flight.
    pub in_flight: u32,
    /// How many wait.
    pub queued: u32,
    /// What the limit has come to, where it adapts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adaptive_limit: Option<u32>,
}

impl ClassStatus {
    fn of(counts: &Counts, classes: std::ops::Range<usize>) -> Self {
        Self {
            in_flight: counts.in_flight[classes.clone()].iter().sum(),
            queued: counts.queued[classes.clone()].iter().sum(),
            pending_bytes: counts.bytes[classes].iter().map(|bytes| u64::from(*bytes)).sum(),
        }
    }
}

impl AdmissionStatus {
    pub(crate) fn of(shared: &Shared) -> Self {
        let domains = shared.domains();
        shared.read(|state| {
            let counts = state.counts();
            let limit = |limit: u32| Some(limit).filter(|limit| *limit != u32::MAX);
            let mut domains: Vec<DomainStatus> = domains
                .iter()
                .filter_map(|domain| {
                    let counts = state.domain_counts(domain.at);
                    Some(DomainStatus {
                        candidate: domain.name()?.clone(),
                        in_flight: counts.in_flight(),
                        queued: counts.queued(),
                        adaptive_limit: domain.adapted(),
                    })
                })
                .collect();
            domains.sort_by(|a, b| a.candidate.cmp(&b.candidate));
            Self {
                in_flight: counts.in_flight(),
                limit: limit(state.limits().global),
                owner_limit: limit(state.limits().owner),
                queued: counts.queued(),
                max_pending: state.limits().pending,
                pending_bytes: counts.bytes(),
                non_foreground: ClassStatus::of(counts, 1..3),
                internal: ClassStatus::of(counts, 2..3),
                owner_count: Scheduler::owner_count(state),
                domain_count: Scheduler::domain_count(state),
                closed: state.is_closed(),
                domains,
            }
        })
    }
}
