//! One use of a credential, and what is learnt from it. The table decides; this turns its word into the rotation's.

use std::sync::Arc;

use http::StatusCode;
use stanchion_core::{
    Candidate, CircuitOutcome, Context, CredentialOutcome, Disposition, DispositionRules, Failure, FailureKind, Phase,
    RetryHint,
};
use tokio::time::Instant;

use crate::{
    CredentialPool,
    rotation::{Standing, Ticket},
};

/// A credential in use. Dropped, at whatever point, it is free.
#[derive(Debug)]
pub(crate) struct Lease {
    pool: CredentialPool,
    ticket: Ticket,
    candidate: Arc<Candidate>,
    context: Option<Context>,
}

impl Lease {
    pub(crate) fn new(
        pool: CredentialPool,
        ticket: Ticket,
        candidate: Arc<Candidate>,
        context: Option<Context>,
    ) -> Self {
        Self { pool, ticket, candidate, context }
    }

    /// A response has come.
    pub(crate) fn answered(&self, status: StatusCode) {
        if status.is_client_error() || status.is_server_error() {
            // A commit layer would have made a failure of it, and would have told what it means.
            self.pool.rotation(|rotation| rotation.answered(self.ticket));
        } else {
            self.pool.rotation(|rotation| rotation.succeed(self.ticket, Instant::now()));
        }
    }

    /// The call failed. The failure leaves with what it means to whoever would ask again.
    pub(crate) fn failed(&self, failure: Failure) -> Failure {
        let now = Instant::now();
        if let Some(circuit) = failure.circuit().filter(|_| failure.kind() != FailureKind::CircuitOpen) {
            // This very failure has opened the circuit: whoever comes with this credential would be turned away.
            let wait = circuit.retry_after(now);
            self.pool.rotation(|rotation| rotation.pass_over(self.ticket, wait, now));
        }
        match self.learn(&failure, now) {
            Standing::Another => failure.with_another_credential(),
            Standing::Empty(empty) if empty.kind == failure.kind() => {
                let first = empty.hint(now);
                // The provider's own word stays, where it says the same.
                let differs = failure.hint().map(RetryHint::delay) != first.map(RetryHint::delay);
                if first.is_some() && differs { failure.with_hint(first) } else { failure }
            }
            // This one is gone for long, and another will be back sooner: what is left to wait for is a rate limit.
            Standing::Empty(empty) if empty.kind == FailureKind::RateLimited => {
                let disposition = Disposition::of(&failure, &DispositionRules::default());
                let limited = Failure::new(empty.kind)
                    .with_phase(failure.phase())
                    .with_candidate(self.candidate.name().clone())
                    .with_hint(empty.hint(now))
                    .with_source(failure);
                // Who was not asked has cost no attempt.
                if disposition.circuit == CircuitOutcome::Untouched { limited.with_no_credential() } else { limited }
            }
            Standing::Empty(_) | Standing::Same => failure,
        }
    }

    /// The reply broke off.
    pub(crate) fn broke_off(&self, failure: &Failure) {
        self.learn(failure, Instant::now());
    }

    fn learn(&self, failure: &Failure, now: Instant) -> Standing {
        let outcome = Disposition::of(failure, &DispositionRules::default()).credential;
        if outcome == CredentialOutcome::Untouched {
            self.pool.rotation(|rotation| rotation.answered(self.ticket));
            return Standing::Same;
        }
        let hint = failure.hint().map(RetryHint::delay);
        if failure.kind() == FailureKind::CircuitOpen && failure.phase() == Phase::Connect {
            return self.pool.rotation(|rotation| rotation.turn_away(self.ticket, hint, now));
        }
        let settled = self.pool.rotation(|rotation| rotation.fail(self.ticket, outcome, hint, now));
        if let Some((reason, cooldown)) = settled.left {
            let context = self.context.as_ref();
            self.pool.tell(context, Some(&self.candidate), self.ticket.index, reason, cooldown);
        }
        // After output nothing is asked again.
        if failure.phase() == Phase::AfterOutput { Standing::Same } else { settled.standing }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.pool.rotation(|rotation| rotation.finish(self.ticket));
    }
}
