use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    adaptive::Signal,
    domain::Domain,
    scheduler::{Constraint, Grant, Turn},
    shared::{Refusal, Refused},
};

/// The right to run, given back when it is dropped.
pub(crate) struct Permit {
    domain: Arc<Domain>,
    grant: Option<Grant>,
    /// When the run began and in which epoch, where the domain's limit adapts. Said once.
    adapts: Option<Box<(Instant, u64)>>,
}

/// A place in the queue, given up when it is dropped, whatever has become of it.
pub(crate) struct Waiter {
    domain: Arc<Domain>,
    /// `None` once it is over.
    ticket: Option<u32>,
}

/// How a ticket stands.
pub(crate) struct Standing {
    pub(crate) constraint: Constraint,
    pub(crate) position: u64,
    pub(crate) depth: u32,
}

impl Permit {
    pub(crate) fn new(domain: Arc<Domain>, grant: Grant) -> Self {
        let adapts = domain.epoch().map(|epoch| Box::new((Instant::now(), epoch)));
        Self { domain, grant: Some(grant), adapts }
    }

    /// Says what has come of the run. Only the first word counts.
    pub(crate) fn learn(&mut self, signal: impl FnOnce(Duration) -> Option<Signal>) {
        if let Some((began, epoch)) = self.adapts.take().map(|adapts| *adapts) {
            self.domain.learn(signal, began.elapsed(), epoch);
        }
    }

    /// Whether anybody learns from this run.
    pub(crate) fn adapts(&self) -> bool {
        self.adapts.is_some()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(grant) = self.grant.take() {
            self.domain.shared.change(|state| state.release(grant));
        }
    }
}

impl Waiter {
    pub(crate) fn new(domain: Arc<Domain>, ticket: u32) -> Self {
        Self { domain, ticket: Some(ticket) }
    }

    /// Waits for the turn. `Err` if there will be none.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<Permit, Refusal>> {
        let ticket = self.ticket.expect("polled after its end");
        let mut state = self.domain.shared.lock();
        match state.turn(ticket) {
            Turn::Waits(waiter) => {
                match waiter {
                    Some(known) => known.clone_from(cx.waker()),
                    None => *waiter = Some(cx.waker().clone()),
                }
                return Poll::Pending;
            }
            Turn::Granted | Turn::Closed => {}
        }
        self.ticket = None;
        let (grant, _) = state.take(ticket);
        let closed = (state.all(), state.counts().queued());
        drop(state);
        Poll::Ready(match grant {
            Some(grant) => Ok(Permit::new(self.domain.clone(), grant)),
            None => Err(Refusal { kind: Refused::Closed, constraint: closed.0, depth: closed.1 }),
        })
    }

    /// How the ticket stands. `None` if it waits no longer.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let ticket = self.ticket?;
        let mut state = self.domain.shared.lock();
        if !matches!(state.turn(ticket), Turn::Waits(_)) {
            return None;
        }
        let snapshot = state.snapshot(ticket);
        Some(Standing { constraint: snapshot.constraint, position: snapshot.position, depth: state.counts().queued() })
    }

    /// The limits of all, for what is told of those who run.
    pub(crate) fn all(&self) -> (Constraint, u32) {
        self.domain.shared.read(|state| (state.all(), state.counts().queued()))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            // Its waker is dropped once the lock is free.
            let _waker = self.domain.shared.change(|state| {
                let (grant, waker) = state.take(ticket);
                if let Some(grant) = grant {
                    state.release(grant);
                }
                waker
            });
        }
    }
}
