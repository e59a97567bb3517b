//! Which failure is answered when all candidates fail.

use std::time::Duration;

use stanchion_core::{Candidate, Candidates, DispositionRules, FailureKind, FallbackOn, Family, HintSource, RetryHint};
use stanchion_fallback::{Fallback, FallbackLayer, OnOverflow};
use stanchion_testkit::{candidates, request};
use tower::{Layer, ServiceExt};

use super::{Reply, Script, failure, status};

/// The kind that is answered, and its candidate.
async fn answered(replies: impl IntoIterator<Item = Reply>) -> (FailureKind, String) {
    let replies: Vec<_> = replies.into_iter().collect();
    let count = replies.len();
    let script = Script::new(replies);
    let service = Fallback::new(script.clone(), candidates(["a", "b", "c"].into_iter().take(count)));
    let failed = service.oneshot(request()).await.unwrap_err();
    assert_eq!(script.asked().len(), count);
    (failed.kind(), failed.candidate().unwrap().to_string())
}

#[tokio::test]
async fn a_refusal_with_its_hint_outlives_what_tells_less() {
    for later in [FailureKind::CircuitOpen, FailureKind::QueueFull, FailureKind::Misconfigured, FailureKind::Connect] {
        let hint = RetryHint::new(Duration::from_secs(20), HintSource::RetryAfter);
        let limited = status(FailureKind::RateLimited, 429).with_hint(Some(hint));
        let script = Script::new([Err(limited), Err(failure(later))]);
        let failed = Fallback::new(script, candidates(["a", "b"])).oneshot(request()).await.unwrap_err();
        assert_eq!((failed.kind(), failed.hint()), (FailureKind::RateLimited, Some(hint)), "{later:?}");
        assert_eq!(&**failed.candidate().unwrap(), "a/gpt-x");
    }
}

#[tokio::test]
async fn of_equals_the_last_is_answered() {
    let down = || Err(status(FailureKind::ServerError, 503));
    assert_eq!(answered([down(), down(), down()]).await, (FailureKind::ServerError, "c/gpt-x".into()));
    let busy = Err(status(FailureKind::Overloaded, 529));
    assert_eq!(answered([down(), busy]).await, (FailureKind::Overloaded, "b/gpt-x".into()));
    let replies = [Err(failure(FailureKind::QueueFull)), Err(failure(FailureKind::CircuitOpen))];
    assert_eq!(answered(replies).await, (FailureKind::CircuitOpen, "b/gpt-x".into()));
}

#[tokio::test]
async fn the_best_may_stand_in_the_middle() {
    let replies = [
        Err(failure(FailureKind::Connect)),
        Err(status(FailureKind::Overloaded, 529)),
        Err(failure(FailureKind::CircuitOpen)),
    ];
    assert_eq!(answered(replies).await, (FailureKind::Overloaded, "b/gpt-x".into()));
    let replies = [
        Err(failure(FailureKind::CircuitOpen)),
        Err(failure(FailureKind::FirstOutputTimeout)),
        Err(failure(FailureKind::QueueTimeout)),
    ];
    assert_eq!(answered(replies).await, (FailureKind::FirstOutputTimeout, "b/gpt-x".into()));
}

#[tokio::test]
async fn what_was_passed_on_for_a_wish_does_not_outlive_what_will_pass() {
    let rules = [FallbackOn::Auth, FallbackOn::Quota, FallbackOn::NotFound, FallbackOn::Policy]
        .into_iter()
        .fold(DispositionRules::default(), DispositionRules::with_fallback_on);
    let windows = || {
        let of = |name, window| Candidate::new(name, Family::OpenAi, "http://x").with_context_window(window);
        Candidates::new([of("a", 8_000), of("b", 128_000)])
    };
    for (kind, code) in [
        (FailureKind::ContextOverflow, 400),
        (FailureKind::Authentication, 401),
        (FailureKind::PermissionDenied, 403),
        (FailureKind::QuotaExhausted, 402),
        (FailureKind::NotFound, 404),
        (FailureKind::ContentPolicy, 400),
    ] {
        for (other, answered) in [
            (failure(FailureKind::CircuitOpen), FailureKind::CircuitOpen),
            (failure(FailureKind::QueueFull), FailureKind::QueueFull),
            (failure(FailureKind::Connect), FailureKind::Connect),
            (status(FailureKind::Overloaded, 529), FailureKind::Overloaded),
            // That will not pass by itself.
            (failure(FailureKind::Misconfigured), kind),
        ] {
            let script = Script::new([Err(status(kind, code)), Err(other)]);
            let layer = FallbackLayer::new(windows()).with_rules(rules).with_overflow(OnOverflow::LargerWindow);
            let failed = layer.layer(script.clone()).oneshot(request()).await.unwrap_err();
            assert_eq!((failed.kind(), script.asked().len()), (answered, 2), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_failure_that_ends_the_walk_is_answered_itself() {
    for kind in [FailureKind::RecoveryBudget, FailureKind::Cancelled, FailureKind::ContextOverflow] {
        let replies = [Err(status(FailureKind::RateLimited, 429)), Err(failure(kind))];
        assert_eq!(answered(replies).await, (kind, "b/gpt-x".into()));
    }
}
