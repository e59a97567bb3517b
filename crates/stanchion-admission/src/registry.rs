use std::{fmt, sync::Arc, time::Duration};

use stanchion_core::DomainSecret;

use crate::{
    AdmissionStatus, InvalidAdmission,
    policy::{must, must_bytes, must_count},
    scheduler::{Classes, Limits},
    shared::Shared,
};

/// The queue of a process, shared by all layers that are made with it. Cheap to clone.
///
/// It knows what all requests together and each owner may have, and the weights of owners; what a failure domain may
/// have is in the [`AdmissionPolicy`](crate::AdmissionPolicy) of each layer. Requests and records are counted, and
/// bounded by the limits: a domain or an owner is known here only as long as a request of it runs or waits.
///
/// `Debug` shows counts. Domains are known by an HMAC under a secret of the scheduler's own, and owners by a keyed hash;
/// neither is shown anywhere.
#[derive(Clone)]
pub struct AdmissionScheduler(pub(crate) Arc<Shared>);

/// Builds an [`AdmissionScheduler`].
#[must_use]
pub struct AdmissionSchedulerBuilder {
    global: Option<u32>,
    owner: Option<u32>,
    classes: Option<ClassLimits>,
    max_pending: u32,
    owner_max_pending: Option<u32>,
    max_pending_bytes: u64,
    owner_max_pending_bytes: u64,
    aging: Duration,
    weights: Vec<(Box<str>, u32)>,
    secret: DomainSecret,
}

/// What of the limits is kept for the foreground: background and internal requests together have less, and internal
/// ones less still. Each is also bounded by the limit of all classes.
///
/// In each domain, all but one permit are open to background and internal requests, though at least one, and one to
/// internal requests. Of the places in the queue, three quarters are open to background and internal requests, and of
/// those to internal ones an eighth of all and of a domain's, and a quarter of an owner's, though at least one each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClassLimits {
    /// How many background and internal requests may be in flight together. 12 by default.
    pub non_foreground: u32,
    /// How many of one owner. 2 by default.
    pub non_foreground_of_owner: u32,
    /// How many internal requests may be in flight. 1 or 2; 2 by default.
    pub internal: u32,
}

impl Default for ClassLimits {
    fn default() -> Self {
        Self { non_foreground: 12, non_foreground_of_owner: 2, internal: 2 }
    }
}

impl AdmissionSchedulerBuilder {
    /// How many requests may be in flight in all. Between 1 and 1,000,000; no limit by default.
    pub fn global_concurrency(mut self, requests: impl Into<Option<u32>>) -> Self {
        self.global = requests.into();
        self
    }

    /// How many requests of one owner may be in flight. Between 1 and 1,000,000; no limit by default.
    pub fn owner_concurrency(mut self, requests: impl Into<Option<u32>>) -> Self {
        self.owner = requests.into();
        self
    }

    /// What of all that is kept for the foreground. Nothing by default: then classes differ in their rank, and in the
    /// memory that waiting requests may hold.
    pub fn class_limits(mut self, limits: impl Into<Option<ClassLimits>>) -> Self {
        self.classes = limits.into();
        self
    }

    /// How many requests may wait in all. Between 1 and 1,000,000; 128 by default.
    pub fn max_pending(mut self, requests: u32) -> Self {
        self.max_pending = requests;
        self
    }

    /// How many requests of one owner may wait. Between 1 and 1,000,000; 16 by default. Never more than in all.
    pub fn owner_max_pending(mut self, requests: u32) -> Self {
        self.owner_max_pending = Some(requests);
        self
    }

    /// How many bytes the requests that wait may hold in all. Between 64 KiB and 128 MiB, the default.
    ///
    /// It limits what waits: a request that need not wait may be of any size.
    pub fn max_pending_bytes(mut self, bytes: u64) -> Self {
        self.max_pending_bytes = bytes;
        self
    }

    /// How many bytes those of one owner may hold. Between 64 KiB and 128 MiB; 32 MiB by default. Never more than in all.
    pub fn owner_max_pending_bytes(mut self, bytes: u64) -> Self {
        self.owner_max_pending_bytes = bytes;
        self
    }

    /// After each such time of waiting, a request's rank is one better. Between 1 s and 30 s, the default.
    pub fn aging(mut self, interval: Duration) -> Self {
        self.aging = interval;
        self
    }

    /// An owner's share: one of weight 3 is granted three requests where one of weight 1 is granted one. Between 1 and
    /// 100; 1 by default.
    pub fn weight(mut self, owner: impl Into<Box<str>>, weight: u32) -> Self {
        self.weights.push((owner.into(), weight));
        self
    }

    /// The secret that domains are known under, for tests. Random by default.
    pub fn secret(mut self, secret: DomainSecret) -> Self {
        self.secret = secret;
        self
    }

