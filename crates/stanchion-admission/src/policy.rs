use std::{error::Error, fmt, time::Duration};

use crate::{adaptive::Adaptive, scheduler::DomainLimits};

/// What the requests of one layer may have of their failure domains, and how long they wait. The table of settings is on
/// the [crate's page](crate#settings).
///
/// It is no part of a domain's identity: layers of different policies that lead to the same place count together, and
/// each holds its own requests against its own limit.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmissionPolicy {
    pub(crate) concurrency: Option<u32>,
    pub(crate) max_pending: u32,
    pub(crate) max_pending_bytes: u64,
    pub(crate) max_wait: Duration,
    pub(crate) cost: u8,
    pub(crate) adaptive: Option<Adaptive>,
}

/// Builds an [`AdmissionPolicy`].
#[derive(Debug, Clone)]
#[must_use]
pub struct AdmissionPolicyBuilder(AdmissionPolicy);

/// The policies of one layer: one for all candidates, and others for those of some providers.
#[derive(Debug, Clone)]
pub(crate) struct Policies(Vec<(Option<Box<str>>, AdmissionPolicy)>);

/// A setting of an [`AdmissionPolicy`], of an [`AdmissionScheduler`](crate::AdmissionScheduler), of
/// [`Adaptive`] limits or of a [`Footprint`](crate::Footprint) is outside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidAdmission {
    pub(crate) setting: &'static str,
    pub(crate) rule: &'static str,
}

impl AdmissionPolicy {
    /// How long a request waits unless another time is set: 180 s.
    pub const MAX_WAIT: Duration = Duration::from_secs(180);
    /// How many requests may wait for one domain unless another number is set: 32.
    pub const MAX_PENDING: u32 = 32;
    /// How many bytes those may hold unless another number is set: 64 MiB.
    pub const MAX_PENDING_BYTES: u64 = 64 << 20;

    /// Starts from the default policy.
    pub fn builder() -> AdmissionPolicyBuilder {
        AdmissionPolicyBuilder(Self::default())
    }

    /// How many requests of one domain may be in flight; `None` if the domain sets no limit.
    pub fn concurrency(&self) -> Option<u32> {
        self.concurrency
    }

    /// How long a request waits; zero if it fails at once instead.
    pub fn max_wait(&self) -> Duration {
        self.max_wait
    }

    /// The limits that adapt, if they do.
    pub fn adaptive(&self) -> Option<&Adaptive> {
        self.adaptive.as_ref()
    }

    /// Whether the policy limits how many are in flight.
    pub(crate) fn limits_concurrency(&self) -> bool {
        self.concurrency.is_some() || self.adaptive.is_some()
    }

    pub(crate) fn domain_limits(&self) -> DomainLimits {
        DomainLimits { pending: self.max_pending, bytes: self.max_pending_bytes }
    }

    /// How many of a domain its requests may have in flight.
    pub(crate) fn share(&self) -> u32 {
        self.concurrency.unwrap_or(u32::MAX)
    }
}

impl Policies {
    /// Where the policy for all stands.
    pub(crate) const GENERAL: usize = 0;

    pub(crate) fn new(general: AdmissionPolicy) -> Self {
        Self(vec![(None, general)])
    }

    pub(crate) fn set(&mut self, provider: Box<str>, policy: AdmissionPolicy) {
        self.0.retain(|(name, _)| name.as_ref() != Some(&provider));
        self.0.push((Some(provider), policy));
    }

    pub(crate) fn get(&self, at: usize) -> &AdmissionPolicy {
        &self.0[at].1
    }

    /// Where the policy for a provider's candidates stands.
    pub(crate) fn for_provider(&self, provider: &str) -> usize {
        self.0.iter().position(|(name, _)| name.as_deref() == Some(provider)).unwrap_or(Self::GENERAL)
    }

    pub(crate) fn limit_concurrency(&self) -> bool {
        self.0.iter().any(|(_, policy)| policy.limits_concurrency())
    }
}

impl Default for AdmissionPolicy {
    fn default() -> Self {
        Self {
            concurrency: None,
            max_pending: Self::MAX_PENDING,
            max_pending_bytes: Self::MAX_PENDING_BYTES,
            max_wait: Self::MAX_WAIT,
            cost: 1,
            adaptive: None,
        }
    }
}

impl AdmissionPolicyBuilder {
    /// How many requests of one failure domain may be in flight. Between 1 and 1,000,000; no limit by default.
    pub fn concurrency(mut self, requests: impl Into<Option<u32>>) -> Self {
        self.0.concurrency = requests.into();
        self
    }

    /// How many requests may wait for one domain. Between 1 and 1,000,000; 32 by default. Never more than wait in all.
    pub fn max_pending(mut self, requests: u32) -> Self {
        self.0.max_pending = requests;
        self
    }

    /// How many bytes the requests may hold that wait for one domain. Between 64 KiB and 128 MiB; 64 MiB by default. Never
    /// more than all may hold.
    pub fn max_pending_bytes(mut self, bytes: u64) -> Self {
        self.0.max_pending_bytes = bytes;
        self
    }

    /// How long a request waits at most: 0, or between 1 s and 10 min; 180 s by default. With 0 it fails at once where it
    /// would have to wait.
    pub fn max_wait(mut self, wait: Duration) -> Self {
        self.0.max_wait = wait;
        self
    }

    /// What a request counts in the rotation of owners: one of cost 3 uses up three times the share of one of cost 1.
    /// Between 1 and 100; 1 by default.
    pub fn cost(mut self, cost: u8) -> Self {
        self.0.cost = cost;
        self
    }

    /// Lets the limit of each domain adapt to what its provider can take. Off by default.
    pub fn adaptive(mut self, adaptive: impl Into<Option<Adaptive>>) -> Self {
        self.0.adaptive = adaptive.into();
        self
    }

    /// The policy, if every setting is within its range.
    pub fn build(self) -> Result<AdmissionPolicy, InvalidAdmission> {
        let AdmissionPolicy { concurrency, max_pending, max_pending_bytes, max_wait, cost, .. } = self.0;
        must_count(concurrency, "concurrency")?;
        must_count(Some(max_pending), "max_pending")?;
        must_bytes(max_pending_bytes, "max_pending_bytes")?;
        let waits = Duration::from_secs(1)..=Duration::from_secs(600);
        must(max_wait.is_zero() || waits.contains(&max_wait), "max_wait", "0, or between 1 s and 10 min")?;
        must((1..=crate::scheduler::MAX_COST).contains(&cost), "cost", "between 1 and 100")?;
        Ok(self.0)
    }
}

pub(crate) fn must(holds: bool, setting: &'static str, rule: &'static str) -> Result<(), InvalidAdmission> {
    if holds { Ok(()) } else { Err(InvalidAdmission { setting, rule }) }
}

pub(crate) fn must_count(count: Option<u32>, setting: &'static str) -> Result<(), InvalidAdmission> {
    must(count.is_none_or(|count| (1..=1_000_000).contains(&count)), setting, "between 1 and 1,000,000")
}

pub(crate) fn must_bytes(bytes: u64, setting: &'static str) -> Result<(), InvalidAdmission> {
    must((64 << 10..=128 << 20).contains(&bytes), setting, "between 64 KiB and 128 MiB")
}

impl InvalidAdmission {
    /// The setting, as the builder calls it.
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

impl fmt::Display for InvalidAdmission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` must be {}", self.setting, self.rule)
    }
}

impl Error for InvalidAdmission {}
