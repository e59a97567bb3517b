use std::sync::{
    Arc, PoisonError, RwLock, RwLockWriteGuard,
    atomic::{AtomicU32, Ordering},
};

use stanchion_core::FailureDomain;

use crate::{
    Adaptive,
    adaptive::{Limit, Signal},
    shared::Shared,
};

/// A failure domain, as long as anybody knows it.
pub(crate) struct Domain {
    pub(crate) shared: Arc<Shared>,
    /// What the scheduler calls it.
    pub(crate) at: u32,
    /// `None` for requests without a candidate.
    known: Option<Known>,
    /// What `adaptive` has come to; [`u32::MAX`] if it does not adapt.
    cap: AtomicU32,
    adaptive: RwLock<Option<Limit>>,
}

/// Whose domain it is.
pub(crate) struct Known {
    pub(crate) identity: FailureDomain,
    pub(crate) provider: Box<str>,
    /// The candidate by which it was found first.
    pub(crate) name: Arc<str>,
}

impl Domain {
    pub(crate) fn new(shared: &Arc<Shared>, known: Option<Known>) -> Arc<Self> {
        let at = shared.lock().open_domain(u32::MAX);
        Arc::new(Self { shared: shared.clone(), at, known, cap: AtomicU32::new(u32::MAX), adaptive: RwLock::default() })
    }

    /// The candidate by which it was found first; `None` for requests without one.
    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        self.known.as_ref().map(|known| &known.name)
    }

    /// Lets the limit adapt, from where it was if the domain is asked for again.
    pub(crate) fn adapt(&self, settings: Adaptive) {
        let mut adaptive = self.adaptive.write().unwrap_or_else(PoisonError::into_inner);
        let before = || self.known.as_ref().and_then(|known| self.shared.recall(&known.identity));
        let limit = adaptive.get_or_insert_with(|| before().unwrap_or_else(|| Limit::new(settings)));
        limit.narrow(settings);
        let cap = limit.limit();
        self.limit_to(cap, adaptive);
    }

    /// Whether it is a domain of this provider.
    pub(crate) fn is_of(&self, provider: &str) -> bool {
        self.known.as_ref().is_some_and(|known| *known.provider == *provider)
    }

    /// Forgets what the limit has come to. It adapts no more, until somebody lets it again.
    pub(crate) fn forget_adapted(&self) {
        let mut adaptive = self.adaptive.write().unwrap_or_else(PoisonError::into_inner);
        *adaptive = None;
        self.limit_to(u32::MAX, adaptive);
    }

    /// What the limit has come to, if it adapts.
    pub(crate) fn adapted(&self) -> Option<u32> {
        Some(self.cap.load(Ordering::Relaxed)).filter(|cap| *cap != u32::MAX)
    }

    /// What a run that begins now is to say with what comes of it; `None` if nobody wants to know.
    pub(crate) fn epoch(&self) -> Option<u64> {
        self.adapted()?;
        self.adaptive.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(Limit::epoch)
    }

    /// Learns what has come of a run that began in an epoch.
    pub(crate) fn learn(&self, signal: Signal, epoch: u64) {
        let (in_flight, most) =
            self.shared.read(|state| (state.domain_counts(self.at).in_flight(), state.domain_limit(self.at)));
        let mut adaptive = self.adaptive.write().unwrap_or_else(PoisonError::into_inner);
        let Some(limit) = adaptive.as_mut() else { return };
        limit.learn(signal, epoch, in_flight, most);
        let cap = limit.limit();
        self.limit_to(cap, adaptive);
    }

    fn limit_to(&self, cap: u32, adaptive: RwLockWriteGuard<'_, Option<Limit>>) {
        let before = self.cap.swap(cap, Ordering::Relaxed);
        drop(adaptive);
        if before != cap {
            // What stands there by then, since another may have moved it on.
            self.shared.change(|state| state.cap(self.at, self.cap.load(Ordering::Relaxed)));
        }
    }
}

/// What the requests under one limit of concurrency have of a domain, as long as anybody uses it.
pub(crate) struct Share {
    pub(crate) domain: Arc<Domain>,
    /// What the scheduler calls it.
    pub(crate) at: u32,
}

impl Share {
    pub(crate) fn open(domain: Arc<Domain>, concurrency: u32) -> Arc<Self> {
        let at = domain.shared.change(|state| state.open_share(domain.at, concurrency));
        Arc::new(Self { domain, at })
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.domain.shared
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shared().lock().close_share(self.domain.at, self.at);
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        let adaptive = self.adaptive.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(known), Some(limit)) = (self.known.take(), adaptive) {
            self.shared.remember(known, limit);
        }
        self.shared.lock().close_domain(self.at);
    }
}