    /// The scheduler, if every setting is within its range.
    pub fn build(self) -> Result<AdmissionScheduler, InvalidAdmission> {
        let Self { global, owner, classes, max_pending, owner_max_pending, aging, .. } = self;
        must_count(global, "global_concurrency")?;
        must_count(owner, "owner_concurrency")?;
        must_count(Some(max_pending), "max_pending")?;
        must_count(owner_max_pending, "owner_max_pending")?;
        must_bytes(self.max_pending_bytes, "max_pending_bytes")?;
        must_bytes(self.owner_max_pending_bytes, "owner_max_pending_bytes")?;
        let agings = Duration::from_secs(1)..=AdmissionScheduler::AGING;
        must(agings.contains(&aging), "aging", "between 1 s and 30 s")?;
        must(self.weights.iter().all(|(_, weight)| (1..=100).contains(weight)), "weight", "between 1 and 100")?;
        if let Some(ClassLimits { non_foreground, non_foreground_of_owner, internal }) = classes {
            must_count(Some(non_foreground), "class_limits.non_foreground")?;
            must_count(Some(non_foreground_of_owner), "class_limits.non_foreground_of_owner")?;
            must((1..=2).contains(&internal), "class_limits.internal", "1 or 2")?;
        }
        let (all, each) = (global.unwrap_or(u32::MAX), owner.unwrap_or(u32::MAX));
        let limits = Limits {
            global: all,
            owner: each.min(all),
            classes: classes.map(|classes| Classes {
                non_foreground_global: classes.non_foreground.min(all),
                non_foreground_owner: classes.non_foreground_of_owner.min(each),
                internal_global: classes.internal.min(all),
            }),
            pending: max_pending,
            owner_pending: owner_max_pending.unwrap_or(AdmissionScheduler::OWNER_MAX_PENDING).min(max_pending),
            bytes: self.max_pending_bytes,
            owner_bytes: self.owner_max_pending_bytes.min(self.max_pending_bytes),
            aging: aging.as_nanos() as u64,
        };
        // As was checked above.
        let weights = self.weights.into_iter().map(|(name, weight)| (name, weight as u8)).collect();
        let is_limit = global.is_some() || owner.is_some();
        Ok(AdmissionScheduler(Arc::new(Shared::new(limits, is_limit, self.secret, weights))))
    }
}

impl AdmissionScheduler {
    /// How many requests wait in all unless another number is set: 128.
    pub const MAX_PENDING: u32 = 128;
    /// How many of one owner's unless another number is set: 16.
    pub const OWNER_MAX_PENDING: u32 = 16;
    /// How many bytes those may hold at most, and by default: 128 MiB.
    pub const MAX_PENDING_BYTES: u64 = 128 << 20;
    /// How many those of one owner unless another number is set: 32 MiB.
    pub const OWNER_MAX_PENDING_BYTES: u64 = 32 << 20;
    /// After how long of waiting a request's rank is better, at most and by default: 30 s.
    pub const AGING: Duration = Duration::from_secs(30);

    /// A scheduler without limits of its own. A layer of it lets everyone through, unless its policy has a limit.
    ///
    /// # Panics
    ///
    /// If the operating system has no randomness to give.
    pub fn new() -> Self {
        Self::builder().build().expect("the defaults are within their ranges")
    }

    /// Starts from the defaults.
    pub fn builder() -> AdmissionSchedulerBuilder {
        AdmissionSchedulerBuilder {
            global: None,
            owner: None,
            classes: None,
            max_pending: Self::MAX_PENDING,
            owner_max_pending: None,
            max_pending_bytes: Self::MAX_PENDING_BYTES,
            owner_max_pending_bytes: Self::OWNER_MAX_PENDING_BYTES,
            aging: Self::AGING,
            weights: Vec::new(),
            secret: DomainSecret::random(),
        }
    }

    /// Takes the limits of another scheduler, and its weights of owners, which may be set up for this alone: for settings that change
    /// while requests run. What runs goes on and what waits keeps its place, even where that is more than may be from now on; whoever may
    /// run under the new limits does so at once.
    ///
    /// Only layers that are made afterwards are [off](crate::AdmissionLayer::is_off) or not by the new limits, and whoever
    /// passed a layer that was off is not counted. An [aging](AdmissionSchedulerBuilder::aging) interval takes back no
    /// rank that was given.
    ///
    /// ```
    /// use stanchion_admission::AdmissionScheduler;
    ///
    /// let scheduler = AdmissionScheduler::builder().global_concurrency(8).build().unwrap();
    /// scheduler.adopt(&AdmissionScheduler::builder().global_concurrency(16).weight("release-bot", 3).build().unwrap());
    /// assert_eq!(scheduler.status().limit, Some(16));
    /// ```
    pub fn adopt(&self, other: &Self) {
        self.0.adopt(&other.0);
    }

    /// Forgets what [adaptive](crate::Adaptive) limits have come to, for when their settings change: layers that are made
    /// afterwards begin anew, and those from before adapt no more.
    pub fn forget_adapted(&self) {
        self.0.forget_adapted();
    }

    /// The same for the failure domains of this provider alone.
    pub fn forget_adapted_of(&self, provider: &str) {
        self.0.forget_adapted_of(provider);
    }

    /// Lets nobody in any more: whoever waits fails with
    /// [`QueueClosed`](stanchion_core::FailureKind::QueueClosed), and so does whoever comes. What runs goes on to its
    /// end. For a process that shuts down.
    ///
    /// A layer that is [off](crate::AdmissionLayer::is_off) asks nobody, and goes on.
    pub fn close(&self) {
        self.0.close();
    }

    /// How the queue stands, for an operator's page.
    pub fn status(&self) -> AdmissionStatus {
        AdmissionStatus::of(&self.0)
    }
}

impl Default for AdmissionScheduler {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for AdmissionScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.status();
        f.debug_struct("AdmissionScheduler")
            .field("in_flight", &status.in_flight)
            .field("queued", &status.queued)
            .field("closed", &status.closed)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for AdmissionSchedulerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdmissionSchedulerBuilder")
            .field("global_concurrency", &self.global)
            .field("owner_concurrency", &self.owner)
            .field("max_pending", &self.max_pending)
            .finish_non_exhaustive()
    }
}
