use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Instant;

use crate::{CacheBreakPolicy, Findings, Monitor, Observation, SessionKey};

/// A [`Monitor`] that several layers share. A clone is one count up.
///
/// Where each model has services of its own, give their layers the same one: a session that changes its model is then
/// seen to do so.
#[derive(Clone)]
pub struct CacheBreakMonitor {
    policy: CacheBreakPolicy,
    monitor: Arc<Mutex<Monitor>>,
}

impl CacheBreakMonitor {
    /// No session yet.
    pub fn new(policy: CacheBreakPolicy) -> Self {
        Self { policy, monitor: Arc::new(Mutex::new(Monitor::new(policy))) }
    }

    fn lock(&self) -> MutexGuard<'_, Monitor> {
        self.monitor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The policy.
    pub fn policy(&self) -> &CacheBreakPolicy {
        &self.policy
    }

    /// How many sessions are kept.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// See [`Monitor::clear`].
    pub fn clear(&self, session: SessionKey, now: Instant) {
        self.lock().clear(session, now);
    }

    /// Forgets all sessions.
    pub fn clear_all(&self) {
        self.lock().clear_all();
    }

    /// See [`Monitor::observe`].
    pub fn observe(&self, session: SessionKey, seen: Observation, now: Instant) -> Findings {
        self.lock().observe(session, seen, now)
    }
}

impl Default for CacheBreakMonitor {
    fn default() -> Self {
        Self::new(CacheBreakPolicy::default())
    }
}

impl fmt::Debug for CacheBreakMonitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lock().fmt(f)
    }
}
