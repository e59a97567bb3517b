use std::{
    sync::Arc,
    task::{Context, Poll},
};

use tokio::time::Instant;

use crate::{
    adaptive::Signal,
    domain::Share,
    scheduler::{Constraint, Grant, Turn},
    shared::{Refusal, Refused},
};

/// The right to run, given back when it is dropped.
pub(crate) struct Permit {
    share: Arc<Share>,
    grant: Option<Grant>,
    /// When the run began and in which epoch, where the domain's limit adapts. Said once.
    adapts: Option<Box<(Instant, u64)>>,
}

/// A place in the queue, given up when it is dropped, whatever has become of it.
pub(crate) struct Waiter {
    share: Arc<Share>,
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
    pub(crate) fn new(share: Arc<Share>, grant: Grant) -> Self {
        let adapts = share.domain.epoch().map(|epoch| Box::new((Instant::now(), epoch)));
        Self { share, grant: Some(grant), adapts }
    }

    /// Says what has come of the run. Only the first word counts.
    pub(crate) fn learn(&mut self, signal: impl FnOnce(Instant) -> Option<Signal>) {
        if let Some((began, epoch)) = self.adapts.take().map(|adapts| *adapts)
            && let Some(signal) = signal(began)
        {
            self.share.domain.learn(signal, epoch);
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
            self.share.shared().change(|state| state.release(grant));
        }
    }
}

impl Waiter {
    pub(crate) fn new(share: Arc<Share>, ticket: u32) -> Self {
        Self { share, ticket: Some(ticket) }
    }

    /// Waits for the turn. `Err` if there will be none.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<Permit, Refusal>> {
        let ticket = self.ticket.expect("polled after its end");
        let mut state = self.share.shared().lock();
        match state.turn(ticket) {
            Turn::Waits(waiter) => {
                let known = waiter.as_ref().is_some_and(|known| known.will_wake(cx.waker()));
                let replaced = if known { None } else { waiter.replace(cx.waker().clone()) };
                // The last of a waker may drop its task, and that another waiter: not under the lock.
                drop(state);
                drop(replaced);
                return Poll::Pending;
            }
            Turn::Granted | Turn::Closed => {}
        }
        self.ticket = None;
        let (grant, _) = state.take(ticket);
        let closed = (state.all(), state.counts().queued());
        drop(state);
        Poll::Ready(match grant {
            Some(grant) => Ok(Permit::new(self.share.clone(), grant)),
            None => Err(Refusal { kind: Refused::Closed, constraint: closed.0, depth: closed.1 }),
        })
    }

    /// How the ticket stands. `None` if it waits no longer.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let ticket = self.ticket?;
        let mut state = self.share.shared().lock();
        if !matches!(state.turn(ticket), Turn::Waits(_)) {
            return None;
        }
        let snapshot = state.snapshot(ticket);
        Some(Standing { constraint: snapshot.constraint, position: snapshot.position, depth: state.counts().queued() })
    }

    /// The limits of all, for what is told of those who run.
    pub(crate) fn all(&self) -> (Constraint, u32) {
        self.share.shared().read(|state| (state.all(), state.counts().queued()))
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            // Its waker is dropped once the lock is free.
            let _waker = self.share.shared().change(|state| {
                let (grant, waker) = state.take(ticket);
                if let Some(grant) = grant {
                    state.release(grant);
                }
                waker
            });
        }
    }
}
