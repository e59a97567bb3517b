use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context as Wakes, Poll},
    time::{Duration, SystemTime},
};

use http::Request;
use stanchion_core::{
    Call, Candidate, CircuitPhase, CircuitTurn, Context, Disposition, Event, ExhaustedBy, Failure, FailureKind, Family,
    OpenCircuit, Phase, ProviderRetry, RecoveryBudget, RecoveryMode, RetryClass, RetryPhase, RetryReason, Selected,
    WaitsForCircuit,
};
use tokio::time::Instant;
use tower_service::Service;

use crate::{
    RetryOwner, Scope,
    client::retries_told,
    client_retries,
    kept::{Kept, Known},
    layer::Shared,
    ledger::{Allowance, Cause, Ledger, Step, Verdict, was_not_asked},
    policy::{Limits, RetryPolicy},
};

/// How often a wait that goes on is told.
const TELL_EVERY: Duration = Duration::from_secs(15);

/// One call and its retries, but for the waiting.
pub(crate) struct Run<S, B> {
    service: S,
    /// As long as another attempt may follow.
    kept: Option<Kept<B>>,
    /// The request may limit the output of its reply.
    limits_output: bool,
    shared: Arc<Shared>,
    ledger: Ledger,
    limits: Limits,
    known: Known,
    /// What the caller's client library has retried; read only once it matters.
    client_retries: ClientRetries,
    /// Attempts are taken out of the recovery budget, which all candidates share.
    shares_attempts: bool,
    /// An open circuit is waited for: nobody else is left to ask, and a person waits.
    waits_for_circuit: bool,
    /// The turn at a circuit that the next attempt takes with it.
    turn: Option<CircuitTurn>,
    wait: Option<Wait>,
    /// When a wait for a circuit was last told.
    circuit_told: Option<Instant>,
    repaired: bool,
    /// The next attempt is a repair, which costs none of the attempts that candidates share.
    repairs: bool,
    /// The attempt under way was taken out of those that candidates share.
    took: bool,
    /// Attempts that reached the candidate, as far as can be seen from here.
    asked: u32,
    /// The failure that is being recovered from, for the one that ends the recovery.
    last: Option<Failure>,
}

/// What the caller's client library says of its own retries.
#[derive(Clone, Copy)]
enum ClientRetries {
    Unread,
    Read(Option<u32>),
}

impl ClientRetries {
    fn told(self) -> Option<u32> {
        match self {
            Self::Unread => None,
            Self::Read(retries) => retries,
        }
    }
}

/// A wait that goes on.
struct Wait {
    /// For how long, from its beginning; nothing for a circuit, which says itself when it is over.
    delay: Duration,
    until: Option<Instant>,
    cause: Cause,
    circuit: Option<Arc<OpenCircuit>>,
}

/// Waiting for a turn at a circuit.
pub(crate) type Turn = Pin<Box<dyn Future<Output = CircuitTurn> + Send>>;

/// What comes after a failed attempt.
pub(crate) enum Next {
    /// The next attempt, which has been told.
    AtOnce,
    /// A wait, to be looked at again at this instant.
    Backoff(Instant),
    /// A wait for a circuit, to be looked at again at this instant.
    Gate(Turn, Instant),
    /// The end.
    Leave(Failure),
}

/// What comes after a part of a wait.
pub(crate) enum Tick {
    /// Another part, until this instant.
    More(Instant),
    /// The next attempt, which has been told.
    Over,
    /// The end.
    Leave(Failure),
}

