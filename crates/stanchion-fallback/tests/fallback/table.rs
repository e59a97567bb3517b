//! Every row of the table: which kinds of failure are passed on.

use stanchion_core::{Disposition, DispositionRules, FailureKind, FallbackOn, Phase};
use stanchion_fallback::FallbackLayer;
use stanchion_testkit::{candidates, request};
use tower::{Layer, ServiceExt};

use super::{Script, failure, status};

async fn asked(rules: DispositionRules, first: stanchion_core::Failure) -> usize {
    let script = Script::new([Err(first), Ok(())]);
    let layer = FallbackLayer::new(candidates(["a", "b"])).with_rules(rules);
    let passed = layer.layer(script.clone()).oneshot(request()).await.is_ok();
    assert_eq!(passed, script.asked().len() == 2);
    script.asked().len()
}

#[tokio::test]
async fn every_kind_is_passed_on_as_the_table_says() {
    let rules = DispositionRules::default();
    for kind in FailureKind::ALL {
        let expected = if Disposition::of(&failure(kind), &rules).fallback { 2 } else { 1 };
        assert_eq!(asked(rules, failure(kind)).await, expected, "{kind:?}");
    }
}

#[tokio::test]
async fn the_callers_own_failures_are_not_passed_on() {
    for kind in [
        FailureKind::Cancelled,
        FailureKind::RecoveryBudget,
        FailureKind::ContextOverflow,
        FailureKind::QuotaExhausted,
        FailureKind::ContentPolicy,
        FailureKind::InvalidRequest,
        FailureKind::Authentication,
    ] {
        assert_eq!(asked(DispositionRules::default(), failure(kind)).await, 1, "{kind:?}");
    }
}

#[tokio::test]
async fn after_output_nothing_is_passed_on() {
    for kind in FailureKind::ALL {
        let late = failure(kind).with_phase(Phase::AfterOutput);
        assert_eq!(asked(DispositionRules::default(), late).await, 1, "{kind:?}");
    }
}

#[tokio::test]
async fn disputed_failures_are_passed_on_by_name() {
    for (class, kind) in [
        (FallbackOn::Quota, FailureKind::QuotaExhausted),
        (FallbackOn::Auth, FailureKind::PermissionDenied),
        (FallbackOn::NotFound, FailureKind::NotFound),
        (FallbackOn::Overflow, FailureKind::ContextOverflow),
        (FallbackOn::Policy, FailureKind::ContentPolicy),
    ] {
        assert_eq!(asked(DispositionRules::default().with_fallback_on(class), failure(kind)).await, 2, "{class}");
    }
}

#[tokio::test]
async fn the_provider_overrules_a_status_both_ways() {
    let no = status(FailureKind::ServerError, 503).with_should_retry(Some(false));
    assert_eq!(asked(DispositionRules::default(), no).await, 1);
    let yes = status(FailureKind::InvalidRequest, 400).with_should_retry(Some(true));
    assert_eq!(asked(DispositionRules::default(), yes).await, 2);
}
