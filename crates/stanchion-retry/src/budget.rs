//! A bucket of tokens for each failure domain: an outage must not multiply the traffic that it is drowning in.

use std::{
    collections::HashMap,
    error::Error,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use stanchion_core::{Candidate, DomainCache, DomainSecret, FailureDomain};
use tokio::time::Instant;

/// How many retries the callers of one provider may make together.
///
/// A retry policy bounds the retries of one request. When a provider goes down under a hundred requests a second, every
/// one of them keeps to its policy, and together they triple the load that keeps the provider down. So each failure
/// domain has a bucket of tokens, full at first: a retry takes one out, a success puts a little back, and who finds the
/// bucket empty does not retry.
///
/// | setting | unit | range | default |
/// |---|---|---|---|
/// | `capacity` | retries | 1 to 1,000,000 | 100 |
/// | `refund` | retries for each success | 0 to 1 | 0.1 |
/// | `per_second` | retries for each second | 0 to 1,000 | 1 |
///
/// **Why these figures.** A success that needed no retry refunds a tenth of one, so that over time retries add at most
/// a tenth to the traffic of a provider that mostly works (the share that gRPC's retry throttling and Finagle's budgets
/// are commonly set to); a success after a retry refunds the whole retry (as the AWS client libraries do), so that a
/// provider that fails now and then never runs a bucket down. The trickle of one a second lets a lone agent retry for
/// ever at the pace of its own backoff, and adds next to nothing to an outage. The capacity is what a burst may take
/// before the throttle grips: fifty requests with two retries each.
///
/// Clones share their buckets. At most 1,024 domains are remembered, those whose buckets are not full or were not when
/// they last succeeded; beyond that nothing is denied. `Debug` shows no domain.
#[derive(Clone)]
pub struct RetryBudget {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    domains: DomainCache,
    /// Buckets that are not full. Without a candidate there is one for all.
    low: Mutex<HashMap<Option<FailureDomain>, Bucket>>,
    /// How many there are: where none is, a success has nothing to look up.
    low_count: AtomicUsize,
}

#[derive(Debug, Clone, Copy)]
struct Settings {
    capacity: f64,
    refund: f64,
    per_second: f64,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    at: Instant,
}

/// Builds a [`RetryBudget`].
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct RetryBudgetBuilder(Settings);

/// A setting of a [`RetryBudget`] is outside its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidBudget {
    setting: &'static str,
    rule: &'static str,
}

const MAX_DOMAINS: usize = 1024;

impl RetryBudget {
    /// Starts from the defaults.
    pub fn builder() -> RetryBudgetBuilder {
        RetryBudgetBuilder(Settings { capacity: 100.0, refund: 0.1, per_second: 1.0 })
    }

    /// Capacity, refund and retries per second.
    pub fn settings(&self) -> (u32, f64, f64) {
        RetryBudgetBuilder(self.shared.settings).settings()
    }

    /// Takes out one retry of a candidate. `false` if there is none left.
    pub fn withdraw(&self, candidate: Option<&Arc<Candidate>>, now: Instant) -> bool {
        let settings = &self.shared.settings;
        let domain = candidate.map(|candidate| self.shared.domains.of(candidate));
        let mut low = self.shared.low.lock().unwrap_or_else(PoisonError::into_inner);
        if low.len() >= MAX_DOMAINS && !low.contains_key(&domain) {
            low.retain(|_, bucket| !bucket.refilled(settings, now).is_full(settings));
            if low.len() >= MAX_DOMAINS {
                return true;
            }
        }
        let bucket = low.get(&domain).copied().unwrap_or(Bucket { tokens: settings.capacity, at: now });
        let mut bucket = bucket.refilled(settings, now);
        let granted = bucket.tokens >= 1.0;
        if granted {
            bucket.tokens -= 1.0;
        }
        low.insert(domain, bucket);
        self.shared.low_count.store(low.len(), Ordering::Relaxed);
        granted
    }

    /// Puts back what a success of a candidate refunds: a whole retry if it came after one, else a little.
    pub fn refund(&self, candidate: Option<&Arc<Candidate>>, after_retry: bool, now: impl FnOnce() -> Instant) {
        if self.shared.low_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let settings = &self.shared.settings;
        let domain = candidate.map(|candidate| self.shared.domains.of(candidate));
        let mut low = self.shared.low.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bucket) = low.get_mut(&domain) else { return };
        *bucket = bucket.refilled(settings, now());
        bucket.tokens += if after_retry { 1.0 } else { settings.refund };
        if bucket.is_full(settings) {
            low.remove(&domain);
            self.shared.low_count.store(low.len(), Ordering::Relaxed);
        }
    }
}

impl Bucket {
    fn refilled(self, settings: &Settings, now: Instant) -> Self {
        let passed = now.saturating_duration_since(self.at).as_secs_f64();
        Self { tokens: (self.tokens + passed * settings.per_second).min(settings.capacity), at: now.max(self.at) }
    }

    fn is_full(self, settings: &Settings) -> bool {
        self.tokens >= settings.capacity
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self::builder().build().expect("the defaults are within the ranges")
    }
}

impl fmt::Debug for RetryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryBudget").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

impl RetryBudgetBuilder {
    /// How many retries a full bucket holds.
    pub fn capacity(mut self, retries: u32) -> Self {
        self.0.capacity = f64::from(retries);
        self
    }

    /// How much of a retry a success puts back that needed none.
    pub fn refund(mut self, retries: f64) -> Self {
        self.0.refund = retries;
        self
    }

    /// How many retries come back with every second, whatever happens.
    pub fn per_second(mut self, retries: f64) -> Self {
        self.0.per_second = retries;
        self
    }

    /// Capacity, refund and retries per second, as they are set.
    #[must_use]
    pub fn settings(&self) -> (u32, f64, f64) {
        (self.0.capacity as u32, self.0.refund, self.0.per_second)
    }

    /// The budget, if every setting is within its range.
    pub fn build(self) -> Result<RetryBudget, InvalidBudget> {
        let Settings { capacity, refund, per_second } = self.0;
        let must = |holds: bool, setting, rule| {
            if holds { Ok(()) } else { Err(InvalidBudget { setting, rule }) }
        };
        must((1.0..=1e6).contains(&capacity), "capacity", "between 1 and 1000000")?;
        must((0.0..=1.0).contains(&refund), "refund", "between 0 and 1")?;
        must((0.0..=1000.0).contains(&per_second), "per_second", "between 0 and 1000")?;
        Ok(RetryBudget {
            shared: Arc::new(Shared {
                settings: self.0,
                domains: DomainCache::new(DomainSecret::random(), &[]),
                low: Mutex::default(),
                low_count: AtomicUsize::new(0),
            }),
        })
    }
}

impl InvalidBudget {
    /// The setting, as the builder calls it.
    pub fn setting(&self) -> &'static str {
        self.setting
    }
}

impl fmt::Display for InvalidBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the retry budget's setting `{}` must be {}", self.setting, self.rule)
    }
}

impl Error for InvalidBudget {}

#[cfg(test)]
mod tests;
