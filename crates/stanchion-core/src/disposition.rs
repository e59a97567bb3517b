use std::fmt;

use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::{CredentialOutcome, Failure, FailureKind, Phase, PoolState};

/// Whether the same candidate may be asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Yes, after a backoff, as often as the policy allows.
    Here,
    /// Yes, after a backoff, but only once: the work may go on behind the failure, or the address is wrong.
    Once,
    /// Yes, once at once and free of charge: the request was provably not processed. After that as [`Retry::Here`].
    AtOnce,
    /// No.
    Never,
}

/// What a failure says about the health of its candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitOutcome {
    /// A failure sample.
    Failure,
    /// The candidate works; the request was at fault. No sample.
    Neutral,
    /// Nothing was learnt: a probe gives its lease back.
    Abandon,
    /// The candidate was not even asked.
    Untouched,
}

/// Why a retry is made, as events tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryReason {
    /// The provider limits the rate.
    RateLimit,
    /// The provider failed or is overloaded.
    ServerError,
    /// The connection could not be made, or broke.
    Transport,
    /// The reply ended before it was complete.
    StreamClosed,
    /// A time limit.
    Timeout,
}

/// A class of failures that is terminal by default and that a deployment may send to the next candidate, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackOn {
    /// Quota or credit exhausted: another account may have some.
    Quota,
    /// Credential refused or not permitted: another may be.
    Auth,
    /// Model or path not found: another provider may have it.
    NotFound,
    /// Prompt too long: another model may have a larger window.
    Overflow,
    /// Refused by content policy: another provider's policy may differ.
    Policy,
}

impl FallbackOn {
    const ALL: [Self; 5] = [Self::Quota, Self::Auth, Self::NotFound, Self::Overflow, Self::Policy];

    /// The name used in configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Auth => "auth",
            Self::NotFound => "not_found",
            Self::Overflow => "overflow",
            Self::Policy => "policy",
        }
    }
}

impl fmt::Display for FallbackOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A class of failures that says nothing about a provider's health by default, and at which a deployment may have a
/// circuit open at once, without waiting for more of them, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForceOpenOn {
    /// Credential refused or not permitted: it will be refused again.
    Auth,
    /// Quota or credit exhausted: it does not come back by asking.
    Quota,
}

impl ForceOpenOn {
    const ALL: [Self; 2] = [Self::Auth, Self::Quota];

    /// The name used in configuration.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Quota => "quota",
        }
    }

    /// The class of a kind.
    const fn of(kind: FailureKind) -> Option<Self> {
        match kind {
            FailureKind::Authentication | FailureKind::PermissionDenied => Some(Self::Auth),
            FailureKind::QuotaExhausted => Some(Self::Quota),
            _ => None,
        }
    }
}

impl fmt::Display for ForceOpenOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The few cells of the table that deployments disagree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DispositionRules {
    fallback_on: u8,
    force_open_on: u8,
    rate_limit_opens_circuit: bool,
    overload_opens_circuit: bool,
    retry_on_silence: bool,
}

impl Default for DispositionRules {
    fn default() -> Self {
        Self {
            fallback_on: 0,
            force_open_on: 0,
            rate_limit_opens_circuit: true,
            overload_opens_circuit: true,
            retry_on_silence: false,
        }
    }
}

impl DispositionRules {
    /// Lets a class of failures go on to the next candidate.
    #[must_use]
    pub fn with_fallback_on(mut self, class: FallbackOn) -> Self {
        self.fallback_on |= 1 << class as u8;
        self
    }

    /// Opens a circuit at once at a failure of this class. Default: none does.
    ///
    /// For: what is refused for its account is refused until someone acts (PolyGateway, octos' chain). Against: the
    /// provider is well, and one wrong key closes the door for all who share the circuit.
    #[must_use]
    pub fn with_forced_opening_on(mut self, class: ForceOpenOn) -> Self {
        self.force_open_on |= 1 << class as u8;
        self
    }

    /// Whether a circuit opens at once at a failure of this class.
    pub fn forces_opening_on(&self, class: ForceOpenOn) -> bool {
        self.force_open_on & (1 << class as u8) != 0
    }

    /// The classes at which a circuit opens at once.
    pub fn force_open_on(&self) -> impl Iterator<Item = ForceOpenOn> {
        let rules = *self;
        ForceOpenOn::ALL.into_iter().filter(move |class| rules.forces_opening_on(*class))
    }

