use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::config::{Client, ClientLimits};

/// How much one client may ask for, and how much it does.
#[derive(Debug)]
pub struct Limiter(Mutex<State>);

#[derive(Debug)]
struct State {
    limits: ClientLimits,
    /// What is left of the minute's requests. A bucket of the size of the limit, full at first.
    left: f64,
    at: Instant,
    running: u32,
}

/// A request that counts as running until this is dropped.
#[derive(Debug)]
pub struct Running(Arc<Limiter>);

/// A client asks for more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TooMuch {
    /// Too often: the next may come after so long.
    Often {
        /// How many there may be in a minute.
        limit: u32,
        /// When the next may come.
        retry_after: Duration,
    },
    /// Too much at one time.
    AtOnce {
        /// How many there may be.
        limit: u32,
    },
}

impl Limiter {
    fn new(limits: ClientLimits) -> Self {
        let left = limits.requests_per_minute.map_or(0.0, f64::from);
        Self(Mutex::new(State { limits, left, at: Instant::now(), running: 0 }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Other limits for the same client. What it has used up stays used up.
    fn set(&self, limits: ClientLimits) {
        let state = &mut *self.lock();
        if let (None, Some(limit)) = (state.limits.requests_per_minute, limits.requests_per_minute) {
            state.left = f64::from(limit);
        }
        state.refill(Instant::now());
        state.limits = limits;
    }

    /// Lets one more request run, if it may.
    pub(super) fn admit(self: &Arc<Self>) -> Result<Running, TooMuch> {
        let state = &mut *self.lock();
        if let Some(limit) = state.limits.concurrency
            && state.running >= limit
        {
            return Err(TooMuch::AtOnce { limit });
        }
        state.refill(Instant::now());
        if let Some(limit) = state.limits.requests_per_minute {
            if state.left < 1.0 {
                let missing = 1.0 - state.left;
                return Err(TooMuch::Often {
                    limit,
                    retry_after: Duration::from_secs_f64(missing * 60.0 / f64::from(limit)),
                });
            }
            state.left -= 1.0;
        }
        state.running += 1;
        Ok(Running(self.clone()))
    }
}

impl State {
    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.at);
        self.at = now;
        if let Some(limit) = self.limits.requests_per_minute.map(f64::from) {
            self.left = (self.left + passed.as_secs_f64() * limit / 60.0).min(limit);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

/// The limiters of all clients, by their names: they outlive a configuration.
#[derive(Debug, Default)]
pub struct Limiters(HashMap<String, Arc<Limiter>>);

impl Limiters {
    /// Forgets those of clients that are no more.
    pub(super) fn retain(&mut self, clients: &[Client]) {
        self.0.retain(|name, _| clients.iter().any(|client| client.name == *name));
    }

    /// That of a client, if anything limits it.
    pub(super) fn of(&mut self, client: &Client) -> Option<Arc<Limiter>> {
        if client.limits == ClientLimits::default() {
            self.0.remove(&client.name);
            return None;
        }
        let limiter = self.0.entry(client.name.clone()).or_insert_with(|| Arc::new(Limiter::new(client.limits)));
        limiter.set(client.limits);
        Some(limiter.clone())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn limits(requests_per_minute: Option<u32>, concurrency: Option<u32>) -> ClientLimits {
        ClientLimits { requests_per_minute, concurrency }
    }

    #[tokio::test(start_paused = true)]
    async fn a_minutes_requests_may_come_at_once_and_then_come_back_evenly() {
        let limiter = Arc::new(Limiter::new(limits(Some(6), None)));
        for _ in 0..6 {
            drop(limiter.admit().unwrap());
        }
        let too_often = TooMuch::Often { limit: 6, retry_after: Duration::from_secs(10) };
        assert_eq!(limiter.admit().unwrap_err(), too_often);
        advance(Duration::from_secs(4)).await;
        match limiter.admit().unwrap_err() {
            TooMuch::Often { retry_after, .. } => assert!(retry_after.abs_diff(Duration::from_secs(6)).as_millis() < 1),
            other @ TooMuch::AtOnce { .. } => panic!("{other:?}"),
        }
        advance(Duration::from_millis(6_001)).await;
        drop(limiter.admit().unwrap());
        assert!(limiter.admit().is_err());
        advance(Duration::from_secs(3600)).await;
        assert_eq!((0..9).filter(|_| limiter.admit().is_ok()).count(), 6, "no more than a minute's are saved up");
    }

    #[tokio::test(start_paused = true)]
    async fn what_runs_counts_until_it_is_dropped_and_a_refusal_costs_nothing() {
        let limiter = Arc::new(Limiter::new(limits(Some(3), Some(1))));
        let running = limiter.admit().unwrap();
        for _ in 0..9 {
            assert_eq!(limiter.admit().unwrap_err(), TooMuch::AtOnce { limit: 1 });
        }
        drop(running);
        assert!(limiter.admit().is_ok() && limiter.admit().is_ok());
        assert!(matches!(limiter.admit(), Err(TooMuch::Often { .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn other_limits_give_nothing_back() {
        let limiter = Arc::new(Limiter::new(limits(Some(2), Some(9))));
        let held = (limiter.admit().unwrap(), limiter.admit().unwrap());
        limiter.set(limits(Some(4), Some(2)));
        assert_eq!(limiter.admit().unwrap_err(), TooMuch::AtOnce { limit: 2 });
        drop(held);
        assert!(matches!(limiter.admit(), Err(TooMuch::Often { limit: 4, .. })));
        limiter.set(limits(None, None));
        assert!(limiter.admit().is_ok());
        limiter.set(limits(Some(2), None));
        assert_eq!((0..9).filter(|_| limiter.admit().is_ok()).count(), 2);
    }
}
