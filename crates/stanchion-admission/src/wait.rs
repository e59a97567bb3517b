use std::{
    pin::Pin,
    sync::Arc,
    task::{Context as Wakes, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use stanchion_core::{
    AdmissionPhase, AdmissionReason, AdmissionResource, AdmissionScope, Candidate, Context, Event, Failure,
    ProviderAdmission, RecoveryBudget, RequestClass,
};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::{
    AdmissionError,
    error::told_limit,
    permit::{Permit, Waiter},
    scheduler::Constraint,
    shared::{Refusal, Refused},
};

/// How often one that waits is told of.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// What is told of a request.
#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) context: Option<Context>,
    pub(crate) candidate: Option<Arc<Candidate>>,
    pub(crate) class: RequestClass,
    /// As the policy has it.
    pub(crate) max_wait: Duration,
}

/// How a wait ends without a permit.
pub(crate) enum Ended {
    Refused(AdmissionError),
    /// The recovery budget is spent.
    Budget,
}

pin_project! {
    /// Waits for a turn, tells so, and gives up in time.
    pub(crate) struct Wait {
        waiter: Option<Waiter>,
        told: Told,
        since: Instant,
        // In which heartbeat since then the wait is told of next; 0 until it was told of at all.
        beat: u32,
        #[pin]
        sleep: Option<Sleep>,
    }
}

impl Told {
    pub(crate) fn budget(&self) -> Option<&RecoveryBudget> {
        self.context.as_ref()?.recovery()
    }

    /// How long a request that has waited since then may wait in all: its limit, or what a running budget left it.
    fn max_wait(&self, since: Instant) -> Duration {
        let left = self.budget().and_then(RecoveryBudget::deadline).map(|end| end.saturating_duration_since(since));
        left.map_or(self.max_wait, |left| left.min(self.max_wait))
    }

    /// Whether the budget is spent. The clock is read only where the budget's runs.
    pub(crate) fn is_spent(&self) -> bool {
        self.budget().and_then(RecoveryBudget::deadline).is_some_and(|end| end <= Instant::now())
    }

    fn emit(
        &self,
        phase: AdmissionPhase,
        reason: Option<AdmissionReason>,
        constraint: Constraint,
        (position, depth): (u64, u32),
        (since, now): (Instant, Instant),
    ) {
        Context::emit(self.context.as_ref(), || {
            Event::ProviderAdmission(ProviderAdmission {
                phase,
                candidate: self.candidate.as_ref().map(|candidate| candidate.name().clone()),
                request_class: self.class,
                resource: constraint.resource,
                scope: constraint.scope,
                reason,
                queue_position: position,
                queue_depth: depth.into(),
                in_flight: constraint.in_flight.into(),
                limit: told_limit(constraint.limit),
                wait: now.saturating_duration_since(since),
                max_wait: self.max_wait(since),
                recovery_remaining: self.budget().map(|budget| budget.remaining(now)),
            })
        });
    }

    /// Turns a request away, and tells so.
    pub(crate) fn reject(&self, refusal: Refusal, since: Instant, now: Instant) -> AdmissionError {
        let error = AdmissionError::new(refusal, self.class, self.max_wait);
        let depth = (0, refusal.depth);
        self.emit(AdmissionPhase::Rejected, Some(error.reason), refusal.constraint, depth, (since, now));
        error
    }
}

impl Ended {
    pub(crate) fn into_failure(self, told: &Told) -> Failure {
        match self {
            Self::Refused(error) => error.into_failure(told.candidate.as_deref().map(Candidate::name)),
            Self::Budget => match told.budget() {
                Some(budget) => budget.end(told.context.as_ref(), Instant::now()),
                None => unreachable!("only a budget can be spent"),
            },
        }
    }
}

impl Wait {
    /// Begins to wait, and tells so, unless it is over already.
    pub(crate) fn new(waiter: Waiter, told: Told, since: Instant) -> Self {
        let mut wait = Self { waiter: Some(waiter), told, since, beat: 0, sleep: None };
        wait.beat = u32::from(Self::tell(wait.waiter.as_ref(), &wait.told, since, since));
        wait
    }

    pub(crate) fn told(self: Pin<&mut Self>) -> &Told {
        self.project().told
    }

    fn tell(waiter: Option<&Waiter>, told: &Told, since: Instant, now: Instant) -> bool {
        let standing = waiter.and_then(Waiter::standing);
        standing
            .map(|standing| {
                let (place, times) = ((standing.position, standing.depth), (since, now));
                told.emit(AdmissionPhase::Queued, Some(AdmissionReason::Capacity), standing.constraint, place, times);
            })
            .is_some()
    }

    pub(crate) fn poll(self: Pin<&mut Self>, cx: &mut Wakes<'_>) -> Poll<Result<Permit, Ended>> {
        let mut this = self.project();
        let since = *this.since;
        loop {
            let waiter = this.waiter.as_mut().expect("polled after its end");
            let now = Instant::now();
            let budget_ends = this.told.budget().and_then(RecoveryBudget::deadline);
            // Before a turn that may have come: no attempt begins at the budget's last instant.
            if budget_ends.is_some_and(|end| end <= now) {
                *this.waiter = None;
                return Poll::Ready(Err(Ended::Budget));
            }
            if let Poll::Ready(turn) = waiter.poll(cx) {
                let told = *this.beat > 0;
                let result = match turn {
                    Ok(permit) => {
                        let (all, depth) = waiter.all();
                        let constraint =
                            Constraint { resource: AdmissionResource::Stream, scope: AdmissionScope::Domain, ..all };
                        if told {
                            this.told.emit(AdmissionPhase::Admitted, None, constraint, (0, depth), (since, now));
                        }
                        Ok(permit)
                    }
                    Err(refusal) => Err(Ended::Refused(this.told.reject(refusal, since, now))),
                };
                *this.waiter = None;
                return Poll::Ready(result);
            }
            let deadline = since + this.told.max_wait;
            if deadline <= now {
                // Between the two looks its turn may have come.
                let Some(standing) = waiter.standing() else { continue };
                *this.waiter = None;
                let kind = Refused::Timeout;
                let refusal = Refusal { kind, constraint: standing.constraint, depth: standing.depth };
                return Poll::Ready(Err(Ended::Refused(this.told.reject(refusal, since, now))));
            }
            // At most 40: who has waited longer was turned away just now.
            let beats = ((now - since).as_secs() / HEARTBEAT.as_secs()) as u32;
            if *this.beat <= beats && Self::tell(Some(waiter), this.told, since, now) {
                *this.beat = beats + 1;
            }
            let next = since + HEARTBEAT * *this.beat;
            let until = budget_ends.into_iter().fold(deadline.min(next), Instant::min);
            match this.sleep.as_mut().as_pin_mut() {
                Some(sleep) if sleep.deadline() == until => {}
                Some(sleep) => sleep.reset(until),
                None => this.sleep.set(Some(sleep_until(until))),
            }
            let sleep = this.sleep.as_mut().as_pin_mut().expect("just armed");
            ready!(sleep.poll(cx));
        }
    }
}