    /// Whether a true rate limit (429) is a failure sample for the circuit. Default: yes.
    ///
    /// For: a limited provider should be left alone, and its hint stretches the opening. Against: backpressure is no ill health
    /// (sglang, `OmniRoute`).
    #[must_use]
    pub fn with_rate_limit_opening_circuit(mut self, opens: bool) -> Self {
        self.rate_limit_opens_circuit = opens;
        self
    }

    /// Whether an overload (503, 529) is a failure sample for the circuit. Default: yes, for the same reason.
    #[must_use]
    pub fn with_overload_opening_circuit(mut self, opens: bool) -> Self {
        self.overload_opens_circuit = opens;
        self
    }

    /// Whether a candidate that was silent for too long (first output or idle) is asked again. Default: no.
    ///
    /// For: most systems do (PI-Desktop, Pi, PolyGateway). Against: the wait was long already, and what was silent once is silent again;
    /// the next candidate is the better bet (Blade, octos' client).
    #[must_use]
    pub fn with_retry_on_silence(mut self, retries: bool) -> Self {
        self.retry_on_silence = retries;
        self
    }

    /// Whether a class of failures goes on to the next candidate.
    pub fn falls_back_on(&self, class: FallbackOn) -> bool {
        self.fallback_on & (1 << class as u8) != 0
    }

    /// The classes that go on to the next candidate.
    pub fn fallback_on(&self) -> impl Iterator<Item = FallbackOn> {
        let rules = *self;
        FallbackOn::ALL.into_iter().filter(move |class| rules.falls_back_on(*class))
    }
}

/// What a failure means: the one table that every layer asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disposition {
    /// Whether the same candidate may be asked again.
    pub retry: Retry,
    /// Whether the next candidate may be asked.
    pub fallback: bool,
    /// What the candidate's circuit learns.
    pub circuit: CircuitOutcome,
    /// Whether the circuit opens at once, whatever it has seen before. Only with [`CircuitOutcome::Failure`].
    pub opens_at_once: bool,
    /// What the credential learns that the request was sent with, also after output.
    pub credential: CredentialOutcome,
    /// Why a retry is made, where one is.
    pub reason: RetryReason,
    /// The status at the edge, where the provider's own reply is not given back verbatim.
    pub status: StatusCode,
}

/// The fallback column of the table.
#[derive(Clone, Copy)]
enum Next {
    Yes,
    No,
    If(FallbackOn),
}

/// One row of the table: retry here, next candidate, circuit, reason, status at the edge.
type Row = (Retry, Next, CircuitOutcome, RetryReason, StatusCode);

