use stanchion_core::{CircuitOutcome, Disposition, DispositionRules, Failure, FailureKind, HintSource, Phase};

/// How much a failure tells the client. Later is more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// The candidate is set up wrongly: nothing that a client can do about.
    Misconfigured,
    /// What is the end by default, and was passed on for a wish: to ask again does not help, and elsewhere it might.
    Terminal,
    /// The candidate was not asked: our own circuit or queue stood before it.
    NotAsked,
    /// The candidate was asked, and did not answer.
    Asked,
    /// The provider itself said something.
    Answered,
}

impl Rank {
    pub(crate) fn of(failure: &Failure, rules: DispositionRules) -> Self {
        if failure.kind() == FailureKind::Misconfigured {
            Self::Misconfigured
        } else if !Disposition::of(failure, &DispositionRules::default()).fallback {
            Self::Terminal
        } else if !was_asked(failure, rules) {
            Self::NotAsked
        } else if refused(failure) {
            Self::Answered
        } else {
            Self::Asked
        }
    }
}

/// Whether the candidate was asked.
pub(crate) fn was_asked(failure: &Failure, rules: DispositionRules) -> bool {
    let untouched = Disposition::of(failure, &rules).circuit == CircuitOutcome::Untouched;
    // A failure that opened its circuit comes as that circuit, but from behind it.
    let before = matches!(failure.phase(), Phase::Connect) || failure.kind() != FailureKind::CircuitOpen;
    !(untouched && before) || failure.phase() == Phase::AfterOutput
}

/// Whether the provider refused in so many words: a success that broke off tells nothing, and nor does a page that is
/// no reply of a model.
fn refused(failure: &Failure) -> bool {
    let status = failure.status().is_some_and(|status| status.is_client_error() || status.is_server_error());
    // How long a circuit of ours is open is no word of the provider's.
    let hint = failure.hint().is_some_and(|hint| hint.source() != HintSource::Circuit);
    status || failure.code().is_some() || failure.message().is_some() || hint
}

/// The better of two failures: the higher rank, and of equals the later.
pub(crate) fn better(earlier: Option<Failure>, later: Failure, rules: DispositionRules) -> Failure {
    match earlier {
        Some(earlier) if Rank::of(&earlier, rules) > Rank::of(&later, rules) => earlier,
        _ => later,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::StatusCode;
    use stanchion_core::RetryHint;

    use super::*;

    #[test]
    fn failures_are_ranked_by_what_they_tell() {
        let rules = DispositionRules::default();
        let plain = |kind| Failure::new(kind).with_phase(Phase::BeforeOutput);
        let hint = Some(RetryHint::new(Duration::from_secs(8), HintSource::RetryAfter));
        for (failure, rank) in [
            (plain(FailureKind::CircuitOpen).with_phase(Phase::Connect), Rank::NotAsked),
            (plain(FailureKind::QueueFull), Rank::NotAsked),
            (plain(FailureKind::QueueTimeout), Rank::NotAsked),
            (plain(FailureKind::QueueClosed), Rank::NotAsked),
            (plain(FailureKind::Drained), Rank::NotAsked),
            (plain(FailureKind::Misconfigured), Rank::Misconfigured),
            (plain(FailureKind::Authentication).with_status(StatusCode::UNAUTHORIZED), Rank::Terminal),
            (plain(FailureKind::ContextOverflow).with_status(StatusCode::BAD_REQUEST), Rank::Terminal),
            (plain(FailureKind::QuotaExhausted).with_no_credential().with_hint(hint), Rank::Terminal),
            (plain(FailureKind::RateLimited).with_no_credential().with_hint(hint), Rank::NotAsked),
            (plain(FailureKind::Connect), Rank::Asked),
            (plain(FailureKind::IdleTimeout), Rank::Asked),
            (plain(FailureKind::RateLimited), Rank::Asked),
            (plain(FailureKind::RateLimited).with_status(StatusCode::TOO_MANY_REQUESTS), Rank::Answered),
            (plain(FailureKind::Overloaded).with_status(StatusCode::OK).with_code("overloaded_error"), Rank::Answered),
            (plain(FailureKind::Overloaded).with_message("busy"), Rank::Answered),
            (plain(FailureKind::RateLimited).with_hint(hint), Rank::Answered),
            (plain(FailureKind::CircuitOpen).with_phase(Phase::Connect).with_hint(hint), Rank::NotAsked),
            (plain(FailureKind::CircuitOpen).with_hint(hint), Rank::Answered),
            (plain(FailureKind::EmptyReply).with_status(StatusCode::OK), Rank::Asked),
        ] {
            assert_eq!(Rank::of(&failure, rules), rank, "{failure:?}");
        }
    }

    #[test]
    fn what_was_asked_is_an_attempt() {
        let rules = DispositionRules::default();
        let plain = |kind| Failure::new(kind).with_phase(Phase::BeforeOutput);
        for (failure, asked) in [
            (plain(FailureKind::Authentication), true),
            (plain(FailureKind::Authentication).with_no_credential(), false),
            (plain(FailureKind::Misconfigured), false),
            (plain(FailureKind::CircuitOpen), true),
            (plain(FailureKind::CircuitOpen).with_phase(Phase::Connect), false),
            (plain(FailureKind::QueueFull), false),
            (plain(FailureKind::ServerError).with_phase(Phase::AfterOutput), true),
        ] {
            assert_eq!(was_asked(&failure, rules), asked, "{failure:?}");
        }
    }

    #[test]
    fn of_equals_the_later_is_better() {
        let rules = DispositionRules::default();
        let told = |kind, status| Failure::new(kind).with_status(StatusCode::from_u16(status).unwrap());
        let pairs = [
            (told(FailureKind::RateLimited, 429), told(FailureKind::ServerError, 500), FailureKind::ServerError),
            (told(FailureKind::RateLimited, 429), Failure::new(FailureKind::Connect), FailureKind::RateLimited),
            (Failure::new(FailureKind::Connect), told(FailureKind::RateLimited, 429), FailureKind::RateLimited),
            (
                Failure::new(FailureKind::Connect),
                Failure::new(FailureKind::CircuitOpen).with_phase(Phase::Connect),
                FailureKind::Connect,
            ),
            (
                Failure::new(FailureKind::CircuitOpen).with_phase(Phase::Connect),
                Failure::new(FailureKind::QueueFull),
                FailureKind::QueueFull,
            ),
        ];
        for (earlier, later, best) in pairs {
            assert_eq!(better(Some(earlier), later, rules).kind(), best);
        }
        assert_eq!(better(None, Failure::new(FailureKind::QueueFull), rules).kind(), FailureKind::QueueFull);
    }
}