impl<S, B> Run<S, B>
where
    S: Service<Request<B>>,
    B: Clone,
{
    /// A run with a service that is ready, or the failure of a request that may not make an attempt.
    pub(crate) fn new(
        service: S,
        mut request: Request<B>,
        shared: Arc<Shared>,
    ) -> Result<(Box<Self>, Request<B>), Failure> {
        let policy = &shared.policy;
        let context = Context::of(&request).cloned();
        let selected = request.extensions().get::<Selected>().cloned();
        let heeds = policy.heeds_client_retries();
        let client_retries =
            if heeds { ClientRetries::Read(client_retries(request.headers())) } else { ClientRetries::Unread };
        let heeded = client_retries.told().unwrap_or(0);
        let limits_output = request.extensions().get::<Call>().is_none_or(|call| call.limits_output != Some(false));
        let recovery = context.as_ref().and_then(Context::recovery);
        let is_last = selected.as_ref().is_none_or(|selected| selected.last);
        let waits_for_circuit = recovery.is_some() && is_last;
        request.extensions_mut().insert(RetryOwner);
        if waits_for_circuit {
            request.extensions_mut().insert(WaitsForCircuit);
        }
        let ledger = match &context {
            Some(context) if policy.scope == Scope::Request => {
                Ledger::carried_over([RetryClass::RateLimit, RetryClass::Transient].map(|class| context.retries(class)))
            }
            _ => Ledger::default(),
        };
        let run = Box::new(Self {
            limits: policy.limits.lowered_by(heeded),
            shares_attempts: recovery.is_some() && !policy.limits_are_set,
            service,
            kept: None,
            limits_output,
            shared,
            ledger,
            known: Known { context, selected },
            client_retries,
            waits_for_circuit,
            turn: None,
            wait: None,
            circuit_told: None,
            repaired: false,
            repairs: false,
            took: false,
            asked: 0,
            last: None,
        });
        match run.recovery() {
            Some(budget) if budget.is_spent_by_now() => Err(budget.end(run.known.context.as_ref(), Instant::now())),
            Some(budget) if run.shares_attempts && !budget.has_attempts() => Err(run.complete(
                Failure::new(FailureKind::RecoveryBudget)
                    .with_phase(Phase::Connect)
                    .with_message("no attempt is left of those that the request may have in all"),
            )),
            _ => Ok((run, request)),
        }
    }

    pub(crate) fn poll_ready(&mut self, cx: &mut Wakes<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    /// Makes the first attempt. It takes the request itself; of that, something is kept only as long as another may
    /// follow.
    pub(crate) fn first(&mut self, request: Request<B>) -> S::Future {
        self.begin_attempt();
        if self.another_may_follow() {
            self.kept = Some(Kept::of(&request, &self.known));
        } else if let ClientRetries::Unread = self.client_retries {
            self.client_retries = ClientRetries::Read(client_retries(request.headers()));
        }
        self.service.call(request)
    }

    /// Makes the next attempt.
    pub(crate) fn attempt(&mut self) -> S::Future {
        self.begin_attempt();
        let request = if self.another_may_follow() {
            self.kept.as_ref().map(|kept| kept.request(&self.known))
        } else {
            self.ask_client();
            self.kept.take().map(|kept| kept.into_request(&self.known))
        };
        let mut request = request.expect("kept as long as another attempt may follow");
        if let Some(turn) = self.turn.take() {
            request.extensions_mut().insert(turn);
        }
        self.service.call(request)
    }
}

impl<S, B> Run<S, B> {
    fn policy(&self) -> &RetryPolicy {
        &self.shared.policy
    }

    fn recovery(&self) -> Option<&RecoveryBudget> {
        self.known.context.as_ref()?.recovery()
    }

    fn is_last_candidate(&self) -> bool {
        self.known.selected.as_ref().is_none_or(|selected| selected.last)
    }

    fn begin_attempt(&mut self) {
        let repairs = std::mem::take(&mut self.repairs);
        if let Some(budget) = self.recovery() {
            let took = self.shares_attempts && !repairs && budget.take_attempt();
            // If the budget ends now, this is what it ends.
            let nothing = Cause { reason: RetryReason::Timeout, status: None };
            let event = self.event(RetryPhase::Exhausted, self.ledger.cause().unwrap_or(nothing), None);
            budget.remember(&event, self.last.as_ref().and_then(Failure::hint));
            self.took = took;
        }
    }

    /// Whether the attempt that begins is not the last that is possible. The request is here.
    fn another_may_follow(&self) -> bool {
        self.waits_for_circuit || self.could_repair() || self.ledger.may_go_on(self.allowance())
    }

    /// Reads what the caller's client library says, as long as the request is here.
    fn ask_client(&mut self) {
        if let (ClientRetries::Unread, Some(kept)) = (self.client_retries, &self.kept) {
            self.client_retries = ClientRetries::Read(retries_told(|name| kept.header(name)));
        }
    }

    fn allowance(&self) -> Allowance {
        match self.recovery() {
            Some(budget) if self.shares_attempts => {
                let heeded = self.client_retries.told().filter(|_| self.policy().heeds_client_retries()).unwrap_or(0);
                let attempts = budget.attempts();
                Allowance::Shared {
                    attempts,
                    left: attempts.saturating_add(heeded) <= budget.attempt_limit(),
                    own: (!self.is_last_candidate()).then(|| self.limits.total().min(RetryPolicy::STANDARD_RETRIES)),
                }
            }
            recovery => Allowance::Own { limits: self.limits, recovering: recovery.is_some() },
        }
    }

    /// Judges a failed attempt, and tells what is to be told.
    pub(crate) fn judge(&mut self, failure: Failure) -> Next {
        self.ask_client();
        let disposition = Disposition::of(&failure, self.policy().rules());
        if was_not_asked(&failure, disposition) {
            if let Some(budget) = self.recovery().filter(|_| self.took) {
                budget.give_back_attempt();
            }
        } else {
            self.asked += 1;
        }
        if let Some(circuit) = failure.circuit().filter(|_| failure.kind() == FailureKind::CircuitOpen)
            && self.waits_for_circuit
        {
            let circuit = circuit.clone();
            return self.wait_for(circuit, failure);
        }
        if failure.is_opaque_rejection() && self.take_repair() {
            return Next::AtOnce;
        }
        match self.ledger.judge(&failure, self.policy(), self.allowance(), &*self.shared.random) {
            Verdict::Again(step) => self.again(failure, &step),
            verdict => Next::Leave(self.end(failure, verdict)),
        }
    }

    /// Schedules a retry, unless something forbids it that the ledger does not know.
    fn again(&mut self, failure: Failure, step: &Step) -> Next {
        let now = Instant::now();
        if self.kept.is_none() {
            // Another call of the same context gave an attempt back, too late for this one.
            return Next::Leave(self.end(failure, Verdict::Exhausted(step.cause, None)));
        }
        let opened = failure.circuit().cloned();
        if let Some(circuit) = &opened
            && !self.waits_for_circuit
        {
            // This very failure opened the circuit: the next attempt would be turned away.
            self.tell_circuit(CircuitPhase::Rejected, circuit, now);
            let refused = circuit.refuse(now).with_phase(failure.phase());
            let refused = match failure.status() {
                Some(status) => refused.with_status(status),
                None => refused,
            };
            return Next::Leave(self.complete(refused.with_source(failure)));
        }
        if self.recovery().is_some_and(|budget| budget.is_spent(now)) {
            return Next::Leave(self.spent(now, Some(failure)));
        }
        let candidate = self.known.selected.as_ref().map(|selected| &selected.candidate);
        // What was never processed was no load.
        if let Some(budget) = self.shared.budget.as_ref().filter(|_| !step.free)
            && !budget.withdraw(candidate, now)
        {
            let denied = Verdict::Exhausted(step.cause, Some(ExhaustedBy::RetryBudget));
            return Next::Leave(self.end(failure, denied));
        }
        // The clock of a recovery starts with the first failure that is recovered from.
        if let Some(budget) = self.recovery() {
            budget.start(now);
        }
        self.ledger.take(step);
        if let Some(context) =
            self.known.context.as_ref().filter(|_| self.policy().scope == Scope::Request && !step.free)
        {
            context.count_retry(step.class);
        }
        let asked = step.wait.max(opened.as_ref().map_or(Duration::ZERO, |circuit| circuit.retry_after(now)));
        let delay = self.recovery().map_or(asked, |budget| asked.min(budget.remaining(now)));
        if let Some(circuit) = &opened {
            self.tell_circuit(CircuitPhase::Waiting, circuit, now);
        }
        if self.recovery().is_some() {
            let hint = failure.hint().or_else(|| self.policy().hint(&failure));
            self.last = Some(failure.with_hint(hint));
        }
        self.tell(RetryPhase::Scheduled, step.cause, Some((delay, delay)));
        if delay.is_zero() {
            self.begins(step.cause);
            return Next::AtOnce;
        }
        let until = now.checked_add(delay).unwrap_or_else(|| now + TELL_EVERY);
        self.wait = Some(Wait { delay, until: Some(until), cause: step.cause, circuit: opened });
        Next::Backoff(until.min(now + TELL_EVERY))
    }

    /// Waits for a turn at a circuit. It costs no attempt.
    fn wait_for(&mut self, circuit: Arc<OpenCircuit>, failure: Failure) -> Next {
        let now = Instant::now();
        let cause = Cause { reason: circuit.reason, status: circuit.status_code };
        self.ledger.waits_for(cause);
        self.last = Some(failure);
        if let Some(budget) = self.recovery() {
            budget.start(now);
            let hint = self.last.as_ref().and_then(Failure::hint);
            budget.remember(&self.event(RetryPhase::Exhausted, cause, None), hint);
            if budget.is_spent(now) {
                return Next::Leave(self.spent(now, None));
            }
        }
        // Whoever comes too late for the probe is turned away again and again: that is one wait, and told as one.
        if self.circuit_told.is_none_or(|told| now.saturating_duration_since(told) >= TELL_EVERY) {
            self.tell_circuit(CircuitPhase::Waiting, &circuit, now);
        }
        let turn = circuit.gate.clone().turn();
        self.wait = Some(Wait { delay: Duration::ZERO, until: None, cause, circuit: Some(circuit) });
        Next::Gate(turn, self.look_again(now))
    }

    /// When a wait for a circuit is looked at again.
    fn look_again(&self, now: Instant) -> Instant {
        let next = self.circuit_told.unwrap_or(now) + TELL_EVERY;
        self.recovery().and_then(RecoveryBudget::deadline).map_or(next, |deadline| next.min(deadline))
    }

    /// A part of a wait is over.
    pub(crate) fn tick(&mut self) -> Tick {
        let now = Instant::now();
        if self.recovery().is_some_and(|budget| budget.is_spent(now)) {
            return Tick::Leave(self.spent(now, None));
        }
        let Some(wait) = &self.wait else { return Tick::Over };
        let cause = wait.cause;
        let ahead = wait.circuit.clone().filter(|circuit| wait.until.is_none() || circuit.next_probe > now);
        let (until, delay) = (wait.until, wait.delay);
        match until {
            Some(until) if until <= now => {
                self.wait = None;
                self.begins(cause);
                Tick::Over
            }
            until => {
                if let Some(circuit) = ahead {
                    self.tell_circuit(CircuitPhase::Waiting, &circuit, now);
                }
                match until {
                    Some(until) => {
                        self.tell(RetryPhase::Waiting, cause, Some((delay, until - now)));
                        Tick::More(until.min(now + TELL_EVERY))
                    }
                    None => Tick::More(self.look_again(now)),
                }
            }
        }
    }

    /// The wait for a circuit is over, unless it has lasted too long.
    pub(crate) fn has_turn(&mut self, turn: CircuitTurn) -> Result<(), Failure> {
        self.wait = None;
        self.turn = Some(turn);
        self.may_go_on()
    }

    /// Whether the time for recovery allows another attempt. The last instant is too late.
    pub(crate) fn may_go_on(&mut self) -> Result<(), Failure> {
        let now = Instant::now();
        if self.recovery().is_some_and(|budget| budget.is_spent(now)) {
            self.turn = None;
            return Err(self.spent(now, None));
        }
        Ok(())
    }

    /// Tells that a retry begins.
    fn begins(&self, cause: Cause) {
        self.tell(RetryPhase::Attempt, cause, None);
    }

    /// Tells a retry's success. Without a retry there is nothing to tell.
    pub(crate) fn succeeded(&self) {
        let retried = self.retries() > 0;
        if let Some(cause) = self.ledger.cause().filter(|_| retried) {
            self.tell(RetryPhase::Recovered, cause, None);
        }
        if let Some(budget) = &self.shared.budget {
            let candidate = self.known.selected.as_ref().map(|selected| &selected.candidate);
            budget.refund(candidate, self.ledger.made_here() > 0, Instant::now);
        }
    }

    /// Ends with a service that failed to become ready: it must not be asked again.
    pub(crate) fn leave(&self, failure: Failure) -> Failure {
        let verdict = self.ledger.last(&failure, self.policy());
        self.end(failure, verdict)
    }

    /// Ends because the time for recovery is spent.
    fn spent(&mut self, now: Instant, failure: Option<Failure>) -> Failure {
        let Some(budget) = self.recovery() else { unreachable!("nothing else is spent") };
        let end = budget.end(self.known.context.as_ref(), now);
        match failure.or(self.last.take()) {
            Some(last) => self.complete(end.with_source(last)),
            None => self.complete(end),
        }
    }

    /// Tells the end of retries, and gives the failure what this layer knows.
    fn end(&self, failure: Failure, verdict: Verdict) -> Failure {
        if let Verdict::Exhausted(cause, by) = verdict {
            // Another candidate may go on from here, as long as the request has attempts left.
            let ends_request = self
                .recovery()
                .is_some_and(|budget| self.is_last_candidate() || (self.shares_attempts && !budget.has_attempts()));
            let by = by.filter(|by| *by != ExhaustedBy::AttemptLimit || ends_request);
            let event = || ProviderRetry { exhausted_by: by, ..self.event(RetryPhase::Exhausted, cause, None) };
            Context::emit(self.known.context.as_ref(), || Event::ProviderRetry(event()));
        }
        self.complete(failure)
    }

    fn complete(&self, failure: Failure) -> Failure {
        let hint = failure.hint().or_else(|| self.policy().hint(&failure));
        let failure = failure.with_hint(hint);
        let counted = self.known.context.as_ref().map_or(0, Context::attempts);
        let failure = match if counted > 0 { counted } else { self.asked } {
            0 => failure,
            attempts => failure.with_attempts(attempts),
        };
        match &self.known.selected {
            Some(selected) if failure.candidate().is_none() => {
                failure.with_candidate(selected.candidate.name().clone())
            }
            _ => failure,
        }
    }

    /// Whether an attempt may be followed by one without an output limit: where the candidate allows it, and where there
    /// is one, as far as anybody knows.
    fn could_repair(&self) -> bool {
        // Anthropic's requests have to have a limit, and nothing is known of such refusals of the others.
        let allowed =
            |candidate: &Candidate| candidate.repairs_opaque_rejections() && candidate.family() == Family::OpenAi;
        let has_limit = |candidate: &Candidate| candidate.max_output_tokens().is_some();
        let Some(candidate) = self.known.selected.as_ref().map(|selected| &*selected.candidate) else { return false };
        !self.repaired && allowed(candidate) && (has_limit(candidate) || self.limits_output)
    }

    /// Takes the one repair that a request may have, and marks what is sent from now on.
    fn take_repair(&mut self) -> bool {
        let could = self.could_repair();
        let Some(kept) = self.kept.as_mut().filter(|_| could) else { return false };
        let taken = self.known.context.as_ref().is_none_or(Context::take_repair);
        if taken {
            self.repaired = true;
            self.repairs = true;
            kept.repair();
        }
        taken
    }

    /// How many retries were made: of this candidate, or, where attempts are shared, of all.
    fn retries(&self) -> u32 {
        match self.recovery() {
            Some(budget) if self.shares_attempts => budget.attempts().saturating_sub(1),
            _ => self.ledger.made(),
        }
    }

    /// `wait` is the whole delay and what is left of it.
    fn event(&self, phase: RetryPhase, cause: Cause, wait: Option<(Duration, Duration)>) -> ProviderRetry {
        let recovery = self.recovery();
        let shared = recovery.filter(|_| self.shares_attempts);
        // What is announced has not been made yet, and the attempts of a candidate are not in its ledger.
        let announced = matches!(phase, RetryPhase::Scheduled | RetryPhase::Waiting | RetryPhase::Attempt);
        let attempt = match shared {
            Some(budget) if announced => budget.attempts(),
            _ => self.retries(),
        };
        ProviderRetry {
            candidate: self.known.selected.as_ref().map(|selected| selected.candidate.name().clone()),
            attempt,
            max_retries: shared.map_or_else(|| self.ledger.limit(self.limits), RecoveryBudget::attempt_limit),
            status_code: cause.status,
            delay: wait.map(|(delay, _)| delay),
            next_retry_at: wait.and_then(|(_, left)| SystemTime::now().checked_add(left)),
            mode: recovery.map_or(RecoveryMode::Standard, |_| RecoveryMode::BoundedForeground),
            recovery: recovery.map(RecoveryBudget::snapshot_by_now),
            client_retries: self.client_retries.told(),
            ..ProviderRetry::new(phase, cause.reason)
        }
    }

    fn tell(&self, phase: RetryPhase, cause: Cause, wait: Option<(Duration, Duration)>) {
        if let Some(budget) = self.recovery() {
            let event = self.event(phase, cause, wait);
            budget.remember(&event, self.last.as_ref().and_then(Failure::hint));
            Context::emit(self.known.context.as_ref(), || Event::ProviderRetry(event));
            return;
        }
        Context::emit(self.known.context.as_ref(), || Event::ProviderRetry(self.event(phase, cause, wait)));
    }

    fn tell_circuit(&mut self, phase: CircuitPhase, circuit: &OpenCircuit, now: Instant) {
        if phase == CircuitPhase::Waiting {
            self.circuit_told = Some(now);
        }
        let context = self.known.context.as_ref();
        Context::emit(context, || circuit.event(phase, context, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_call_keeps_for_its_retries_is_small() {
        type Inner = tower::util::BoxCloneService<Request<()>, http::Response<()>, Failure>;
        let size = size_of::<Run<Inner, ()>>();
        assert!(size <= 448, "{size} bytes");
    }
}