/// The table. Sources: "cp" is the control plane's §5 and §12.7, "wire" the providers' status and code tables, "os" the comparison of systems.
#[expect(clippy::match_same_arms, reason = "one row a kind, in the order of the kinds")]
const fn row(kind: FailureKind) -> Row {
    use CircuitOutcome::{Abandon, Failure as Bad, Neutral, Untouched};
    use FailureKind as K;
    use Next::{If, No, Yes};
    use Retry::{AtOnce, Here, Never, Once};
    use RetryReason::{RateLimit, ServerError, StreamClosed, Timeout, Transport};
    match kind {
        K::Connect => (Here, Yes, Bad, Transport, StatusCode::BAD_GATEWAY),
        // wire §1.11: provably not processed; no sample, or one proxy restart would open the circuit.
        K::Unprocessed => (AtOnce, Yes, Neutral, Transport, StatusCode::BAD_GATEWAY),
        K::Transport => (Here, Yes, Bad, Transport, StatusCode::BAD_GATEWAY),
        K::Truncated | K::EmptyReply | K::MalformedReply => (Here, Yes, Bad, StreamClosed, StatusCode::BAD_GATEWAY),
        // wire §1.5: a captive portal or a wrong base URL; asked again once, in case a balancer was restarting.
        K::NotModelReply => (Once, Yes, Bad, StreamClosed, StatusCode::BAD_GATEWAY),
        // A silent provider is not asked twice (cp §13.4; os row 38). A silence says nothing sure about its health: abandoned.
        K::FirstOutputTimeout | K::IdleTimeout => (Never, Yes, Abandon, Timeout, StatusCode::GATEWAY_TIMEOUT),
        // cp §12.7 retries it. Its circuit column is "neutral with headers, else abandon", and neutral closes a half-open circuit
        // that learnt nothing; abandoned always, as the control plane's own list of quirks recommends.
        K::TotalTimeout => (Here, Yes, Abandon, Timeout, StatusCode::GATEWAY_TIMEOUT),
        // cp §6.5 counts a true 429; wire §1.7 does not. Ours counts, with its own hint, and the rules can say otherwise.
        K::RateLimited => (Here, Yes, Bad, RateLimit, StatusCode::TOO_MANY_REQUESTS),
        // Terminal whatever the status (cp §5.2 row 2). Never a circuit sample: the account is at fault, not the provider.
        K::QuotaExhausted => (Never, If(FallbackOn::Quota), Neutral, RateLimit, StatusCode::TOO_MANY_REQUESTS),
        K::Overloaded => (Here, Yes, Bad, ServerError, StatusCode::SERVICE_UNAVAILABLE),
        K::ServerError => (Here, Yes, Bad, ServerError, StatusCode::BAD_GATEWAY),
        // wire §1.7: the origin may still be working, and each blind retry is billed.
        K::GatewayTimeout => (Once, Yes, Bad, ServerError, StatusCode::GATEWAY_TIMEOUT),
        // cp §6.5: 408 and 409 are retried and neutral; wire counts 408. Neutral: both are about one request.
        K::RequestTimeout => (Here, Yes, Neutral, Timeout, StatusCode::REQUEST_TIMEOUT),
        K::Conflict => (Here, Yes, Neutral, Timeout, StatusCode::CONFLICT),
        K::TooEarly => (Here, Yes, Neutral, Timeout, StatusCode::TOO_EARLY),
        K::Authentication => (Never, If(FallbackOn::Auth), Neutral, ServerError, StatusCode::UNAUTHORIZED),
        K::PermissionDenied => (Never, If(FallbackOn::Auth), Neutral, ServerError, StatusCode::FORBIDDEN),
        K::NotFound => (Never, If(FallbackOn::NotFound), Neutral, ServerError, StatusCode::NOT_FOUND),
        // Terminal whatever the status: the same prompt can never fit.
        K::ContextOverflow => (Never, If(FallbackOn::Overflow), Neutral, ServerError, StatusCode::BAD_REQUEST),
        K::ContentPolicy => (Never, If(FallbackOn::Policy), Neutral, ServerError, StatusCode::BAD_REQUEST),
        K::InvalidRequest => (Never, No, Neutral, ServerError, StatusCode::BAD_REQUEST),
        // wire §1.7: 501 never changes by asking again, but another provider may offer it.
        K::NotSupported => (Never, Yes, Neutral, ServerError, StatusCode::NOT_IMPLEMENTED),
        K::RequestTooLarge => (Never, No, Neutral, ServerError, StatusCode::PAYLOAD_TOO_LARGE),
        // Our own limit: not retried, not held against the provider.
        K::EventTooLarge => (Never, No, Abandon, ServerError, StatusCode::BAD_GATEWAY),
        K::CircuitOpen => (Never, Yes, Untouched, ServerError, StatusCode::SERVICE_UNAVAILABLE),
        K::QueueFull => (Never, Yes, Untouched, RateLimit, StatusCode::TOO_MANY_REQUESTS),
        K::QueueTimeout | K::QueueClosed => (Never, Yes, Untouched, Timeout, StatusCode::SERVICE_UNAVAILABLE),
        // Nothing is wrong with it, and nothing tells when it is back: the next one is asked.
        K::Drained => (Never, Yes, Untouched, ServerError, StatusCode::SERVICE_UNAVAILABLE),
        K::RecoveryBudget => (Never, No, Abandon, Timeout, StatusCode::GATEWAY_TIMEOUT),
        // Nobody here goes on; it says nothing of the provider.
        K::ShuttingDown => (Never, No, Abandon, ServerError, StatusCode::SERVICE_UNAVAILABLE),
        // 499 is nginx's "client closed request"; nobody is left to read it.
        K::Cancelled => (Never, No, Abandon, Timeout, StatusCode::REQUEST_TIMEOUT),
        // This candidate is set up wrongly; the next one may not be.
        K::Misconfigured => (Never, Yes, Untouched, ServerError, StatusCode::INTERNAL_SERVER_ERROR),
        K::Unknown => (Never, No, Abandon, ServerError, StatusCode::BAD_GATEWAY),
    }
}

