//! Which failure is answered when all candidates fail.

use std::time::Duration;

use stanchion_core::{FailureKind, HintSource, RetryHint};
use stanchion_fallback::Fallback;
use stanchion_testkit::{candidates, request};
use tower::ServiceExt;

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
async fn a_failure_that_ends_the_walk_is_answered_itself() {
    for kind in [FailureKind::RecoveryBudget, FailureKind::Cancelled, FailureKind::ContextOverflow] {
        let replies = [Err(status(FailureKind::RateLimited, 429)), Err(failure(kind))];
        assert_eq!(answered(replies).await, (kind, "b/gpt-x".into()));
    }
}
