//! What an outcome is to a circuit. The table decides; this turns its word into the machine's.

use stanchion_core::{
    CircuitOutcome, Context, Disposition, DispositionRules, Failure, Phase, RetryHint, RetryReason, StreamRecord,
};
use tokio::time::Instant;

use crate::{
    CircuitToken, LateFailure, SuccessOn,
    machine::{Cause, Fault, Outcome},
    policy::Judging,
};

/// What a failure is.
pub(crate) fn outcome(failure: &Failure, rules: DispositionRules) -> Outcome {
    let disposition = Disposition::of(failure, &rules);
    let status = failure.status();
    match disposition.circuit {
        CircuitOutcome::Failure => Outcome::Failure(Fault {
            cause: Cause { reason: disposition.reason, status: status.map(|status| status.as_u16()) },
            delay: failure.hint().map(RetryHint::delay),
            at_once: disposition.opens_at_once,
        }),
        // Only a provider that has answered can have put the blame on the request. A probe that was not processed
        // leaves the circuit as it was.
        CircuitOutcome::Neutral if status.is_some() => Outcome::Neutral,
        CircuitOutcome::Neutral | CircuitOutcome::Abandon | CircuitOutcome::Untouched => Outcome::Abandoned,
    }
}

/// One exchange, until all that its circuit can learn from it is said.
#[derive(Debug)]
pub(crate) struct Watch {
    /// What the circuit has not been told yet: the outcome, or, after that, a late failure.
    token: Option<CircuitToken>,
    judging: Judging,
    context: Option<Context>,
    began: Instant,
    /// Whether output has begun.
    answered: bool,
    /// Whether it took too long to begin.
    slow: bool,
}

impl Watch {
    pub(crate) fn new(token: CircuitToken, judging: Judging, context: Option<Context>, began: Instant) -> Self {
        Self { token: Some(token), judging, context, began, answered: false, slow: false }
    }

    /// Whether there is nothing more to learn.
    pub(crate) fn is_over(&self) -> bool {
        self.token.is_none()
    }

    /// Whether output has begun, as far as was told.
    pub(crate) fn has_answered(&self) -> bool {
        self.answered
    }

    /// The first real output has come.
    pub(crate) fn answered(&mut self) {
        if std::mem::replace(&mut self.answered, true) {
            return;
        }
        let slow_call = self.judging.slow_call;
        let now = Instant::now();
        self.slow = !slow_call.is_zero() && now.saturating_duration_since(self.began) > slow_call;
        if self.judging.success_on == SuccessOn::FirstOutput {
            self.succeed(now);
        }
    }

    /// The reply has come to a good end.
    pub(crate) fn ended(&mut self) {
        self.answered();
        if self.judging.success_on == SuccessOn::End && self.token.is_some() {
            self.succeed(Instant::now());
        }
        // A reply at its end fails no more.
        self.token = None;
    }

    /// The exchange failed. The failure takes the circuit along that it opened.
    pub(crate) fn failed(&mut self, failure: Failure) -> Failure {
        let Some(mut token) = self.token.take() else { return failure };
        let phase = failure.phase();
        let judged = match (self.answered, self.judging.late_failure) {
            (true, LateFailure::Ignore) => return failure,
            // The table leaves the circuit alone after output. Where nothing has come out, or where it counts all the
            // same, the failure is judged by its kind.
            (true, LateFailure::Count) => failure.with_phase(Phase::BeforeOutput),
            (false, _) if phase == Phase::AfterOutput => failure.with_phase(Phase::BeforeOutput),
            (false, _) => failure,
        };
        let outcome = outcome(&judged, self.judging.rules);
        let failure = judged.with_phase(phase);
        let now = Instant::now();
        match token.settle(outcome, now).0 {
            Some(change) => {
                change.tell(self.context.as_ref(), now);
                if change.opens() { failure.with_circuit(change.circuit().clone()) } else { failure }
            }
            None => failure,
        }
    }

    /// Reads off the record how far the reply has come. Without a record, what was seen of it counts.
    pub(crate) fn look(&mut self, record: Option<&StreamRecord>, output: bool) {
        let answered =
            record.map_or(output, |record| record.output_started() || record.finished() || record.terminal());
        if answered {
            self.answered();
        }
        // An error in the middle of a stream ends it as far as the circuit cares.
        if self.token.is_some()
            && self.answered
            && let Some(failure) = record.filter(|record| record.error().is_some()).and_then(StreamRecord::failure)
        {
            self.failed(failure.with_phase(Phase::AfterOutput));
        }
    }

    fn succeed(&mut self, now: Instant) {
        let Some(mut token) = self.token.take() else { return };
        let cause = Cause { reason: RetryReason::Timeout, status: None };
        let outcome =
            if self.slow { Outcome::Failure(Fault { cause, delay: None, at_once: false }) } else { Outcome::Success };
        let (change, late) = token.settle(outcome, now);
        if let Some(change) = change {
            change.tell(self.context.as_ref(), now);
        }
        if self.judging.late_failure == LateFailure::Count {
            self.token = late.map(|key| token.again(key));
        }
    }
}