/// The credential column of the table.
const fn credential(kind: FailureKind) -> CredentialOutcome {
    use CredentialOutcome::{Exhausted, Limited, PassOver, Refused, Untouched};
    match kind {
        FailureKind::RateLimited => Limited,
        FailureKind::QuotaExhausted => Exhausted,
        FailureKind::Authentication => Refused,
        // os §4.6 treats a 403 as a refused key. It may be about one model of many, and then the key serves the others;
        // who asks for a model that no key may use must not take all of them out. And an open circuit is that of the
        // credential's own failure domain.
        FailureKind::PermissionDenied | FailureKind::CircuitOpen => PassOver,
        _ => Untouched,
    }
}

/// Whether `x-should-retry` can overrule the row: only where the row rests on a status.
const fn rests_on_status(kind: FailureKind) -> bool {
    use FailureKind as K;
    matches!(
        kind,
        K::RateLimited
            | K::Overloaded
            | K::ServerError
            | K::GatewayTimeout
            | K::RequestTimeout
            | K::Conflict
            | K::TooEarly
            | K::Authentication
            | K::PermissionDenied
            | K::NotFound
            | K::InvalidRequest
            | K::NotSupported
            | K::RequestTooLarge
    )
}

impl Disposition {
    /// Looks a failure up.
    ///
    /// Over the table's row stand, in this order: after output nothing is replayed and no circuit changes; and where the row rests
    /// on a status, the provider's `x-should-retry` overrules it both ways. Overflow, quota and content policy rest on the body and stay terminal.
    /// A failure of one credential is asked again at once where [another is ready](PoolState::AnotherReady), whatever the
    /// provider says of the first: it knows of no other. Where [none was](PoolState::NoneReady), nobody was asked.
    pub fn of(failure: &Failure, rules: &DispositionRules) -> Self {
        let kind = failure.kind();
        let (retry, next, circuit, reason, status) = row(kind);
        let mut disposition = Self {
            retry,
            fallback: match next {
                Next::Yes => true,
                Next::No => false,
                Next::If(class) => rules.falls_back_on(class),
            },
            circuit,
            opens_at_once: false,
            credential: credential(kind),
            reason,
            status,
        };
        match kind {
            FailureKind::RateLimited if !rules.rate_limit_opens_circuit => {
                disposition.circuit = CircuitOutcome::Neutral;
            }
            FailureKind::Overloaded if !rules.overload_opens_circuit => disposition.circuit = CircuitOutcome::Neutral,
            FailureKind::FirstOutputTimeout | FailureKind::IdleTimeout if rules.retry_on_silence => {
                disposition.retry = Retry::Here;
            }
            // A server's own 5xx says more than our 502.
            FailureKind::ServerError | FailureKind::Overloaded | FailureKind::GatewayTimeout => {
                if let Some(told) = failure.status().filter(StatusCode::is_server_error) {
                    disposition.status = told;
                }
            }
            _ => {}
        }
        if failure.phase() == Phase::AfterOutput {
            disposition.retry = Retry::Never;
            disposition.fallback = false;
            disposition.circuit = CircuitOutcome::Untouched;
        } else if rests_on_status(kind) {
            match failure.should_retry() {
                Some(false) => {
                    disposition.retry = Retry::Never;
                    disposition.fallback = false;
                    disposition.circuit = CircuitOutcome::Neutral;
                }
                Some(true) => {
                    if disposition.retry == Retry::Never {
                        disposition.retry = Retry::Here;
                        disposition.reason = RetryReason::ServerError;
                    }
                    disposition.fallback = true;
                }
                None => {}
            }
        }
        if failure.phase() != Phase::AfterOutput
            && ForceOpenOn::of(kind).is_some_and(|class| rules.forces_opening_on(class))
        {
            disposition.circuit = CircuitOutcome::Failure;
            disposition.opens_at_once = true;
        }
        match failure.pool().filter(|_| failure.phase() != Phase::AfterOutput) {
            Some(PoolState::AnotherReady) => disposition.retry = Retry::AtOnce,
            Some(PoolState::NoneReady) => {
                disposition.circuit = CircuitOutcome::Untouched;
                disposition.opens_at_once = false;
            }
            None => {}
        }
        disposition
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(failure: &Failure) -> Disposition {
        Disposition::of(failure, &DispositionRules::default())
    }

    fn before_output(kind: FailureKind) -> Failure {
        Failure::new(kind).with_phase(Phase::BeforeOutput)
    }

    #[test]
    fn after_output_nothing_is_replayed_whatever_the_kind_and_the_header() {
        let mut rules = DispositionRules::default();
        for class in FallbackOn::ALL {
            rules = rules.with_fallback_on(class);
        }
        for kind in FailureKind::ALL {
            for should_retry in [None, Some(true), Some(false)] {
                let failure = Failure::new(kind).with_phase(Phase::AfterOutput).with_should_retry(should_retry);
                let disposition = Disposition::of(&failure, &rules);
                assert_eq!(disposition.retry, Retry::Never, "{kind:?}");
                assert!(!disposition.fallback, "{kind:?}");
                assert_eq!(disposition.circuit, CircuitOutcome::Untouched, "{kind:?}");
            }
        }
    }

    #[test]
    fn a_credential_learns_what_is_about_it_also_after_output() {
        use CredentialOutcome::{Exhausted, Limited, PassOver, Refused, Untouched};
        for kind in FailureKind::ALL {
            let expected = match kind {
                FailureKind::RateLimited => Limited,
                FailureKind::QuotaExhausted => Exhausted,
                FailureKind::Authentication => Refused,
                FailureKind::PermissionDenied | FailureKind::CircuitOpen => PassOver,
                _ => Untouched,
            };
            for phase in [Phase::Head, Phase::BeforeOutput, Phase::AfterOutput] {
                assert_eq!(of(&Failure::new(kind).with_phase(phase)).credential, expected, "{kind:?}");
            }
        }
    }

    #[test]
    fn with_another_credential_a_request_is_sent_again_at_once() {
        for kind in FailureKind::ALL {
            for should_retry in [None, Some(true), Some(false)] {
                let failure = before_output(kind).with_should_retry(should_retry).with_another_credential();
                assert_eq!(of(&failure).retry, Retry::AtOnce, "{kind:?}");
                assert_eq!(of(&failure.with_phase(Phase::AfterOutput)).retry, Retry::Never, "{kind:?}");
            }
        }
    }

    #[test]
    fn where_no_credential_was_ready_the_provider_was_not_asked() {
        let forced = DispositionRules::default().with_forced_opening_on(ForceOpenOn::Auth);
        for kind in [FailureKind::RateLimited, FailureKind::QuotaExhausted, FailureKind::Authentication] {
            let plain = of(&before_output(kind));
            let none = Disposition::of(&before_output(kind).with_no_credential(), &forced);
            assert_eq!((none.circuit, none.opens_at_once), (CircuitOutcome::Untouched, false), "{kind:?}");
            assert_eq!(
                (none.retry, none.fallback, none.status),
                (plain.retry, plain.fallback, plain.status),
                "{kind:?}"
            );
        }
    }

    #[test]
    fn a_silent_candidate_is_asked_again_only_where_the_rules_say_so() {
        let again = DispositionRules::default().with_retry_on_silence(true);
        for kind in [FailureKind::FirstOutputTimeout, FailureKind::IdleTimeout] {
            assert_eq!(of(&before_output(kind)).retry, Retry::Never, "{kind:?}");
            assert_eq!(Disposition::of(&before_output(kind), &again).retry, Retry::Here, "{kind:?}");
            let late = Failure::new(kind).with_phase(Phase::AfterOutput);
            assert_eq!(Disposition::of(&late, &again).retry, Retry::Never, "{kind:?}");
        }
    }

    #[test]
    fn what_the_body_decided_no_header_overrules() {
        for kind in [
            FailureKind::ContextOverflow,
            FailureKind::QuotaExhausted,
            FailureKind::ContentPolicy,
            FailureKind::Cancelled,
            FailureKind::RecoveryBudget,
        ] {
            for status in [400, 429, 500, 503] {
                let failure = before_output(kind)
                    .with_status(StatusCode::from_u16(status).unwrap())
                    .with_should_retry(Some(true));
                assert_eq!(of(&failure).retry, Retry::Never, "{kind:?} {status}");
                assert!(!of(&failure).fallback, "{kind:?} {status}");
            }
        }
    }

    #[test]
    fn should_retry_overrules_a_status_both_ways() {
        let refused = before_output(FailureKind::ServerError).with_should_retry(Some(false));
        assert_eq!(
            (of(&refused).retry, of(&refused).fallback, of(&refused).circuit),
            (Retry::Never, false, CircuitOutcome::Neutral)
        );
        let asked = before_output(FailureKind::InvalidRequest).with_should_retry(Some(true));
        assert_eq!(
            (of(&asked).retry, of(&asked).reason, of(&asked).fallback),
            (Retry::Here, RetryReason::ServerError, true)
        );
    }

    #[test]
    fn silence_is_not_asked_twice_and_opens_nothing() {
        for kind in [FailureKind::FirstOutputTimeout, FailureKind::IdleTimeout] {
            let disposition = of(&before_output(kind));
            assert_eq!(
                (disposition.retry, disposition.fallback, disposition.circuit),
                (Retry::Never, true, CircuitOutcome::Abandon)
            );
        }
    }

    #[test]
    fn the_callers_mistakes_open_no_circuit() {
        for kind in [
            FailureKind::InvalidRequest,
            FailureKind::ContextOverflow,
            FailureKind::ContentPolicy,
            FailureKind::RequestTooLarge,
            FailureKind::Authentication,
            FailureKind::QuotaExhausted,
            FailureKind::NotFound,
        ] {
            assert_eq!(of(&before_output(kind)).circuit, CircuitOutcome::Neutral, "{kind:?}");
        }
        assert_eq!(of(&before_output(FailureKind::Cancelled)).circuit, CircuitOutcome::Abandon);
    }

    #[test]
    fn disputed_cells_move_by_name() {
        for (class, kind) in [
            (FallbackOn::Quota, FailureKind::QuotaExhausted),
            (FallbackOn::Auth, FailureKind::Authentication),
            (FallbackOn::Auth, FailureKind::PermissionDenied),
            (FallbackOn::NotFound, FailureKind::NotFound),
            (FallbackOn::Overflow, FailureKind::ContextOverflow),
            (FallbackOn::Policy, FailureKind::ContentPolicy),
        ] {
            assert!(!of(&before_output(kind)).fallback, "{kind:?}");
            let rules = DispositionRules::default().with_fallback_on(class);
            assert!(Disposition::of(&before_output(kind), &rules).fallback, "{kind:?}");
            assert_eq!(rules.fallback_on().collect::<Vec<_>>(), [class]);
        }
        let rules =
            DispositionRules::default().with_rate_limit_opening_circuit(false).with_overload_opening_circuit(false);
        for kind in [FailureKind::RateLimited, FailureKind::Overloaded] {
            assert_eq!(of(&before_output(kind)).circuit, CircuitOutcome::Failure);
            assert_eq!(Disposition::of(&before_output(kind), &rules).circuit, CircuitOutcome::Neutral);
        }
    }

    #[test]
    fn a_circuit_opens_at_once_only_where_the_rules_say_so() {
        for (class, kind) in [
            (ForceOpenOn::Auth, FailureKind::Authentication),
            (ForceOpenOn::Auth, FailureKind::PermissionDenied),
            (ForceOpenOn::Quota, FailureKind::QuotaExhausted),
        ] {
            let failure = before_output(kind).with_should_retry(Some(false));
            assert_eq!((of(&failure).circuit, of(&failure).opens_at_once), (CircuitOutcome::Neutral, false));
            let rules = DispositionRules::default().with_forced_opening_on(class);
            let forced = Disposition::of(&failure, &rules);
            assert_eq!((forced.circuit, forced.opens_at_once), (CircuitOutcome::Failure, true), "{kind:?}");
            assert_eq!((forced.retry, forced.fallback), (of(&failure).retry, of(&failure).fallback));
            let late = Disposition::of(&failure.with_phase(Phase::AfterOutput), &rules);
            assert_eq!((late.circuit, late.opens_at_once), (CircuitOutcome::Untouched, false));
            assert!(!Disposition::of(&before_output(FailureKind::ServerError), &rules).opens_at_once);
            assert_eq!(rules.force_open_on().collect::<Vec<_>>(), [class]);
        }
    }

    #[test]
    fn a_providers_own_5xx_shows_at_the_edge() {
        let overloaded = before_output(FailureKind::Overloaded).with_status(StatusCode::from_u16(529).unwrap());
        assert_eq!(of(&overloaded).status.as_u16(), 529);
        let in_band = before_output(FailureKind::Overloaded).with_status(StatusCode::OK);
        assert_eq!(of(&in_band).status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            of(&before_output(FailureKind::ContextOverflow).with_status(StatusCode::INTERNAL_SERVER_ERROR)).status,
            StatusCode::BAD_REQUEST
        );
    }
}
