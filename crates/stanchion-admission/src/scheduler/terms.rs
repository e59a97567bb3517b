//! What the scheduler is asked, and what it answers.

use stanchion_core::{AdmissionResource, AdmissionScope, RequestClass};

/// What all requests together, each owner, and each class may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) global: u32,
    pub(crate) owner: u32,
    /// None: classes share, and are told apart by their rank only.
    pub(crate) classes: Option<Classes>,
    pub(crate) pending: u32,
    pub(crate) owner_pending: u32,
    pub(crate) bytes: u64,
    pub(crate) owner_bytes: u64,
    /// In nanoseconds, as all times here.
    pub(crate) aging: u64,
}

/// What is kept for the foreground. In a domain, one permit is, if there are two or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Classes {
    pub(crate) non_foreground_global: u32,
    pub(crate) non_foreground_owner: u32,
    pub(crate) internal_global: u32,
}

impl Classes {
    /// How many internal requests run in a domain.
    pub(super) const INTERNAL_DOMAIN: u32 = 1;
}

/// How much may wait for a domain when a request of one policy comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DomainLimits {
    pub(crate) pending: u32,
    pub(crate) bytes: u64,
}

/// A request that asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// As [`open_domain`](Scheduler::open_domain) has numbered it.
    pub(crate) domain: u32,
    /// As [`open_share`](Scheduler::open_share) has numbered it.
    pub(crate) share: u32,
    pub(crate) limits: DomainLimits,
    pub(crate) owner: u64,
    pub(crate) weight: u8,
    pub(crate) class: RequestClass,
    pub(crate) bytes: u32,
    /// 1 to [`MAX_COST`].
    pub(crate) cost: u8,
}

pub(crate) const MAX_COST: u8 = 100;

/// The right to run. To be given back once.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(super) owner: u32,
    pub(super) domain: u32,
    pub(super) share: u32,
    pub(super) class: u8,
}

/// What stands in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Constraint {
    pub(crate) resource: AdmissionResource,
    pub(crate) scope: AdmissionScope,
    pub(crate) in_flight: u32,
    pub(crate) limit: u32,
}

/// There is no room to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full {
    pub(crate) constraint: Constraint,
    /// How long what waits there will take at the pace of late, if that is known.
    pub(crate) drains_in: Option<u64>,
}

/// A ticket as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) constraint: Constraint,
    pub(crate) position: u64,
}

/// What has become of a ticket.
#[derive(Debug)]
pub(crate) enum Turn<'a, W> {
    Waits(&'a mut W),
    Granted,
    Closed,
}

/// By their numbers.
pub(super) const CLASSES: [RequestClass; 3] =
    [RequestClass::Foreground, RequestClass::Background, RequestClass::Internal];
